"""Thousands of pods at once, and what must not wait meanwhile: on simulated nodes, without a cluster."""

from tests.bench.burst.measure import measure

__all__ = ["measure"]
