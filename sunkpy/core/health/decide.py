"""The next step of a sick Node on its way back to service: a pure function returns its next health record.

Each call makes one step. The operator writes the record on the Node before it acts on the record, so after a crash it
continues from what it reads there. A signal that cannot be read closes no node. A cured node opens after its signal has
been gone for a while and, if its NodeSet has a check, after a later start of slurmd has passed that check. A node that
came back too often stays closed until a person acts. No step ends a job: a drain waits until jobs end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec

from sunkpy.core import names
from sunkpy.core.health.idle_check import failed_check
from sunkpy.core.health.record import CLOSED, Record, State, read_record, time_of
from sunkpy.core.health.rules import Cure, HealthRules, Remedy, Rule
from sunkpy.core.health.signals import Finding, Sign, find, slurms_reason
from sunkpy.core.health.verification import (
    FAILED,
    FAILED_RULE,
    REQUESTED,
    REQUESTED_RULE,
    failure_of,
    has_registered,
    is_of_run,
    run_of,
    verify_s,
)
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.model.slurmd import is_emptied
from sunkpy.core.model.times import rfc3339

A_DAY: Final = timedelta(days=1)
_REMEMBERED: Final = timedelta(days=7)
_LIFTED_WITHIN_S: Final = 300
_LOOK_AGAIN_S: Final = 15.0
_NO_ANSWER: Final = "it was not certain that no job runs on the node, and no pod of a job"
FAILED_IDLE: Final = "the check of the machine failed while nothing ran there"


class HealthView(msgspec.Struct, frozen=True, kw_only=True):
    """All that the next health step of one Node is decided on.

    `pod`: its slurmd pod. `has_room`: the cap on closed Nodes allows to close one more. `may_remedy`: the cap on
    remedies allows one more Node, and the maintenance windows of its NodeSet are known. `is_empty`: nothing of Slurm's
    jobs runs on the node, by an answer of the last 30 seconds (`core.nodeset.emptied`). `opens_at`: when the next
    maintenance window of its NodeSet begins; None inside a window, or if the NodeSet has none.
    """

    node: Node
    pod: Pod | None
    rules: HealthRules
    now: datetime
    has_room: bool = True
    may_remedy: bool = True
    is_empty: bool
    opens_at: datetime | None = None


class HealthStep(msgspec.Struct, frozen=True, kw_only=True):
    """The health record of one Node before and after a step; None means that the Node has no record.

    `is_held`: sunkpy would drain the node now, but does not, because too many other Nodes are closed. `is_answer`: the
    check that somebody asked for has ended. `again_s`: decide again after that many seconds.
    """

    before: Record | None
    after: Record | None
    is_held: bool = False
    is_answer: bool = False
    again_s: float | None = None

    @property
    def changes(self) -> dict[str, str | None]:
        """The annotations to write on the Node; None removes one, and no entry leaves it as it is."""
        text = self.after.encode() if self.after is not None else None
        answer = {names.ANNOTATION_VERIFY: None} if self.is_answer else {}
        return {} if self.before == self.after else {names.ANNOTATION_HEALTH: text, **answer}

    @property
    def is_new_state(self) -> bool:
        """True if the Node has another health state after this step than before."""
        return (self.before.state if self.before else State.WELL) != (self.after.state if self.after else State.WELL)

    @property
    def closes(self) -> bool:
        """True if this step counts towards the cap on closed Nodes: it begins state `closing`, or, for a Node that was
        not closed, state `needs-a-person`.
        """
        was_closed = self.before is not None and self.before.is_closed
        return self._begins(State.CLOSING) or (self._begins(State.PERSON) and not was_closed)

    @property
    def begins_remedy(self) -> bool:
        """True if this step asks for the remedy (the repair by another program) of a Node, so that it counts towards
        the cap.
        """
        return self._begins(State.REMEDY)

    def _begins(self, state: State) -> bool:
        return self.is_new_state and self.after is not None and self.after.state is state


def decide_health(view: HealthView) -> HealthStep:
    """Return the next step of one Node. A Node without a record and without a signal stays as it is."""
    record = read_record(view.node)
    rules = _rules_of(view)
    if record is None or record.state is State.WELL:
        return _of_a_well_node(view, record, rules)
    rule = rules.get(record.signal)
    if rule is None:
        after = _forgotten(record, view, why="no rule names this signal any more")
        return HealthStep(before=record, after=after)
    finding = find(rule, view.node, view.pod)
    if record.state is State.SUSPECT:
        is_overtaken = rule.is_request and _first_bad(view, _others(view, record)) is not None
        if is_overtaken or (_has_failed_idle(view) and not rule.failed_verification):
            return _of_a_well_node(view, record, rules)
        return _of_a_suspect(view, record, rule, finding, before=record)
    told = _with_slurms_words(view, record, rule, finding)
    step = (
        _of_a_returning_node(view, told, finding)
        if record.state is State.RETURNING
        else _of_a_closed_node(view, told, rule, finding)
    )
    is_answer = names.ANNOTATION_VERIFY in view.node.annotations and _ends_check(record, step.after)
    return msgspec.structs.replace(step, before=record, is_answer=is_answer)


def _ends_check(before: Record, after: Record | None) -> bool:
    ends = (State.WELL, State.RETURNING, State.PERSON)
    return before.state is State.VERIFY and after is not None and after.state in ends


def _with_slurms_words(view: HealthView, record: Record, rule: Rule, finding: Finding) -> Record:
    """Return the record with the present reason of the drain in Slurm, if that drain is the signal. The reason may
    change, and the drain is lifted later only if its reason is the recorded one.
    """
    if rule.closes or finding.sign is not Sign.BAD:
        return record
    return msgspec.structs.replace(record, reason=slurms_reason(view.pod), text=finding.text)


def is_closed_by_us(node: Node) -> bool:
    """True if sunkpy keeps this Node closed for its health, so that it counts towards the cap on closed Nodes."""
    record = read_record(node)
    return record is not None and record.is_closed and record.closes


def is_remedied(node: Node) -> bool:
    """True if a remedy (a repair by another program) is under way on this Node, so that it counts towards the cap on
    remedies.
    """
    record = read_record(node)
    return record is not None and record.state is State.REMEDY


def next_remedy(node: Node, rules: HealthRules) -> Remedy | None:
    """Return the remedy (the object that asks another program for a repair) for which a drained node waits; None if the
    node is not drained or its rule has no remedy.
    """
    record = read_record(node)
    rule = rules.signals.get(record.signal) if record is not None and record.state is State.DRAINED else None
    return rules.remedies.get(rule.remedy) if rule is not None else None


def waits_until_empty(node: Node) -> bool:
    """True if the node goes on when Slurm says that its last job has ended: it is in state `draining`, or a check that
    somebody asked for could not begin in time.
    """
    record = read_record(node)
    return record is not None and (record.state is State.DRAINING or _waits_for_its_check(record))


def _waits_for_its_check(record: Record) -> bool:
    return record.state is State.PERSON and record.signal == REQUESTED


def is_being_verified(node: Node) -> bool:
    """True if the node is in state `verify`: the next start of its slurmd has to pass the site's check."""
    record = read_record(node)
    return record is not None and record.state is State.VERIFY


