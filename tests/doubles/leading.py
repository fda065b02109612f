"""What the parts of a scheduler are made with, for a test of one part by itself."""

import time

from prometheus_client import CollectorRegistry

from sunkpy.kube.events import EventRecorder
from sunkpy.runtime.queue import QueueMetrics
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.scheduler.leader import Leader
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.scheduler.pods.writer import PodWriter
from sunkpy.scheduler.settings import SchedulerSettings


def make_leader(slurm=None, *, kube=None, clock=time.monotonic, **settings):
    """A leader that asks this Slurm and this Kubernetes; none is asked by a part that needs none."""
    registry = CollectorRegistry()
    known = SlurmSettings(url="http://127.0.0.1:1", user="k8s", token_file="unused")
    return Leader(
        kube=kube,
        slurm=slurm,
        settings=SchedulerSettings(cluster="test", namespace="slurm", slurm=known, **settings),
        metrics=SchedulerMetrics(registry),
        queues=QueueMetrics(registry),
        clock=clock,
        ledger=Ledger(clock),
        events=EventRecorder(kube, component="scheduler", instance="test"),
        pods=PodWriter(kube),
    )
