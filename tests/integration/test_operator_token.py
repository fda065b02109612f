"""What the operator's token is worth, on a real apiserver with the rights and the policy of the chart: what the
operator writes passes, what a thief would write does not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import msgspec
import pytest
from prometheus_client import CollectorRegistry

from devcluster.waiting import wait_until
from sunkpy.core import names
from sunkpy.core.model.objects import Condition, Node, Pod, PodStatus
from sunkpy.core.model.removal_token import Token
from sunkpy.core.model.times import utc_now
from sunkpy.core.nodeset.actions import (
    AddFinalizer,
    AnnotateJobs,
    CancelPending,
    CreatePod,
    DeletePod,
    MarkPending,
    NodeSetAction,
    RemoveFinalizer,
)
from sunkpy.core.nodeset.lock import Lock, with_lock
from sunkpy.core.nodeset.node_mark import with_taint
from sunkpy.core.nodeset.node_side import NodePatch
from sunkpy.core.nodeset.protection import decide_autoscaler_marks
from sunkpy.core.nodeset.slurmd_pod import build_pod
from sunkpy.core.nodeset.spec import NodeSet, NodeSetStatus
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.operator.asking import Asker
from sunkpy.operator.create import PodCreator
from sunkpy.operator.execute import Executor
from sunkpy.operator.memory import Memory
from sunkpy.operator.metrics import OperatorMetrics
from sunkpy.operator.node_writer import NodeWriter
from sunkpy.operator.pod_index import PodIndex
from sunkpy.operator.status_writer import StatusWriter
from tests.integration.apiserver import Apiserver, alone
from tests.unit.charts.rendering import of_kind, render

pytestmark = pytest.mark.integration

OPERATOR = "operator"
NAMESPACE = "/api/v1/namespaces/default"
PODS = f"{NAMESPACE}/pods"
NODESETS = "/apis/sunkpy.dev/v1alpha1/namespaces/default/nodesets"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


@pytest.fixture(scope="module")
def apiserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apiserver]:
    users = {OPERATOR: "system:serviceaccount:research:demo-operator"}
    with alone(tmp_path_factory.mktemp("apiserver"), users) as apiserver:
        lock = {"enabled": True, "allowedNamespaces": ["monitoring"]}
        chart = render("sunkpy", {"nodeSetNamespaces": ["default"], "lock": lock})
        apiserver.install(chart, "nodesets.sunkpy.dev", "-operator", "-operator-token", "-operator-lock")
        apiserver.make_account("default")
        for name in ("demo-slurmd", "strong"):
            apiserver.make(f"{NAMESPACE}/serviceaccounts", {"metadata": {"name": name}})
        for name in ("n1", "target"):
            make_node(apiserver, name)
        given = of_kind(render("slurm", {"priorityClasses": {"create": False}}), "NodeSet")["compute"]
        made = wait_until(lambda: apiserver.ask("admin", "POST", NODESETS, given).status_code == 201, timeout_s=60)
        assert made
        apiserver.make(PODS, a_pod("foreign"))
        assert wait_until(lambda: tried(apiserver, "PATCH", f"{PODS}/foreign", {}).status_code == 403, timeout_s=60)
        yield apiserver


def make_node(apiserver: Apiserver, name: str) -> None:
    apiserver.make(
        "/api/v1/nodes",
        {
            "metadata": {"name": name},
            "spec": {"taints": [{"key": "node.example.com/x", "value": "y", "effect": "NoExecute"}]},
        },
    )
    status = {
        "allocatable": {"cpu": "8", "memory": "32Gi"},
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    done = apiserver.ask("admin", "PATCH", f"/api/v1/nodes/{name}/status", {"status": status})
    assert done.is_success, done.text


def a_pod(name: str) -> dict[str, Any]:
    spec = {"automountServiceAccountToken": False, "containers": [{"name": "c", "image": "i"}]}
    return {"metadata": {"name": name, "labels": {"app": "x"}, "annotations": {"team": "chem"}}, "spec": spec}


def tried(apiserver: Apiserver, method: str, path: str, body: object) -> httpx.Response:
    return apiserver.ask(OPERATOR, method, f"{path}?dryRun=All", body)


def node(apiserver: Apiserver, name: str) -> Node:
    return msgspec.json.decode(apiserver.ask("admin", "GET", f"/api/v1/nodes/{name}").content, type=Node)


def nodeset(apiserver: Apiserver) -> NodeSet:
    return msgspec.json.decode(apiserver.ask("admin", "GET", f"{NODESETS}/compute").content, type=NodeSet)


def slurmd_pod(apiserver: Apiserver, name: str = "n1") -> Pod:
    return msgspec.json.decode(apiserver.ask("admin", "GET", f"{PODS}/{name}").content, type=Pod)


class Operator:
    """The parts of the operator that write."""

    def __init__(self, kube: Kube) -> None:
        self.kube = kube
        memory, metrics = Memory(), OperatorMetrics(CollectorRegistry())
        events = EventRecorder(kube, component="operator", instance="one")
        self.creator = PodCreator(kube, pods=PodIndex(), memory=memory, events=events, metrics=metrics)
        self.executor = Executor(kube, creator=self.creator, memory=memory, events=events, metrics=metrics)
        self.nodes = NodeWriter(kube, events)
        self.status = StatusWriter(kube, events=events, metrics=metrics)


@pytest.fixture
async def operator(apiserver: Apiserver) -> AsyncIterator[Operator]:
    async with await Kube.connect(apiserver.kubeconfig(OPERATOR)) as kube:
        yield Operator(kube)


async def test_the_operator_keeps_a_nodeset(apiserver: Apiserver, operator: Operator) -> None:
    async def run(*actions: NodeSetAction) -> None:
        assert await operator.executor.run(nodeset(apiserver), actions) is None

    body = build_pod(nodeset(apiserver), node(apiserver, "n1"), "n1")
    await operator.creator.vet_template(nodeset(apiserver), node(apiserver, "n1"))
    of_the_chart = dict(nodeset(apiserver).metadata.annotations)
    await run(AddFinalizer())
    assert nodeset(apiserver).metadata.finalizers == (names.FINALIZER_NODESET,)
    assert nodeset(apiserver).metadata.annotations == {**of_the_chart, names.ANNOTATION_SYNC_WAVE: names.GOES_FIRST}
    await run(CreatePod(node="n1", name="n1", body=body))
    await operator.executor.guard(nodeset(apiserver))
    assert apiserver.ask("admin", "GET", f"{BUDGETS}/compute-slurmd").is_success
    await operator.status.write(nodeset(apiserver), NodeSetStatus(number_feasible=1), [])
    assert nodeset(apiserver).status.number_feasible == 1
    await run(MarkPending(slurmd_pod(apiserver), Token(utc_now(), "rollout")))
    await run(AnnotateJobs(slurmd_pod(apiserver), "12"))
    assert slurmd_pod(apiserver).annotations[names.ANNOTATION_JOBS] == "12"
    await run(CancelPending(slurmd_pod(apiserver)))
    assert names.ANNOTATION_JOBS not in slurmd_pod(apiserver).annotations
    evictable = {names.LABEL_EVICTABLE: "true"}
    pod = slurmd_pod(apiserver)
    assert await operator.nodes.patch_pod(pod, annotations={names.ANNOTATION_CORDON: "why"}, labels=evictable) is None
    assert slurmd_pod(apiserver).labels[names.LABEL_EVICTABLE] == "true"
    await run(DeletePod(slurmd_pod(apiserver), "drained"))
    assert apiserver.ask("admin", "GET", f"{PODS}/n1").status_code == 404
    await run(RemoveFinalizer())
    assert nodeset(apiserver).metadata.finalizers == ()


async def test_it_adopts_a_pod(apiserver: Apiserver, operator: Operator) -> None:
    body: Any = build_pod(nodeset(apiserver), node(apiserver, "n1"), "left")
    left = {key: value for key, value in body["metadata"].items() if key != "ownerReferences"}
    apiserver.make(PODS, body | {"metadata": left})
    bound = {"metadata": {"name": "left"}, "target": {"kind": "Node", "name": "n1"}}
    apiserver.make(f"{PODS}/left/binding", bound)
    creation = CreatePod(node="n1", name="left", body=body)
    await operator.executor.run(nodeset(apiserver), [creation])
    assert nodeset(apiserver).owns(slurmd_pod(apiserver, "left"))


async def test_it_marks_nodes(apiserver: Apiserver, operator: Operator) -> None:
    patch = NodePatch(
        labels={names.LABEL_NODESET: "compute"},
        annotations={
            names.ANNOTATION_CORDONED_BY: "slurm",
            **decide_autoscaler_marks(node(apiserver, "n1"), None, has_jobs=True),
        },
        unschedulable=True,
        taints=with_taint(node(apiserver, "n1").spec.taints, is_tainted=True),
        conditions=tuple(Condition(type=type_, status="True", reason="X") for type_ in names.NODE_CONDITIONS),
    )
    assert await operator.nodes.patch_node(node(apiserver, "n1"), patch) is None
    marked = node(apiserver, "n1")
    assert (marked.spec.unschedulable, len(marked.spec.taints), len(marked.status.conditions)) == (True, 3, 4)
    assert [marked.annotations.get(key) for key in names.AUTOSCALER_MARKS] == ["true", "true"]
    lifted = NodePatch(
        labels={names.LABEL_NODESET: None},
        annotations={
            names.ANNOTATION_CORDONED_BY: None,
            **decide_autoscaler_marks(marked, None, has_jobs=False),
        },
        unschedulable=False,
        taints=with_taint(marked.spec.taints, is_tainted=False),
        gone_conditions=names.NODE_CONDITIONS,
    )
    assert await operator.nodes.patch_node(marked, lifted) is None
    assert len(node(apiserver, "n1").status.conditions) == 1
    assert not {*names.AUTOSCALER_MARKS} & node(apiserver, "n1").annotations.keys()


async def test_it_asks_autoscalers_for_nodes(apiserver: Apiserver, operator: Operator) -> None:
    path = f"{NODESETS}/compute"
    growth = {"wantedNodes": 2, "requests": [{"job": "7", "nodes": 2}]}
    for where, body in (
        (path, {"spec": {"growth": {"ask": "auto", "potential": 4}}}),
        (f"{path}/status", {"status": {"growth": growth}}),
    ):
        answer = apiserver.ask("admin", "PATCH", where, body)
        assert answer.is_success, answer.text
    refused = apiserver.ask("admin", "PATCH", path, {"spec": {"growth": {"potential": 0}}})
    assert "growth.ask needs growth.potential, the most nodes that the NodeSet may have" in refused.json()["message"]
    refused = apiserver.ask(
        "admin", "PATCH", path, {"spec": {"growth": {"ask": "none", "potential": 0, "releaseAfterSeconds": 600}}}
    )
    assert "growth.releaseAfterSeconds needs growth.potential" in refused.json()["message"]
    kept = apiserver.ask("admin", "PATCH", path, {"spec": {"growth": {"ask": "auto", "releaseAfterSeconds": None}}})
    assert kept.is_success, kept.text
    asker = Asker(operator.kube, EventRecorder(operator.kube, component="operator", instance="one"))
    assert await asker.reconcile(("default", "compute")) is not None
    pods = apiserver.ask("admin", "GET", f"{PODS}?labelSelector={names.LABEL_WANTED}=compute").json()["items"]
    assert [pod["metadata"]["name"] for pod in pods] == ["compute-wanted-1", "compute-wanted-2"]
    for pod in pods:
        (told,) = pod["status"]["conditions"]
        assert (told["type"], told["status"], told["reason"]) == ("PodScheduled", "False", "Unschedulable")
    assert await asker.reconcile(("default", "compute")) is not None, "it may read what autoscalers say"
    apiserver.ask("admin", "PATCH", f"{path}/status", {"status": {"growth": None}})
    await asker.reconcile(("default", "compute"))
    assert apiserver.ask("admin", "GET", f"{PODS}?labelSelector={names.LABEL_WANTED}=compute").json()["items"] == []


async def test_it_locks_and_unlocks_nodes_also_by_the_key_of_other_values(
    apiserver: Apiserver, operator: Operator
) -> None:
    earlier = {"key": "example.com/busy", "value": names.LOCKED_FOR_JOBS, "effect": "NoSchedule"}
    theirs = msgspec.to_builtins(node(apiserver, "n1").spec.taints[0])
    answer = apiserver.ask("admin", "PATCH", "/api/v1/nodes/n1", {"spec": {"taints": [theirs, earlier]}})
    assert answer.is_success, answer.text
    slurmd = Pod(status=PodStatus(conditions=(Condition(type=names.CONDITION_RUNNING, status="True"),)))
    for pod, keys in ((slurmd, ["node.example.com/x", names.TAINT_LOCK]), (None, ["node.example.com/x"])):
        known = node(apiserver, "n1")
        taints = with_lock(known.spec.taints, known, pod, Lock(key=names.TAINT_LOCK), has_jobs=pod is not None)
        assert await operator.nodes.patch_node(known, NodePatch(taints=taints)) is None
        assert [taint.key for taint in node(apiserver, "n1").spec.taints] == keys


@pytest.mark.parametrize(
    ("namespace", "toleration", "is_allowed"),
    [
        ("team", {"key": names.TAINT_LOCK, "operator": "Exists"}, False),
        ("team", {"key": names.TAINT_LOCK, "operator": "Equal", "value": "slurm-jobs", "effect": "NoSchedule"}, False),
        ("team", {"key": "other", "operator": "Exists"}, True),
        ("team", {"operator": "Exists"}, True),  # daemons have it
        ("monitoring", {"key": names.TAINT_LOCK, "operator": "Exists"}, True),
        ("default", {"key": names.TAINT_LOCK, "operator": "Exists"}, True),
    ],
)
def test_who_is_not_listed_tolerates_no_lock(
    apiserver: Apiserver, namespace: str, toleration: dict[str, str], is_allowed: bool
) -> None:
    if apiserver.ask("admin", "GET", f"/api/v1/namespaces/{namespace}").status_code == 404:
        apiserver.make("/api/v1/namespaces", {"metadata": {"name": namespace}})
        apiserver.make_account(namespace)
    body = a_pod("tolerates")
    body["spec"]["tolerations"] = [toleration]
    answer = apiserver.ask("admin", "POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", body)
    assert answer.is_success is is_allowed, answer.text
    if not is_allowed:
        assert "may not tolerate the taint sunkpy.dev/lock" in answer.json()["message"]


OTHER_IMAGE = {"spec": {"containers": [{"name": "c", "image": "evil"}]}}
OUR_LABELS = {names.LABEL_ROLE: names.ROLE_COMPUTE, names.LABEL_NODESET: "compute"}
OURS = {"apiVersion": "sunkpy.dev/v1alpha1", "kind": "NodeSet", "name": "compute", "uid": "u"}
OTHERS = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u"}


@pytest.mark.parametrize(
    ("labels", "owners", "where"),
    [
        ({}, [OURS], "default"),
        (OUR_LABELS, [], "default"),
        (OUR_LABELS, [OTHERS], "default"),
        (OUR_LABELS, [OURS, OTHERS], "default"),
        ({names.LABEL_ROLE: names.ROLE_COMPUTE}, [OURS], "default"),
        ({names.LABEL_WANTED: "compute"}, [OURS], "default"),  # it would be bound, and run
        (OUR_LABELS, [OURS], "kube-system"),
    ],
)
def test_a_thief_makes_no_pod_but_of_a_nodeset(
    apiserver: Apiserver, labels: dict[str, str], owners: list[dict[str, str]], where: str
) -> None:
    apiserver.make_account(where)
    body = a_pod("new")
    body["metadata"] |= {"labels": labels, "ownerReferences": owners}
    refused = tried(apiserver, "POST", f"/api/v1/namespaces/{where}/pods", body)
    says = "nodeSetNamespaces" if where != "default" else "may write only slurmd pods and placeholder pods, each of"
    assert (refused.status_code, says in refused.json()["message"]) == (403, True), refused.text
    body["metadata"] |= {"labels": OUR_LABELS, "ownerReferences": [OURS]}
    answer = tried(apiserver, "POST", PODS, body)
    assert answer.is_success, answer.text


@pytest.mark.parametrize(
    ("method", "body"),
    [
        ("PATCH", OTHER_IMAGE),
        ("PATCH", {"metadata": {"annotations": {names.ANNOTATION_CORDON: "x"}}}),
        ("PATCH", {"metadata": {"labels": OUR_LABELS}}),
        ("DELETE", None),
    ],
)
def test_a_thief_touches_no_pod_of_others(apiserver: Apiserver, method: str, body: object) -> None:
    refused = tried(apiserver, method, f"{PODS}/foreign", body)
    assert (refused.status_code, "may write only slurmd pods" in refused.json()["message"]) == (403, True), refused.text


@pytest.mark.parametrize(("labels", "owners"), [({}, [OURS]), ({names.LABEL_WANTED: "compute"}, [OTHERS])])
def test_a_thief_makes_and_removes_no_template_of_others(
    apiserver: Apiserver, labels: dict[str, str], owners: list[dict[str, str]]
) -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "x"}]}}
    body = {"metadata": {"name": "theirs", "labels": labels, "ownerReferences": owners}, "template": template}
    path = f"{NAMESPACE}/podtemplates"
    says = "may write such an object only if a NodeSet asks for nodes by it"
    refused = tried(apiserver, "POST", path, body)
    assert (refused.status_code, says in refused.json()["message"]) == (403, True), refused.text
    assert apiserver.ask("admin", "POST", path, body).is_success
    refused = tried(apiserver, "DELETE", f"{path}/theirs", None)
    assert (refused.status_code, says in refused.json()["message"]) == (403, True), refused.text
    assert apiserver.ask("admin", "DELETE", f"{path}/theirs").is_success


REFUSED: list[tuple[str, object]] = [
    (f"{PODS}/mine", OTHER_IMAGE),
    (f"{PODS}/mine", {"metadata": {"labels": {"app": "y"}}}),
    (f"{PODS}/mine", {"metadata": {"labels": {names.LABEL_ROLE: None}}}),
    (f"{PODS}/mine", {"metadata": {"annotations": {"team": None}}}),
    (f"{PODS}/mine", {"metadata": {"finalizers": ["x.example/y"]}}),
    (f"{PODS}/mine", {"metadata": {"ownerReferences": [OTHERS]}}),
    (f"{PODS}/mine/status", {"status": {"phase": "Succeeded"}}),
    (f"{NODESETS}/compute", {"spec": {"template": {"spec": {"hostPID": True}}}}),
    (f"{NODESETS}/compute", {"metadata": {"labels": {"app": "y"}}}),
    ("/api/v1/nodes/target", {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}),
    ("/api/v1/nodes/target", {"metadata": {"annotations": {"x": "y"}}}),
    ("/api/v1/nodes/target", {"metadata": {"finalizers": ["x.example/y"]}}),
    ("/api/v1/nodes/target", {"spec": {"providerID": "x://y"}}),
    ("/api/v1/nodes/target", {"spec": {"taints": []}}),
    ("/api/v1/nodes/target", {"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}}),
    ("/api/v1/nodes/target", {"spec": {"taints": [{"key": "x", "value": "slurm-jobs", "effect": "NoSchedule"}]}}),
    ("/api/v1/nodes/target", {"spec": {"taints": [{"key": names.TAINT_LOCK, "value": "slurm-jobs",
                                                   "effect": "NoExecute"}]}}),
    ("/api/v1/nodes/target/status", {"status": {"addresses": [{"type": "InternalIP", "address": "10.6.6.6"}]}}),
    ("/api/v1/nodes/target/status", {"status": {"capacity": {"cpu": "64"}}}),
    ("/api/v1/nodes/target/status", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
    (f"{BUDGETS}/theirs", {"spec": {"minAvailable": 0}}),
]  # fmt: skip


@pytest.fixture(scope="module")
def others(apiserver: Apiserver) -> None:
    """A pod of the NodeSet as a thief would want it, and a budget of somebody else."""
    body = a_pod("mine")
    body["metadata"]["labels"] |= OUR_LABELS
    body["metadata"]["ownerReferences"] = [OURS]
    apiserver.make(PODS, body)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
    apiserver.make(BUDGETS, {"metadata": {"name": "theirs"}, "spec": spec})


@pytest.mark.usefixtures("others")
@pytest.mark.parametrize(("path", "body"), REFUSED)
def test_a_thief_changes_nothing_else(apiserver: Apiserver, path: str, body: object) -> None:
    refused = tried(apiserver, "PATCH", path, body)
    assert (refused.status_code, ": " in refused.json()["message"]) == (403, True), refused.text
    said = ("may write only", "may change only", "may change no metadata", "may not change the")
    assert any(says in refused.json()["message"] for says in said)
    answer = apiserver.ask("admin", "PATCH", f"{path}?dryRun=All", body)
    assert answer.is_success, answer.text
