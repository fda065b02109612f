"""What `sunkpy drain`, `undrain` and `verify` change in Kubernetes and in Slurm, and what they leave alone: nobody
lifts by accident what somebody else has set.

Who holds a node is what `find_holds` says. A hold is one's own, or it is named (`set_by`), or it stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from sunkpy.core import names
from sunkpy.core.explain.explanation import Explanation, Line
from sunkpy.core.health import State, read_record
from sunkpy.core.health.verification import FAILED, verify_s
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.model.states import SlurmNode
from sunkpy.core.overview.drained import Door, HeldNode, Hold, held_by, still_there, subject_of
from sunkpy.core.overview.job_ends import JobEnd, job_end_text
from sunkpy.core.overview.table import Table, printable

_NOT_ASKED: Final = "Slurm was not asked: see what was not read"


class DrainAsker(msgspec.Struct, frozen=True, kw_only=True):
    """The person who asks, by their name in Kubernetes and in Slurm (empty: not known), and whose holds they name."""

    in_kubernetes: str = ""
    in_slurm: str = ""
    set_by: frozenset[str] = frozenset()

    def may_change(self, hold: Hold) -> bool:
        """True if the hold is the asking person's own, or was named by them."""
        own = self.in_kubernetes if hold.door == Door.KUBERNETES else self.in_slurm
        return hold.owner in self.set_by or bool(own and hold.who == own)


class NodeNow(msgspec.Struct, frozen=True, kw_only=True):
    """A node as it was read a moment ago, its slurmd pod, and all that hold it. `slurm` None: Slurm was not asked."""

    held: HeldNode
    node: Node | None = None
    pod: Pod | None = None
    slurm: SlurmNode | None = None


class Cordon(msgspec.Struct, frozen=True):
    """Cordon the Node for a reason, and note who wants it."""

    reason: str
    by: str

    def __str__(self) -> str:
        by = f", by {self.by}" if self.by else ""
        return f"cordon the Node for {self.reason!r}{by}; the syncer drains it in Slurm"


class Uncordon(msgspec.Struct, frozen=True):
    """Uncordon the Node, and forget the reason."""

    def __str__(self) -> str:
        return "uncordon the Node; the syncer lifts the drain that it set for the cordon"


class Drain(msgspec.Struct, frozen=True):
    """Drain the Slurm node for a reason."""

    reason: str

    def __str__(self) -> str:
        return f"drain the Slurm node for {self.reason!r}; the operator cordons the Node"


class Resume(msgspec.Struct, frozen=True):
    """Lift what a person or Slurm itself set on the Slurm node; `state`: by which transition."""

    state: str

    def __str__(self) -> str:
        return f"set the Slurm node to {self.state}; the operator lifts the cordon that it set for the drain"


class Verify(msgspec.Struct, frozen=True):
    """Ask the operator for the site's check, and note who wants it."""

    by: str

    def __str__(self) -> str:
        return "ask for its check; the operator drains it, has it checked once it is idle, and gives it back"


DrainStep = Cordon | Uncordon | Drain | Resume | Verify


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """The steps that are taken, and what stays as it is with the reason."""

    steps: tuple[DrainStep, ...] = ()
    left: tuple[str, ...] = ()


class DrainOutcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was done to a node, or would be done (`is_done` false): the node with all that held it before, each step,
    what stays as it is and why, and the jobs there.
    """

    node: HeldNode
    is_done: bool
    steps: tuple[str, ...]
    left: tuple[str, ...]
    job_ends: tuple[JobEnd, ...] = ()


class Outcomes(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The outcome for each node that was named; `unread`: what could not be read."""

    outcomes: tuple[DrainOutcome, ...]
    unread: tuple[str, ...] = ()


def plan_drain(now: NodeNow, door: Door, reason: str, asker: DrainAsker) -> Steps:
    """The steps that take a node out at one door. There the reason of others stays, unless the person names them."""
    here = [
        hold for hold in now.held.holds if hold.by_hand and (hold.door == Door.KUBERNETES) == (door == Door.KUBERNETES)
    ]
    if theirs := tuple(_is_theirs(hold) for hold in here if not asker.may_change(hold)):
        return Steps(left=theirs)
    problem = _in_the_way_of_cordon(now.node, reason) if door == Door.KUBERNETES else _in_the_way_of_drain(now, reason)
    if problem:
        return Steps(left=(problem,))
    return Steps(steps=(Cordon(reason, asker.in_kubernetes) if door == Door.KUBERNETES else Drain(reason),))


def plan_undrain(now: NodeNow, doors: Iterable[Door], asker: DrainAsker) -> Steps:
    """The steps that lift, at these doors, holds of the person and of those whom they name. All other holds stay."""
    steps: list[DrainStep] = []
    left: list[str] = []
    for hold in now.held.holds:
        door = Door.KUBERNETES if hold.door == Door.KUBERNETES else Door.SLURM
        if not hold.by_hand:
            left.append(f"{hold.door}: {hold.reason}: {hold.lifted_by}")
        elif door not in doors:
            left.append(f"{_whose(hold)}: not asked for; --{door.lower()} lifts it")
        elif not asker.may_change(hold):
            left.append(_is_theirs(hold))
        elif door == Door.KUBERNETES:
            steps.append(Uncordon())
        elif now.slurm is None:
            left.append(f"{_whose(hold)}: {_NOT_ASKED}")
        else:
            steps.append(Resume(_transition(now.slurm)))
    return Steps(steps=tuple(steps), left=tuple(left))


def plan_verify(now: NodeNow, asker: DrainAsker) -> Steps:
    """Have the site's check run. Drains of others stay, and what they keep closed stays closed."""
    problem = _in_the_way_of_check(now)
    return Steps(left=(problem,)) if problem else Steps(steps=(Verify(asker.in_kubernetes or "somebody"),))


