"""A small world of gangs: pods, jobs, and what the scheduler remembers are values, and what is decided counts as done.

Tests say which gang a pod is of and what gang its pods make, choose the course of events and add invariants. What is
never right, whatever the course, is asserted where it is done. `take_over` forgets all that neither jobs nor pods say.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Self

from msgspec.structs import replace

from sunkpy.core import names
from sunkpy.core.gang import families
from sunkpy.core.gang.actions import (
    Bind,
    Binding,
    Cancel,
    Evict,
    Finish,
    GangAction,
    MakeSolo,
    NoteDevices,
    NoteJob,
    Submit,
)
from sunkpy.core.gang.decide import decide_gang
from sunkpy.core.gang.gang import Gang, apart_unit, extra_unit
from sunkpy.core.gang.identity import GangId, noted_gang, noted_job
from sunkpy.core.gang.job.job import Job
from sunkpy.core.gang.job.request import Policy
from sunkpy.core.gang.phases import GangState
from sunkpy.core.gang.snapshot import Snapshot
from sunkpy.core.model.capacity import Capacity
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.layout import Layout
from sunkpy.core.model.matching import added, pod_requests, shortfalls
from sunkpy.core.model.objects import ContainerState, ContainerStatus, Pod, Running
from sunkpy.core.model.states import JobId
from sunkpy.core.placement.eligibility import Eligibility
from sunkpy.core.placement.needs import rounded
from tests.unit.core.gang.jobs import change_job, make_job

GPU = "nvidia.com/gpu"
FITS = Eligibility(eligible=("n1", "n2", "n3"))
EFFECTIVE = Submit | Bind | NoteJob | MakeSolo | Cancel | Finish | Evict
"""Actions after which a gang is another one; the others only tell, or change what a job asks for."""


def lives(pod: Pod) -> bool:
    """It is there to stay."""
    return not pod.is_finished and not pod.is_deleting


def holds(pod: Pod) -> bool:
    """It has a node, and has not finished."""
    return bool(pod.spec.node_name) and not pod.is_finished


class Pods:
    """Pods by uid. What the scheduler has noted with the binding stands on the pod."""

    def __init__(self, pods: Iterable[Pod] = ()) -> None:
        self.pods = {pod.uid: pod for pod in pods}

    @property
    def placed(self) -> dict[str, str]:
        """The Slurm node of each pod that was bound."""
        return {uid: slurm_node(pod) for uid, pod in self.pods.items() if pod.spec.node_name}

    def apply(self, id: GangId, action: GangAction) -> None:
        """What becomes of the pods."""
        match action:
            case Bind(job=job, bindings=bindings):
                for each in bindings:
                    self._bind(id, job, each)
            case NoteJob(pod=pod, job=job):
                self.annotate(pod, {names.ANNOTATION_JOB_ID: str(job)})
            case NoteDevices(pod=pod, gpus=gpus) if gpus:
                self.annotate(pod, {names.ANNOTATION_GPU_INDICES: gpus})
            case Evict(pod=pod):
                self.delete(pod)

    def _bind(self, id: GangId, job: JobId, binding: Binding) -> None:
        pod, node = self.pods[binding.pod.uid], binding.note.slurm_node
        assert not pod.spec.node_name, "bound twice"
        assert (binding.note.job, binding.note.gang) == (job, id)
        self.annotate(pod, binding.note.annotations)
        pod = self.pods[pod.uid]
        self.pods[pod.uid] = replace(pod, spec=replace(pod.spec, node_name=f"k-{node}"))

    def annotate(self, pod: Pod, texts: Mapping[str, str]) -> None:
        pod = self.pods[pod.uid]
        meta = replace(pod.metadata, annotations=pod.annotations | texts)
        self.pods[pod.uid] = replace(pod, metadata=meta)

    def delete(self, pod: Pod) -> None:
        """Somebody deletes it; it is gone when the kubelet has ended it."""
        pod = self.pods[pod.uid]
        self.pods[pod.uid] = replace(pod, metadata=replace(pod.metadata, deletion_timestamp="2026-11-21T00:00:00Z"))

    def enter(self, pod: Pod, phase: str, *, runs: bool = False) -> None:
        """The kubelet reports a phase of the pod. `runs`: a container runs."""
        pod = self.pods[pod.uid]
        containers = (ContainerStatus(name="c", state=ContainerState(running=Running())),) if runs else ()
        self.pods[pod.uid] = replace(pod, status=replace(pod.status, phase=phase, container_statuses=containers))


def slurm_node(pod: Pod) -> str:
    """Where it was bound; empty when nothing says it."""
    return pod.annotations.get(names.ANNOTATION_PLACED_ON, "")


@dataclasses.dataclass
class Memory:
    """What the scheduler remembers of one gang. `state`: as its last pass saw it."""

    jobs: dict[int, Job] = dataclasses.field(default_factory=dict)
    bound_to: JobId | None = None
    is_half_bound: bool = False
    state: GangState | None = None


class World(Pods):
    """Pods, their gangs, and the jobs of these. `ids`: the gang of each pod; `apart`: who was set apart of a gang."""

    policy = Policy(gpu_resources={GPU: "gpu"})
    eligibility: Eligibility | None = FITS

    def __init__(self) -> None:
        super().__init__()
        self.units: dict[GangId, Memory] = {}
        self.ids: dict[str, GangId] = {}
        self.apart: dict[GangId, set[str]] = {}
        self.submitted = 0
        self.idle_s = 0.0

    def copy(self) -> Self:
        """Another world, in which something else may happen."""
        made = copy.copy(self)
        made.pods, made.ids = dict(self.pods), dict(self.ids)
        made.apart = {id: set(uids) for id, uids in self.apart.items()}
        made.units = {id: dataclasses.replace(unit, jobs=dict(unit.jobs)) for id, unit in self.units.items()}
        return made

    # ------------------------------------------------------------ said by who uses it

    def identify(self, pod: Pod) -> GangId:
        return families.identify(pod)

    def assemble(self, id: GangId, pods: Sequence[Pod], apart: Sequence[Pod]) -> Gang:
        return families.assemble_beside(id, pods, apart)

    def waits_for(self, id: GangId) -> str:
        """What of another generation has to go first."""
        return ""

    def check(self, snapshot: Snapshot, actions: Sequence[GangAction]) -> None:
        """Invariants of all that is decided in one pass."""
        bound = [each.pod.uid for action in actions if isinstance(action, Bind) for each in action.bindings]
        several = bound + [action.pod.uid for action in actions if isinstance(action, MakeSolo)]
        assert len(several) == len(set(several)), "one pod, two things"

    # -------------------------------------------------------------- what is there

    def add(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        self.settle_in(pod.uid, self.identify(pod))

    def settle_in(self, uid: str, id: GangId) -> None:
        self.ids[uid] = id
        self.units.setdefault(id, Memory())

    def remove(self, pods: Iterable[Pod]) -> None:
        """They are gone."""
        for pod in pods:
            del self.pods[pod.uid]

    def pods_of(self, id: GangId) -> list[Pod]:
        return [pod for uid, pod in self.pods.items() if self.ids[uid] == id]

    @property
    def jobs(self) -> list[Job]:
        return [job for unit in self.units.values() for job in unit.jobs.values()]

    def snapshot(self, id: GangId) -> Snapshot:
        unit, pods = self.units[id], self.pods_of(id)
        apart = [self.pods[uid] for uid in self.apart.get(id, ()) if uid in self.pods and lives(self.pods[uid])]
        unit.is_half_bound = unit.is_half_bound and any(not pod.spec.node_name for pod in pods)
        gang = self.assemble(id, pods, apart) if pods else None
        if gang is not None:
            assert {pod.uid for pod in pods if holds(pod)} <= {pod.uid for pod in gang.members}
        return Snapshot(
            id=id, gang=gang, jobs=tuple(unit.jobs.values()), bound_to=unit.bound_to,
            placed={pod.uid: slurm_node(pod) for pod in pods if pod.spec.node_name}, eligibility=self.eligibility,
            is_half_bound=unit.is_half_bound, idle_s=self.idle_s, waits_for=self.waits_for(id),
        )  # fmt: skip

    # --------------------------------------------------- what the scheduler does

    def look(self) -> bool:
        """A pass over each gang; whether anything was done."""
        did = [self._pass(id) for id in list(self.units)]
        return any(did)

    def _pass(self, id: GangId) -> bool:
        has_parted = self._part(id)
        snapshot = self.snapshot(id)
        self.units[id].state = snapshot.state
        actions = decide_gang(snapshot, self.policy)
        self.check(snapshot, actions)
        for action in actions:
            self.apply(id, action)
        self._forget(id, snapshot)
        return has_parted or any(isinstance(action, EFFECTIVE) for action in actions)

    def _part(self, id: GangId) -> bool:
        """Pods that have no place become gangs of their own."""
        gang = self.snapshot(id).gang
        if gang is None or not gang.is_complete or any(pod.is_deleting for pod in gang.members):
            return False
        members = {pod.uid for pod in gang.members}
        left = [p for p in self.pods_of(id) if p.uid not in members and lives(p) and not p.spec.node_name]
        for pod in left:
            self.settle_in(pod.uid, replace(id, unit=extra_unit(pod)))
        return bool(left)

    def _forget(self, id: GangId, snapshot: Snapshot) -> None:
        """As the shell: jobs that are through, unless pods were bound under them, and gangs that are."""
        unit, has_nodes = self.units[id], any(pod.spec.node_name for pod in snapshot.pods)
        kept = {job.id: job for job in unit.jobs.values() if not job.is_settled}
        unit.jobs = {
            number: job
            for number, job in unit.jobs.items()
            if number in kept or (has_nodes and number == unit.bound_to)
        }
        if self.snapshot(id).state is GangState.DONE:
            del self.units[id]

    def apply(self, id: GangId, action: GangAction) -> None:
        """An action took effect."""
        super().apply(id, action)
        unit = self.units[id]
        match action:
            case Submit(request=request):
                self.submitted += 1
                unit.jobs[self.submitted] = self.queued(self.submitted, request)
            case Bind(job=job, bindings=bindings):
                unit.bound_to = job
                assert {each.note.slurm_node for each in bindings} <= set(unit.jobs[job].nodes)
                self._check_seats(id, unit.jobs[job])
            case NoteJob(job=job):
                unit.bound_to = job
            case Cancel(job=job) | Finish(job=job):
                self.end(unit.jobs[job], "CANCELLED")
            case MakeSolo(pod=pod):
                self.apart.setdefault(id, set()).add(pod.uid)
                self.settle_in(pod.uid, replace(id, unit=apart_unit(pod)))

    def queued(self, number: int, request: JobSpec) -> Job:
        """What Slurm says of a job that was submitted just now."""
        required = request.required_nodes
        return make_job("PENDING", id=number, tasks=request.tasks, required=required, spec=request)

    def _check_seats(self, id: GangId, job: Job) -> None:
        """No two pods on one place, and together they ask for no more than their job has on any node."""
        seats = [pod.annotations.get(names.ANNOTATION_PLACE) for pod in self.pods_of(id) if holds(pod)]
        assert len(set(seats)) == len(seats), "two pods on one place"
        for node, room in job.slurm.capacity.items():
            own = [pod for pod in self.pods.values() if slurm_node(pod) == node and holds(pod)]
            asked: dict[str, int] = {}
            for pod in own:
                if noted_job(pod) == job.id:
                    asked = added(asked, rounded(pod_requests(pod.spec)))
            has = {"cpu": room.cpus * 1000, "memory": room.memory_mib * 2**20, GPU: room.gres.get("gpu", 0)}
            lacks = shortfalls({name: asked.get(name, 0) for name in has}, has)
            assert not lacks, ("more than Slurm gave", node, [pod.name for pod in own])

    def take_over(self) -> None:
        """Another leader: jobs are known by their comments, bound pods by the job and the gang that they name."""
        known = {id: {job.id: job for job in unit.jobs.values() if not job.missing} for id, unit in self.units.items()}
        known = {id: jobs for id, jobs in known.items() if jobs}
        self.units, self.apart = {}, {}
        for id, jobs in known.items():
            if live := {n: job for n, job in jobs.items() if job.is_live or "COMPLETING" in job.state}:
                self.units[id] = Memory(jobs=live)
        for uid, pod in self.pods.items():
            base = self.identify(pod)
            alone = [replace(base, unit=unit(pod)) for unit in (extra_unit, apart_unit)]
            id = next((each for each in alone if each in known or each == noted_gang(pod)), base)
            if id.unit == apart_unit(pod):
                self.apart.setdefault(base, set()).add(uid)
            if not pod.is_finished or id in self.units:
                self.settle_in(uid, id)
            self.ids[uid] = id
            if pod.spec.node_name and id in self.units and id in known:
                noted = noted_job(pod)
                own = max(known[id].values(), key=lambda job: (job.id == noted, "RUNNING" in job.state, job.id))
                self.units[id].bound_to = own.id
                self.units[id].jobs.setdefault(own.id, own)

    # ----------------------------------------------------------- what Slurm does

    def change(self, job: Job, **fields: object) -> None:
        """Slurm says something else of a job now; fields as in `change_job`."""
        (unit,) = (unit for unit in self.units.values() if job.id in unit.jobs)
        unit.jobs[job.id] = change_job(unit.jobs[job.id], **fields)

    def start(self, job: Job, layout: Layout) -> None:
        """It runs on these nodes, with what it was asked for on each."""
        room, request = {}, job.spec
        assert request is not None
        gpus = int((request.gres_per_node or request.gres_per_task).rpartition(":")[2] or 0)
        for node, slots in layout:
            cpus = slots * request.cpus_per_task
            memory_mib = request.memory_mib_per_node or request.memory_mib_per_cpu * cpus
            here = gpus * (1 if request.gres_per_node else slots)
            room[node] = Capacity(cpus=cpus, memory_mib=memory_mib, gres={"gpu": here})
        nodes = tuple(node for node, _ in layout)
        self.change(job, state=frozenset({"RUNNING"}), nodes=nodes, layout=layout, capacity=room)

    def suspend(self, job: Job) -> None:
        self.change(job, state=frozenset({"SUSPENDED"}))

    def resume(self, job: Job) -> None:
        self.change(job, state=frozenset({"RUNNING"}))

    def requeue(self, job: Job) -> None:
        first_run = {"nodes": (), "layout": (), "capacity": {}, "prologs": (), "epilogs": ()}
        self.change(job, state=frozenset({"PENDING"}), **first_run)

    def shrink(self, job: Job) -> None:
        """An administrator takes its last node away."""
        left = job.slurm.layout[:-1]
        room = {node: job.slurm.capacity[node] for node, _ in left}
        self.change(job, nodes=job.nodes[:-1], layout=left, tasks=sum(count for _, count in left), capacity=room)

    def lose(self, job: Job) -> None:
        """Slurm forgets it."""
        self.change(job, missing=2)

    def end(self, job: Job, how: str, *, epilogs: Iterable[str] = (), is_completing: bool = False) -> None:
        state = {how, "COMPLETING"} if is_completing else {how}
        self.change(job, state=frozenset(state), epilogs=tuple(epilogs))

    def end_epilogs(self, job: Job) -> None:
        self.change(job, state=job.state - {"COMPLETING"})
