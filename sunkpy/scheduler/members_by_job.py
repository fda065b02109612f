"""Members that a new leader knows by the job that has their node, and by nothing that they say themselves.

What stands above a pod may be unreadable, and what it says of its gang may have been written otherwise since it was
bound. A leader that remembers the pod keeps it where it is (`sunkpy.scheduler.members`); so does the next one. Were it
not so, a job without pods would end beside the pods that it brought.

What a pod notes may be written otherwise, too. So one that is a gang by itself, by what it says, stays so, or returns
to it, if it has a job there of its own. All else that it says counts for less than its note, which whoever may not bind
pods cannot change.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from sunkpy.core.gang.gang import extra_pod
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model import hostlist
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId, SlurmJob, holds_something, is_job_ended, is_job_pending
from sunkpy.scheduler.cluster import Cluster
from sunkpy.scheduler.entries import JobEntry
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.members import MemberIndex
from sunkpy.scheduler.noted_jobs import noted_job


class MembersByJob:
    """Moves pods into the gangs of their jobs. A pod of another namespace cannot get under a job by writing its id."""

    def __init__(self, *, cluster: Cluster, members: MemberIndex, ledger: Ledger) -> None:
        self._cluster = cluster
        self._members = members
        self._ledger = ledger
        self._said: dict[str, GangId] = {}
        self._given_back: set[str] = set()
        self._done: set[JobId] = set()
        self._log = structlog.get_logger("leader")

    @property
    def has_claimed(self) -> bool:
        """Some pods are in the gang of their job, whatever they say."""
        return bool(self._said)

    def claim_aside(self, pod: Pod, id: GangId, job: SlurmJob) -> None:
        """The gang of a pod above which something could not be read, if the job has its node."""
        node = self._cluster.slurm_node_on(pod.spec.node_name)
        if id.namespace == pod.metadata.namespace and node in hostlist.expand(job.nodes):
            self._log.warning("gang known by its job alone", pod="/".join(pod.key), gang=str(id))
            self._members.adopt(pod, id)

    def claim_once(self, id: GangId, job: JobId, slurm_nodes: Iterable[str]) -> None:
        """`claim`, if that was not done: the hooks of all its nodes call."""
        if job not in self._done and (nodes := tuple(slurm_nodes)):
            self._done.add(job)
            self.claim(id, job, nodes)

    def claim(self, id: GangId, job: JobId, slurm_nodes: Iterable[str]) -> None:
        """The pods on the nodes of a job that are noted under it, and are of another gang by what they say now.

        The job of a single pod that is there is not believed of another one; nor is that of a pod which is a gang of
        its own beside another.
        """
        single = self._members.find(id.uid)
        for slurm_node in slurm_nodes:
            node = self._cluster.node_behind(slurm_node)
            for pod in self._members.on_node(node.name) if node is not None else ():
                said = self._members.find_id(pod)
                if noted_job(pod) != job or said is None or extra_pod(said) or extra_pod(id) not in ("", pod.uid):
                    continue
                is_named = _names(id, pod)
                is_doubted = not is_named and _names(said, pod)
                if is_doubted and (pod.uid in self._given_back or self._may_have(said, slurm_node)):
                    continue  # the note is wrong, or may be
                if said != id and said.namespace == id.namespace and (is_named or single is None):
                    self._log.warning("stays in the gang of its job", pod="/".join(pod.key), gang=str(id))
                    if is_doubted:
                        self._said[pod.uid] = said
                    self._members.adopt(pod, id)

    def give_back(self, id: GangId, state: frozenset[str], slurm_nodes: Iterable[str]) -> None:
        """This gang has a job on these nodes: the note of pods there that say to be its own was a wrong one."""
        theirs = [uid for uid, said in self._said.items() if said == id and holds_something(state)]
        nodes = set(slurm_nodes) if theirs else set()
        for uid in theirs:
            pod = self._members.find(uid)
            if pod is None:
                del self._said[uid]
            elif self._cluster.slurm_node_on(pod.spec.node_name) in nodes:
                del self._said[uid]
                self._given_back.add(uid)
                self._log.warning("noted under another gang's job", pod="/".join(pod.key), gang=str(id))
                self._members.adopt(pod, id)

    def _may_have(self, id: GangId, slurm_node: str) -> bool:
        """The gang has a job there, or one of which nobody knows where it is."""
        entry = self._ledger.get(id)
        return entry is not None and any(_may_be_on(job, slurm_node) for job in entry.jobs.values())


def _names(id: GangId, pod: Pod) -> bool:
    """The gang is this pod alone: of no other does its job say so."""
    return pod.uid in (id.uid, extra_pod(id))


def _may_be_on(job: JobEntry, slurm_node: str) -> bool:
    is_over_or_waits = is_job_ended(job.state) or is_job_pending(job.state)
    return not is_over_or_waits and (not job.nodes or slurm_node in job.nodes)
