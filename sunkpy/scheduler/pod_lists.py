"""Lists of the pods of a namespace: one serves all who ask about the same time.

After many pods were deleted while nobody led, each of their jobs is a gang of which no pod is known, and each looks
through its namespace.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from sunkpy.core.model.objects import Pod
from sunkpy.kube import paths
from sunkpy.kube.client import Kube


@dataclass(slots=True, eq=False)
class _Lists:
    """Of one namespace: how many were sent, which of them `pods` came from, how many wait for one."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    sent: int = 0
    number: int = 0
    pods: list[Pod] = field(default_factory=list)
    waiting: int = 0


class PodLists:
    """By namespace, and kept only as long as somebody waits for them."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._lists: dict[str, _Lists] = {}

    async def of(self, namespace: str) -> list[Pod]:
        """The pods of a namespace, by an answer to a question that was sent after this call.

        Raises:
            KubeError: they could not be listed.
        """
        lists = self._lists.setdefault(namespace, _Lists())
        before = lists.sent
        lists.waiting += 1
        try:
            async with lists.lock:
                if lists.number <= before:
                    lists.sent += 1
                    number = lists.sent
                    lists.pods = await self._kube.list_objects(paths.pods(namespace), Pod)
                    lists.number = number
                return lists.pods
        finally:
            lists.waiting -= 1
            if not lists.waiting:
                del self._lists[namespace]
