"""How long each hand-over between Kubernetes and Slurm takes, compared with Slurm alone on the same cluster in the same
run.

* From a pod's creation to its binding, compared with `sbatch` to the first line of its script: one after another, on an
  idle cluster. It is measured for a service, which gets an allocation, and for a pod with an exit code, which gets a
  batch job.
* From the end of a node's last pod to the first line of the next job, compared with two Slurm jobs, of which one
  preempts the other.
* From a Node's cordon to the drain in Slurm, and back.
* Requests to slurmrestd for each pod, over its whole life on real nodes with their Prologs.

All times are of one clock, because this machine runs all nodes.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter

import msgspec

from demo.stack import Stack
from sunkpy.core import names
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.model.states import is_job_ended
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.slurm import NodeChange, Slurm
from tests.bench import census, report
from tests.bench.asked import Asked
from tests.bench.clusters import idle_demo, time_sbatch
from tests.bench.ground import time_cordon
from tests.e2e import handover, processes, workloads
from tests.e2e.agreement import wait_for_agreement
from tests.e2e.slurm_access import slurm_client
from tests.e2e.timeline import Timeline, named, watching
from tests.polling import until

LABEL = "sunkpy-bench"
_ADDED_S = 0.2
_AT_ONCE, _QUEUED = 0.25, 1.5
"""The most time that a service and a batch pod may take, as a multiple of what `sbatch` takes."""
# The signal reaches the sleep, too, which may end before its shell gets the signal.
_PREEMPTED = "stop() { trap '' TERM; date +%s.%N; exit 0; }; trap stop TERM; echo up; sleep 300 & wait $!; stop"


class Rounds(msgspec.Struct, frozen=True, kw_only=True):
    """How often each thing is measured."""

    start: int = 30
    handover: int = 21
    drain: int = 50


QUICK = Rounds(start=3, handover=3, drain=3)


def measure(asked: Asked) -> list[report.Figure]:
    return asyncio.run(_measure(idle_demo(), QUICK if asked.quick else Rounds()))


async def _measure(stack: Stack, rounds: Rounds) -> list[report.Figure]:
    workloads.forget_stamps(stack)
    wait_for_agreement(stack, timeout_s=60, after="nothing: the bench needs an idle cluster")
    async with await Kube.connect(stack.kubeconfig) as kube, slurm_client(stack) as slurm:
        return [
            *await _start_figures(stack, kube, slurm, rounds.start),
            *await _handover_figures(stack, kube, slurm, rounds.handover),
            *await _drain_figures(stack, kube, slurm, rounds.drain),
            *await _request_figures(stack, kube, slurm, rounds.start),
        ]


async def _start_figures(stack: Stack, kube: Kube, slurm: Slurm, n: int) -> list[report.Figure]:
    services: list[float] = []
    pods: list[float] = []
    jobs: list[float] = []
    async with watching(kube, paths.pods(workloads.NAMESPACE), Pod, label_selector=f"app={LABEL}") as timeline:
        for number, fraction in enumerate(_moments(n)):
            for restart_policy, took in (("Always", services), ("Never", pods)):
                await _wait_for_fraction(fraction)
                name = f"bench-{restart_policy.lower()}-{number}"
                took.append(await time_pod(stack, kube, timeline, name, restart_policy=restart_policy))
                await _idle(slurm)
            await _wait_for_fraction(fraction)
            jobs.append(await asyncio.to_thread(time_sbatch, stack, f"bench-{number}"))
            await _idle(slurm)
    what, beside = "service created to bound", ("sbatch to start", jobs)
    bounds = (round(_AT_ONCE * report.median(jobs), 4), round(_AT_ONCE * report.p95(jobs), 4))
    middle, started = report.median(pods), report.median(jobs)
    peer = report.against("sbatch to start, median", started, ours=middle)
    bound = round(_QUEUED * started, 4)
    return [
        *report.spread(what, services, bounds=bounds, peer=beside),
        report.at_most("pod created to bound, median", middle, bound=bound, n=n, peer=peer),
        report.observed("pod created to bound, p95", report.p95(pods), n=n),
        report.observed("sbatch to start, p95", report.p95(jobs), n=n),
    ]


def _moments(n: int) -> list[float]:
    """Return `n` fractions of a second, evenly spread, in random order.

    Slurm looks at new jobs at full seconds, so most of the time is the wait for the next one. Pods and jobs must begin
    at the same moments within the second, so that neither has an advantage.
    """
    moments = [(index + 0.5) / n for index in range(n)]
    random.Random(1).shuffle(moments)
    return moments


async def _wait_for_fraction(fraction: float) -> None:
    await asyncio.sleep((fraction - time.time()) % 1)


def small_pod(stack: Stack, name: str, *command: str, restart_policy: str = "Never") -> dict[str, object]:
    return workloads.pod(
        name, image=stack.images["sunkpy"], scheduler=stack.scheduler_name, labels={"app": LABEL}, command=[*command],
        restart_policy=restart_policy,
    )  # fmt: skip


async def time_pod(stack: Stack, kube: Kube, timeline: Timeline[Pod], name: str, *, restart_policy: str) -> float:
    """Create a pod and return the seconds until it is bound; then delete it."""
    created_s = time.time()
    body = small_pod(stack, name, "sleep", "60", restart_policy=restart_policy)
    await kube.create(paths.pods(workloads.NAMESPACE), body)
    bound = await timeline.first(
        named(name, lambda pod: bool(pod.spec.node_name)), what=f"{name} bound", timeout_s=60, since_s=created_s
    )
    await kube.delete(paths.pod(workloads.NAMESPACE, name))
    await timeline.gone(name, since_s=created_s)
    return bound.at_s - created_s


async def _handover_figures(stack: Stack, kube: Kube, slurm: Slurm, n: int) -> list[report.Figure]:
    ours: list[handover.Handover] = []
    theirs: list[float] = []
    number = 0
    while len(ours) < n:
        ours += await handover.run_round(stack, kube, number=number, manner=handover.PROMPT)
        await _idle(slurm)
        theirs += await asyncio.to_thread(_preempt_jobs, stack)
        await _idle(slurm)
        number += 1
    idle_s = [one.idle_s for one in ours]
    idle, alone = report.median(idle_s), report.median(theirs)
    peer = report.against("preempted job's end to next job's start, median", alone, ours=idle)
    what, n = "last pod gone to next job's start", len(ours)
    return [
        report.at_most(f"{what}, added over Slurm alone", idle - alone, bound=_ADDED_S, n=n, peer=peer),
        report.observed(f"{what}, median", idle, n=n),
        report.observed(f"{what}, p95", report.p95(idle_s), n=n),
    ]


def _preempt_jobs(stack: Stack) -> list[float]:
    """Return for each node the seconds from the end of a preempted Slurm job to the start of its successor."""
    nodes = list(stack.slurm_nodes())
    options = ("-p", "low", "--exclusive", "--no-requeue")
    for job in [stack.sbatch(*options, "-w", node, "-o", f"low-{node}.out", script=_PREEMPTED) for node in nodes]:
        stack.wait_for_job(job, "RUNNING", timeout_s=30)
    # A job is RUNNING shortly before its script begins: wait until the script can record its end.
    stack.login(f"until [ $(cat low-*.out | grep -c up) -eq {len(nodes)} ]; do sleep 0.1; done", timeout_s=30)
    high = [handover.submit(stack, node) for node in nodes]
    starts = {node: start_s for start_s, node in (handover.job_start(stack, job) for job in high)}
    said = stack.login("for f in low-*.out; do echo $f $(grep -E '^[0-9.]+$' $f); rm -f $f; done").splitlines()
    ends = {
        name.removeprefix("low-").removesuffix(".out"): float(end_s) for name, end_s in (line.split() for line in said)
    }
    return [starts[node] - end_s for node, end_s in ends.items()]


async def _drain_figures(stack: Stack, kube: Kube, slurm: Slurm, n: int) -> list[report.Figure]:
    to_slurm: list[float] = []
    to_kube: list[float] = []
    pods = stack.slurmd_pods()
    async with watching(kube, paths.NODES, Node) as nodes:
        while len(to_slurm) < n:
            pod = pods[len(to_slurm) % len(pods)]
            slurm_node, node = pod.labels[names.LABEL_SLURM_NODE], pod.spec.node_name
            to_slurm.append(await time_cordon(kube, slurm, node, slurm_node))
            to_kube.append(await _time_slurm_drain(slurm, nodes, node, slurm_node))
    found = []
    for what, took, bound in (
        ("Node cordoned to drain in Slurm", to_slurm, 1.0),
        ("drain in Slurm to Node cordoned", to_kube, 3.0),
    ):
        found.append(report.at_most(f"{what}, p95", report.p95(took), bound=bound, n=n))
        found.append(report.observed(f"{what}, median", report.median(took), n=n))
    return found


async def _time_slurm_drain(slurm: Slurm, nodes: Timeline[Node], node: str, slurm_node: str) -> float:
    begun_s = time.time()
    await slurm.drain_node(slurm_node, "bench")
    cordoned = await _until_cordon(nodes, node, since_s=begun_s, cordoned=True)
    await slurm.update_node(slurm_node, NodeChange(state=("UNDRAIN",)))
    await _until_cordon(nodes, node, since_s=cordoned, cordoned=False)
    return cordoned - begun_s


async def _until_cordon(nodes: Timeline[Node], node: str, *, since_s: float, cordoned: bool) -> float:
    seen = await nodes.first(
        named(node, lambda found: found.spec.unschedulable is cordoned),
        what=f"{node} {'cordoned' if cordoned else 'uncordoned'}", timeout_s=30, since_s=since_s,
    )  # fmt: skip
    return seen.at_s


async def _request_figures(stack: Stack, kube: Kube, slurm: Slurm, n: int) -> list[report.Figure]:
    """Count the requests of all schedulers over the life of pods, less those of an equally long time without pods."""
    await _idle(slurm)
    before, from_s = _asked(stack), time.time()
    names_ = [f"bench-asks-{number}" for number in range(n)]
    async with watching(kube, paths.pods(workloads.NAMESPACE), Pod, label_selector=f"app={LABEL}") as timeline:
        for name in names_:
            await kube.create(paths.pods(workloads.NAMESPACE), small_pod(stack, name, "true"))
        for name in names_:
            await timeline.first(named(name, _has_ended), what=f"{name} ended", timeout_s=180, since_s=from_s)
        await _idle(slurm)
        with_pods, took_s = _asked(stack) - before, time.time() - from_s
        for name in names_:
            await kube.delete(paths.pod(workloads.NAMESPACE, name))
            await timeline.gone(name, since_s=from_s)
    before = _asked(stack)
    await asyncio.sleep(took_s)
    each = (with_pods.total() - (_asked(stack) - before).total()) / n
    by_endpoint = ", ".join(f"{endpoint} {calls / n:.2f}" for endpoint, calls in with_pods.most_common())
    what = "requests to slurmrestd a pod, over its whole life"
    return [report.at_most(what, each, unit="requests", bound=3, n=n, limited_by=f"with its polls: {by_endpoint}")]


def _has_ended(pod: Pod) -> bool:
    return pod.status.phase == "Succeeded"


def _asked(stack: Stack) -> Counter[str]:
    found = Counter[str]()
    for pod in processes.pods_of(stack, "scheduler"):
        path = f"/api/v1/namespaces/{stack.namespace}/pods/{pod.name}:8080/proxy/metrics"
        found += census.read(stack.kubectl("get", "--raw", path)).calls
    return found


async def _idle(slurm: Slurm) -> None:
    """Wait until no job is left, completing ones included."""

    async def check() -> bool:
        jobs = (await slurm.jobs_state()).values()
        return all(is_job_ended(state) and "COMPLETING" not in state for state in jobs)

    await until(check, timeout_s=60, what="an idle queue")
