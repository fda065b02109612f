"""The rows of the page. Each table is a dict, whose order is that of the rows."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from sunkpy.core.overview.drained import Hold
from sunkpy.core.overview.pool import NodeLine, Standing


class Row(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One line of a table, as JSON has it."""


Tables = Mapping[str, Mapping[str, msgspec.Struct]]
"""Table → key of a row → the row."""

HEAD, NODES, WAITING, RUNNING, HANDOVERS, CHANGES = "head", "nodes", "waiting", "running", "handovers", "changes"
EMPTY: Tables = {key: {} for key in (HEAD, NODES, WAITING, RUNNING, HANDOVERS, CHANGES)}


class Joint(enum.StrEnum):
    """How a node stands in Kubernetes and Slurm together: the first of these that holds."""

    DOWN = "down"  # Slurm cannot use it
    DRAINING = "draining"  # no new job starts, something still runs
    DRAINED = "drained"  # no new job starts, nothing runs
    BOTH = "both"  # jobs of people and pods
    PODS = "pods"
    BUSY = "jobs"
    FREE = "free"


class HeadRow(Row, frozen=True, kw_only=True):
    """The pool in a sentence, and what could not be read. `has_jobs`: those of Slurm could."""

    headline: str
    unread: tuple[str, ...] = ()
    has_jobs: bool = False


class NodeRow(Row, frozen=True, kw_only=True):
    """A node at both doors. `is_closed`: Kubernetes puts no pods there, or its kubelet is away."""

    joint: Joint
    slurm_node: str = ""
    nodeset: str = ""
    kubernetes: str = ""
    slurm: str = ""
    is_closed: bool = False
    gpus: int | None = None
    given: int | None = None
    jobs: tuple[int, ...] = ()
    pods: tuple[str, ...] = ()
    holds: tuple[Hold, ...] = ()


class RunningRow(Row, frozen=True, kw_only=True):
    """A job that has nodes. If it is a job of pods, `pods` is set, and `name` is that of the pods."""

    pods: bool = False
    name: str = ""
    user: str = ""
    account: str = ""
    partition: str = ""
    nodes: str = ""
    node_count: int = 0
    gpus: int = 0
    since: str = ""
    is_ending: bool = False


class HandOverRow(Row, frozen=True, kw_only=True):
    """A job that lost its nodes. `took_s`: seconds until the next job started or the pod was gone; None while
    `is_open`, or if nobody saw it.
    """

    at: str
    pod: str = ""
    job: int = 0
    user: str = ""
    cause: str = ""
    by_job: int = 0
    by: str = ""
    is_open: bool = False
    took_s: int | None = None


class ChangeRow(Row, frozen=True, kw_only=True):
    """What sunkpy did or saw lately, or who holds a node since when. `namespace`: that of a pod for Slurm. `kind` is
    empty if the viewer may not see the name.
    """

    at: str
    kind: str
    name: str
    namespace: str = ""
    what: str
    text: str = ""
    times: int = 1
    is_warning: bool = False


def joint_of(line: NodeLine) -> Joint:
    """How a node stands, whoever drains it."""
    if line.standing is Standing.DOWN:
        return Joint.DOWN
    has_something = bool(line.jobs or line.pods)
    if line.standing is Standing.DRAINED:
        return Joint.DRAINING if has_something else Joint.DRAINED
    if line.jobs and line.pods:
        return Joint.BOTH
    if line.pods:
        return Joint.PODS
    return Joint.BUSY if line.jobs or line.standing is Standing.BUSY else Joint.FREE
