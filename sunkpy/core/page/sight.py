"""Filters the page's tables for one viewer: hides the pods and jobs that this person may not see."""

from __future__ import annotations

import msgspec

from sunkpy.core.gang.identity import PODS
from sunkpy.core.overview.queue import QueueEntry
from sunkpy.core.overview.sight import EVERYTHING, HIDDEN, Sight
from sunkpy.core.page.rows import (
    CHANGES,
    EMPTY,
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
)
from sunkpy.core.page.tables import key_of


def filter_tables(tables: Tables, sight: Sight) -> Tables:
    """Return the tables with only what this viewer may see. With `sight.user`, that is this Slurm user's own jobs."""
    if sight == EVERYTHING:
        return tables
    queue = [row for row in tables[WAITING].values() if isinstance(row, QueueEntry)]
    running = {
        key: row for key, row in tables[RUNNING].items() if isinstance(row, RunningRow) and sight.sees_jobs_of(row.user)
    }
    if sight.user:
        placed = (msgspec.structs.replace(row, place=place) for place, row in enumerate(queue, 1))
        waiting = {key_of(row): row for row in placed if row.job and sight.sees_jobs_of(row.user)}
        head = _own_head(tables, running=len(running), waiting=len(waiting))
        return {**EMPTY, HEAD: {"": head}, WAITING: waiting, RUNNING: running}
    return {
        HEAD: tables[HEAD],
        NODES: {key: _node(row, sight) for key, row in tables[NODES].items() if isinstance(row, NodeRow)},
        WAITING: dict(_waiting(row, number, sight) for number, row in enumerate(queue)),
        RUNNING: {key: _running(row, sight) for key, row in running.items()},
        HANDOVERS: {k: _handover(row, sight) for k, row in tables[HANDOVERS].items() if isinstance(row, HandOverRow)},
        CHANGES: {key: _change(row, sight) for key, row in tables[CHANGES].items() if isinstance(row, ChangeRow)},
    }


def _own_head(tables: Tables, *, running: int, waiting: int) -> HeadRow:
    """Return the headline for a person who sees only their jobs; without numbers if Slurm's jobs are unread."""
    head = tables[HEAD].get("", HeadRow(headline=""))
    assert isinstance(head, HeadRow)
    said = f"{running} of your jobs have nodes, {waiting} wait" if head.has_jobs else "Your jobs cannot be shown"
    return msgspec.structs.replace(head, headline=said)


def _node(row: NodeRow, sight: Sight) -> NodeRow:
    pods = tuple(pod if sight.sees_pod(pod) else HIDDEN for pod in row.pods)
    return row if pods == row.pods else msgspec.structs.replace(row, pods=pods)


def _waiting(row: QueueEntry, number: int, sight: Sight) -> tuple[str, QueueEntry]:
    if row.door != PODS or sight.sees_pod(row.name):
        return key_of(row), row
    # A job's reason comes from Slurm. Without a job it is the scheduler's message, which may name hidden objects.
    said = row.waits_for if row.job else "not shown"
    hidden = msgspec.structs.replace(row, name=HIDDEN, waits_for=said)
    return str(row.job) if row.job else f"{HIDDEN} {number}", hidden


def _running(row: RunningRow, sight: Sight) -> RunningRow:
    return msgspec.structs.replace(row, name=HIDDEN) if row.pods and not sight.sees_pod(row.name) else row


def _handover(row: HandOverRow, sight: Sight) -> HandOverRow:
    if not row.pod or sight.sees_pod(row.pod):
        return row
    return msgspec.structs.replace(row, pod=HIDDEN, cause=row.cause if row.job else "")


def _change(row: ChangeRow, sight: Sight) -> ChangeRow:
    if not row.namespace or sight.sees_pods_of(row.namespace):
        return row
    return msgspec.structs.replace(row, kind="", namespace="", name=HIDDEN, text="")