def waits_for_verification(node: Node, pod: Pod) -> bool:
    """True if this slurmd pod has to be replaced, because the site's check is to run in the next pod on the cured
    machine.
    """
    record = read_record(node)
    return record is not None and record.state is State.VERIFY and is_of_run(pod, record.run)


def remedy_name(node: Node, record: Record, remedy: str) -> str:
    """Return the name of the object that asks another program for a remedy: always the same for one Node and one state
    of its record.

    If the operator repeats the write after a crash, it finds the object under this name, and makes no second one.
    """
    digest = hashlib.sha256(f"{node.uid} {record.at}".encode()).hexdigest()
    return f"{remedy[:40].lower()}-{digest[:10]}"


# -------------------------------------------------------------------------------------------------- from well to closed


def _of_a_well_node(view: HealthView, record: Record | None, rules: Mapping[str, Rule]) -> HealthStep:
    is_same_run = record is not None and record.run != "" and record.run == run_of(view.pod)
    has_passed = is_same_run and not _has_failed_idle(view)
    found = _first_bad(view, {name: rule for name, rule in rules.items() if not (has_passed and name == FAILED)})
    if found is None:
        is_old = record is not None and not is_same_run and view.now - time_of(record.at) > _REMEMBERED
        return HealthStep(before=record, after=None if is_old else record)
    name, rule, finding = found
    kept = record or Record(state=State.WELL, at=rfc3339(view.now))
    suspect = msgspec.structs.replace(
        kept,
        state=State.SUSPECT,
        at=rfc3339(view.now),
        signal=name,
        text=finding.text,
        since=_since(view, finding),
        cure=rule.cured_by,
        closes=False,
        why="",
    )
    return _of_a_suspect(view, suspect, rule, finding, before=record)


