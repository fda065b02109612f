"""Events, against an apiserver over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from sunkpy.core.model.objects import Meta, Node, Pod
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from tests.doubles.apiserver import Apiserver, refusal
from tests.doubles.serving import answering

POD = Pod(metadata=Meta(name="train-0", namespace="team", uid="u1"))
NODE = Node(metadata=Meta(name="n1", uid="u2"))


class Cluster:
    """An apiserver that can refuse."""

    def __init__(self) -> None:
        self.api = Apiserver()
        self.refuses = False

    async def handle(self, request: web.Request) -> web.StreamResponse:
        return refusal(403, "Forbidden") if self.refuses else await self.api.handle(request)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
async def events(cluster: Cluster, tmp_path: Path) -> AsyncIterator[EventRecorder]:
    async with answering(cluster.handle, tmp_path) as kubeconfig, await Kube.connect(kubeconfig) as kube:
        yield EventRecorder(kube, component="scheduler", instance="scheduler-0")


async def test_an_event_says_who_did_what_to_whom(cluster: Cluster, events: EventRecorder) -> None:
    await events.warning(POD, "Pod", reason="JobLost", action="Evicting", note="the job is gone")
    (event,) = cluster.api.events()
    assert event["metadata"]["namespace"] == "team"
    assert event["regarding"] == {
        "apiVersion": "v1", "kind": "Pod", "name": "train-0", "namespace": "team", "uid": "u1",
    }  # fmt: skip
    said = (event["type"], event["reason"], event["action"], event["note"])
    assert said == ("Warning", "JobLost", "Evicting", "the job is gone")
    assert (event["reportingController"], event["reportingInstance"]) == ("sunkpy.dev/scheduler", "scheduler-0")


async def test_what_has_no_namespace_is_told_in_default(cluster: Cluster, events: EventRecorder) -> None:
    await events.normal(NODE, "Node", reason="Drained", action="Draining", note="by Slurm")
    (event,) = cluster.api.events()
    assert (event["type"], event["metadata"]["namespace"]) == ("Normal", "default")


async def test_a_custom_resource_is_named_with_its_group(cluster: Cluster, events: EventRecorder) -> None:
    await events.normal(POD, "NodeSet", reason="Paused", action="Waiting", note="paused")
    assert cluster.api.events()[0]["regarding"]["apiVersion"] == "sunkpy.dev/v1alpha1"


async def test_the_same_is_said_once_and_another_text_again(cluster: Cluster, events: EventRecorder) -> None:
    for note in ("no node", "no node", "no partition"):
        await events.warning(POD, "Pod", reason="Waiting", action="Scheduling", note=note)
    await events.warning(NODE, "Node", reason="Waiting", action="Scheduling", note="no node")
    assert [event["note"] for event in cluster.api.events()] == ["no node", "no partition", "no node"]


async def test_a_long_note_is_cut_to_what_the_api_takes(cluster: Cluster, events: EventRecorder) -> None:
    await events.normal(POD, "Pod", reason="Waiting", action="Scheduling", note="x" * 3000)
    assert len(cluster.api.events()[0]["note"]) == 1024


async def test_an_event_that_was_refused_is_no_error_and_is_said_the_next_time(
    cluster: Cluster, events: EventRecorder
) -> None:
    cluster.refuses = True
    await events.normal(POD, "Pod", reason="Bound", action="Binding", note="to n1")
    assert cluster.api.events() == []
    cluster.refuses = False
    await events.normal(POD, "Pod", reason="Bound", action="Binding", note="to n1")
    assert cluster.api.reasons() == ["Bound"]
