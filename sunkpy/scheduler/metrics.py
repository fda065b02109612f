"""The Prometheus metrics of the scheduler. Their names begin with `sunkpy_scheduler_`."""

from __future__ import annotations

from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30, 60, 300, 1800, 7200)


class SchedulerMetrics:
    """The Prometheus metrics of one scheduler process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        counter, gauge = partial(Counter, registry=registry), partial(Gauge, registry=registry)
        seconds = partial(Histogram, buckets=_SECONDS, registry=registry)
        self.bind_seconds = seconds(
            "sunkpy_scheduler_bind_seconds",
            "Seconds from when the scheduler first sees a workload pod until it has bound the pod to a node",
        )
        self.handover_seconds = seconds(
            "sunkpy_scheduler_handover_seconds",
            "Seconds from the first call of a job's epilog until the job's pods have left the node",
        )
        self.oldest_handover_seconds = gauge(
            "sunkpy_scheduler_oldest_handover_seconds",
            "Seconds that an epilog has waited for the pods of its job to leave the node; the longest of all epilogs "
            "that wait now, 0 if none waits",
        )
        self.gangs = gauge("sunkpy_scheduler_gangs", "Gangs that the scheduler knows, by `state`", ["state"])
        results = (
            "Jobs that the scheduler submitted to Slurm, by `result`: `queued`; `at once`, an allocation that "
            "started immediately; `failed`"
        )
        self.submits = counter("sunkpy_scheduler_submits", results, ["result"])
        self.binds = counter(
            "sunkpy_scheduler_binds", "Bindings of workload pods to nodes, by `result`. Watch `failed`", ["result"]
        )
        claims = (
            "ResourceClaims to which the scheduler gave devices, by `result`: `allocated`; `taken back`, because "
            "the pod was not bound; `failed`"
        )
        self.claims = counter("sunkpy_scheduler_claims", claims, ["result"])
        self.device_refusals = counter(
            "sunkpy_scheduler_device_refusals",
            "How often the scheduler did not bind a pod because of its devices, by `reason`. `taken`, `twice`, "
            "`ending`: a device would have had two owners",
            ["reason"],
        )
        self.evictions = counter(
            "sunkpy_scheduler_evictions",
            "Workload pods that the scheduler has evicted, by `reason` of their Event",
            ["reason"],
        )
        self.cancels = counter("sunkpy_scheduler_cancels", "Slurm jobs that the scheduler has cancelled")
        codes = (
            "Calls of Prologs and Epilogs to the scheduler, by the HTTP `code` of its answer. 401 or 403: the "
            "node's token is refused. 503: the scheduler cannot read Slurm or Kubernetes"
        )
        self.hooks = counter("sunkpy_scheduler_hooks", codes, ["hook", "code"])
        self.failed_looks = counter(
            "sunkpy_scheduler_failed_looks",
            "How often the scheduler failed to decide about a gang after a change. Above 0 it is a bug, or a node "
            "with impossible data. The log line `not judged again` names gang and error",
        )
        odd = (
            "Kubernetes objects that the scheduler cannot read or handle, by `kind`. It ignores them; see the log "
            "line `odd object`"
        )
        self.odd_objects = counter("sunkpy_scheduler_odd_objects", odd, ["kind"])
        self.poll_age_seconds = gauge(
            "sunkpy_scheduler_poll_age_seconds",
            "Seconds since the scheduler last read the states of jobs. If it is above ten while pods run, Slurm "
            "cannot be read",
        )