def _since(view: HealthView, finding: Finding) -> str:
    """Return when the signal began, as its source says; now if the source says nothing, or a time in the future."""
    is_told = finding.since and time_of(finding.since) <= view.now
    return finding.since if is_told else rfc3339(view.now)


def _of_a_suspect(
    view: HealthView, record: Record, rule: Rule, finding: Finding, *, before: Record | None
) -> HealthStep:
    if finding.sign is Sign.GOOD:
        return HealthStep(before=before, after=_forgotten(record, view, why=""))
    due = time_of(record.since or record.at) + timedelta(seconds=rule.patience_seconds)
    left_s = (due - view.now).total_seconds()
    if left_s > 0:
        return HealthStep(before=before, after=msgspec.structs.replace(record, due=rfc3339(due)), again_s=left_s)
    if finding.sign is Sign.UNKNOWN:
        return HealthStep(before=before, after=record, again_s=_LOOK_AGAIN_S)
    is_in_slurm = not rule.failed_verification or _has_failed_idle(view)  # else slurmd did not start: nothing to cap
    if rule.closes and is_in_slurm and not view.has_room:
        why = "left open: too many Nodes are closed because of their health"
        held = msgspec.structs.replace(record, why=why, due="")
        return HealthStep(before=before, after=held, is_held=True, again_s=_LOOK_AGAIN_S)
    after = _failed(view, record) if rule.failed_verification else _closed(view, record, rule)
    return HealthStep(before=before, after=after)


def _closed(view: HealthView, record: Record, rule: Rule) -> Record:
    """Return the record of a node that is closed from now on: `closing` if sunkpy has to drain it, `draining` if Slurm
    has drained it already.
    """
    state = State.CLOSING if rule.closes else State.DRAINING
    reason = "" if rule.closes else slurms_reason(view.pod)
    run = run_of(view.pod) if verify_s(view.pod) is not None else ""
    marked = msgspec.structs.replace(record, closes=rule.closes, reason=reason, boot=view.node.status.boot_id, run=run)
    return marked.moved(state, view.now)


# ---------------------------------------------------------------------------------------------- from closed to the cure


def _of_a_closed_node(view: HealthView, record: Record, rule: Rule, finding: Finding) -> HealthStep:
    if rule.slurm_reason and finding.sign is Sign.GOOD:
        after = record.returned(view.now, why="the drain in Slurm was lifted, or has another reason")
        return HealthStep(before=record, after=after)
    if record.state is State.VERIFY:
        return _of_a_verified_node(view, record, rule, finding)
    if asked := _of_a_request(view, record, rule, finding):
        return HealthStep(before=record, after=asked)
    if _is_cured(view, record, rule, finding):
        return _of_a_cured_node(view, record, rule)
    kept = msgspec.structs.replace(record, good_since="", run=_uncounted_run(view, record, rule, finding))
    if kept.run != run_of(view.pod) and _has_failed(view) and record.state is not State.PERSON:
        return HealthStep(before=record, after=_failed(view, kept))
    moved = _drained_further(view, kept)
    if moved is not kept:
        return HealthStep(before=record, after=moved)
    if record.state is State.PERSON:
        return HealthStep(before=record, after=kept)
    if record.state is State.DRAINED and record.cure == Cure.PERSON:
        why = "no rule says what cures the node"
        return HealthStep(before=record, after=kept.moved(State.PERSON, view.now, why=why))
    remedy = view.rules.remedies.get(rule.remedy)
    if record.state is State.DRAINED and remedy is not None and record.was_remedied:
        if finding.sign is Sign.BAD:
            why = f"the node is sick again after its remedy, and {rule.remedy} is not asked twice"
            return HealthStep(before=record, after=kept.moved(State.PERSON, view.now, why=why))
    elif record.state is State.DRAINED and remedy is not None:
        if view.opens_at is not None and not remedy.outside_windows:
            why = f"its remedy waits for the window of its NodeSet that begins at {rfc3339(view.opens_at)}"
            waits = msgspec.structs.replace(kept, why=why, due="")
            return HealthStep(before=record, after=waits, again_s=_LOOK_AGAIN_S)
        if not view.may_remedy:
            waits = msgspec.structs.replace(kept, why="", due="")
            return HealthStep(before=record, after=waits, again_s=_LOOK_AGAIN_S)
        if not view.is_empty:
            why = "its remedy waits until Slurm says that no job runs on the node, and pods of jobs have gone"
            return _without_word(view, msgspec.structs.replace(kept, why=why), _NO_ANSWER, before=record)
        if finding.sign is not Sign.BAD:
            why = f"its remedy waits until signal {record.signal} is seen again"
            lacks = f"signal {record.signal} was not seen, and the node is not cured"
            return _without_word(view, msgspec.structs.replace(kept, why=why), lacks, before=record)
        return HealthStep(before=record, after=kept.moved(State.REMEDY, view.now))
    if record.state is State.DRAINING:
        return _of_a_draining_node(view, kept, before=record)
    return _with_patience(view, kept, rule, before=record)


