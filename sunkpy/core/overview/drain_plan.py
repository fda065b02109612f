"""What `kubectl sunk drain`, `undrain` and `verify` change in Kubernetes and in Slurm, and what they leave alone.

A hold is a drain or cordon of a node (`find_holds`). The commands change only holds that the asking person set, or
whose owner they name with --set-by, so that nobody lifts somebody else's hold by accident.
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
    """The person who asks, by their names in Kubernetes and in Slurm; a name is empty if it is not known.

    `set_by`: the owners that the person names with --set-by, and whose holds may be changed, too.
    """

    in_kubernetes: str = ""
    in_slurm: str = ""
    set_by: frozenset[str] = frozenset()

    def may_change(self, hold: Hold) -> bool:
        """True if the person set this hold, or names its owner with --set-by."""
        own = self.in_kubernetes if hold.door == Door.KUBERNETES else self.in_slurm
        return hold.owner in self.set_by or bool(own and hold.who == own)


class NodeNow(msgspec.Struct, frozen=True, kw_only=True):
    """A node as it was read a moment ago, with its slurmd pod and its holds. `slurm`: None if Slurm was not asked."""

    held: HeldNode
    node: Node | None = None
    pod: Pod | None = None
    slurm: SlurmNode | None = None


class Cordon(msgspec.Struct, frozen=True):
    """Step: cordon the Node, and write the reason and the asking person on it."""

    reason: str
    by: str

    def __str__(self) -> str:
        by = f", by {self.by}" if self.by else ""
        return f"cordon the Node for {self.reason!r}{by}; the syncer drains it in Slurm"


class Uncordon(msgspec.Struct, frozen=True):
    """Step: uncordon the Node, and remove the reason from it."""

    def __str__(self) -> str:
        return "uncordon the Node; the syncer lifts the drain that it set for the cordon"


class Drain(msgspec.Struct, frozen=True):
    """Step: drain the Slurm node with a reason."""

    reason: str

    def __str__(self) -> str:
        return f"drain the Slurm node for {self.reason!r}; the operator cordons the Node"


class Resume(msgspec.Struct, frozen=True):
    """Step: lift a drain, FAIL or DOWN that a person or Slurm set on the Slurm node. `state`: UNDRAIN or RESUME."""

    state: str

    def __str__(self) -> str:
        return f"set the Slurm node to {self.state}; the operator lifts the cordon that it set for the drain"


class Verify(msgspec.Struct, frozen=True):
    """Step: ask the operator for the site's check of the node, by an annotation with the asking person's name."""

    by: str

    def __str__(self) -> str:
        return "ask for its check; the operator drains the node, has it checked once it is idle, and gives it back"


DrainStep = Cordon | Uncordon | Drain | Resume | Verify


class Steps(msgspec.Struct, frozen=True, kw_only=True):
    """The steps that change one node. `left`: the holds that stay as they are, each with the reason."""

    steps: tuple[DrainStep, ...] = ()
    left: tuple[str, ...] = ()


class DrainOutcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What `drain`, `undrain` or `verify` did to a node, or would do (`is_done` False).

    `node`: the node with its holds before. `left`: the holds that stay, and why. `job_ends`: the jobs on the node.
    """

    node: HeldNode
    is_done: bool
    steps: tuple[str, ...]
    left: tuple[str, ...]
    job_ends: tuple[JobEnd, ...] = ()


