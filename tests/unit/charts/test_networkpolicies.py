"""Who may talk to whom: a connection is there when the egress of one end and the ingress of the other allow it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_address, ip_network

import pytest
import yaml

from tests.unit.charts.rendering import CHARTS, Manifest, of_kind, render

PARTS = (
    "slurmctld", "slurmrestd", "syncer", "scheduler", "compute", "login", "keys", "check", "uninstall",
    "slurmdbd", "mariadb", "backup", "state-backup", "accounts",
)  # fmt: skip
ANY = 40000  # a port that a kernel chose
SLURMCTLD, SLURMDBD, SLURMRESTD, MARIADB, HOOKS, METRICS = 6817, 6819, 6820, 3306, 8000, 8080
PEOPLE = {"compute", "login"}


def _labels(part: str, release: str = "demo") -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "slurm",
        "app.kubernetes.io/instance": release,
        "app.kubernetes.io/component": part,
    }


def _matches(selector: Mapping[str, object], labels: Mapping[str, str]) -> bool:
    return selector["matchLabels"].items() <= labels.items()


def _of(policies: Sequence[Manifest], labels: Mapping[str, str]) -> list[Mapping[str, object]]:
    return [policy["spec"] for policy in policies if _matches(policy["spec"]["podSelector"], labels)]


def _lets(rules: Sequence[Mapping[str, object]], side: str, peer: Mapping[str, str], port: int) -> bool:
    return any(_names_peer(rule.get(side), peer) and _names_port(rule.get("ports"), port) for rule in rules)


def _names_peer(peers: Sequence[Mapping[str, object]] | None, labels: Mapping[str, str]) -> bool:
    """No list is everybody; a namespaceSelector alone is every pod of those namespaces."""
    if peers is None:
        return True
    selectors = [peer["podSelector"] for peer in peers if "podSelector" in peer]
    return any(_matches(selector, labels) for selector in selectors) or any(
        peer.get("namespaceSelector") == {} and "podSelector" not in peer for peer in peers
    )


def _names_port(ports: Sequence[Mapping[str, object]] | None, port: int) -> bool:
    return ports is None or any(entry["port"] == port and entry["protocol"] == "TCP" for entry in ports)


def _may_connect(policies: Sequence[Manifest], source: Mapping[str, str], to: Mapping[str, str], port: int) -> bool:
    out, into = _of(policies, source), _of(policies, to)
    leaves = not out or any(_lets(spec["egress"], "to", to, port) for spec in out)
    arrives = not into or any(_lets(spec["ingress"], "from", source, port) for spec in into)
    return leaves and arrives


@pytest.fixture(scope="module")
def policies() -> list[Manifest]:
    return list(of_kind(render("slurm"), "NetworkPolicy").values())


@pytest.mark.parametrize(
    ("port", "to", "callers"),
    [
        (SLURMCTLD, "slurmctld", {"slurmctld", "slurmrestd", "slurmdbd", "compute", "login", "check"}),
        (SLURMRESTD, "slurmrestd", {"syncer", "scheduler", "accounts"}),
        (SLURMDBD, "slurmdbd", {"slurmctld", "slurmrestd", "compute", "login"}),
        (MARIADB, "mariadb", {"slurmdbd", "backup"}),
        (ANY, "slurmdbd", set()),
        (ANY, "mariadb", set()),
        (HOOKS, "scheduler", {"compute", "scheduler"}),
        (6818, "compute", {"slurmctld", "compute", "login"}),
        (ANY, "compute", {"slurmctld", "compute", "login"}),
        (ANY, "login", {"slurmctld", "compute", "login"}),
        (ANY, "slurmctld", set()),
        (ANY, "slurmrestd", set()),
        (ANY, "scheduler", set()),
        (HOOKS, "syncer", set()),
    ],
)
def test_a_part_answers_those_who_need_it(policies: list[Manifest], port: int, to: str, callers: set[str]):
    reach = {part for part in PARTS if _may_connect(policies, _labels(part), _labels(to), port)}
    assert reach == callers


@pytest.mark.parametrize("part", PARTS)
def test_every_part_has_a_policy_for_both_directions(policies: list[Manifest], part: str):
    (spec,) = _of(policies, _labels(part))
    assert spec["policyTypes"] == ["Ingress", "Egress"]


@pytest.mark.parametrize(
    ("to", "port"),
    [
        ("slurmctld", SLURMCTLD),
        ("slurmrestd", SLURMRESTD),
        ("scheduler", HOOKS),
        ("slurmdbd", SLURMDBD),
        ("mariadb", MARIADB),
    ],
)
def test_pods_of_others_reach_nothing_of_slurm(policies: list[Manifest], to: str, port: int):
    for stranger in ({"app": "notebook"}, _labels("compute", release="other"), _labels("scheduler", release="other")):
        assert not _may_connect(policies, stranger, _labels(to), port)


def _in(namespace: str) -> list[dict[str, object]]:
    return [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}]


def test_another_slurm_cluster_reaches_slurmdbd_where_the_values_of_both_say_so():
    external = {"slurmdbd": {"external": {"host": "demo-slurmdbd.research", "peers": _in("research")}}}
    keys = {"existingSlurmSecret": "shared", "existingJwtSecret": "shared"}
    guest = {"clusterName": "staging", "keys": keys, "accounting": external, "login": {"sets": {"gpu": {}}}}
    guests = of_kind(render("slurm", guest, release="other"), "NetworkPolicy")
    rule = {"to": _in("research"), "ports": [{"port": SLURMDBD, "protocol": "TCP"}]}
    asking = {name for name, each in guests.items() if rule in each["spec"]["egress"]}
    assert asking == {f"other-{part}" for part in ("slurmctld", "slurmrestd", "compute", "login", "login-set")}
    told = {"from": _in("research"), "ports": [{"port": SLURMCTLD, "protocol": "TCP"}]}
    assert [name for name, each in guests.items() if told in (each["spec"]["ingress"] or ())] == ["other-slurmctld"]

    host = of_kind(render("slurm", {"networkPolicies": {"slurmdbdFrom": _in("staging")}}), "NetworkPolicy")
    spec = host["demo-slurmdbd"]["spec"]
    assert {"from": _in("staging"), "ports": [{"port": SLURMDBD, "protocol": "TCP"}]} in spec["ingress"]
    assert {"to": _in("staging"), "ports": [{"port": SLURMCTLD, "protocol": "TCP"}]} in spec["egress"]


def test_slurm_nodes_outside_kubernetes_reach_and_are_reached_as_slurmd_pods():
    outside = {"ipBlock": {"cidr": "10.9.0.0/24"}}
    policies = of_kind(render("slurm", {"networkPolicies": {"slurmdFrom": [outside]}}), "NetworkPolicy")
    slurmd = {"podSelector": {"matchLabels": _labels("compute")}}
    both = 0
    for each in policies.values():
        for side, rules in (("from", each["spec"]["ingress"]), ("to", each["spec"]["egress"])):
            for rule in rules or ():
                peers = rule.get(side, ())
                both += slurmd in peers
                assert (slurmd in peers) == (outside in peers)
    assert both > 5


@pytest.mark.parametrize("part", ["syncer", "scheduler", "accounts"])
def test_metrics_are_for_everybody(policies: list[Manifest], part: str):
    assert _may_connect(policies, {"app": "prometheus"}, _labels(part), METRICS)


def test_metrics_can_be_for_some():
    some = {"networkPolicies": {"metricsFrom": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]}}
    policies = list(of_kind(render("slurm", some), "NetworkPolicy").values())
    assert _may_connect(policies, {"app": "prometheus"}, _labels("scheduler"), METRICS)
    assert not _may_connect(policies, {"app": "notebook"}, _labels("scheduler"), METRICS)


def test_those_who_speak_to_the_apiserver_reach_it_and_no_one_else_does(policies: list[Manifest]):
    reach = {
        part
        for part in set(PARTS) - PEOPLE
        if any(_lets(spec["egress"], "to", {}, 6443) for spec in _of(policies, _labels(part)))
    }
    assert reach == {"syncer", "scheduler", "accounts", "keys", "uninstall"}


@pytest.mark.parametrize("part", PARTS)
def test_everybody_can_ask_for_names(policies: list[Manifest], part: str):
    ports = [rule["ports"] for spec in _of(policies, _labels(part)) for rule in spec["egress"] if "to" not in rule]
    assert [entry for entries in ports for entry in entries if entry == {"port": 53, "protocol": "UDP"}]


def _reach(spec: Mapping[str, object], address: str) -> bool:
    """True if a rule for addresses allows it. The rule for names, which allows port 53 to all, does not count."""
    to = ip_address(address)
    blocks = [peer["ipBlock"] for rule in spec["egress"] for peer in rule.get("to", ()) if "ipBlock" in peer]
    return any(
        to in ip_network(block["cidr"]) and not any(to in ip_network(each) for each in block.get("except", ()))
        for block in blocks
    )


CREDENTIALS = {
    "metadata of most clouds": "169.254.169.254",
    "AWS ECS": "169.254.170.2",
    "AWS EKS Pod Identity": "169.254.170.23",
    "Azure": "168.63.129.16",
    "Alibaba": "100.100.100.200",
    "AWS, IPv6": "fd00:ec2::254",
    "AWS EKS Pod Identity, IPv6": "fd00:ec2::23",
    "Google, IPv6": "fd20:ce::254",
    "OpenStack, IPv6": "fe80::a9fe:a9fe",
}


@pytest.mark.parametrize("part", sorted(PEOPLE))
@pytest.mark.parametrize("address", CREDENTIALS.values(), ids=CREDENTIALS)
def test_jobs_do_not_reach_the_credentials_of_their_node(policies: list[Manifest], part: str, address: str):
    assert not any(_reach(spec, address) for spec in _of(policies, _labels(part)))


def test_nor_do_login_pods_of_a_set_or_of_ones_own():
    ann = {"uid": 2001, "sshKeys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5"]}
    login = {"perUser": {"enabled": True, "everybody": True}, "sets": {"gpu": {}}}
    made = list(of_kind(render("slurm", {"login": login, "users": {"people": {"ann": ann}}}), "NetworkPolicy").values())
    for part in ("own-login", "login-set"):
        (spec,) = _of(made, _labels(part))
        assert [each for each in CREDENTIALS.values() if _reach(spec, each)] == []
        assert _reach(spec, "192.0.2.1")


def test_an_address_that_a_site_excepts_is_closed_to_jobs_as_those_of_kubelets():
    """As the comment at networkPolicies.jobEgress says."""
    (rule,) = yaml.safe_load((CHARTS / "slurm/values.yaml").read_text())["networkPolicies"]["jobEgress"]
    (everywhere,) = (peer["ipBlock"] for peer in rule["to"] if peer.get("ipBlock", {}).get("cidr") == "0.0.0.0/0")
    everywhere["except"].append("10.1.0.0/16")
    made = list(of_kind(render("slurm", {"networkPolicies": {"jobEgress": [rule]}}), "NetworkPolicy").values())
    for part in sorted(PEOPLE):
        (spec,) = _of(made, _labels(part))
        assert [_reach(spec, each) for each in ("10.1.2.3", "169.254.169.254", "10.2.0.1")] == [False, False, True]


@pytest.mark.parametrize("part", sorted(PEOPLE))
@pytest.mark.parametrize("address", ["192.0.2.1", "10.0.0.1", "100.100.100.201", "2001:db8::1", "fd00:1::1"])
def test_jobs_reach_the_rest_of_the_world(policies: list[Manifest], part: str, address: str):
    assert any(_reach(spec, address) for spec in _of(policies, _labels(part)))


def test_the_values_can_close_jobs_in_and_name_the_apiserver():
    values = {"networkPolicies": {"jobEgress": [], "apiserver": {"cidrs": ["10.0.0.1/32"], "ports": [6443]}}}
    closed = list(of_kind(render("slurm", values), "NetworkPolicy").values())
    assert not _may_connect(closed, _labels("compute"), {"app": "web"}, 443)
    assert _may_connect(closed, _labels("compute"), _labels("slurmctld"), SLURMCTLD)
    (syncer,) = _of(closed, _labels("syncer"))
    (rule,) = [rule for rule in syncer["egress"] if rule["ports"] == [{"port": 6443, "protocol": "TCP"}]]
    assert rule["to"] == [{"ipBlock": {"cidr": "10.0.0.1/32"}}]


@pytest.mark.parametrize(
    ("chart", "values"),
    [("slurm", {"networkPolicies": {"enabled": False}}), ("sunkpy", {"networkPolicy": {"enabled": False}})],
)
def test_they_can_be_turned_off(chart: str, values: dict[str, object]):
    assert not of_kind(render(chart, values), "NetworkPolicy")


def test_the_operator_answers_metrics_and_reaches_the_apiserver():
    (policy,) = of_kind(render("sunkpy"), "NetworkPolicy").values()
    spec = policy["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["ingress"] == [{"ports": [{"port": METRICS, "protocol": "TCP"}]}]
    assert _lets(spec["egress"], "to", {}, 6443)
    assert not _lets(spec["egress"], "to", {}, SLURMRESTD)
    labels = of_kind(render("sunkpy"), "Deployment")["demo-operator"]["spec"]["template"]["metadata"]["labels"]
    assert _matches(spec["podSelector"], labels)


def test_a_login_pod_of_ones_own_is_reached_by_way_of_a_shared_one():
    ann = {"uid": 2001, "sshKeys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5"]}
    own = {"login": {"perUser": {"enabled": True, "everybody": True}}, "users": {"people": {"ann": ann}}}
    policies = list(of_kind(render("slurm", own), "NetworkPolicy").values())
    parts = (*PARTS, "own-login", "logins")

    def callers(to: str, port: int) -> set[str]:
        return {part for part in parts if _may_connect(policies, _labels(part), _labels(to), port)}

    assert callers("own-login", 2222) == {"login", "compute", "slurmctld"}
    assert callers("own-login", ANY) == {"compute", "slurmctld"}, "srun is called back"
    assert not _may_connect(policies, {"app": "web"}, _labels("own-login"), 2222)
    assert callers("logins", HOOKS) == {"login"}
    assert callers("slurmctld", SLURMCTLD) >= {"own-login"}
    assert callers("compute", ANY) >= {"own-login"}
    assert "own-login" not in callers("slurmrestd", SLURMRESTD) | callers("mariadb", MARIADB)
