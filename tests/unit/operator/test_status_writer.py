"""How often a NodeSet tells of itself."""

from __future__ import annotations

import pytest

from sunkpy.core.nodeset.spec import NodeSetStatus
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.operator.metrics import OperatorMetrics
from sunkpy.operator.settings import OperatorSettings
from sunkpy.operator.status_writer import StatusWriter
from sunkpy.runtime.process import Process
from tests.doubles.apiserver import Apiserver
from tests.doubles.serving import answering
from tests.unit.core.nodeset.build import make_nodeset

NODESET = make_nodeset()


class Clock:
    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def api():
    server = Apiserver()
    server.put("nodesets", {"metadata": {"name": "gpu", "namespace": "slurm"}, "spec": {}})
    return server


@pytest.fixture
async def writer(api, clock, tmp_path):
    async with answering(api.handle, tmp_path) as kubeconfig, await Kube.connect(kubeconfig) as kube:
        events = EventRecorder(kube, component="operator", instance="test")
        metrics = OperatorMetrics(Process("operator", OperatorSettings()).registry)
        yield StatusWriter(kube, events=events, metrics=metrics, clock=clock)


def version(api):
    return api.find("nodesets", "gpu")["metadata"]["resourceVersion"]


async def test_it_reports_at_once_and_then_once_a_second(writer, clock):
    assert writer.due_in_s(NODESET) == 0
    await writer.write(NODESET, NodeSetStatus(number_ready=1), [])
    clock.now_s += 0.25
    assert writer.due_in_s(NODESET) == 0.75
    assert writer.due_in_s(make_nodeset(name="cpu")) == 0
    clock.now_s += 5
    assert writer.due_in_s(NODESET) == 0


async def test_what_stands_there_already_is_not_written(writer, api):
    before = version(api)
    await writer.write(NODESET, NODESET.status, [])
    assert version(api) == before
    await writer.write(NODESET, NodeSetStatus(number_ready=1), [])
    assert version(api) != before


async def test_a_nodeset_that_is_gone_may_report_at_once_when_it_comes_back(writer):
    await writer.write(NODESET, NodeSetStatus(number_ready=1), [])
    writer.forget(NODESET.key)
    assert writer.due_in_s(NODESET) == 0


async def test_a_status_of_a_nodeset_that_went_meanwhile_is_let_be(writer, api):
    api.remove("nodesets", "slurm", "gpu")
    await writer.write(NODESET, NodeSetStatus(number_ready=1), [])
    assert api.names("nodesets") == []
