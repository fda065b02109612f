"""The parts of the scheduler's memory that collecting may read. Collecting cannot write them: the type checker ensures
that.
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
    """The part of a gang's `GangRecord` that may be read without changing it. `GangRecord` explains the fields."""

    @property
    def id(self) -> GangId:
        """The id of the gang."""

    @property
    def seen_at(self) -> float:
        """When the gang was first seen."""

    @property
    def jobs(self) -> Mapping[JobId, Job]:
        """The jobs of the gang."""

    @property
    def bound_to(self) -> JobId | None:
        """The job under which its pods were bound."""

    @property
    def refusals(self) -> Mapping[str, tuple[str, float]]:
        """Slurm node → why a kubelet refused the gang there, and until when that counts."""

    @property
    def grounds(self) -> Grounds:
        """The facts on which the last decision about the gang's nodes was based."""

    @property
    def recognised(self) -> Recognised:
        """The gang as it was worked out last."""

    @property
    def is_doubted(self) -> bool:
        """True if something from which the gang was worked out has changed since."""

    @property
    def ended(self) -> Mapping[str, Pod]:
        """Pods of it that had ended when they went."""

    def as_bound(self, pod: Pod) -> Pod:
        """A member with the binding that was sent."""

    def eligibility(self, eligibility: Eligibility) -> Eligibility:
        """The eligibility without the nodes that refused the gang."""

    def may_go_on(self, usable: tuple[str, ...], *, now: float) -> bool:
        """Jobs of it are submitted again, after many that were given back for one reason."""

    def snapshot(self, seen: Recognised, *, placed: dict[str, str], now: float) -> Snapshot:
        """The snapshot that decisions read."""


class LedgerView(Protocol):
    """The part of a `ledger.Ledger` that may be read without changing it."""

    @property
    def all_jobs_known(self) -> bool:
        """True once all jobs of gangs are known. Before that, no job is submitted."""

    def other_generations(self, id: GangId) -> Sequence[RecordView]:
        """The gangs of the same owner and unit."""


class PodsView(Protocol):
    """The part of a `pods.index.PodsByGang` that may be read without changing it."""

    def find_id(self, pod: Pod) -> GangId | None:
        """The gang of a pod."""

    def pods_of(self, id: GangId) -> Sequence[Pod]:
        """The pods of a gang."""

    def on_node(self, node: str) -> Sequence[Pod]:
        """The pods on a Kubernetes node."""


class GangsView(Protocol):
    """The part of a `pods.gangs.Gangs` that may be read without changing it."""

    def of(self, record: RecordView) -> Recognised:
        """A gang as it is now."""
