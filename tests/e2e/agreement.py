"""Do Kubernetes and Slurm tell the same story? Every way in which they do not, in words."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from demo import slurm_text
from demo.stack import OPERATOR_NAMESPACE, Stack
from devcluster.waiting import wait_until_none
from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from tests.e2e import workloads


def disagreements(stack: Stack) -> list[str]:
    """Empty when every NodeSet, node, pod, job and process agrees."""
    return [*node_disagreements(stack), *_jobs(stack)]


def node_disagreements(stack: Stack) -> list[str]:
    """Disagreements about NodeSets, nodes and our own processes, which must not exist even while jobs come and go."""
    return [*_nodesets(stack), *_nodes(stack), *_processes(stack)]


def wait_for_agreement(
    stack: Stack, *, timeout_s: float, after: str, about: Callable[[Stack], list[str]] = disagreements
) -> float:
    """Wait until nothing disagrees of what is asked about; after how many seconds that was.

    Raises:
        NeverSo: with all that still does.
    """

    begun_s = time.monotonic()
    wait_until_none(lambda: about(stack), timeout_s=timeout_s, what=f"agreement after {after}", every_s=0.5)
    return time.monotonic() - begun_s


def _nodesets(stack: Stack) -> Iterator[str]:
    listed = stack.kubectl.json("nodesets", "-n", stack.namespace)
    for nodeset in listed["items"]:
        status, name = nodeset.get("status", {}), nodeset["metadata"]["name"]
        wanted = status.get("desiredNumberScheduled")
        for field in ("currentNumberScheduled", "numberReady", "updatedNumberScheduled"):
            if status.get(field, 0) != wanted:
                yield f"NodeSet {name}: {field} is {status.get(field, 0)} of {wanted}"
        if status.get("numberDrain", 0):
            yield f"NodeSet {name}: {status['numberDrain']} drained"


def _nodes(stack: Stack) -> Iterator[str]:
    slurm = stack.slurm_nodes()
    pods = {pod.labels[names.LABEL_SLURM_NODE]: pod for pod in stack.slurmd_pods()}
    for name in slurm.keys() - pods.keys():
        yield f"Slurm node {name} has no pod"
    for name, pod in pods.items():
        if not pod.is_condition_true("Ready"):
            yield f"pod {pod.name} is not Ready"
        if name not in slurm:
            yield f"pod {pod.name} has no Slurm node"
            continue
        flags = slurm_text.node_flags(slurm[name])
        if flags & {"DOWN", "DRAIN", "FAIL", "UNKNOWN", "NOT_RESPONDING", "INVAL", "INVALID_REG"}:
            yield f"Slurm node {name} is {slurm[name]['State']}: {slurm[name].get('Reason', 'no reason')}"
        if "*" in slurm[name]["State"]:
            yield f"Slurm node {name} does not respond"


def _jobs(stack: Stack) -> Iterator[str]:
    pods = {pod.uid: pod for pod in stack.kubectl.list(Pod, "pods", "-n", workloads.NAMESPACE) if _is_ours(stack, pod)}
    jobs = live_jobs_by_pod_uid(stack)
    for uid in jobs.keys() - pods.keys():
        yield f"job {jobs[uid]} stands for a pod that is gone"
    for uid, pod in pods.items():
        if pod.is_finished:
            if uid in jobs:
                yield f"job {jobs[uid]} runs although pod {pod.name} has finished"
        elif len(jobs.get(uid, ())) != 1:
            yield f"pod {pod.name} has jobs {jobs.get(uid, [])}"


def _is_ours(stack: Stack, pod: Pod) -> bool:
    return pod.spec.scheduler_name == stack.scheduler_name


def live_jobs_by_pod_uid(stack: Stack) -> Mapping[str, list[int]]:
    """Jobs that have not ended, by the uid of the pod they stand for."""
    by_uid: dict[str, list[int]] = {}
    for job_id, job in stack.jobs().items():
        if job.get("Comment", "").startswith(names.JOB_COMMENT_PREFIX) and job["JobState"] in ("PENDING", "RUNNING"):
            by_uid.setdefault(job["Comment"].rsplit(":", 1)[-1], []).append(job_id)
    return by_uid


def _processes(stack: Stack) -> Iterator[str]:
    for namespace in (stack.namespace, OPERATOR_NAMESPACE):
        for pod in stack.kubectl.list(Pod, "pods", "-n", namespace):
            if not pod.is_finished and not pod.is_condition_true("Ready"):
                yield f"pod {namespace}/{pod.name} is not Ready"
