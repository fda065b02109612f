"""Finding pods by their labels gives what a comparison with each pod gives, and the index holds what is there."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sunkpy.core.model import labelled
from sunkpy.core.model.labelled import Labelled
from sunkpy.core.model.matching import matches_labels
from sunkpy.core.model.objects import LabelSelector, Pod

DICE = st.integers(0, 2**32).map(random.Random)
"""Many pods that differ: hypothesis by itself mostly makes few."""
OPERATORS = ["In", "In", "NotIn", "Exists", "DoesNotExist", "Unknown"]
VALUES = ["1", "2", "3", ""]


def make(uid, namespace, node, labels):
    meta = {"name": uid, "namespace": namespace, "uid": uid, "labels": labels}
    return msgspec.convert({"metadata": meta, "spec": {"nodeName": node}}, Pod)


def some_labels(dice):
    return {key: dice.choice(VALUES) for key in "xyz" if dice.random() < 0.7}


def some_selector(dice):
    lines = [
        {
            "key": dice.choice("xyz"),
            "operator": dice.choice(OPERATORS),
            "values": dice.sample(VALUES, dice.randrange(3)),
        }
        for _ in range(dice.randrange(3))
    ]
    labels = some_labels(dice) if dice.random() < 0.2 else {}
    return msgspec.convert({"matchLabels": labels, "matchExpressions": lines}, LabelSelector)


def followed(dice):
    """The index, and the pods that are there after some came, changed and went."""
    index, pods = Labelled(), {}
    for _ in range(dice.randrange(80)):
        uid = f"uid-{dice.randrange(20)}"
        new = make(uid, dice.choice("ab"), dice.choice(["n1", "n2", "n3"]), some_labels(dice))
        new = new if dice.random() < 0.8 else None
        index.follow(pods.pop(uid, None), new)
        if new is not None:
            pods[uid] = new
    return index, pods


@pytest.mark.parametrize("few", [0, 2, 32])
@settings(max_examples=300)
@given(DICE)
def test_the_same_pods_are_found_as_by_a_look_at_each(few, dice):
    index, pods = followed(dice)
    selector, namespaces = some_selector(dice), dice.choice([None, None, (), ("a",), ("b", "a"), ("c",)])
    but, nodes = {f"uid-{dice.randrange(25)}" for _ in range(4)}, dice.sample(["n1", "n2", "n4"], dice.randrange(4))
    expected = {
        uid: pod
        for uid, pod in pods.items()
        if matches_labels(selector, pod.labels) and (namespaces is None or pod.metadata.namespace in namespaces)
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(labelled, "_FEW", few)
        find = index.finder()
        for _ in range(2):  # the second time from what the finder remembers
            found = list(find.all(selector, namespaces))
            assert {pod.uid: pod for pod in found} == expected
            assert len(found) == len(expected)
            some = list(find.some_on_each(nodes, selector, namespaces, but))
            counted = {uid: pod for uid, pod in expected.items() if uid not in but}
            assert {pod.uid for pod in some} <= counted.keys()
            assert {pod.spec.node_name for pod in some} >= {*nodes} & {pod.spec.node_name for pod in counted.values()}
    for node in ("n1", "n4"):
        assert {pod.uid for pod in index.on(node)} == {pod.uid for pod in pods.values() if pod.spec.node_name == node}


@given(DICE)
def test_it_holds_the_labels_of_the_pods_that_are_there_and_nothing_when_they_are_gone(dice):
    index, pods = followed(dice)
    labels = {label for pod in pods.values() for label in pod.labels.items()}
    places = {pod.metadata.namespace for pod in pods.values()}, {pod.spec.node_name for pod in pods.values()}
    assert len(index) == len(labels) + sum(map(len, places))
    for pod in pods.values():
        index.follow(None, pod)  # as after a watch has begun anew
        index.follow(pod, None)
        index.follow(pod, None)
    assert (len(index), index._named, index._pods, index._numbers) == (0, {}, {}, {})


@pytest.mark.parametrize("count", [5, 300], ids=["few", "many"])
def test_of_several_pods_on_a_node_the_one_that_came_first_is_found(count):
    """Or the message about a node would change with pods that do not matter."""
    index = Labelled()
    for number in range(count):
        index.follow(None, make(f"uid-{number}", "a", f"n{number % 3}", {"x": "1"}))
    nodes, selector = ["n2", "n1", "n0", "empty"], LabelSelector(match_labels={"x": "1"})
    some = list(index.finder().some_on_each(nodes, selector, None, {"uid-1"}))
    firsts = {pod.spec.node_name: pod.uid for pod in reversed(some)}
    assert (firsts["n1"], firsts["n2"]) == ("uid-4", "uid-2")
