"""What the scheduler counts: `sunkpy_scheduler_*`."""

from __future__ import annotations

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30, 60, 300, 1800, 7200)


class SchedulerMetrics:
    """Counters and histograms of one scheduler."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        seconds = partial(Histogram, buckets=_SECONDS, registry=registry)
        self.bind_seconds = seconds(
            "sunkpy_scheduler_bind_seconds", "Seconds from when the scheduler first sees a pod to its binding"
        )
        self.handover_seconds = seconds(
            "sunkpy_scheduler_handover_seconds", "Seconds from a job's epilog until its pods are gone"
        )
        handing_over = "Gangs, by `state`. If many stay `handing-over`, their pods do not end"
        self.gangs = gauge("sunkpy_scheduler_gangs", handing_over, ["state"])
        results = "Jobs submitted, by `result`: `queued`, `at once` (allocations), `failed`"
        self.submits = counter("sunkpy_scheduler_submits", results, ["result"])
        self.binds = counter("sunkpy_scheduler_binds", "Bindings of pods, by `result`. Watch `failed`", ["result"])
        claims = "ResourceClaims, by `result`: `allocated`, `taken back` (from pods that were not bound), `failed`"
        self.claims = counter("sunkpy_scheduler_claims", claims, ["result"])
        self.device_refusals = counter(
            "sunkpy_scheduler_device_refusals",
            "Pods that waited for their devices or gave their job back, by `reason`. `taken`, `twice`, `ending`: a "
            "device would have had two owners",
            ["reason"],
        )
        self.evictions = counter(
            "sunkpy_scheduler_evictions", "Pods that the scheduler has evicted, by `reason`", ["reason"]
        )
        self.cancels = counter("sunkpy_scheduler_cancels", "Jobs that the scheduler has cancelled")
        codes = (
            "Calls of Prologs and Epilogs, by `code`. 401 or 403: a token is refused. 503: Slurm or "
            "Kubernetes cannot be read"
        )
        self.hooks = counter("sunkpy_scheduler_hooks", codes, ["hook", "code"])
        self.failed_looks = counter(
            "sunkpy_scheduler_failed_looks",
            "Gangs that could not be judged again. Above 0 it is a bug, or a node with impossible data. The "
            "log line `not judged again` names gang and error",
        )
        odd = (
            "Objects that the scheduler cannot read or handle, by `kind`. It leaves them alone; see the log "
            "line `odd object`"
        )
        self.odd_objects = counter("sunkpy_scheduler_odd_objects", odd, ["kind"])
        self.poll_age_seconds = gauge(
            "sunkpy_scheduler_poll_age_seconds",
            "Age of the newest job states. If it is above ten seconds while pods run, Slurm cannot be read",
        )
