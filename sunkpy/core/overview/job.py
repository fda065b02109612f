"""Builds the explanation of one Slurm job: why it waits or ended, what it asks for, and who has the nodes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from sunkpy.core import names
from sunkpy.core.explain.explanation import Explanation, Line
from sunkpy.core.explain.words import CURES
from sunkpy.core.gang.decide.queued import NEVER_STARTS
from sunkpy.core.gang.identity import JOBS, GangId, parse_comment
from sunkpy.core.growth.words import describe_for
from sunkpy.core.model import hostlist
from sunkpy.core.model.states import holds_something, is_job_ended, is_job_pending
from sunkpy.core.overview.how_ended import how_ended, why_held
from sunkpy.core.overview.pool import NodeLine, PoolFacts, Standing, find_nodes
from sunkpy.core.overview.queue import QueuedJob, QueueEntry, find_queue
from sunkpy.core.overview.sight import EVERYTHING, HIDDEN, Sight
from sunkpy.core.overview.table import count, first_of, printable

_SHOWN: Final = 5
_OF_SCRIPTS: Final = ("COMPLETED", "FAILED")
"""Final states that say nothing about a job of pods, because its script is only a placeholder."""
_TAKES_NODES: Final = ("Resources", "Priority")


class JobFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The job that a person asks about, the pool, and what the person may see.

    `number`: the job's number as squeue prints it, if it is not just the ID: `7_3`, `7+1`.
    """

    id: int
    pool: PoolFacts
    number: str = ""
    now_s: float = 0.0
    sight: Sight = EVERYTHING

    @property
    def called(self) -> str:
        """The job's number as the person wrote it."""
        return self.number or str(self.id)

    @property
    def job(self) -> QueuedJob | None:
        """Slurm's record of the job. If a job array has several records: the one that waits, or else the first."""
        found = [job for job in self.pool.jobs or () if job.is_called(self.called)]
        return next((job for job in found if is_job_pending(job.row.state)), found[0] if found else None)

    @property
    def gang(self) -> GangId | None:
        """The gang (group of pods) for which the job holds nodes; None for a job of a person, or if the job is not
        known.
        """
        return parse_comment(self.job.row.comment) if self.job is not None else None


def explain_job(facts: JobFacts) -> Explanation:
    """Return why a job waits, or how it ended, and what to do about it."""
    job = facts.job
    if job is None:
        return _unknown(facts)
    queue = find_queue(facts.pool.jobs, (), facts.pool.tiers, facts.now_s)
    waits = next((each for each in queue if each.job == job.row.id), None)
    return Explanation(
        subject=f"Job {facts.called} ({printable(_name(job, facts.sight))})",
        standing=_standing(job, waits),
        lines=(
            Line(title="Slurm job", texts=(_record(job),)),
            Line(title="because", texts=_because(job, waits)),
            Line(title="waits for", texts=_waits_for(waits)),
            Line(title="wants", texts=(_wants(job),)),
            *(_around(facts, job, waits, queue) if not facts.sight.user else ()),
        ),
        what_to_do=_what_to_do(facts, job, waits),
    )


def _unknown(facts: JobFacts) -> Explanation:
    is_asked = facts.pool.jobs is not None
    return Explanation(
        subject=f"Job {facts.called}",
        standing="is not known to Slurm" if is_asked else "cannot be read",
        lines=(Line(title="not read", texts=facts.pool.unread),),
        what_to_do=f"Slurm forgets a job some minutes after its end; its accounting does not: sacct -j {facts.called}"
        if is_asked
        else "Ask from the scheduler's pod, which can ask Slurm: "
        f"kubectl -n slurm exec deploy/slurm-scheduler -- sunkpy explain job {facts.called}",
        is_absent=True,
    )


def _around(facts: JobFacts, job: QueuedJob, waits: QueueEntry | None, queue: Iterable[QueueEntry]) -> Iterable[Line]:
    yield Line(title="growth", texts=_growth(facts, job) if waits is not None else ())
    yield Line(title="nodes", texts=tuple(_there_is(facts, job)) if waits is not None else ())
    yield Line(title="jobs before it", texts=_before(facts, waits, queue))
    yield Line(title="nodes used by", texts=_owners(facts, job) if waits is not None else ())
    yield Line(title="now used by", texts=_successors(facts, job))
    yield Line(title="not read", texts=facts.pool.unread)


def _name(job: QueuedJob, sight: Sight) -> str:
    gang = parse_comment(job.row.comment)
    if gang is None:
        return f"{job.name or 'without a name'}, of {job.row.user or 'unknown'}"
    return f"of pods: {gang}" if sight.sees_pods_of(gang.namespace) else "of pods"


