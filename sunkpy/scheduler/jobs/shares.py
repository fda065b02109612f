"""How many jobs the pods of one namespace make in a while.

slurmctld keeps an ended job for minutes, and when its table is full it refuses each new one, whoever submits it. So
pods that come and go fast, a few at a time, would keep everybody from Slurm, and no quota of pods holds them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

WINDOW_S: Final = 300.0
"""Slurm's MinJobAge, if a site sets no other."""
_AGAIN_S: Final = 15.0
"""Thousands may wait for the next to be free, and each look is a pass."""


class Shares:
    """Limits the jobs of a namespace to `most` within `WINDOW_S`, 0 for any number; each leader counts for itself.
    `clock` is in seconds.
    """

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self._most = most
        self._clock = clock
        self._made_at: dict[str, deque[float]] = {}

    def note(self, namespace: str) -> None:
        """A job was made for pods of the namespace."""
        if self._most:
            self._made_at.setdefault(namespace, deque(maxlen=self._most)).append(self._clock())

    def wait_s(self, namespace: str) -> float:
        """Seconds until it may have another; 0: now."""
        made_at, since = self._made_at.get(namespace, deque[float]()), self._clock() - WINDOW_S
        while made_at and made_at[0] <= since:
            made_at.popleft()
        if not made_at:
            self._made_at.pop(namespace, None)
        return max(made_at[0] - since, _AGAIN_S) if len(made_at) == self._most > 0 else 0.0

    def explain(self, namespace: str) -> str:
        """Why one has to wait, in words."""
        return (
            f"the pods of namespace {namespace} have made {self._most} Slurm jobs within {WINDOW_S / 60:.0f} minutes, "
            "which is the limit of a namespace (scheduler.namespaceShare of the Slurm cluster): more are submitted as "
            "these get older"
        )
