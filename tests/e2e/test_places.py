"""Two NodeSets, and a topology from labels of Nodes: which nodes the job of a pod asks for, and which member of a gang
sits where.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping

import pytest
import yaml

from demo import story
from demo.stack import ROOT, Stack
from devcluster.waiting import NotYet, wait, wait_until_equal
from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.core.nodeset.spec import NodeSet
from tests.e2e import handover, resolving, workloads
from tests.e2e.conftest import CLEAN_S, nothing_left, sweep
from tests.roots import RELEASE

pytestmark = [pytest.mark.e2e, pytest.mark.long]

POOL, LEAF = "node.example.com/pool", "node.example.com/leaf"
FAR = "far"
UP_S = 180.0
RANK = "batch.kubernetes.io/job-completion-index"


@pytest.fixture(autouse=True)
def clean(stack: Stack) -> Iterator[None]:
    """What a test leaves is judged without regard to whose nodes they are; `apart` brings them back."""
    yield
    try:
        wait(lambda: nothing_left(stack), timeout_s=CLEAN_S, what="the cluster as the test found it")
    finally:
        sweep(stack)


@pytest.fixture(scope="module")
def apart(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The Kubernetes node of a second NodeSet."""
    nodes = sorted(pod.spec.node_name for pod in stack.slurmd_pods())
    listed = ("-n", stack.namespace)
    before = stack.helm("history", stack.release, *listed, "--max=1").splitlines()[-1].split()[0]
    values = yaml.safe_load(stack.helm("get", "values", stack.release, *listed, "--output", "yaml"))
    usual = values["nodeSets"][stack.nodeset]
    values["nodeSets"] = {
        stack.nodeset: {**usual, "nodeSelector": {POOL: "near"}},
        FAR: {**usual, "nodeSelector": {POOL: FAR}},
    }
    values["topology"] = {"source": "labels", "levels": [LEAF]}
    file = tmp_path_factory.mktemp("places") / "values.yaml"
    file.write_text(yaml.safe_dump(values))
    for node in nodes:
        stack.kubectl("label", "node", node, f"{POOL}={FAR if node == nodes[-1] else 'near'}", "--overwrite")
    chart = str(ROOT / "charts" / "slurm")
    try:
        stack.helm("upgrade", stack.release, chart, *listed, "--values", str(file), "--wait", "--timeout", "5m")
        wait(lambda: _are_idle(stack, {FAR: 1, stack.nodeset: 2}), timeout_s=UP_S, what="all nodes in two NodeSets")
        yield nodes[-1]
    finally:
        stack.helm("rollback", stack.release, before, *listed, "--wait", "--timeout", "5m")
        for node in nodes:
            stack.kubectl("label", "node", node, f"{POOL}-", f"{LEAF}-")
        wait(lambda: _are_idle(stack, {stack.nodeset: 3}), timeout_s=UP_S, what="all nodes in one NodeSet")


@pytest.mark.parametrize("pool", [FAR, "near"])
def test_a_node_selector_asks_slurm_for_the_nodesets_that_have_such_nodes(
    stack: Stack, apart: str, pool: str, request: pytest.FixtureRequest
) -> None:
    name = f"selects-{pool}"
    pod = workloads.pod(
        name, image=stack.images["sunkpy"], scheduler=stack.scheduler_name, command=["sleep", "infinity"]
    )
    spec = pod["spec"]
    assert isinstance(spec, dict)
    request.addfinalizer(lambda: stack.kubectl("delete", "pod", name, "--ignore-not-found"))
    stack.kubectl.apply(pod | {"spec": spec | {"nodeSelector": {POOL: pool}}})
    runs = workloads.wait_for_running(stack, name)
    job = stack.job(int(runs.annotations[names.ANNOTATION_JOB_ID]))
    assert (job["Features"], runs.spec.node_name == apart) == (FAR if pool == FAR else stack.nodeset, pool == FAR)
    assert job["ExcNodeList"] == "(null)", "nodes of other NodeSets are left out by name"


