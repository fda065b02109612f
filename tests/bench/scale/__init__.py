"""One event among very many nodes: real apiserver, slurmctld, operator and syncer; KWOK keeps Nodes and pods."""

from tests.bench.scale.measure import measure

__all__ = ["measure"]
