"""The gate: the prolog of a job, whoever made it, asks whether pods of earlier jobs have left its node.

Asked only on nodes where a placeholder job has left a mark, for Slurm forgets an epilog that was cut short. A pod whose
own job was lost, not ended, is let live as long as its node is nobody else's: when it is, and no new job came to cover
the pod meanwhile, the pod has to go.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from sunkpy.core.gang.hooks import gate_waits_for
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.view import has_left_node
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId, is_job_ended
from sunkpy.runtime.queue import WorkQueue
from sunkpy.scheduler.calls import HookAnswer, HookCall
from sunkpy.scheduler.collect import Collector
from sunkpy.scheduler.entries import GangEntry
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.members import MemberIndex
from sunkpy.slurm import Slurm

COVER_PATIENCE_S = 10.0
_LONG_POLL_S = 20.0
_LOOK_AGAIN_S = 1.0


class Gate:
    """Answers for all nodes of the cluster."""

    def __init__(
        self,
        *,
        slurm: Slurm,
        collector: Collector,
        members: MemberIndex,
        ledger: Ledger,
        queue: WorkQueue[GangId],
        clock: Callable[[], float],
    ) -> None:
        self._slurm = slurm
        self._collector = collector
        self._members = members
        self._ledger = ledger
        self._queue = queue
        self._clock = clock
        self._log = structlog.get_logger("gate")

    async def ask(self, call: HookCall, caller: Pod) -> HookAnswer:
        """Open, or what it waits for; when it opens, which of the marks on the node stand for nothing any more.

        Raises:
            SlurmError: Slurm could not be asked about a mark that nobody here knows.
        """
        began = self._clock()
        while True:
            blocked = self._blocked(call, caller.spec.node_name)
            if blocked is None:
                return HookAnswer(done=True, over=await self._over(call.marked))
            entry, why = blocked
            waited_s = self._clock() - began
            if entry is not None and waited_s >= COVER_PATIENCE_S:
                self._displace(entry, call)
            if waited_s >= _LONG_POLL_S:
                return HookAnswer(done=False, why=why)
            if entry is None:
                return HookAnswer(done=False, why=why)
            await entry.next_change().wait_for(_LOOK_AGAIN_S)

    def _blocked(self, call: HookCall, node: str) -> tuple[GangEntry | None, str] | None:
        """The first gang on the node that keeps the gate shut, and why."""
        for pod in self._members.on_node(node):
            entry = self._ledger.get(self._members.id_of(pod))
            if entry is None:
                if not has_left_node(pod):
                    return None, f"pod {'/'.join(pod.key)} is on the node and its gang is not known yet"
                continue
            why = gate_waits_for(self._collector.view(entry), call.job_id, call.node)
            if why is not None:
                return entry, why
        return None

    def _displace(self, entry: GangEntry, call: HookCall) -> None:
        """Slurm has given the node to this job. Of a gang whose job was lost, the pods there go."""
        own = self._collector.view(entry).bound_job
        if (own is None or own.is_lost) and call.node not in entry.displaced:
            self._log.warning("displaced", gang=str(entry.id), node=call.node, by=call.job_id)
            entry.displaced[call.node] = call.job_id
            self._queue.add(entry.id)

    async def _over(self, marked: tuple[JobId, ...]) -> tuple[JobId, ...]:
        """The marks of jobs that hold nothing: ended, or not known to Slurm at all. Asked once the gate is open."""
        unknown = [job for job in marked if not self._holds(job)]
        if not unknown:
            return ()
        states = await self._slurm.jobs_state(unknown)
        return tuple(job for job in unknown if job not in states or is_job_ended(states[job]))

    def _holds(self, job: JobId) -> bool:
        """A gang is known to live under the job, or to have been bound under it and to be there still."""
        entry = self._ledger.by_job(job)
        if entry is None:
            return False
        view = self._collector.view(entry)
        is_live = any(known.id == job and known.is_live for known in view.jobs)
        return is_live or (view.bound_to == job and not all(has_left_node(pod) for pod in view.pods))
