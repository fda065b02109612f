"""Events, against an apiserver over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from prometheus_client import Counter

from sunkpy.core.model.objects import Meta, Node, Pod
from sunkpy.kube import events as recording
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
def lost() -> Counter:
    return Counter("lost", "Events that nobody will read", ["why"], registry=None)


@pytest.fixture
async def events(cluster: Cluster, lost: Counter, tmp_path: Path) -> AsyncIterator[EventRecorder]:
    async with answering(cluster.handle, tmp_path) as kubeconfig, await Kube.connect(kubeconfig) as kube:
        yield EventRecorder(kube, component="scheduler", instance="scheduler-0", lost=lost)


def count(lost: Counter, why: str) -> float:
    value: float = lost.labels(why)._value.get()
    return value


@contextlib.asynccontextmanager
async def written_behind(events: EventRecorder) -> AsyncIterator[None]:
    """Callers do not write themselves."""
    run = asyncio.create_task(events.run())
    await asyncio.sleep(0)
    try:
        yield
    finally:
        run.cancel()


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
    cluster: Cluster, events: EventRecorder, lost: Counter
) -> None:
    cluster.refuses = True
    await events.normal(POD, "Pod", reason="Bound", action="Binding", note="to n1")
    assert cluster.api.events() == []
    assert (count(lost, "failed"), count(lost, "too many")) == (1, 0)
    cluster.refuses = False
    await events.normal(POD, "Pod", reason="Bound", action="Binding", note="to n1")
    assert cluster.api.reasons() == ["Bound"]


async def test_while_events_cannot_be_written_nobody_waits_and_what_is_too_much_is_dropped_and_counted(
    cluster: Cluster, events: EventRecorder, lost: Counter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "_UNWRITTEN_LIMIT", 3)
    cluster.api.takes_events.clear()
    async with written_behind(events):
        async with asyncio.timeout(10):
            for number in range(10):
                await events.normal(POD, "Pod", reason="Bound", action="Binding", note=f"to n{number}")
        assert count(lost, "too many") == 7
        cluster.api.takes_events.set()
        await cluster.api.until(lambda: len(cluster.api.events()) == 3)
        await events.normal(POD, "Pod", reason="Bound", action="Binding", note="to n9")
        await cluster.api.until(lambda: len(cluster.api.events()) == 4)
    said = [event["note"] for event in cluster.api.events()]
    assert said == ["to n0", "to n1", "to n2", "to n9"], "what was dropped is said the next time"
