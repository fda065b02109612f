"""Requests of NVSentinel that a node be drained, and their answer."""

import msgspec

from sunkpy.core.health.requests import DrainRequest

WIRE = {
    "metadata": {"name": "d-1", "namespace": "nvsentinel"},
    "spec": {
        "nodeName": "n1",
        "checkName": "Xid79",
        "reason": "GPU fell off",
        "errorCode": ["79"],
        "entitiesImpacted": [],
    },
    "status": {"conditions": [{"type": "Seen", "status": "True", "reason": "Seen"}]},
}


def test_one_is_read_as_its_template_makes_it():
    request = msgspec.convert(WIRE, DrainRequest)
    assert (request.spec.node_name, request.text) == ("n1", "nvsentinel/d-1: Xid79 GPU fell off")
    assert msgspec.convert({"metadata": {"name": "d"}}, DrainRequest).text == "d"


def test_its_answer_leaves_other_conditions_as_they_are():
    request = msgspec.convert(WIRE, DrainRequest)
    assert not request.is_answered("DrainComplete")
    kept, answer = request.answered("DrainComplete", "n1", "2026-11-28T12:00:00Z")
    assert (kept.type, answer.type, answer.status) == ("Seen", "DrainComplete", "True")
    assert answer.message == "the Slurm node of n1 is drained, and no job runs there"
    status = msgspec.structs.replace(request.status, conditions=(kept, answer))
    again = msgspec.structs.replace(request, status=status)
    assert again.is_answered("DrainComplete")
    assert len(again.answered("DrainComplete", "n1", "later")) == 2
