"""Which change wakes which key."""

import asyncio

import msgspec
import pytest

from sunkpy.core.model.growth import GrowthStatus
from sunkpy.core.model.objects import Condition, Meta, Pod, PodSpec, PodStatus
from sunkpy.core.nodeset.spec import Growth, NodeSetStatus
from sunkpy.operator.loop import Wakes
from tests.unit.core.nodeset.build import make_node, make_nodeset, make_pod

NODESET = make_nodeset()


@pytest.fixture
async def wakes():
    """One NodeSet is known, and nothing waits."""
    made = Wakes(settle_s=0.0, gather_s=0.0)
    made.resync_nodesets({NODESET.key})
    await woken(made)
    return made


async def woken(wakes):
    """The keys of both queues, NodeSets and Nodes; those that were to wait a moment included."""
    await asyncio.sleep(0)  # the timers of this moment are due
    await asyncio.sleep(0)
    return await emptied(wakes.nodesets), await emptied(wakes.nodes)


async def emptied(queue):
    found = {await queue.get() for _ in range(len(queue))}
    for key in found:
        queue.done(key)
    return found


def other_pod(**changes):
    pod = Pod(metadata=Meta(name="web", namespace="default"), spec=PodSpec(node_name="n1"))
    return msgspec.structs.replace(pod, **changes)


async def test_a_slurmd_pod_wakes_its_nodeset_and_its_node(wakes):
    wakes.pod_changed(None, make_pod(make_nodeset(name="cpu"), 1))
    assert await woken(wakes) == ({("slurm", "cpu")}, {"n1"})


async def test_a_slurmd_pod_that_is_not_bound_wakes_no_node(wakes):
    wakes.pod_changed(make_pod(NODESET, 1, bound=False), None)
    assert await woken(wakes) == ({NODESET.key}, set())


@pytest.mark.parametrize(
    ("old", "new", "is_woken"),
    [
        pytest.param(None, other_pod(), True, id="came"),
        pytest.param(other_pod(), None, True, id="went"),
        pytest.param(other_pod(spec=PodSpec()), other_pod(), True, id="was bound"),
        pytest.param(other_pod(), other_pod(status=PodStatus(phase="Failed")), True, id="finished"),
        pytest.param(None, other_pod(spec=PodSpec()), False, id="waits for its node"),
        pytest.param(other_pod(), other_pod(status=PodStatus(phase="Running")), False, id="runs"),
        pytest.param(other_pod(status=PodStatus(phase="Failed")), None, False, id="finished before it went"),
    ],
)
async def test_a_pod_of_others_wakes_all_nodesets_when_it_took_or_left_room(wakes, old, new, is_woken):
    wakes.pod_changed(old, new)
    assert await woken(wakes) == ({NODESET.key} if is_woken else set(), set())


@pytest.mark.parametrize(
    ("changes", "is_woken"),
    [
        pytest.param({"labels": {"pool": "gpu"}}, True, id="labels"),
        pytest.param({"unschedulable": True}, True, id="cordon"),
        pytest.param({"allocatable": {"nvidia.com/gpu": "8"}}, True, id="room"),
        pytest.param({"ip": "10.0.12.9"}, True, id="address"),
        pytest.param({"ready": False}, True, id="ready"),
        pytest.param({"conditions": (Condition(type="DiskPressure", status="False"),)}, False, id="heartbeat"),
        pytest.param({"annotations": {"a": "b"}}, False, id="annotation"),
    ],
)
async def test_a_node_wakes_all_nodesets_when_more_or_fewer_may_fit(wakes, changes, is_woken):
    wakes.node_changed(make_node(1), make_node(1, **changes))
    assert await woken(wakes) == ({NODESET.key} if is_woken else set(), {"n1"})


async def test_a_node_that_comes_or_goes_wakes_all_nodesets(wakes):
    wakes.node_changed(None, make_node(1))
    assert await woken(wakes) == ({NODESET.key}, {"n1"})
    wakes.node_changed(make_node(2), None)
    assert (await woken(wakes))[1] == {"n2"}


async def test_a_nodeset_that_is_gone_is_looked_at_once_more_and_then_no_longer(wakes):
    wakes.nodeset_seen(NODESET, is_gone=True)
    assert await woken(wakes) == ({NODESET.key}, set())
    wakes.node_changed(None, make_node(1))
    assert await woken(wakes) == (set(), {"n1"})


async def test_a_resync_finds_what_was_deleted_unseen(wakes):
    wakes.resync_nodesets({("slurm", "cpu")})
    wakes.resync_nodes([make_node(1), make_node(2)])
    assert await woken(wakes) == ({NODESET.key, ("slurm", "cpu")}, {"n1", "n2"})
    wakes.node_changed(None, make_node(3))
    assert NODESET.key not in (await woken(wakes))[0]


async def test_where_nodes_are_released_by_what_jobs_want_that_is_news(wakes):
    asks = []
    for growth in (None, GrowthStatus(seen="2026-11-28T12:00:00Z"), GrowthStatus(seen="2026-11-28T12:02:00Z")):
        made = make_nodeset(status=NodeSetStatus(growth=growth))
        releases = msgspec.structs.replace(made.spec, growth=Growth(potential=9, release_after_seconds=600))
        wakes.nodeset_seen(msgspec.structs.replace(made, spec=releases), is_gone=False)
        assert (await woken(wakes))[0] == {NODESET.key}
        asks.append(await emptied(wakes.asks))
    assert asks[2] == set(), "no autoscaler is asked for anything else"


async def test_a_status_that_was_written_is_no_news(wakes):
    wakes.nodeset_seen(NODESET, is_gone=False)
    assert await woken(wakes) == ({NODESET.key}, set()), "it was never seen before"
    wakes.nodeset_seen(make_nodeset(status=NodeSetStatus(number_ready=1)), is_gone=False)
    assert await woken(wakes) == (set(), set())
    read_again = NodeSetStatus(growth=GrowthStatus(seen="2026-11-28T12:00:00Z"))
    wakes.nodeset_seen(make_nodeset(status=read_again), is_gone=False)
    assert await woken(wakes) == (set(), set())
    for changed in (make_nodeset(replicas=2), make_nodeset(replicas=2, deleting=True)):
        wakes.nodeset_seen(changed, is_gone=False)
        assert await woken(wakes) == ({NODESET.key}, set())
