"""The objects that all parts of one leader share: clients, settings, records, clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder
from sunkpy.runtime.queue import QueueMetrics
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.scheduler.pods.writer import PodWriter
from sunkpy.scheduler.settings import SchedulerSettings
from sunkpy.slurm import Slurm


@dataclass(frozen=True, kw_only=True)
class Leader:
    """The clients, settings and metrics of a leader, its records of gangs (`ledger`), and the writers of Events and
    pods. `clock` is monotonic, in seconds.
    """

    kube: Kube
    slurm: Slurm
    settings: SchedulerSettings
    metrics: SchedulerMetrics
    queues: QueueMetrics
    clock: Callable[[], float]
    ledger: Ledger
    events: EventRecorder
    pods: PodWriter
