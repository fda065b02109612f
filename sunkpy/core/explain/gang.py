"""Builds the explanation of a gang, or of one of its pods, for `kubectl sunk explain` and the web page."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from sunkpy.core.explain.explanation import Explanation, Line
from sunkpy.core.explain.facts import Facts
from sunkpy.core.explain.job_on_pods import last_message
from sunkpy.core.explain.why import Stage, Why, why
from sunkpy.core.explain.words import CURES, WORDS, pending_reason
from sunkpy.core.gang.actions import WaitCause
from sunkpy.core.gang.gang import ANY_SEAT, Gang, Member, Role, is_apart, solo_pod
from sunkpy.core.gang.job.job import Job
from sunkpy.core.gang.phases import is_over, is_running
from sunkpy.core.gang.seating.seating import Seat
from sunkpy.core.growth.words import describe_for
from sunkpy.core.model import hostlist
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import SlurmNode, is_job_pending

_ANNOTATION = re.compile(r"sunkpy\.dev/[a-z-]+")
_OVER = (Stage.OVER, Stage.ENDING)
_PAST = (Stage.OVER, Stage.ENDING, Stage.POD_OVER, Stage.HANDING_OVER)

_TO_ITS_CLAIMS = "See what its claims wait for: kubectl -n {namespace} describe pvc"

MOST_MEMBERS = 16
"""The most pods of a role that an explanation lists."""


def explain_gang(facts: Facts) -> Explanation:
    """Return why a gang, or one of its pods, is in its state, and what a person can do about it."""
    snapshot, found = facts.snapshot, why(facts)
    words = WORDS[found.cause]
    lines: tuple[Line, ...] = ()
    if snapshot.gang is not None:
        lines = (
            Line(title="because", texts=_because(facts, found)),
            Line(title="recognised as", texts=_recognised(facts, snapshot.gang)),
            Line(title="members", texts=_members(facts, snapshot.gang, is_past=found.cause in _OVER)),
            Line(title="solo gangs", texts=_beyond(facts)),
            Line(title="Slurm job", texts=_jobs(facts)),
            Line(title="growth", texts=_growth(facts)),
            Line(title="devices", texts=facts.devices),
            Line(title="nodes", texts=_nodes(facts, snapshot.gang)),
            Line(title="preemption", texts=_preemption(snapshot.gang) if found.cause not in _OVER else ()),
            Line(title="problems", texts=tuple(p for p in map(str, snapshot.gang.problems) if p not in found.text)),
            Line(title="not read", texts=facts.unread),
        )
    else:
        lines = (Line(title="Slurm job", texts=_jobs(facts)),)
    return Explanation(
        subject=_subject(facts),
        standing=words.standing,
        lines=lines,
        what_to_do=_what_to_do(facts, found),
    )


def _subject(facts: Facts) -> str:
    if facts.asked:
        return f"Pod {facts.snapshot.id.namespace}/{facts.asked}"
    kind = _kind(facts.snapshot.gang) if facts.snapshot.gang is not None else f"Gang {facts.snapshot.id}"
    return kind[:1].upper() + kind[1:]


def _kind(gang: Gang) -> str:
    return gang.kind or f"Gang {gang.id}"


def _recognised(facts: Facts, gang: Gang) -> tuple[str, ...]:
    if solo_pod(gang.id):
        base = f"gang {gang.id.namespace}/{gang.id.name} (family {facts.family.name})"
        why = (
            f"the job of {base} has no room for this pod" if is_apart(gang.id) else f"{base} has no place for this pod"
        )
        return (_kind(gang), f"{why}, so it has a job of its own")
    return (_kind(gang), f"family {facts.family.name}: {facts.family.known_by}")


def _because(facts: Facts, found: Why) -> tuple[str, ...]:
    """Return the texts that say why the gang waits: the cause with the meaning of Slurm's reason, and the scheduler's
    last message about its pods if it says something else.
    """
    snapshot = facts.snapshot
    passing = pending_reason(snapshot.live_jobs[0].slurm.state_reason) if found.cause is WaitCause.IN_QUEUE else ""
    texts = [found.text + (f" ({passing})" if passing else "")]
    said = last_message(
        [facts.pod] if facts.pod is not None else [pod for pod in snapshot.pods if not pod.spec.node_name]
    )
    if said and said != found.text and found.cause not in _PAST:
        texts.append(f"the scheduler said last: {said}")
    return tuple(filter(None, texts))


def _what_to_do(facts: Facts, found: Why) -> str:
    snapshot, jobs = facts.snapshot, facts.snapshot.live_jobs or facts.snapshot.jobs
    text = WORDS[found.cause].what_to_do
    if found.cause is WaitCause.NEVER_STARTS:
        text = CURES[jobs[0].slurm.state_reason]
        if annotation := _ANNOTATION.search(text):
            waiting = " ".join(pod.name for pod in snapshot.pods if not pod.spec.node_name)
            command = f"kubectl -n {{namespace}} annotate --overwrite pod {waiting} {annotation[0]}=…"
            text = f"{text}{'' if text.endswith('.') else '.'} The job follows the pods: {command}"
    if found.cause is WaitCause.NO_NODE and snapshot.eligibility is not None and not snapshot.eligibility.refused:
        text = "See why no NodeSet has a node: kubectl get nodesets -A"
    if found.cause is WaitCause.NO_NODE and snapshot.eligibility is not None and "" in snapshot.eligibility.refused:
        text = _TO_ITS_CLAIMS if any(pod.volume_claims for pod in snapshot.pods) else text
    pods = [facts.pod] if facts.pod is not None else snapshot.pods
    return text.format(
        kind=_kind(snapshot.gang) if snapshot.gang is not None else "",
        namespace=snapshot.id.namespace,
        pod=pods[0].name if pods else "",
        job=jobs[0].id if jobs else "JOB",
    )


# --------------------------------------------------------------------- members


def _members(facts: Facts, gang: Gang, *, is_past: bool) -> tuple[str, ...]:
    snapshot = facts.snapshot
    job = snapshot.bound_job or next(iter(snapshot.live_jobs), None)
    seats = snapshot.seating(job).seats if job is not None and job.nodes else {}
    texts: list[str] = []
    for role in gang.roles:
        if gang.seats > 1:
            texts.append(f"role {role.name}" if is_past else _role(role))
        shown = role.members[:MOST_MEMBERS]
        texts += [_member(facts, role, member, seats.get(member.pod.uid)) for member in shown]
        if more := len(role.members) - len(shown):
            texts.append(f"… and {more} more")
    return tuple(texts)


def _beyond(facts: Facts) -> tuple[str, ...]:
    shown, more = facts.beyond[:MOST_MEMBERS], len(facts.beyond) - MOST_MEMBERS
    names = ", ".join(shown) + (f" and {more} more" if more > 0 else "")
    return (f"{names}: each has a job of its own",) if names else ()


def _role(role: Role) -> str:
    """Return one role of a gang as a line: `role worker: 1 of 3 seats have a pod, free: worker/[1-2]; its pods come
    when others run`. A seat is a place for one pod.
    """
    living = [member.index for member in role.members if not is_over(member.pod)]
    taken = {index for index in living if 0 <= index < role.seats}
    is_numbered = ANY_SEAT not in living
    count = len(taken) if is_numbered else min(len(living), role.seats)
    free = [f"{role.name}/{index}" for index in range(role.seats) if index not in taken]
    none = f", free: {hostlist.compress(free)}" if is_numbered and free and role.seats > 1 else ""
    return f"role {role.name}: {count} of {role.seats} seats have a pod{none}; {_wave(role)}"


def _wave(role: Role) -> str:
    if not role.first:
        return "its pods come when others run"
    return f"{'all' if role.first == role.seats else role.first} must exist before the job is submitted"


def _member(facts: Facts, role: Role, member: Member, seat: Seat | None) -> str:
    snapshot, pod, place = facts.snapshot, member.pod, ""
    if snapshot.gang is not None and snapshot.gang.seats > 1:
        index = f"{role.name}/{member.index} " if member.index != ANY_SEAT else ""
        place = f"{seat.note} " if seat is not None else index
    where = ""
    if pod.spec.node_name:
        slurm_node = seat.node if seat is not None else snapshot.placed.get(pod.uid, "")
        where = f", node {pod.spec.node_name}{f' (Slurm node {slurm_node})' if slurm_node else ''}"
        where += f", at {path}" if (path := facts.places.get(slurm_node, "")) else ""
    return f"{place}pod {pod.name}: {_how(pod)}{where}"


def _how(pod: Pod) -> str:
    if is_over(pod):
        return pod.status.phase
    if pod.is_deleting:
        return "is ending" if pod.spec.node_name else "is being deleted"
    if is_running(pod):
        return "runs"
    if pod.spec.node_name:
        return "is bound"
    gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
    return f"is held by gate {gates}" if gates else "waits"


# ------------------------------------------------------------- Slurm's side


def _jobs(facts: Facts) -> tuple[str, ...]:
    source = "" if facts.is_slurm_asked else "; as the scheduler wrote it on the pods"
    return tuple(f"{_job(job)}{source}" for job in facts.snapshot.jobs)


def _growth(facts: Facts) -> tuple[str, ...]:
    waiting = (job.id for job in facts.snapshot.live_jobs if is_job_pending(job.state))
    return tuple(text for job in waiting for text in describe_for(job, facts.growth))


def _job(job: Job) -> str:
    state = "+".join(sorted(job.state)) or "state not known"
    if job.is_lost:
        state = f"{state}, lost" if job.state else "lost: Slurm does not know it"
    reason = f", {job.slurm.state_reason}" if job.slurm.state_reason else ""
    nodes = f" on {hostlist.compress(job.nodes)}" if job.nodes else ""
    return f"{job.id}: {state}{reason}{nodes}"


def _nodes(facts: Facts, gang: Gang) -> tuple[str, ...]:
    """Return texts that say which nodes the gang may use, and why not others. Empty once all its pods have nodes, if
    the nodes are not known, or for a gang that gets no Slurm job.
    """
    eligibility = facts.snapshot.eligibility
    if gang.never_queues or eligibility is None or all(pod.spec.node_name or is_over(pod) for pod in gang.members):
        return ()
    texts = [f"may use {names}{_state(state)}" for state, names in _grouped(facts)]
    of_nodes = {name: why for name, why in eligibility.refused.items() if name}  # an empty name: about the pods
    texts += [f"not {names}: {why}" for why, names in _by_value(of_nodes)]
    texts += ["one pod on each node"] if gang.one_per_node and gang.seats > 1 else []
    texts += [f"all within one {gang.one_domain}"] if gang.one_domain else []
    return tuple(texts)


def _state(text: str) -> str:
    """Return the state of a node, as Slurm writes it (`text`), in brackets, with a hint if no job can start there;
    empty if the state is not known.
    """
    if not text:
        return ""
    node = SlurmNode(name="", state=frozenset(text.split("+")))
    return f" ({text}{': nothing starts there' if node.is_closed or not node.is_registered else ''})"


def _grouped(facts: Facts) -> list[tuple[str, str]]:
    assert facts.snapshot.eligibility is not None
    return _by_value({name: facts.states.get(name, "") for name in facts.snapshot.eligibility.eligible})


def _by_value(values: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return pairs of a value and the nodes that have it, in Slurm's range syntax. The value with the most nodes comes
    first.
    """
    names: defaultdict[str, list[str]] = defaultdict(list)
    for name, value in values.items():
        names[value].append(name)
    most_first = sorted(names.items(), key=lambda item: (-len(item[1]), item[0]))
    return [(value, _compressed(found)) for value, found in most_first]


def _compressed(names: Iterable[str]) -> str:
    return hostlist.compress(sorted(names))


# ---------------------------------------------------------------- preemption


def _preemption(gang: Gang) -> tuple[str, ...]:
    if gang.never_queues:
        return ("takes nothing, because the pods have no Slurm job",)
    if gang.options.on_preemption == "suspend" and gang.suspension is not None:
        owner = gang.suspension.owner
        field = ".".join(gang.suspension.path)
        return (f"suspends {owner.kind} {'/'.join(owner.key)} ({field}), which brings its pods back later",)
    takes = f"takes all {gang.seats} pods together" if gang.seats > 1 else "takes the pod"
    if solo_pod(gang.id):
        takes = "takes this pod, alone and before the others of its gang"
    if gang.final_because:
        return (f"{takes}, for good: {gang.final_because}",)
    return (f"{takes}; the owner makes {'them' if gang.seats > 1 else 'it'} again, for a new job",)
