"""Protocols of the scheduler's records that `collect` may read. The type checker ensures that it cannot write them."""

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
        """The gang's id."""

    @property
    def seen_at(self) -> float:
        """When the gang was first seen."""

    @property
    def jobs(self) -> Mapping[JobId, Job]:
        """The gang's jobs, by job ID."""

    @property
    def bound_to(self) -> JobId | None:
        """The job under which the gang's pods were bound."""

    @property
    def refusals(self) -> Mapping[str, tuple[str, float]]:
        """Slurm node → why a kubelet refused the gang there, and until when that counts."""

    @property
    def grounds(self) -> Grounds:
        """The facts on which the last decision about the gang's nodes was based."""

    @property
    def recognised(self) -> Recognised:
        """The gang as last recognised."""

    @property
    def is_doubted(self) -> bool:
        """True if something behind `recognised` has changed since."""

    @property
    def ended(self) -> Mapping[str, Pod]:
        """By uid, the gang's pods that had ended before they were deleted."""

    def as_bound(self, pod: Pod) -> Pod:
        """Return a pod of the gang as bound, if its binding was sent."""

    def eligibility(self, eligibility: Eligibility) -> Eligibility:
        """Return the eligible nodes without those whose kubelet lately refused the gang."""

    def may_go_on(self, usable: tuple[str, ...], *, now: float) -> bool:
        """True if the gang's halt ends early, because it may use other nodes now than when its jobs were given back."""

    def snapshot(self, seen: Recognised, *, placed: dict[str, str], now: float) -> Snapshot:
        """Return the snapshot that decisions read, without the eligible nodes."""


class LedgerView(Protocol):
    """The part of a `ledger.Ledger` that may be read without changing it."""

    @property
    def all_jobs_known(self) -> bool:
        """True once all jobs of gangs are known. Before that, no job is submitted."""

    def other_generations(self, id: GangId) -> Sequence[RecordView]:
        """Return the records of all other generations of a gang: same owner and unit, earlier or later pods."""


class PodsView(Protocol):
    """The part of a `pods.index.PodsByGang` that may be read without changing it."""

    def find_id(self, pod: Pod) -> GangId | None:
        """Return the gang of a pod; None while it is unidentified."""

    def pods_of(self, id: GangId) -> Sequence[Pod]:
        """Return the pods of a gang that the watch shows."""

    def on_node(self, node: str) -> Sequence[Pod]:
        """Return the scheduler's pods that are bound to a Kubernetes node."""


class GangsView(Protocol):
    """The part of a `pods.gangs.Gangs` that may be read without changing it."""

    def of(self, record: RecordView) -> Recognised:
        """Return the gang as it is now, and store nothing."""
