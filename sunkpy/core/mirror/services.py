"""May the slurmd of a node be replaced although jobs are on it?

When all of them are services: allocations of pods, which have no process and so outlive their slurmd. Slurm does not
tell which jobs a node has, only how many cpus and how much memory they have together. So the operator notes the jobs of
the pods that are on the node (`sunkpy.dev/jobs`), the syncer asks Slurm for each of these, and when what they have adds
up to what the node has given away, nobody else is there. The note is a hint and proves nothing.

The sums are those of a node that was closed when Slurm told them, so they can only shrink, and were told before the
jobs were asked for: a job that is not noted would be missing from the sum. It is the memory that tells: Slurm takes
the cpus, not the memory, from a job that is suspended, and a cpu that jobs share (OverSubscribe) it counts once. Where
memory is not handed out (CR_Core), all nodes say 0, and nothing is asked.

A step in an allocation is a process, which would die. Slurm's API does not show steps; but nobody except its owner may
make one, root neither, so only jobs of the scheduler's own user are services here.

The pace is slow, and quick only where it leads somewhere: see `_pause_s`.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.removal_token import CAUSE_ROLLOUT, token_of
from sunkpy.core.model.states import JobId, SlurmJob, SlurmNode

AGREE_AFTER_S = 2.0
"""When a look has found services alone, the next one, which has to agree, comes so much later."""
RENEW_AFTER_S = 10.0
"""What is proved is looked at again, so that the operator may disbelieve what is old."""
ANOTHER_AFTER_S = 5.0
"""A question that has changed since the last look."""
REFUSED_AFTER_S = 60.0
"""A question whose answer was no: most of these jobs run for hours."""
PROVED_FOR_S = 20.0
"""A look that nobody could repeat since proves nothing any more."""


_HAS_JOBS = frozenset({"ALLOCATED", "MIXED"})
_IS_UNSETTLED = frozenset({"COMPLETING", "INVALID", "INVALID_REG"})  # an Epilog runs; the record is of another size


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """Are these jobs all that is on the node, and services? `cpus` and `memory_mib` is what it has given away."""

    node: str
    token: str
    jobs: tuple[JobId, ...]
    cpus: int
    memory_mib: int


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """Slurm was asked: when last, and how many times in a row the answer was yes."""

    question: Question
    at_s: float
    agreed: int


def question_of(pod: Pod | None, node: SlurmNode | None) -> Question | None:
    """What there is to ask of a node whose slurmd pod a roll wants gone; None when there is nothing.

    Whether slurmd answers is no matter: one that does not come is replaced in time for the services. But from one that
    this slurmctld has never heard of the next could not be told apart (`report.is_of_pod`).
    """
    if pod is None or node is None or pod.is_deleting:
        return None
    token = token_of(pod)
    has_jobs_alone = bool(node.state & _HAS_JOBS) and not node.state & _IS_UNSETTLED
    is_in_order = node.is_drained_by_us and has_jobs_alone and node.slurmd_since_s > 0
    if token is None or token.cause != CAUSE_ROLLOUT or not is_in_order:
        return None
    jobs = _noted_jobs(pod)
    if not 0 < len(jobs) <= node.alloc_cpus or node.alloc_memory_mib == 0:
        return None
    return Question(
        node=node.name,
        token=pod.annotations[names.ANNOTATION_PENDING_DELETION],
        jobs=jobs,
        cpus=node.alloc_cpus,
        memory_mib=node.alloc_memory_mib,
    )


def is_service(job: SlurmJob, *, scheduler: str) -> bool:
    """Its job has no process on any node: an allocation of pods, past its Prolog; `scheduler` is the scheduler's user.

    Their pods end it by its comment, and no more is asked of that: nobody but the scheduler writes it.
    """
    is_of_pods = job.user == scheduler and job.comment.startswith(names.JOB_COMMENT_PREFIX)
    return is_of_pods and not job.is_batch and job.state == {"RUNNING"} and job.state_reason != "Prolog"


def are_services_alone(question: Question, jobs: Iterable[SlurmJob], *, scheduler: str) -> bool:
    """The jobs asked for, as Slurm tells them, are services, and together have all that the node has given away."""
    found = {job.id: job for job in jobs}
    if found.keys() != set(question.jobs) or not all(is_service(job, scheduler=scheduler) for job in found.values()):
        return False
    held = [job.room[question.node] for job in found.values() if question.node in job.room]
    sums = (sum(each.cpus for each in held), sum(each.memory_mib for each in held))
    return len(held) == len(found) and sums == (question.cpus, question.memory_mib)


def after_look(before: Look | None, question: Question, *, is_yes: bool, at_s: float) -> Look:
    """The look that stands after one more; `at_s` is when it began."""
    agreed = before.agreed if before is not None and before.question == question else 0
    return Look(question=question, at_s=at_s, agreed=agreed + 1 if is_yes else 0)


def due_in_s(look: Look | None, question: Question, now_s: float) -> float:
    """In how many seconds to look, not positive when it is time."""
    if look is None:
        return 0.0
    return look.at_s + _pause_s(look, question) - now_s


def is_proved(look: Look | None, question: Question | None, now_s: float) -> bool:
    """Two looks at this question have agreed, the last of them lately."""
    return look is not None and look.question == question and look.agreed >= 2 and now_s - look.at_s <= PROVED_FOR_S


def _pause_s(look: Look, question: Question) -> float:
    if look.question != question:
        return ANOTHER_AFTER_S
    return {0: REFUSED_AFTER_S, 1: AGREE_AFTER_S}.get(look.agreed, RENEW_AFTER_S)


def _noted_jobs(pod: Pod) -> tuple[JobId, ...]:
    """None at all when somebody wrote something else there."""
    texts = pod.annotations.get(names.ANNOTATION_JOBS, "").split(",")
    return tuple(dict.fromkeys(JobId(int(text)) for text in texts)) if all(map(_is_number, texts)) else ()


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20
