"""What an administrator does by hand after slurmctld was killed, as docs/troubleshooting.md says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from tests.integration.slurm.faults.judge import LAUNCH_S, RETRY_S
from tests.integration.slurm.faults.load import LONGEST_S
from tests.integration.slurm.faults.record import Queued, Run, Task
from tests.integration.slurm.site import Site

_DRAINED = "Duplicate jobid"
_REVOKED_S = 2.0
"""In the second in which slurmctld revoked a job on a node, the node does not start the job again, and it fails."""


class Admin:
    """`requeued`: jobs that Slurm had running although they had ended."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.requeued: list[Task] = []
        self._waits_since: dict[int, float] = {}

    async def keep_nodes(self) -> None:
        """Until cancelled, resume nodes that were drained because they already ran the job that they were to start."""
        while True:
            await asyncio.sleep(1)
            said = await self._ask("sinfo", "--noheader", "--Node", "--states=drain", "--format=%N|%E")
            for node in sorted(drained(said)):
                await self._ask("scontrol", "update", f"nodename={node}", "state=resume")

    async def start(self, queue: Sequence[Queued]) -> None:
        """What Slurm queued again begins now, and not two minutes later."""
        now_s = time.monotonic()
        waiting = {each.job for each in queue if each.reason == "BeginTime"}
        self._waits_since = {job: self._waits_since.get(job, now_s) for job in waiting}
        for job in sorted(waiting):
            if now_s - self._waits_since[job] >= _REVOKED_S:
                await self._ask("scontrol", "update", f"jobid={job}", "starttime=now")

    async def requeue_ended(self, queue: Sequence[Queued], runs: Sequence[Run]) -> None:
        """Jobs that run although their script has ended run again."""
        for each in queue:
            if has_ended(each, runs, now_s=time.time()) and each.task not in self.requeued:
                self.requeued.append(each.task)
                await self._ask("scontrol", "requeue", each.shown)

    async def close_records(self) -> None:
        """Tell slurmdbd that jobs which slurmctld does not know are over."""
        await self._ask("sacctmgr", "--immediate", "show", "runawayjobs")

    async def _ask(self, *command: str) -> str:
        return (await asyncio.to_thread(self._site.slurm.run_as, "slurm", *command))[1]


def has_ended(queued: Queued, runs: Sequence[Run], *, now_s: float) -> bool:
    """True if the script ended after Slurm last began it, and so long ago that slurmctld should know it.

    A script that Slurm ended to queue the job again wrote no end: then the time counts that no script exceeds.
    """
    if queued.state != "RUNNING" or queued.start_s is None:
        return False
    own = [run for run in runs if (run.job, run.task) == (queued.job, queued.task)]
    last = max(own, key=lambda run: run.begin_s, default=None)
    end_s = last.end_s if last and last.end_s and last.end_s >= queued.start_s else None
    return (queued.start_s + LAUNCH_S + LONGEST_S if end_s is None else end_s) < now_s - RETRY_S - 2


def drained(said: str) -> set[str]:
    """Nodes, of lines `<node>|<reason>`, that Slurm drained because they ran a job already."""
    lines = (line.partition("|") for line in said.splitlines())
    return {node for node, _, reason in lines if reason.strip() == _DRAINED}
