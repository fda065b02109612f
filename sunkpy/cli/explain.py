"""`kubectl sunk explain`: explains a pod, gang, NodeSet, job or node.

For pods and gangs it runs the functions with which the scheduler decides, for a NodeSet those of the operator. It reads
Kubernetes with the person's rights. It asks slurmrestd about jobs with the person's token, or through the scheduler's
pod if the person may run commands there. It does not ask the scheduler itself, but reads what the scheduler wrote on
the pods, and so works while the scheduler is down.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Self

import msgspec

from sunkpy.cli.access import NOT_ASKED, Access
from sunkpy.cli.connected import Sides, connected
from sunkpy.cli.elsewhere import namespaces_of
from sunkpy.cli.node_devices import DeviceReader, Unfindable
from sunkpy.cli.nodeset_reader import read_nodeset
from sunkpy.cli.options import NO_ANSWER, NO_SLURM, Form, Shown, present
from sunkpy.cli.owner_lookup import OwnerLookup
from sunkpy.cli.pool_reader import PoolReader
from sunkpy.cli.readable_cluster import ClusterReader, ReadableCluster, or_not
from sunkpy.core.explain.devices import NodeFacts, devices_of, explain_node
from sunkpy.core.explain.explanation import Explained, Explanation
from sunkpy.core.explain.facts import Facts
from sunkpy.core.explain.gang import explain_gang
from sunkpy.core.explain.job_on_pods import read_job
from sunkpy.core.explain.no_gang import absent, foreign, unfindable, unplaced
from sunkpy.core.explain.nodeset import explain_nodeset
from sunkpy.core.gang.actions import Bind
from sunkpy.core.gang.decide import decide_gang
from sunkpy.core.gang.devices.indices import noted_on
from sunkpy.core.gang.families import assemble, family_of, identify
from sunkpy.core.gang.gang import Gang, Owners, apart_unit, extra_unit
from sunkpy.core.gang.identity import GangId, noted_job
from sunkpy.core.gang.job.job import MISSING_OBSERVATIONS, Job, along_switches
from sunkpy.core.gang.job.terms import spec_of
from sunkpy.core.gang.owners import Above
from sunkpy.core.gang.snapshot import Snapshot, explain_generation
from sunkpy.core.model.growth import GrowthStatus
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import SlurmJob, is_job_pending
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.core.overview.job import JobFacts, explain_job
from sunkpy.core.placement.admission import Admission, would_kubelet_admit
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.connection import current_namespace
from sunkpy.kube.errors import Forbidden
from sunkpy.scheduler.settings import SchedulerSettings
from sunkpy.slurm import Slurm, errors


class ExplainRequest(Access, frozen=True, kw_only=True):
    """What a person asks `kubectl sunk explain` about: a kind and a name, with the options to reach Kubernetes and
    Slurm.
    """

    kind: str
    name: str

    @classmethod
    def about(cls, access: Access, *, kind: str, name: str) -> Self:
        """Return the request about this object, with this access."""
        return cls(**msgspec.structs.asdict(access), kind=kind, name=name)


async def answer(question: ExplainRequest, form: Form = "table") -> Shown:
    """Return the explanation of the object, with an exit code: 1 if the object does not exist or cannot be read, 3 if
    Slurm did not answer and the explanation comes from Kubernetes alone, else 0. For a job or a node, 1 may also mean
    that Slurm did not answer.

    Raises:
        BadSettings: the settings of the scheduler cannot be used.
        KubeError: the object could not be read.
    """
    async with connected(msgspec.structs.replace(question, namespace="")) as sides:  # -n is the pod's, not Slurm's
        namespace = question.namespace or current_namespace(question.kubeconfig)
        # The apiserver shows only what the person may see, because it is asked with the person's rights.
        explainer = Explainer.over(sides, namespace, sees_all_pods=True)
        match question.kind:
            case "job":
                found = await explainer.job(question.name)
            case "nodeset":
                found = [await explainer.nodeset(question.name)]
            case "pod":
                found = [await explainer.pod(question.name)]
            case "node":
                found = [await explainer.node(question.name)]
            case _:
                found = await explainer.gangs(question.name)
        is_absent = any(each.is_absent for each in found)
        exit_code = NO_ANSWER if is_absent else NO_SLURM if explainer.slurms_silence else 0
        explained = Explained(explanations=tuple(found))
        return present(explained, form, lambda: explained.text, exit_code)


class _Known(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of a namespace by gang (pods that start together as one Slurm job). `owners`: uid of a pod → the objects
    that own the pod, and their owners.

    `aside`: uid of a pod whose gang is not known, because an owner that decides on the gang is unreadable or does not
    exist → the owners found.
    """

    pods: Mapping[GangId, Sequence[Pod]]
    owners: Mapping[str, Owners]
    aside: Mapping[str, Above]


