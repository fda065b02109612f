"""What is worked out once for all pods of a template, and again when somebody asks after a change that matters to it.

A value that comes out as before is the same verdict: so it is cheap to see which gangs that wait a change concerns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import cachetools

T = TypeVar("T")
V = TypeVar("V")

_TEMPLATES: Final = 4096


@dataclass(slots=True, eq=False)
class Verdict(Generic[T, V]):
    """The value for a template; without a key it always holds."""

    template: T
    value: V
    key: bytes = b""
    is_current: bool = True


class Verdicts(Generic[T, V]):
    """Those of one question; `work_out` answers it."""

    def __init__(self, work_out: Callable[[T], V]) -> None:
        self._work_out = work_out
        self._known: cachetools.LRUCache[bytes, Verdict[T, V]] = cachetools.LRUCache(_TEMPLATES)

    def of(self, key: bytes, template: T) -> Verdict[T, V]:
        """For templates with this key."""
        known = self._known.get(key)
        if known is None or not known.is_current:
            value = self._work_out(template)
            if known is None or known.value != value:
                known = self._known[key] = Verdict(template, value, key)
            known.is_current = True
        return known

    def holds(self, verdict: Verdict[T, V]) -> bool:
        """It would come out the same now."""
        return not verdict.key or (verdict.key in self._known and self.of(verdict.key, verdict.template) is verdict)

    def forget(self) -> None:
        """None holds any more: something else has changed that decides with them."""
        self._known.clear()

    def doubt(self, is_concerned: Callable[[T], bool] = lambda _: True) -> bool:
        """Work them out again when somebody asks; whether there are any that this concerns."""
        concerned = [each for each in self._known.values() if each.is_current and is_concerned(each.template)]
        for each in concerned:
            each.is_current = False
        return bool(concerned)
