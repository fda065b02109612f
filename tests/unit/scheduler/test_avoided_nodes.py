"""Nodes to avoid are found by indexes of the pods on nodes. They are those that a look at each pod finds."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from sunkpy.core.gang.limits import avoid_nodes
from sunkpy.core.model.matching import matches_labels
from sunkpy.core.model.objects import Pod
from sunkpy.scheduler.pods.neighbours import Neighbours
from tests.unit.core.gang.pods import make_node

HOST, ZONE = "kubernetes.io/hostname", "zone"
NODES = {
    "n1": make_node("n1", labels={HOST: "n1", ZONE: "a"}),
    "n2": make_node("n2", labels={HOST: "n2", ZONE: "a"}),
    "n3": make_node("n3", labels={HOST: "n3", ZONE: "b"}),
    "n4": make_node("n4", labels={HOST: "n4"}),
    "n5": make_node("n5", labels={HOST: "n5", ZONE: "b"}),
}
OPERATORS = ["In", "In", "NotIn", "Exists", "DoesNotExist"]
WAYS = ["watch", "watch", "sent", "ended", "relabelled"]
"""How it became known that a pod is on a node."""


def some_labels(dice):
    return {key: dice.choice("12") for key in "xyz" if dice.random() < 0.6}


def some_selector(dice):
    line = {
        "key": dice.choice("xyz"),
        "operator": dice.choice(OPERATORS),
        "values": dice.sample("123", dice.randrange(3)),
    }
    form = dice.randrange(8)
    if form == 0:
        return None
    labels = {dice.choice("xyz"): dice.choice("123")}
    return {"matchLabels": labels if form < 4 else {}, "matchExpressions": [line] if form > 2 else []}


def some_terms(dice, most):
    """Of required affinity or anti-affinity, most of them about few pods."""
    terms = []
    for _ in range(dice.randrange(most + 1)):
        term = {"topologyKey": dice.choice([HOST, HOST, ZONE, "none has it"]), "labelSelector": some_selector(dice)}
        where = [{}, {"namespaceSelector": {}}, {"namespaces": dice.sample("abc", dice.randrange(3))}]
        terms.append(term | dice.choice(where))
    return {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def some_constraint(dice):
    even = {"topologyKey": dice.choice([HOST, ZONE]), "whenUnsatisfiable": "DoNotSchedule"}
    keys = {"matchLabelKeys": ["z"]} if dice.random() < 0.5 else {}
    return even | keys | {"maxSkew": dice.randrange(1, 3), "labelSelector": some_selector(dice)}


def some_pod(dice, name, kind, *, namespace="", **more):
    """A pod with at least one rule of this kind, or of none."""
    affinity = {kind: some_terms(dice, 2)} if kind.startswith("pod") else {}
    even = [some_constraint(dice)] if kind == "spread" else []
    spec = {"affinity": affinity, "topologySpreadConstraints": even}
    return make(name, namespace or dice.choice("ab"), some_labels(dice), spec, **more)


def make(name, namespace, labels, spec, *, node="", **status):
    meta = {"name": name, "namespace": namespace, "uid": name, "labels": labels}
    return msgspec.convert({"metadata": meta, "spec": spec | {"nodeName": node}, "status": status}, Pod)


def selects(term, of, other):
    if term.label_selector is None or not matches_labels(term.label_selector, other.labels):
        return False
    return term.namespace_selector is not None or other.metadata.namespace in (
        term.namespaces or (of.metadata.namespace,)
    )


def near(term, others):
    """The nodes that are in one domain with one of these pods."""
    key = term.topology_key
    domains = {NODES[other.spec.node_name].labels.get(key) for other in others} - {None}
    return {name for name, node in NODES.items() if node.labels.get(key) in domains}


def uneven(pod, others):
    """The nodes where the pod would be one too many by a spread constraint of its own."""
    for each in pod.spec.topology_spread_constraints:
        alike = [label for label in each.match_label_keys if label in pod.labels]

        def counts(other, each=each, alike=alike):
            is_selected = each.label_selector is not None and matches_labels(each.label_selector, other.labels)
            is_alike = all(other.labels.get(label) == pod.labels[label] for label in alike)
            return is_selected and is_alike and other.metadata.namespace == pod.metadata.namespace

        found = [NODES[other.spec.node_name].labels.get(each.topology_key) for other in others if counts(other)]
        domains = {node.labels[each.topology_key] for node in NODES.values() if each.topology_key in node.labels}
        least = min(found.count(domain) for domain in domains)
        for name, node in NODES.items():
            domain = node.labels.get(each.topology_key)
            if domain is None or found.count(domain) + counts(pod) - least > each.max_skew:
                yield name


def by_a_look_at_each(pods, others):
    """Which nodes these pods must avoid: each rule is compared with each pod on a node."""
    avoided = set()
    for pod in pods:
        for term in pod.spec.anti_affinity_terms:
            avoided |= near(term, [other for other in others if selects(term, pod, other)])
        for other in others:
            for term in other.spec.anti_affinity_terms:
                avoided |= near(term, [other]) if selects(term, other, pod) else set()
        for term in pod.spec.pod_affinity_terms:
            meant = near(term, [other for other in others if selects(term, pod, other)])
            if meant or not selects(term, pod, pod):
                avoided |= NODES.keys() - meant
        avoided |= set(uneven(pod, others))
    return avoided


@pytest.mark.parametrize("kind", ["podAntiAffinity", "podAffinity", "spread", "none"])
@settings(max_examples=200)
@given(st.integers(0, 2**32).map(random.Random))
def test_the_nodes_to_avoid_are_those_that_a_look_at_each_pod_finds(kind, dice):
    neighbours, now, labels = Neighbours(), {}, some_labels(dice)
    for number in range(dice.choice([3, 10, 40])):
        uid, node, way = f"p{number}", dice.choice(["n1", "n2", "n3", "n4"]), dice.choice(WAYS)
        pod = some_pod(dice, uid, "podAntiAffinity" if kind == "none" and dice.random() < 0.2 else "none", node=node)
        if way == "sent":
            neighbours.note_sent(pod)
        elif way == "relabelled":
            before = make(uid, pod.metadata.namespace, labels, {}, node=node)
            neighbours.update(None, before)
            neighbours.update(before, pod)
        else:
            neighbours.update(None, pod)
        if way == "ended":
            neighbours.update(pod, replace(pod, status=replace(pod.status, phase="Succeeded")))
        else:
            now[uid] = (pod, way)
    of_gang = dice.choice("ab")
    waiting = [some_pod(dice, f"waits-{number}", kind, namespace=of_gang) for number in range(dice.randrange(1, 4))]
    but = {f"p{dice.randrange(40)}" for _ in range(dice.randrange(10))}
    for listed in ({}, {node: [] for node in dice.sample(sorted(NODES), 2)}):
        there = [pod for pod, way in now.values() if way == "sent" or pod.spec.node_name not in listed]
        found = avoid_nodes(waiting, neighbours.around(NODES, listed=listed), but=but)
        assert found.keys() == by_a_look_at_each(waiting, [pod for pod in there if pod.uid not in but])
