"""Thousands of pods at once, and how long other pods wait meanwhile: on simulated nodes, without a cluster."""