class Explainer:
    """Explains objects of one namespace. `not_asked`: the text to add if there is no way to Slurm (`slurm` None).

    `sees_all_pods`: the person who reads the explanations may see the names of pods in all namespaces. If not, they
    name no pods and claims of other namespaces, whatever the connection to the apiserver may read.

    `slurms_silence`: after a question, why Slurm did not answer; empty if it did, or was not asked.
    """

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        *,
        sees_all_pods: bool,
        slurm: Slurm | None = None,
        settings: SchedulerSettings | None = None,
        not_asked: str = NOT_ASKED,
    ) -> None:
        self._kube = kube
        self._not_asked = not_asked
        self._namespace = namespace
        self._sees_all_pods = sees_all_pods
        self._slurm = slurm
        self._settings = settings
        self.slurms_silence = ""

    @classmethod
    def over(cls, sides: Sides, namespace: str, *, sees_all_pods: bool) -> Self:
        """Return an explainer for this namespace that uses these connections."""
        return cls(
            sides.kube,
            namespace,
            sees_all_pods=sees_all_pods,
            slurm=sides.slurm,
            settings=sides.settings,
            not_asked=sides.not_asked,
        )

    async def pod(self, name: str) -> Explanation:
        """Explain a pod of the namespace.

        Raises:
            KubeError: the pods could not be read.
        """
        pods = await self._pods()
        pod = next((each for each in pods if each.name == name), None)
        if pod is None:
            return await self._absent("Pod", name)
        around = await self._reader().around(self._namespace, pod.spec.scheduler_name, pods)
        if pod.spec.scheduler_name not in around.known_names or pod.spec.scheduler_name == "default-scheduler":
            return foreign(pod, around.known_names - {"default-scheduler"})
        lookup = OwnerLookup(self._kube, around.families)
        known = await self._sort(pods, around, lookup)
        if (above := known.aside.get(pod.uid)) is not None and above.waits_for is not None:
            return unplaced(pod, above, unreadable=lookup.why_unreadable(above.waits_for))
        id = next(id for id, members in known.pods.items() if pod in members)
        return await self._explain(id, known, around, asked=pod)

    async def gangs(self, name: str) -> list[Explanation]:
        """Explain the gangs with this name, and the gangs that an object with this name owns.

        Raises:
            KubeError: the pods could not be read.
        """
        pods = await self._pods()
        found: list[Explanation] = []
        left = {pod.spec.scheduler_name for pod in pods} - {"default-scheduler", ""}
        while left:
            scheduler = left.pop()
            around = await self._reader().around(self._namespace, scheduler, pods)
            if scheduler not in around.known_names:
                continue
            left -= around.known_names
            lookup = OwnerLookup(self._kube, around.families)
            known = await self._sort(pods, around, lookup)
            for id, members in known.pods.items():
                owners = known.owners[members[0].uid]
                if name in {id.name, *(owner.name for owner in owners)}:
                    found.append(await self._explain(id, known, around))
            found += _pods_without_gang(name, pods, known, lookup)
        return found or [await self._absent("Gang", name)]

    async def node(self, name: str) -> Explanation:
        """Explain who has the devices of a node, and the node's state.

        Raises:
            KubeError: the apiserver did not answer.
        """
        reader = DeviceReader(self._kube, self._slurm, not_asked=self._not_asked)
        facts = await reader.find(name)
        self.slurms_silence = reader.slurms_silence
        if isinstance(facts, Unfindable):
            return unfindable("Node", name, facts.unread)
        return explain_node(facts) if facts is not None else absent("Node", "", name)

    async def nodeset(self, name: str) -> Explanation:
        """Explain a NodeSet of the namespace.

        Raises:
            KubeError: the NodeSet could not be read.
        """
        facts = await read_nodeset(self._kube, self._namespace, name)
        return explain_nodeset(facts) if facts is not None else await self._absent("NodeSet", name)

    async def job(self, number: str) -> list[Explanation]:
        """Explain a job by its number as squeue prints it. If the job stands for pods, explain one of these pods, too.

        Raises:
            KubeError: the apiserver did not answer.
        """
        reader = PoolReader(self._kube, self._slurm, self._settings, not_asked=self._not_asked)
        id = int(re.split("[_+]", number)[0])
        facts = JobFacts(id=id, number=number, pool=await reader.read(), now_s=time.time())
        self.slurms_silence = reader.slurms_silence
        noting = (pod for pod in facts.pool.pods if str(noted_job(pod)) == number)
        if facts.job is not None:  # anybody may write the number of any job on a pod
            namespace = facts.gang.namespace if facts.gang is not None else ""
            noting = (pod for pod in noting if pod.metadata.namespace == namespace)
        pod = next(noting, None)
        explained = explain_job(facts)
        if pod is None:
            return [explained]
        theirs = Explainer(
            self._kube,
            pod.metadata.namespace,
            sees_all_pods=self._sees_all_pods,
            slurm=self._slurm,
            settings=self._settings,
        )
        of_pod = await theirs.pod(pod.name)
        return [of_pod] if explained.is_absent else [explained, of_pod]

    async def _around(self, pod: Pod | None, around: ReadableCluster) -> NodeFacts | None:
        """Read the node of a pod that has devices and is on a node; otherwise return None."""
        if pod is None or not (noted_on(pod) or pod.spec.resource_claims) or not pod.spec.node_name:
            return None
        reader = DeviceReader(self._kube, self._slurm if not self.slurms_silence else None, not_asked=self._not_asked)
        facts = await reader.read(pod.spec.node_name, around.slurm_node_of(pod), job=noted_job(pod))
        others = (other for other in facts.pods if other.uid != pod.uid)
        return msgspec.structs.replace(facts, pods=(pod, *others))

    async def _absent(self, kind: str, name: str) -> Explanation:
        """Return the answer for a name that no object of the namespace has; it names other namespaces that have one, if
        the person may see all pods.
        """
        elsewhere = await namespaces_of(self._kube, kind, name) if self._sees_all_pods else frozenset()
        command = f"kubectl sunk explain {kind.lower()} {name}"
        return absent(kind, self._namespace, name, elsewhere=elsewhere, command=command)

    def _reader(self) -> ClusterReader:
        return ClusterReader(self._kube, self._settings, sees_all_pods=self._sees_all_pods)

    async def _pods(self) -> list[Pod]:
        return await self._kube.list_objects(paths.pods(self._namespace), Pod)

    async def _sort(self, pods: Sequence[Pod], around: ReadableCluster, lookup: OwnerLookup) -> _Known:
        by_gang: dict[GangId, list[Pod]] = {}
        owners: dict[str, Owners] = {}
        aside: dict[str, Above] = {}
        for pod in pods:
            if pod.spec.scheduler_name not in around.known_names:
                continue
            above = await lookup.above(pod)
            if above.waits_for is not None:
                aside[pod.uid] = above
                continue
            owners[pod.uid] = above.owners
            by_gang.setdefault(identify(pod, above.owners, families=around.families), []).append(pod)
        return _Known(pods=by_gang, owners=owners, aside=aside)

    async def _explain(
        self, id: GangId, known: _Known, around: ReadableCluster, *, asked: Pod | None = None
    ) -> Explanation:
        pods = known.pods[id]
        owners = known.owners[pods[0].uid]
        gang = assemble(id, pods, owners, families=around.families, largest=around.largest_gang)
        if asked is not None and (unit := _own_unit(asked, gang)):
            id = msgspec.structs.replace(id, unit=unit)
            gang = assemble(id, [asked], known.owners[asked.uid], families=around.families)
        snapshot = await self._view(around.restricted(around.within_limits(gang)), known, around)
        node = await self._around(asked, around)
        devices: tuple[str, ...] = ()
        if asked is not None and node is not None:
            devices = devices_of(asked, node, names_all=self._sees_all_pods)
        silence = (f"Slurm's side: {self.slurms_silence}",) if self.slurms_silence else ()
        silence = (self._not_asked,) if self._slurm is None else silence
        return explain_gang(
            Facts(
                snapshot=snapshot,
                policy=around.policy,
                family=family_of(pods[0], owners, families=around.families),
                asked=asked.name if asked is not None else "",
                beyond=() if asked is not None else tuple(_left_out(pods, gang)),
                states=around.states,
                places=around.places,
                devices=devices,
                growth=await self._growth(snapshot, around),
                admissions=await self._admissions(snapshot, around),
                unread=tuple(dict.fromkeys((*around.unread, *(node.unread if node is not None else ()), *silence))),
                is_slurm_asked=self._slurm is not None and not silence,
            )
        )

    async def _growth(self, snapshot: Snapshot, around: ReadableCluster) -> dict[str, GrowthStatus | None]:
        """While the gang's job is pending, return NodeSet → its `status.growth` (how many more nodes its waiting jobs
        need). Otherwise, or if NodeSets may not be read, return an empty dict.
        """
        if not any(is_job_pending(job.state) for job in snapshot.live_jobs):
            return {}
        namespace = around.settings.namespace if around.settings is not None else ""
        listing = self._kube.list_objects(paths.nodesets(namespace), NodeSet, may_be_old=True)
        nodesets = await or_not("NodeSets", listing, [])
        return {"/".join(each.key): each.status.growth for each in nodesets or ()}

    async def _view(self, gang: Gang, known: _Known, around: ReadableCluster) -> Snapshot:
        placed = {pod.uid: around.slurm_node_of(pod) for pod in gang.members if pod.spec.node_name}
        told = read_job(gang.members, placed=placed.values())
        job = along_switches(await self._asked(told.job), around.path_to) if told.job is not None else None
        named_nodes, where = around.named_nodes(gang)
        return Snapshot(
            id=gang.id,
            gang=gang,
            jobs=(job,) if job is not None else (),
            bound_to=job.id if job is not None and told.is_bound else None,
            placed=placed,
            named_nodes=named_nodes,
            eligibility=where or around.eligibility_of(gang),
            may_submit=not told.refused,
            refused=told.refused,
            waits_for=_generation_in_the_way(gang.id, known),
        )

    async def _asked(self, told: Job) -> Job:
        """Return the job as Slurm has it; without an answer of Slurm, as the pods show it (`told`). If Slurm does not
        know the job, return one that counts as lost.
        """
        if self._slurm is None or self.slurms_silence:
            return told
        try:
            job = await self._slurm.job(told.id)
        except errors.NotFound:
            return Job(slurm=SlurmJob(id=told.id), missing=MISSING_OBSERVATIONS)
        except errors.SlurmError as error:
            self.slurms_silence = error.message
            return told
        return Job(slurm=job, spec=spec_of(job))

    async def _admissions(self, snapshot: Snapshot, around: ReadableCluster) -> dict[str, Admission]:
        """Return pod uid → whether the kubelet would admit the pod, for the pods that the scheduler would bind now. If
        other pods may not be read, pods are missing in the result.
        """
        found: dict[str, Admission] = {}
        actions = decide_gang(snapshot, around.policy)
        for binding in (each for action in actions if isinstance(action, Bind) for each in action.bindings):
            node = around.node_behind(binding.note.slurm_node)
            if node is None:
                continue
            try:
                others = await self._kube.list_objects(paths.ALL_PODS, Pod, field_selector=f"spec.nodeName={node.name}")
            except Forbidden:
                return found
            found[binding.pod.uid] = would_kubelet_admit(binding.pod, node, others)
        return found


