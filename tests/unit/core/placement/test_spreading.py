"""Pods that must be spread evenly over the values of a node label."""

import pytest
from msgspec.structs import replace

from sunkpy.core.model.objects import LabelSelector, SpreadConstraint, Taint, Toleration
from sunkpy.core.placement.spreading import crowded
from tests.unit.core.gang.pods import make_node, make_pod

ZONE = "topology.kubernetes.io/zone"
NODES = {name: make_node(name, labels={ZONE: zone}) for name, zone in (("a1", "a"), ("a2", "a"), ("b1", "b"))}
WEB = {"app": "web"}


def over(key=ZONE, **fields):
    return SpreadConstraint(
        **{
            "max_skew": 1,
            "topology_key": key,
            "when_unsatisfiable": "DoNotSchedule",
            "label_selector": LabelSelector(match_labels=WEB),
        }
        | fields
    )


def labelled(pod, **labels):
    return replace(pod, metadata=replace(pod.metadata, labels=WEB | labels))


def web(node="", *, uid="", labels=(), **spec):
    return labelled(make_pod(uid or f"on-{node}", uid=uid or f"on-{node}", node=node, **spec), **dict(labels))


def avoided(*others, nodes=NODES, unusable=(), labels=(), spec=None, **constraint):
    asks = web(uid="asks", labels=labels, topology_spread_constraints=(over(**constraint),), **(spec or {}))
    return sorted(crowded(asks, nodes, lambda _: others, is_usable=lambda name: name not in unusable))


@pytest.mark.parametrize(
    ("on", "constraint", "expected"),
    [
        ([], {}, []),
        (["a1"], {}, ["a1", "a2"]),
        (["a1", "b1"], {}, []),
        (["a1"], {"max_skew": 2}, []),
        (["a1", "b1"], {"min_domains": 3}, ["a1", "a2", "b1"]),
        (["a1"], {"when_unsatisfiable": "ScheduleAnyway"}, []),
        (["a1"], {"label_selector": LabelSelector(match_labels={"app": "db"})}, []),
        (["a1"], {"label_selector": None}, []),
        ([], {"key": "rack"}, ["a1", "a2", "b1"]),
    ],
)
def test_no_domain_has_more_pods_than_the_emptiest_and_the_skew(on, constraint, expected):
    assert avoided(*map(web, on), **constraint) == expected


def test_what_is_said_of_the_nodes():
    asks = web(uid="asks", topology_spread_constraints=(over(),))
    nodes = NODES | {"bare": make_node("bare")}
    assert crowded(asks, nodes, lambda _: [web("a1")], is_usable=lambda _: True) == {
        "a1": f"1 pods like it are in {ZONE}=a and 0 elsewhere (maxSkew 1)",
        "a2": f"1 pods like it are in {ZONE}=a and 0 elsewhere (maxSkew 1)",
        "bare": f"it has no label {ZONE}, over which the pod must be spread",
    }


def test_pods_that_end_and_those_of_other_namespaces_do_not_count():
    elsewhere = web("a1")
    elsewhere = replace(elsewhere, metadata=replace(elsewhere.metadata, namespace="other"))
    assert avoided(web("a1", deleting=True), web("a1", phase="Succeeded"), elsewhere) == []


def test_only_pods_with_the_same_value_of_the_labels_in_match_label_keys_count():
    def of(revision):
        return web("a1", labels={"revision": revision})

    own = {"match_label_keys": ("revision", "none"), "labels": {"revision": "2"}}
    assert (avoided(of("1"), **own), avoided(of("2"), **own)) == ([], ["a1", "a2"])


def test_domains_without_a_node_that_may_be_used_do_not_hold_up_the_others():
    assert avoided(web("a1"), unusable=("b1",)) == []
    assert avoided(web("a1"), spec={"node_selector": {ZONE: "a"}}) == []
    assert avoided(web("a1"), spec={"node_selector": {ZONE: "a"}}, node_affinity_policy="Ignore") == ["a1", "a2"]
    tainted = NODES | {"b1": make_node("b1", labels={ZONE: "b"}, taints=[Taint(key="x", effect="NoSchedule")])}
    assert avoided(web("a1"), nodes=tainted) == ["a1", "a2"]
    assert avoided(web("a1"), nodes=tainted, node_taints_policy="Honor") == []
    bears = {"tolerations": (Toleration(operator="Exists"),)}
    assert avoided(web("a1"), nodes=tainted, node_taints_policy="Honor", spec=bears) == ["a1", "a2"]


def test_only_demands_count():
    wish = over(when_unsatisfiable="ScheduleAnyway")
    assert make_pod(topology_spread_constraints=(wish, over())).spec.hard_spread_constraints == (over(),)
