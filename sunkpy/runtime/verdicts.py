"""Answers that are worked out once for all pods of a template. They are worked out again when somebody asks after a
change that matters to them.

A value that comes out as before is the same: so it is cheap to see which gangs that wait a change concerns.

Templates belong to the verdicts that were made from them, and are dropped with the last of these: a change may look at
all that are there, and pods that ever ran are without number. The few that were asked for last stay a moment, until
somebody holds them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar
from weakref import WeakSet, WeakValueDictionary

import cachetools

T = TypeVar("T")
V = TypeVar("V")

_ASKED_LAST: Final = 64
_FEW_TOPICS: Final = 256


@dataclass(slots=True, eq=False, weakref_slot=True)
class _Template(Generic[T, V]):
    """What is asked, and the answer; `is_current`: nothing has changed since that matters."""

    key: bytes
    template: T
    value: V
    is_current: bool = True


@dataclass(slots=True, eq=False)
class CachedVerdict(Generic[T, V]):
    """The value for a template, as it was when asked for. Without a template it always holds."""

    value: V
    template: _Template[T, V] | None = None


class Verdicts(Generic[T, V]):
    """Kept answers to one question, each for a template. `work_out` finds an answer. `topics` names what a template is
    about, so that a change looks only at templates with its topic.
    """

    def __init__(self, work_out: Callable[[T], V], *, topics: Callable[[T], Iterable[Hashable]] = lambda _: ()) -> None:
        self._work_out = work_out
        self._topics = topics
        self._about: dict[Hashable, WeakSet[_Template[T, V]]] = {}
        self._most_topics = _FEW_TOPICS
        self._known: WeakValueDictionary[bytes, _Template[T, V]] = WeakValueDictionary()
        self._asked_last: cachetools.LRUCache[bytes, _Template[T, V]] = cachetools.LRUCache(_ASKED_LAST)

    def __len__(self) -> int:
        return len(self._known)

    def of(self, key: bytes, template: T) -> CachedVerdict[T, V]:
        """The verdicts for templates with this key."""
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _Template(key, template, self._work_out(template))
            self._index(known)
        self._asked_last[key] = known
        return CachedVerdict(self._now(known), known)

    def holds(self, verdict: CachedVerdict[T, V]) -> bool:
        """True if the verdict would be the same now."""
        template = verdict.template
        if template is None:
            return True
        return self._known.get(template.key) is template and self._now(template) is verdict.value

    def forget(self, topic: Hashable | None = None) -> None:
        """Drop the answers about a topic, or all, because something else that decides with them has changed."""
        if topic is None:
            self._known.clear()
            self._about.clear()
            self._asked_last.clear()
            return
        for each in tuple(self._about.pop(topic, ())):
            if self._known.get(each.key) is each:
                del self._known[each.key]
            self._asked_last.pop(each.key, None)

    def doubt(
        self, is_concerned: Callable[[T], bool] = lambda _: True, *, about: Iterable[Hashable] | None = None
    ) -> bool:
        """Work the answers out again when somebody asks. True if this concerns any of them, among all or among those
        about one of these topics.
        """
        among = (
            self._known.values() if about is None else {each for topic in about for each in self._about.get(topic, ())}
        )
        concerned = [each for each in among if each.is_current and is_concerned(each.template)]
        for each in concerned:
            each.is_current = False
        return bool(concerned)

    def _index(self, known: _Template[T, V]) -> None:
        for topic in self._topics(known.template):
            self._about.setdefault(topic, WeakSet()).add(known)
        if len(self._about) > self._most_topics:  # most may be those of templates that are gone
            self._about = {topic: those for topic, those in self._about.items() if those}
            self._most_topics = max(_FEW_TOPICS, 2 * len(self._about))

    def _now(self, known: _Template[T, V]) -> V:
        if not known.is_current:
            value = self._work_out(known.template)
            known.value = known.value if known.value == value else value
            known.is_current = True
        return known.value
