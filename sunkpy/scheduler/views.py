"""Protocols through which the collector reads the scheduler's records. They have no methods that change a record, so
the type checker ensures that the collector changes none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.job.job import Job
from sunkpy.core.gang.snapshot import Snapshot
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId
from sunkpy.core.placement.eligibility import Eligibility
from sunkpy.scheduler.record import Grounds, Recognised


class RecordView(Protocol):
    """The part of a gang's record that can be read without changing the record. The class `GangRecord` explains the
    fields.
    """

    @property
    def id(self) -> GangId:
        """The id of the gang: namespace, name and uid of the object to which its pods belong."""

    @property
    def seen_at(self) -> float:
        """When the scheduler first saw the gang, in seconds of the monotonic clock."""

    @property
    def jobs(self) -> Mapping[JobId, Job]:
        """The gang's Slurm jobs, by job ID."""

    @property
    def bound_to(self) -> JobId | None:
        """The Slurm job under which the gang's pods were bound; None if no such job is known."""

    @property
    def refusals(self) -> Mapping[str, tuple[str, float]]:
        """Slurm node → why the kubelet there refused a pod of the gang, and until when the gang's next jobs avoid the
        node.
        """

    @property
    def grounds(self) -> Grounds:
        """The facts from which it was last worked out on which nodes the gang may run."""

    @property
    def recognised(self) -> Recognised:
        """The gang as one value, as last made from its pods, their owners and claims."""

    @property
    def is_doubted(self) -> bool:
        """True if something from which the value `recognised` was made has changed since."""

    @property
    def ended(self) -> Mapping[str, Pod]:
        """The gang's pods that had ended before they were deleted, by uid."""

    def as_bound(self, pod: Pod) -> Pod:
        """Return the pod as bound if its binding was sent to the apiserver and the watch does not show it yet; else
        return the pod as it is.
        """

    def eligibility(self, eligibility: Eligibility) -> Eligibility:
        """Return the eligible nodes without those where a kubelet lately refused a pod of the gang. If no node would be
        left, all are returned.
        """

    def may_go_on(self, usable: tuple[str, ...], *, now: float) -> bool:
        """True if the gang may get a job although it is in a long pause (`GangRecord.halt`): the nodes that it may use
        differ from those at the time when its jobs were cancelled because nodes refused its pods. False if there is no
        such pause.
        """

    def snapshot(self, seen: Recognised, *, placed: dict[str, str], now: float) -> Snapshot:
        """Return the gang's snapshot, the value from which decisions are made, without the nodes on which the gang may
        run. `seen`: the gang's value. `placed`: Slurm node of each pod that is on a node, by pod uid. `now`: monotonic
        seconds.
        """


class LedgerView(Protocol):
    """The part of the `Ledger`, with the records of all gangs, that can be read without changing it."""

    @property
    def all_jobs_known(self) -> bool:
        """True once this leader knows all Slurm jobs of gangs, also those that earlier leaders submitted. Before that,
        no job is submitted.
        """

    def other_generations(self, id: GangId) -> Sequence[RecordView]:
        """Return the records of the other generations of a gang. Generations are gangs of the same owner and unit that
        follow one another: before and after a restart the owner makes different pods.
        """


class PodsView(Protocol):
    """The part of `PodsByGang`, the index of pods by gang, that can be read without changing it."""

    def find_id(self, pod: Pod) -> GangId | None:
        """Return the id of the pod's gang; None while it is not known to which gang the pod belongs."""

    def pods_of(self, id: GangId) -> Sequence[Pod]:
        """Return the pods of a gang that the watch shows."""

    def on_node(self, node: str) -> Sequence[Pod]:
        """Return the pods bound to a Kubernetes node that name this scheduler, also those whose gang is unknown."""


class GangsView(Protocol):
    """The part of `Gangs`, which makes gang values from pods, that can be used without changing a record."""

    def of(self, record: RecordView) -> Recognised:
        """Return the gang as it is now, as one value. The value in the gang's record is returned if it is still right;
        if not, a new value is made, and the record is not changed.
        """
