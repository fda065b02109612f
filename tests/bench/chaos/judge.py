"""Finds in the record of a run what must not happen. Pure: a record in, violations with their evidence out.

A loss that Slurm's own rules or a fault of the run explain is no violation; each function says what it excuses. A
violation has its evidence, and the faults around it.
"""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations

import msgspec

from demo import slurm_text
from sunkpy.core import names
from sunkpy.core.model import hostlist
from tests.bench.chaos.record import (
    Accepted,
    Deletion,
    Inflicted,
    Line,
    Owner,
    PodSeen,
    Record,
    Running,
    Sample,
    SlurmLook,
)
from tests.bench.chaos.schedule import ADMIN_STATES, ENDS_JOBS, Door, Fault

AROUND_S = 90.0
"""For how many seconds after its end a fault may have caused a violation, and is named with it."""
SAVED_AFTER_S = 10.0
"""For how many seconds after a change slurmctld may lose it when it is killed: it saves its state a few seconds
later.
"""
SHOWN_AFTER_S = 1.0
NODE_FAULT_ACTS_S = 120.0
"""For how many seconds after a fault of a node Slurm may end jobs there: it notices a silent node only after
`SlurmdTimeout`.
"""
BEGINS_S = 15.0
"""The most seconds that a job or a slurmd needs to begin."""
PLACEHOLDERS_OVERLAP_S = 5.0
WATCH_LATE_S = 15.0
POD_ENDS_S = 30.0
"""The most seconds that a slurmd pod takes to end on a busy machine."""
CAME_TWICE = "Duplicate jobid"
"""The beginning of slurmctld's reason when it drains a node to which it sent a job that was already there."""
LONGEST_GRACE_S = 65.0
"""The most seconds that the load needs to end: a minute of grace period, and the time until it gets the signal."""
_FLAG_OF = {Fault.DOWN: "DOWN", Fault.DRAIN: "DRAIN", Fault.FAIL: "FAIL"}
_ENDED_BY_NODE = frozenset({"NODE_FAIL", "FAILED", "BOOT_FAIL", "CANCELLED"})


class Rule(enum.StrEnum):
    """What must not happen, the worst first."""

    OVERLAP = "overlaps"
    BUSY_DELETED = "busy slurmd pods deleted"
    LOST = "jobs lost"
    BOUND_TWICE = "pods bound twice"
    FOREIGN = "foreign drains, cordons, DOWN, FAIL lifted"
    LEAKED = "placeholder jobs leaked"


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """One breach of a rule, with its evidence. `node` is the Kubernetes node, empty if the breach is about none.
    Times are seconds since the epoch.
    """

    rule: Rule
    at_s: float
    text: str
    lasted_s: float = 0.0
    """For how many seconds the breach was seen to last."""
    node: str = ""
    evidence: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def until_s(self) -> float:
        return self.at_s + self.lasted_s


def judge(record: Record) -> list[Violation]:
    """Return all violations, the worst first."""
    end_s = _end_s(record)
    found = [
        *overlaps(record.samples, kinds={job.name: kind_text(job) for job in record.jobs}, faults=record.faults),
        *busy_deletions(record),
        *lost_jobs(record),
        *lost_pods(record),
        *bound_twice(record),
        *lifted_drains(record),
        *lifted_cordons(record),
        *(Violation(rule=Rule.LEAKED, at_s=end_s, text=text) for text in record.ending.leaked),
    ]
    order = list(Rule)
    named = [msgspec.structs.replace(each, faults=faults_around(record.faults, each)) for each in found]
    return sorted(named, key=lambda each: (order.index(each.rule), -each.lasted_s, each.at_s))


def faults_around(faults: Sequence[Inflicted], violation: Violation) -> tuple[str, ...]:
    """Return the faults that acted during a violation or shortly before, with their begin and end relative to it."""
    return tuple(
        f"{fault.planned.text}: {fault.begun_s - violation.at_s:+.1f} to {fault.last_s - violation.at_s:+.1f} s"
        for fault in sorted(faults, key=lambda fault: fault.begun_s)
        if fault.begun_s <= violation.until_s and fault.last_s + AROUND_S >= violation.at_s
    )


