"""Who keeps a node from taking jobs, since when, and what ends that: somebody in Slurm, somebody in Kubernetes, or
sunkpy.

A node may be held at several doors at once, and comes back only when the last lets go. A hold that follows from another
one (Slurm's drain for a cordon, the cordon for a drain in Slurm) is not shown by itself.
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
"""The beginnings of reasons that slurmctld and slurmd write by themselves."""

_LIFTED_ON_THE_NODE: Final[Mapping[str, str]] = {
    "SlurmdSpoolDir is full": (
        "it is lifted when the disk has room again; if it stays, ask who else drained the node, then resume"
    ),
    "sunkpy check: ": "it is lifted when check-node finds all well twice in a row: mend what the reason names",
}
"""For drains that something on the node lifts, also programs of the slurmd pod: how the reason begins → when it is
lifted.
"""

_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_SHOWN: Final = 8


class Door(enum.StrEnum):
    """On which side a hold on a node is set and lifted."""

    KUBERNETES = "Kubernetes"
    SLURM = "Slurm"
    SLURM_ITSELF = "Slurm itself"
    SUNKPY = "sunkpy"


class Hold(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A hold on a node. `who`: the name of its owner, if the door records one. `since`: empty if it is not known.

    `by_hand`: a person lifts it, there. Otherwise it ends with its cause.
    """

    door: Door
    who: str = ""
    reason: str
    since: str = ""
    lifted_by: str
    by_hand: bool = False

    @property
    def owner(self) -> str:
        """Who holds the node: a name, otherwise the door."""
        return self.who or str(self.door)


