"""Builds all tables of the web page, from the state of the pool and the Events that sunkpy wrote."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from sunkpy.core.gang.identity import PODS, parse_comment
from sunkpy.core.gang.job.ends import flag_of
from sunkpy.core.model import hostlist
from sunkpy.core.model.events import Event
from sunkpy.core.model.states import holds_something, is_job_completing, is_job_pending
from sunkpy.core.model.times import parse_rfc3339, rfc3339
from sunkpy.core.overview.drained import find_held
from sunkpy.core.overview.pool import NodeLine, PoolFacts, PoolView, find_growth, find_nodes, headline
from sunkpy.core.overview.queue import QueuedJob, QueueEntry, find_queue
from sunkpy.core.page.handovers import find_handovers
from sunkpy.core.page.rows import (
    CHANGES,
    HANDOVERS,
    HEAD,
    NODES,
    RUNNING,
    WAITING,
    ChangeRow,
    HandOverRow,
    HeadRow,
    NodeRow,
    RunningRow,
    Tables,
    joint_of,
)

LATELY: Final = timedelta(hours=1)
MOST_CHANGES: Final = 300
_EACH_POD: Final = frozenset({"Scheduled", "WaitingForSlurm"})
"""The reasons of Events that the table of changes leaves out: each pod has them, and other tables show the same."""


class PageFacts(msgspec.Struct, frozen=True, kw_only=True):
    """All that the tables are built from. `now`: the time at which the pool and the Events were read, in UTC."""

    pool: PoolFacts
    events: tuple[Event, ...] = ()
    now: datetime


def build_tables(facts: PageFacts, before: Tables | None = None) -> Tables:
    """Return all tables, unfiltered. `before`: the last tables, which hold how long earlier hand-overs took."""
    pool, now_s = facts.pool, facts.now.timestamp()
    lines, waiting = find_nodes(pool), find_queue(pool.jobs, pool.pods, pool.tiers, now_s)
    nodesets = tuple("/".join(each.key) for each in pool.nodesets or ())
    growth = find_growth(pool)
    said = headline(PoolView(nodes=lines, waiting=waiting, nodesets=nodesets, at="", growth=growth, unread=pool.unread))
    head = HeadRow(headline=said.removesuffix(". "), unread=pool.unread, has_jobs=pool.jobs is not None)
    nodes = _nodes(pool, lines)
    return {
        HEAD: {"": head},
        NODES: nodes,
        # The table's order is the place in the queue. With the place in each row, a job that starts would change all
        # rows behind it.
        WAITING: {key_of(each): msgspec.structs.replace(each, place=0) for each in waiting},
        RUNNING: {str(job.row.id): _running(job) for job in pool.jobs or () if _is_running(job)},
        HANDOVERS: find_handovers(facts.events, pool, facts.now, (before or {}).get(HANDOVERS, {})),
        CHANGES: dict(_changes(facts, nodes)),
    }


def key_of(waiting: QueueEntry) -> str:
    """Return the key of a row in the queue's table: the job ID, or the name of pods without a job."""
    return str(waiting.job) if waiting.job else waiting.name


def _nodes(pool: PoolFacts, lines: Iterable[NodeLine]) -> Mapping[str, NodeRow]:
    held = {each.node: each for each in find_held(pool)}
    rows = {line.node: _node(line) for line in lines}
    for name, each in held.items():
        # `lines` has only nodes with a slurmd pod. For any other node with a hold, a row is made here.
        row = rows.get(name) or _node(NodeLine(node=name, slurm_node=each.slurm_node, slurm=each.slurm))
        rows[name] = msgspec.structs.replace(row, holds=each.holds)
    return rows


def _node(line: NodeLine) -> NodeRow:
    return NodeRow(
        joint=joint_of(line),
        slurm_node=line.slurm_node,
        nodeset=line.nodeset,
        kubernetes=line.kubernetes,
        slurm=line.slurm,
        is_closed=line.kubernetes not in ("Ready", "not read"),
        gpus=line.gpus,
        given=line.gpus_given,
        jobs=line.jobs,
        pods=line.pods,
    )


def _is_running(job: QueuedJob) -> bool:
    return holds_something(job.row.state) and not is_job_pending(job.row.state)


def _running(job: QueuedJob) -> RunningRow:
    row, gang = job.row, parse_comment(job.row.comment)
    return RunningRow(
        pods=gang is not None,
        name=f"{gang.namespace}/{gang.name}" if gang is not None else job.name,
        user=row.user,
        account=row.account,
        partition=row.partition,
        nodes=hostlist.describe(row.nodes),
        node_count=len(row.nodes),
        gpus=row.gpus,
        since=rfc3339(datetime.fromtimestamp(job.starts_s, UTC)) if job.starts_s else "",
        is_ending=is_job_completing(row.state),
    )


def _changes(facts: PageFacts, nodes: Mapping[str, NodeRow]) -> Iterator[tuple[str, ChangeRow]]:
    found = [*_of_events(facts.events), *_of_holds(nodes)]
    lately = ((key, row) for key, row in found if _is_after(row.at, facts.now - LATELY))
    yield from sorted(lately, key=lambda each: parse_rfc3339(each[1].at), reverse=True)[:MOST_CHANGES]


def _of_events(events: Iterable[Event]) -> Iterator[tuple[str, ChangeRow]]:
    for event in events:
        about = event.involved_object
        if event.reason in _EACH_POD or flag_of(event.reason):
            continue
        # Everybody may see nodes, slurmd pods and NodeSets. Only the scheduler writes Events on workload pods.
        is_workload = about.kind == "Pod" and event.by == "sunkpy.dev/scheduler"
        row = ChangeRow(
            at=event.at,
            kind=about.kind,
            name=about.name,
            namespace=about.namespace if is_workload else "",
            what=event.reason,
            text=event.message,
            times=event.times,
            is_warning=event.type == "Warning",
        )
        yield event.uid, row


def _of_holds(nodes: Mapping[str, NodeRow]) -> Iterator[tuple[str, ChangeRow]]:
    for name, row in nodes.items():
        for number, hold in enumerate(row.holds):
            by = f"{hold.door}, {hold.who}" if hold.who else hold.door
            change = ChangeRow(at=hold.since, kind="Node", name=name, what=f"held by {by}", text=hold.reason)
            yield f"{name} {number}", change


def _is_after(at: str, earliest: datetime) -> bool:
    try:
        return parse_rfc3339(at) >= earliest
    except (ValueError, TypeError):
        return False


def namespaces_in(tables: Tables) -> frozenset[str]:
    """Return all namespaces whose pods the tables name, so that the viewer's right to see them can be checked."""
    names = [pod for row in tables[NODES].values() if isinstance(row, NodeRow) for pod in row.pods]
    names += [row.name for row in tables[WAITING].values() if isinstance(row, QueueEntry) and row.door == PODS]
    names += [row.name for row in tables[RUNNING].values() if isinstance(row, RunningRow) and row.pods]
    names += [row.pod for row in tables[HANDOVERS].values() if isinstance(row, HandOverRow)]
    found = {name.partition("/")[0] for name in names}
    return frozenset(found | {row.namespace for row in tables[CHANGES].values() if isinstance(row, ChangeRow)} - {""})
