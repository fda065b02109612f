"""Whatever becomes of slurmd and slurmctld during a hand-over, the next job waits for the pod that is still there.

Each time a pod that ignores SIGTERM holds a whole node, a job of the higher partition preempts it, and while the pod
ends something happens by which Slurm takes the Epilog for done, or waits for none. What is left is the gate in the
Prolog of the next job.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import pytest

from demo.stack import Stack
from devcluster.waiting import NotYet, wait
from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from tests.bench import report
from tests.e2e import handover, workloads
from tests.e2e.callers import in_slurmd
from tests.e2e.handover import LABEL, Manner
from tests.e2e.processes import kill_all, pids_of
from tests.e2e.timeline import Sighting, watching

pytestmark = pytest.mark.e2e

INTO_THE_HANDOVER_S = 6.0
# Not while the other faults begin: each is tried alone, and a reconfigure reaches every node.
RECONFIGURE_S = 40.0
AFTER_RECONFIGURE_S = 55.0
# slurmctld sends its order to end a job again after 50 to 110 s; only then a new slurmd says that the Epilog is done.
LONG = Manner(name="long", tidy_s=workloads.IGNORES_SIGTERM, grace_s=110)
CROWD = Manner(name="crowd", tidy_s=workloads.IGNORES_SIGTERM, grace_s=45)
SHORT = Manner(name="short", tidy_s=workloads.IGNORES_SIGTERM, grace_s=15)
MARKERS = "/var/lib/sunkpy/markers"
SLURMD = "/usr/sbin/slurmd"
STARTS = 10

Fault = Callable[[Stack, Pod], None]


def _reconfigure(stack: Stack, slurmd: Pod) -> None:
    stack.scontrol("reconfigure")


def _kill_slurmd(stack: Stack, slurmd: Pod) -> None:
    kill_all(_slurmd_pids(slurmd))


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


def _delete_the_pod_with_force(stack: Stack, slurmd: Pod) -> None:
    """Its object is gone at once, and nobody tells when its containers are."""
    there = f"--field-selector=spec.nodeName={slurmd.spec.node_name}"
    which = ("-n", workloads.NAMESPACE, "-l", f"app={LABEL}", there)
    stack.kubectl("delete", "pod", *which, "--grace-period=0", "--force")


def _slurmd_pids(slurmd: Pod) -> list[int]:
    pids = pids_of(slurmd, program=SLURMD)
    assert pids, f"no slurmd of {slurmd.name} runs on this machine: is the cluster elsewhere?"
    return pids


LONG_FAULTS: Sequence[Fault] = (_kill_slurmd, _reconfigure)
SHORT_FAULTS: Sequence[Fault] = (
    _down_and_resume,
    _silent_until_down_and_back,
    _delete_with_force,
    _delete_the_pod_with_force,
)


@pytest.fixture(autouse=True)
def no_markers_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """A marker that stays makes every later job on its node ask."""
    yield
    stack: Stack = request.getfixturevalue("stack")
    for pod in stack.slurmd_pods():
        wait(lambda pod=pod: not _markers(stack, pod), timeout_s=60, what=f"no marker on {pod.name}")


@pytest.fixture(scope="module")
def gaps(stack: Stack) -> Mapping[Fault, float | BaseException]:
    """Seconds from a pod's last sign of life to the next job's, for each fault. All are tried at once, side by side on
    the nodes: most of the time is spent waiting.
    """
    return asyncio.run(_try_all(stack))


@pytest.mark.long
@pytest.mark.parametrize("fault", [*LONG_FAULTS, *SHORT_FAULTS], ids=lambda fault: fault.__name__.strip("_"))
def test_no_job_starts_beside_the_pod(gaps: Mapping[Fault, float | BaseException], fault: Fault) -> None:
    gap_s = gaps[fault]
    if isinstance(gap_s, BaseException):
        raise gap_s
    assert gap_s > 0, f"the next job started {-gap_s:.1f} s before the last sign of life of the pod"


@pytest.mark.long
async def test_jobs_that_wait_at_the_gate_survive_a_reconfigure_and_wait_on(stack: Stack) -> None:
    """Slurm waits for no Epilog on nodes that were down, so that all next jobs begin, and stand at the gate. A slurmd
    that was reconfigured forgets that they do, and would begin their steps.
    """
    workloads.forget_stamps(stack)
    pods = stack.slurmd_pods()
    async with (
        await Kube.connect(stack.kubeconfig) as kube,
        watching(kube, paths.pods(workloads.NAMESPACE), Pod, label_selector=f"app={LABEL}") as timeline,
    ):
        held = {pod.labels[names.LABEL_SLURM_NODE]: f"crowd-{pod.spec.node_name}" for pod in pods}
        for slurmd in pods:
            name = held[slurmd.labels[names.LABEL_SLURM_NODE]]
            await kube.create(paths.pods(workloads.NAMESPACE), _pod_for(stack, slurmd, name, CROWD))
        for name in held.values():
            await timeline.first(handover.is_running(name), what=f"{name} Running", timeout_s=60)
        jobs = {node: await asyncio.to_thread(handover.submit, stack, node) for node in held}
        for slurmd in pods:
            told = _told(held[slurmd.labels[names.LABEL_SLURM_NODE]])
            await timeline.first(told, what="the pod is told to go", timeout_s=60)
        for slurmd in pods:
            await asyncio.to_thread(_down_and_resume, stack, slurmd)
        await asyncio.to_thread(_wait_until_all_are, stack, list(jobs.values()), ("RUNNING", "Prolog"))
        await asyncio.to_thread(stack.scontrol, "reconfigure")
        if stack.suite == "trixie":  # a slurmd of 26.05 awaits the Prologs first
            await asyncio.to_thread(_wait_until_all_are, stack, list(jobs.values()), ("PENDING", "BeginTime"))
        for name in held.values():
            await timeline.gone(name, timeout_s=CROWD.grace_s + 60)
    for node, job in jobs.items():
        start_s, _ = await asyncio.to_thread(handover.job_start, stack, job, timeout_s=240)
        assert start_s > workloads.last_stamp_s(stack, held[node]), f"job {job} began beside the pod on {node}"


def _wait_until_all_are(stack: Stack, jobs: Sequence[int], state: tuple[str, str]) -> None:
    def all_are() -> bool:
        found = {job: (told["JobState"], told["Reason"]) for job in jobs for told in [stack.job(job)]}
        if any(told != state for told in found.values()):
            raise NotYet(str(found))
        return True

    wait(all_are, timeout_s=30, what=f"all jobs {state}")


async def test_a_node_without_pods_asks_nobody(stack: Stack) -> None:
    """Its Prolog needs no network; how long it takes is written to the report."""
    slurmd = stack.slurmd_pods()[0]
    assert not _markers(stack, slurmd)
    script = (
        "export SLURM_JOB_ID=1 SLURM_JOB_UID=1001 SLURMD_NODENAME=$SUNKPY_SLURM_NODE; cd /run/slurm/conf; "
        f"for i in $(seq {STARTS}); do a=$EPOCHREALTIME; unshare --net bash ./prolog.sh || exit; b=$EPOCHREALTIME; "
        "echo $((${b/./} - ${a/./})); done"
    )
    took_s = [int(line) / 1e6 for line in in_slurmd(stack, slurmd.name, script).split()]
    assert len(took_s) == STARTS, "a Prolog failed"
    what = "Prolog of a job on a node without pods"
    report.write("gate", [report.observed(what, report.median(took_s), unit="s", n=STARTS)])


async def _try_all(stack: Stack) -> dict[Fault, float | BaseException]:
    workloads.forget_stamps(stack)
    pods = sorted(stack.slurmd_pods(), key=lambda pod: pod.name)
    found: dict[Fault, float | BaseException] = {}

    async def attempt(fault: Fault, slurmd: Pod, manner: Manner) -> None:
        try:
            found[fault] = await _gap_after(stack, fault, slurmd, manner)
        except Exception as error:  # noqa: BLE001  raised by the test of this fault
            found[fault] = error

    async def attempt_in_turn(slurmd: Pod) -> None:
        await asyncio.sleep(AFTER_RECONFIGURE_S)  # of which this node hears as well
        for fault in SHORT_FAULTS:
            await attempt(fault, slurmd, SHORT)

    async with asyncio.TaskGroup() as group:
        for fault, slurmd in zip(LONG_FAULTS, pods[1:], strict=True):
            group.create_task(attempt(fault, slurmd, LONG))
        group.create_task(attempt_in_turn(pods[0]))
    return found


async def _gap_after(stack: Stack, fault: Fault, slurmd: Pod, manner: Manner) -> float:
    """Inflict it while a pod leaves the node to a job; negative is an overlap."""
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
        told = await timeline.first(_told(name), what=f"{name} is told to go", timeout_s=60)
        into_s = RECONFIGURE_S if fault is _reconfigure else INTO_THE_HANDOVER_S
        await asyncio.sleep(max(0.0, told.at_s + into_s - time.time()))
        await asyncio.to_thread(fault, stack, slurmd)
        await timeline.gone(name, timeout_s=manner.grace_s + 60)
    start_s, _ = await asyncio.to_thread(handover.job_start, stack, job, timeout_s=240)
    return start_s - workloads.last_stamp_s(stack, name)


def _told(name: str) -> Callable[[Sighting[Pod]], bool]:
    """The change by which a pod gets its deletion timestamp."""
    return lambda seen: seen.name == name and seen.new is not None and seen.new.is_deleting


def _pod_for(stack: Stack, slurmd: Pod, name: str, manner: Manner) -> dict[str, object]:
    pod = workloads.living_pod(
        name,
        stack=stack,
        cpu=handover.whole_node_cpu(stack),
        tidy_s=manner.tidy_s,
        grace_s=manner.grace_s,
        labels={"app": LABEL},
    )
    spec = pod["spec"]
    assert isinstance(spec, dict)
    return pod | {"spec": spec | {"nodeSelector": {"kubernetes.io/hostname": slurmd.spec.node_name}}}


def _markers(stack: Stack, slurmd: Pod) -> list[str]:
    return in_slurmd(stack, slurmd.name, f"find {MARKERS} -maxdepth 1 -type f").split()
