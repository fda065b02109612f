"""Makes slurmctld try to start pending jobs when nodes become free for jobs.

slurmctld does not try when a new node registers. It tries at once when a drain is lifted or a node is resumed, but may
pass over the node, because its slurmd has not answered yet. Then jobs wait for Slurm's backfill. slurmctld also tries
after any update of any node, even an empty one.
"""

from __future__ import annotations

import asyncio

import structlog

from sunkpy.slurm import NodeCache, NodeChange, Slurm
from sunkpy.slurm.errors import SlurmError


class QueueWaker:
    """Makes slurmctld try to start pending jobs: it sends one empty update of a node when an answer of Slurm shows
    nodes as open that were not open in the answer before.
    """

    def __init__(self, slurm: Slurm, nodes: NodeCache) -> None:
        self._slurm = slurm
        self._nodes = nodes
        self._open: set[str] | None = None
        self._opened = ""
        self._is_due = asyncio.Event()
        self._log = structlog.get_logger("syncer")
        nodes.add_listener(self._on_answer)

    async def run(self) -> None:
        """Send an empty update of a node each time nodes have become open, until cancelled. A failed update is not
        repeated, because Slurm's backfill comes anyway.
        """
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            try:
                await self._slurm.update_node(self._opened, NodeChange())
            except SlurmError as error:
                self._log.info("slurmctld was not woken: waiting jobs start with its next backfill", error=str(error))

    def _on_answer(self, changed: frozenset[str]) -> None:
        nodes = self._nodes.observation.nodes if self._nodes.observation is not None else {}
        if self._open is None:  # the first answer of a new leader opens no nodes
            self._open = {name for name, node in nodes.items() if node.is_open}
            return
        now_open = {name for name in changed if name in nodes and nodes[name].is_open}
        opened = now_open - self._open
        self._open = self._open - changed | now_open
        if opened:
            self._opened = min(opened)
            self._is_due.set()
