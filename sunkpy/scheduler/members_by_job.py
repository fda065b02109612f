"""Members that a new leader knows by the job that has their node, and by nothing that they say themselves.

What stands above a pod may be unreadable, and what it says of its gang may have been written otherwise since it was
bound. A leader that remembers the pod keeps it where it is (`sunkpy.scheduler.members`); so does the next one. Were it
not so, a job without pods would end beside the pods that it brought.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from sunkpy.core.gang.gang import extra_pod
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model import hostlist
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId, SlurmJob
from sunkpy.scheduler.cluster import Cluster
from sunkpy.scheduler.members import MemberIndex
from sunkpy.scheduler.noted_jobs import noted_job


class MembersByJob:
    """Moves pods into the gangs of their jobs. A pod of another namespace cannot get under a job by writing its id."""

    def __init__(self, *, cluster: Cluster, members: MemberIndex) -> None:
        self._cluster = cluster
        self._members = members
        self._done: set[JobId] = set()
        self._log = structlog.get_logger("leader")

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

        The job of a single pod that is there is not believed of another one; nor is that of an extra, of which
        `Adoption` knows more.
        """
        single = self._members.find(id.uid)
        for node in filter(None, map(self._cluster.node_behind, slurm_nodes)):
            for pod in self._members.on_node(node.name):
                said = self._members.find_id(pod)
                if noted_job(pod) != job or said is None or extra_pod(said) or extra_pod(id):
                    continue
                if said != id and said.namespace == id.namespace and (single is None or single.uid == pod.uid):
                    self._log.warning("stays in the gang of its job", pod="/".join(pod.key), gang=str(id))
                    self._members.adopt(pod, id)
