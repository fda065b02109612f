"""When the object that asks for a repair is written."""

from __future__ import annotations

import msgspec
import pytest

from sunkpy.core.health import HealthStep, State
from sunkpy.core.model.times import rfc3339
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.operator.remedies import RemedyWriter
from tests.doubles.apiserver import Apiserver
from tests.doubles.serving import answering
from tests.unit.core.health.build import NOW, RULES, node, record


@pytest.mark.parametrize(("good_since", "written"), [("", 1), (rfc3339(NOW), 0)], ids=["sick", "signal gone"])
async def test_no_repair_is_asked_for_once_the_signal_has_gone(tmp_path, good_since, written):
    """The node may open in a minute, and the repair would take it from its next job."""
    api = Apiserver()
    api.define("example.com/v1", "Mend", "mends")
    before = record(State.REMEDY, "mend")
    step = HealthStep(before=before, after=msgspec.structs.replace(before, good_since=good_since))
    async with answering(api.handle, tmp_path) as kubeconfig, await Kube.connect(kubeconfig) as kube:
        events = EventRecorder(kube, component="operator", instance="one")
        assert await RemedyWriter(kube, events, RULES).ensure(node(record=before), step) is None
    assert len(api.names("mends")) == written
