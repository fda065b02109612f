"""Lets callers who ask the same share an answer. Each gets the answer to a question that was sent after they called, or
after a time that they give.

Many callers ask the same at once, such as the hooks on all nodes of a gang. A caller that comes while a question is
under way waits for the next one, because the answer to this one may be older than what the caller has just seen.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class FreshAnswer(Generic[T]):
    """Asks one question (`ask`) for many callers, who share its answers. `clock` is monotonic, in seconds."""

    def __init__(self, ask: Callable[[], Awaitable[T]], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._lock = asyncio.Lock()
        self._asked_at = float("-inf")
        self._answer: T | BaseException = LookupError("not asked yet")

    async def get(self, *, sent_after: float | None = None) -> tuple[T, float]:
        """Return an answer, and when its question was sent. The question was sent after this call or, if `sent_after`
        is given, after that time.

        Raises:
            Exception: whatever the question raised. All callers that share the answer get it; a later call asks again.
        """
        came_at = self._clock()
        since = came_at if sent_after is None else sent_after
        async with self._lock:
            if not self._has_answer(since, came_at):
                asked_at = self._clock()
                (answer,) = await asyncio.gather(self._ask(), return_exceptions=True)
                self._answer, self._asked_at = answer, asked_at
            answer, asked_at = self._answer, self._asked_at
        if isinstance(answer, BaseException):
            raise answer
        return answer, asked_at

    def _has_answer(self, since: float, came_at: float) -> bool:
        return self._asked_at > (came_at if isinstance(self._answer, BaseException) else since)


class FreshAnswers(Generic[K, T]):
    """Asks one question about each of many keys. Callers with the same key share answers, which are kept only as long
    as one of these callers waits.
    """

    def __init__(self, ask: Callable[[K], Awaitable[T]], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._answers: WeakValueDictionary[K, FreshAnswer[T]] = WeakValueDictionary()

    async def get(self, key: K) -> tuple[T, float]:
        """Return the answer about one key to a question sent after this call, and when that question was sent.

        Raises:
            Exception: whatever the question raised; all callers that share the answer get it.
        """
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = FreshAnswer(partial(self._ask, key), clock=self._clock)
        return await answer.get()
