"""All tables of the page, from what was read of the pool and the Events that sunkpy wrote."""

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
"""Events that each pod has once or often: the queue and the map show the same, and hand-overs have a table."""


class PageFacts(msgspec.Struct, frozen=True, kw_only=True):
    """All that was read. `now`: when, in UTC."""

    pool: PoolFacts
    events: tuple[Event, ...] = ()
    now: datetime


def build_tables(facts: PageFacts, before: Tables | None = None) -> Tables:
    """All tables, with everything that some viewer may see. `before`: the tables until now, which know how long
    hand-overs took.
    """
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
        # The order of the table says the place: else all rows behind one that goes would change.
        WAITING: {key_of(each): msgspec.structs.replace(each, place=0) for each in waiting},
        RUNNING: {str(job.row.id): _running(job) for job in pool.jobs or () if _is_running(job)},
        HANDOVERS: find_handovers(facts.events, pool, facts.now, (before or {}).get(HANDOVERS, {})),
        CHANGES: dict(_changes(facts, nodes)),
    }


def key_of(waiting: QueueEntry) -> str:
    """The key of a row: the job; for pods without a job their name."""
    return str(waiting.job) if waiting.job else waiting.name


def _nodes(pool: PoolFacts, lines: Iterable[NodeLine]) -> Mapping[str, NodeRow]:
    held = {each.node: each for each in find_held(pool)}
    rows = {line.node: _node(line) for line in lines}
    for name, each in held.items():
        # A node without a slurmd pod has a line of its own only here.
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
    """The newest first."""
    found = [*_of_events(facts.events), *_of_holds(nodes)]
    lately = ((key, row) for key, row in found if _is_after(row.at, facts.now - LATELY))
    yield from sorted(lately, key=lambda each: parse_rfc3339(each[1].at), reverse=True)[:MOST_CHANGES]


def _of_events(events: Iterable[Event]) -> Iterator[tuple[str, ChangeRow]]:
    for event in events:
        about = event.involved_object
        if event.reason in _EACH_POD or flag_of(event.reason):
            continue
        # Nodes, slurmd pods and NodeSets are the pool's; of other pods the scheduler alone writes.
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
    """All namespaces whose pods are named in the tables. What a viewer may see of them has to be asked."""
    names = [pod for row in tables[NODES].values() if isinstance(row, NodeRow) for pod in row.pods]
    names += [row.name for row in tables[WAITING].values() if isinstance(row, QueueEntry) and row.door == PODS]
    names += [row.name for row in tables[RUNNING].values() if isinstance(row, RunningRow) and row.pods]
    names += [row.pod for row in tables[HANDOVERS].values() if isinstance(row, HandOverRow)]
    found = {name.partition("/")[0] for name in names}
    return frozenset(found | {row.namespace for row in tables[CHANGES].values() if isinstance(row, ChangeRow)} - {""})
