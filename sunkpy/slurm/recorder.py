"""Where the client reports what it did, and a recorder that drops the reports. The processes have
`sunkpy.slurm.prometheus`.
"""

from __future__ import annotations

from typing import Protocol


class Recorder(Protocol):
    """Records every request that left this process."""

    def answered(self, endpoint: str, *, code: str, seconds: float) -> None:
        """`endpoint` is a template such as `node/{name}`; `code` is `ok` or the error's."""

    def retried(self, endpoint: str) -> None:
        """A request is about to be sent again."""

    def exchanged(self, endpoint: str, *, size: int) -> None:
        """A request was answered; `size` is the bytes of both bodies."""


class Silent:
    """A recorder that records nothing, for tests and for programs without metrics."""

    def answered(self, endpoint: str, *, code: str, seconds: float) -> None:
        """See Recorder."""

    def retried(self, endpoint: str) -> None:
        """See Recorder."""

    def exchanged(self, endpoint: str, *, size: int) -> None:
        """See Recorder."""
