"""The whole operator, kopf included, against an apiserver over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.health import Record, Remedy, Rule, State
from sunkpy.core.health.decide import remedy_name
from sunkpy.core.health.requests import DrainRequests
from sunkpy.core.model.growth import GrowthRequest, GrowthStatus
from sunkpy.core.model.objects import Node
from sunkpy.core.model.times import rfc3339, utc_now
from sunkpy.kube.client import Kube
from sunkpy.operator.metrics import OperatorMetrics
from sunkpy.operator.settings import HealthSettings, LockSettings, OperatorSettings
from sunkpy.operator.term import Term
from sunkpy.runtime.process import Process
from tests.doubles.apiserver import Apiserver
from tests.doubles.serving import answering

MENDER = Remedy(api_version="batch/v1", resource="jobs", namespace="mend", manifest={"spec": {"nodeName": "$(NODE)"}})
REPLACE = Remedy(
    api_version="cluster.x-k8s.io/v1beta2",
    resource="machines",
    namespace="fleet",
    name="$(ANNOTATION cluster.x-k8s.io/machine)",
    annotations={"cluster.x-k8s.io/remediate-machine": ""},
)
SICK = Rule(condition="GpuFell", bad=("True",))
SETTINGS = OperatorSettings(
    lock=LockSettings(key="example.com/busy"),
    health=HealthSettings(
        signals={
            "gpu": SICK,
            "fan": Rule(label="example.com/fan", bad=("stuck",), remedy="mender"),
            "board": Rule(label="example.com/board", bad=("burnt",), remedy="replace"),
        },
        remedies={"mender": MENDER, "replace": REPLACE},
        drain_requests=DrainRequests(api_version="nvsentinel.nvidia.com/v1alpha1"),
        settle_seconds=0,
    ),
)
NODESETS = ("nodesets", "slurm", "gpu")
TRUE = {names.READINESS_GATE: "True", "Ready": "True", names.CONDITION_RUNNING: "False"}


def node(number: int, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": f"n{number}", "labels": {"pool": "gpu"}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "addresses": [{"type": "InternalIP", "address": f"10.0.12.{number}"}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def nodeset(**spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "slurmd", "image": "x"}]}}
    return {
        "metadata": {"name": "gpu", "namespace": "slurm", "generation": 1},
        "spec": {"cluster": "c1", "template": template, **spec},
    }


def token(api: Apiserver, pod: str) -> str | None:
    found = api.find("pods", pod)
    return found["metadata"].get("annotations", {}).get(names.ANNOTATION_PENDING_DELETION) if found else None


def receipt(token: str | None) -> dict[str, Any]:
    """What the syncer writes when the Slurm node is empty and closed."""
    notes = {names.ANNOTATION_DRAINED: token, names.ANNOTATION_DRAINED_AT: rfc3339(utc_now())}
    return {"metadata": {"annotations": notes}}


async def answer_the_question(api: Apiserver, pod: str) -> None:
    """As the syncer does when the operator asks whether anything runs on the node that is drained for its health."""
    await api.until(lambda: noted(api, "pods", pod, names.ANNOTATION_DRAIN_ASKED))
    api.change("pods", "slurm", pod, receipt(noted(api, "pods", pod, names.ANNOTATION_DRAIN_ASKED)))


def report(api: Apiserver, pod: str, **conditions: str) -> None:
    """What kubelet and syncer would write."""
    told = [{"type": type_, "status": status, "message": "bad gpu"} for type_, status in {**TRUE, **conditions}.items()]
    api.change("pods", "slurm", pod, {"spec": {"nodeName": f"n{int(pod[-3:])}"}, "status": {"conditions": told}})


class Operator:
    """The operator that is at work, and the next one after it."""

    def __init__(self, server: Apiserver, kube: Kube) -> None:
        self._server, self._kube = server, kube

    async def start(self) -> None:
        """Until it watches NodeSets: kopf leaves connections open if it is cancelled while it looks for its kinds."""
        self._server.watched.discard("nodesets")
        running = Process("operator", SETTINGS)
        self._server.registry = running.registry
        self._task = asyncio.create_task(Term(self._kube, running, SETTINGS, OperatorMetrics(running.registry)).run())
        await self._server.until(lambda: "nodesets" in self._server.watched)

    async def end(self) -> None:
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def replace(self) -> None:
        """End it where it stands. The next one knows only what is on the apiserver."""
        await self.end()
        await self.start()


@pytest.fixture
async def api(tmp_path, monkeypatch):
    """An apiserver with two nodes, and the operator at work on it."""
    server = Apiserver()
    server.put("nodes", node(1))
    server.put("nodes", node(2))
    async with answering(server.handle, tmp_path) as kubeconfig, await Kube.connect(kubeconfig) as kube:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        operator = Operator(server, kube)
        server.replace_operator = operator.replace
        try:
            await operator.start()
            yield server
        finally:
            await operator.end()


async def test_a_nodeset_gets_its_pods_and_reports_them(api):
    api.put("nodesets", nodeset())
    await api.until(lambda: api.names("pods") == ["gpu-012-001", "gpu-012-002"])
    for pod in api.names("pods"):
        report(api, pod)
    await api.until(lambda: api.objects[NODESETS].get("status", {}).get("numberReady") == 2)
    assert api.objects[NODESETS]["metadata"]["finalizers"] == [names.FINALIZER_NODESET]
    assert api.objects[NODESETS]["metadata"]["annotations"] == {names.ANNOTATION_SYNC_WAVE: names.GOES_FIRST}
    await api.until(lambda: names.LABEL_POD in api.find("nodes", "n2")["metadata"]["labels"])
    value = api.registry.get_sample_value(
        "kube_sunk_nodeset_ready", {"namespace": "slurm", "nodeset": "gpu", "cluster": "c1"}
    )
    assert value == 2


async def test_a_pod_goes_only_when_its_token_is_answered(api):
    api.put("nodesets", nodeset())
    await api.until(lambda: len(api.names("pods")) == 2)
    report(api, "gpu-012-001", **{names.CONDITION_RUNNING: "True"})
    report(api, "gpu-012-002")
    api.change(*NODESETS, {"spec": {"replicas": 1}})
    await api.until(lambda: token(api, "gpu-012-002"))
    answer = receipt(token(api, "gpu-012-002"))
    api.change("pods", "slurm", "gpu-012-002", answer)
    await api.until(lambda: api.names("pods") == ["gpu-012-001"])


async def test_deleting_a_nodeset_drains_before_it_lets_go(api):
    api.put("nodesets", nodeset(replicas=1))
    await api.until(lambda: api.names("pods") == ["gpu-012-001"])
    await api.until(lambda: api.objects[NODESETS]["metadata"].get("finalizers"))
    api.change(*NODESETS, {"metadata": {"deletionTimestamp": "2026-11-20T12:00:00Z"}})
    await api.until(lambda: (token(api, "gpu-012-001") or "").endswith("/nodeset-deleted"))
    assert NODESETS in api.objects
    answer = receipt(token(api, "gpu-012-001"))
    api.change("pods", "slurm", "gpu-012-001", answer)
    await api.until(lambda: NODESETS not in api.objects)
    assert api.names("pods") == []


async def test_a_template_that_is_refused_is_told_and_takes_no_pod(api):
    api.put("nodesets", nodeset())
    await api.until(lambda: len(api.names("pods")) == 2)
    for pod in api.names("pods"):
        report(api, pod)
    api.refuse_pods = "spec.containers[0].image: Required value"
    template = {"spec": {"containers": [{"name": "slurmd", "image": ""}]}}
    api.change(*NODESETS, {"spec": {"template": template}})
    await api.until(lambda: "CreateFailed" in api.reasons())
    assert api.names("pods") == ["gpu-012-001", "gpu-012-002"]
    assert token(api, "gpu-012-001") is None


@pytest.mark.parametrize(
    ("text", "takes"), [("violates PodSecurity baseline", False), ("exceeded quota: q, requested: pods=1", True)]
)
async def test_only_a_full_quota_says_nothing_about_a_template(api, text, takes):
    api.put("nodesets", nodeset())
    await api.until(lambda: len(api.names("pods")) == 2)
    for pod in api.names("pods"):
        report(api, pod)
    api.refuse_pods, api.refuse_pods_as = text, 403
    template = {"spec": {"containers": [{"name": "slurmd", "image": "slurmd:2"}]}}
    api.change(*NODESETS, {"spec": {"template": template}})
    if takes:
        await api.until(lambda: any(token(api, pod) for pod in api.names("pods")))
    else:
        await api.until(lambda: "CreateFailed" in api.reasons())
        assert [token(api, pod) for pod in api.names("pods")] == [None, None]


async def test_a_slurmd_whose_limits_a_limit_range_would_set_is_not_made(api):
    api.limits = {"memory": "256Mi"}
    api.put("nodesets", nodeset())
    await api.until(lambda: "CreateFailed" in api.reasons())
    assert api.names("pods") == []
    api.limits = {}
    api.change(*NODESETS, {"metadata": {"annotations": {"look": "again"}}})
    await api.until(lambda: len(api.names("pods")) == 2)


async def test_a_nodeset_that_fits_nowhere_says_why(api):
    template = nodeset()["spec"]["template"]
    template["spec"]["nodeSelector"] = {"pool": "cpu"}
    api.put("nodesets", nodeset(template=template))
    await api.until(lambda: "NoNodeFits" in api.reasons())
    assert api.names("pods") == []


async def test_two_nodesets_never_share_a_node(api):
    other = nodeset()
    other["metadata"]["name"] = "cpu"
    api.put("nodesets", nodeset())
    api.put("nodesets", other)
    await api.until(lambda: len(api.names("pods")) == 2)
    api.put("nodes", node(3))
    await api.until(lambda: len(api.names("pods")) == 3)
    used = [
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        for (collection, _, _), pod in api.objects.items()
        if collection == "pods"
    ]
    assert len({str(terms) for terms in used}) == 3


async def test_cordons_travel_both_ways_by_ownership(api):
    api.put("nodesets", nodeset(replicas=1))
    await api.until(lambda: api.names("pods") == ["gpu-012-001"])
    report(api, "gpu-012-001", **{names.CONDITION_CORDON: "True"})
    await api.until(lambda: api.find("nodes", "n1")["spec"].get("unschedulable"))
    n1 = api.find("nodes", "n1")
    assert n1["metadata"]["annotations"][names.ANNOTATION_CORDONED_BY] == "slurm"
    report(api, "gpu-012-001", **{names.CONDITION_CORDON: "False"})
    await api.until(lambda: not api.find("nodes", "n1")["spec"].get("unschedulable"))
    assert names.ANNOTATION_CORDON not in api.find("pods", "gpu-012-001")["metadata"].get("annotations", {})
    api.change("nodes", "", "n1", {"spec": {"unschedulable": True}})
    await api.until(
        lambda: api.find("pods", "gpu-012-001")["metadata"].get("annotations", {}).get(names.ANNOTATION_CORDON)
    )


async def test_a_node_is_locked_while_jobs_run_there_and_its_slurmd_pod_stays(api):
    api.put("nodesets", nodeset(replicas=1))
    await api.until(lambda: api.names("pods") == ["gpu-012-001"])
    report(api, "gpu-012-001", **{names.CONDITION_RUNNING: "True"})
    lock = {"key": "example.com/busy", "value": "slurm-jobs", "effect": "NoSchedule"}
    await api.until(lambda: api.find("nodes", "n1")["spec"].get("taints") == [lock])
    assert token(api, "gpu-012-001") is None
    report(api, "gpu-012-001", **{names.CONDITION_RUNNING: "False"})
    await api.until(lambda: not api.find("nodes", "n1")["spec"].get("taints"))
    assert token(api, "gpu-012-001") is None


async def test_a_locked_node_stays_locked_while_a_service_outlives_its_slurmd_pod(api):
    api.put("nodesets", nodeset(replicas=1))
    await api.until(lambda: api.names("pods") == ["gpu-012-001"])
    report(api, "gpu-012-001", **{names.CONDITION_RUNNING: "True"})
    await api.until(lambda: api.find("nodes", "n1")["spec"].get("taints"))
    note = {names.ANNOTATION_JOB_ID: "7"}
    service = {"metadata": {"name": "web", "namespace": "default", "annotations": note}, "spec": {"nodeName": "n1"}}
    api.put("pods", service | {"status": {"phase": "Running"}})
    first = api.find("pods", "gpu-012-001")["metadata"]["uid"]
    api.remove("pods", "slurm", "gpu-012-001")
    await api.until(lambda: (pod := api.find("pods", "gpu-012-001")) and pod["metadata"]["uid"] != first)
    report(api, "gpu-012-001", **{names.CONDITION_RUNNING: "False", names.CONDITION_CORDON: "True"})
    await api.until(lambda: api.find("nodes", "n1")["spec"].get("unschedulable"))
    assert api.find("nodes", "n1")["spec"]["taints"]
    api.remove("pods", "default", "web")
    await api.until(lambda: not api.find("nodes", "n1")["spec"].get("taints"))


def marks(api: Apiserver, node: str) -> set[str]:
    """The annotations of a Node by which autoscalers leave it alone."""
    return {*names.AUTOSCALER_MARKS} & api.find("nodes", node)["metadata"].get("annotations", {}).keys()


async def test_autoscalers_are_kept_from_a_node_and_each_change_is_one_write(api):
    api.put("nodesets", nodeset(replicas=1))
    await api.until(lambda: api.names("pods") == ["gpu-012-001"])
    idle = {names.CONDITION_DRAIN: "False", names.CONDITION_CORDON: "False", names.CONDITION_NOT_RESPONDING: "False"}
    report(api, "gpu-012-001", **idle)
    await api.until(lambda: marks(api, "n1") == {*names.AUTOSCALER_MARKS})
    assert api.patched.count("n1") == 1, "with the labels of its slurmd pod"
    closed = {**idle, names.CONDITION_DRAIN: "True"}
    for told, kept in ((closed, False), (idle, True), (closed, False)):
        before = api.patched.count("n1")
        report(api, "gpu-012-001", **told)
        await api.until(lambda kept=kept: bool(marks(api, "n1")) is kept)
        drained = told[names.CONDITION_DRAIN]
        await api.until(lambda drained=drained: condition(api, "n1", names.CONDITION_DRAIN) == drained)
        assert api.patched.count("n1") == before + 1
    api.remove("nodesets", "slurm", "gpu")
    api.remove("pods", "slurm", "gpu-012-001")
    await api.until(lambda: names.LABEL_POD not in api.find("nodes", "n1")["metadata"]["labels"])
    assert names.ANNOTATION_KEPT not in api.find("nodes", "n1")["metadata"]["annotations"]


def condition(api: Apiserver, node: str, type_: str) -> str | None:
    found = api.find("nodes", node)["status"]["conditions"]
    return next((each["status"] for each in found if each["type"] == type_), None)


def told(api: Apiserver, node: str, status: str) -> None:
    """What a detector of problems would write on a Node."""
    ready = {"type": "Ready", "status": "True"}
    fell = {"type": "GpuFell", "status": status, "reason": "Xid79", "message": "GPU 3 fell off the bus"}
    api.change("nodes", "", node, {"status": {"conditions": [ready, fell]}})


def noted(api: Apiserver, kind: str, name: str, key: str) -> str | None:
    return api.find(kind, name)["metadata"].get("annotations", {}).get(key)


def condition_of(api: Apiserver, name: str, type_: str) -> str | None:
    found = api.find("nodes", name)["status"]["conditions"]
    return next((each["status"] for each in found if each["type"] == type_), None)


async def test_a_sick_node_is_drained_with_evidence_and_comes_back_cured(api):
    api.put("nodesets", nodeset(replicas=1))
    await api.until(lambda: api.names("pods") == ["gpu-012-001"])
    report(api, "gpu-012-001", **{names.CONDITION_RUNNING: "True"})
    told(api, "n1", "True")
    why = "gpu: condition GpuFell=True (Xid79: GPU 3 fell off the bus)"
    await api.until(lambda: noted(api, "pods", "gpu-012-001", names.ANNOTATION_HEALTH_DRAIN) == why)
    report(api, "gpu-012-001", **{names.CONDITION_RUNNING: "True", names.CONDITION_DRAIN: "True"})
    await api.until(lambda: '"state":"draining"' in noted(api, "nodes", "n1", names.ANNOTATION_HEALTH))
    report(api, "gpu-012-001", **{names.CONDITION_RUNNING: "False", names.CONDITION_DRAIN: "True"})
    await answer_the_question(api, "gpu-012-001")
    await api.until(lambda: '"state":"drained"' in noted(api, "nodes", "n1", names.ANNOTATION_HEALTH))
    assert not api.find("nodes", "n1")["spec"].get("unschedulable"), "the Node itself stays open"
    told(api, "n1", "False")
    await api.until(lambda: noted(api, "pods", "gpu-012-001", names.ANNOTATION_HEALTH_DRAIN) is None)
    assert '"why":"cured: the signal has ended"' in noted(api, "nodes", "n1", names.ANNOTATION_HEALTH)
    await api.until(lambda: {"HealthDrain", "HealthDrained", "HealthReturned"} <= set(api.reasons()))


async def test_a_cured_node_comes_back_when_another_slurmd_pod_has_checked_it(api):
    template = {"metadata": {"annotations": {names.ANNOTATION_VERIFY_SECONDS: "600"}}}
    api.put("nodesets", nodeset(replicas=1, template={**template, **nodeset()["spec"]["template"]}))
    await api.until(lambda: api.names("pods") == ["gpu-012-001"])
    first = api.find("pods", "gpu-012-001")["metadata"]["uid"]
    drained = {names.CONDITION_RUNNING: "False", names.CONDITION_DRAIN: "True"}
    report(api, "gpu-012-001", **drained)
    told(api, "n1", "True")
    await answer_the_question(api, "gpu-012-001")
    await api.until(lambda: '"state":"drained"' in (noted(api, "nodes", "n1", names.ANNOTATION_HEALTH) or ""))
    told(api, "n1", "False")
    await api.until(lambda: (token(api, "gpu-012-001") or "").endswith("/verification"))
    receipt = {names.ANNOTATION_DRAINED: token(api, "gpu-012-001"), names.ANNOTATION_DRAINED_AT: rfc3339(utc_now())}
    api.change("pods", "slurm", "gpu-012-001", {"metadata": {"annotations": receipt}})
    await api.until(lambda: (pod := api.find("pods", "gpu-012-001")) and pod["metadata"]["uid"] != first)
    env = {each["name"]: each.get("value") for each in api.find("pods", "gpu-012-001")["spec"]["containers"][0]["env"]}
    assert env["SUNKPY_START_DRAINED"].startswith("k8s: health: gpu: condition GpuFell=True")
    failed = "GPU 3 is too hot\nrun-services: verify failed with 3"
    slurmd = {"name": "slurmd", "restartCount": 1, "lastState": {"terminated": {"exitCode": 1, "message": failed}}}
    place = {"spec": {"nodeName": "n1"}, "status": {"containerStatuses": [slurmd]}}
    api.change("pods", "slurm", "gpu-012-001", place)
    await api.until(lambda: '"log":"GPU 3 is too hot"' in noted(api, "nodes", "n1", names.ANNOTATION_HEALTH))
    api.remove("pods", "slurm", "gpu-012-001")
    await api.until(lambda: api.names("pods") == ["gpu-012-001"])
    report(api, "gpu-012-001", **drained)
    await api.until(lambda: '"state":"well"' in noted(api, "nodes", "n1", names.ANNOTATION_HEALTH))
    await api.until(lambda: noted(api, "pods", "gpu-012-001", names.ANNOTATION_HEALTH_DRAIN) is None)
    await api.until(lambda: {"HealthVerify", "HealthNeedsPerson", "HealthReturned"} <= set(api.reasons()))


async def test_who_asks_for_a_check_gets_the_node_drained_and_a_new_slurmd_pod(api):
    template = {"metadata": {"annotations": {names.ANNOTATION_VERIFY_SECONDS: "600"}}}
    api.put("nodesets", nodeset(replicas=1, template={**template, **nodeset()["spec"]["template"]}))
    await api.until(lambda: api.names("pods") == ["gpu-012-001"])
    report(api, "gpu-012-001", **{names.CONDITION_RUNNING: "True"})
    api.change("nodes", "", "n1", {"metadata": {"annotations": {names.ANNOTATION_VERIFY: "ann"}}})
    await api.until(
        lambda: noted(api, "pods", "gpu-012-001", names.ANNOTATION_HEALTH_DRAIN) == "verify: asked for by ann"
    )
    assert token(api, "gpu-012-001") is None, "its job goes on"
    report(api, "gpu-012-001", **{names.CONDITION_RUNNING: "False", names.CONDITION_DRAIN: "True"})
    await answer_the_question(api, "gpu-012-001")
    await api.until(lambda: (token(api, "gpu-012-001") or "").endswith("/verification"))
    api.remove("pods", "slurm", "gpu-012-001")
    await api.until(lambda: api.names("pods") == ["gpu-012-001"])
    report(api, "gpu-012-001")
    await api.until(lambda: noted(api, "nodes", "n1", names.ANNOTATION_VERIFY) is None)
    assert '"state":"well"' in noted(api, "nodes", "n1", names.ANNOTATION_HEALTH)


async def test_a_remedy_is_written_once_nothing_runs_there(api):
    api.define("batch/v1", "Job", "jobs")
    api.put("nodesets", nodeset(replicas=1))
    await api.until(lambda: api.names("pods") == ["gpu-012-001"])
    report(api, "gpu-012-001", **{names.CONDITION_RUNNING: "True", names.CONDITION_DRAIN: "True"})
    api.change("nodes", "", "n1", {"metadata": {"labels": {"example.com/fan": "stuck"}}})
    await api.until(lambda: '"state":"draining"' in (noted(api, "nodes", "n1", names.ANNOTATION_HEALTH) or ""))
    assert api.names("jobs") == []
    drained = {names.CONDITION_RUNNING: "False", names.CONDITION_DRAIN: "True"}
    report(api, "gpu-012-001", **drained)
    await api.until(lambda: '"due":' in noted(api, "nodes", "n1", names.ANNOTATION_HEALTH))
    assert api.names("jobs") == [], "nobody has said so lately"
    notes = {"annotations": {names.ANNOTATION_JOB_ID: "7"}}
    api.put("pods", {"metadata": {"name": "web-1", "namespace": "team", **notes}, "spec": {"nodeName": "n1"}})
    await answer_the_question(api, "gpu-012-001")
    report(api, "gpu-012-001", **drained, **{names.CONDITION_NOT_RESPONDING: "True"})
    await api.until(lambda: condition_of(api, "n1", names.CONDITION_NOT_RESPONDING) == "True")
    assert '"state":"draining"' in noted(api, "nodes", "n1", names.ANNOTATION_HEALTH), "a pod of a job is there"
    api.remove("pods", "team", "web-1")
    await api.until(lambda: len(api.names("jobs")) == 1)
    (name,) = api.names("jobs")
    assert api.find("jobs", name)["spec"] == {"nodeName": "n1"}
    api.change("nodes", "", "n1", {"metadata": {"labels": {"example.com/fan": None}}})
    await api.until(lambda: '"state":"well"' in noted(api, "nodes", "n1", names.ANNOTATION_HEALTH))
    await api.until(lambda: {"HealthRemedy", "HealthRemedyWritten", "HealthReturned"} <= set(api.reasons()))
    assert api.names("jobs") == [name]


async def test_a_remedy_that_an_operator_wrote_before_it_died_is_written_once(api):
    """The next operator finds state `remedy` on the Node. It cannot know whether the object was written, and asks."""
    api.define("batch/v1", "Job", "jobs")
    api.put("nodesets", nodeset(replicas=1))
    await api.until(lambda: api.names("pods") == ["gpu-012-001"])
    report(api, "gpu-012-001", **{names.CONDITION_RUNNING: "False", names.CONDITION_DRAIN: "True"})
    record = Record(state=State.REMEDY, at=rfc3339(utc_now()), signal="fan", text="stuck", closes=True)
    name = remedy_name(msgspec.convert(api.find("nodes", "n1"), Node), record, "mender")
    api.put("jobs", {"metadata": {"name": name, "namespace": "mend"}})
    found = {"labels": {"example.com/fan": "stuck"}, "annotations": {names.ANNOTATION_HEALTH: record.encode()}}
    api.change("nodes", "", "n1", {"metadata": found})
    await api.until(lambda: api.asked["/apis/batch/v1/namespaces/mend/jobs"])
    api.change("nodes", "", "n1", {"metadata": {"labels": {"example.com/fan": None}}})
    await api.until(lambda: "HealthReturned" in api.reasons())
    assert api.names("jobs") == [name]
    assert not {"HealthRemedyWritten", "HealthRemedyFailed"} & set(api.reasons())


async def test_an_operator_that_ends_at_any_step_of_a_sick_node_is_followed_by_one_that_goes_on(api):
    """Each step is made by another operator: signal, drain, question, remedy, check, return."""
    api.define("batch/v1", "Job", "jobs")
    template = {"metadata": {"annotations": {names.ANNOTATION_VERIFY_SECONDS: "600"}}}
    api.put("nodesets", nodeset(replicas=1, template={**template, **nodeset()["spec"]["template"]}))
    await api.until(lambda: api.names("pods") == ["gpu-012-001"])
    report(api, "gpu-012-001", **{names.CONDITION_RUNNING: "True"})
    first = api.find("pods", "gpu-012-001")["metadata"]["uid"]

    async def stands_at(state: State) -> None:
        said = f'"state":"{state.value}"'
        await api.until(lambda: said in (noted(api, "nodes", "n1", names.ANNOTATION_HEALTH) or ""))
        await api.replace_operator()

    api.change("nodes", "", "n1", {"metadata": {"labels": {"example.com/fan": "stuck"}}})
    await stands_at(State.CLOSING)
    await api.until(lambda: noted(api, "pods", "gpu-012-001", names.ANNOTATION_HEALTH_DRAIN))
    report(api, "gpu-012-001", **{names.CONDITION_RUNNING: "True", names.CONDITION_DRAIN: "True"})
    await stands_at(State.DRAINING)
    report(api, "gpu-012-001", **{names.CONDITION_RUNNING: "False", names.CONDITION_DRAIN: "True"})
    await api.until(lambda: noted(api, "pods", "gpu-012-001", names.ANNOTATION_DRAIN_ASKED))
    await api.replace_operator()
    await answer_the_question(api, "gpu-012-001")
    await stands_at(State.REMEDY)
    await api.until(lambda: len(api.names("jobs")) == 1)
    api.change("nodes", "", "n1", {"metadata": {"labels": {"example.com/fan": None}}})
    await stands_at(State.VERIFY)
    await api.until(lambda: (token(api, "gpu-012-001") or "").endswith("/verification"))
    await api.replace_operator()
    api.change("pods", "slurm", "gpu-012-001", receipt(token(api, "gpu-012-001")))
    await api.until(lambda: (pod := api.find("pods", "gpu-012-001")) and pod["metadata"]["uid"] != first)
    second = api.find("pods", "gpu-012-001")["metadata"]["uid"]
    await api.replace_operator()
    assert '"state":"verify"' in noted(api, "nodes", "n1", names.ANNOTATION_HEALTH), "its check has not passed"
    report(api, "gpu-012-001", **{names.CONDITION_RUNNING: "False", names.CONDITION_DRAIN: "True"})
    await stands_at(State.WELL)
    await api.until(lambda: noted(api, "pods", "gpu-012-001", names.ANNOTATION_HEALTH_DRAIN) is None)
    assert len(api.names("jobs")) == 1, "the remedy is asked for once"
    assert api.find("pods", "gpu-012-001")["metadata"]["uid"] == second, "it is checked once"


async def test_a_drain_request_is_answered_once_nothing_runs_there(api):
    api.define("nvsentinel.nvidia.com/v1alpha1", "DrainRequest", "drainrequests")
    api.put("nodesets", nodeset(replicas=1))
    await api.until(lambda: api.names("pods") == ["gpu-012-001"])
    report(api, "gpu-012-001", **{names.CONDITION_RUNNING: "True"})
    meta = {"name": "d-1", "namespace": "nvsentinel"}
    api.put("drainrequests", {"metadata": meta, "spec": {"nodeName": "n1", "checkName": "Xid79"}})
    why = "DrainRequest: a drain is asked for by nvsentinel/d-1: Xid79"
    await api.until(lambda: noted(api, "pods", "gpu-012-001", names.ANNOTATION_HEALTH_DRAIN) == why)
    report(api, "gpu-012-001", **{names.CONDITION_RUNNING: "True", names.CONDITION_DRAIN: "True"})
    await api.until(lambda: '"state":"draining"' in noted(api, "nodes", "n1", names.ANNOTATION_HEALTH))
    assert "status" not in api.find("drainrequests", "d-1"), "a job runs"
    report(api, "gpu-012-001", **{names.CONDITION_RUNNING: "False", names.CONDITION_DRAIN: "True"})
    await api.until(lambda: noted(api, "pods", "gpu-012-001", names.ANNOTATION_DRAIN_ASKED))
    asked = noted(api, "pods", "gpu-012-001", names.ANNOTATION_DRAIN_ASKED)
    old = {names.ANNOTATION_DRAINED: asked, names.ANNOTATION_DRAINED_AT: rfc3339(utc_now() - timedelta(seconds=31))}
    idle = {names.CONDITION_RUNNING: "False", names.CONDITION_DRAIN: "True"}
    for answer, silent in ((receipt("of a removal"), "True"), ({"metadata": {"annotations": old}}, "False")):
        api.change("pods", "slurm", "gpu-012-001", answer)
        report(api, "gpu-012-001", **idle, **{names.CONDITION_NOT_RESPONDING: silent})
        await api.until(lambda silent=silent: condition_of(api, "n1", names.CONDITION_NOT_RESPONDING) == silent)
        assert "status" not in api.find("drainrequests", "d-1"), "nobody has said so lately"
    notes = {"annotations": {names.ANNOTATION_JOB_ID: "7"}}
    api.put("pods", {"metadata": {"name": "web-1", "namespace": "team", **notes}, "spec": {"nodeName": "n1"}})
    api.change("pods", "slurm", "gpu-012-001", receipt(asked))
    report(api, "gpu-012-001", **idle, **{names.CONDITION_NOT_RESPONDING: "True"})
    await api.until(lambda: condition_of(api, "n1", names.CONDITION_NOT_RESPONDING) == "True")
    assert "status" not in api.find("drainrequests", "d-1"), "a pod of a job is there"
    api.remove("pods", "team", "web-1")
    await api.until(lambda: api.find("drainrequests", "d-1").get("status"))
    await api.until(lambda: noted(api, "pods", "gpu-012-001", names.ANNOTATION_DRAIN_ASKED) is None)
    (answer,) = api.find("drainrequests", "d-1")["status"]["conditions"]
    assert (answer["type"], answer["status"], answer["reason"]) == ("DrainComplete", "True", "Drained")
    api.remove("drainrequests", "nvsentinel", "d-1")
    await api.until(lambda: '"state":"well"' in noted(api, "nodes", "n1", names.ANNOTATION_HEALTH))


async def test_a_machine_of_cluster_api_is_annotated_once_its_node_says_which_it_is(api):
    api.define("cluster.x-k8s.io/v1beta2", "Machine", "machines")
    api.put("machines", {"metadata": {"name": "m-1", "namespace": "fleet"}})
    api.put("nodesets", nodeset(replicas=1))
    await api.until(lambda: api.names("pods") == ["gpu-012-001"])
    report(api, "gpu-012-001", **{names.CONDITION_RUNNING: "False", names.CONDITION_DRAIN: "True"})
    api.change("nodes", "", "n1", {"metadata": {"labels": {"example.com/board": "burnt"}}})
    await answer_the_question(api, "gpu-012-001")
    missing = "remedy replace: the Node has no annotation cluster.x-k8s.io/machine"
    await api.until(lambda: "HealthRemedyFailed" in api.reasons())
    assert missing in [each["note"] for each in api.events()]
    api.change("nodes", "", "n1", {"metadata": {"annotations": {"cluster.x-k8s.io/machine": "m-1"}}})
    await api.until(lambda: noted(api, "machines", "m-1", "cluster.x-k8s.io/remediate-machine") == "")


async def test_a_remedy_that_the_apiserver_refuses_is_told(api):
    api.forbidden.add("jobs")
    api.put("nodesets", nodeset(replicas=1))
    await api.until(lambda: api.names("pods") == ["gpu-012-001"])
    report(api, "gpu-012-001", **{names.CONDITION_RUNNING: "False", names.CONDITION_DRAIN: "True"})
    api.change("nodes", "", "n1", {"metadata": {"labels": {"example.com/fan": "stuck"}}})
    await answer_the_question(api, "gpu-012-001")
    await api.until(lambda: "HealthRemedyFailed" in api.reasons())


async def test_the_next_slurmd_of_a_sick_node_starts_drained(api):
    api.put("nodesets", nodeset(replicas=1))
    await api.until(lambda: api.names("pods") == ["gpu-012-001"])
    report(api, "gpu-012-001")
    told(api, "n1", "True")
    await api.until(lambda: noted(api, "pods", "gpu-012-001", names.ANNOTATION_HEALTH_DRAIN))
    first = api.find("pods", "gpu-012-001")["metadata"]["uid"]
    api.remove("pods", "slurm", "gpu-012-001")
    await api.until(lambda: (pod := api.find("pods", "gpu-012-001")) and pod["metadata"]["uid"] != first)
    env = {each["name"]: each.get("value") for each in api.find("pods", "gpu-012-001")["spec"]["containers"][0]["env"]}
    assert env["SUNKPY_START_DRAINED"].startswith("k8s: health: gpu: condition GpuFell=True")
    assert noted(api, "pods", "gpu-012-001", names.ANNOTATION_HEALTH_DRAIN), "from its first moment"


async def test_a_failed_pod_is_replaced(api):
    api.put("nodesets", nodeset(replicas=1))
    await api.until(lambda: api.names("pods") == ["gpu-012-001"])
    first = api.find("pods", "gpu-012-001")["metadata"]["uid"]
    api.change("pods", "slurm", "gpu-012-001", {"status": {"phase": "Failed", "reason": "OutOfcpu"}})
    await api.until(lambda: (pod := api.find("pods", "gpu-012-001")) and pod["metadata"]["uid"] != first)
    await api.until(lambda: "PodFailed" in api.reasons())


async def test_evictions_are_held_back_until_a_cordoned_node_is_drained_and_idle(api):
    api.put("nodesets", nodeset(replicas=1))
    await api.until(lambda: api.names("pods") == ["gpu-012-001"])
    assert api.names("poddisruptionbudgets") == ["gpu-slurmd"]
    api.change("nodes", "", "n1", {"spec": {"unschedulable": True}})
    report(api, "gpu-012-001", **{names.CONDITION_DRAIN: "True", names.CONDITION_RUNNING: "False"})
    await api.until(lambda: api.find("pods", "gpu-012-001")["metadata"]["labels"].get("sunkpy.dev/evictable"))


@pytest.mark.parametrize("taint", ["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted"])
async def test_a_node_that_an_autoscaler_removes_goes_by_way_of_slurm_and_as_late_as_its_jobs(api, taint):
    api.put("nodesets", nodeset(replicas=1))
    await api.until(lambda: api.names("pods") == ["gpu-012-001"])
    pod = lambda: api.find("pods", "gpu-012-001")["metadata"]  # noqa: E731
    report(api, "gpu-012-001", **{names.CONDITION_RUNNING: "True"})
    await api.until(lambda: marks(api, "n1"))
    api.change("nodes", "", "n1", {"spec": {"taints": [{"key": taint, "effect": "NoSchedule"}]}})
    await api.until(lambda: noted(api, "pods", "gpu-012-001", names.ANNOTATION_CORDON) == f"taint {taint}")
    report(api, "gpu-012-001", **{names.CONDITION_DRAIN: "True", names.CONDITION_RUNNING: "True"})
    await api.until(lambda: condition(api, "n1", names.CONDITION_DRAIN) == "True")
    assert marks(api, "n1"), "its last jobs run"
    assert names.LABEL_EVICTABLE not in pod()["labels"]
    report(api, "gpu-012-001", **{names.CONDITION_DRAIN: "True", names.CONDITION_RUNNING: "False"})
    await api.until(lambda: pod()["labels"].get(names.LABEL_EVICTABLE) and not marks(api, "n1"))
    api.remove("pods", "slurm", "gpu-012-001")
    await api.until(lambda: names.LABEL_POD not in api.find("nodes", "n1")["metadata"]["labels"])
    await api.until(lambda: api.names("pods") == ["gpu-012-002"])
    api.change("nodes", "", "n1", {"spec": {"taints": []}})
    api.change(*NODESETS, {"spec": {"replicas": 2}})
    await api.until(lambda: api.names("pods") == ["gpu-012-001", "gpu-012-002"])


def wants(nodes, *, beside):
    """What the syncer writes of a job."""
    growth = GrowthStatus(wanted_nodes=nodes, counted_nodes=beside, requests=(GrowthRequest(job="7", nodes=nodes),))
    return {"status": {"growth": msgspec.to_builtins(growth)}}


async def test_nodes_that_jobs_want_are_asked_for_until_they_have_come(api):
    api.put("nodesets", nodeset(growth={"potential": 9, "ask": "placeholders"}))
    await api.until(lambda: api.names("pods") == ["gpu-012-001", "gpu-012-002"])
    api.change(*NODESETS, wants(2, beside=2))
    await api.until(lambda: api.names("pods")[2:] == ["gpu-wanted-1", "gpu-wanted-2"])
    for number in (3, 4):
        api.put("nodes", node(number))
    await api.until(lambda: api.names("pods") == [f"gpu-012-00{number}" for number in (1, 2, 3, 4)])


async def test_idle_nodes_are_left_to_autoscalers_and_come_back_before_new_ones_are_asked_for(api):
    api.put("nodesets", nodeset(growth={"potential": 9, "ask": "placeholders", "releaseAfterSeconds": 1}))
    pods = ["gpu-012-001", "gpu-012-002"]
    await api.until(lambda: api.names("pods") == pods)
    for pod in pods:
        report(api, pod, **{names.CONDITION_DRAIN: "False"})
    api.change(*NODESETS, {"status": {"growth": {"wantedNodes": 0, "seen": rfc3339(utc_now())}}})
    await api.until(lambda: all((told := token(api, pod)) and told.endswith("/idle: no job for 1 s") for pod in pods))
    for pod in pods:
        report(api, pod, **{names.CONDITION_DRAIN: "True"})
    await api.until(lambda: all(noted(api, "nodes", f"n{n}", names.ANNOTATION_RELEASED) == "slurm/gpu" for n in (1, 2)))
    for pod in pods:
        api.change("pods", "slurm", pod, receipt(token(api, pod)))
    await api.until(lambda: not api.names("pods") and not marks(api, "n1") and not marks(api, "n2"))
    api.remove("nodes", "", "n2")
    api.change(*NODESETS, wants(3, beside=0))
    await api.until(lambda: api.names("pods") == ["gpu-012-001", "gpu-wanted-1", "gpu-wanted-2"])
    await api.until(lambda: noted(api, "nodes", "n1", names.ANNOTATION_RELEASED) is None)
    await api.until(lambda: "NodesTakenBack" in api.reasons())


async def test_a_drain_of_all_nodes_in_slurm_leaves_some_open(api):
    for number in (3, 4, 5):
        api.put("nodes", node(number))
    api.put("nodesets", nodeset())
    await api.until(lambda: len(api.names("pods")) == 5)
    for pod in api.names("pods"):
        report(api, pod, **{names.CONDITION_CORDON: "True"})

    def noted() -> list[str]:
        nodes = [api.find("nodes", name) for name in api.names("nodes")]
        return [n["metadata"].get("annotations", {}).get(names.ANNOTATION_SLURM_DRAIN) for n in nodes]

    await api.until(lambda: noted() == ["bad gpu"] * 5)
    await api.until(lambda: "TooManyAtOnce" in api.reasons())
    assert sum(bool(api.find("nodes", name)["spec"].get("unschedulable")) for name in api.names("nodes")) == 3


async def test_a_pod_that_only_has_the_labels_of_a_slurmd_pod_keeps_no_nodeset_off(api):
    labels = {names.LABEL_ROLE: "compute", names.LABEL_NODESET: "x", names.LABEL_CLUSTER: "c1"}
    meta = {"name": "impostor", "namespace": "mallory", "labels": labels}
    api.put("pods", {"metadata": meta, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}})
    api.put("nodesets", nodeset())
    await api.until(lambda: {"gpu-012-001", "gpu-012-002"} <= set(api.names("pods")))
    report(api, "gpu-012-001")
    await api.until(lambda: api.find("nodes", "n1")["metadata"]["labels"].get(names.LABEL_POD) == "gpu-012-001")
    assert api.find("nodes", "n1")["metadata"]["labels"][names.LABEL_NODESET] == "gpu"


def left_behind(**changes: Any) -> dict[str, Any]:
    """The slurmd pod of n1 after its NodeSet was deleted with --cascade=orphan."""
    labels = {
        names.LABEL_NODESET: "gpu",
        names.LABEL_CLUSTER: "c1",
        names.LABEL_ROLE: names.ROLE_COMPUTE,
        names.LABEL_SLURM_NODE: "gpu-012-001",
    }
    metadata = {"name": "gpu-012-001", "namespace": "slurm", "labels": labels, **changes.pop("metadata", {})}
    return {"metadata": metadata, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}, **changes}


async def test_a_nodeset_takes_over_the_pods_that_one_of_its_name_left_behind(api):
    api.put("pods", left_behind())
    uid = api.find("pods", "gpu-012-001")["metadata"]["uid"]
    api.put("nodesets", nodeset())
    await api.until(lambda: api.names("pods") == ["gpu-012-001", "gpu-012-002"])
    own = [(api.objects[NODESETS]["metadata"]["uid"], True)]
    await api.until(lambda: owners_of(api) == own)
    assert api.find("pods", "gpu-012-001")["metadata"]["uid"] == uid
    for pod in api.names("pods"):
        report(api, pod)
    await api.until(lambda: api.objects[NODESETS].get("status", {}).get("currentNumberScheduled") == 2)


@pytest.mark.parametrize(
    "changes",
    [
        {"spec": {"nodeName": "n2"}},
        {"spec": {}},
        {"status": {"phase": "Failed"}},
        {"metadata": {"labels": {}}},
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "x"}]}},
    ],
)
async def test_a_pod_that_is_not_surely_one_left_behind_is_left_alone(api, changes):
    api.put("pods", left_behind(**changes))
    api.put("nodesets", nodeset())
    await api.until(lambda: refused(api) == "CreateFailed")
    assert api.objects[NODESETS]["metadata"]["uid"] not in [uid for uid, _ in owners_of(api)]


def refused(api: Apiserver) -> str | None:
    told = api.objects[NODESETS].get("status", {}).get("conditions", [])
    return next((each["reason"] for each in told if each["type"] == "Progressing"), None)


def owners_of(api: Apiserver) -> list[tuple[str, bool]]:
    references = api.find("pods", "gpu-012-001")["metadata"].get("ownerReferences", [])
    return [(each["uid"], bool(each.get("controller"))) for each in references]