def _standing(job: QueuedJob, waits: QueueEntry | None) -> str:
    if waits is not None:
        return "stays in the queue until somebody changes something" if waits.never_starts else "waits in the queue"
    if is_job_ended(job.row.state):
        return "was preempted" if "PREEMPTED" in job.row.state else "has ended"
    return "runs" if "RUNNING" in job.row.state and not _is_in_prolog(job) else "has its nodes"


def _is_in_prolog(job: QueuedJob) -> bool:
    return "RUNNING" in job.row.state and job.row.reason == "Prolog" and parse_comment(job.row.comment) is None


def _after_its_end(facts: JobFacts, job: QueuedJob) -> str:
    gang = facts.gang
    if gang is not None and facts.sight.sees_pods_of(gang.namespace):
        return f"See what happened to its pods: kubectl sunk explain gang {gang.name} -n {gang.namespace}"
    if gang is not None or not _has_ended(job):
        return f"To see how it ended: sacct -j {facts.called}"
    node = job.row.nodes[0] if job.row.nodes else "NODE"
    return how_ended(job).what_to_do.format(job=facts.called, partition=job.row.partition, node=node)


def _because(job: QueuedJob, waits: QueueEntry | None) -> tuple[str, ...]:
    told = why_held(job) if waits is not None else how_ended(job) if _has_ended(job) else None
    is_of_placeholder = parse_comment(job.row.comment) is not None and not job.row.state.isdisjoint(_OF_SCRIPTS)
    return (told.because,) if told is not None and told.because and not is_of_placeholder else ()


def _has_ended(job: QueuedJob) -> bool:
    return is_job_ended(job.row.state) and "PREEMPTED" not in job.row.state


def _record(job: QueuedJob) -> str:
    row = job.row
    said = f" ({job.said})" if job.said and not job.said.startswith(row.reason) else ""
    reason = f", {job.said if job.said and not said else row.reason}{said}" if row.reason else ""
    reason += f", exit code {job.exit_code}:{job.signal}" if job.exit_code or job.signal else ""
    nodes = f" on {hostlist.compress(row.nodes)}" if row.nodes else ""
    account, qos = row.account and f"account {row.account}", job.qos and f"QoS {job.qos}"
    whose = ", ".join(filter(None, (f"partition {row.partition}", account, qos)))
    return printable(f"{row.id}: {'+'.join(sorted(row.state))}{reason}{nodes}; {whose}")


def _waits_for(waits: QueueEntry | None) -> tuple[str, ...]:
    if waits is None:
        return ()
    estimate = f"Slurm expects it to start at {waits.starts}" if waits.starts else ""
    place = f"place {waits.place} in the queue, priority {waits.priority}, since {waits.since or 'not known'}"
    return tuple(filter(None, (waits.waits_for, place, estimate)))


def _wants(job: QueuedJob) -> str:
    row = job.row
    parts = [count(max(row.min_nodes, 1), "node"), count(job.gpus, "GPU") if job.gpus else ""]
    parts += [f"{row.tasks} times, as an array" if row.tasks > 1 else ""]
    parts += [f"among them {hostlist.describe(job.required_nodes)}" if job.required_nodes else ""]
    return ", ".join(filter(None, parts))


def _reach(facts: JobFacts, job: QueuedJob) -> list[NodeLine]:
    """Return the nodes of the job's partitions; all nodes if the partitions' nodes are not known."""
    own = {name for each in job.partitions for name in hostlist.expand(facts.pool.partitions.get(each, ""))}
    return [line for line in find_nodes(facts.pool) if not own or line.slurm_node in own]


def _there_is(facts: JobFacts, job: QueuedJob) -> Iterable[str]:
    lines = _reach(facts, job)
    standings = Counter(line.standing for line in lines)
    parts = ", ".join(f"{standings[each]} {each}" for each in reversed(Standing) if standings[each])
    yield f"partition {job.row.partition}: {count(len(lines), 'node')}{f' ({parts})' if parts else ''}"
    usable = [line for line in lines if line.standing in (Standing.READY, Standing.BUSY)]
    known = [line for line in usable if line.gpus is not None and line.gpus_given is not None]
    if job.gpus and known:
        free = {line.slurm_node: (line.gpus or 0) - (line.gpus_given or 0) for line in known}
        most = max(free.values())
        yield f"{count(sum(free.values()), 'GPU')} free on nodes that take work, at most {most} on one"
    if held := _held(lines):
        yield f"no job can start on {hostlist.describe(held)}: kubectl sunk why-drained says why"