def _of_a_draining_node(view: HealthView, record: Record, *, before: Record) -> HealthStep:
    """Return the step of a node whose drain is not over. Jobs take their time, but Slurm must say that none is left."""
    if view.pod is not None and view.pod.is_condition_true(names.CONDITION_RUNNING):
        return HealthStep(before=before, after=msgspec.structs.replace(record, due="", idle_since=""))
    if view.pod is not None:
        idle_since = (record.idle_since or rfc3339(view.now)) if is_emptied(view.pod) else ""
        record = msgspec.structs.replace(record, idle_since=idle_since)
    return _without_word(view, record, _NO_ANSWER, before=before)


def _without_word(view: HealthView, record: Record, lacks: str, *, before: Record) -> HealthStep:
    """Return the step of a node that waits only for somebody's word: until then it is true what `lacks` says. If the
    word does not come within `person_after_s`, the node needs a person.
    """
    due = time_of(record.due) if record.due else view.now + timedelta(seconds=view.rules.person_after_s)
    left_s = (due - view.now).total_seconds()
    if left_s > 0:
        after = msgspec.structs.replace(record, due=rfc3339(due))
        return HealthStep(before=before, after=after, again_s=left_s)
    without = ", and there is no slurmd pod" if view.pod is None else ""
    why = f"for {view.rules.person_after_s // 60} min {lacks}{without}"
    return HealthStep(before=before, after=record.moved(State.PERSON, view.now, why=why))


def _with_patience(view: HealthView, record: Record, rule: Rule, *, before: Record) -> HealthStep:
    """Return the step of a closed node that waits for its cure, for the drain in Slurm or for a slurmd pod. After the
    remedy's timeout, or else `person_after_s`, the node needs a person.
    """
    remedy = view.rules.remedies.get(rule.remedy) if record.state is State.REMEDY else None
    patience_s = remedy.timeout_seconds if remedy is not None else view.rules.person_after_s
    due = time_of(record.at) + timedelta(seconds=patience_s)
    left_s = (due - view.now).total_seconds()
    if left_s > 0:
        return HealthStep(before=before, after=msgspec.structs.replace(record, due=rfc3339(due)), again_s=left_s)
    minutes = patience_s // 60
    if remedy is not None:
        why = f"remedy {rule.remedy} has not helped within {minutes} min"
    elif view.pod is None:
        why = f"no slurmd pod for {minutes} min"
    else:
        what = "Slurm shows no drain" if record.state is State.CLOSING else "not cured"
        why = f"{what} after {minutes} min"
    return HealthStep(before=before, after=record.moved(State.PERSON, view.now, why=why))


def _drained_further(view: HealthView, record: Record) -> Record:
    """Return the record one state further if the slurmd pod shows that Slurm has drained the node, or if Slurm has just
    said that the last job there has ended; otherwise the same record.

    If the slurmd pod went before Slurm said so, it is enough that the pod showed no job to the end, and that no pod of
    a job is left: a job of slurmd's that might have begun since then has ended with slurmd.
    """
    is_drained = view.pod is not None and view.pod.is_condition_true(names.CONDITION_DRAIN)
    if record.state is State.CLOSING and is_drained:
        return record.moved(State.DRAINING, view.now)
    if record.state is State.DRAINING and view.is_empty and (view.pod is not None or record.idle_since):
        return record.moved(State.DRAINED, view.now)
    return record


