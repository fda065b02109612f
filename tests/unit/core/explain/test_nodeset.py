"""NodeSets in words, as in their files. One that is not there is written, to be looked at."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.explain.explanation import render
from sunkpy.core.explain.nodeset import NodeSetFacts, explain_nodeset
from sunkpy.core.model.growth import GrowthRequest, GrowthStatus
from sunkpy.core.model.objects import Condition, Taint
from sunkpy.core.nodeset.spec import Gpu, NodeSetStatus
from tests.unit.core.explain.golden_file import written
from tests.unit.core.nodeset.build import make_node, make_nodeset, make_pod, make_template, make_views, make_world

GOLDEN = Path(__file__).parent / "golden_nodesets"
SEEN = NodeSetStatus(observed_generation=3)
TOKEN = "2026-11-20T11:00:00Z/rollout"
NEW = "slurmd:2"


def facts(nodeset=None, nodes=3, pods=3, *, made=None, create_error="", **of_pods):
    nodeset = nodeset or make_nodeset(status=SEEN)
    nodes = [make_node(number) for number in range(1, nodes + 1)] if isinstance(nodes, int) else nodes
    if isinstance(pods, int):
        pods = [make_pod(made or nodeset, number, **of_pods) for number in range(1, pods + 1)]
    world = make_world(nodeset, nodes, pods, create_error=create_error)
    return NodeSetFacts(nodeset=nodeset, world=world, views=make_views(nodes, pods, {}))


def rolled():
    """One pod is marked and busy, one ends, the others have their turn later."""
    old, new = make_nodeset(), make_nodeset(template=make_template(image=NEW), max_unavailable=2, status=SEEN)
    state = {names.ANNOTATION_SLURM_STATE: "MIXED+DRAIN"}
    pods = [
        make_pod(old, 1, token=TOKEN, running="True", drain="True", annotations=state),
        make_pod(old, 2, token=TOKEN, drained=TOKEN, drain="True", deleting=True),
        *(make_pod(old, number, running="True") for number in (3, 4)),
    ]
    return facts(new, 4, pods)


def excluded():
    nodes = [
        make_node(1),
        make_node(2, allocatable={"memory": "1Gi"}),
        make_node(3, taints=(Taint(key="maintenance", effect="NoSchedule"),)),
        make_node(4, taints=(Taint(key="maintenance", effect="NoSchedule"),)),
    ]
    template = make_template(requests={"memory": "8Gi"})
    return facts(make_nodeset(template=template, replicas=3, status=SEEN), nodes, 1)


def without_gpus():
    return facts(make_nodeset(gpu=Gpu(), status=SEEN), 2, 0)


def mass_removal():
    nodes = [make_node(number, labels={"pool": "cpu"}) for number in range(1, 9)]
    nodeset = make_nodeset(template=make_template(nodeSelector={"pool": "gpu"}), status=SEEN)
    return facts(nodeset, nodes, 8)


def refused():
    new = make_nodeset(template=make_template(image=NEW), status=SEEN)
    return facts(new, 3, 3, made=make_nodeset(), create_error="pods is forbidden: exceeded quota: gpus")


def unreadable():
    condition = Condition(type="Progressing", status="False", reason="BadSpec", message="spec.containers is no list")
    nodeset = make_nodeset(status=msgspec.structs.replace(SEEN, conditions=(condition,)))
    return NodeSetFacts(nodeset=nodeset, problem="Expected `array`, got `str` - at `$.containers`")


def not_read():
    nodeset = make_nodeset(status=msgspec.structs.replace(SEEN, number_ready=2, desired_number_scheduled=3))
    return NodeSetFacts(nodeset=nodeset, unread=("nodes: nodes is forbidden",))


def grows():
    requests = (GrowthRequest(job="7", nodes=2), GrowthRequest(job="9_[1-4]", nodes=1))
    told = "job 8: needs 200 nodes, and there can be 100"
    growth = GrowthStatus(wanted_nodes=3, requests=requests, reason=told, since="2026-11-20T11:00:00Z")
    return facts(make_nodeset(status=msgspec.structs.replace(SEEN, growth=growth)))


def shares_process_ids():
    nodeset = make_nodeset(status=SEEN)
    annotations = {names.ANNOTATION_SHARED_PIDS: "slurmConfig.privatePids: false"}
    return facts(
        msgspec.structs.replace(nodeset, metadata=msgspec.structs.replace(nodeset.metadata, annotations=annotations))
    )


SITUATIONS = {
    "complete": facts,
    "shares-process-ids": shares_process_ids,
    "grows": grows,
    "rolls": rolled,
    "too-few-nodes": excluded,
    "no-gpus": without_gpus,
    "mass-removal": mass_removal,
    "template-refused": refused,
    "template-unreadable": unreadable,
    "nodes-not-read": not_read,
    "scales-up": lambda: facts(pods=1),
    "scales-down": lambda: facts(make_nodeset(replicas=1, status=SEEN), running="True"),
    "pods-fail": lambda: facts(phase="Failed", reason="Evicted", ready=False),
    "pods-not-ready": lambda: facts(ready=False),
    "being-deleted": lambda: facts(make_nodeset(deleting=True, status=SEEN), token="2026-11-20T11:00:00Z/x"),
    "paused": lambda: facts(
        make_nodeset(template=make_template(image=NEW), paused=True, status=SEEN), made=make_nodeset()
    ),
    "change-not-seen": lambda: facts(make_nodeset()),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_nodeset_is_explained(name):
    file, text = GOLDEN / f"{name}.txt", f"{render(explain_nodeset(SITUATIONS[name]()))}\n"
    assert text == written(file, text)


def test_each_file_stands_for_a_situation():
    assert {file.stem for file in GOLDEN.iterdir()} == set(SITUATIONS)
