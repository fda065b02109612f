"""A sick node on the whole: drained with evidence while its job goes on, and back once it is cured and checked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from demo.stack import Stack
from devcluster.waiting import wait_until_equal
from sunkpy.core.health import State
from sunkpy.core.health.verification import FAILED
from sunkpy.core.model.objects import Pod
from tests.e2e import sickness

pytestmark = pytest.mark.e2e

EVIDENCE = f"gpu: label {sickness.LABEL}={sickness.BAD}"
SETTLE_S = 60.0


@pytest.fixture
def pod(stack: Stack) -> Iterator[Pod]:
    """A slurmd pod, while the operator knows a signal of its node."""
    with sickness.known(stack):
        found = min(stack.slurmd_pods(), key=lambda pod: pod.name)
        yield found
        sickness.forget(stack, found.spec.node_name)


@pytest.fixture
def checked(stack: Stack) -> Iterator[Pod]:
    """The same, of a NodeSet with a check."""
    with sickness.known(stack), sickness.checked(stack):
        found = min(stack.slurmd_pods(), key=lambda pod: pod.name)
        yield found
        sickness.forget(stack, found.spec.node_name)


def test_a_sick_node_is_drained_with_evidence_and_comes_back(stack: Stack, pod: Pod) -> None:
    node = pod.spec.node_name
    job = stack.sbatch(f"--nodelist={pod.name}", "--time=5", script="sleep 300")
    stack.wait_for_job(job, "RUNNING")
    sickness.mark(stack, node)
    reason = f"k8s: health: {EVIDENCE}"
    wait_until_equal(lambda: _slurm(stack, pod, "Reason"), reason, timeout_s=SETTLE_S, what="Slurm's reason")
    sickness.wait_for(stack, node, State.DRAINING)
    assert stack.job(job)["JobState"] == "RUNNING", "a drain ends no job"
    wait_until_equal(
        lambda: stack.nodeset_status().number_unhealthy, 1, timeout_s=SETTLE_S, what="numberUnhealthy of the NodeSet"
    )
    stack.cancel_jobs([job])
    sickness.wait_for(stack, node, State.DRAINED)
    sickness.mark(stack, node, None)
    sickness.wait_for(stack, node, State.WELL)
    wait_until_equal(lambda: "DRAIN" in _slurm(stack, pod, "State"), False, timeout_s=SETTLE_S, what="DRAIN in Slurm")


def test_a_cured_node_is_checked_and_one_that_fails_needs_a_person_until_it_passes(stack: Stack, checked: Pod) -> None:
    node = checked.spec.node_name
    sickness.mark(stack, node)
    sickness.wait_for(stack, node, State.DRAINED)
    job = stack.sbatch(f"--nodelist={checked.name}", "--time=5", script="sleep 1")
    sickness.fail_checks(stack, checked.name)
    sickness.mark(stack, node, None)
    failed = sickness.wait_for(stack, node, State.PERSON)
    assert (failed.signal, failed.text, failed.log) == (
        FAILED,
        "verify failed with 3: link is down",
        f"looking at {checked.name}\nlink is down",
    )
    assert stack.job(job)["JobState"] == "PENDING", "nothing starts before the check has passed"
    sickness.fail_checks(stack, checked.name, fails=False)
    sickness.ask_for_check(stack, node)
    back = sickness.wait_for(stack, node, State.WELL)
    assert back.why == "its check has passed, asked for by e2e"
    stack.wait_for_job(job, "COMPLETED")


def _slurm(stack: Stack, pod: Pod, key: str) -> str:
    """A field of the pod's Slurm node, without who set it and when."""
    return stack.slurm_nodes().get(pod.name, {}).get(key, "").partition(" [")[0]