def _end_s(record: Record) -> float:
    return record.looks[-1].at_s if record.looks else record.started_s


# ------------------------------------------------------------------- overlaps


class _Open(msgspec.Struct):
    """An overlap that the last sample still showed."""

    at_s: float
    until_s: float
    first: tuple[Running, Running]
    samples: int = 1


def kind_text(job: Accepted) -> str:
    """Return the kind of a job in words: `pod in low, stubborn, grace 8 s`."""
    planned = job.planned
    grace = f", grace {planned.grace_s} s" if planned.door is Door.POD else ""
    return f"{planned.door} in {planned.partition}, {planned.manner}{grace}"


def overlaps(
    samples: Sequence[Sample], *, kinds: Mapping[str, str] | None = None, faults: Sequence[Inflicted] = ()
) -> Iterator[Violation]:
    """Yield each pair of owners with processes on one node at the same time, for as long as consecutive samples show
    both. `kinds` describes each owner in words.

    A job is excused if slurmctld was killed before it had saved the job's start: then Slurm itself gives its node to
    others.
    """
    still: dict[tuple[str, Owner, Owner], _Open] = {}
    began_s: dict[Owner, float] = {}
    for sample in samples:
        began_s = {each.owner: began_s.get(each.owner, sample.at_s) for each in sample.running}
        killed = [fault for fault in faults if fault.held_s <= sample.at_s]
        forgotten = {
            owner
            for owner, at_s in began_s.items()
            if owner.door != Door.POD and slurmctld_killed(killed, after_s=at_s - SHOWN_AFTER_S, within_s=SAVED_AFTER_S)
        }
        now = {
            (one.node, one.owner, other.owner): (one, other)
            for one, other in _pairs(sample)
            if forgotten.isdisjoint((one.owner, other.owner))
        }
        for key in [key for key in still if key not in now]:
            yield _overlap(still.pop(key), kinds or {})
        for key, pair in now.items():
            known = still.setdefault(key, _Open(sample.at_s, sample.at_s, pair, 0))
            known.until_s, known.samples = sample.at_s, known.samples + 1
    for known in still.values():
        yield _overlap(known, kinds or {})


def _pairs(sample: Sample) -> Iterator[tuple[Running, Running]]:
    for one, other in combinations(sorted(sample.running, key=lambda each: each.owner), 2):
        if one.node == other.node and one.owner != other.owner:
            yield one, other


def _overlap(known: _Open, kinds: Mapping[str, str]) -> Violation:
    one, other = known.first
    lasted_s = known.until_s - known.at_s
    return Violation(
        rule=Rule.OVERLAP,
        at_s=known.at_s,
        lasted_s=lasted_s,
        node=one.node,
        text=f"{one.owner.text} and {other.owner.text} ran on {one.node} for {lasted_s:.1f} s",
        evidence=(
            f"{known.samples} samples",
            *(f"{each.owner.text}: pids {list(each.pids)} in the cgroup of pod {each.pod_uid}" for each in known.first),
            *(f"{each.owner.name} is {kinds[each.owner.name]}" for each in known.first if each.owner.name in kinds),
        ),
    )


def is_with_pod(violation: Violation) -> bool:
    """True if one of the two owners in this overlap is a pod. Slurm alone can cause only overlaps of two jobs."""
    return any(line.startswith(f"{Door.POD} ") for line in violation.evidence)


# ------------------------------------------------------------ busy slurmd pods


def busy_deletions(record: Record) -> Iterator[Violation]:
    """Yield each slurmd pod that another than the run deleted while jobs ran in it, or pods of the load on its node."""
    judged: set[str] = set()
    for deletion in sorted(record.deletions, key=lambda each: each.at_s):
        if deletion.uid in judged or deletion.uid in record.deleted_by_run:
            continue
        judged.add(deletion.uid)
        running = running_at(record.samples, deletion.at_s)
        # The watch may be late, so a pod of the load counts only if it also ran some time before.
        long = {each.owner for each in running_at(record.samples, deletion.at_s - WATCH_LATE_S)}
        busy = [
            each
            for each in running
            if each.node == deletion.node
            and (
                each.owner in long and not _is_under_services(deletion)
                if each.owner.door == Door.POD
                else each.pod_uid == deletion.uid
            )
            and not _is_ended_by_admin(each.owner, deletion, record)
        ]
        if busy:
            yield Violation(
                rule=Rule.BUSY_DELETED,
                at_s=deletion.at_s,
                node=deletion.node,
                text=f"slurmd pod {deletion.pod} was deleted while {', '.join(each.owner.text for each in busy)} ran",
                evidence=(
                    *(f"{each.owner.text}: pids {list(each.pids)}" for each in busy),
                    *(f"{key}={value}" for key, value in deletion.annotations.items() if key.startswith(names.PREFIX)),
                ),
            )