class Outcomes(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The outcome for each node that the person named. `unread`: what could not be read, and why."""

    outcomes: tuple[DrainOutcome, ...]
    unread: tuple[str, ...] = ()


def plan_drain(now: NodeNow, door: Door, reason: str, asker: DrainAsker) -> Steps:
    """Return the steps that close a node at one door (Slurm or Kubernetes).

    If somebody else has closed the node there, no step is planned, unless the person names that owner with --set-by.
    """
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
    """Return the steps that lift a node's holds (drains, cordons) at these doors (Slurm, Kubernetes): the person's own,
    and those whose owners the person names. Other holds stay.
    """
    steps: list[DrainStep] = []
    left: list[str] = []
    for hold in now.held.holds:
        door = Door.KUBERNETES if hold.door == Door.KUBERNETES else Door.SLURM
        if not hold.by_hand:
            left.append(f"{hold.door}: {hold.reason}: {hold.lifted_by}")
        elif door not in doors:
            left.append(f"{_whose(hold)}: not at the chosen side; --{door.lower()} lifts it")
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
    """Return the step that asks for the site's check of a node, or why it cannot be asked for. Holds of other people
    stay, also after the check.
    """
    problem = _in_the_way_of_check(now)
    return Steps(left=(problem,)) if problem else Steps(steps=(Verify(asker.in_kubernetes or "somebody"),))


def _in_the_way_of_check(now: NodeNow) -> str:
    node, record = now.node, read_record(now.node) if now.node is not None else None
    if node is None:
        return "the Node could not be read"
    if verify_s(now.pod) is None:
        return "its slurmd pod has no check: give chart slurm one, compute.verify.script"
    if (who := node.annotations.get(names.ANNOTATION_VERIFY)) is not None:
        return f"{who} has asked for its check already"
    if names.ANNOTATION_HEALTH_IGNORED in node.annotations:
        ignored = names.ANNOTATION_HEALTH_IGNORED
        return f"an annotation tells sunkpy to ignore its health: kubectl annotate node {node.name} {ignored}-"
    if record is None or not record.is_closed or record.signal == FAILED:
        return ""
    if not record.closes:
        return f"Slurm has drained it ({record.reason}): mend the node, then lift that drain"
    is_waiting = record.state is not State.PERSON
    return f"it is closed for signal {record.signal}, and is checked before it returns anyway" if is_waiting else ""


def _in_the_way_of_cordon(node: Node | None, reason: str) -> str:
    if node is None:
        return "the Node could not be read"
    wrote = (names.ANNOTATION_SLURM_DRAIN, names.ANNOTATION_SLURM_REFUSED)
    if node.spec.unschedulable and reason in map(node.annotations.get, wrote):
        return "sunkpy has cordoned the Node with this very reason, for a drain in Slurm: give another reason"
    return ""


def _in_the_way_of_drain(now: NodeNow, reason: str) -> str:
    if now.slurm is None:
        return _NOT_ASKED
    if not now.slurm.state:
        return f"Slurm has no node {now.slurm.name}: cordon its Node, without --slurm"
    if reason.startswith(names.REASON_PREFIX):
        return (
            f"a reason that begins with {names.REASON_PREFIX!r} is sunkpy's, which would lift the drain: give another"
        )
    return ""


def _transition(slurm: SlurmNode) -> str:
    """Return the state that lifts the node's drain: UNDRAIN if the node is only drained; RESUME, which also lifts FAIL
    and DOWN, if it is not.
    """
    return "UNDRAIN" if slurm.is_drain and not {"FAIL", "DOWN"} & slurm.state else "RESUME"


def _whose(hold: Hold) -> str:
    who = f", by {hold.who}" if hold.who else ""
    return f"{hold.door}{who}: {hold.reason}"


def _is_theirs(hold: Hold) -> str:
    nobody = "" if hold.who else " (nobody's name is recorded)"
    operator = "" if hold.door == Door.KUBERNETES else ", with an operator's --slurm-token-file"
    return f"{_whose(hold)}: not yours{nobody}; to change it anyway: --set-by {_quoted(hold.owner)}{operator}"


def _quoted(word: str) -> str:
    return f"'{word}'" if " " in word else word


# ------------------------------------------------------------------------------------------------------------- as text


def outcome_table(outcomes: Iterable[DrainOutcome]) -> Table:
    """Return a table with a row for each node that `drain`, `undrain` or `verify` named."""
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
    """Return what was done to one node or would be, its holds before, what stays, and when its jobs end."""
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
    what = "taken out of service" if is_out else "still held by others" if plan.left else "given back"
    return f"{'is' if is_done else 'would be'} {what}"


def _next(name: str, plan: Steps, *, is_done: bool) -> Iterator[str]:
    if plan.steps and not is_done:
        yield "Ask again without --dry-run."
    elif any(isinstance(step, Verify) for step in plan.steps):
        yield f"Its jobs end in their own time. To follow it: kubectl sunk history {name}"
    elif any(isinstance(step, Cordon | Drain) for step in plan.steps):
        yield f"Its jobs and pods end in their own time. To give it back: kubectl sunk undrain {name}"
    elif plan.left:
        yield f"See who else holds it: kubectl sunk why-drained {name}"
    else:
        yield "Nothing."
