"""How many TokenReviews may be spent on calls that prove nothing: whoever reaches the port can send tokens.

Reading what a token says of itself costs nothing, so the apiserver is asked only about tokens that name a slurmd pod of
this cluster. Each pod has a few reviews from each address. An address that sent a refused token has a few in all,
whichever pods they name, until none was refused for a while. A call above a limit is refused at once and may be
repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import cachetools

_POD_AT_ONCE, _POD_EACH_S = 5.0, 1.0
_SUSPECT_AT_ONCE, _SUSPECT_EACH_S, _SUSPECT_S = 20.0, 2.0, 60.0
_REMEMBERED = 20_000


class Buckets:
    """For each key `at_once`, and `each_s` more in each second after that. Only the newest keys are remembered."""

    def __init__(self, *, at_once: float, each_s: float, clock: Callable[[], float]) -> None:
        self._at_once = at_once
        self._each_s = each_s
        self._clock = clock
        self._left: cachetools.LRUCache[Hashable, tuple[float, float]] = cachetools.LRUCache(maxsize=_REMEMBERED)

    def take(self, key: Hashable) -> bool:
        """Take the right to one review; False when there is none."""
        left = self._left_of(key)
        self._left[key] = (max(0.0, left - 1.0), self._clock())
        return left >= 1.0

    def give_back(self, key: Hashable) -> None:
        """Give back a right that was taken."""
        self._left[key] = (self._left_of(key) + 1.0, self._clock())

    def _left_of(self, key: Hashable) -> float:
        left, at = self._left.get(key, (self._at_once, 0.0))
        return min(self._at_once, left + (self._clock() - at) * self._each_s)


class ReviewLimits:
    """For tokens that were not accepted yet; `peer` is the address of the caller."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._of_pods = Buckets(at_once=_POD_AT_ONCE, each_s=_POD_EACH_S, clock=clock)
        self._of_suspects = Buckets(at_once=_SUSPECT_AT_ONCE, each_s=_SUSPECT_EACH_S, clock=clock)
        self._suspects: cachetools.TTLCache[str, bool] = cachetools.TTLCache(_REMEMBERED, ttl=_SUSPECT_S, timer=clock)

    def may_ask(self, peer: str, uid: str) -> bool:
        """Whether the apiserver may be asked about one more token of this pod from there."""
        if not self._of_pods.take((peer, uid)):
            return False
        return peer not in self._suspects or self._of_suspects.take(peer)

    def was_accepted(self, peer: str) -> None:
        """Do not count a token that was accepted."""
        if peer in self._suspects:
            self._of_suspects.give_back(peer)

    def was_refused(self, peer: str) -> None:
        """The token was refused."""
        self._suspects[peer] = True