def _is_under_services(deletion: Deletion) -> bool:
    """True if the syncer allowed a roll to replace the slurmd pod under services: pods of the load outlive it then.
    If one of them ends, `lost_pods` finds it.
    """
    token = deletion.annotations.get(names.ANNOTATION_PENDING_DELETION)
    return token is not None and deletion.annotations.get(names.ANNOTATION_REPLACEABLE) == token


def _is_ended_by_admin(owner: Owner, deletion: Deletion, record: Record) -> bool:
    """True if an administrator set the node DOWN while the owner ran there. Slurm has then ended its job, which is
    in its grace period.
    """
    return any(
        fault.planned.fault in (Fault.DOWN, Fault.DOWN_RESUME)
        and fault.planned.target == deletion.node
        and fault.begun_s <= deletion.at_s <= fault.begun_s + LONGEST_GRACE_S
        and any(each.owner == owner for each in running_at(record.samples, fault.begun_s))
        for fault in record.faults
    )


def running_at(samples: Sequence[Sample], at_s: float) -> tuple[Running, ...]:
    """Return what ran by the last sample up to this time."""
    index = bisect_right(samples, at_s, key=lambda sample: sample.at_s)
    return samples[index - 1].running if index else ()


# ------------------------------------------------------------------- lost jobs


def lost_jobs(record: Record) -> Iterator[Violation]:
    """Yield accepted sbatch jobs whose end neither Slurm's rules nor a fault explains."""
    for job in record.jobs:
        if job.planned.door is not Door.SBATCH:
            continue
        states = job_history(record.looks, job.name)
        if not states and not job.is_answered:
            continue  # Slurm never had it, and never said that it had
        lines = record.lines.get(job.name, ())
        why = why_lost(job, states, lines, record)
        if why:
            at_s = states[-1][0] if states else job.asked_s
            yield Violation(
                rule=Rule.LOST,
                at_s=at_s,
                text=f"job {job.name} of partition {job.planned.partition}: {why}",
                evidence=(
                    *(_state_text(*each) for each in states[-4:]),
                    *(f"{line.at_s:.1f} the script wrote {line.what} on {line.node}, run {line.run}" for line in lines),
                ),
            )


def job_history(looks: Sequence[SlurmLook], name: str) -> list[tuple[float, Mapping[str, str]]]:
    """Return each change of a job's record in Slurm, with the time at which it was seen.

    The job is found by its unique name, because a slurmctld that was killed may give an id twice.
    """
    history: list[tuple[float, Mapping[str, str]]] = []
    for look in looks:
        for job_id, job in look.jobs.items():
            known = {"JobId": str(job_id), **job}
            if job.get("JobName") == name and (not history or history[-1][1] != known):
                history.append((look.at_s, known))
    return history


