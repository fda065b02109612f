"""What came of a manifest against what should have. Pure; an answer is a list of sentences, empty when all is well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from tests.families.cases import Case, JobShape

_UNITS = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024**2}


class SeenPod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that Slurm schedules. `node` is the Kubernetes node, `job` its job's id; empty and 0: not yet."""

    uid: str
    name: str
    made: str = ""
    job: int = 0
    node: str = ""
    is_going: bool = False


class SeenJob(msgspec.Struct, frozen=True, kw_only=True):
    """A placeholder job, and the pods that ever were in it."""

    id: int
    shape: JobShape
    state: str = ""
    reason: str = ""

    def __str__(self) -> str:
        return f"job {self.id} ({self.state}): {self.shape}"


def job_of(record: Mapping[str, str], pods: int) -> SeenJob:
    """A job as `scontrol show job` prints it; what it was given counts, before that what it asks for."""
    given = record.get("AllocTRES", "")
    tres = parse_tres(given if given not in ("", "(null)") else record.get("ReqTRES", ""))
    return SeenJob(
        id=int(record["JobId"].split()[0]),
        shape=JobShape(
            pods, int(tres.get("cpu", "0")), memory_mib(tres.get("mem", "0M")), int(tres.get("gres/gpu", "0"))
        ),
        state=record.get("JobState", ""),
        reason=record.get("Reason", ""),
    )


def parse_tres(text: str) -> dict[str, str]:
    """`cpu=5,mem=640M,node=1,billing=5,gres/gpu=2`."""
    return dict(item.split("=", 1) for item in text.split(",") if "=" in item)


def memory_mib(text: str) -> int:
    """Slurm's memory, `640M` or `1.25G`, in MiB."""
    return round(float(text[:-1]) * _UNITS[text[-1]]) if text[-1] in _UNITS else int(text)


def wrong_jobs(case: Case, seen: Sequence[SeenJob]) -> list[str]:
    """What is missing and what is too much, against the nearest of the sets of jobs that are right.

    A job that was given back before a pod came to it does not count: Slurm may start two jobs on one node whose pods
    exclude each other (docs/surprises.md).
    """
    held = [job for job in seen if job.shape.pods or job.state != "CANCELLED"]
    answers = [_difference(wanted, held) for wanted in (case.jobs, *case.also)]
    return min(answers, key=len)


def _difference(wanted: Sequence[JobShape], seen: Sequence[SeenJob]) -> list[str]:
    left = Counter(wanted)
    extra = []
    for job in seen:
        if left[job.shape] > 0:
            left[job.shape] -= 1
        else:
            extra.append(str(job))
    missing = [
        f"no job of {shape}" + (f" ({count} times)" if count > 1 else "") for shape, count in left.items() if count
    ]
    return [*missing, *(f"not wanted: {text}" for text in extra)]


def unbound(pods: Sequence[SeenPod]) -> list[str]:
    """Pods that stand still. Whether they should have a job says `wrong_jobs`."""
    return [f"{pod.name} is on no node" for pod in pods if not pod.node]


def waves(pods: Sequence[SeenPod]) -> list[int]:
    """How many pods appeared together, in order; the apiserver's times have whole seconds."""
    return [count for _, count in sorted(Counter(pod.made for pod in pods).items())]


def wrong_preemption(case: Case, before: Sequence[SeenPod], gone: AbstractSet[str], *, node: str) -> list[str]:
    """What should have gone and did not, or went and should not have, when a job took `node` whole.

    Args:
        before: the pods that were bound.
        gone: uids of pods that were evicted or are gone.
    """
    struck = {pod.job for pod in before if pod.node == node}
    found = [f"{pod.name} stayed on {node}" for pod in before if pod.node == node and pod.uid not in gone]
    if case.preempt.startswith(("gang", "group")):
        found += [
            f"{pod.name} stayed, though job {pod.job} was preempted"
            for pod in before
            if pod.job in struck and pod.node != node and pod.uid not in gone
        ]
    if case.is_restarted_whole:
        return found
    found += [
        f"{pod.name} went, though nothing was taken from job {pod.job}"
        for pod in before
        if pod.job not in struck and pod.uid in gone
    ]
    return found


def wrong_return(case: Case, returned: int) -> list[str]:
    """Whether the owner did with its evicted pods what it was expected to; `returned`: bound again, in new pods."""
    if case.must_come_back is True and not returned:
        return ["no pod came back"]
    if case.must_come_back is False and returned:
        return [f"{returned} pods came back, expected: {case.comes_back}"]
    return []
