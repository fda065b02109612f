"""Thousands of pods at once, and what must not wait meanwhile: on simulated nodes, without a cluster."""
