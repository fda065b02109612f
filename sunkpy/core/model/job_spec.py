"""A request for a Slurm job as one value. It is filled from pods' annotations, and the body of the request to
slurmrestd is made from it.
"""

from __future__ import annotations

import msgspec


class Switches(msgspec.Struct, frozen=True, kw_only=True):
    """The most leaf switches that a job may span, and the seconds to wait for so few (man sbatch, --switches). If
    `wait_s` is None, Slurm decides.
    """

    count: int
    wait_s: int | None = None

    def __str__(self) -> str:
        return f"{self.count}" if self.wait_s is None else f"{self.count} within {self.wait_s} s"


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request for a Slurm job: first what annotations may set, then its size. Memory is in MiB. A field that is empty
    or None is left to Slurm.

    `user` is the job's owner; empty means the scheduler's own Slurm user. `time_limit_min`: None is the partition's
    default, 0 is unlimited. `dependency` has sbatch's syntax. `shared` says who else may use the nodes: `none`, `user`,
    `mcs`, `topo` (man sbatch, --exclusive). `on_preemption`: `evict` the pods, or `suspend` their owner if its kind
    allows that.

    The job gets `minimum_nodes` to `maximum_nodes` nodes. Its `tasks` may share a node if memory and GRES are per cpu
    and per task. `whole_nodes`: no other job may use the nodes, whatever `shared` says. `gres_…` has Slurm's TRES
    syntax: `gres/gpu:h100:2`. `segment`: how many nodes at a time are in one block (man sbatch, --segment).

    `at_once`: first ask for an allocation, which Slurm grants or refuses at once; if it refuses, queue a job with
    `script`. `by_slurm`: the spec was read from a job, so Slurm's defaults fill what nobody asked for.
    """

    name: str = ""
    comment: str = ""
    partition: str = ""
    account: str = ""
    qos: str = ""
    reservation: str = ""
    constraint: str = ""
    licenses: str = ""
    dependency: str = ""
    switches: Switches | None = None
    segment: int | None = None
    time_limit_min: int | None = None
    shared: str = ""
    wckey: str = ""
    gpu_type: str = ""
    user: str = ""
    on_preemption: str = "evict"
    tasks: int = 1
    cpus_per_task: int = 1
    minimum_nodes: int = 1
    maximum_nodes: int = 1
    whole_nodes: bool = False
    memory_mib_per_node: int = 0
    memory_mib_per_cpu: int = 0
    gres_per_node: str = ""
    gres_per_task: str = ""
    excluded_nodes: tuple[str, ...] = ()
    required_nodes: tuple[str, ...] = ()
    script: str = ""
    at_once: bool = False
    hold: bool = False
    by_slurm: bool = False
