"""Checks whether the apiserver still answers the requests of a leader.

The Lease is renewed over connections of its own. So a leader whose other requests are never answered would keep the
Lease, and no other replica could take over. To prevent that, the leader's `/healthz` fails, and the kubelet restarts
it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from sunkpy.kube import errors
from sunkpy.kube.client import Kube

ASKED_EACH_S: Final = 5.0
SILENT_S: Final = 10.0


class Pulse:
    """Checks whether the apiserver still answers the requests of one client. `clock` is in seconds."""

    def __init__(self, kube: Kube, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._kube = kube
        self._clock = clock
        self._heard_at: float | None = None

    async def follow(self, each_s: float = ASKED_EACH_S) -> None:
        """Send a small request again and again, until cancelled."""
        self._heard_at = self._clock()
        try:
            while True:
                await asyncio.sleep(each_s)
                if await self._is_answered():
                    self._heard_at = self._clock()
        finally:
            self._heard_at = None

    def problem(self) -> str | None:
        """Return a text if no request of `follow` was answered for more than 10 s; None otherwise, or if `follow` does
        not run.
        """
        silent_s = self._clock() - self._heard_at if self._heard_at is not None else 0.0
        if silent_s <= SILENT_S:
            return None
        return f"no request was answered for {silent_s:.0f} s, although the lease is renewed"

    async def _is_answered(self) -> bool:
        try:
            await self._kube.request("GET", "/version")
        except errors.Unavailable:
            return False
        except errors.KubeError:  # also a refusal is an answer
            return True
        return True
