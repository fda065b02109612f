"""The history of a node for `kubectl sunk history`, from Events, conditions, its health record, and times in Slurm.

The answer also says what each of these sources forgets.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

import msgspec

from sunkpy.core import names
from sunkpy.core.health import read_record
from sunkpy.core.model.events import Event
from sunkpy.core.model.objects import Condition, Node, Pod
from sunkpy.core.model.states import SlurmNode
from sunkpy.core.model.times import parse_rfc3339, rfc3339
from sunkpy.core.overview.table import Table

_HIDDEN: Final = "not shown"
_KUBELETS: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
_SHOWN: Final = (names.CONDITION_DRAIN, names.CONDITION_CORDON, names.CONDITION_NOT_RESPONDING)


class NodePast(msgspec.Struct, frozen=True, kw_only=True):
    """What was read about the past of one node. `slurm`: None if Slurm was not asked, or has no such node."""

    name: str
    slurm_name: str = ""
    node: Node | None = None
    pod: Pod | None = None
    slurm: SlurmNode | None = None
    events: tuple[Event, ...] = ()
    unread: tuple[str, ...] = ()


class Happening(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One entry in the history of a node. `at`: when it happened, in RFC 3339. `times`: how often it happened."""

    at: str
    side: str
    by: str = ""
    what: str
    text: str = ""
    times: int = 1


class History(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The history of a node, the oldest entry first. `unknown`: which parts of the past no source has."""

    node: str
    slurm_node: str
    happenings: tuple[Happening, ...]
    unknown: tuple[str, ...]
    unread: tuple[str, ...] = ()


def without_texts_of_others(past: NodePast) -> NodePast:
    """Return the past for a viewer who may not see all pods: without the texts of Events on the Node that programs
    other than sunkpy wrote. Such a text may name any pod on the node, as Karpenter's do; sunkpy's texts name none.
    """
    events = (
        event
        if event.by.startswith(names.PREFIX) or event.involved_object.kind != "Node"
        else msgspec.structs.replace(event, message=_HIDDEN)
        for event in past.events
    )
    return msgspec.structs.replace(past, events=tuple(events))


def find_history(past: NodePast) -> History:
    """Return the history of a node from all that was read, the oldest entry first."""
    found = [*_of_events(past.events), *_of_node(past.node), *_of_pod(past.pod), *_of_slurm(past.slurm)]
    return History(
        node=past.name,
        slurm_node=past.slurm_name,
        happenings=tuple(sorted(found, key=lambda each: _order(each.at))),
        unknown=tuple(_unknown(past)),
        unread=past.unread,
    )


def _order(at: str) -> datetime:
    try:
        return parse_rfc3339(at)
    except ValueError:
        return datetime.fromtimestamp(0, UTC)


def _of_events(events: Iterable[Event]) -> Iterator[Happening]:
    for event in events:
        about = f"{event.involved_object.kind} {event.involved_object.name}"
        yield Happening(
            at=event.at,
            side="Kubernetes",
            by=event.by,
            what=f"Event {event.reason}",
            text=f"{about}: {event.message}",
            times=event.times,
        )


def _of_node(node: Node | None) -> Iterator[Happening]:
    if node is None:
        return
    yield Happening(at=node.metadata.creation_timestamp, side="Kubernetes", what="Node joined")
    for condition in node.status.conditions:
        if condition.type in (*_KUBELETS, *_SHOWN):
            yield from _of_condition(condition, "Node")
    for taint in node.spec.taints:
        if taint.time_added:
            yield Happening(at=taint.time_added, side="Kubernetes", what=f"taint {taint.key}:{taint.effect}")
    record = read_record(node)
    if record is None:
        return
    for step in record.past:
        yield Happening(at=step.at, side="sunkpy", what=f"health: {step.state}", text=step.text)
    for line in record.log.splitlines():
        yield Happening(at=record.at, side="sunkpy", what="log of the check that failed", text=line)


def _of_condition(condition: Condition, on: str) -> Iterator[Happening]:
    if condition.last_transition_time:
        what = f"{on} is {condition.type}={condition.status}"
        text = ": ".join(filter(None, (condition.reason, condition.message)))
        yield Happening(at=condition.last_transition_time, side="Kubernetes", what=what, text=text)


def _of_pod(pod: Pod | None) -> Iterator[Happening]:
    if pod is None:
        return
    yield Happening(at=pod.metadata.creation_timestamp, side="Kubernetes", what=f"slurmd pod {pod.name} was made")
    for status in pod.status.container_statuses:
        if status.state.running is not None and status.state.running.started_at:
            what, times = f"container {status.name} started", status.restart_count + 1
            yield Happening(at=status.state.running.started_at, side="Kubernetes", what=what, times=times)


def _of_slurm(slurm: SlurmNode | None) -> Iterator[Happening]:
    if slurm is None:
        return
    if slurm.reason_since_s:
        what = f"reason {slurm.reason!r}, now {slurm.state_text}"
        yield Happening(at=_time(slurm.reason_since_s), side="Slurm", by=slurm.reason_by, what=what)
    if slurm.slurmd_since_s:
        yield Happening(at=_time(slurm.slurmd_since_s), side="Slurm", what="the registered slurmd started")


def _unknown(past: NodePast) -> Iterator[str]:
    yield "Kubernetes keeps Events for an hour (--event-ttl of the apiserver), and only the last change of a condition."
    if past.node is not None and read_record(past.node) is not None:
        yield "sunkpy keeps the last twelve steps of the node's health, for a week after the node has come back."
    yield "Kubernetes does not record who cordoned a Node; its audit log does, if there is one."
    if past.slurm is None:
        yield "Slurm was not asked, did not answer, or has no such node."
    else:
        yield (
            "Slurm keeps only the last reason of a node. Earlier drains and failures are in its accounting: "
            f"sacctmgr show event nodes={past.slurm.name}; jobs that ran there: sacct -N {past.slurm.name}."
        )


def _time(seconds: int) -> str:
    return rfc3339(datetime.fromtimestamp(seconds, UTC))


def history_table(history: History) -> Table:
    """Return the history as a table with a row for each entry, the oldest first."""
    rows = tuple(
        (each.at, each.side, each.by, f"{each.what}{f' (×{each.times})' if each.times > 1 else ''}", each.text)
        for each in history.happenings
    )
    return Table(titles=("AT", "SIDE", "BY", "WHAT", "TEXT"), rows=rows)