def test_a_job_on_nodes_of_both_nodesets_knows_their_names(stack: Stack, apart: str) -> None:
    truth = resolving.wanted(stack)
    assert {name.partition("-")[0] for name in truth} == {FAR, stack.nodeset}
    asked = f"srun --label --nodes=3 --ntasks=3 bash -c {shlex.quote(resolving.looks_up(truth))}"
    tasks: dict[str, list[str]] = {}
    for line in stack.login(asked).splitlines():
        rank, _, answer = line.partition(": ")
        tasks.setdefault(rank, []).append(answer)
    assert {rank: resolving.read(answers) for rank, answers in tasks.items()} == dict.fromkeys("012", truth)


def test_neighbours_in_rank_are_at_one_switch_of_the_topology(
    stack: Stack, apart: str, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(lambda: stack.kubectl("delete", "job", "ranks", "--ignore-not-found"))
    stack.kubectl.apply(_indexed_job(stack))
    first, second, third = wait(lambda: _ranks(stack), timeout_s=60, what="all three run")
    stack.kubectl("delete", "job", "ranks", "--cascade=foreground")
    leaves = {first: "a", second: "b", third: "a"}
    for node, leaf in leaves.items():
        stack.kubectl("label", "node", node, f"{LEAF}={leaf}", "--overwrite")
    wait_until_equal(lambda: _places(stack), leaves, timeout_s=60, what="the place of each node on its slurmd pod")
    if RELEASE != "24.11":  # which gets the places with a file, at least ten minutes after the one before
        wait_until_equal(lambda: _in_slurm(stack), leaves, timeout_s=60, what="the place of each node in Slurm")
    stack.kubectl.apply(_indexed_job(stack))
    assert wait(lambda: _ranks(stack), timeout_s=60, what="all three run again") == [first, third, second]


def _places(stack: Stack) -> dict[str, str]:
    """The place of each Node, as the syncer has noted it on the slurmd pod."""
    return {pod.spec.node_name: pod.annotations.get(names.ANNOTATION_TOPOLOGY, "") for pod in stack.slurmd_pods()}


def _in_slurm(stack: Stack) -> dict[str, str]:
    """The leaf of each Node in the record of its Slurm node."""
    records = stack.slurm_nodes()
    return {
        pod.spec.node_name: records[pod.name].get("Topology", "").removeprefix("tree:all:")
        for pod in stack.slurmd_pods()
    }


def _indexed_job(stack: Stack) -> dict[str, object]:
    cpu = handover.whole_node_cpu(stack)
    pod = workloads.pod(
        "ranks", image=stack.images["sunkpy"], scheduler=stack.scheduler_name, cpu=cpu, command=["sleep", "infinity"]
    )
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "ranks"},
        "spec": {
            "completionMode": "Indexed", "completions": 3, "parallelism": 3, "template": {
                "metadata": {"annotations": {names.ANNOTATION_GANG: "ranks", names.ANNOTATION_GANG_SIZE: "3"}},
                "spec": pod["spec"],
            },
        },
    }  # fmt: skip


def _ranks(stack: Stack) -> list[str]:
    """The node of each pod by rank, once all run."""
    pods = stack.kubectl.list(Pod, "pods", "-l", "batch.kubernetes.io/job-name=ranks")
    running = {int(pod.annotations[RANK]): pod.spec.node_name for pod in pods if pod.status.phase == "Running"}
    if sorted(running) != [0, 1, 2]:
        raise NotYet(f"running: {running}")
    return [running[rank] for rank in range(3)]


def _are_idle(stack: Stack, wanted: Mapping[str, int]) -> bool:
    """So many nodes of each NodeSet are idle, with pods as it wants them, and no others are there."""
    nodes = stack.slurm_nodes().values()
    idle = [node["AvailableFeatures"].split(",") for node in nodes if story.is_idle(node)]
    found = {name: sum(name in features for features in idle) for name in wanted}
    if found != dict(wanted) or len(nodes) != sum(wanted.values()):
        raise NotYet(f"idle: {found}; all: {[(node['NodeName'], node['State']) for node in nodes]}")
    sets = stack.kubectl.list(NodeSet, "nodesets", "-n", stack.namespace)
    rolled = {each.name: each.status.updated_number_scheduled for each in sets}
    if rolled != dict(wanted) or any(each.status.observed_generation != each.metadata.generation for each in sets):
        raise NotYet(f"pods as they are wanted: {rolled}")
    return True
