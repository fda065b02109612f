"""Pods that were deleted by force are remembered as long as their containers may run."""

import pytest

from sunkpy.core.model.objects import Meta, Pod, PodSpec
from sunkpy.scheduler.pods.vanished import Vanished
from sunkpy.scheduler.settings import TIMES
from tests.doubles.leading import make_leader
from tests.unit.scheduler.test_solo_gangs import indexed
from tests.unit.scheduler.world import World


def deleted_by_force(vanished, name, node):
    spec = PodSpec(node_name=node, termination_grace_period_seconds=30)
    vanished.update(Pod(metadata=Meta(name=name, namespace="default", uid=name), spec=spec), None)


def test_pods_on_nodes_that_nobody_asks_about_any_more_are_forgotten():
    now = [1000.0]
    vanished = Vanished(make_leader(clock=lambda: now[0]), find_id=lambda _: None)
    for number in range(100):
        now[0] += 10.0
        deleted_by_force(vanished, f"web-{number}", f"node-{number}")
    assert len(vanished._gone) == 4
    assert vanished.keeps("node-99") == "pod default/web-99 was deleted by force: its containers have 40 s to end"
    assert vanished.left_s("node-97") == 30.0 + TIMES.teardown_s - 20.0
    assert (vanished.keeps("node-0"), vanished.left_s("node-0")) == (None, float("inf"))


def test_of_several_on_a_node_the_one_that_ends_first_is_forgotten_alone():
    now = [1000.0]
    vanished = Vanished(make_leader(clock=lambda: now[0]), find_id=lambda _: None)
    for name in ("first", "second", "third"):
        deleted_by_force(vanished, name, "node-1")
        now[0] += 15.0
    assert "default/second" in vanished.keeps("node-1")


def told_to_go(given_s):
    meta = Meta(name="web", namespace="default", uid="web", deletion_grace_period_seconds=given_s)
    return Pod(metadata=meta, spec=PodSpec(node_name="node-1", termination_grace_period_seconds=30))


@pytest.mark.parametrize(
    ("course", "counts_s"),
    [
        pytest.param([None], 30.0, id="at once"),
        pytest.param([None, 0], 30.0, id="at once, and kept by a finalizer"),
        pytest.param([None, 30, 1], 30.0, id="it was given less after it was told"),
        pytest.param([None, 1000, 1], 1000.0, id="it was given more at first"),
        pytest.param([None, 5], 5.0, id="it was given less at first"),
        pytest.param([1], 30.0, id="it was told before anybody looked"),
    ],
)
def test_the_grace_period_that_the_kubelet_heard_of_first_counts(course, counts_s):
    vanished = Vanished(make_leader(clock=lambda: 1000.0), find_id=lambda _: None)
    pods = [*map(told_to_go, course), None]
    for old, new in zip([None, *pods], pods, strict=False):
        vanished.update(old, new)
    assert vanished.left_s("node-1") == counts_s + TIMES.teardown_s


def test_a_pod_that_was_made_anew_under_its_name_while_nobody_looked_is_gone_as_well():
    vanished = Vanished(make_leader(clock=lambda: 1000.0), find_id=lambda _: None)
    before = told_to_go(None)
    vanished.update(None, before)
    vanished.update(before, Pod(metadata=Meta(name="web", namespace="default", uid="another"), spec=PodSpec()))
    assert vanished.left_s("node-1") == 30.0 + TIMES.teardown_s


async def test_a_deletion_is_heard_of_while_the_gang_of_the_pod_is_known(tmp_path):
    def pod(uid="uid-1", **deletion):
        meta = Meta(name="web", namespace="default", uid=uid, **deletion)
        return Pod(metadata=meta, spec=PodSpec(node_name="node-1"))

    going = pod(deletion_timestamp="2026-11-21T00:00:00Z", deletion_grace_period_seconds=30)
    heard = []
    async with indexed(World(), tmp_path) as (pods, *_):
        pods.on_deletion = lambda old, new: heard.append((old, new, old is not None and pods.find_id(old) is not None))
        for old, new in ((None, pod()), (pod(), going), (going, None)):
            pods.update(old, new)
        assert heard == [(pod(), going, True), (going, None, True)]
        heard.clear()
        for old, new in ((None, pod()), (pod(), pod("uid-2")), (pod("uid-2"), None), (None, going)):
            pods.update(old, new)
        assert heard == [(pod(), pod("uid-2"), True), (pod("uid-2"), None, True), (None, going, False)]