def _in_the_way_of_check(now: NodeNow) -> str:
    node, record = now.node, read_record(now.node) if now.node is not None else None
    if node is None:
        return "the Node could not be read"
    if verify_s(now.pod) is None:
        return "its slurmd pod has no check: give chart slurm one, compute.verify.script"
    if (who := node.annotations.get(names.ANNOTATION_VERIFY)) is not None:
        return f"its check is asked for already, by {who}"
    if names.ANNOTATION_HEALTH_IGNORED in node.annotations:
        return f"it is left alone: kubectl annotate node {node.name} {names.ANNOTATION_HEALTH_IGNORED}-"
    if record is None or not record.is_closed or record.signal == FAILED:
        return ""
    if not record.closes:
        return f"Slurm has drained it ({record.reason}): mend it, then lift that drain"
    is_waiting = record.state is not State.PERSON
    return f"it is on its way back from {record.signal}, and is checked before it returns" if is_waiting else ""


def _in_the_way_of_cordon(node: Node | None, reason: str) -> str:
    if node is None:
        return "the Node could not be read"
    wrote = (names.ANNOTATION_SLURM_DRAIN, names.ANNOTATION_SLURM_REFUSED)
    if node.spec.unschedulable and reason in map(node.annotations.get, wrote):
        return "the cordon is there with this very reason, for a drain in Slurm: another reason makes it yours"
    return ""


def _in_the_way_of_drain(now: NodeNow, reason: str) -> str:
    if now.slurm is None:
        return _NOT_ASKED
    if not now.slurm.state:
        return f"Slurm has no node {now.slurm.name}: drain it by its Node"
    if reason.startswith(names.REASON_PREFIX):
        return f"a reason that begins with {names.REASON_PREFIX!r} is sunkpy's, and lifted by it"
    return ""


def _transition(slurm: SlurmNode) -> str:
    """UNDRAIN lifts only a drain; RESUME also lifts FAIL or DOWN."""
    return "UNDRAIN" if slurm.is_drain and not {"FAIL", "DOWN"} & slurm.state else "RESUME"


def _whose(hold: Hold) -> str:
    who = f", by {hold.who}" if hold.who else ""
    return f"{hold.door}{who}: {hold.reason}"


def _is_theirs(hold: Hold) -> str:
    nobody = "" if hold.who else " (nobody's name is recorded)"
    return f"{_whose(hold)}: not yours{nobody}; to change it all the same: --set-by {_quoted(hold.owner)}"


def _quoted(word: str) -> str:
    return f"'{word}'" if " " in word else word


# ------------------------------------------------------------------------------------------------------------- as text


def outcome_table(outcomes: Iterable[DrainOutcome]) -> Table:
    """A row for each of several nodes."""
    rows = []
    for each in outcomes:
        done = "; ".join(each.steps) or ("nothing" if each.left else "nothing: it is not drained")
        last = ("no time limit" if not each.job_ends[-1].ends else each.job_ends[-1].ends) if each.job_ends else ""
        there = (str(len(each.job_ends) or ""), str(len(each.node.pods) or ""), last)
        rows.append((each.node.node, each.node.slurm_node, done, "; ".join(each.left), *there))
    is_done = all(each.is_done for each in outcomes)
    titles = ("NODE", "SLURM NODE", "DONE" if is_done else "WOULD DO", "LEFT AS IT IS", "JOBS", "PODS", "LAST JOB ENDS")
    return Table(titles=titles, rows=tuple(rows))


def explain_steps(
    now: NodeNow, plan: Steps, *, is_done: bool, job_ends: tuple[JobEnd, ...] = (), unread: tuple[str, ...] = ()
) -> Explanation:
    """Say what was done or would be done, who held the node before, what is left, and when it ends at the latest."""
    still = still_there(now.held)
    return Explanation(
        subject=subject_of(now.held),
        standing=_standing(plan, is_done=is_done),
        lines=(
            Line(title="held before", texts=held_by(now.held)),
            Line(title="done" if is_done else "would do", texts=tuple(printable(str(step)) for step in plan.steps)),
            Line(title="left as it is", texts=tuple(map(printable, plan.left))),
            Line(title="still there", texts=(printable(still),) if still else ()),
            Line(title="jobs end", texts=tuple(printable(job_end_text(each)) for each in job_ends)),
            Line(title="not read", texts=unread),
        ),
        what_to_do="; ".join(_next(now.held.node, plan, is_done=is_done)),
    )


def _standing(plan: Steps, *, is_done: bool) -> str:
    if not plan.steps:
        return "stays as it is" if plan.left else "is not drained"
    if isinstance(plan.steps[0], Verify):
        return f"{'is' if is_done else 'would be'} checked once it is idle"
    is_out = isinstance(plan.steps[0], Cordon | Drain)
    what = "taken out of service" if is_out else "held by others still" if plan.left else "given back"
    return f"{'is' if is_done else 'would be'} {what}"


def _next(name: str, plan: Steps, *, is_done: bool) -> Iterator[str]:
    if plan.steps and not is_done:
        yield "Ask again without --dry-run."
    elif any(isinstance(step, Verify) for step in plan.steps):
        yield f"Its jobs end in their own time. How it goes: kubectl sunk history {name}"
    elif any(isinstance(step, Cordon | Drain) for step in plan.steps):
        yield f"Its jobs and pods end in their own time. To give it back: kubectl sunk undrain {name}"
    elif plan.left:
        yield f"See who else holds it: kubectl sunk why-drained {name}"
    else:
        yield "Nothing."