class HeldNode(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A node with all that hold it; `jobs` and `pods` are still there."""

    node: str
    slurm_node: str
    slurm: str
    holds: tuple[Hold, ...]
    jobs: tuple[int, ...] = ()
    pods: tuple[str, ...] = ()


class HeldNodes(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The held nodes of the pool; `unread`: what could not be read, and why."""

    nodes: tuple[HeldNode, ...]
    unread: tuple[str, ...] = ()


def find_held(facts: PoolFacts) -> tuple[HeldNode, ...]:
    """All nodes that somebody holds. A node without a slurmd pod is among them as long as sunkpy remembers it."""
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
    """All who hold one node. `slurm` has no state if Slurm has no such node; it is None if there is no slurmd pod."""
    if node is not None:
        yield from _in_kubernetes(node, has_slurmd=pod is not None)
    if pod is not None and (token := token_of(pod)) is not None:
        yield Hold(
            door=Door.SUNKPY,
            reason=f"the slurmd pod has to go: {token.cause}",
            since=rfc3339(token.since),
            lifted_by="nothing to do: the pod goes when its jobs have ended",
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
        lifted_by = f"kubectl uncordon {node.name}; else the next slurmd there starts drained, to be resumed in Slurm"
        yield Hold(door=Door.SLURM, reason=f"{drain} (remembered: no slurmd is there)", lifted_by=lifted_by)
    sick = drain_text(node)
    if sick is not None and (record := read_record(node)) is not None:
        lifted_by = what_comes_next(record, node.name)
        yield Hold(door=Door.SUNKPY, reason=f"health: {sick}", since=record.since, lifted_by=lifted_by)


def _cordoned_since(node: Node) -> str:
    return next((taint.time_added or "" for taint in node.spec.taints if taint.key == _UNSCHEDULABLE), "")


def _in_slurm(slurm: SlurmNode, pod: Pod | None) -> Iterator[Hold]:
    if not slurm.state:
        yield _by_slurm(slurm, "Slurm has no node of this name", "its slurmd has to register: kubectl logs of the pod")
    elif slurm.is_invalid:
        text = slurm.reason or "what slurmd reports of the machine is not what Slurm expects"
        mend = f"mend what the reason names; if the node is right: scontrol delete nodename={slurm.name}"
        yield _by_slurm(slurm, text, f"{mend}; then delete the slurmd pod once it is idle")
    elif slurm.is_held_by_others:
        own = slurm.reason.startswith(_ITS_OWN)
        on_the_node = next((text for start, text in _LIFTED_ON_THE_NODE.items() if slurm.reason.startswith(start)), "")
        resume = f"scontrol update nodename={slurm.name} state=resume, once what it names is mended"
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
        yield _by_slurm(slurm, text, "it comes back when its slurmd answers: kubectl describe of the slurmd pod")


def _by_slurm(slurm: SlurmNode, text: str, lifted_by: str) -> Hold:
    since = slurm.reason_since_s
    return Hold(door=Door.SLURM_ITSELF, reason=text, since=_time(since), lifted_by=lifted_by)


_LIFTS: Final[Mapping[str, str]] = {
    "cordon": "kubectl uncordon",
    "health": "nothing to do: the signal has ended, and the syncer lifts the drain in a moment",
    "pod pending": "an earlier pod had to go; it is lifted when the slurmd of this one registers: kubectl logs of it",
    "pod not ready": "it is lifted when the containers of the slurmd pod are ready: kubectl describe it",
    "pod gone": "it is lifted when a slurmd pod is there again",
}


def _by_sunkpy(slurm: SlurmNode, pod: Pod | None) -> Iterator[Hold]:
    """A drain that the syncer set; its cause is a cordon, a removal or the node's health if the slurmd pod shows one of
    these.
    """
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
        lifted_by = next((text for start, text in _LIFTS.items() if cause.startswith(start)), "the syncer, in time")
    yield Hold(door=Door.SUNKPY, reason=cause, since=_since(slurm, pod), lifted_by=lifted_by)


def _since(slurm: SlurmNode, pod: Pod | None) -> str:
    """Since when, as Slurm says; otherwise when the syncer first saw the drain."""
    condition = pod.condition(names.CONDITION_DRAIN) if pod is not None else None
    seen = condition.last_transition_time if condition is not None and condition.status == "True" else None
    return _time(slurm.reason_since_s) or seen or ""


def _time(seconds: int) -> str:
    return rfc3339(datetime.fromtimestamp(seconds, UTC)) if seconds > 0 else ""


# ------------------------------------------------------------------------------------------------------------- as text


def held_table(nodes: Iterable[HeldNode]) -> Table:
    """A row for each hold; `STILL THERE` once for each node."""
    rows = []
    for node in nodes:
        for number, hold in enumerate(node.holds):
            there = still_there(node) if not number else ""
            by = f"{hold.door}: {hold.who}" if hold.who else hold.door
            rows.append((node.node, node.slurm_node, node.slurm, by, hold.since, hold.reason, there, hold.lifted_by))
    titles = ("NODE", "SLURM NODE", "SLURM", "HELD BY", "SINCE", "REASON", "STILL THERE", "LIFTED BY")
    return Table(titles=titles, rows=tuple(rows), wide=frozenset({"SLURM", "STILL THERE"}))


def still_there(node: HeldNode) -> str:
    """The jobs and pods that are still on the node, in words; empty without any."""
    jobs = f"{count(len(node.jobs), 'job')} {first_of(map(str, node.jobs), _SHOWN)}" if node.jobs else ""
    pods = f"{count(len(node.pods), 'pod')} {first_of(node.pods, _SHOWN)}" if node.pods else ""
    return "; ".join(filter(None, (jobs, pods)))


def explain_held(node: HeldNode, unread: tuple[str, ...] = ()) -> Explanation:
    """Say who holds one node, and what to do about each hold."""
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
    """A line for each hold."""
    texts = []
    for hold in node.holds:
        since = f"since {hold.since}" if hold.since else "since when is not recorded"
        who = f", by {hold.who}" if hold.who else ", by whom is not recorded" if hold.door == Door.KUBERNETES else ""
        texts.append(printable(f"{hold.door}{who}, {since}: {hold.reason}"))
    return tuple(texts)


def subject_of(node: HeldNode) -> str:
    """The node with both its names."""
    return f"Node {node.node}" + (f" (Slurm node {node.slurm_node}, {node.slurm})" if node.slurm_node else "")
