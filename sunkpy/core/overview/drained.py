"""The holds on nodes for `kubectl sunk why-drained`: what keeps a node from taking jobs, since when, and what lifts it.

A hold is a drain, a cordon or another state that closes a node. It is set in Slurm, in Kubernetes or by sunkpy. A node
may have several, and comes back when the last one is lifted. A hold that only follows from another one (Slurm's drain
for a cordon, the cordon for a drain in Slurm) is not shown.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from sunkpy.core import names
from sunkpy.core.explain.explanation import Explanation, Line
from sunkpy.core.health import drain_text, read_record
from sunkpy.core.health.words import what_comes_next
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.model.removal_token import token_of
from sunkpy.core.model.states import SlurmNode
from sunkpy.core.model.times import rfc3339
from sunkpy.core.nodeset.node_mark import foreign_cordon
from sunkpy.core.overview.pool import NodeLine, PoolFacts, find_nodes, state_of
from sunkpy.core.overview.table import Table, count, first_of, printable

_ITS_OWN: Final = (
    "Not responding", "Node unexpectedly rebooted", "Kill task failed", "Prolog error", "Epilog error", "Low ",
    "batch job complete failure", "Duplicate jobid", "gres/", "ResumeTimeout reached", "Reboot ",
    "SlurmdSpoolDir is full", "sunkpy check: ",
)  # fmt: skip
"""The beginnings of drain reasons that slurmctld, slurmd or check-node write, not people."""

_LIFTED_ON_THE_NODE: Final[Mapping[str, str]] = {
    "SlurmdSpoolDir is full": (
        "the drain is lifted when the disk has room again; if it stays, ask who else drained the node, then resume it"
    ),
    "sunkpy check: ": "the drain is lifted when check-node finds all well twice in a row: mend what the reason names",
}
"""Beginning of a drain reason → when a program of the slurmd pod lifts that drain."""

_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_SHOWN: Final = 8


class Door(enum.StrEnum):
    """Where a hold on a node (a drain or cordon) is set: by people in Kubernetes or in Slurm, by a program of Slurm
    itself, or by sunkpy.
    """

    KUBERNETES = "Kubernetes"
    SLURM = "Slurm"
    SLURM_ITSELF = "Slurm itself"
    SUNKPY = "sunkpy"


class Hold(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A drain, cordon or other state that keeps a node from taking jobs. `door`: where it was set.

    `who`: who set it, if that is recorded. `since`: since when; empty if it is not known. `lifted_by`: what lifts it.
    `by_hand`: True if `kubectl sunk undrain` can lift it; False if that command leaves it alone.
    """

    door: Door
    who: str = ""
    reason: str
    since: str = ""
    lifted_by: str
    by_hand: bool = False

    @property
    def owner(self) -> str:
        """Who set the hold: a name, or where it was set (Slurm, Kubernetes …) if no name is recorded."""
        return self.who or str(self.door)


