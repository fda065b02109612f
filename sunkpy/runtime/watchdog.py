"""Ends the process if work outlives its lease, whatever its event loop is doing."""

from __future__ import annotations

import faulthandler
import sys
from typing import Protocol


class Watchdog(Protocol):
    """Ends the process unless it is armed again, or disarmed, in time."""

    def arm(self, after_s: float) -> None:
        """End the process after that many seconds; replaces what was set before."""

    def disarm(self) -> None:
        """Let the process live."""


class ExitWatchdog:
    """A watchdog that ends the process with exit code 1, and writes on stderr where each thread stood.

    The wait is in a thread outside of the interpreter: code that never returns to the event loop, or holds the
    interpreter, does not stop it. It reads frames that may be in motion, so that now and then the process ends by
    SIGSEGV instead (python/cpython#116008).
    """

    def arm(self, after_s: float) -> None:
        """End the process after that many seconds; this replaces an earlier call."""
        faulthandler.dump_traceback_later(max(after_s, 0.001), exit=True, file=sys.__stderr__ or 2)

    def disarm(self) -> None:
        """Let the process live."""
        faulthandler.cancel_dump_traceback_later()