def why_lost(
    job: Accepted, states: Sequence[tuple[float, Mapping[str, str]]], lines: Sequence[Line], record: Record
) -> str:
    """Say why the end of a job is a loss; empty if Slurm's rules or a fault explain it."""
    ended = any(line.what in ("end", "term") for line in lines)
    young = slurmctld_killed(record.faults, after_s=job.asked_s, within_s=SAVED_AFTER_S)
    if not states:
        return "" if ended or young else "accepted, and never seen in Slurm"
    final = states[-1][1]
    is_unsaved = is_end_unsaved(lines, record.faults)
    state, excused = final["JobState"], is_hit(states, lines, record) or is_unsaved
    if int(final.get("Restarts", "0")) and job.planned.partition == "high" and not excused:
        return f"requeued {final['Restarts']} times, though nothing preempts it and no fault hit its node"
    if state in ("PENDING", "RUNNING", "COMPLETING", "SUSPENDED", "CONFIGURING"):
        # Slurm forgets a job five minutes after its end: one last seen alive may have ended between two looks.
        last = record.looks[-1]
        is_shown = any(other.get("JobName") == final.get("JobName") for other in last.jobs.values())
        is_forgotten = states[-1][0] < last.at_s and not is_shown
        is_known = (is_forgotten and (ended or young)) or (is_unsaved and state == "RUNNING")
        return "" if is_known else f"still {state} at the end ({final.get('Reason')})"
    if state == "COMPLETED":
        return "" if ended or excused else "COMPLETED, but its script never wrote that it ended"
    if state == "PREEMPTED":
        return "" if job.planned.partition == "low" else "preempted, though nothing preempts its partition"
    if state in _ENDED_BY_NODE and excused:
        return ""
    return f"ended as {state}, exit code {final.get('ExitCode')}, and no fault hit its node"


def slurmctld_killed(faults: Sequence[Inflicted], *, after_s: float, within_s: float) -> bool:
    """True if slurmctld was killed in this time after `after_s`, so that it may have lost a change from then."""
    return any(
        fault.planned.fault is Fault.KILL
        and fault.planned.target == "slurmctld"
        and after_s <= fault.held_s <= after_s + within_s
        for fault in faults
    )


def is_end_unsaved(lines: Sequence[Line], faults: Sequence[Inflicted]) -> bool:
    """True if the job had ended, and slurmctld was killed before it had saved that, so that Slurm reports it as running
    again.

    Slurm notices the end a minute and a half later, when start-slurmctld makes the slurmd register, and runs the job
    again.
    """
    return any(
        line.what == "end" and slurmctld_killed(faults, after_s=line.at_s, within_s=SAVED_AFTER_S) for line in lines
    )


def forgotten(
    jobs: Mapping[int, Mapping[str, str]], lines: Mapping[str, Sequence[Line]], faults: Sequence[Inflicted]
) -> Iterator[tuple[int, str]]:
    """Yield id and name of each job that runs in Slurm only because slurmctld was killed before it saved its end."""
    for id, job in jobs.items():
        said = lines.get(job.get("JobName", ""), ())
        has_ended = bool(said) and said[-1].what == "end"
        if job["JobState"] == "RUNNING" and has_ended and is_end_unsaved(said[-1:], faults):
            yield id, job["JobName"]


def come_back(looks: Sequence[SlurmLook], faults: Sequence[Inflicted]) -> Iterator[tuple[str, str]]:
    """Yield Slurm node and reason of each drain that is there again, because it was lifted in the seconds in which its
    slurmd pod went: nobody sees that, and the next slurmd starts drained as the last one was (docs/surprises.md).
    """
    last = looks[-1].nodes if looks else {}
    for fault in faults:
        if fault.planned.fault not in ADMIN_STATES or fault.mending_s is None:
            continue
        went = any(
            fault.slurm_node not in look.nodes and fault.mending_s <= look.at_s <= fault.mending_s + POD_ENDS_S
            for look in looks
        )
        if went and fault.slurm_node in last and not what_is_lost(fault, last[fault.slurm_node]):
            yield fault.slurm_node, fault.reason


def is_hit(states: Sequence[tuple[float, Mapping[str, str]]], lines: Sequence[Line], record: Record) -> bool:
    """True if a fault for which Slurm may end jobs hit a node while the job was there, or may have been there."""
    starts = [line for line in lines if line.what == "start"]
    began = {(line.node, line.run): line.at_s for line in starts}
    spans: list[tuple[str, float | None, float, float]] = [
        (line.node, line.at_s, line.at_s - 5, _until(line, lines, states)) for line in starts
    ]
    spans += [
        (node, began.get((node, int(job.get("Restarts", "0")))), at_s - 10, at_s + 10)
        for at_s, job in states
        for node in hostlist.expand(job.get("NodeList", "").replace("(null)", ""))
        if node
    ]
    return any(
        fault.slurm_node == node
        and fault.begun_s <= until_s
        and fault.last_s + NODE_FAULT_ACTS_S >= from_s
        and may_end(fault, began_s=began_s)
        for fault in record.faults
        for node, began_s, from_s, until_s in spans
    )


