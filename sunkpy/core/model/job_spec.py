"""What is asked of Slurm for a job: one value, from the annotations that people write to the body of a request."""

from __future__ import annotations

import msgspec


class Switches(msgspec.Struct, frozen=True, kw_only=True):
    """The most leaf switches, and how long to wait for them (man sbatch, --switches); None: as Slurm says."""

    count: int
    wait_s: int | None = None

    def __str__(self) -> str:
        return f"{self.count}" if self.wait_s is None else f"{self.count} within {self.wait_s} s"


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job: first what annotations may ask, then its size. Empty and None: as Slurm says. Memory in MiB.

    `user`: whose job it is; empty is the scheduler's own Slurm user. `time_limit_min`: None is the partition's default,
    0 is unlimited. `dependency` as sbatch reads it. `shared` is who else may use the nodes: `none`, `user`, `mcs`,
    `topo` (man sbatch, --exclusive). `on_preemption`: `evict` the pods, or `suspend` the owner where it can be.
    `tasks` may share nodes where memory and GRES are asked per cpu and per task: at least `minimum_nodes`, at most
    `maximum_nodes`. `whole_nodes`: nobody else may use them, whatever `shared` says. `gres_…` in Slurm's TRES syntax:
    `gres/gpu:h100:2`.
    `segment`: how many nodes at a time are in one block (man sbatch, --segment).
    `at_once`: it is first asked for as an allocation, which Slurm grants or refuses there and then; what it refuses is
    queued under `script`. `by_slurm`: read from the job, with Slurm's defaults in the place of what nobody asked for.
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
