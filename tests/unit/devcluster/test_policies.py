"""What the rules for nftables let through is what the API of NetworkPolicies says."""

from __future__ import annotations

import ipaddress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devcluster.policies.objects import Cluster, Direction, Pod
from devcluster.policies.rules import Allowed, allowed, ruleset

CALLED = ("a", "web", "10.1.0.1")
NAMESPACES = {"a": {"team": "x"}, "b": {"team": "y"}, "c": {}}
PODS = (CALLED, ("a", "job", "10.1.0.2"), ("b", "web", "10.1.0.3"), ("b", "job", "10.1.0.4"), ("c", "web", "10.1.0.5"))
PORTS = ((80, "TCP"), (81, "TCP"), (443, "TCP"), (80, "UDP"))
OUTSIDE = ("192.0.2.1", "192.0.2.200", "203.0.113.1")


def pod(namespace: str, app: str, address: str, **spec: Any) -> dict[str, Any]:
    named = [{"containerPort": 80, "name": "http"}, {"containerPort": 443, "name": "tls", "protocol": "TCP"}]
    return {
        "metadata": {"name": f"{app}-{address}", "namespace": namespace, "labels": {"app": app}},
        "spec": {"nodeName": "node-1", "containers": [{"ports": named if app == "web" else []}], **spec},
        "status": {"phase": "Running", "podIP": address},
    }


def cluster(*specs: dict[str, Any], namespace: str = "a", pods: list[dict[str, Any]] | None = None) -> Cluster:
    policies = [{"metadata": {"name": f"p{i}", "namespace": namespace}, "spec": each} for i, each in enumerate(specs)]
    spaces = [{"metadata": {"name": name, "labels": labels}} for name, labels in NAMESPACES.items()]
    everything = {"pods": pods or [pod(*each) for each in PODS], "namespaces": spaces, "policies": policies}
    return msgspec.convert(everything, Cluster)


def passes(found: Cluster, address: str, direction: Direction, peer: str, port: int, protocol: str) -> bool:
    """What the rules of a pod let through."""
    (mine,) = [each for each in found.pods if each.status.pod_ip == address]
    ways = allowed(found, mine, direction)
    return ways is None or any(_fits(way, peer, port, protocol) for way in ways)


def _fits(way: Allowed, peer: str, port: int, protocol: str) -> bool:
    def within(blocks: tuple[str, ...]) -> bool:
        return any(ipaddress.ip_address(peer) in ipaddress.ip_network(each, strict=False) for each in blocks)

    return (
        (not way.addresses or within(way.addresses))
        and not within(way.excluded)
        and way.protocol in ("", protocol)
        and (way.ports is None or way.ports[0] <= port <= way.ports[1])
    )


WEB = {"matchLabels": {"app": "web"}}
JOB = {"matchLabels": {"app": "job"}}
TEAM_Y = {"matchLabels": {"team": "y"}}
NOT_WEB = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}
HAS_TEAM = {"matchExpressions": [{"key": "team", "operator": "Exists"}]}
NO_TEAM = {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}
ALL = {"a/web", "a/job", "b/web", "b/job", "c/web"}


@pytest.mark.parametrize(
    ("rules", "callers"),
    [
        ([], set()),
        ([{}], ALL),
        ([{"from": []}], ALL),
        ([{"from": [{"podSelector": {}}]}], {"a/web", "a/job"}),
        ([{"from": [{"podSelector": JOB}]}], {"a/job"}),
        ([{"from": [{"namespaceSelector": {}}]}], ALL),
        ([{"from": [{"namespaceSelector": {}, "podSelector": JOB}]}], {"a/job", "b/job"}),
        ([{"from": [{"namespaceSelector": TEAM_Y}]}], {"b/web", "b/job"}),
        ([{"from": [{"namespaceSelector": TEAM_Y}, {"podSelector": JOB}]}], {"a/job", "b/web", "b/job"}),
        ([{"from": [{"podSelector": NOT_WEB}]}], {"a/job"}),
        ([{"from": [{"namespaceSelector": HAS_TEAM}]}], ALL - {"c/web"}),
        ([{"from": [{"namespaceSelector": NO_TEAM}]}], {"c/web"}),
        ([{"from": [{"ipBlock": {"cidr": "10.1.0.0/29", "except": ["10.1.0.4/31"]}}]}], {"a/web", "a/job", "b/web"}),
        ([{"from": [{"podSelector": JOB}], "ports": [{"port": 443}]}, {"from": [{"podSelector": WEB}]}], {"a/web"}),
    ],
)  # fmt: skip
def test_who_may_call(rules: list[dict[str, Any]], callers: set[str]):
    found = cluster({"podSelector": WEB, "ingress": rules})
    reach = {f"{space}/{app}" for space, app, ip in PODS if passes(found, CALLED[2], "ingress", ip, 80, "TCP")}
    assert reach == callers
    assert passes(found, "10.1.0.3", "ingress", "10.1.0.5", 80, "TCP"), "a policy holds in its namespace"
    assert passes(found, CALLED[2], "egress", "10.1.0.3", 80, "TCP"), "it says nothing about the other direction"


