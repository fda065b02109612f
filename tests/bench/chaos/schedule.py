"""The plan of a run, made from its seed alone: which faults, where, for how long, and which pods and jobs.

Pure: the same seed, length and number of nodes give the same plan, so a run can be repeated. When each step really
happens depends on the cluster: a fault that needs the apiserver waits for it, and the run records the time.

Faults are drawn from a bag with every kind, so a few minutes have each kind once, and half an hour has each several
times. At most `AT_ONCE` are in effect at a time, and none that would undo another. Kills of the parts of accounting
follow a plan of their own: nothing that the judge checks may depend on these parts.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Sequence

import msgspec

AT_ONCE = 3
FIRST_FAULT_S = 20.0
_GAP_S = (5.0, 16.0)
_REST_S = 30.0
"""For how many seconds after its end a fault's target gets no fault of the same sort."""


class Fault(enum.StrEnum):
    """What is done to the cluster: to a Kubernetes node, or for KILL to a part of sunkpy or Slurm."""

    KILL = "kill -9"
    KILL_SLURMD = "kill -9 slurmd"
    DELETE_SLURMD = "force-delete slurmd pod"
    APISERVER = "kill apiserver"
    KUBELET = "kill kubelet"
    CUT = "cut network"
    DOWN = "admin down"
    DRAIN = "admin drain"
    FAIL = "admin fail"
    DOWN_RESUME = "admin down and resume"
    RECONFIGURE = "reconfigure"
    CORDON = "person cordons"
    SCALE = "scale NodeSet"
    ROLL = "roll NodeSet"
    OUTAGE = "no"
    """A part is scaled to zero for minutes; used only by the bench `outage`."""
    UPGRADE = "upgrade to"
    """All images change to those of another suite; used only by the bench `upgrade`."""


PARTS = ("operator", "syncer", "scheduler", "slurmctld", "slurmrestd")
ACCOUNTING = ("slurmdbd", "mariadb", "accounts")
_ACCOUNTING_GAP_S = (40.0, 80.0)
ADMIN_STATES = {Fault.DOWN: "down", Fault.DRAIN: "drain", Fault.FAIL: "fail"}
ENDS_JOBS = frozenset({Fault.KILL_SLURMD, Fault.DELETE_SLURMD, Fault.CUT, Fault.DOWN, Fault.DOWN_RESUME})
"""Faults on a node for which Slurm may end the jobs there."""

_LASTS_S = {
    Fault.APISERVER: (3.0, 12.0),
    Fault.KUBELET: (5.0, 30.0),
    # Slurm sets a node DOWN after a minute without an answer: some cuts are shorter, some longer.
    Fault.CUT: (10.0, 80.0),
    Fault.DOWN: (10.0, 40.0),
    Fault.DRAIN: (10.0, 60.0),
    Fault.FAIL: (10.0, 40.0),
    Fault.CORDON: (10.0, 60.0),
    Fault.SCALE: (20.0, 60.0),
    # Nothing undoes a roll. It waits for running jobs, so it gets this long.
    Fault.ROLL: (60.0, 60.0),
}
_OF_CLUSTER = {
    Fault.APISERVER: "apiserver",
    Fault.RECONFIGURE: "slurmctld",
    Fault.SCALE: "NodeSet",
    Fault.ROLL: "NodeSet",
}
_BAG: Sequence[tuple[Fault, str]] = (
    *((Fault.KILL, part) for part in PARTS),
    *((fault, "") for fault in Fault if fault not in (Fault.KILL, Fault.OUTAGE, Fault.UPGRADE)),
    # Faults that have broken the hand-over before are twice in the bag.
    *((fault, "") for fault in (Fault.KILL_SLURMD, Fault.DOWN_RESUME, Fault.RECONFIGURE, Fault.CORDON, Fault.DRAIN)),
    (Fault.KILL, "scheduler"),
)


