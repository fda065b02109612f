"""Whatever becomes of slurmd and slurmctld during a hand-over, the next job waits for the pod that is still there.

In each test a pod that ignores SIGTERM holds a whole node, a job of the higher partition preempts it, and while the pod
ends something happens by which Slurm takes the Epilog for done, or waits for none. What is left is the gate in the
Prolog of the next job.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from demo.stack import Stack
from devcluster.waiting import wait
from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from tests.bench import report
from tests.e2e import handover, workloads
from tests.e2e.callers import in_slurmd
from tests.e2e.handover import LABEL, Manner
from tests.e2e.processes import pids_of
from tests.e2e.timeline import watching

pytestmark = pytest.mark.e2e

INTO_THE_HANDOVER_S = 6.0
# slurmctld sends its order to end a job again after 50 to 110 s; only then a new slurmd says that the Epilog is done.
LONG = Manner(name="long", tidy_s=workloads.IGNORES_SIGTERM, grace_s=110)
SHORT = Manner(name="short", tidy_s=workloads.IGNORES_SIGTERM, grace_s=25)
MARKERS = "/var/lib/sunkpy/markers"
SLURMD = "/usr/sbin/slurmd"
STARTS = 10
GATE_COST_S = 0.020

Fault = Callable[[Stack, Pod], None]


def _reconfigure(stack: Stack, slurmd: Pod) -> None:
    stack.scontrol("reconfigure")


def _kill_slurmd(stack: Stack, slurmd: Pod) -> None:
    for pid in _slurmd_pids(slurmd):
        os.kill(pid, signal.SIGKILL)


def _down_and_resume(stack: Stack, slurmd: Pod) -> None:
    node = slurmd.labels[names.LABEL_SLURM_NODE]
    stack.scontrol("update", f"nodename={node}", "state=down", "reason=stuck")
    stack.scontrol("update", f"nodename={node}", "state=resume")


def _silent_until_down_and_back(stack: Stack, slurmd: Pod) -> None:
    """What slurmctld does after SlurmdTimeout is done by hand, so that the test need not wait for it."""
    node = slurmd.labels[names.LABEL_SLURM_NODE]
    pids = _slurmd_pids(slurmd)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        stack.scontrol("update", f"nodename={node}", "state=down", "reason=Not responding")
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    stack.scontrol("update", f"nodename={node}", "state=resume")


def _delete_with_force(stack: Stack, slurmd: Pod) -> None:
    """Its containers end some time after the pod has gone from the API, and the Epilog with them."""
    stack.kubectl("delete", "pod", slurmd.name, "-n", stack.namespace, "--grace-period=0", "--force")


def _slurmd_pids(slurmd: Pod) -> list[int]:
    pids = pids_of(slurmd, program=SLURMD)
    return pids or pytest.skip(f"no slurmd of {slurmd.name} on this machine: the cluster is elsewhere")


@pytest.fixture(autouse=True)
def no_markers_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """A marker that stays makes every later job on its node ask."""
    yield
    stack: Stack = request.getfixturevalue("stack")
    for pod in stack.slurmd_pods():
        wait(lambda pod=pod: not _markers(stack, pod), timeout_s=60, what=f"no marker on {pod.name}")


async def test_a_slurmd_killed_and_one_reconfigured_during_a_handover_let_no_job_start_beside_the_pod(
    stack: Stack,
) -> None:
    await _next_jobs_wait(stack, (_kill_slurmd, _reconfigure), LONG)


async def test_a_node_set_down_one_that_was_silent_and_one_without_slurmd_let_no_job_start_beside_the_pod(
    stack: Stack,
) -> None:
    await _next_jobs_wait(stack, (_down_and_resume, _silent_until_down_and_back, _delete_with_force), SHORT)


async def test_a_node_without_pods_asks_nobody_and_loses_no_time(stack: Stack) -> None:
    slurmd = stack.slurmd_pods()[0]
    assert not _markers(stack, slurmd)
    script = (
        "export SLURM_JOB_ID=1 SLURM_JOB_UID=1001 SLURMD_NODENAME=$SUNKPY_SLURM_NODE; cd /run/slurm/conf; "
        f"for i in $(seq {STARTS}); do a=$EPOCHREALTIME; bash ./prolog.sh || exit; b=$EPOCHREALTIME; "
        "echo $((${b/./} - ${a/./})); done"
    )
    took_s = [int(line) / 1e6 for line in in_slurmd(stack, slurmd.name, script).split()]
    figure = report.at_most(
        "Prolog of a job on a node without pods", report.median(took_s), unit="s", bound=GATE_COST_S, n=len(took_s)
    )
    report.write("gate", [figure])
    assert report.median(took_s) < GATE_COST_S


async def _next_jobs_wait(stack: Stack, faults: Sequence[Fault], manner: Manner) -> None:
    """A hand-over on a node of its own for each fault, all at once: most of the time is spent waiting."""
    workloads.forget_stamps()
    pods = sorted(stack.slurmd_pods(), key=lambda pod: pod.name)
    async with asyncio.TaskGroup() as group:
        for fault, slurmd in zip(faults, pods, strict=False):
            group.create_task(_next_job_waits(stack, fault, slurmd, manner))


async def _next_job_waits(stack: Stack, fault: Fault, slurmd: Pod, manner: Manner) -> None:
    node = slurmd.labels[names.LABEL_SLURM_NODE]
    name = f"gate-{node}-{int(time.time())}"
    async with (
        await Kube.connect(stack.kubeconfig) as kube,
        watching(kube, paths.pods(workloads.NAMESPACE), Pod, label_selector=f"app={LABEL}") as timeline,
    ):
        await kube.create(paths.pods(workloads.NAMESPACE), _pod_for(stack, slurmd, name, manner))
        await timeline.first(handover.is_running(name), what=f"{name} Running", timeout_s=60)
        assert _markers(stack, slurmd)
        job = await asyncio.to_thread(handover.submit, stack, node)
        told = await timeline.first(
            lambda seen: seen.name == name and seen.new is not None and seen.new.is_deleting,
            what=f"{name} is told to go",
            timeout_s=60,
        )
        await asyncio.sleep(max(0.0, told.at_s + INTO_THE_HANDOVER_S - time.time()))
        await asyncio.to_thread(fault, stack, slurmd)
        await timeline.gone(name, timeout_s=manner.grace_s + 60)
    start_s, _ = await asyncio.to_thread(handover.job_start, stack, job, timeout_s=240)
    gap_s = start_s - workloads.last_stamp_s(name)
    assert gap_s > 0, f"job {job} started {-gap_s:.1f} s before the last sign of life of {name}"


def _pod_for(stack: Stack, slurmd: Pod, name: str, manner: Manner) -> dict[str, object]:
    pod = workloads.living_pod(
        name,
        image=stack.images["sunkpy"],
        scheduler=stack.scheduler_name,
        cpu=handover.whole_node_cpu(stack),
        tidy_s=manner.tidy_s,
        grace_s=manner.grace_s,
        labels={"app": LABEL},
    )
    spec = pod["spec"]
    assert isinstance(spec, dict)
    return pod | {"spec": spec | {"nodeSelector": {"kubernetes.io/hostname": slurmd.spec.node_name}}}


def _markers(stack: Stack, slurmd: Pod) -> list[str]:
    return in_slurmd(stack, slurmd.name, f"ls {MARKERS}").split()
