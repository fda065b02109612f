"""What went wrong once, or nearly, and only shows on a real cluster."""

from __future__ import annotations

import pytest

from demo.stack import Stack
from devcluster.waiting import wait
from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from tests.e2e import handover, workloads
from tests.e2e.agreement import wait_for_agreement
from tests.e2e.drains import wait_for_drain
from tests.e2e.outage import scaled_to_zero

pytestmark = pytest.mark.e2e


def test_a_drain_is_lifted_by_a_syncer_that_did_not_see_the_uncordon(stack: Stack) -> None:
    pod = sorted(stack.slurmd_pods(), key=lambda pod: pod.name)[0]
    stack.kubectl("cordon", pod.spec.node_name)
    wait_for_drain(stack, pod, wanted=True, timeout_s=60)
    with scaled_to_zero(stack, "syncer"):
        stack.kubectl("uncordon", pod.spec.node_name)
        _wait_until_told(stack, pod)
    wait_for_drain(stack, pod, wanted=False, timeout_s=60)


def test_a_node_whose_slurmd_is_deleted_by_hand_is_not_used_before_the_pod_there_is_gone(stack: Stack) -> None:
    workloads.forget_stamps(stack)
    name = "orphan"
    body = workloads.living_pod(
        name,
        stack=stack,
        cpu=handover.whole_node_cpu(stack),
        tidy_s=workloads.IGNORES_SIGTERM,
        grace_s=6,
        labels={},
    )
    stack.kubectl.apply(body)
    running = workloads.wait_for_running(stack, name)
    slurm_node = running.annotations[names.ANNOTATION_PLACED_ON]
    stack.kubectl("delete", "pod", slurm_node, "-n", stack.namespace, "--grace-period=2", "--wait=false")
    job = stack.sbatch(
        "-p", "high", "-w", slurm_node, "--exclusive", "-o", "handover-%j.out", script=handover.JOB_SCRIPT
    )
    started_s, _ = handover.job_start(stack, job)
    assert started_s > workloads.last_stamp_s(stack, name)
    wait_for_agreement(stack, timeout_s=60, after="a slurmd pod was deleted by hand")


def _wait_until_told(stack: Stack, pod: Pod) -> None:
    def is_told() -> bool:
        found = stack.kubectl.get(Pod, "pod", pod.name, "-n", stack.namespace)
        return names.ANNOTATION_CORDON not in found.annotations

    wait(is_told, timeout_s=60, what=f"the operator tells {pod.name} that its node is open again")
