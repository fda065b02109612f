"""Ends the process if its work goes on after the lease has ended, even if its event loop hangs."""

from __future__ import annotations

import faulthandler
import sys
from typing import Protocol


class Watchdog(Protocol):
    """A timer that ends the process unless it is set again (`arm`) or stopped (`disarm`) in time."""

    def arm(self, after_s: float) -> None:
        """End the process after this number of seconds. It replaces the time that an earlier call has set."""

    def disarm(self) -> None:
        """Stop the timer, so that the process is not ended."""


class ExitWatchdog:
    """A watchdog that ends the process with exit code 1, and writes on stderr where each thread stood.

    It waits in a thread outside of the interpreter, so code that never returns to the event loop, or holds the
    interpreter, does not stop it. It reads frames that may change meanwhile, so now and then the process ends by
    SIGSEGV instead (python/cpython#116008).
    """

    def arm(self, after_s: float) -> None:
        """End the process after this number of seconds. It replaces the time that an earlier call has set."""
        faulthandler.dump_traceback_later(max(after_s, 0.001), exit=True, file=sys.__stderr__ or 2)

    def disarm(self) -> None:
        """Stop the timer, so that the process is not ended."""
        faulthandler.cancel_dump_traceback_later()
