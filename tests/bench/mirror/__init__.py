"""What the mirror costs by the number of nodes: the real syncer in memory, no cluster."""

from tests.bench.mirror.measure import measure

__all__ = ["measure"]