def may_end(fault: Inflicted, *, began_s: float | None) -> bool:
    """True if Slurm may end a job because of this fault on its node. `began_s`: None if the job has not begun, as in
    its Prolog.

    A job survives a kill of slurmd once its slurmstepd runs alone, and a job that begins under a new slurmd is safe.
    """
    if fault.planned.fault is Fault.KILL_SLURMD and began_s is not None:
        return fault.begun_s - BEGINS_S <= began_s <= fault.last_s + BEGINS_S
    return fault.planned.fault in ENDS_JOBS


def _until(start: Line, lines: Sequence[Line], states: Sequence[tuple[float, Mapping[str, str]]]) -> float:
    later = [line.at_s for line in lines if line.at_s > start.at_s]
    return min(later) if later else states[-1][0]


def _state_text(at_s: float, job: Mapping[str, str]) -> str:
    shown = ("JobId", "JobState", "Reason", "Restarts", "NodeList", "ExitCode")
    return f"{at_s:.1f} " + " ".join(f"{key}={job.get(key, '')}" for key in shown)


# ------------------------------------------------------------------- lost pods


def lost_pods(record: Record) -> Iterator[Violation]:
    """Yield pods that failed, were deleted, or never ended, if no preemption and no fault on their node explains it."""
    for job in record.jobs:
        seen = [pod for pod in record.pods if pod.name == job.name and pod.at_s < record.ending.cleared_s]
        if job.planned.door is not Door.POD or not seen:
            continue
        end = next((pod for pod in seen if pod.is_deleting or pod.phase in ("Failed", "Gone", "Succeeded")), seen[-1])
        why = "" if is_start_unsaved(seen, end, record) else why_pod_lost(job, seen, end, record)
        if why:
            yield Violation(
                rule=Rule.LOST,
                at_s=end.at_s,
                node=end.node,
                text=f"pod {job.name}: {why}",
                evidence=tuple(
                    f"{pod.at_s:.1f} {pod.phase} on {pod.node or 'no node'}, job {pod.job or 'none'}, "
                    f"{'told to go' if pod.is_deleting else 'not told to go'} {pod.why}".rstrip()
                    for pod in seen
                ),
            )


def why_pod_lost(job: Accepted, seen: Sequence[PodSeen], end: PodSeen, record: Record) -> str:
    """Say why the end of a pod is a loss; empty if Slurm's rules or a fault explain it."""
    if end.phase == "Succeeded" or is_deleted_as_planned(job, end):
        return ""
    if not end.is_deleting and end.phase not in ("Failed", "Gone"):
        return f"still {end.phase} at the end"
    if node_was_hit(record.faults, end.node, at_s=end.at_s, begun_s=_job_starts(seen, end, record.looks)):
        return ""
    if end.is_deleting and (was_preempted(record.looks, end.uid) or is_preemption_unsaved(record, end)):
        return ""
    how = "told to go" if end.is_deleting else end.phase
    return f"{how}, though Slurm preempted no job of it and no fault hit its node"


def is_deleted_as_planned(job: Accepted, end: PodSeen) -> bool:
    """True if the load deleted the pod after its planned time. One without a node is then gone at once."""
    is_over = end.at_s >= job.asked_s + job.planned.lasts_s
    return job.planned.is_deleted and is_over and (end.is_deleting or end.phase == "Gone")


def is_start_unsaved(seen: Sequence[PodSeen], end: PodSeen, record: Record) -> bool:
    """True if slurmctld was killed before it had saved that the pod's job began. Slurm then queues the job again, or
    cancels it when it sends it to the node where it already is (docs/surprises.md).
    """
    bound_s = next((pod.at_s for pod in seen if pod.node), None)
    was_begun_anew = end.why.endswith("was queued again") or (
        end.why.endswith("was cancelled") and came_twice(record.looks, at_s=end.at_s)
    )
    return (
        end.is_deleting
        and was_begun_anew
        and bound_s is not None
        and slurmctld_killed(record.faults, after_s=bound_s - SHOWN_AFTER_S, within_s=SAVED_AFTER_S)
        and end.at_s - bound_s <= AROUND_S
    )


