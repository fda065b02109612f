"""Client of slurmrestd: typed questions and answers, errors by number, a cache of the nodes."""

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
