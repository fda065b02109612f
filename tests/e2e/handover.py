"""Hand-over measured: pods that occupy nodes are preempted by jobs, and both say when they lived.

One round puts a pod on every node, each taking all of Slurm's cpus there, then submits one whole-node job per pod to
the higher partition. The pod stamps the time until it dies, the job's first line prints the time: the difference is the
gap, and a negative one is an overlap.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from demo.stack import Stack
from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from tests.e2e import workloads
from tests.e2e.timeline import Sighting, Timeline, named, watching

LABEL = "sunkpy-handover"
JOB_SCRIPT = 'date +%s.%N; echo "$SLURMD_NODENAME"; sleep 0.3'


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    """How a pod takes SIGTERM."""

    name: str
    tidy_s: float
    grace_s: int


PROMPT = Manner(name="prompt", tidy_s=0.0, grace_s=10)
TIDY = Manner(name="tidy", tidy_s=1.0, grace_s=10)
STUBBORN = Manner(name="stubborn", tidy_s=workloads.IGNORES_SIGTERM, grace_s=3)


class Handover(msgspec.Struct, frozen=True, kw_only=True):
    """One node that passed from a pod to a job. Times in seconds since the epoch, on the machine's one clock."""

    node: str
    pod: str
    manner: str
    job: int
    told_s: float
    last_alive_s: float
    gone_s: float
    job_start_s: float

    @property
    def gap_s(self) -> float:
        """From the pod's last sign of life to the job's first; negative is an overlap."""
        return self.job_start_s - self.last_alive_s

    @property
    def idle_s(self) -> float:
        """From the moment the apiserver says that the pod is gone to the job's first line: what the hand-over adds."""
        return self.job_start_s - self.gone_s


def whole_node_cpu(stack: Stack) -> str:
    """A cpu request that Slurm rounds up to all cpus of the smallest of its nodes, and that Kubernetes can grant."""
    cpus = min(int(node["CPUTot"]) for node in stack.slurm_nodes().values())
    return f"{(cpus - 1) * 1000 + 100}m"


async def run_round(stack: Stack, kube: Kube, *, number: int, manner: Manner) -> list[Handover]:
    """Occupy every Slurm node with a pod, preempt all of them, and tell what was measured on each node."""
    async with watching(kube, paths.pods(workloads.NAMESPACE), Pod, label_selector=f"app={LABEL}") as timeline:
        pods = await _occupy(stack, kube, timeline, number=number, manner=manner)
        jobs = await asyncio.gather(*(asyncio.to_thread(submit, stack, node) for node in pods))
        for name in pods.values():
            await timeline.gone(name, timeout_s=90)
        starts = await asyncio.gather(*(asyncio.to_thread(job_start, stack, job) for job in jobs))
        return [
            _handover(stack, timeline, manner, node=node, pod=pods[node], job=job, start_s=start_s)
            for job, (start_s, node) in zip(jobs, starts, strict=True)
        ]


def submit(stack: Stack, node: str) -> int:
    """A job of the higher partition that wants a whole node."""
    return stack.sbatch("-p", "high", "-w", node, "--exclusive", "-o", "handover-%j.out", script=JOB_SCRIPT)


async def _occupy(stack: Stack, kube: Kube, timeline: Timeline[Pod], *, number: int, manner: Manner) -> dict[str, str]:
    """Slurm node to the pod that was bound beside it and runs."""
    cpu = whole_node_cpu(stack)
    pods = [f"handover-{number}-{index}" for index in range(len(stack.slurm_nodes()))]
    for name in pods:
        await kube.create(
            paths.pods(workloads.NAMESPACE),
            workloads.living_pod(
                name,
                stack=stack,
                cpu=cpu,
                tidy_s=manner.tidy_s,
                grace_s=manner.grace_s,
                labels={"app": LABEL},
            ),
        )
    for name in pods:
        await timeline.first(is_running(name), what=f"{name} Running", timeout_s=60)
    return _placed(timeline, pods)


def is_running(name: str) -> Callable[[Sighting[Pod]], bool]:
    """The change by which a pod runs."""
    return named(name, lambda pod: pod.status.phase == "Running")


def _placed(timeline: Timeline[Pod], pods: Sequence[str]) -> dict[str, str]:
    placed = {}
    for seen in timeline.sightings:
        if seen.new is not None and seen.name in pods and names.ANNOTATION_PLACED_ON in seen.new.annotations:
            placed[seen.new.annotations[names.ANNOTATION_PLACED_ON]] = seen.name
    return placed


def job_start(stack: Stack, job: int, *, timeout_s: float = 90) -> tuple[float, str]:
    """When the job's script began, and on which Slurm node; the job has completed."""
    stack.wait_for_job(job, "COMPLETED", timeout_s=timeout_s)
    start, node = stack.login(f"cat handover-{job}.out; rm -f handover-{job}.out").split()
    return float(start), node


def _handover(
    stack: Stack, timeline: Timeline[Pod], manner: Manner, *, node: str, pod: str, job: int, start_s: float
) -> Handover:
    told = next(s.at_s for s in timeline.sightings if s.name == pod and (s.new is None or s.new.is_deleting))
    gone = next(s.at_s for s in timeline.sightings if s.name == pod and s.new is None)
    return Handover(
        node=node,
        pod=pod,
        manner=manner.name,
        job=job,
        told_s=told,
        last_alive_s=workloads.last_stamp_s(stack, pod),
        gone_s=gone,
        job_start_s=start_s,
    )
