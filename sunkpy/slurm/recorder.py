"""The interface by which the client reports its requests, for metrics. Processes use `sunkpy.slurm.prometheus`."""

from __future__ import annotations

from typing import Protocol


class Recorder(Protocol):
    """Records the requests that this process sends to slurmrestd."""

    def answered(self, endpoint: str, *, code: str, seconds: float) -> None:
        """Record the end of a request. `endpoint`: a template such as `node/{name}`. `code`: `ok`, or the code of the
        error.
        """

    def retried(self, endpoint: str) -> None:
        """Record that a request is about to be sent again."""

    def exchanged(self, endpoint: str, *, size: int) -> None:
        """Record the size of an answered request: the bytes of both bodies."""


class Silent:
    """A recorder that records nothing, for tests and for programs without metrics."""

    def answered(self, endpoint: str, *, code: str, seconds: float) -> None:
        """Do nothing when a request ends."""

    def retried(self, endpoint: str) -> None:
        """Do nothing when a request is sent again."""

    def exchanged(self, endpoint: str, *, size: int) -> None:
        """Do nothing with the size of a request and its answer."""
