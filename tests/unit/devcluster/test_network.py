import ipaddress
import json
from pathlib import Path

import pytest

from devcluster.errors import DevclusterError
from devcluster.layout import SLOTS, Layout
from devcluster.network import Taken, firewall_rules, free_slot, parse_links, parse_owner, parse_routes


def taken(*networks: str, links: tuple[str, ...] = (), slots: tuple[int, ...] = ()) -> Taken:
    return Taken(
        networks=frozenset(map(ipaddress.IPv4Network, networks)), links=frozenset(links), slots=frozenset(slots)
    )


ROUTES = json.dumps(
    [
        {"dst": "default", "gateway": "192.0.2.1", "dev": "eth0"},
        {"dst": "192.0.2.0/24", "dev": "eth0", "scope": "link"},
        {"type": "local", "dst": "192.0.2.2", "dev": "eth0", "table": "local"},
        {"type": "broadcast", "dst": "192.0.2.255", "dev": "eth0", "table": "local"},
    ]
)


def test_routes_are_read_without_the_default_route():
    assert parse_routes(ROUTES) == {
        ipaddress.IPv4Network("192.0.2.0/24"),
        ipaddress.IPv4Network("192.0.2.2/32"),
    }
    assert parse_routes("") == frozenset()


@pytest.mark.parametrize(
    ("links", "owner"),
    [
        ('[{"ifname": "skd0", "ifalias": "/a/b"}]', "/a/b"),
        ('[{"ifname": "skd0"}]', None),
        ('[{"ifname": "skd1", "ifalias": "/a/b"}]', None),
    ],
)
def test_a_bridge_says_whose_it_is(links: str, owner: str | None):
    assert parse_owner(links, "skd0") == owner


def test_links_are_read():
    assert parse_links('[{"ifname": "lo"}, {"ifname": "skd0"}]') == {"lo", "skd0"}


@pytest.mark.parametrize(
    ("used", "slot"),
    [
        (taken(), 0),
        (taken("192.0.2.0/24"), 0),
        (taken("10.66.0.0/16"), 1),
        (taken("10.64.3.7/32"), 1),
        (taken("10.0.0.0/8"), 0),
        (taken("10.64.0.0/10"), None),
        (taken(links=("skd0",)), 1),
        (taken(slots=(0, 1)), 2),
        (taken(slots=(1,)), 0),
        (taken("10.64.0.0/14", links=("skd1",), slots=(2,)), 3),
        (taken(slots=tuple(range(SLOTS))), None),
    ],
)
def test_the_first_slot_nobody_uses_is_taken(used: Taken, slot: int | None):
    if slot is None:
        with pytest.raises(DevclusterError, match=r"none of the 16 address ranges.*take a cluster down"):
            free_slot(used)
    else:
        assert free_slot(used) == slot


def test_every_firewall_rule_names_its_cluster_so_that_no_other_is_ever_removed():
    layout = Layout(root=Path("/r"), name="x", slot=3)
    assert all(layout.cgroup in rule for rule in firewall_rules(layout))
