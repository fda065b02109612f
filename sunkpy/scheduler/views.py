"""What collecting sees of memory: it can read it, and write nothing of it. The type checker holds that."""

# ruff: noqa: D102 - each is described where it is written

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.job.job import Job
from sunkpy.core.gang.snapshot import Snapshot
from sunkpy.core.model.objects import Pod, PodSpec
from sunkpy.core.model.states import JobId
from sunkpy.core.placement.eligibility import Eligibility
from sunkpy.runtime.verdicts import Verdict
from sunkpy.scheduler.record import Recognised


class RecordView(Protocol):
    """A `record.Record`."""

    @property
    def id(self) -> GangId: ...
    @property
    def seen_at(self) -> float: ...
    @property
    def jobs(self) -> Mapping[JobId, Job]: ...
    @property
    def bound_to(self) -> JobId | None: ...
    @property
    def refusals(self) -> Mapping[str, tuple[str, float]]: ...
    @property
    def templates(self) -> tuple[Verdict[PodSpec, Eligibility], ...]: ...
    @property
    def decided_on(self) -> tuple[Verdict[PodSpec, Eligibility], ...] | None: ...
    @property
    def avoided(self) -> tuple[Verdict[Sequence[Pod], Mapping[str, str]], ...]: ...
    @property
    def recognised(self) -> Recognised: ...
    @property
    def is_doubted(self) -> bool: ...
    @property
    def ended(self) -> Mapping[str, Pod]: ...
    def as_bound(self, pod: Pod) -> Pod: ...
    def eligibility(self, eligibility: Eligibility) -> Eligibility: ...
    def may_go_on(self, usable: tuple[str, ...], *, now: float) -> bool: ...
    def snapshot(self, seen: Recognised, *, placed: dict[str, str], now: float) -> Snapshot: ...


class LedgerView(Protocol):
    """A `ledger.Ledger`."""

    @property
    def all_jobs_known(self) -> bool: ...
    def other_generations(self, id: GangId) -> Sequence[RecordView]: ...


class PodsView(Protocol):
    """A `pods.index.PodIndex`."""

    def find_id(self, pod: Pod) -> GangId | None: ...
    def pods_of(self, id: GangId) -> Sequence[Pod]: ...
    def on_node(self, node: str) -> Sequence[Pod]: ...


class GangsView(Protocol):
    """A `pods.gangs.Gangs`."""

    def of(self, record: RecordView) -> Recognised: ...
