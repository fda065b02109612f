"""A client of slurmrestd: typed requests and answers, errors by Slurm's numbers, and a cache of all nodes."""

from sunkpy.slurm.auth import token_source
from sunkpy.slurm.cache import NodeCache, Observation
from sunkpy.slurm.client import Partition, Ping, Slurm
from sunkpy.slurm.jobs import Submitted
from sunkpy.slurm.nodes import NodeChange, NodesSnapshot, NotModified
from sunkpy.slurm.recorder import Recorder

__all__ = [
    "NodeCache",
    "NodeChange",
    "NodesSnapshot",
    "NotModified",
    "Observation",
    "Partition",
    "Ping",
    "Recorder",
    "Slurm",
    "Submitted",
    "token_source",
]
