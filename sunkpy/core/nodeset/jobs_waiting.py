"""Whether many jobs wait while a NodeSet has nodes that Slurm cannot use, or could have more, and the Event that says
so.

slurmctld gives the reason Resources to the first job of a partition that finds no free nodes, and Priority to those
behind it (schedule in job_scheduler.c). So jobs with either reason count, if a job of the same partition has the reason
Resources. Jobs that are held, or wait for a dependency, a licence or a limit, have other reasons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from itertools import chain
from typing import Final

import msgspec

from sunkpy.core.figures.jobs import JobRow
from sunkpy.core.figures.nodes import PartitionRow
from sunkpy.core.model import hostlist
from sunkpy.core.model.states import SlurmNode, is_job_pending
from sunkpy.core.nodeset.spec import NodeSet

MANY_JOBS: Final = 10
NODES_PER_JOB: Final = 10
"""At least MANY_JOBS are many, and in a large NodeSet at least one for each NODES_PER_JOB nodes. Fewer jobs are an
ordinary queue, which empties as jobs end.
"""
WAITED_S: Final = 600.0
"""The seconds for which many jobs have to wait before each report. A new leader counts from its start, so it repeats no
earlier report.
"""
AGAIN_S: Final = 1800.0
"""The seconds after which the same report is repeated, because the apiserver keeps an Event only for an hour."""


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs wait for nodes of a NodeSet's partitions, and how many nodes of the NodeSet are drained or down."""

    jobs: int
    partitions: frozenset[str]
    drained: int = 0
    down: int = 0


class WaitingReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a NodeSet could have more nodes for waiting jobs, and when that was found (`at_s`, monotonic seconds).
    `could_have`: kind (`drained`, `down`, `feasible`, `unfit`) → text.
    """

    could_have: Mapping[str, str]
    at_s: float

    def is_news(self, last: WaitingReport | None) -> bool:
        """True if the report says something, and `last`, the report of the last Event, named other kinds or is half an
        hour old.
        """
        if not self.could_have:
            return False
        return last is None or last.could_have.keys() != self.could_have.keys() or self.at_s - last.at_s >= AGAIN_S


def find_waiting(
    jobs: Iterable[JobRow],
    partitions: Iterable[PartitionRow],
    slurm_nodes: Mapping[str, SlurmNode],
    nodesets: Mapping[str, Set[str]],
) -> dict[str, Waiting]:
    """Return NodeSet → the jobs that wait for its nodes, for each NodeSet for whose nodes many jobs wait. `nodesets`:
    NodeSet → the names of its Slurm nodes.
    """
    queues, found = _queues(jobs), {}
    for nodeset, names in nodesets.items():
        served = {each.name for each in partitions if not names.isdisjoint(each.nodes)}
        waiting = {wanted: count for wanted, count in queues.items() if not served.isdisjoint(wanted)}
        if sum(waiting.values()) < max(MANY_JOBS, len(names) / NODES_PER_JOB):
            continue
        known = [slurm_nodes[name] for name in names if name in slurm_nodes]
        usable = [node for node in known if node.is_registered]
        found[nodeset] = Waiting(
            jobs=sum(waiting.values()),
            partitions=frozenset(served.intersection(chain.from_iterable(waiting))),
            drained=sum(node.is_closed for node in usable),
            down=len(names) - len(usable),
        )
    return found


def _queues(jobs: Iterable[JobRow]) -> Counter[frozenset[str]]:
    """Return how many jobs wait for nodes, by the set of partitions that they name. Each task of an array counts."""
    counts: Counter[tuple[str, str]] = Counter()
    for job in jobs:
        if job.reason in ("Resources", "Priority") and is_job_pending(job.state):
            counts[job.reason, job.partition] += job.tasks
    full = {name for reason, wanted in counts if reason == "Resources" for name in wanted.split(",")}
    queues: Counter[frozenset[str]] = Counter()
    for (_, wanted), count in counts.items():
        queues[frozenset(wanted.split(","))] += count
    return Counter({wanted: count for wanted, count in queues.items() if not full.isdisjoint(wanted)})


def make_report(waiting: Waiting, nodeset: NodeSet, now_s: float) -> WaitingReport:
    """Return the report for an Event on one NodeSet. It is empty if no node is drained or down and the NodeSet wants
    exactly as many nodes as are feasible, or if the NodeSet is being deleted.
    """
    more = nodeset.status.number_feasible - nodeset.status.desired_number_scheduled
    texts = {
        "drained": f"{waiting.drained} drained" if waiting.drained else "",
        "down": f"{waiting.down} down" if waiting.down else "",
        "feasible": f"{more} more feasible (raise spec.replicas)" if more > 0 else "",
        "unfit": f"{-more} wanted that do not fit (see condition Feasible)" if more < 0 else "",
    }
    could_have = {} if nodeset.is_deleting else {kind: text for kind, text in texts.items() if text}
    return WaitingReport(could_have=could_have, at_s=now_s)


def event_text(waiting: Waiting, report: WaitingReport) -> str:
    """Return the text of the Event: `41 jobs wait for nodes of partition gpu. Nodes of this NodeSet: 3 drained, 2 more
    feasible (…)`.
    """
    word = "partition" if len(waiting.partitions) == 1 else "partitions"
    found = ", ".join(report.could_have.values())
    return (
        f"{waiting.jobs} jobs wait for nodes of {word} {hostlist.describe(waiting.partitions)}. "
        f"Nodes of this NodeSet: {found}"
    )
