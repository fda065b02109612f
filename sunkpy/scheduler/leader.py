"""What all parts of one leader are made with. A part names in its constructor only the other parts that it calls."""

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
    """The things with which a leader works: clients, settings, what it remembers of gangs, and where it writes. `clock`
    is monotonic, in seconds.
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
