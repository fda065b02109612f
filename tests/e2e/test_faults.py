"""Parts die or go blind; jobs and pods run on, nothing is deleted, and soon all agree again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from demo.stack import Stack
from devcluster.waiting import NotYet, wait, wait_until_equal
from sunkpy.core import names
from sunkpy.core.model.objects import Node, Pod
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from tests.bench import report
from tests.e2e import processes, workloads
from tests.e2e.agreement import live_jobs_by_pod_uid, wait_for_agreement
from tests.e2e.drains import is_drained, wait_for_drain
from tests.e2e.outage import slurmrestd_down
from tests.e2e.timeline import watching

pytestmark = pytest.mark.e2e

AGREEMENT_S = 15.0
"""The bound in the report; a busy machine needs longer."""
SETTLE_S = 90.0
BLIND_S = 12.0
UNTIL_TOLD = ["sh", "-c", "until [ -e /stamps/finish ]; do sleep 0.2; done; echo finished"]
JOB_UNTIL_TOLD = "until [ -e finish-faults ]; do sleep 0.2; done; echo finished"


async def test_every_part_may_be_killed_while_a_job_and_a_pod_run(stack: Stack, request: pytest.FixtureRequest) -> None:
    workloads.forget_stamps(stack)
    stack.login("rm -f finish-faults")
    job = stack.sbatch("-n1", "-c1", "--mem=16", "-o", "faults.out", script=JOB_UNTIL_TOLD)
    request.addfinalizer(lambda: stack.cancel_jobs([job]))
    pod = _start_pod(stack, "faults")
    request.addfinalizer(lambda: stack.kubectl("delete", "pod", "faults", "-n", workloads.NAMESPACE, "--wait=true"))
    stack.wait_for_job(job, "RUNNING", timeout_s=60)
    placeholder = live_jobs_by_pod_uid(stack)[pod.uid]
    async with (
        await Kube.connect(stack.kubeconfig) as kube,
        watching(kube, paths.pods(stack.namespace), Pod, label_selector=f"{names.LABEL_ROLE}=compute") as slurmd,
        watching(kube, paths.pods(workloads.NAMESPACE), Pod) as bound,
    ):
        figures = []
        for part in ("operator", "syncer", "scheduler", "slurmrestd", "slurmctld"):
            processes.kill(stack, part)
            took_s = wait_for_agreement(stack, timeout_s=SETTLE_S, after=f"kill -9 of {part}")
            figures.append(report.at_most(f"restart of {part} to agreement", took_s, unit="s", bound=AGREEMENT_S, n=1))
            assert stack.job(job)["JobState"] == "RUNNING", f"after kill -9 of {part}"
            assert live_jobs_by_pod_uid(stack)[pod.uid] == placeholder, f"after kill -9 of {part}"
        assert _finish(stack, job, "faults") == "finished"
        assert slurmd.deletions() == []
        assert bound.deletions() == []
    report.write("faults", figures)
    # slurmctld does not save that a prolog has ended. Killed at the wrong moment it waits for it for ever, delivers no
    # signal to the job, and the scheduler cancels the placeholder that cannot be told to end.
    stack.wait_for_job(placeholder[0], "COMPLETED", "CANCELLED", timeout_s=30)
    assert stack.job(job)["Restarts"] == "0"


async def test_while_slurm_cannot_be_read_no_drain_is_lifted_and_nothing_is_deleted(stack: Stack) -> None:
    by_slurm, by_kube, *_ = sorted(stack.slurmd_pods(), key=lambda pod: pod.name)
    slurm_node, kube_node = by_slurm.labels[names.LABEL_SLURM_NODE], by_kube.spec.node_name
    stack.scontrol("update", f"nodename={slurm_node}", "state=drain", "reason=disk")
    stack.kubectl("cordon", kube_node)
    _wait_for_cordon(stack, by_slurm.spec.node_name, wanted=True)
    wait_for_drain(stack, by_kube, wanted=True, timeout_s=30)
    async with (
        await Kube.connect(stack.kubeconfig) as kube,
        watching(kube, paths.pods(stack.namespace), Pod, label_selector=f"{names.LABEL_ROLE}=compute") as slurmd,
    ):
        with slurmrestd_down(stack), _one_node_fewer(stack):
            stack.kubectl("uncordon", kube_node)
            stack.scontrol("update", f"nodename={slurm_node}", "state=resume")
            with pytest.raises(TimeoutError):
                await slurmd.first(lambda seen: seen.new is None, what="a deletion", timeout_s=BLIND_S)
            assert is_drained(stack, by_kube)
            assert stack.kubectl.get(Node, "node", by_slurm.spec.node_name).spec.unschedulable
        assert slurmd.deletions() == []
        wait_for_drain(stack, by_kube, wanted=False, timeout_s=30)
        _wait_for_cordon(stack, by_slurm.spec.node_name, wanted=False)
        wait_for_agreement(stack, timeout_s=60, after="slurmrestd is back")


async def test_a_scale_down_that_slurm_could_not_see_is_done_when_it_can(stack: Stack) -> None:
    before = len(stack.slurmd_pods())
    with _one_node_fewer(stack):
        with slurmrestd_down(stack):
            _wait_for_mark(stack)
            assert len(stack.slurmd_pods()) == before
        wait_until_equal(
            lambda: (len(stack.slurmd_pods()), len(stack.slurm_nodes())),
            (before - 1, before - 1),
            timeout_s=60,
            what="pods and Slurm nodes after a scale down",
        )
    wait_for_agreement(stack, timeout_s=90, after="scale up again")


def _start_pod(stack: Stack, name: str) -> Pod:
    image, scheduler = stack.images["sunkpy"], stack.scheduler_name
    stamps = workloads.stamps_of(stack)
    stack.kubectl.apply(workloads.pod(name, image=image, scheduler=scheduler, command=UNTIL_TOLD, stamps=stamps))
    return workloads.wait_for_running(stack, name)


def _finish(stack: Stack, job: int, pod: str) -> str:
    (workloads.stamps_of(stack) / "finish").touch()
    stack.login("touch finish-faults")
    stack.kubectl(
        "wait", f"pod/{pod}", "-n", workloads.NAMESPACE, "--for=jsonpath={.status.phase}=Succeeded", "--timeout=30s"
    )
    stack.wait_for_job(job, "COMPLETED", timeout_s=30)
    return stack.login("cat faults.out; rm -f faults.out finish-faults").strip()


def _wait_for_cordon(stack: Stack, node: str, *, wanted: bool) -> None:
    wait_until_equal(
        lambda: stack.kubectl.get(Node, "node", node).spec.unschedulable,
        wanted,
        timeout_s=30,
        what=f"{node} unschedulable",
    )


def _wait_for_mark(stack: Stack) -> None:
    def marked() -> bool:
        return any(names.ANNOTATION_PENDING_DELETION in pod.annotations for pod in stack.slurmd_pods())

    wait(marked, timeout_s=60, what="a slurmd pod is pending deletion")


@contextlib.contextmanager
def _one_node_fewer(stack: Stack) -> Iterator[None]:
    nodeset, namespace = f"nodeset/{stack.nodeset}", stack.namespace
    before = stack.kubectl.json(nodeset, "-n", namespace)["spec"].get("replicas")  # type: ignore[attr-defined]
    fewer = len(stack.slurmd_pods()) - 1
    stack.kubectl("scale", nodeset, "-n", namespace, f"--replicas={fewer}")
    try:
        yield
    finally:
        wanted = "null" if before is None else str(before)
        stack.kubectl("patch", nodeset, "-n", namespace, "--type=merge", "-p", f'{{"spec": {{"replicas": {wanted}}}}}')


def test_a_slurmd_that_slurmctld_looks_for_elsewhere_is_found(stack: Stack) -> None:
    pod = stack.slurmd_pods()[0]
    node = pod.labels[names.LABEL_SLURM_NODE]
    stack.scontrol("update", f"nodename={node}", "nodeaddr=192.0.2.1")  # TEST-NET-1: nobody is there
    stack.scontrol("reconfigure")  # slurmctld asks all nodes at once

    def is_found() -> bool:
        found = stack.slurm_nodes()[node]
        if found["NodeAddr"] != pod.status.pod_ip or found["State"].split("+")[0] != "IDLE" or "NOT_" in found["State"]:
            raise NotYet(f"{found['NodeAddr']} {found['State']}")
        return True

    # slurmctld asks in the first seconds and then again after a third of SlurmdTimeout: 100 s.
    wait(is_found, timeout_s=150, what=f"Slurm node {node} at {pod.status.pod_ip}")


def test_a_job_outlives_its_slurmd(stack: Stack, request: pytest.FixtureRequest) -> None:
    """Another slurmd starts beside it, in the same container."""
    stack.login("rm -f finish-faults")
    job, slurmd = _start_a_job(stack, request, JOB_UNTIL_TOLD)
    stepd = f"slurmstepd: [{job}.batch]"
    wait(lambda: processes.pids_of(slurmd, program=stepd), timeout_s=30, what=f"{stepd} in {slurmd.name}")
    _kill(slurmd, "/usr/sbin/slurmd")
    stack.login("touch finish-faults")
    assert stack.wait_for_job(job, "COMPLETED", timeout_s=90)["Restarts"] == "0"
    stack.login("rm -f finish-faults")


def test_a_job_whose_slurmd_container_dies_right_after_it_began_is_requeued(
    stack: Stack, request: pytest.FixtureRequest
) -> None:
    """A slurmd that registers soon after the start of a job is not asked whether the job is there."""
    job, slurmd = _start_a_job(stack, request, "sleep 300")
    _kill(slurmd, "keep-slurmd")
    wait(lambda: stack.job(job)["Restarts"] == "1", timeout_s=90, what="Slurm to have the job queue again")


def _start_a_job(stack: Stack, request: pytest.FixtureRequest, script: str) -> tuple[int, Pod]:
    """Start a job; return its id and the slurmd pod where it runs."""
    job = stack.sbatch("-n1", "-c1", "--mem=16", "-o", "/dev/null", script=script)
    request.addfinalizer(lambda: stack.cancel_jobs([job]))
    node = stack.wait_for_job(job, "RUNNING", timeout_s=60)["NodeList"]
    return job, next(pod for pod in stack.slurmd_pods() if pod.labels[names.LABEL_SLURM_NODE] == node)


def _kill(slurmd: Pod, program: str) -> None:
    pids = processes.pids_of(slurmd, program=program)
    assert pids, f"no {program} of {slurmd.name} runs on this machine: is the cluster elsewhere?"
    processes.kill_all(pids)
