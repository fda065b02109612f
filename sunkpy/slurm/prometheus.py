"""Metrics of the client of slurmrestd. Only the processes import this module; a person's command has no metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Histogram


class PrometheusRecorder:
    """Records requests to slurmrestd in the Prometheus metrics `sunkpy_slurm_request_seconds{endpoint,code}`,
    `sunkpy_slurm_retries_total{endpoint}` and `sunkpy_slurm_bytes_total{endpoint}`.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "sunkpy_slurm_request_seconds",
            "Seconds that one request to slurmrestd took, by `endpoint` and `code`. Watch any `code` other than `ok`",
            ["endpoint", "code"],
            registry=registry,
        )
        self._retries = Counter(
            "sunkpy_slurm_retries",
            "Requests to slurmrestd that the process sent again after a failure",
            ["endpoint"],
            registry=registry,
        )
        self._bytes = Counter(
            "sunkpy_slurm_bytes",
            "Bytes of the requests to slurmrestd and of its answers together, by `endpoint`",
            ["endpoint"],
            registry=registry,
        )

    def answered(self, endpoint: str, *, code: str, seconds: float) -> None:
        """Record how many seconds a request took, and its result (`code`: `ok` or the error's code)."""
        self._seconds.labels(endpoint, code).observe(seconds)

    def retried(self, endpoint: str) -> None:
        """Count a request that is about to be sent again."""
        self._retries.labels(endpoint).inc()

    def exchanged(self, endpoint: str, *, size: int) -> None:
        """Count the bytes of a request and its answer together."""
        self._bytes.labels(endpoint).inc(size)
