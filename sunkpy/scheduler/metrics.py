"""What the scheduler counts: `sunkpy_scheduler_*`."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30, 60, 300, 1800, 7200)


class SchedulerMetrics:
    """Counters and histograms of one scheduler."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.bind_seconds = Histogram(
            "sunkpy_scheduler_bind_seconds",
            "From first seeing a pod to its binding.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.start_to_bind_seconds = Histogram(
            "sunkpy_scheduler_start_to_bind_seconds",
            "From a job's first prolog to the binding of its pod.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.handover_seconds = Histogram(
            "sunkpy_scheduler_handover_seconds",
            "From a job's epilog to the moment its pods are gone.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.gangs = Gauge("sunkpy_scheduler_gangs", "Gangs by state.", ["state"], registry=registry)
        self.submits = Counter("sunkpy_scheduler_submits", "Jobs submitted, by result.", ["result"], registry=registry)
        self.binds = Counter("sunkpy_scheduler_binds", "Bindings, by result.", ["result"], registry=registry)
        self.evictions = Counter(
            "sunkpy_scheduler_evictions", "Pods evicted, by reason.", ["reason"], registry=registry
        )
        self.cancels = Counter("sunkpy_scheduler_cancels", "Jobs cancelled.", registry=registry)
        self.hooks = Counter(
            "sunkpy_scheduler_hooks", "Hook calls, by hook and answer.", ["hook", "code"], registry=registry
        )
        self.illegal_moves = Counter(
            "sunkpy_scheduler_illegal_moves", "Observations that the life cycle does not explain.", registry=registry
        )
        self.failed_looks = Counter("sunkpy_scheduler_failed_looks", "Looks at gangs that failed.", registry=registry)
        self.odd_objects = Counter(
            "sunkpy_scheduler_odd_objects", "Objects that could not be read, by kind.", ["kind"], registry=registry
        )
        self.poll_age_seconds = Gauge(
            "sunkpy_scheduler_poll_age_seconds", "Since the states of jobs were last read.", registry=registry
        )
