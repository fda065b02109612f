"""What is kept of pods of a megabyte, which anybody may make; a hundred of them must not end a leader."""

from __future__ import annotations

import tracemalloc

import msgspec
import pytest

from sunkpy.core.gang.limits import shortened
from sunkpy.core.model.objects import Pod
from sunkpy.kube.bounds import bounded
from sunkpy.operator import trim
from sunkpy.scheduler.nodes.others import Cut
from tests.unit.scheduler.test_scheduler import hook_client
from tests.unit.scheduler.world import World, leading

MANY = 3_000
KEPT_BYTES = 100_000


def required(kind, *terms):
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [*terms]}}}


def values(count=MANY):
    line = {"key": "k", "operator": "In", "values": [f"value-{number}" for number in range(count)]}
    return {"topologyKey": "k", "labelSelector": {"matchExpressions": [line]}}


def numbered(**named):
    return [{key: f"{text}-{number}" for key, text in named.items()} for number in range(MANY)]


HUGE = {
    "finalizers": {},
    "containers": {"containers": [{"name": f"c{n}", "resources": {"requests": {"cpu": f"{n}m"}}} for n in range(MANY)]},
    "resources": {"containers": [{"resources": {"requests": {f"example.com/{n}": "1" for n in range(MANY)}}}]},
    "ports": {"containers": [{"ports": [{"hostPort": n} for n in range(1, MANY)]}]},
    "tolerations": {"tolerations": numbered(key="k")},
    "gates": {"schedulingGates": numbered(name="example.com/gate")},
    "claims": {"resourceClaims": numbered(name="c", resourceClaimName="r")},
    "volumes": {"volumes": numbered(name="v")},
    "node selector": {"nodeSelector": {f"k{n}": "v" for n in range(MANY)}},
    "empty terms of nodes": {
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}] * MANY}}
        }
    },
    "values": required("podAntiAffinity", values()),
    "spread": {"topologySpreadConstraints": numbered(topologyKey="k")},
}


def texts(what):
    finalizers = [f"example.com/{number}" for number in range(MANY)] if what == "finalizers" else []
    for number in range(3):
        meta = {"name": f"p{number}", "uid": f"u{number}", "finalizers": finalizers}
        yield msgspec.json.encode({"metadata": meta, "spec": {"nodeName": "n", **HUGE[what]}})


@pytest.mark.parametrize("keep", [shortened, Cut(), trim.trim_pod], ids=["ours", "others", "operator"])
@pytest.mark.parametrize("what", HUGE)
def test_of_a_huge_pod_little_is_kept(what, keep):
    def read():
        return [keep(bounded(msgspec.json.decode(text, type=Pod))) for text in texts(what)]

    read()  # quantities that were read once are remembered
    tracemalloc.start()
    try:
        kept = read()
        assert tracemalloc.get_traced_memory()[0] / len(kept) < KEPT_BYTES
    finally:
        tracemalloc.stop()


async def test_its_people_are_told_which_list_is_too_long(tmp_path):
    world = World()
    world.add_node(1)
    async with leading(world, tmp_path) as server, hook_client(server):
        world.add_pod(**required("podAntiAffinity", values(3000)))
        told = "pod web has 3000 values in its affinity, and may have at most 2000"
        await world.until(lambda: told in world.notes("FailedScheduling"))
        assert not world.submissions
        pods = world.term._cluster._everybody.parts
        assert all(each._are_large for each in pods), "a new leader does not list hundreds of them at once"
