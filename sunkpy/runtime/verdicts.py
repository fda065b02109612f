"""Caches answers that are the same for all pods of a template. A change marks the answers that it concerns as outdated;
each of these is worked out again when somebody asks for it.

If the new answer equals the old one, the old object stays. So it is cheap to see which waiting gangs a change concerns.

A template is kept only while somebody holds an answer about it, because a change may look at all templates, and there
is no bound on the pods that ever ran. In addition, the `_ASKED_LAST` templates that were asked for last are kept.
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
    """A template and its answer. `is_current`: nothing that matters has changed since the answer was worked out."""

    key: bytes
    template: T
    value: V
    is_current: bool = True


@dataclass(slots=True, eq=False)
class CachedVerdict(Generic[T, V]):
    """The answer about a template at the time it was asked for. An answer without a template never becomes outdated."""

    value: V
    template: _Template[T, V] | None = None


class Verdicts(Generic[T, V]):
    """Caches the answers to one question about pod templates. `work_out` finds the answer for a template. `topics`
    returns what the template is about, so that a change looks only at the templates about its topic.
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
        """Return the answer about the template, from the cache if it is not outdated. Templates with the same key are
        equal.
        """
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _Template(key, template, self._work_out(template))
            self._index(known)
        self._asked_last[key] = known
        return CachedVerdict(self._now(known), known)

    def holds(self, verdict: CachedVerdict[T, V]) -> bool:
        """True if asking again now would give the same answer."""
        template = verdict.template
        if template is None:
            return True
        return self._known.get(template.key) is template and self._now(template) is verdict.value

    def forget(self, topic: Hashable | None = None) -> None:
        """Drop the answers about templates with this topic; without a topic, all answers. Call this when something that
        `work_out` reads besides the template has changed.
        """
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
        """Mark answers as outdated, so that each is worked out again when somebody asks. Return True if any was marked.

        `is_concerned` chooses the answers by their template: among all, or with `about` only among those on one of
        these topics.
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
        if len(self._about) > self._most_topics:  # most topics may be of templates that are gone
            self._about = {topic: those for topic, those in self._about.items() if those}
            self._most_topics = max(_FEW_TOPICS, 2 * len(self._about))

    def _now(self, known: _Template[T, V]) -> V:
        if not known.is_current:
            value = self._work_out(known.template)
            known.value = known.value if known.value == value else value
            known.is_current = True
        return known.value