class HeldNode(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A node with its holds (drains, cordons), and the jobs and pods that are still on it."""

    node: str
    slurm_node: str
    slurm: str
    holds: tuple[Hold, ...]
    jobs: tuple[int, ...] = ()
    pods: tuple[str, ...] = ()


class HeldNodes(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer of `kubectl sunk why-drained`: the nodes with holds. `unread`: what could not be read, and why."""

    nodes: tuple[HeldNode, ...]
    unread: tuple[str, ...] = ()


def find_held(facts: PoolFacts) -> tuple[HeldNode, ...]:
    """Return all nodes with holds (drains, cordons), also nodes without a slurmd pod that still have sunkpy's
    annotations.
    """
    slurmd = {pod.spec.node_name: pod for pod in facts.slurmd_pods or () if pod.spec.node_name}
    nodes = {node.name: node for node in facts.nodes or ()}
    lines = {line.node: line for line in find_nodes(facts)}
    left = {name for name, node in nodes.items() if names.ANNOTATION_PLACED_ON in node.annotations}
    held = []
    for name in sorted(lines.keys() | left):
        pod, line = slurmd.get(name), lines.get(name) or _without_slurmd(nodes[name])
        slurm = state_of(pod, facts) if pod is not None else None
        if holds := tuple(find_holds(nodes.get(name), pod, slurm)):
            held.append(_held(line, holds))
    return tuple(held)


def _without_slurmd(node: Node) -> NodeLine:
    slurm_node = node.annotations.get(names.ANNOTATION_PLACED_ON, "")
    return NodeLine(node=node.name, slurm_node=slurm_node, slurm="no slurmd pod")


def _held(line: NodeLine, holds: tuple[Hold, ...]) -> HeldNode:
    return HeldNode(
        node=line.node, slurm_node=line.slurm_node, slurm=line.slurm, holds=holds, jobs=line.jobs, pods=line.pods
    )


def find_holds(node: Node | None, pod: Pod | None, slurm: SlurmNode | None) -> Iterator[Hold]:
    """Yield the holds (drains, cordons) on one node. `slurm`: its Slurm node, with an empty state if Slurm has no such
    node; None if the node has no slurmd pod.
    """
    if node is not None:
        yield from _in_kubernetes(node, has_slurmd=pod is not None)
    if pod is not None and (token := token_of(pod)) is not None:
        yield Hold(
            door=Door.SUNKPY,
            reason=f"the slurmd pod is to be removed: {token.cause}",
            since=rfc3339(token.since),
            lifted_by="nothing to do: the pod is removed when the jobs on its node have ended",
        )
    if slurm is not None:
        yield from _in_slurm(slurm, pod)


def _in_kubernetes(node: Node, *, has_slurmd: bool) -> Iterator[Hold]:
    why = foreign_cordon(node)
    if why is not None and not node.spec.unschedulable:
        yield Hold(door=Door.KUBERNETES, reason=why, lifted_by="nothing: the Node is about to be removed")
    elif why is not None:
        noted = names.ANNOTATION_DRAIN in node.annotations
        note = f"; kubectl annotate node {node.name} {names.ANNOTATION_DRAIN}-" if noted else ""
        lifted_by = f"kubectl uncordon {node.name}{note}"
        yield Hold(
            door=Door.KUBERNETES,
            who=node.annotations.get(names.ANNOTATION_DRAIN_BY, "") if noted else "",
            reason=f"cordon: {why}",
            since=_cordoned_since(node),
            lifted_by=lifted_by,
            by_hand=True,
        )
    elif (drain := node.annotations.get(names.ANNOTATION_SLURM_DRAIN)) and not has_slurmd:
        lifted_by = f"kubectl uncordon {node.name}; otherwise the next slurmd there is drained, until you resume it"
        yield Hold(door=Door.SLURM, reason=f"{drain} (the node has no slurmd pod now)", lifted_by=lifted_by)
    sick = drain_text(node)
    if sick is not None and (record := read_record(node)) is not None:
        lifted_by = what_comes_next(record, node.name)
        yield Hold(door=Door.SUNKPY, reason=f"health: {sick}", since=record.since, lifted_by=lifted_by)


def _cordoned_since(node: Node) -> str:
    return next((taint.time_added or "" for taint in node.spec.taints if taint.key == _UNSCHEDULABLE), "")


def _in_slurm(slurm: SlurmNode, pod: Pod | None) -> Iterator[Hold]:
    if not slurm.state:
        text = "its slurmd has to register; to see why it does not: kubectl logs of the slurmd pod"
        yield _by_slurm(slurm, "Slurm has no node of this name", text)
    elif slurm.is_invalid:
        text = slurm.reason or "what slurmd reports of the machine is not what Slurm expects"
        delete = f"in slurmctld's pod: scontrol delete nodename={slurm.name}"
        mend = f"mend what the reason names; if the node is right, {delete}"
        yield _by_slurm(slurm, text, f"{mend}; then delete the slurmd pod once no job runs there")
    elif slurm.is_held_by_others:
        own = slurm.reason.startswith(_ITS_OWN)
        on_the_node = next((text for start, text in _LIFTED_ON_THE_NODE.items() if slurm.reason.startswith(start)), "")
        command = f"scontrol update nodename={slurm.name} state=resume"
        resume = f"in slurmctld's pod: {command}, once what the reason names is mended"
        yield Hold(
            door=Door.SLURM_ITSELF if own else Door.SLURM,
            who="" if own else slurm.reason_by,
            reason=slurm.reason or "no reason given",
            since=_since(slurm, pod),
            lifted_by=on_the_node or resume,
            by_hand=True,
        )
    elif slurm.is_drained_by_us:
        yield from _by_sunkpy(slurm, pod)
    elif slurm.is_down or slurm.is_not_responding:
        text = slurm.reason or "slurmd does not answer slurmctld"
        yield _by_slurm(slurm, text, "the node comes back when its slurmd answers: kubectl describe the slurmd pod")


def _by_slurm(slurm: SlurmNode, text: str, lifted_by: str) -> Hold:
    since = slurm.reason_since_s
    return Hold(door=Door.SLURM_ITSELF, reason=text, since=_time(since), lifted_by=lifted_by)


_LIFTS: Final[Mapping[str, str]] = {
    "cordon": "kubectl uncordon",
    "health": "nothing to do: the signal has ended, and the syncer lifts the drain in a moment",
    "pod pending": (
        "an earlier slurmd pod was removed; the drain is lifted when the slurmd of the new pod registers: "
        "kubectl logs of the new pod"
    ),
    "pod not ready": "the drain is lifted when the containers of the slurmd pod are ready: kubectl describe the pod",
    "pod gone": "the drain is lifted when the node has a slurmd pod again",
}


def _by_sunkpy(slurm: SlurmNode, pod: Pod | None) -> Iterator[Hold]:
    """Yield the drain that the syncer set, unless the cordon, removal or health signal behind it is shown already."""
    cause = slurm.reason.removeprefix(names.REASON_PREFIX)
    if cause.startswith("pod pending") and pod is not None and token_of(pod) is not None:
        return
    if cause.startswith("health") and pod is not None and names.ANNOTATION_HEALTH_DRAIN in pod.annotations:
        return
    if cause.startswith("cordon"):
        if pod is not None and names.ANNOTATION_CORDON in pod.annotations:
            return
        lifted_by = "nothing to do: the cordon is gone, and the syncer lifts the drain in a moment"
    else:
        in_time = "the syncer lifts the drain when its cause has ended"
        lifted_by = next((text for start, text in _LIFTS.items() if cause.startswith(start)), in_time)
    yield Hold(door=Door.SUNKPY, reason=cause, since=_since(slurm, pod), lifted_by=lifted_by)


def _since(slurm: SlurmNode, pod: Pod | None) -> str:
    """Return since when the node is drained, as Slurm says, or else when the syncer first saw the drain; empty if
    neither is known.
    """
    condition = pod.condition(names.CONDITION_DRAIN) if pod is not None else None
    seen = condition.last_transition_time if condition is not None and condition.status == "True" else None
    return _time(slurm.reason_since_s) or seen or ""


def _time(seconds: int) -> str:
    return rfc3339(datetime.fromtimestamp(seconds, UTC)) if seconds > 0 else ""


# ------------------------------------------------------------------------------------------------------------- as text


def held_table(nodes: Iterable[HeldNode]) -> Table:
    """Return a table with a row for each hold; the jobs and pods of a node are only in its first row."""
    rows = []
    for node in nodes:
        for number, hold in enumerate(node.holds):
            there = still_there(node) if not number else ""
            by = f"{hold.door}: {hold.who}" if hold.who else hold.door
            rows.append((node.node, node.slurm_node, node.slurm, by, hold.since, hold.reason, there, hold.lifted_by))
    titles = ("NODE", "SLURM NODE", "SLURM", "HELD BY", "SINCE", "REASON", "STILL THERE", "LIFTED BY")
    return Table(titles=titles, rows=tuple(rows), wide=frozenset({"SLURM", "STILL THERE"}))


def still_there(node: HeldNode) -> str:
    """Return the jobs and pods that are still on the node, in words; empty if there are none."""
    jobs = f"{count(len(node.jobs), 'job')} {first_of(map(str, node.jobs), _SHOWN)}" if node.jobs else ""
    pods = f"{count(len(node.pods), 'pod')} {first_of(node.pods, _SHOWN)}" if node.pods else ""
    return "; ".join(filter(None, (jobs, pods)))


def explain_held(node: HeldNode, unread: tuple[str, ...] = ()) -> Explanation:
    """Return the explanation of one node's holds: who set each of them, and what lifts it."""
    texts, still = held_by(node), still_there(node)
    return Explanation(
        subject=subject_of(node),
        standing="takes no new jobs" if texts else "is not drained",
        lines=(
            Line(title="held by", texts=texts),
            Line(title="still there", texts=(printable(still),) if still else ()),
            Line(title="not read", texts=unread),
        ),
        what_to_do="; then ".join(hold.lifted_by for hold in node.holds) or "Nothing.",
    )


def held_by(node: HeldNode) -> tuple[str, ...]:
    """Return a line for each hold (drain, cordon) of the node: where it was set, who set it, since when, and the
    reason.
    """
    texts = []
    for hold in node.holds:
        since = f"since {hold.since}" if hold.since else "since when is not recorded"
        who = f", by {hold.who}" if hold.who else ", by whom is not recorded" if hold.door == Door.KUBERNETES else ""
        texts.append(printable(f"{hold.door}{who}, {since}: {hold.reason}"))
    return tuple(texts)


def subject_of(node: HeldNode) -> str:
    """Return the node's name in Kubernetes, with its name and state in Slurm."""
    return f"Node {node.node}" + (f" (Slurm node {node.slurm_node}, {node.slurm})" if node.slurm_node else "")
