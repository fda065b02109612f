"""Decides whether the slurmd pod of a node may be replaced although jobs are on the node.

It may if all of these jobs are services: allocations of pods, which have no process and so outlive slurmd. Slurm does
not say which jobs a node has, only how many CPUs and how much memory they have together. So the operator writes the
jobs of the node's pods on its slurmd pod (`sunkpy.dev/jobs`), and the syncer asks Slurm for each of them. If these jobs
have all that is allocated on the node, no other job is there. The annotation is a hint and proves nothing.

The node is closed when Slurm reports its sums, so the sums can only shrink. They are read before the jobs, so if the
annotation lacks a job, the listed jobs have less than the sums. Memory is decisive. Slurm frees the CPUs of a suspended
job, not its memory, and counts a CPU that jobs share (OverSubscribe) once. Where memory is not allocated (CR_Core), all
nodes say 0, and Slurm is not asked.

A step in an allocation is a process, which would die with slurmd. Slurm's API does not show steps. But only the owner
of a job can start a step in it; not even root can do so for another user. So only jobs of the scheduler's own user
count as services.

The syncer asks Slurm seldom, and more often after a yes: see `_pause_s`.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.removal_token import token_of
from sunkpy.core.model.states import JobId, SlurmJob, SlurmNode

AGREE_AFTER_S = 2.0
"""The pause before a `ServiceQuestion` is asked again after a first yes of Slurm: a second answer has to agree."""
RENEW_AFTER_S = 10.0
"""The pause before a `ServiceQuestion` is asked again after two yeses, so that the operator can ignore old receipts."""
ANOTHER_AFTER_S = 5.0
"""The pause before a `ServiceQuestion` that differs from the last one about the same node."""
REFUSED_AFTER_S = 60.0
"""The pause before a `ServiceQuestion` is asked again after a no: most jobs run for hours."""
REFUSED_PER_S = 20.0
"""The most times a second that `ServiceQuestion`s are asked again after a no, in the whole cluster."""
PROVED_FOR_S = 20.0
"""How long a yes to a `ServiceQuestion` counts without a newer answer."""


_HAS_JOBS = frozenset({"ALLOCATED", "MIXED"})
_IS_UNSETTLED = frozenset({"COMPLETING", "INVALID", "INVALID_REG"})  # an Epilog runs; the record is of another size


class ServiceQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """The question to Slurm whether `jobs` are all jobs on the node, and whether each of them is a service.

    `cpus`, `memory_mib`: how much of the node is allocated to jobs. `token`: the removal token of the node's slurmd
    pod.
    """

    node: str
    token: str
    jobs: tuple[JobId, ...]
    cpus: int
    memory_mib: int


class ServiceAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Slurm's answers to one question about the jobs on a node. `at_s`: when Slurm was last asked; `agreed`: how many
    times in a row the answer was yes.
    """

    question: ServiceQuestion
    at_s: float
    agreed: int


def question_of(pod: Pod | None, node: SlurmNode | None) -> ServiceQuestion | None:
    """Return the question to ask about the jobs of a node whose slurmd pod a rollout wants to replace; None if Slurm
    need not be asked.

    The slurmd need not answer. But it must have registered with the running slurmctld, or else it could not be
    distinguished from the slurmd of the next pod (`report.is_of_pod`).
    """
    if pod is None or node is None or pod.is_deleting:
        return None
    token = token_of(pod)
    has_jobs_alone = bool(node.state & _HAS_JOBS) and not node.state & _IS_UNSETTLED
    is_in_order = node.is_drained_by_us and has_jobs_alone and node.slurmd_since_s > 0
    if token is None or not token.is_rollout or not is_in_order:
        return None
    jobs = _annotated_jobs(pod)
    if not 0 < len(jobs) <= node.alloc_cpus or node.alloc_memory_mib == 0:
        return None
    return ServiceQuestion(
        node=node.name,
        token=pod.annotations[names.ANNOTATION_PENDING_DELETION],
        jobs=jobs,
        cpus=node.alloc_cpus,
        memory_mib=node.alloc_memory_mib,
    )


def is_service(job: SlurmJob, *, scheduler: str) -> bool:
    """True if the job is a service: an allocation of pods whose Prolog has ended, so it has no process on any node.

    Such a job has a comment that names its pods, and belongs to `scheduler`, the scheduler's Slurm user.
    """
    is_of_pods = job.user == scheduler and job.comment.startswith(names.JOB_COMMENT_PREFIX)
    return is_of_pods and not job.is_batch and job.state == {"RUNNING"} and job.state_reason != "Prolog"


def are_services_alone(question: ServiceQuestion, jobs: Iterable[SlurmJob], *, scheduler: str) -> bool:
    """True if all jobs that the question names are services, and together have all CPUs and memory that are allocated
    on the node.
    """
    found = {job.id: job for job in jobs}
    if found.keys() != set(question.jobs) or not all(is_service(job, scheduler=scheduler) for job in found.values()):
        return False
    held = [job.capacity[question.node] for job in found.values() if question.node in job.capacity]
    sums = (sum(each.cpus for each in held), sum(each.memory_mib for each in held))
    return len(held) == len(found) and sums == (question.cpus, question.memory_mib)


def after_answer(
    before: ServiceAnswer | None, question: ServiceQuestion, *, is_yes: bool, at_s: float
) -> ServiceAnswer:
    """Return Slurm's answers to the question with one more answer (`is_yes`) added; `at_s`: when Slurm was asked. If
    the last answers were to another question, they do not count.
    """
    agreed = before.agreed if before is not None and before.question == question else 0
    return ServiceAnswer(question=question, at_s=at_s, agreed=agreed + 1 if is_yes else 0)


def due_in_s(answered: ServiceAnswer | None, question: ServiceQuestion, now_s: float, *, slurm_nodes: int) -> float:
    """Return the seconds until Slurm is to be asked this question; 0 or less means now. `slurm_nodes`: how many nodes
    Slurm has.
    """
    if answered is None:
        return 0.0
    return answered.at_s + _pause_s(answered, question, slurm_nodes) - now_s


def is_proved(answered: ServiceAnswer | None, question: ServiceQuestion | None, now_s: float) -> bool:
    """True if Slurm's last two answers to this question were yes, and the last one is not too old."""
    return (
        answered is not None
        and answered.question == question
        and answered.agreed >= 2
        and now_s - answered.at_s <= PROVED_FOR_S
    )


def _pause_s(answered: ServiceAnswer, question: ServiceQuestion, slurm_nodes: int) -> float:
    if answered.question != question:
        return ANOTHER_AFTER_S
    refused_s = max(REFUSED_AFTER_S, slurm_nodes / REFUSED_PER_S)
    return {0: refused_s, 1: AGREE_AFTER_S}.get(answered.agreed, RENEW_AFTER_S)


def _annotated_jobs(pod: Pod) -> tuple[JobId, ...]:
    """Return the jobs in the annotation `sunkpy.dev/jobs`; empty if its text is not a list of job IDs."""
    texts = pod.annotations.get(names.ANNOTATION_JOBS, "").split(",")
    return tuple(dict.fromkeys(JobId(int(text)) for text in texts)) if all(map(_is_number, texts)) else ()


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20