def _own_unit(pod: Pod, gang: Gang) -> str:
    """Return the `GangId.unit` of the pod as a gang of its own, if the pod needs a Slurm job of its own: its owner's
    gang, or the job of that gang, has no room for it. Otherwise return an empty text.
    """
    if pod not in gang.members:
        return extra_unit(pod)
    jobs = {noted for each in gang.members if each.spec.node_name and (noted := noted_job(each)) is not None}
    own = noted_job(pod)
    return apart_unit(pod) if jobs and own is not None and own not in jobs else ""


def _pods_without_gang(name: str, pods: Sequence[Pod], known: _Known, lookup: OwnerLookup) -> list[Explanation]:
    """Explain the pods that an object with this name owns and whose gang is not known, because an owner that decides on
    the gang is unreadable or does not exist.
    """
    return [
        unplaced(pod, above, unreadable=lookup.why_unreadable(above.waits_for))
        for pod in pods
        if (above := known.aside.get(pod.uid)) is not None and above.waits_for is not None
        if name in {link.name for link in above.links}
    ]


def _left_out(pods: Sequence[Pod], gang: Gang) -> list[str]:
    """Return the names of the pods that have not ended and are not members of the gang, because it has no room for
    them.
    """
    return [pod.name for pod in pods if pod not in gang.members and not pod.is_finished]


def _generation_in_the_way(id: GangId, known: _Known) -> str:
    for other, pods in known.pods.items():
        is_sibling = msgspec.structs.replace(other, generation=id.generation) == id and other != id
        if is_sibling and (left := explain_generation(other, (), pods)):
            return left
    return ""