def _is_cured(view: HealthView, record: Record, rule: Rule, finding: Finding) -> bool:
    """True if what the rule names as the cure has happened. False if only a person can cure the node.

    A failed check is cured by another slurmd pod that passes it. If the node was well before, the kubelet's next start
    of slurmd in the same pod counts, too: after a power cut, a file server that starts late makes the first check of
    all nodes fail.
    """
    if record.cure == Cure.PERSON:
        return False
    if rule.failed_verification:
        is_another = not is_of_run(view.pod, record.run)
        return finding.sign is Sign.GOOD and (is_another or record.was_well)
    if rule.cured_by is Cure.CLEAR:
        return finding.sign is Sign.GOOD
    return _has_started_again(view, record) and (finding.sign is Sign.GOOD or not rule.closes)


def _has_started_again(view: HealthView, record: Record) -> bool:
    """True if the machine has booted since the node was closed (another boot ID), and its slurmd has registered with
    Slurm.
    """
    boots = (record.boot, view.node.status.boot_id)
    return "" not in boots and boots[0] != boots[1] and has_registered(view.pod, view.now)


def _of_a_cured_node(view: HealthView, record: Record, rule: Rule) -> HealthStep:
    """Return the step of a cured node: once its signal has been gone for `settle_s`, the node opens or is first
    checked.

    The node stays closed if it shows another signal. If it has come back too often, a person has to act.
    """
    if run_of(view.pod) != record.run and _has_failed(view):
        return HealthStep(before=record, after=_failed(view, record))
    other = _first_bad(view, _others(view, record))
    if other is not None:
        return _of_another_signal(view, record, *other)
    # Slurm knows the last slurmd of a pod for a while: it may look ready while the next try's check still runs.
    is_next_try = rule.failed_verification and is_of_run(view.pod, record.run)
    run = run_of(view.pod) if is_next_try else record.run
    good_since = record.good_since if record.good_since and run == record.run else rfc3339(view.now)
    settle_s = view.rules.settle_s + ((verify_s(view.pod) or 0) if is_next_try else 0)
    left_s = settle_s - (view.now - time_of(good_since)).total_seconds()
    if left_s > 0 and (is_next_try or not rule.failed_verification):
        after = msgspec.structs.replace(record, good_since=good_since, run=run, due="")
        return HealthStep(before=record, after=after, again_s=left_s)
    returns = record.returns_since(view.now - A_DAY)
    if returns >= view.rules.most_returns:
        return HealthStep(before=record, after=_given_up(view, record, f"the node came back {returns} times in a day"))
    if verify_s(view.pod) is not None and not _has_passed(view, record, rule):
        waits = msgspec.structs.replace(record, run=record.run or run_of(view.pod))
        why = f"cured: {_cure_in_words(rule)}; the node is checked before it comes back"
        return HealthStep(before=record, after=waits.moved(State.VERIFY, view.now, why=why))
    return HealthStep(before=record, after=_opened(view, record, rule))


def _opened(view: HealthView, record: Record, rule: Rule) -> Record:
    """Return the record of a node that opens now: `well`, or `returning` if a drain that somebody else set has to be
    lifted first.
    """
    passed = "" if verify_s(view.pod) is None else ", and its check has passed"
    if rule.is_request:
        opened = record.returned(view.now, why=f"its check has passed, {record.text}")
        return msgspec.structs.replace(opened, returns=record.returns)  # the node was not sick: no return is counted
    if rule.failed_verification and is_of_run(view.pod, record.run):
        opened = record.returned(view.now, why=f"cured: slurmd has started again{passed}")
        return msgspec.structs.replace(opened, run=record.run)  # this pod goes on showing the failure before this start
    if rule.closes:
        return record.returned(view.now, why=f"cured: {_cure_in_words(rule)}{passed}")
    why = f"the machine has started again{passed}; lifting {record.reason!r}"
    return record.moved(State.RETURNING, view.now, why=why)


# ---------------------------------------------------------------------------------------------------- the site's check


