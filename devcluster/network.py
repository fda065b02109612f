"""Makes the bridge, veth pairs, network namespaces, routes and firewall rules of a cluster. All functions are
idempotent.

A node's namespace is bound to a file in the node's folder, not in /run/netns, so it goes with the folder's mounts.
"""

import ipaddress
import json
from collections.abc import Iterable
from pathlib import Path

import msgspec

from devcluster import state
from devcluster.errors import DevclusterError
from devcluster.layout import SLOTS, Layout, NodeLayout
from devcluster.shell import run, succeeds


class Taken(msgspec.Struct, frozen=True):
    """The networks, links and slots that other clusters and the machine itself use."""

    networks: frozenset[ipaddress.IPv4Network]
    links: frozenset[str]
    slots: frozenset[int]


def parse_routes(routes_json: str) -> frozenset[ipaddress.IPv4Network]:
    """Return the destinations in ``ip -j -4 route show table all``, without the default route, which uses no
    addresses.
    """
    return frozenset(
        ipaddress.IPv4Network(route["dst"], strict=False)
        for route in json.loads(routes_json or "[]")
        if route["dst"] != "default" and route.get("type") not in ("broadcast", "multicast")
    )


def parse_links(links_json: str) -> frozenset[str]:
    """Return the names in ``ip -j link``."""
    return frozenset(link["ifname"] for link in json.loads(links_json or "[]"))


def read_taken(slots: Iterable[int]) -> Taken:
    """Read the routes and links of this machine. ``slots``: the slots of known clusters."""
    return Taken(
        networks=parse_routes(run(["ip", "-j", "-4", "route", "show", "table", "all"])),
        links=parse_links(run(["ip", "-j", "link"])),
        slots=frozenset(slots),
    )


def free_slot(taken: Taken) -> int:
    """Return the first slot whose addresses and bridge are free. A route for all of 10.0.0.0/8 does not count, because
    narrower ones take precedence.
    """
    for slot in range(SLOTS):
        layout = Layout(root=Path("/"), name="x", slot=slot)
        clash = any(layout.network.overlaps(network) for network in taken.networks if network.prefixlen > 8)
        if slot not in taken.slots and layout.bridge not in taken.links and not clash:
            return slot
    raise DevclusterError(
        f"none of the {SLOTS} address ranges in 10.64.0.0/10 is free (`ip route` shows who uses them); "
        "take a cluster down: `.venv/bin/python -m devcluster down --name ...`"
    )


def parse_owner(links_json: str, bridge: str) -> str | None:
    """Return the folder of the cluster that has ``bridge``, from its alias in ``ip -j link``; None if there is none."""
    aliases = [link.get("ifalias") for link in json.loads(links_json or "[]") if link["ifname"] == bridge]
    return aliases[0] if aliases else None


def foreign_owner(layout: Layout) -> str | None:
    """Return the folder of another cluster that has this cluster's slot, as may happen after a reboot; None if none."""
    owner = parse_owner(run(["ip", "-j", "link"]), layout.bridge)
    return None if owner in (None, str(layout.home)) else owner


def other_bridges(layout: Layout) -> frozenset[str]:
    """Return the bridges of all other clusters of this machine."""
    bridges = {Layout(root=layout.root, name=layout.name, slot=slot).bridge for slot in range(SLOTS)}
    return parse_links(run(["ip", "-j", "link"])) & bridges - {layout.bridge}


def up_bridge(layout: Layout) -> None:
    """Bring up the bridge with this machine's address, and forward traffic of the nodes to the outside."""
    owner = foreign_owner(layout)
    if owner:
        raise DevclusterError(
            f"the addresses of cluster {layout.name} ({layout.network}) are in use by the one in {owner}: "
            f"run `down` for {layout.name}, then `up`, which takes other addresses"
        )
    _own_bridge(layout)
    run(["ip", "addr", "replace", f"{layout.host_ip}/16", "dev", layout.bridge])
    run(["ip", "link", "set", layout.bridge, "up"])
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    for rule in firewall_rules(layout):
        table, chain, *match = rule
        if not succeeds(["iptables", "-w", "-t", table, "-C", chain, *match]):
            run(["iptables", "-w", "-t", table, "-I", chain, *match])


