"""Autoscalers are asked for nodes, over HTTP: what is written, when it goes, and what people hear of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.model.growth import GrowthRequest, GrowthStatus
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.model.times import rfc3339
from sunkpy.kube import errors
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.operator.asking import Asker
from tests.doubles.apiserver import Apiserver
from tests.doubles.serving import answering
from tests.unit.core.nodeset.build import NOW, make_nodeset, make_pod

KEY = ("slurm", "gpu")
GROUP = "autoscaling.x-k8s.io/v1beta1"


class Rig:
    """A NodeSet of an apiserver, and who asks autoscalers for its nodes."""

    def __init__(self, api: Apiserver, kube: Kube) -> None:
        self.api = api
        self.woken: list[tuple[str, str]] = []
        self.come_nodes = 0
        self.passed_s = 0.0
        self.asker = Asker(
            kube,
            EventRecorder(kube, component="operator", instance="one"),
            nodes=lambda: [msgspec.convert(api.find("nodes", each), Node) for each in api.names("nodes")],
            wake=self.woken.append,
            clock=lambda: self.passed_s,
            now=lambda: NOW + timedelta(seconds=self.passed_s),
        )

    def want(
        self, nodes: int, *requests: tuple[str, int], counted: int | None = None, seen: str = "", **growth: Any
    ) -> None:
        """The syncer has written what jobs lack. It had seen all nodes that have come, or `counted` of them."""
        listed = tuple(GrowthRequest(job=job, nodes=count) for job, count in requests)
        beside = self.come_nodes if counted is None else counted
        told = GrowthStatus(seen=seen, wanted_nodes=nodes, counted_nodes=beside, requests=listed)
        status = {"growth": msgspec.to_builtins(told)}
        self.api.change("nodesets", *KEY, {"status": status, "spec": {"growth": growth} if growth else {}})

    async def step(self) -> float | None:
        """A pass, and another one that sees what the first one wrote."""
        await self.asker.reconcile(KEY)
        return await self.asker.reconcile(KEY)

    def come(self, number: int) -> Pod:
        """A node is there, and has its slurmd pod."""
        self.come_nodes += 1
        pod = make_pod(make_nodeset(), number)
        self.asker.pod_changed(None, pod)
        return pod

    @property
    def events(self) -> list[tuple[str, str]]:
        return [(body["reason"], body["note"]) for body in self.api.events() if body.get("regarding")]


@pytest.fixture
async def rig(tmp_path):
    api = Apiserver()
    template = {"spec": {"containers": [{"name": "slurmd", "image": "x"}]}}
    spec = {"cluster": "c1", "template": template, "growth": {"potential": 20, "ask": "auto"}}
    api.put("nodesets", {"metadata": {"name": "gpu", "namespace": "slurm", "generation": 1}, "spec": spec})
    async with answering(api.handle, tmp_path) as kubeconfig, await Kube.connect(kubeconfig) as kube:
        yield Rig(api, kube)


def buffers(api: Apiserver) -> None:
    api.define(GROUP, "CapacityBuffer", "capacitybuffers")


def requests(api: Apiserver) -> None:
    api.define("autoscaling.x-k8s.io/v1", "ProvisioningRequest", "provisioningrequests")


async def test_placeholders_come_once_say_that_they_are_unschedulable_and_go_as_nodes_come(rig):
    rig.want(3, ("7", 2), ("9", 1))
    assert await rig.step() == 15
    assert rig.api.names("pods") == ["gpu-wanted-1", "gpu-wanted-2", "gpu-wanted-3"]
    told = rig.api.find("pods", "gpu-wanted-2")["status"]["conditions"]
    assert [(each["type"], each["status"], each["reason"]) for each in told] == [
        ("PodScheduled", "False", "Unschedulable")
    ]
    assert rig.events == [("NodesAsked", "asked autoscalers for 3 nodes, for job 7 (2), job 9 (1)")]
    wrote = len(rig.api.patched)
    await rig.step()
    assert len(rig.api.patched) == wrote, "nothing is written again"
    rig.come(1)
    assert rig.woken == [KEY]
    await rig.step()
    assert rig.api.names("pods") == ["gpu-wanted-1", "gpu-wanted-2"], "before the syncer has said anything"
    rig.want(2, ("7", 1), ("9", 1))
    await rig.step()
    assert rig.api.names("pods") == ["gpu-wanted-1", "gpu-wanted-2"], "the one that came is not counted twice"
    rig.come(2)
    rig.come(3)
    rig.want(0)
    assert await rig.step() is None
    assert rig.api.names("pods") == []


async def test_that_the_queue_was_read_again_asks_for_no_node_that_has_come(rig):
    rig.want(2, seen=rfc3339(NOW))
    await rig.step()
    rig.come(1)
    rig.want(2, counted=0, seen=rfc3339(NOW + timedelta(minutes=2)))
    await rig.step()
    assert rig.api.names("pods") == ["gpu-wanted-1"]


async def test_nodes_that_the_syncer_has_not_seen_yet_are_not_asked_for_again(rig):
    """Four come at once: it counts the first of them, and the others a second later."""
    rig.want(4)
    await rig.step()
    for number in (1, 2, 3, 4):
        rig.come(number)
    await rig.step()
    rig.want(3, counted=1)
    await rig.step()
    assert rig.api.names("pods") == []
    assert [reason for reason, _ in rig.events] == ["NodesAsked"]


async def test_a_node_that_is_to_go_for_good_is_not_there(rig):
    pods = [rig.come(1), rig.come(2)]
    rig.want(1, counted=2)
    for pod, cause, wanted in ((pods[0], "rollout", 1), (pods[1], "node-left", 1)):
        marked = {names.ANNOTATION_PENDING_DELETION: f"2026-11-28T12:00:00+00:00/{cause}"}
        metadata = msgspec.structs.replace(pod.metadata, annotations=marked)
        rig.asker.pod_changed(pod, msgspec.structs.replace(pod, metadata=metadata))
        await rig.step()
        assert len(rig.api.names("pods")) == wanted
    rig.come(3)
    await rig.step()
    assert rig.api.names("pods") == ["gpu-wanted-1"], "the syncer will say what that means"


async def test_a_node_that_is_taken_back_is_asked_for_neither_before_it_has_its_slurmd_pod_nor_after(rig):
    released = {names.ANNOTATION_RELEASED: "slurm/gpu"}
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    for number in (1, 2):
        rig.api.put("nodes", {"metadata": {"name": f"n{number}", "annotations": released}, "status": ready})
    rig.want(3)
    await rig.step()
    assert rig.api.names("pods") == ["gpu-wanted-1"]
    rig.come(1)
    rig.want(2)
    await rig.step()
    assert rig.api.names("pods") == ["gpu-wanted-1"], "the other one still gets its pod"
    rig.come(2)
    rig.want(1)
    await rig.step()
    assert rig.api.names("pods") == ["gpu-wanted-1"]


async def test_a_node_that_was_taken_back_and_gets_no_slurmd_pod_is_asked_for_after_a_minute(rig):
    released = {names.ANNOTATION_RELEASED: "slurm/gpu"}
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    rig.api.put("nodes", {"metadata": {"name": "n1", "annotations": released}, "status": ready})
    rig.want(1)
    await rig.step()
    assert rig.api.names("pods") == []
    rig.passed_s = 61.0
    await rig.step()
    assert rig.api.names("pods") == ["gpu-wanted-1"]


async def test_a_new_leader_goes_on_where_the_last_one_was(rig, tmp_path):
    rig.want(2)
    await rig.step()
    before = {name: rig.api.find("pods", name)["metadata"]["uid"] for name in rig.api.names("pods")}
    other = Rig(rig.api, rig.asker._kube)
    await other.step()
    assert {name: rig.api.find("pods", name)["metadata"]["uid"] for name in rig.api.names("pods")} == before
    rig.want(0)
    await other.step()
    assert rig.api.names("pods") == []


async def test_who_is_not_to_ask_leaves_nothing_behind_and_asks_no_more(rig):
    buffers(rig.api)
    rig.want(2, ask="placeholders")
    await rig.step()
    rig.want(2, ask="none")
    assert await rig.step() is None
    assert rig.api.names("pods") == []
    listed = len(rig.api.listed)
    assert await rig.step() is None
    assert len(rig.api.listed) == listed


async def test_what_a_cluster_has_is_found_out(rig):
    buffers(rig.api)
    requests(rig.api)
    rig.want(5, ("7", 4), ("9", 1))
    await rig.step()
    assert rig.api.names("pods") == []
    (request,), (buffer,) = (rig.api.names(each) for each in ("provisioningrequests", "capacitybuffers"))
    assert rig.api.find("provisioningrequests", request)["apiVersion"] == "autoscaling.x-k8s.io/v1"
    assert rig.api.find("capacitybuffers", buffer)["apiVersion"] == GROUP
    (template,) = rig.api.names("podtemplates")
    assert rig.api.find("capacitybuffers", buffer)["spec"]["podTemplateRef"] == {"name": template}
    rig.come(1)
    rig.want(4, ("7", 4))
    await rig.step()
    assert rig.api.names("capacitybuffers") == []
    rig.want(0)
    await rig.step()
    assert (rig.api.names("provisioningrequests"), rig.api.names("podtemplates")) == ([], [])


async def test_a_kind_that_is_named_and_not_there_is_told_until_it_comes(rig):
    rig.want(2, ask="capacityBuffer")
    await rig.step()
    assert rig.events == [
        (
            "NodesNotAsked",
            "cannot ask autoscalers for 2 nodes: spec.growth.ask is capacityBuffer, and this cluster has no "
            "CapacityBuffer (autoscaling.x-k8s.io): install its CRD and an autoscaler that reads it, or set growth.ask "
            "to another value",
        )
    ]
    buffers(rig.api)
    rig.passed_s = 301.0
    await rig.step()
    assert rig.api.names("capacitybuffers") == ["gpu-wanted"]


async def test_a_discovery_that_lacks_a_kind_buys_nothing_twice(rig):
    buffers(rig.api)
    rig.want(2)
    await rig.step()
    rig.api.undiscovered = {"capacitybuffers"}
    rig.passed_s = 301.0
    await rig.step()
    assert (rig.api.names("capacitybuffers"), rig.api.names("pods")) == (["gpu-wanted"], [])
    rig.api.forbidden = {"capacitybuffers"}
    with pytest.raises(errors.Forbidden):
        await rig.step()
    assert rig.api.names("pods") == [], "nobody knows what stands there"
    rig.api.forbidden = set()
    rig.api.undefine("capacitybuffers")
    with pytest.raises(errors.NotServed):
        await rig.step()
    await rig.step()
    rig.passed_s += 15.0
    await rig.step()
    assert rig.api.names("pods") == ["gpu-wanted-1", "gpu-wanted-2"], "the kind is gone, and what it stood for"


async def test_a_new_leader_whose_discovery_lacks_a_kind_buys_nothing_twice(rig):
    buffers(rig.api)
    rig.want(2)
    await rig.step()
    rig.api.undiscovered = {"capacitybuffers"}
    other = Rig(rig.api, rig.asker._kube)
    assert await other.step() == 15
    assert (rig.api.names("capacitybuffers"), rig.api.names("pods")) == (["gpu-wanted"], []), "one answer is no proof"
    rig.api.undiscovered = set()
    other.passed_s = 15.0
    rig.want(1)
    await other.step()
    assert rig.api.find("capacitybuffers", "gpu-wanted")["spec"]["replicas"] == 1
    assert rig.api.names("pods") == []


async def test_a_template_of_a_kind_that_has_gone_holds_nothing_up(rig):
    buffers(rig.api)
    rig.want(2)
    await rig.step()
    rig.api.undefine("capacitybuffers")
    other = Rig(rig.api, rig.asker._kube)
    await other.step()
    assert rig.api.names("pods") == []
    other.passed_s = 15.0
    await other.step()
    assert rig.api.names("pods") == ["gpu-wanted-1", "gpu-wanted-2"]
    assert rig.api.names("podtemplates") == []


async def test_a_quota_that_refuses_is_told_and_tried_again(rig):
    rig.api.refuse_pods, rig.api.refuse_pods_as = 'pods "gpu-wanted-1" is forbidden: exceeded quota: few', 403
    rig.want(2)
    assert await rig.step() == 15
    assert rig.events == [
        ("NodesNotAsked", 'cannot ask autoscalers for 2 nodes: pods "gpu-wanted-1" is forbidden: exceeded quota: few')
    ]
    rig.api.refuse_pods = ""
    await rig.step()
    assert len(rig.api.names("pods")) == 2


def says(api: Apiserver, reason: str, message: str) -> None:
    """What an autoscaler writes about the first placeholder."""
    pod = api.find("pods", "gpu-wanted-1")["metadata"]
    about = {"kind": "Pod", "name": pod["name"], "namespace": "slurm", "uid": pod["uid"]}
    api.put(
        "events",
        {
            "metadata": {"name": f"{pod['name']}.{reason.lower()}", "namespace": "slurm"},
            "involvedObject": about, "reason": reason, "message": message, "lastTimestamp": rfc3339(NOW),
            "note": message,
        },
    )  # fmt: skip


async def test_an_autoscaler_that_refuses_is_heard_and_its_placeholders_stay(rig):
    rig.want(2, ("7", 2))
    await rig.step()
    says(rig.api, "NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached")
    await rig.step()
    refused = (
        "NodesRefused",
        "asked autoscalers for 2 nodes by Pod gpu-wanted-1: NotTriggerScaleUp: pod didn't trigger scale-up: 1 max node "
        "group size reached",
    )
    assert rig.events.count(refused) == 1
    for _ in range(5):
        await rig.step()
    assert rig.events.count(refused) == 1, "not again and again"
    assert len(rig.api.names("pods")) == 2


async def test_what_karpenter_says_of_the_virtual_pods_of_a_buffer_is_heard(rig):
    buffers(rig.api)
    rig.want(2, ("7", 2))
    await rig.step()
    uid = rig.api.find("capacitybuffers", "gpu-wanted")["metadata"]["uid"]
    for number in (1, 2):
        about = {"kind": "Pod", "name": f"capacity-buffer-gpu-wanted-{number}", "uid": f"{uid}-{number}"}
        reason, message = ("Nominated", "nodeclaim/a") if number == 1 else ("FailedScheduling", "exceeds limits")
        rig.api.put(
            "events",
            {
                "metadata": {"name": f"virtual-{number}", "namespace": "slurm"}, "involvedObject": about,
                "reason": reason, "message": message, "note": message, "lastTimestamp": rfc3339(NOW),
            },
        )  # fmt: skip
    await rig.step()
    why = "asked autoscalers for 2 nodes by CapacityBuffer gpu-wanted: FailedScheduling: exceeds limits"
    assert ("NodesRefused", why) in rig.events


async def test_silence_of_autoscalers_is_told_after_a_minute(rig):
    rig.want(1)
    await rig.step()
    rig.passed_s = 50.0
    await rig.step()
    assert [reason for reason, _ in rig.events] == ["NodesAsked"]
    rig.passed_s = 70.0
    await rig.step()
    reason, note = rig.events[-1]
    assert reason == "NodesRefused"
    silence = "no autoscaler has reacted for 70 s: check that an autoscaler runs that reads objects of this kind"
    assert note == f"asked autoscalers for 1 node by Pod gpu-wanted-1: {silence}"


async def test_a_nodeset_that_goes_takes_its_placeholders_along(rig):
    rig.want(2)
    await rig.step()
    rig.api.change("nodesets", *KEY, {"metadata": {"deletionTimestamp": rfc3339(NOW)}})
    await rig.step()
    assert rig.api.names("pods") == []
    rig.api.remove("nodesets", *KEY)
    assert await rig.step() is None


async def test_a_placeholder_is_no_slurmd_pod(rig):
    rig.want(1)
    await rig.step()
    pod = msgspec.convert(rig.api.find("pods", "gpu-wanted-1"), Pod)
    rig.woken.clear()
    rig.asker.pod_changed(None, pod)
    assert rig.woken == []
    assert names.LABEL_CLUSTER not in pod.labels