@pytest.mark.parametrize(
    ("ports", "open_ones"),
    [
        ([], set(PORTS)),
        ([{"port": 80}], {(80, "TCP")}),
        ([{"port": 80, "protocol": "UDP"}], {(80, "UDP")}),
        ([{"protocol": "TCP"}], {(80, "TCP"), (81, "TCP"), (443, "TCP")}),
        ([{"port": 80, "endPort": 100}], {(80, "TCP"), (81, "TCP")}),
        ([{"port": "tls"}], {(443, "TCP")}),
        ([{"port": "nothing"}], set()),
        ([{"port": "http"}, {"port": 81}], {(80, "TCP"), (81, "TCP")}),
    ],
)
def test_over_what(ports: list[dict[str, Any]], open_ones: set[tuple[int, str]]):
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        rule = {peers: [{"namespaceSelector": {}}], "ports": ports}
        found = cluster({"policyTypes": [direction.capitalize()], direction: [rule]})
        reach = {each for each in PORTS if passes(found, CALLED[2], direction, "10.1.0.3", *each)}
        assert reach == open_ones, direction


def test_types_that_are_not_named_are_those_that_have_rules():
    assert not passes(cluster({"egress": []}), CALLED[2], "ingress", "10.1.0.3", 80, "TCP")
    assert passes(cluster({"egress": []}), CALLED[2], "egress", "10.1.0.3", 80, "TCP")
    assert not passes(cluster({"egress": [{"to": [{"podSelector": JOB}]}]}), CALLED[2], "egress", "10.1.0.3", 80, "TCP")
    assert passes(cluster({"policyTypes": ["Egress"]}), CALLED[2], "ingress", "10.1.0.3", 80, "TCP")


def test_pods_without_an_address_of_their_own_are_nobodys_peer_and_under_no_rule():
    pods = [pod(*CALLED), pod("a", "job", "10.0.0.1", hostNetwork=True), pod("a", "job", "10.1.0.9")]
    pods[2]["status"]["phase"] = "Succeeded"
    found = cluster({"ingress": [{"from": [{"podSelector": JOB}]}]}, pods=pods)
    assert not passes(found, CALLED[2], "ingress", "10.0.0.1", 80, "TCP")
    assert not passes(found, CALLED[2], "ingress", "10.1.0.9", 80, "TCP")
    assert "10.0.0.1" not in ruleset(found, "node-1")


selectors = st.sampled_from([{}, WEB, JOB, {"matchExpressions": [{"key": "app", "operator": "In", "values": ["job"]}]}])
spaces = st.sampled_from([{}, TEAM_Y, HAS_TEAM])
blocks = st.sampled_from(
    [{"cidr": "192.0.2.0/24", "except": ["192.0.2.128/25"]}, {"cidr": "0.0.0.0/0"}, {"cidr": "10.1.0.4/30"}]
)
peers = st.one_of(
    st.fixed_dictionaries({"podSelector": selectors}),
    st.fixed_dictionaries({"namespaceSelector": spaces}),
    st.fixed_dictionaries({"namespaceSelector": spaces, "podSelector": selectors}),
    st.fixed_dictionaries({"ipBlock": blocks}),
)
ports = st.sampled_from([{"port": 80}, {"port": "tls"}, {"port": 80, "endPort": 200}, {"protocol": "UDP"}])
rules = st.fixed_dictionaries({}, optional={"from": st.lists(peers, max_size=2), "ports": st.lists(ports, max_size=2)})
specs = st.fixed_dictionaries({"podSelector": selectors, "ingress": st.lists(rules, max_size=2)})