def hold_slot(layout: Layout) -> bool:
    """Reserve the cluster's slot until `down_bridge`; False if another cluster has it by now."""
    with state.locked(state.machine_lock()):
        if foreign_owner(layout):
            return False
        _own_bridge(layout)
    return True


def _own_bridge(layout: Layout) -> None:
    if not succeeds(["ip", "link", "show", layout.bridge]):
        run(["ip", "link", "add", layout.bridge, "type", "bridge"])
    run(["ip", "link", "set", layout.bridge, "alias", str(layout.home)])


def firewall_rules(layout: Layout) -> list[list[str]]:
    """Return the iptables rules ``[table, chain, match...]`` that let nodes reach the outside and each other."""
    mark = ["-m", "comment", "--comment", layout.cgroup]
    outside = ["-s", str(layout.network), "!", "-d", str(layout.network)]
    return [
        ["nat", "POSTROUTING", *outside, *mark, "-j", "MASQUERADE"],
        ["filter", "FORWARD", "-i", layout.bridge, *mark, "-j", "ACCEPT"],
        ["filter", "FORWARD", "-o", layout.bridge, *mark, "-j", "ACCEPT"],
    ]


def down_bridge(layout: Layout) -> None:
    """Remove firewall rules, veth ends and last the bridge, with its routes; missing ones cause no error."""
    for table, chain, *match in firewall_rules(layout):
        while succeeds(["iptables", "-w", "-t", table, "-D", chain, *match]):
            pass
    for link in sorted(parse_links(run(["ip", "-j", "link"])), reverse=True):
        if link == layout.bridge or link.startswith(f"{layout.bridge}n"):
            succeeds(["ip", "link", "del", link])


def netns_exists(path: Path) -> bool:
    """True if a network namespace is bound to ``path``."""
    return any(
        line.split(" - ")[0].split()[4] == str(path) and line.split(" - ")[1].startswith("nsfs")
        for line in Path("/proc/self/mountinfo").read_text().splitlines()
    )


def up_node(layout: Layout, node: NodeLayout) -> None:
    """Make the network namespace, veth pair, addresses and routes of ``node``."""
    if not netns_exists(node.netns):
        node.home.mkdir(parents=True, exist_ok=True)
        node.netns.touch()
        run(["unshare", f"--net={node.netns}", "true"])
    inside = node.netns
    if not succeeds(["ip", "link", "show", "eth0"], netns=inside) or not succeeds(["ip", "link", "show", node.veth]):
        succeeds(["ip", "link", "del", node.veth])
        run(["ip", "link", "add", node.veth, "type", "veth", "peer", "name", "eth0", "netns", str(inside)])
    run(["ip", "link", "set", node.veth, "master", layout.bridge, "up"])
    for command in (
        f"ip addr replace {node.ip}/16 dev eth0",
        "ip link set eth0 up",
        "ip link set lo up",
        f"ip route replace default via {layout.host_ip}",
        "sysctl -qw net.ipv4.ip_forward=1",
    ):
        run(command.split(), netns=inside)
    route_pods(layout, node)
    if node.number == 1:
        # This machine reaches ClusterIPs too: kube-proxy of the first node translates them.
        run(["ip", "route", "replace", str(layout.service_network), "via", str(node.ip), "dev", layout.bridge])


def route_pods(layout: Layout, node: NodeLayout) -> None:
    """Make the pods of ``node`` reachable from this machine, and through it from all nodes."""
    run(["ip", "route", "replace", str(node.pod_network), "via", str(node.ip), "dev", layout.bridge])


def cut(node: NodeLayout) -> None:
    """Cut the node off the network: its veth end goes down."""
    run(["ip", "link", "set", node.veth, "down"])


def mend(node: NodeLayout) -> None:
    """Connect the node again: its veth end comes up."""
    run(["ip", "link", "set", node.veth, "up"])
