"""The rows of the web page's tables. Each table is a dict, in the order of its rows."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from sunkpy.core.overview.drained import Hold
from sunkpy.core.overview.pool import NodeLine, Standing


class Row(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A row of one of the page's tables, which is sent to the browser as JSON."""


Tables = Mapping[str, Mapping[str, msgspec.Struct]]
"""Name of a table → key of a row → the row."""

HEAD, NODES, WAITING, RUNNING, HANDOVERS, CHANGES = "head", "nodes", "waiting", "running", "handovers", "changes"
EMPTY: Tables = {key: {} for key in (HEAD, NODES, WAITING, RUNNING, HANDOVERS, CHANGES)}


class Joint(enum.StrEnum):
    """The state of a node in Kubernetes and Slurm together: the first member, from DOWN to FREE, that applies."""

    DOWN = "down"  # Slurm cannot use the node
    DRAINING = "draining"  # no new job starts on the node, a job or pod still runs
    DRAINED = "drained"  # no new job starts on the node, nothing runs
    BOTH = "both"  # jobs of people and workload pods run on it
    PODS = "pods"  # only workload pods run on it
    BUSY = "jobs"  # only jobs of people run on it
    FREE = "free"


class HeadRow(Row, frozen=True, kw_only=True):
    """The page's head: the pool in a sentence, and what could not be read. `has_jobs`: Slurm's jobs could be read."""

    headline: str
    unread: tuple[str, ...] = ()
    has_jobs: bool = False


class NodeRow(Row, frozen=True, kw_only=True):
    """A node in Slurm and in Kubernetes. `is_closed`: the Node is cordoned or not Ready. `given`: GPUs in use."""

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
    """A job that has nodes. `pods`: it is a job of pods; then `name` is the name of its gang (its group of pods)."""

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
    """A hand-over: a job or pod that had to leave its nodes, and the job that took them (`by_job`, `by`).

    `took_s`: seconds until the next job started or the pod was gone; None while `is_open`, or if it is unknown.
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
    """A recent Event of sunkpy, or a drain or cordon of a node. `kind` is empty if the viewer may not see the object.

    `namespace`: the namespace of a workload pod; empty for other objects.
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
    """Return the state of a node for the page. Who has drained the node makes no difference."""
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
