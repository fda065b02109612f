"""A sick node on the whole: drained with evidence while its job goes on, and back once it is cured."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import yaml

from demo.stack import OPERATOR_NAMESPACE, ROOT, Stack
from devcluster.waiting import wait_until_equal
from sunkpy.core import names
from sunkpy.core.health import State, read_record
from sunkpy.core.model.objects import Node, Pod

pytestmark = pytest.mark.e2e

CHART = str(ROOT / "charts" / "sunkpy")
LABEL = "example.com/gpu"
HEALTH = {"settleSeconds": 3, "signals": {"gpu": {"label": LABEL, "bad": ["fell-off"]}}}
EVIDENCE = f"gpu: label {LABEL}=fell-off"
SETTLE_S = 60.0


@pytest.fixture
def pod(stack: Stack) -> Iterator[Pod]:
    """A slurmd pod, while the operator knows a signal of its node."""
    where = ("-n", OPERATOR_NAMESPACE)
    before: int = json.loads(stack.helm("status", "sunkpy", *where, "-o", "json"))["version"]
    values = yaml.safe_dump({"health": HEALTH})
    found = min(stack.slurmd_pods(), key=lambda pod: pod.name)
    try:
        stack.helm("upgrade", "sunkpy", CHART, *where, "--reuse-values", "--values=-", "--wait", stdin=values)
        yield found
    finally:
        stack.kubectl("label", "node", found.spec.node_name, f"{LABEL}-")
        stack.helm("rollback", "sunkpy", str(before), *where, "--wait")
        stack.kubectl("annotate", "node", found.spec.node_name, f"{names.ANNOTATION_HEALTH}-")


def test_a_sick_node_is_drained_with_evidence_and_comes_back(stack: Stack, pod: Pod) -> None:
    node = pod.spec.node_name
    job = stack.sbatch(f"--nodelist={pod.name}", "--time=5", script="sleep 300")
    stack.wait_for_job(job, "RUNNING")
    stack.kubectl("label", "node", node, f"{LABEL}=fell-off")
    reason = f"k8s: health: {EVIDENCE}"
    wait_until_equal(lambda: _slurm(stack, pod, "Reason"), reason, timeout_s=SETTLE_S, what="Slurm's reason")
    _wait_for_state(stack, node, State.DRAINING)
    assert stack.job(job)["JobState"] == "RUNNING", "a drain ends no job"
    wait_until_equal(
        lambda: stack.nodeset_status().number_unhealthy, 1, timeout_s=SETTLE_S, what="numberUnhealthy of the NodeSet"
    )
    stack.cancel_jobs([job])
    _wait_for_state(stack, node, State.DRAINED)
    stack.kubectl("label", "node", node, f"{LABEL}-")
    _wait_for_state(stack, node, State.WELL)
    wait_until_equal(lambda: "DRAIN" in _slurm(stack, pod, "State"), False, timeout_s=SETTLE_S, what="DRAIN in Slurm")


def _slurm(stack: Stack, pod: Pod, key: str) -> str:
    """Without who set it and when."""
    return stack.slurm_nodes().get(pod.name, {}).get(key, "").partition(" [")[0]


def _wait_for_state(stack: Stack, node: str, state: State) -> None:
    def found() -> State | None:
        record = read_record(stack.kubectl.get(Node, "node", node))
        return record.state if record is not None else None

    wait_until_equal(found, state, timeout_s=SETTLE_S, what=f"the health of {node}")
