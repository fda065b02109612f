"""What all parts of a leader share: clients, settings, metrics, records, writers and the clock. The leader is the
replica of the scheduler that does the work.
"""

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
    """What all parts of the scheduler share while this replica leads: the clients of Kubernetes and Slurm, the settings
    and metrics, the records of all gangs (`ledger`), and the writers of Events (`events`) and of pods (`pods`). `clock`
    returns monotonic seconds.
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
