"""Computes a ruleset of nftables for each node from NetworkPolicies. Pure.

Ingress is enforced on the node of the pod that is called, egress on the node of the pod that calls. Traffic of a node
to its own pods (probes) is not filtered. A new pod is open until its address is known, as with most plugins.
"""

from collections.abc import Iterable, Iterator

import msgspec

from devcluster.policies.objects import Cluster, Direction, Peer, Pod, Policy, Port, Rule

TABLE = "inet devcluster_policies"


class Allowed(msgspec.Struct, frozen=True, order=True):
    """Traffic that is allowed at a pod. Empty `addresses` mean all, an empty `protocol` means all; `ports`: first,
    last.
    """

    addresses: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    protocol: str = ""
    ports: tuple[int, int] | None = None


def allowed(cluster: Cluster, pod: Pod, direction: Direction) -> list[Allowed] | None:
    """Return the traffic that is allowed at a pod in a direction; None if no policy selects the pod, so all is."""
    found: set[Allowed] = set()
    concerned = False
    for policy in cluster.policies:
        rules = policy.spec.rules(direction)
        if rules is None or policy.metadata.namespace != pod.metadata.namespace:
            continue
        if policy.spec.pod_selector.matches(pod.metadata.labels):
            concerned = True
            found.update(way for rule in rules for way in _ways(cluster, policy, rule, pod, direction))
    return sorted(found, key=msgspec.structs.astuple) if concerned else None


def _ways(cluster: Cluster, policy: Policy, rule: Rule, pod: Pod, direction: Direction) -> Iterator[Allowed]:
    ports: list[Port | None] = [*rule.ports] or [None]
    for port in ports:
        if port is not None and isinstance(port.port, str):
            yield from _by_name(cluster, policy, rule, pod, direction, port)
            continue
        for addresses, excluded in _peers(cluster, policy, rule):
            yield Allowed(addresses, excluded, *_over(port))


def _by_name(
    cluster: Cluster, policy: Policy, rule: Rule, pod: Pod, direction: Direction, port: Port
) -> Iterator[Allowed]:
    """Yield the allowed traffic for a named port; the called pod's containers give its number."""
    if direction == "ingress":
        for number in pod.numbers(port):
            for addresses, excluded in _peers(cluster, policy, rule):
                yield Allowed(addresses, excluded, port.protocol, (number, number))
        return
    for peer in _pods(cluster, policy, rule.peers or [None]):
        for number in peer.numbers(port):
            yield Allowed((peer.status.pod_ip,), (), port.protocol, (number, number))


def _over(port: Port | None) -> tuple[str, tuple[int, int] | None]:
    if port is None:
        return "", None
    if not isinstance(port.port, int):
        return port.protocol, None
    return port.protocol, (port.port, port.end_port or port.port)


def _peers(cluster: Cluster, policy: Policy, rule: Rule) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Yield the addresses of a rule's peers, with excluded ones."""
    if not rule.peers:
        yield (), ()
        return
    pods = sorted({pod.status.pod_ip for pod in _pods(cluster, policy, rule.peers)})
    if pods:
        yield tuple(pods), ()
    for peer in rule.peers:
        if peer.ip_block is not None and peer.ip_block.is_v4:
            yield (peer.ip_block.cidr,), tuple(sorted(peer.ip_block.excluded))


def _pods(cluster: Cluster, policy: Policy, peers: Iterable[Peer | None]) -> Iterator[Pod]:
    names = {each.metadata.name: each.metadata.labels for each in cluster.namespaces}
    for pod in cluster.pods:
        if pod.has_address and any(_is_meant(policy, peer, pod, names.get(pod.metadata.namespace)) for peer in peers):
            yield pod


def _is_meant(policy: Policy, peer: Peer | None, pod: Pod, namespace: dict[str, str] | None) -> bool:
    if peer is None:
        return True
    if peer.ip_block is not None:
        return False
    if peer.namespace_selector is None:
        is_there = pod.metadata.namespace == policy.metadata.namespace
    else:
        is_there = namespace is not None and peer.namespace_selector.matches(namespace)
    return is_there and (peer.pod_selector is None or peer.pod_selector.matches(pod.metadata.labels))


def ruleset(cluster: Cluster, node: str) -> str:
    """Return the input of `nft -f` that replaces a node's rules."""
    here = [pod for pod in cluster.pods if pod.has_address and pod.spec.node_name == node]
    chains: list[str] = []
    calls: dict[Direction, list[str]] = {"ingress": [], "egress": []}
    for pod in sorted(here, key=lambda each: each.status.pod_ip):
        address = pod.status.pod_ip
        for direction, mine, theirs in (("egress", "saddr", "daddr"), ("ingress", "daddr", "saddr")):
            ways = allowed(cluster, pod, direction)  # type: ignore[arg-type]
            if ways is None:
                continue
            name = f"{direction}_{address.replace('.', '_')}"
            comment = f"{pod.metadata.namespace}/{pod.metadata.name}"
            lines = [f"    # {comment}", *(f"    {_match(way, theirs)}return" for way in ways), "    drop"]
            chains.append("\n".join([f"  chain {name} {{", *lines, "  }"]))
            calls[direction].append(f"    ip {mine} {address} jump {name}")  # type: ignore[index]
    begin = "    ct state established,related accept"
    hooks = (("forward", [*calls["egress"], *calls["ingress"]]), ("input", calls["egress"]))
    for hook, jumps in hooks:
        # The priority is after kube-proxy has replaced a Service's address by a pod's.
        head = [f"  chain {hook} {{", f"    type filter hook {hook} priority 10; policy accept;", begin]
        chains.append("\n".join([*head, *jumps, "  }"]))
    return "\n".join([f"table {TABLE}", f"delete table {TABLE}", f"table {TABLE} {{", *chains, "}", ""])


def _match(way: Allowed, theirs: str) -> str:
    words = []
    if way.addresses:
        words.append(f"ip {theirs} {{ {', '.join(way.addresses)} }} ")
    if way.excluded:
        words.append(f"ip {theirs} != {{ {', '.join(way.excluded)} }} ")
    if way.protocol and way.ports:
        low, high = way.ports
        words.append(f"{way.protocol.lower()} dport {low if low == high else f'{low}-{high}'} ")
    elif way.protocol:
        words.append(f"meta l4proto {way.protocol.lower()} ")
    return "".join(words)
