"""Which kinds nobody has needed for a while, so that their watches, and the copies of their objects, can go.

A kind is needed as long as an object of it stands above a pod that is known, and when somebody looks for one. It may be
needed again a moment later, as by a CronJob or a roll: so it is kept for much longer than it takes to list it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from sunkpy.core.model.objects import Kind

UNNEEDED_S: Final = 600.0
"""A kind is kept for so long after it was last needed."""

LOOK_EACH_S = 60.0


class KindNeeds:
    """When each kind was last needed; `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._always: set[Kind] = set()
        self._last: dict[Kind, float] = {}
        self._askers: list[Callable[[], Iterable[Kind]]] = []

    def add_asker(self, needed: Callable[[], Iterable[Kind]]) -> None:
        """Somebody who says which kinds are needed, whenever that is asked; must not block."""
        self._askers.append(needed)

    def always(self, kind: Kind) -> None:
        """The kind is kept, whether or not a pod needs it."""
        self._always.add(kind)

    def note(self, kind: Kind) -> None:
        """The kind is needed now."""
        self._last[kind] = self._clock()

    def take_unneeded(self) -> list[Kind]:
        """The kinds that nobody has needed for a while; they are told once."""
        for needed in self._askers:
            for kind in needed():
                self.note(kind)
        now = self._clock()
        unneeded = [k for k, last in self._last.items() if now - last >= UNNEEDED_S and k not in self._always]
        for kind in unneeded:
            del self._last[kind]
        return unneeded
