"""Bridge, veth pairs, network namespaces, routes and the one masquerading rule of a cluster. All idempotent.

A node's namespace is bound to a file in the node's folder, not to /run/netns: so it goes with the folder's mounts.
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
    """What other clusters and the machine itself use."""

    networks: frozenset[ipaddress.IPv4Network]
    links: frozenset[str]
    slots: frozenset[int]


def parse_routes(routes_json: str) -> frozenset[ipaddress.IPv4Network]:
    """Destinations of ``ip -j -4 route show table all``; the default route covers everything and takes nothing."""
    return frozenset(
        ipaddress.IPv4Network(route["dst"], strict=False)
        for route in json.loads(routes_json or "[]")
        if route["dst"] != "default" and route.get("type") not in ("broadcast", "multicast")
    )


def parse_links(links_json: str) -> frozenset[str]:
    """Names of ``ip -j link``."""
    return frozenset(link["ifname"] for link in json.loads(links_json or "[]"))


def read_taken(slots: Iterable[int]) -> Taken:
    """Read routes and links of this machine; ``slots`` are those of known clusters."""
    return Taken(
        networks=parse_routes(run(["ip", "-j", "-4", "route", "show", "table", "all"])),
        links=parse_links(run(["ip", "-j", "link"])),
        slots=frozenset(slots),
    )


def free_slot(taken: Taken) -> int:
    """The first slot whose addresses and bridge nobody uses; a route for all of 10.0.0.0/8 yields to narrower ones."""
    for slot in range(SLOTS):
        layout = Layout(root=Path("/"), name="x", slot=slot)
        clash = any(layout.network.overlaps(network) for network in taken.networks if network.prefixlen > 8)
        if slot not in taken.slots and layout.bridge not in taken.links and not clash:
            return slot
    raise DevclusterError(
        f"none of the {SLOTS} address ranges in 10.64.0.0/10 is free (`ip route` shows who uses them); "
        "take a cluster down: `python -m devcluster down --name ...`"
    )


def parse_owner(links_json: str, bridge: str) -> str | None:
    """Folder of the cluster that ``bridge`` belongs to, from its alias in ``ip -j link``; None when nobody has it."""
    aliases = [link.get("ifalias") for link in json.loads(links_json or "[]") if link["ifname"] == bridge]
    return aliases[0] if aliases else None


def foreign_owner(layout: Layout) -> str | None:
    """The cluster of another folder that took our slot, as can happen after a reboot; None when there is none."""
    owner = parse_owner(run(["ip", "-j", "link"]), layout.bridge)
    return None if owner in (None, str(layout.home)) else owner


def other_bridges(layout: Layout) -> frozenset[str]:
    """The bridges of all other clusters of this machine."""
    bridges = {Layout(root=layout.root, name=layout.name, slot=slot).bridge for slot in range(SLOTS)}
    return parse_links(run(["ip", "-j", "link"])) & bridges - {layout.bridge}


def up_bridge(layout: Layout) -> None:
    """The bridge, with this machine's address on it, forwarding to the world."""
    owner = foreign_owner(layout)
    if owner:
        raise DevclusterError(
            f"the addresses of cluster {layout.name} ({layout.network}) are in use by the one in {owner}: "
            f"run `down` for {layout.name}, then `up`, and it gets others"
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
    """Keep the slot of ``layout`` from everybody else until `down_bridge`; False: another cluster has it by now."""
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
    """``[table, chain, match...]``: let the nodes out and, where forwarding is denied by default, through."""
    mark = ["-m", "comment", "--comment", layout.cgroup]
    outside = ["-s", str(layout.network), "!", "-d", str(layout.network)]
    return [
        ["nat", "POSTROUTING", *outside, *mark, "-j", "MASQUERADE"],
        ["filter", "FORWARD", "-i", layout.bridge, *mark, "-j", "ACCEPT"],
        ["filter", "FORWARD", "-o", layout.bridge, *mark, "-j", "ACCEPT"],
    ]


def down_bridge(layout: Layout) -> None:
    """Remove rules, veth ends and last the bridge (its routes go with it); whatever is missing is fine."""
    for table, chain, *match in firewall_rules(layout):
        while succeeds(["iptables", "-w", "-t", table, "-D", chain, *match]):
            pass
    for link in sorted(parse_links(run(["ip", "-j", "link"])), reverse=True):
        if link == layout.bridge or link.startswith(f"{layout.bridge}n"):
            succeeds(["ip", "link", "del", link])


def netns_exists(path: Path) -> bool:
    """Whether a network namespace is bound to ``path``."""
    return any(
        line.split(" - ")[0].split()[4] == str(path) and line.split(" - ")[1].startswith("nsfs")
        for line in Path("/proc/self/mountinfo").read_text().splitlines()
    )


def up_node(layout: Layout, node: NodeLayout) -> None:
    """Namespace, veth pair, addresses and routes of ``node``."""
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
        # ClusterIPs are reachable from this machine too: kube-proxy of the first node translates them.
        run(["ip", "route", "replace", str(layout.service_network), "via", str(node.ip), "dev", layout.bridge])


def route_pods(layout: Layout, node: NodeLayout) -> None:
    """Make the pods of ``node`` reachable from this machine, and through it from all nodes."""
    run(["ip", "route", "replace", str(node.pod_network), "via", str(node.ip), "dev", layout.bridge])


def cut(node: NodeLayout) -> None:
    """Pull the node's cable."""
    run(["ip", "link", "set", node.veth, "down"])


def mend(node: NodeLayout) -> None:
    """Plug the node's cable in again."""
    run(["ip", "link", "set", node.veth, "up"])