def _of_a_request(view: HealthView, record: Record, rule: Rule, finding: Finding) -> Record | None:
    """Return the next record of a closed node if somebody asks for a check or withdraws the request; otherwise None.

    Asking for a check of a node in state `needs-a-person` means that a person has mended it. The request counts only if
    sunkpy closed the node, and only if the node no longer shows its signal, unless the signal is a failed check.
    """
    if rule.is_request:
        if finding.sign is Sign.GOOD:
            return msgspec.structs.replace(
                record.returned(view.now, why="the check is not asked for any more"), returns=record.returns
            )
        may_begin = record.state is State.DRAINED or (_waits_for_its_check(record) and view.is_empty)
        return _checked_next(view, record) if may_begin else None
    request = find(REQUESTED_RULE, view.node, view.pod)
    is_mended = record.closes and (rule.failed_verification or finding.sign is not Sign.BAD)
    if record.state is not State.PERSON or request.sign is not Sign.BAD or not is_mended:
        return None
    asks = msgspec.structs.replace(record, signal=REQUESTED, text=request.text, cure=REQUESTED_RULE.cured_by, log="")
    return _checked_next(view, asks)


def _checked_next(view: HealthView, record: Record) -> Record:
    waits = msgspec.structs.replace(record, run=run_of(view.pod))
    return waits.moved(State.VERIFY, view.now, why=record.text)


def _uncounted_run(view: HealthView, record: Record, rule: Rule, finding: Finding) -> str:
    """Return the ID of the last start of slurmd whose check does not count, because the machine was not cured yet."""
    if verify_s(view.pod) is None:
        return record.run
    if rule.cured_by is Cure.REBOOT:
        is_mended = record.boot != view.node.status.boot_id
    else:
        is_mended = finding.sign is (Sign.UNKNOWN if rule.failed_verification else Sign.GOOD)
    return record.run if is_mended else run_of(view.pod)


def _has_passed(view: HealthView, record: Record, rule: Rule) -> bool:
    """True if a start of slurmd after the cure has passed the check and has registered with Slurm.

    If the signal was that slurmd does not start, the start that succeeds is the cure, and it counts as the start after
    the cure.
    """
    is_since = record.run not in ("", run_of(view.pod))
    return has_registered(view.pod, view.now) and (is_since or rule.failed_starts > 0 or rule.failed_verification)


def _has_failed(view: HealthView) -> bool:
    return find(FAILED_RULE, view.node, view.pod).sign is Sign.BAD


def _of_a_verified_node(view: HealthView, record: Record, rule: Rule, finding: Finding) -> HealthStep:
    """Return the step of a node in state `verify`: the operator replaces its slurmd pod, and the next pod runs the
    check.

    Checks that run in the old pod meanwhile, when the kubelet starts its container again, do not count.
    """
    if rule.closes and not rule.is_request and finding.sign is Sign.BAD:
        after = record.moved(State.DRAINING, view.now, why="the signal is back")
        return HealthStep(before=record, after=after)
    if view.pod is not None and not is_of_run(view.pod, record.run):
        if has_registered(view.pod, view.now):
            other = _first_bad(view, _others(view, record))
            if other is not None:
                return _of_another_signal(view, record, *other)
            return HealthStep(before=record, after=_opened(view, record, rule))
        if _has_failed(view):
            return HealthStep(before=record, after=_failed(view, record))
    if view.pod is not None and is_of_run(view.pod, record.run) and view.pod.is_condition_true(names.CONDITION_RUNNING):
        waits = msgspec.structs.replace(record, due="", idle_since="")  # jobs take their time
        return HealthStep(before=record, after=waits)
    record = msgspec.structs.replace(record, idle_since=record.idle_since or rfc3339(view.now))
    patience_s = view.rules.person_after_s + (verify_s(view.pod) or 0)
    due = time_of(record.idle_since) + timedelta(seconds=patience_s)
    left_s = (due - view.now).total_seconds()
    if left_s > 0:
        return HealthStep(before=record, after=msgspec.structs.replace(record, due=rfc3339(due)), again_s=left_s)
    text = "no start of slurmd has passed the check"
    asks = msgspec.structs.replace(record, signal=FAILED, text=text, run=run_of(view.pod))
    why = f"the check of the machine has not ended after {patience_s // 60} min"
    return HealthStep(before=record, after=_by_a_person(view, asks, why))


def _has_failed_idle(view: HealthView) -> bool:
    """True if the last check of the machine, made while no job ran there, failed, and the node was not closed for that
    yet.
    """
    check = failed_check(view.pod)
    return check is not None and not check.is_told


def _failed(view: HealthView, record: Record) -> Record:
    """Return the record, in state `needs-a-person`, of a node whose check has failed. What brings the node back is
    another slurmd pod that passes the check (`_is_cured`).
    """
    idle, failure = failed_check(view.pod), failure_of(view.pod)
    text = find(FAILED_RULE, view.node, view.pod).text
    log = idle.log if idle is not None else failure[1] if failure is not None else ""
    asks = msgspec.structs.replace(record, signal=FAILED, text=text, run=run_of(view.pod), log=log)
    return _by_a_person(view, asks, FAILED_IDLE if idle is not None else "the check of the machine failed")