def _held(lines: Iterable[NodeLine]) -> list[str]:
    return [line.slurm_node for line in lines if line.standing in (Standing.DRAINED, Standing.DOWN)]


def _growth(facts: JobFacts, job: QueuedJob) -> tuple[str, ...]:
    growth = {"/".join(each.key): each.status.growth for each in facts.pool.nodesets or ()}
    return tuple(describe_for(job.row.id, growth, array=job.array, het_job=job.het_job))


def _before(facts: JobFacts, waits: QueueEntry | None, queue: Iterable[QueueEntry]) -> tuple[str, ...]:
    """Return a line with how many jobs Slurm considers before this one in its partitions, and the names of the first of
    them. Empty if there are none, or if this job does not wait, or never starts as it is.
    """
    if waits is None or waits.never_starts:
        return ()
    own = set(waits.partition.split(","))
    earlier = [each for each in queue if each.place < waits.place and own & set(each.partition.split(","))]
    seen = facts.sight.sees_pod
    named = [
        f"{each.job} {printable(each.name if each.door == JOBS or seen(each.name) else HIDDEN)}" for each in earlier
    ]
    return (f"{count(len(earlier), 'job')}: {first_of(named, _SHOWN)}",) if earlier else ()


def _owners(facts: JobFacts, job: QueuedJob) -> tuple[str, ...]:
    """Return who has the nodes that the job waits for, the owner of the most nodes first; empty if it does not wait for
    nodes.
    """
    if job.row.reason not in _TAKES_NODES:
        return ()
    return _by_owner(facts.pool.jobs or (), {line.slurm_node for line in _reach(facts, job)}, facts.sight)


def _successors(facts: JobFacts, job: QueuedJob) -> tuple[str, ...]:
    """Return who has the nodes that the job had to leave when it was preempted; empty if it was not preempted."""
    if "PREEMPTED" not in job.row.state:
        return ()
    others = [other for other in facts.pool.jobs or () if other.row.id != job.row.id]
    return _by_owner(others, set(job.row.nodes), facts.sight)


def _by_owner(jobs: Sequence[QueuedJob], nodes: set[str], sight: Sight) -> tuple[str, ...]:
    found: defaultdict[tuple[str, str], list[QueuedJob]] = defaultdict(list)
    for job in jobs:
        if holds_something(job.row.state) and nodes.intersection(job.row.nodes):
            found[_owner(job, sight), job.row.partition].append(job)
    most = sorted(found.items(), key=lambda item: (-len(_nodes(item[1], nodes)), item[0]))
    texts = [
        f"{owner}{f', partition {partition}' if partition else ''}: {count(len(own), 'job')} "
        f"({first_of((str(job.row.id) for job in own), _SHOWN)}) on {hostlist.describe(_nodes(own, nodes))}"
        for (owner, partition), own in most
    ]
    more = [f"{len(texts) - _SHOWN} others"] if len(texts) > _SHOWN else []
    return tuple(map(printable, [*texts[:_SHOWN], *more]))


def _owner(job: QueuedJob, sight: Sight) -> str:
    gang = parse_comment(job.row.comment)
    if gang is None:
        return job.row.user or "unknown"
    return f"pods of namespace {gang.namespace}" if sight.sees_pods_of(gang.namespace) else "pods"


def _nodes(jobs: Iterable[QueuedJob], within: set[str]) -> list[str]:
    return sorted({node for job in jobs for node in job.row.nodes} & within)


def _what_to_do(facts: JobFacts, job: QueuedJob, waits: QueueEntry | None) -> str:
    if _is_in_prolog(job):
        return (
            "Nothing while its Prolog runs, which may wait for pods to leave. If that lasts, see the logs of its "
            f"nodes' slurmd pods; if its Prolog does not run there: scontrol requeue {facts.called}"
        )
    if waits is None:
        return _after_its_end(facts, job) if is_job_ended(job.row.state) else "Nothing."
    if (held := why_held(job)) is not None:
        return held.what_to_do.format(job=facts.called)
    if not waits.never_starts:
        if named := sorted({*_held(find_nodes(facts.pool))} & {*job.required_nodes}):
            which = hostlist.describe(named)
            return f"It asks for {which}, where no job can start: kubectl sunk why-drained {named[0]}"
        return f"Nothing: it starts in its turn; squeue --start -j {facts.called} says when Slurm expects that."
    cure = CURES[job.row.reason].format(job=facts.called)
    if facts.gang is not None or names.PREFIX not in cure:
        return cure
    why = NEVER_STARTS[job.row.reason].replace("the pod", "it")
    return f"{why[0].upper()}{why[1:]}: scontrol update jobid={facts.called} …"
