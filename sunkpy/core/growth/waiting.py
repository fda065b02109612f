"""A job that waits, as growth sees it: what it asks of nodes, and whether more nodes would help it."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Final

import msgspec

from sunkpy.core.growth.excluded import NONE, Excluded
from sunkpy.core.model.matching import Amounts, shortfalls

WAITS_FOR_NODES: Final = frozenset({
    "", "None", "Priority", "Resources", "ReqNodeNotAvail", "NodeDown", "PartitionConfig", "SchedDefer",
})  # fmt: skip
"""Slurm's reasons that nodes may take away. All others, such as a dependency, a hold, a limit, a licence, a time to
begin or a reservation, keep the job waiting however many nodes there are (job_state_reason.c)."""
_NOT_LOOKED_AT: Final = frozenset({"", "None", "Priority"})
_OF_ONE_JOB: Final = ("PerJob", "PerNode", "Min", "Duration", "NotAllowed")

Limit = tuple[str, ...]
"""Names what is limited: an account, a QoS, a user in one of both, or a licence."""


class WaitingJob(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Amounts are in the units of `core.model.matching`: millicores, bytes, and GRES by name and by `name:type`.

    `nodes`: so many at least; `max_nodes` 0 is no bound. `total`: what they have together at least; `per_node`: what
    each has at least; `per_task`: what is not divided between two nodes. `copies`: of a job array, how many tasks may
    start. `whole_nodes`: it shares none. `names_nodes`: it wants certain ones. `het_job`: the number of the
    heterogeneous job it is part of, or 0.
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
        """True if more nodes may help the job. They do not help if it names its nodes, or has a reservation."""
        return (
            self.reason in WAITS_FOR_NODES
            and self.priority > 0
            and self.copies > 0
            and not self.reservation
            and not self.names_nodes
        )

    @property
    def was_passed_over(self) -> bool:
        """True if Slurm has looked at the job and has not started it."""
        return self.reason not in _NOT_LOOKED_AT

    @property
    def limits(self) -> Set[Limit]:
        """The limits that keep the job waiting, if they can keep other jobs waiting, too. A limit of one job or node
        cannot.

        Of several licences Slurm does not say which one is lacking.
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
        """True if Slurm has not looked at the job yet, and one of these limits, which keep jobs before it waiting, will
        keep it waiting, too.

        slurmctld looks at so many jobs at a time (default_queue_depth, bf_max_job_test); those behind have `Priority`.
        """
        own: set[Limit] = {("account", self.account), ("qos", self.qos)}
        own |= {("user", self.user, self.qos), ("user", self.user, self.account), *self._of_licenses}
        return not self.was_passed_over and not limits.isdisjoint(own)

    @property
    def kind(self) -> tuple[object, ...]:
        """The properties that decide which nodes would do. Jobs with the same `kind` can use the same nodes."""
        amounts = (tuple(sorted(each.items())) for each in (self.total, self.per_node, self.per_task))
        sizes = (self.nodes, self.max_nodes, self.tasks, self.whole_nodes)
        return (self.partitions, self.constraint, self.excluded, *sizes, *amounts)

    def spread(self, shape: Mapping[str, int]) -> Spread | str:
        """How many nodes of that shape the job needs and what it takes of each; or, in words, why they
        cannot hold it.
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
            return f"needs {nodes} nodes of it, and asks for {self.max_nodes} at most"
        if self.whole_nodes:
            return Spread(nodes=nodes, needs=dict(shape))
        each = {name: amount * _up(self.tasks, nodes) for name, amount in self.per_task.items()}
        share = {name: _up(amount, nodes) for name, amount in self.total.items()}
        return Spread(nodes=nodes, needs=larger(larger(each, share), self.per_node))


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How many nodes a job needs, and what it takes of each."""

    nodes: int
    needs: Mapping[str, int]


def larger(one: Mapping[str, int], other: Mapping[str, int]) -> Amounts:
    """The larger amount of each resource."""
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}


def _up(amount: int, by: int) -> int:
    return -(-amount // by)