def came_twice(looks: Sequence[SlurmLook], *, at_s: float) -> bool:
    """True if around this time Slurm drained a node to which it had sent a job that was already there."""
    near = (look for look in looks if abs(look.at_s - at_s) <= AROUND_S)
    return any(node.get("Reason", "").startswith(CAME_TWICE) for look in near for node in look.nodes.values())


def is_preemption_unsaved(record: Record, end: PodSeen) -> bool:
    """True if slurmctld was killed before it had saved that it preempted the pod's job, so that Slurm reports the job
    as running again.

    The pod had been evicted by then. Slurm must have been seen to end the job, or nobody looked in between.
    """
    kills = [
        fault.held_s
        for fault in record.faults
        if slurmctld_killed([fault], after_s=end.at_s - SHOWN_AFTER_S, within_s=SAVED_AFTER_S)
    ]
    if not end.why.partition(" by ")[0].endswith("was preempted") or not kills:
        return False
    between = [look for look in record.looks if end.at_s <= look.at_s <= min(kills)]
    own = [job for look in between for job in look.jobs.values() if placeholder_of(job) == end.uid]
    return not between or any(job["JobState"] == "COMPLETING" for job in own)


def _job_starts(seen: Sequence[PodSeen], end: PodSeen, looks: Sequence[SlurmLook]) -> set[float]:
    """Return when the pod was bound, and when each of its jobs was first seen running."""
    of_job: dict[int, float] = {}
    for look in looks:
        for id, job in look.jobs.items():
            if job["JobState"] == "RUNNING" and placeholder_of(job) == end.uid:
                of_job.setdefault(id, look.at_s)
    bound = [pod.at_s for pod in seen if pod.node]
    return {*bound[:1], *of_job.values()}


def node_was_hit(faults: Sequence[Inflicted], node: str, *, at_s: float, begun_s: Collection[float]) -> bool:
    """True if a fault for which Slurm may end jobs acted on this Kubernetes node at `at_s` or shortly before.
    `begun_s`: when the pod's jobs began.
    """
    return any(
        fault.planned.target == node
        and fault.begun_s <= at_s <= fault.last_s + NODE_FAULT_ACTS_S
        and any(may_end(fault, began_s=each) for each in begun_s)
        for fault in faults
    )


def was_preempted(looks: Sequence[SlurmLook], uid: str) -> bool:
    """True if Slurm reported a placeholder job of this pod as preempted."""
    return any(
        job["JobState"] == "PREEMPTED" and placeholder_of(job) == uid for look in looks for job in look.jobs.values()
    )


def placeholder_of(job: Mapping[str, str]) -> str:
    """Return the uid of the pod for which a job is the placeholder; empty for other jobs."""
    comment = job.get("Comment", "")
    return comment.rsplit(":", 1)[-1] if comment.startswith(names.JOB_COMMENT_PREFIX) else ""


# ----------------------------------------------------------------- bound twice


def bound_twice(record: Record) -> Iterator[Violation]:
    """Yield each pod that ran on two nodes, or had two running jobs for longer than a change to the next takes."""
    yield from _on_two_nodes(record.samples)
    since: dict[str, float] = {}
    told: set[str] = set()
    for look in record.looks:
        running = running_placeholders(look)
        since = {uid: since.get(uid, look.at_s) for uid, jobs in running.items() if len(jobs) > 1}
        for uid, begun_s in since.items():
            lasted_s = look.at_s - begun_s
            if lasted_s >= PLACEHOLDERS_OVERLAP_S and uid not in told:
                told.add(uid)
                text = f"pod uid {uid} has running placeholder jobs {running[uid]}"
                shown = tuple(_state_text(look.at_s, look.jobs[job_id]) for job_id in running[uid])
                yield Violation(rule=Rule.BOUND_TWICE, at_s=begun_s, lasted_s=lasted_s, text=text, evidence=shown)


def running_placeholders(look: SlurmLook) -> dict[str, list[int]]:
    """Return pod uid → the ids of its running placeholder jobs."""
    found: dict[str, list[int]] = {}
    for job_id, job in look.jobs.items():
        uid = placeholder_of(job)
        if uid and job["JobState"] == "RUNNING":
            found.setdefault(uid, []).append(job_id)
    return found


