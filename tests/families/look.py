"""What both sides say about the workload of one case, looked at again and again and kept."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from demo.stack import Stack
from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from tests.families.compare import SeenJob, SeenPod, job_of

NO_JOB: Final = 0


class Looks:
    """Jobs and pods of one case: all that came after it began. `changed_s` is when something last did."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._since = max(stack.jobs(), default=0)
        self._old = {pod.uid for pod in _pods(stack)}
        self.jobs: dict[int, Mapping[str, str]] = {}
        self.pods: dict[str, SeenPod] = {}
        self.present: set[str] = set()
        self.changed_s = time.monotonic()

    def again(self) -> None:
        """Look once more.

        Raises:
            CommandFailed: one side does not answer.
        """
        pods = {pod.uid: _seen(pod) for pod in _pods(self._stack) if pod.uid not in self._old}
        records = {id: job for id, job in self._stack.jobs().items() if id > self._since}
        ours = {id: job for id, job in records.items() if _stands_for_pods(job)}
        if (
            pods.keys() != self.present
            or any(self.pods.get(uid) != pod for uid, pod in pods.items())
            or (ours.keys() != self.jobs.keys())
        ):
            self.changed_s = time.monotonic()
        self.present = set(pods)
        self.pods |= pods
        self.jobs |= ours

    @property
    def seen_jobs(self) -> list[SeenJob]:
        """The jobs, each with the number of pods that ever were in it."""
        return [job_of(record, self._pods_of(id)) for id, record in sorted(self.jobs.items())]

    @property
    def bound(self) -> list[SeenPod]:
        """Pods that are on a node now and stay there."""
        return [pod for pod in self._here() if pod.node and not pod.is_going]

    @property
    def standing(self) -> list[SeenPod]:
        """Pods that are there now, bound or not."""
        return [pod for pod in self._here() if not pod.is_going]

    def gone(self, pods: list[SeenPod]) -> set[str]:
        """Uids of pods that are gone or were evicted."""
        return {pod.uid for pod in pods if pod.uid not in self.present or self.pods[pod.uid].is_going}

    def _here(self) -> list[SeenPod]:
        return [self.pods[uid] for uid in sorted(self.present)]

    def _pods_of(self, job: int) -> int:
        return sum(pod.job == job for pod in self.pods.values())


def _stands_for_pods(job: Mapping[str, str]) -> bool:
    """True unless it is the record of an allocation that could not start at once."""
    was_refused = (job["JobState"], job.get("BatchFlag"), job.get("RunTime")) == ("FAILED", "0", "00:00:00")
    return job.get("Comment", "").startswith(names.JOB_COMMENT_PREFIX) and not was_refused


def _pods(stack: Stack) -> list[Pod]:
    return list(stack.kubectl.list(Pod, "pods", "-A", f"--field-selector=spec.schedulerName={stack.scheduler_name}"))


def _seen(pod: Pod) -> SeenPod:
    job = pod.annotations.get(names.ANNOTATION_JOB_ID, "")
    return SeenPod(
        uid=pod.uid,
        name=pod.name,
        made=str(pod.metadata.creation_timestamp),
        job=int(job) if job.isdigit() else NO_JOB,
        node=pod.spec.node_name or "",
        is_going=pod.is_deleting or pod.is_finished,
    )