def _oracle(policies: list[dict[str, Any]], peer: str, port: int, protocol: str) -> bool:
    """The text of the API, word by word, for the pod CALLED."""
    selecting = [each for each in policies if _selects(each["podSelector"], {"app": "web"})]
    return not selecting or any(
        _rule_lets(rule, peer, port, protocol) for each in selecting for rule in each["ingress"]
    )


def _selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    for key, value in selector.get("matchLabels", {}).items():
        if labels.get(key) != value:
            return False
    for each in selector.get("matchExpressions", []):
        if each["operator"] == "Exists" and each["key"] not in labels:
            return False
        if each["operator"] == "In" and labels.get(each["key"]) not in each["values"]:
            return False
    return True


def _rule_lets(rule: dict[str, Any], peer: str, port: int, protocol: str) -> bool:
    wanted = rule.get("from") or []
    over = rule.get("ports") or []
    return (not wanted or any(_peer_is(each, peer) for each in wanted)) and (
        not over or any(_port_is(each, port, protocol) for each in over)
    )


def _peer_is(wanted: dict[str, Any], peer: str) -> bool:
    address = ipaddress.ip_address(peer)
    if "ipBlock" in wanted:
        out = any(address in ipaddress.ip_network(each) for each in wanted["ipBlock"].get("except", []))
        return address in ipaddress.ip_network(wanted["ipBlock"]["cidr"]) and not out
    found = [(space, app) for space, app, ip in PODS if ip == peer]
    if not found:
        return False
    space, app = found[0]
    there = _selects(wanted["namespaceSelector"], NAMESPACES[space]) if "namespaceSelector" in wanted else space == "a"
    return there and _selects(wanted.get("podSelector", {}), {"app": app})


def _port_is(wanted: dict[str, Any], port: int, protocol: str) -> bool:
    if wanted.get("protocol", "TCP") != protocol:
        return False
    number = {"tls": 443}.get(wanted.get("port"), wanted.get("port"))
    return number is None or number <= port <= wanted.get("endPort", number)


@given(st.lists(specs, max_size=3))
def test_rules_agree_with_the_words_of_the_api(policies: list[dict[str, Any]]):
    found = cluster(*policies)
    for peer in (*(ip for _, _, ip in PODS), *OUTSIDE):
        for port, protocol in PORTS:
            expected = _oracle(policies, peer, port, protocol)
            assert passes(found, CALLED[2], "ingress", peer, port, protocol) == expected, (peer, port, protocol)


def test_a_node_has_the_rules_of_its_own_pods():
    away = pod("a", "job", "10.1.9.9", nodeName="node-2")
    found = cluster({"ingress": [], "policyTypes": ["Ingress", "Egress"]}, pods=[pod(*CALLED), away])
    assert ruleset(found, "node-1") == (
        "table inet devcluster_policies\n"
        "delete table inet devcluster_policies\n"
        "table inet devcluster_policies {\n"
        "  chain egress_10_1_0_1 {\n    # a/web-10.1.0.1\n    drop\n  }\n"
        "  chain ingress_10_1_0_1 {\n    # a/web-10.1.0.1\n    drop\n  }\n"
        "  chain forward {\n    type filter hook forward priority 10; policy accept;\n"
        "    ct state established,related accept\n"
        "    ip saddr 10.1.0.1 jump egress_10_1_0_1\n    ip daddr 10.1.0.1 jump ingress_10_1_0_1\n  }\n"
        "  chain input {\n    type filter hook input priority 10; policy accept;\n"
        "    ct state established,related accept\n    ip saddr 10.1.0.1 jump egress_10_1_0_1\n  }\n}\n"
    )


def test_a_way_in_words_of_nftables():
    rule = {
        "from": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["169.254.169.254/32"]}}],
        "ports": [{"port": 80, "endPort": 90}, {"protocol": "UDP"}],
    }
    text = ruleset(cluster({"ingress": [rule]}, pods=[pod(*CALLED)]), "node-1")
    who = "ip saddr { 0.0.0.0/0 } ip saddr != { 169.254.169.254/32 }"
    assert f"    {who} tcp dport 80-90 return\n    {who} meta l4proto udp return\n    drop" in text


def test_what_the_apiserver_says_of_a_pod_is_read():
    assert msgspec.convert(pod(*CALLED), Pod).has_address