def _on_two_nodes(samples: Sequence[Sample]) -> Iterator[Violation]:
    where: dict[Owner, Running] = {}
    told: set[Owner] = set()
    for sample in samples:
        for each in sample.running:
            first = where.setdefault(each.owner, each)
            if each.owner.door == Door.POD and first.node != each.node and each.owner not in told:
                told.add(each.owner)
                text = f"{each.owner.text} ran on {first.node} and on {each.node}"
                evidence = tuple(f"{one.node}: pids {list(one.pids)}" for one in (first, each))
                yield Violation(rule=Rule.BOUND_TWICE, at_s=sample.at_s, text=text, evidence=evidence)


# ------------------------------------------------- what others set stays theirs


def lifted_drains(record: Record) -> Iterator[Violation]:
    """Yield each drain, DOWN or FAIL of an administrator that was gone or changed before it was lifted."""
    for fault in _standing(record, *ADMIN_STATES):
        if slurmctld_killed(record.faults, after_s=fault.held_s, within_s=SAVED_AFTER_S):
            continue  # slurmctld never saved it
        until_s = _lifted_s(record, fault) - SHOWN_AFTER_S
        # A look without the node proves nothing; a node that comes back without the drain does.
        looks = [look for look in record.looks if fault.slurm_node in look.nodes and look.at_s < until_s]
        for look in looks:
            lost = what_is_lost(fault, look.nodes[fault.slurm_node])
            if lost and look.at_s - look.took_s >= fault.held_s + SHOWN_AFTER_S:
                shown = (other for other in looks if other.at_s <= look.at_s)
                evidence = [f"{other.at_s:.1f} {dict(other.nodes[fault.slurm_node])}" for other in shown]
                yield _lifted(record, fault, lost, at_s=look.at_s, evidence=evidence[-3:])
                break


def what_is_lost(fault: Inflicted, node: Mapping[str, str]) -> str:
    """Say what of the administrator's state or reason a node's record lacks; empty if both are there."""
    flag = _FLAG_OF[fault.planned.fault]
    if not any(seen.startswith(flag) for seen in slurm_text.node_flags(node)):
        return f"{flag} is gone"
    reason = node.get("Reason", "")
    return "" if reason.startswith(f"{fault.reason} [") or reason == fault.reason else f"reason is {reason!r} now"


def lifted_cordons(record: Record) -> Iterator[Violation]:
    """Yield each cordon of a person that was gone before that person lifted it."""
    for fault in _standing(record, Fault.CORDON):
        seen = [node for node in record.cordons if node.name == fault.planned.target]
        until_s = _lifted_s(record, fault)
        gone = next((node for node in seen if fault.held_s < node.at_s < until_s and not node.is_cordoned), None)
        if gone is not None:
            evidence = [
                f"{node.at_s:.1f} cordoned={node.is_cordoned} cordoned-by={node.cordoned_by!r}"
                for node in seen
                if abs(node.at_s - gone.at_s) < 10
            ]
            yield _lifted(record, fault, "uncordoned", at_s=gone.at_s, evidence=evidence)


def _standing(record: Record, *kinds: Fault) -> Iterator[Inflicted]:
    """Return the faults of these kinds that were in effect."""
    return (fault for fault in record.faults if fault.planned.fault in kinds and "NOT DONE" not in fault.said)


def _lifted_s(record: Record, fault: Inflicted) -> float:
    """Return when the one who set the state began to lift it; the end of the run if nobody did."""
    return fault.mending_s or _end_s(record)


def _lifted(record: Record, fault: Inflicted, lost: str, *, at_s: float, evidence: Sequence[str]) -> Violation:
    node = f" ({fault.slurm_node})" if fault.slurm_node else ""
    return Violation(
        rule=Rule.FOREIGN,
        at_s=at_s,
        node=fault.planned.target,
        text=f"{fault.planned.text}{node} did not stand: {lost} {at_s - fault.held_s:.1f} s after it was set, "
        f"{_lifted_s(record, fault) - at_s:.1f} s before whoever set it lifted it",
        evidence=tuple(evidence),
    )
