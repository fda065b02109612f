"""An event loop whose clock jumps to the next timer: minutes of waiting pass in milliseconds, the same each time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable, Mapping
from typing import TypeVar

T = TypeVar("T")

_STEP_S = 1e-6  # that code takes, so that no loop stands still in time


class _JumpingSelector(selectors.BaseSelector):
    """Never waits: `now_s` goes on instead."""

    def __init__(self) -> None:
        self._real = selectors.DefaultSelector()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("everything waits for something that never comes")
        self.now_s += max(timeout, _STEP_S)
        return self._real.select(0)

    def register(self, fileobj: selectors._FileObject, events: int, data: object = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: selectors._FileObject) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def get_map(self) -> Mapping[selectors._FileObject, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


class VirtualLoop(asyncio.SelectorEventLoop):
    """For code that waits by timers alone: not for sockets, threads and processes."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s


def run_virtually(main: Awaitable[T]) -> T:
    """`asyncio.run` in virtual time, which begins at 0."""

    async def body() -> T:
        return await main

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(body())