def _by_a_person(view: HealthView, record: Record, why: str) -> Record:
    closed = msgspec.structs.replace(record, cure=FAILED_RULE.cured_by, closes=True)
    return closed.moved(State.PERSON, view.now, why=why)


def _of_another_signal(view: HealthView, record: Record, name: str, rule: Rule, finding: Finding) -> HealthStep:
    """Return the step of a closed node whose signal has ended, but which shows another one: it stays closed, and its
    record names the other signal. If until now only somebody's drain in Slurm closed the node, sunkpy has to drain it
    itself. That counts towards the cap on closed Nodes; if the cap is reached, the record stays as it is.
    """
    if rule.closes and not record.closes and not view.has_room:
        return HealthStep(before=record, after=record, is_held=True, again_s=_LOOK_AGAIN_S)
    since = _since(view, finding)
    changed = msgspec.structs.replace(record, signal=name, text=finding.text, since=since, cure=rule.cured_by)
    return HealthStep(before=record, after=_closed(view, changed, rule))


def _of_a_returning_node(view: HealthView, record: Record, finding: Finding) -> HealthStep:
    if finding.sign is Sign.GOOD:
        return HealthStep(before=record, after=record.returned(view.now, why=record.why))
    is_seen = finding.sign is Sign.BAD
    if is_seen:
        due = time_of(record.due) if record.due else view.now + timedelta(seconds=_LIFTED_WITHIN_S)
    else:
        due = time_of(record.at) + timedelta(seconds=view.rules.person_after_s)
    left_s = (due - view.now).total_seconds()
    if left_s > 0:
        waits = msgspec.structs.replace(record, due=rfc3339(due) if is_seen else "")
        return HealthStep(before=record, after=waits, again_s=left_s)
    why = "Slurm still has the drain" if is_seen else "Slurm has not said whether it still has the drain"
    return HealthStep(before=record, after=_given_up(view, record, why))


def _given_up(view: HealthView, record: Record, why: str) -> Record:
    """Return the record of a node that seems cured, but that only a person may open."""
    asks = msgspec.structs.replace(record, cure=Cure.PERSON)
    return asks.moved(State.PERSON, view.now, why=f"cured, but {why}")


def _cure_in_words(rule: Rule) -> str:
    if rule.failed_verification:
        return "another slurmd pod has started"
    return "the machine has started again" if rule.cured_by is Cure.REBOOT else "the signal has ended"


def _forgotten(record: Record, view: HealthView, *, why: str) -> Record | None:
    """Return the record after its signal has ended, or after no rule names the signal any more: a closed node comes
    back, a suspect one becomes well. None if a suspect node has no earlier steps to remember.
    """
    if record.state in CLOSED or record.state is State.RETURNING:
        return record.returned(view.now, why=why)
    if not record.past:
        return None
    well = Record(state=State.WELL, at=record.past[-1].at, returns=record.returns, past=record.past)
    return msgspec.structs.replace(well, run=record.run)


def _first_bad(view: HealthView, rules: Mapping[str, Rule]) -> tuple[str, Rule, Finding] | None:
    for name, rule in rules.items():
        finding = find(rule, view.node, view.pod)
        if finding.sign is Sign.BAD:
            return name, rule, finding
    return None


def _rules_of(view: HealthView) -> Mapping[str, Rule]:
    """Return the rules that apply to this Node: none if it is no Slurm node, or if an annotation tells sunkpy to ignore
    its health.
    """
    is_of_slurm = view.pod is not None or names.ANNOTATION_PLACED_ON in view.node.annotations
    is_left_alone = names.ANNOTATION_HEALTH_IGNORED in view.node.annotations
    rules = {FAILED: FAILED_RULE, **view.rules.signals, REQUESTED: REQUESTED_RULE}
    return rules if is_of_slurm and not is_left_alone else {}


def _others(view: HealthView, record: Record) -> Mapping[str, Rule]:
    """Return the rules of the chart's values except the one that the record names: their signals keep the node closed
    when the recorded signal has ended.
    """
    return {name: rule for name, rule in view.rules.signals.items() if name != record.signal}
