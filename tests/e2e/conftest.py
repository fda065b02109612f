"""One real cluster for all end-to-end tests, left by each test as it was found."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo import slurm_text, story
from demo.bring_up import bring_up
from demo.stack import Stack
from devcluster.shell import CommandFailed
from devcluster.waiting import NotYet, wait
from sunkpy.core import names
from sunkpy.core.model.objects import Pod

CLUSTER = os.environ.get("SUNKPY_CLUSTER", "sunkpy")
SUITE = os.environ.get("SLURM_SUITE", "trixie")
NODES = 3
CLEAN_S = 90.0
"""How long Epilogs, and nodes that somebody opens again, may take on a machine with much else to do."""
STORY = Path(__file__).with_name("test_story.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(os.path.dirname(__file__)):
            item.add_marker(pytest.mark.e2e)
    items.sort(key=lambda item: item.path == STORY)  # leaves the other version of Slurm running


@pytest.fixture(scope="session")
def stack() -> Stack:
    """The whole: cluster, images and both charts, of the suite `$SLURM_SUITE`."""
    stack = bring_up(suite=SUITE, name=CLUSTER, nodes=NODES, tell=print)
    story.reset(stack)
    return stack


@pytest.fixture(autouse=True)
def clean(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the test that leaves a pod, a job, a drain or a cordon behind, and clean up after it."""
    yield
    if "stack" not in request.fixturenames or "test_story" in request.node.nodeid:
        return
    stack: Stack = request.getfixturevalue("stack")
    try:
        wait(lambda: nothing_left(stack), timeout_s=CLEAN_S, what="the cluster as the test found it")
    except Exception:
        sweep(stack)
        story.reset(stack)
        raise
    story.restore(stack)


def sweep(stack: Stack) -> None:
    """Take away the jobs, pods and drains that a failed test has left, or every test after it waits for them."""
    stack.cancel_jobs([job_id for job_id, job in stack.jobs().items() if story.is_live(job)])
    for pod in stack.kubectl.list(Pod, "pods", "-A", f"--field-selector=spec.schedulerName={stack.scheduler_name}"):
        stack.kubectl("delete", "pod", pod.name, "-n", pod.metadata.namespace, "--ignore-not-found", "--wait=false")
    for node in stack.nodes():
        stack.kubectl("annotate", "node", node.name, f"{names.ANNOTATION_DRAIN}-")
    for name, record in stack.slurm_nodes().items():
        is_theirs = not record.get("Reason", "k8s: ").startswith("k8s: ")
        if is_theirs and slurm_text.node_flags(record) & {"DRAIN", "DOWN", "FAIL"}:
            with contextlib.suppress(CommandFailed):  # it may have been lifted meanwhile
                stack.scontrol("update", f"nodename={name}", "state=resume")


def nothing_left(stack: Stack) -> bool:
    """No job, no workload pod, no cordon, every Slurm node idle.

    Raises:
        NotYet: with all that is left.
    """
    left = [f"job {job['JobId']} {job['JobState']}" for job in stack.jobs().values() if story.is_live(job)]
    left += [
        f"Slurm node {name} {node['State']}" for name, node in stack.slurm_nodes().items() if not story.is_idle(node)
    ]
    left += [f"node {node.name} cordoned" for node in stack.nodes() if node.spec.unschedulable]
    pods = stack.kubectl.list(Pod, "pods", "-A", f"--field-selector=spec.schedulerName={stack.scheduler_name}")
    left += [f"pod {pod.metadata.namespace}/{pod.name}" for pod in pods]
    if left:
        raise NotYet("; ".join(left))
    return True
