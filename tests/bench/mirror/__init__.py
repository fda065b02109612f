"""What the mirror costs by the number of nodes: the real syncer in memory, no cluster."""

from tests.bench.mirror.measure import SIZES, measure

__all__ = ["SIZES", "measure"]
