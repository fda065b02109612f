"""How many more nodes a NodeSet wants, as its status publishes it for autoscalers.

A `Wish` stores how many nodes the NodeSet is to have, not how many it lacks. So a node that joins makes the published
number smaller at once, without another look at the queue. Apart from that, the number changes only if two answers of
Slurm in a row agree on the direction, because a job that starts within seconds is no reason to buy a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Final

import msgspec

from sunkpy.core.growth import excluded
from sunkpy.core.growth.lacks import HET_JOBS, Lack
from sunkpy.core.model import hostlist
from sunkpy.core.model.growth import GrowthRequest, GrowthStatus
from sunkpy.core.model.times import parse_rfc3339, rfc3339

_MOST_REQUESTS: Final = 100
_SEEN_EACH: Final = timedelta(minutes=2)
"""How often the status of a NodeSet that releases nodes is written although nothing has changed."""

Requests = tuple[GrowthRequest, ...]


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes that a NodeSet wants, after some answers of Slurm about its jobs.

    `target`: how many nodes the NodeSet is to have, 0 if it wants none; `last`: the target by the last answer alone.
    `lacked`: how many nodes jobs lacked in the last answer; `most`: the larger one of the last two such numbers. No
    more than `most` nodes are wanted, so that a node which is away for a moment is not bought again. `requests`: the
    jobs that lacked nodes when the NodeSet had `there` nodes.
    """

    target: int = 0
    last: int = 0
    most: int = 0
    lacked: int = 0
    requests: Requests = ()
    there: int = 0

    def settle(self, lack: Lack, there: int) -> Wish:
        """Return the wish after one more answer of Slurm, by which the NodeSet lacks `lack`. `there`: how many nodes
        the NodeSet has or is getting.

        The target moves only as far as this answer and the one before agree.
        """
        now = there + lack.nodes if lack.nodes else 0
        low, high = sorted((self.last, now))
        target = min(max(self.target, low), high)
        is_for_others = target > now
        requests, at = (self.requests, self.there) if is_for_others else (lack.requests, there)
        most = max(self.lacked, lack.nodes)
        return Wish(target=target, last=now, most=most, lacked=lack.nodes, requests=requests, there=at)

    @property
    def is_settled(self) -> bool:
        """True if the last answer of Slurm alone would give the same target, so that no second answer is needed."""
        return self.target == self.last

    def wanted(self, there: int) -> int:
        """Return how many more nodes the NodeSet wants if it now has `there` nodes."""
        return min(max(0, self.target - there), self.most)

    def requests_left(self, there: int) -> Requests:
        """Return the jobs that still lack nodes if the NodeSet now has `there` nodes. Nodes that have joined since the
        last answer are for the first jobs.
        """
        come = max(0, there - self.there)
        rest = _after(self.requests, come)
        return tuple(_up_to(rest, self.wanted(there)))[:_MOST_REQUESTS]


def recall(status: GrowthStatus | None) -> Wish:
    """Return the wish that a NodeSet's status publishes, so that a new leader of the syncer continues where the last
    one ended. Without a status, the wish is for no nodes.
    """
    if status is None or not status.wanted_nodes:
        return Wish()
    wanted, at = status.wanted_nodes, status.counted_nodes
    target = at + wanted
    return Wish(target=target, last=target, most=wanted, lacked=wanted, requests=status.requests, there=at)


def make_status(
    wish: Wish,
    lack: Lack,
    *,
    there: int,
    potential: int,
    before: GrowthStatus | None,
    now: datetime,
    read_at: datetime | None = None,
) -> GrowthStatus | None:
    """Return `status.growth` of a NodeSet; None if it wants no nodes and there is nothing to explain.

    `there`: how many nodes the NodeSet has or is getting. `before`: the status until now. `read_at`: when Slurm's jobs
    were read, if the NodeSet releases idle nodes; such a NodeSet always gets a status.
    """
    wanted, reason = wish.wanted(there), explain(lack, potential)
    if not wanted and not reason and read_at is None:
        return None
    goes_on = before is not None and before.wanted_nodes and before.since
    since = (before.since if goes_on and before is not None else rfc3339(now)) if wanted else ""
    status = GrowthStatus(
        wanted_nodes=wanted,
        counted_nodes=there if wanted else 0,
        requests=wish.requests_left(there),
        reason=reason,
        since=since,
    )
    return status if read_at is None else _seen(msgspec.structs.replace(status, held=lack.is_held), before, read_at)


def _seen(status: GrowthStatus, before: GrowthStatus | None, read_at: datetime) -> GrowthStatus:
    """Return the status with the time `seen`, when Slurm's jobs were read. If nothing else has changed, the old time
    stays for two minutes, so that the status is seldom written.
    """
    if before is not None and before.seen and abs(read_at - parse_rfc3339(before.seen)) < _SEEN_EACH:
        same = msgspec.structs.replace(status, seen=before.seen)
        if same == before:
            return same
    return msgspec.structs.replace(status, seen=rfc3339(read_at))


def explain(lack: Lack, potential: int) -> str:
    """Return why a NodeSet wants no nodes for some jobs, such as `job 7: needs 200 nodes, and there can be 100`; empty
    if there are no such jobs.
    """
    texts = [f"job {job}: {why}" for job, why in lack.never.items()]
    if lack.more:
        texts.append(f"{_jobs(lack.more)} more that no new node would help")
    if lack.unregistered:
        texts.append(
            f"no more nodes are wanted while {len(lack.unregistered)} new nodes have not registered in Slurm within "
            f"ten minutes: {hostlist.describe(lack.unregistered)}. "
            "Look at their slurmd pods: kubectl describe, kubectl logs"
        )
    elif lack.behind:
        waits = "waits" if lack.behind == 1 else "wait"
        texts.append(f"{_jobs(lack.behind)} {waits} for nodes beyond its potential of {potential}")
    if lack.unseen:
        texts.append(
            f"{_jobs(lack.unseen)} not considered: the limits are {HET_JOBS} heterogeneous jobs "
            f"and {excluded.MOST} lists of excluded nodes"
        )
    return "; ".join(texts)


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"


def _after(requests: Iterable[GrowthRequest], come: int) -> Iterator[GrowthRequest]:
    """Yield what is left of the requests for nodes after `come` new nodes; the first requests get them."""
    for each in requests:
        served = min(each.nodes, come)
        come -= served
        if served < each.nodes:
            yield GrowthRequest(job=each.job, nodes=each.nodes - served)


def _up_to(requests: Iterable[GrowthRequest], wanted: int) -> Iterator[GrowthRequest]:
    """Yield the first requests, cut to `wanted` nodes in all."""
    for each in requests:
        if wanted <= 0:
            return
        yield GrowthRequest(job=each.job, nodes=min(each.nodes, wanted))
        wanted -= each.nodes