class Door(enum.StrEnum):
    POD = "pod"
    SBATCH = "sbatch"


class Manner(enum.StrEnum):
    """How a workload reacts to SIGTERM. DAEMON ends at once, and leaves a process of its own running."""

    PROMPT = "prompt"
    TIDY = "tidy"
    STUBBORN = "stubborn"
    DAEMON = "daemon"


class PlannedFault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that begins `at_s` seconds after the start, and is undone `lasts_s` seconds later if that is not 0."""

    number: int
    at_s: float
    fault: Fault
    target: str
    lasts_s: float = 0.0

    @property
    def ends_s(self) -> float:
        return self.at_s + self.lasts_s

    @property
    def text(self) -> str:
        """The fault in words: `#7 cut network node-2`."""
        return f"#{self.number} {self.fault} {self.target}"


class PlannedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A pod or job that takes a whole node for `lasts_s` seconds; with `is_deleted` the run deletes it then."""

    number: int
    at_s: float
    door: Door
    partition: str
    manner: Manner
    lasts_s: float
    grace_s: int = 0
    is_deleted: bool = False


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All that a run does. From `quiet_s` on it only observes, until `end_s` or until everything has ended."""

    seed: int
    quiet_s: float
    end_s: float
    faults: tuple[PlannedFault, ...]
    jobs: tuple[PlannedJob, ...]


def make_plan(*, seed: int, minutes: float, nodes: Sequence[str]) -> Plan:
    end_s = minutes * 60
    quiet_s = end_s - min(max(end_s / 10, 75.0), 180.0)
    rng = random.Random(seed)
    jobs = plan_jobs(rng, until_s=quiet_s - 30, nodes=len(nodes), are_long=minutes >= 10, misbehave=True)
    faults = plan_faults(random.Random(seed), until_s=quiet_s, nodes=nodes)
    kills = plan_accounting(random.Random(f"{seed} accounting"), until_s=quiet_s)
    return Plan(seed=seed, quiet_s=quiet_s, end_s=end_s, faults=in_order(faults + kills), jobs=jobs)


def plan_faults(rng: random.Random, *, until_s: float, nodes: Sequence[str]) -> tuple[PlannedFault, ...]:
    """Return faults in order of time, all undone by `until_s`."""
    planned: list[PlannedFault] = []
    bag: list[tuple[Fault, str]] = []
    at_s = FIRST_FAULT_S
    while at_s < until_s:
        bag = bag or rng.sample(_BAG, len(_BAG))
        drawn = _draw(rng, bag, planned, at_s=at_s, until_s=until_s, nodes=nodes)
        if drawn is not None:
            planned.append(drawn)
        at_s = round(at_s + rng.uniform(*_GAP_S), 1)
    return tuple(planned)


def plan_accounting(rng: random.Random, *, until_s: float) -> tuple[PlannedFault, ...]:
    """Return kills of the parts of accounting, one after another. Parts that the cluster lacks are not killed."""
    planned: list[PlannedFault] = []
    bag: list[str] = []
    at_s = round(rng.uniform(*_ACCOUNTING_GAP_S), 1)
    while at_s < until_s:
        bag = bag or rng.sample(ACCOUNTING, len(ACCOUNTING))
        planned.append(PlannedFault(number=len(planned) + 1, at_s=at_s, fault=Fault.KILL, target=bag.pop()))
        at_s = round(at_s + rng.uniform(*_ACCOUNTING_GAP_S), 1)
    return tuple(planned)


def in_order(faults: Sequence[PlannedFault]) -> tuple[PlannedFault, ...]:
    """Return the faults sorted by time, and numbered in this order."""
    sorted_ = sorted(faults, key=lambda fault: fault.at_s)
    return tuple(msgspec.structs.replace(fault, number=number) for number, fault in enumerate(sorted_, start=1))


def _draw(
    rng: random.Random,
    bag: list[tuple[Fault, str]],
    planned: Sequence[PlannedFault],
    *,
    at_s: float,
    until_s: float,
    nodes: Sequence[str],
) -> PlannedFault | None:
    """Remove the first fault from the bag that may begin now and return it; None if none may."""
    if sum(other.ends_s > at_s for other in planned) >= AT_ONCE:
        return None
    node = rng.choice(nodes)
    for index, (fault, part) in enumerate(bag):
        lasts_s = round(rng.uniform(*_LASTS_S[fault]), 1) if fault in _LASTS_S else 0.0
        target = part or _OF_CLUSTER.get(fault, node)
        new = PlannedFault(number=len(planned) + 1, at_s=at_s, fault=fault, target=target, lasts_s=lasts_s)
        if new.ends_s <= until_s and not any(clash(new, other) for other in planned):
            del bag[index]
            return new
    return None


def clash(new: PlannedFault, old: PlannedFault) -> bool:
    """True if one of two faults on the same thing would undo the other, or hit what has not recovered."""
    if claim(new) != claim(old):
        return False
    return new.at_s < old.ends_s + _REST_S


def claim(planned: PlannedFault) -> str:
    """Return the thing that a fault acts on: a part, or a node's slurmd, network or Slurm state. Two faults with an
    equal claim must not act at the same time.
    """
    match planned.fault:
        case Fault.KILL_SLURMD | Fault.DELETE_SLURMD:
            return f"slurmd {planned.target}"
        case Fault.DOWN | Fault.DRAIN | Fault.FAIL | Fault.DOWN_RESUME:
            return f"Slurm state {planned.target}"
        case Fault.CUT | Fault.KUBELET | Fault.CORDON:
            return f"{planned.fault} {planned.target}"
        case _:
            return planned.target


def plan_jobs(
    rng: random.Random, *, until_s: float, nodes: int, are_long: bool, misbehave: bool
) -> tuple[PlannedJob, ...]:
    """Return pods and jobs, about as many as the nodes run with one of three out: the queue is seldom empty."""
    planned: list[PlannedJob] = []
    at_s = 5.0
    while at_s < until_s:
        planned.append(_plan_job(rng, number=len(planned) + 1, at_s=at_s, are_long=are_long, misbehave=misbehave))
        at_s = round(at_s + rng.uniform(4.5, 10.5) * 3 / nodes, 1)
    return tuple(planned)


def _plan_job(rng: random.Random, *, number: int, at_s: float, are_long: bool, misbehave: bool) -> PlannedJob:
    # Every job makes all draws, so that a change of one rule does not change all later jobs.
    kind, is_deleted = rng.random(), rng.random() < 0.3
    manner = rng.choices(list(Manner), weights=(4, 2, 4, 1))[0]
    lasts_s, grace_s = round(rng.uniform(3.0, 20.0), 1), _grace_s(rng, are_long=are_long)
    if kind < 0.5:
        # Pods live long enough for jobs of the higher partition to preempt some.
        lasts_s = round(2.5 * lasts_s, 1)
        manner = Manner.STUBBORN if manner is Manner.DAEMON else manner
        return PlannedJob(
            number=number, at_s=at_s, door=Door.POD, partition="low", manner=manner, lasts_s=lasts_s,
            grace_s=grace_s, is_deleted=is_deleted,
        )  # fmt: skip
    if manner is Manner.DAEMON and not misbehave:
        manner = Manner.PROMPT
    partition = "low" if kind < 0.7 else "high"
    return PlannedJob(number=number, at_s=at_s, door=Door.SBATCH, partition=partition, manner=manner, lasts_s=lasts_s)


def _grace_s(rng: random.Random, *, are_long: bool) -> int:
    """Return a grace period of 1 to 60 s. Long ones are rare in short runs, which have no time for many."""
    is_long, short_s, long_s = rng.random() < (0.3 if are_long else 0.08), rng.randint(1, 15), rng.randint(16, 60)
    return long_s if is_long else short_s
