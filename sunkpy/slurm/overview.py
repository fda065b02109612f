"""The request to Slurm for all its jobs at once, as commands and the page show them to a person."""

from __future__ import annotations

import asyncio

from sunkpy.core.model import hostlist
from sunkpy.core.model.gres import gres_counts
from sunkpy.core.model.states import is_job_ended
from sunkpy.core.overview.queue import QueuedJob
from sunkpy.slurm.figures import WireJobRow
from sunkpy.slurm.request import Request
from sunkpy.slurm.transport import Transport
from sunkpy.slurm.waiting import tres_amounts
from sunkpy.slurm.wire import ExitCode, Number, Reply


class WireQueuedJob(WireJobRow, frozen=True, kw_only=True):
    """A job in slurmrestd's answer, with the fields that lists of the queue show."""

    name: str = ""
    end_time: Number = Number()
    time_limit: Number = Number()
    array_task_id: Number = Number()
    het_job_offset: Number = Number()
    state_description: str = ""
    exit_code: ExitCode = ExitCode()

    def to_queue(self, scheduler: str) -> QueuedJob:
        """Return the job as lists of the queue show it. `scheduler`: the Slurm user of sunkpy's scheduler.

        If `tres_req_str` has no `gres/gpu`, the GPUs are counted from the request for each node. `ended_s` is 0 for a
        job without a time limit that has not ended: Slurm says that such a job ends a year after its start.
        """
        row = self.to_core(scheduler, None)
        asked = tres_amounts(self.tres_req_str).get("gres/gpu", "")
        gpus = int(asked) if asked.isdecimal() else row.min_nodes * gres_counts(self.tres_per_node).get("gpu", 0)
        return QueuedJob(
            row=row,
            name=self.name,
            qos=self.qos,
            priority=self.priority.value,
            starts_s=self.start_time.value,
            ended_s=0 if self.time_limit.infinite and not is_job_ended(row.state) else self.end_time.value,
            submitted_s=self.submit_time.value,
            gpus=gpus,
            array=self.array_job_id.value,
            tasks=self.array_task_string or (str(self.array_task_id.value) if self.array_task_id.set else ""),
            het_job=self.het_job_id.value,
            het_offset=self.het_job_offset.value,
            exit_code=self.exit_code.return_code.value,
            signal=self.exit_code.signal.id.value,
            required_nodes=tuple(hostlist.expand(self.required_nodes)),
            said=self.state_description,
        )


class QueuedJobsReply(Reply, frozen=True, kw_only=True):
    """The answer to GET jobs/."""

    jobs: tuple[WireQueuedJob, ...] = ()


class OverviewCalls:
    """The methods of `sunkpy.slurm.client.Slurm` that list all jobs for people."""

    _transport: Transport

    async def queued_jobs(self, *, scheduler: str) -> list[QueuedJob]:
        """Read all jobs that Slurm remembers. It takes seconds for thousands of jobs: use it for a person, not in a
        loop. `scheduler`: the Slurm user of sunkpy's scheduler.
        """
        request = Request(what="read the queue", method="GET", endpoint="jobs/", attempts=1)
        reply = await self._transport.ask(request, QueuedJobsReply)
        return await asyncio.to_thread(lambda: [job.to_queue(scheduler) for job in reply.jobs])
