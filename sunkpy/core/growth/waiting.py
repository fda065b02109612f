"""A waiting job as growth sees it (the search for nodes that jobs lack): what it asks of nodes, and whether new nodes
help.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Final

import msgspec

from sunkpy.core.growth.excluded import NONE, Excluded
from sunkpy.core.model.matching import Amounts, shortfalls

WAITS_FOR_NODES: Final = frozenset({
    "", "None", "Priority", "Resources", "ReqNodeNotAvail", "NodeDown", "PartitionConfig", "SchedDefer",
})  # fmt: skip
"""Slurm's reasons for waiting that new nodes may end. With any other reason, such as a dependency, a hold, a limit, a
licence, a begin time or a reservation, the job waits however many nodes there are (job_state_reason.c)."""
_NOT_LOOKED_AT: Final = frozenset({"", "None", "Priority"})
_OF_ONE_JOB: Final = ("PerJob", "PerNode", "Min", "Duration", "NotAllowed")

Limit = tuple[str, ...]
"""What a limit of Slurm applies to: an account, a QoS, a user in an account or QoS, or a licence."""


class WaitingJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A job that waits in Slurm, and what it asks of nodes.

    Amounts are in the units of `core.model.matching`: millicores, bytes, and GRES by name and by `name:type`. `nodes`,
    `max_nodes`: the least and the most nodes; a `max_nodes` of 0 means no bound. `total`: what the job's nodes must
    offer together at least; `per_node`: what each node must offer at least; `per_task`: what one task needs on its
    node. `copies`: how many tasks of a job array may start. `whole_nodes`: the job shares no node. `names_nodes`: it
    asks for nodes by name. `het_job`: the ID of the heterogeneous job that it is part of, or 0.
    """

    id: int
    label: str = ""
    partitions: tuple[str, ...] = ()
    priority: int = 1
    reason: str = ""
    nodes: int = 1
    max_nodes: int = 0
    tasks: int = 1
    total: Mapping[str, int] = {}
    per_node: Mapping[str, int] = {}
    per_task: Mapping[str, int] = {}
    copies: int = 1
    whole_nodes: bool = False
    constraint: str = ""
    reservation: str = ""
    licenses: tuple[str, ...] = ()
    names_nodes: bool = False
    excluded: Excluded = NONE
    het_job: int = 0
    user: str = ""
    account: str = ""
    qos: str = ""

    @property
    def waits_for_nodes(self) -> bool:
        """True if new nodes may help the job. They do not help if the job waits for something else, names its nodes, or
        has a reservation.
        """
        return (
            self.reason in WAITS_FOR_NODES
            and self.priority > 0
            and self.copies > 0
            and not self.reservation
            and not self.names_nodes
        )

    @property
    def was_passed_over(self) -> bool:
        """True if Slurm has considered the job and has not started it, as the job's reason shows."""
        return self.reason not in _NOT_LOOKED_AT

    @property
    def limits(self) -> Set[Limit]:
        """The limits of Slurm that keep the job waiting and may keep other jobs waiting too. Limits on a single job or
        node are left out.

        If a job waits for licences, these are all its licences: Slurm does not say which one is lacking.
        """
        reason = self.reason
        if reason == "Licenses":
            return self._of_licenses
        if not reason.startswith(("Assoc", "QOS", "Max")) or any(word in reason for word in _OF_ONE_JOB):
            return frozenset()
        if reason.startswith("AssocGrp") or reason.endswith("PerAccount"):
            return {("account", self.account)}
        if reason.startswith("QOSGrp"):
            return {("qos", self.qos)}
        return {("user", self.user, self.qos if reason.startswith("QOS") else self.account)}

    @property
    def _of_licenses(self) -> Set[Limit]:
        return {("license", name) for name in self.licenses}

    def is_bound_by(self, limits: Set[Limit]) -> bool:
        """True if one of these limits, for which other jobs wait already, will keep this job waiting too.

        False for a job that Slurm has already considered: its own reason says what it waits for. slurmctld considers a
        limited number of jobs at a time (default_queue_depth, bf_max_job_test), and the jobs behind them have the
        reason `Priority`.
        """
        own: set[Limit] = {("account", self.account), ("qos", self.qos)}
        own |= {("user", self.user, self.qos), ("user", self.user, self.account), *self._of_licenses}
        return not self.was_passed_over and not limits.isdisjoint(own)

    @property
    def kind(self) -> tuple[object, ...]:
        """The properties that decide which nodes the job can use. Jobs with equal `kind` can use the same nodes."""
        amounts = (tuple(sorted(each.items())) for each in (self.total, self.per_node, self.per_task))
        sizes = (self.nodes, self.max_nodes, self.tasks, self.whole_nodes)
        return (self.partitions, self.constraint, self.excluded, *sizes, *amounts)

    def spread(self, shape: Mapping[str, int]) -> Spread | str:
        """Return how many nodes with the amounts `shape` the job needs, and what it takes of each node; or a text that
        says why it cannot run on such nodes.
        """
        if lacking := shortfalls(larger(self.per_task, self.per_node), shape):
            return str(lacking[0])
        nothing = {name: amount for name, amount in self.total.items() if not shape.get(name)}
        if lacking := shortfalls(nothing, shape):
            return str(lacking[0])
        tasks = min((shape[name] // amount for name, amount in self.per_task.items() if amount), default=self.tasks)
        parts = (_up(amount, shape[name]) for name, amount in self.total.items() if amount)
        nodes = max(self.nodes, _up(self.tasks, max(tasks, 1)), *parts)
        if self.max_nodes and nodes > self.max_nodes:
            return f"needs {nodes} nodes of this NodeSet, and asks for {self.max_nodes} at most"
        if self.whole_nodes:
            return Spread(nodes=nodes, needs=dict(shape))
        each = {name: amount * _up(self.tasks, nodes) for name, amount in self.per_task.items()}
        share = {name: _up(amount, nodes) for name, amount in self.total.items()}
        return Spread(nodes=nodes, needs=larger(larger(each, share), self.per_node))


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How many equal nodes a job needs (`nodes`), and what the job takes of each of them (`needs`)."""

    nodes: int
    needs: Mapping[str, int]


def larger(one: Mapping[str, int], other: Mapping[str, int]) -> Amounts:
    """Return the larger one of two amounts, for each resource."""
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


def _up(amount: int, by: int) -> int:
    return -(-amount // by)
