"""What an observer wrote down: the values that `judge` and `story` work on. All times are seconds since the epoch."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tests.bench.chaos.schedule import PlannedFault, PlannedJob


class Owner(msgspec.Struct, frozen=True, order=True):
    """Whose processes: a pod by its name, or one run of a Slurm job by its name (a requeued job runs again)."""

    door: str
    name: str
    run: int = 0

    @property
    def text(self) -> str:
        """`pod chaos-7`, `job chaos-9`, `job chaos-9 (run 2)`."""
        return f"{self.door} {self.name}" + (f" (run {self.run})" if self.run else "")


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """Processes of one owner on one node at one moment. `pod_uid` is the pod in whose cgroup they are."""

    node: str
    owner: Owner
    pod_uid: str
    pids: tuple[int, ...]


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """All that ran at `at_s`. Where a node has two owners, both were seen twice, before and after each other."""

    at_s: float
    running: tuple[Running, ...] = ()


class SlurmLook(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes by name and jobs by id as scontrol printed them, key to value."""

    at_s: float
    nodes: Mapping[str, Mapping[str, str]] = {}
    jobs: Mapping[int, Mapping[str, str]] = {}


class Inflicted(msgspec.Struct, frozen=True, kw_only=True):
    """A fault as it happened: it held from `held_s` on, and its end began at `mending_s`; None: nothing to undo."""

    planned: PlannedFault
    begun_s: float
    held_s: float
    mending_s: float | None = None
    mended_s: float | None = None
    slurm_node: str = ""
    said: str = ""

    @property
    def last_s(self) -> float:
        """The last moment at which it was known to act."""
        return self.mended_s or self.held_s

    @property
    def reason(self) -> str:
        """What an admin or a person writes beside it."""
        return reason_of(self.planned)


def reason_of(planned: PlannedFault) -> str:
    """The reason by which the run knows its own drains and cordons: never one of sunkpy's."""
    return f"chaos {planned.number}"


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """What a batch script wrote: `start`, `term` or `end`, when, on which Slurm node, in which run of the job."""

    what: str
    at_s: float
    node: str
    run: int


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A job of the load that Slurm or Kubernetes took, or may have taken although the answer was lost."""

    planned: PlannedJob
    name: str
    asked_s: float
    is_answered: bool = True


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """A slurmd pod was told to go, or went, as the watch showed it."""

    at_s: float
    pod: str
    uid: str
    node: str
    annotations: Mapping[str, str] = {}


class PodSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A pod of the load as the watch showed it after a change; `phase` is Gone when it went."""

    at_s: float
    name: str
    uid: str
    phase: str
    node: str = ""
    job: str = ""
    is_deleting: bool = False
    why: str = ""


class CordonSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A Node as the watch showed it."""

    at_s: float
    name: str
    is_cordoned: bool
    cordoned_by: str = ""


class Event(msgspec.Struct, frozen=True):
    """A line of the chronicle. `node` is the Kubernetes node; empty: concerns all."""

    at_s: float
    text: str
    node: str = ""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How the run ended, after the last fault. From `cleared_s` on it deletes what is left of its load.

    `agreed_after_s` is None when the two sides never agreed: `disagreed` says about what. `forgotten`: jobs whose end
    slurmctld had forgotten, and that the run ended as an admin would.
    """

    agreed_after_s: float | None = None
    disagreed: str = ""
    forgotten: tuple[str, ...] = ()
    left_over: tuple[str, ...] = ()
    leaked: tuple[str, ...] = ()
    cleared_s: float = float("inf")


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Everything seen in a run. `slurm_nodes`: Kubernetes node to the name of its Slurm node."""

    started_s: float
    slurm_nodes: Mapping[str, str]
    samples: tuple[Sample, ...] = ()
    looks: tuple[SlurmLook, ...] = ()
    faults: tuple[Inflicted, ...] = ()
    jobs: tuple[Accepted, ...] = ()
    lines: Mapping[str, tuple[Line, ...]] = {}
    deletions: tuple[Deletion, ...] = ()
    cordons: tuple[CordonSeen, ...] = ()
    pods: tuple[PodSeen, ...] = ()
    deleted_by_run: frozenset[str] = frozenset()
    ending: Ending = Ending()
