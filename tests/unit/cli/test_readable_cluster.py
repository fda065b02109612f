"""What a cluster of thousands of nodes costs that an explanation is made from."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from sunkpy.cli.readable_cluster import ReadableCluster
from sunkpy.core import names
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.placement.domains import HOSTNAME
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.scheduler.settings import SchedulerSettings
from tests.unit.core.gang.pods import make_pod
from tests.unit.core.gang.seating.test_named_nodes import armada

_SIZE = 40
_RACK = "example.com/rack"


class _Counted(tuple):
    """Counts how often it is walked."""

    def __new__(cls, items, walks, name):
        made = super().__new__(cls, items)
        made.walks, made.name = walks, name
        return made

    def __iter__(self):
        self.walks[self.name] += 1
        return super().__iter__()


def node(number):
    labels = {HOSTNAME: f"host-{number}", _RACK: f"rack-{number // 4}"}
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}
    return msgspec.convert({"metadata": {"name": f"node-{number}", "labels": labels}, "status": status}, Node)


def slurmd(number):
    labels = {names.LABEL_SLURM_NODE: f"n{number}"}
    meta = {"name": f"slurmd-{number}", "namespace": "slurm", "labels": labels}
    meta["annotations"] = {names.ANNOTATION_TOPOLOGY: f"s{number // 4}", names.ANNOTATION_SLURM_STATE: "IDLE"}
    return msgspec.convert({"metadata": meta, "spec": {"nodeName": f"node-{number}"}}, Pod)


def cluster(walks, **settings):
    own = SchedulerSettings(
        cluster="c", namespace="slurm", slurm=SlurmSettings(url="http://x", jwt_key_file="/k"), **settings
    )
    return ReadableCluster(
        sees_all_pods=True,
        settings=own,
        nodes=_Counted(map(node, range(_SIZE)), walks, "nodes"),
        slurmd_pods=_Counted(map(slurmd, range(_SIZE)), walks, "slurmd pods"),
    )


def on(number):
    return make_pod(f"p{number}", node=f"node-{number}")


LOOK_UPS = {
    "path_to": (lambda around, n: around.path_to(f"n{n}"), lambda n: (f"s{n // 4}",)),
    "places": (lambda around, n: around.places[f"n{n}"], lambda n: f"s{n // 4}"),
    "states": (lambda around, n: around.states[f"n{n}"], lambda _: "IDLE"),
    "node_behind": (lambda around, n: around.node_behind(f"n{n}").name, lambda n: f"node-{n}"),
    "slurm_node_of": (lambda around, n: around.slurm_node_of(on(n)), lambda n: f"n{n}"),
    "slurm_node_at": (lambda around, n: around.slurm_node_at(f"host-{n}"), lambda n: f"n{n}"),
}


@pytest.mark.parametrize("name", LOOK_UPS)
def test_look_ups_for_many_nodes_walk_the_pool_as_often_as_one_does(name):
    look_up, expected = LOOK_UPS[name]
    for_one, for_all = Counter(), Counter()
    look_up(cluster(for_one), 0)
    around = cluster(for_all)
    assert [look_up(around, n) for n in range(_SIZE)] == [*map(expected, range(_SIZE))]
    assert for_all == for_one


def test_the_switches_by_a_label_of_nodes_cost_no_more():
    for_one, for_all = Counter(), Counter()
    cluster(for_one, switch_label=_RACK).path_to("n0")
    around = cluster(for_all, switch_label=_RACK)
    assert [around.path_to(f"n{n}") for n in range(_SIZE)] == [(f"rack-{n // 4}",) for n in range(_SIZE)]
    assert for_all == for_one


@pytest.mark.parametrize("are_named", [False, True])
def test_whether_pods_name_nodes_costs_no_more_with_many_pods(are_named):
    walks = {}
    for size in (2, _SIZE):
        walks[size] = Counter()
        gang = armada(*(f"host-{n}" if are_named else "" for n in range(size)))
        named, where = cluster(walks[size]).named_nodes(gang)
        assert sorted(named.values()) == (sorted(f"n{n}" for n in range(size)) if are_named else [])
        assert (set(where.eligible) if where is not None else set()) == set(named.values())
    assert walks[2] == walks[_SIZE]
