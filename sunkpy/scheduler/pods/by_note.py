"""Puts each pod that was bound by an earlier leader into the gang under whose job the pod runs, even if the pod's
labels now name another gang. If the pod counted for that other gang, its job would end while the pod still runs.

This module collects the evidence: the binding notes (annotations of bound pods that name gang and job), and what Slurm
says of jobs. A table in `sunkpy.core.gang.evidence` says which evidence is stronger.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import structlog

from sunkpy.core.gang.evidence import Evidence, for_forgotten, for_present, moves, names_pod
from sunkpy.core.gang.gang import solo_pod
from sunkpy.core.gang.identity import GangId, noted_gang, noted_job
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId, is_job_ended, is_job_pending
from sunkpy.runtime.groups import Groups
from sunkpy.scheduler.ledger import Ledger
from sunkpy.scheduler.nodes.cluster import Cluster
from sunkpy.scheduler.pods.index import PodsByGang


class PodsByNote:
    """For each job whose gang the leader does not know yet: the pods whose binding note names the job. A binding note
    consists of annotations that name the gang and job with which a pod was bound.
    """

    def __init__(self, ledger: Ledger, cluster: Cluster, members: PodsByGang) -> None:
        self._cluster = cluster
        self._members = members
        self._ledger = ledger
        self._noted: Groups[JobId, str, str] = Groups()
        self._left: dict[str, GangId] = {}
        self._log = structlog.get_logger("leader")

    def add(self, pod: Pod, job: JobId) -> None:
        """Remember a pod whose binding note names this job, until the job's gang is known."""
        self._noted.put(job, pod.uid, pod.uid)

    def noting(self, job: JobId) -> list[Pod]:
        """Return the remembered pods whose binding note names this job."""
        pods = (self._members.find(uid) for uid in self._noted.of(job))
        return [pod for pod in pods if pod is not None]

    def done(self, job: JobId) -> set[GangId]:
        """Forget the remembered pods whose binding note names this job, because it is known now to which gang the job
        belongs, if to any. Return the ids of the gangs to which these pods belong.
        """
        ids = {self._members.find_id(pod) for pod in self.noting(job)}
        self._noted.pop(job, None)
        return {id for id in ids if id is not None}

    def settle(self, job: JobId, gang: GangId, slurm_nodes: Collection[str]) -> None:
        """Move pods into gang `gang`, because Slurm says that this job belongs to the gang and has these Slurm nodes.
        Three kinds of pods move: pods on these nodes whose binding note names this job and gang; if the gang stands for
        one pod alone, that pod, if its labels, owners or binding note confirm this; and pods on these nodes that had
        left the gang only because Slurm has forgotten the job in their note.
        """
        named = self._members.find(solo_pod(gang) or gang.uid)
        if named is None:
            self._members.expect(gang)
        elif self._members.find_id(named) != gang and names_pod(gang, named):
            self._settle_named(named, job, gang, is_there=self._is_on(named, slurm_nodes))
        for pod, noted in self._bound_under(job):
            if noted == gang and self._is_on(pod, slurm_nodes):
                self._weigh(pod, noted, Evidence.JOB_AND_NOTE)
        self._take_back(gang, slurm_nodes)

    def settle_forgotten(self, job: JobId) -> None:
        """Move the pods whose binding note names this job into the gang that the note names, because Slurm has
        forgotten the job. A pod stays where it is if there is stronger evidence for its present gang, such as a job on
        its node.
        """
        for pod, noted in self._bound_under(job):
            id = self._members.find_id(pod)
            evidence = for_forgotten(noted, id, pod)
            self._weigh(pod, noted, evidence)
            if id is not None and evidence is Evidence.NOTE and self._members.find_id(pod) != id:
                self._left[pod.uid] = id  # a job may be found that contradicts it

    def _take_back(self, gang: GangId, slurm_nodes: Collection[str]) -> None:
        """Move pods on these Slurm nodes back into gang `gang`, because a job of this gang has been found that has the
        nodes. The pods had left the gang only because their annotations name another gang, with a job that Slurm has
        forgotten.
        """
        for uid in [uid for uid, left in self._left.items() if left == gang]:
            pod = self._members.find(uid)
            if pod is not None and self._is_on(pod, slurm_nodes):
                self._move(pod, gang)
                del self._left[uid]

    def _settle_named(self, pod: Pod, job: JobId, gang: GangId, *, is_there: bool) -> None:
        """Move a pod into gang `gang`, whose job says that it stands for this pod alone. The pod moves only if its
        labels or owners say the same, or if its note names the job and it is on the job's node (`is_there`): a user who
        may make pods can get any uid into a job's comment.
        """
        if gang.namespace != pod.metadata.namespace or (pod.spec.node_name and not is_there):
            return
        if self._members.says(pod, gang) or (is_there and noted_job(pod) == job):
            self._weigh(pod, gang, Evidence.OWN_JOB)
        elif self._members.find_id(pod) is None:
            self._members.expect(gang)

    def _bound_under(self, job: JobId) -> Iterator[tuple[Pod, GangId]]:
        """Yield the bound pods whose binding note names this job, each with the gang in the note. A note that names a
        gang of another namespace does not count.
        """
        for pod in self.noting(job):
            gang = noted_gang(pod) if is_noted_on(pod, job) else None
            if gang is not None and gang.namespace == pod.metadata.namespace:
                yield pod, gang

    def _weigh(self, pod: Pod, id: GangId, evidence: Evidence) -> None:
        """Move the pod into gang `id` if this evidence is at least as strong as the evidence for its present gang."""
        present = for_present(self._members.find_id(pod), pod, has_job_there=self._has_job_there(pod))
        if moves(evidence, present) and not self._is_another_pod(id, pod):
            self._move(pod, id)

    def _move(self, pod: Pod, id: GangId) -> None:
        if self._members.find_id(pod) != id:
            self._log.warning("pod stays in the gang of the job that brought it", pod="/".join(pod.key), gang=str(id))
            self._members.adopt(pod, id)

    def _is_on(self, pod: Pod, slurm_nodes: Collection[str]) -> bool:
        return bool(pod.spec.node_name) and self._cluster.slurm_node_on(pod.spec.node_name) in slurm_nodes

    def _is_another_pod(self, id: GangId, pod: Pod) -> bool:
        """True if gang `id` stands for a single pod, and that is another pod than this one. The annotations of this pod
        cannot put it into such a gang.
        """
        if solo_pod(id):
            return solo_pod(id) != pod.uid
        other = self._members.find(id.uid)
        return other is not None and other.uid != pod.uid and names_pod(id, other)

    def _has_job_there(self, pod: Pod) -> bool:
        """True if the gang to which the pod belongs now has a started job on the pod's node, or one whose nodes are
        unknown.
        """
        node = self._cluster.slurm_node_on(pod.spec.node_name)
        record = self._ledger.get(self._members.find_id(pod))
        if record is None:
            return False
        jobs = (job for job in record.jobs.values() if not is_job_ended(job.state) and not is_job_pending(job.state))
        return any(not job.nodes or node in job.nodes for job in jobs)


def is_noted_on(pod: Pod, job: JobId) -> bool:
    """True if the pod has a node, and its binding note names this job."""
    return bool(pod.spec.node_name) and noted_job(pod) == job
