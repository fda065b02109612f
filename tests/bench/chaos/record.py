"""What an observer recorded: the values that `judge` and `story` work on. All times are seconds since the epoch."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tests.bench.chaos.schedule import PlannedFault, PlannedJob


class Owner(msgspec.Struct, frozen=True, order=True):
    """The owner of processes: a pod by its name, or one run of a Slurm job by its name (a requeued job runs again)."""

    door: str
    name: str
    run: int = 0

    @property
    def text(self) -> str:
        """The owner in words: `pod chaos-7`, `job chaos-9`, `job chaos-9 (run 2)`."""
        return f"{self.door} {self.name}" + (f" (run {self.run})" if self.run else "")


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """Processes of one owner on one node at one moment. `pod_uid`: the pod in whose cgroup they are."""

    node: str
    owner: Owner
    pod_uid: str
    pids: tuple[int, ...]


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """All processes of the load that ran at `at_s`. If a node has two owners, two scans found the processes of both."""

    at_s: float
    running: tuple[Running, ...] = ()


class SlurmLook(msgspec.Struct, frozen=True, kw_only=True):
    """Slurm's nodes by name and jobs by id, each as the keys and values that scontrol printed. The answer was there at
    `at_s`, and tells of some moment of the `took_s` seconds before.
    """

    at_s: float
    took_s: float = 0.0
    nodes: Mapping[str, Mapping[str, str]] = {}
    jobs: Mapping[int, Mapping[str, str]] = {}


class Inflicted(msgspec.Struct, frozen=True, kw_only=True):
    """A fault as it happened: in effect from `held_s` on, being undone from `mending_s` on. None: nothing to undo."""

    planned: PlannedFault
    begun_s: float
    held_s: float
    mending_s: float | None = None
    mended_s: float | None = None
    slurm_node: str = ""
    said: str = ""

    @property
    def last_s(self) -> float:
        """The last moment at which the fault was in effect, as far as is known."""
        return self.mended_s or self.held_s

    @property
    def reason(self) -> str:
        return reason_of(self.planned)


def reason_of(planned: PlannedFault) -> str:
    """Return the reason of the run's own drains and cordons, which differs from every reason of sunkpy."""
    return f"chaos {planned.number}"


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A line of a batch script: `start`, `term` or `end`, when, on which Slurm node, in which run of the job."""

    what: str
    at_s: float
    node: str
    run: int


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A job of the load that Slurm or Kubernetes accepted, or may have accepted although the answer was lost."""

    planned: PlannedJob
    name: str
    asked_s: float
    is_answered: bool = True


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """A slurmd pod that got a deletion timestamp or was gone, as the watch showed it."""

    at_s: float
    pod: str
    uid: str
    node: str
    annotations: Mapping[str, str] = {}


class PodSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A pod of the load after a change, as the watch showed it; `phase` is Gone once it was deleted."""

    at_s: float
    name: str
    uid: str
    phase: str
    node: str = ""
    job: str = ""
    is_deleting: bool = False
    why: str = ""


class CordonSeen(msgspec.Struct, frozen=True, kw_only=True):
    """The cordon of a Node after a change, as the watch showed it."""

    at_s: float
    name: str
    is_cordoned: bool
    cordoned_by: str = ""


class Event(msgspec.Struct, frozen=True):
    """A line in the story of a run. `node`: the Kubernetes node; empty if the whole cluster is concerned."""

    at_s: float
    text: str
    node: str = ""


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How the run ended, after the last fault. At `cleared_s` it deletes what is left of its load.

    `agreed_after_s`: when both sides agreed about all nodes; None if they never did, and `disagreed` says about what.
    `forgotten`: jobs whose end slurmctld had forgotten, and that the run cancelled as an administrator would.
    `lifted_again`: nodes whose drain was lifted while their slurmd pod went, and that the run lifted once more.
    """

    agreed_after_s: float | None = None
    disagreed: str = ""
    forgotten: tuple[str, ...] = ()
    lifted_again: tuple[str, ...] = ()
    left_over: tuple[str, ...] = ()
    leaked: tuple[str, ...] = ()
    cleared_s: float = float("inf")


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was seen in a run. `slurm_nodes`: Kubernetes node → the name of its Slurm node."""

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
