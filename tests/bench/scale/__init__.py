"""One event among very many nodes: real apiserver, slurmctld, operator and syncer; Nodes and pods kept by KWOK."""

from tests.bench.scale.measure import measure

__all__ = ["measure"]
