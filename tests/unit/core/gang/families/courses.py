"""A small world of one workload, its gangs and their jobs, in which a course of events is played.

The owner makes pods for three places, asks for more from some time on, and cannot be read for a while; Slurm starts,
preempts, suspends, requeues, shrinks and forgets jobs; the scheduler looks, and another one takes over that knows
nothing but the comments of jobs and what stands on the pods. A workload can be several gangs: pods beyond the places,
those that were set apart, generations that follow one another.
"""

from __future__ import annotations

from msgspec.structs import replace

from sunkpy.core.gang.actions import Bind, Cancel, Cover, Evict, Finish, SetApart, Submit
from sunkpy.core.gang.decide import decide_gang
from sunkpy.core.gang.families import assemble_beside, identify
from sunkpy.core.gang.gang import apart_unit, extra_unit
from sunkpy.core.gang.lifecycle import State, advance
from sunkpy.core.gang.request import Policy
from sunkpy.core.gang.slots import rounded
from sunkpy.core.gang.view import GangView, JobView, explain_generation, holds_its_node
from sunkpy.core.model.layout import spread
from sunkpy.core.model.matching import pod_requests
from sunkpy.core.model.objects import Container, OddOwner, Resources
from sunkpy.core.model.room import Room
from sunkpy.core.placement.eligibility import Eligibility
from tests.unit.core.gang.families.ensembles import ENSEMBLES, GENERATIONS, LEADER_FIRST, OF_ONE, OF_THE_LEADER, below

POLICY = Policy(gpu_resources={})
FITS = Eligibility(eligible=("n1", "n2", "n3"))


class Unit:
    """What the scheduler remembers of one gang."""

    def __init__(self):
        self.jobs = {}
        self.bound_to = None
        self.is_half_bound = False
        self.is_several = False
        self.state = None


class Course:
    """The pods by uid, with the place and the gang of each."""

    def __init__(self, name):
        self.owners, self.makers = (ENSEMBLES | OF_ONE)[name]
        self.all_places = range(len(self.makers))
        self.readable = self.owners
        self.is_leader_first, self.are_the_leaders = name in LEADER_FIRST, name in OF_THE_LEADER
        self.between = {}
        self.pods, self.places, self.ids, self.nodes, self.noted = {}, {}, {}, {}, {}
        self.units, self.apart = {}, {}
        self.asked = {}
        self.tries = self.restarts = self.submitted = 0
        self.cpu = ""
        self.idle_s = 0.0

    def view(self, id):
        pods = [pod for uid, pod in self.pods.items() if self.ids[uid] == id]
        apart = [self.pods[uid] for uid in self.apart.get(id, ()) if uid in self.pods and lives(self.pods[uid])]
        gang = assemble_beside(id, pods, apart, self._above(pods[0])) if pods else None
        if gang is not None:
            assert {pod.uid for pod in pods if pod.spec.node_name and not pod.is_finished} <= _uids(gang.members)
        unit = self.units[id]
        placed = {pod.uid: self.nodes[pod.uid] for pod in pods if pod.spec.node_name}
        return GangView(
            id=id, gang=gang, jobs=tuple(unit.jobs.values()), bound_to=unit.bound_to, placed=placed, eligibility=FITS,
            is_half_bound=unit.is_half_bound, idle_s=self.idle_s, waits_for=self._generation_before(id),
        )  # fmt: skip

    def _generation_before(self, id):
        for other, unit in self.units.items():
            if other != id and replace(other, generation=id.generation) == id:
                pods = [pod for uid, pod in self.pods.items() if self.ids[uid] == other]
                if left := explain_generation(other, unit.jobs.values(), pods):
                    return left
        return ""

    def odd(self):
        """Somebody writes into the owner what cannot be read."""
        parts = [(each.metadata, each.api_version, each.kind) for each in self.owners]
        self.owners = tuple(OddOwner(metadata=m, api_version=v, kind=k, why="nested too deep") for m, v, k in parts)

    def mended(self):
        self.owners = self.readable

    # -------------------------------------------------- what Kubernetes does

    def late(self, place):
        """The StatefulSet of a leader that is gone goes a moment later, and makes a worker again until then."""
        leaders = (leader for uid, (_, leader) in self.between.items() if self.places[uid] == place)
        leader = next((each for each in leaders if not self._is_there(each)), None)
        if leader is not None:
            self._make(place, leader)

    def create(self, place):
        """A controller makes a pod for a place that has none left; it does not wait for one that is ending."""
        if any(self.places[uid] == place and lives(pod) for uid, pod in self.pods.items()):
            return
        leader = next((pod for uid, pod in self.pods.items() if self.places[uid] == 0 and lives(pod)), None)
        if place and self.is_leader_first and (leader is None or not leader.spec.node_name):
            return
        if place and self.are_the_leaders and leader is None:
            return
        self._make(place, leader if place and self.are_the_leaders else None)

    def _make(self, place, leader):
        self.tries += 1
        made = self._of_this_generation(self.makers[place](self.tries))
        if leader is not None:
            made, workers = below(leader, made)
            self.between[made.uid] = (workers, leader)
        made = replace(made, metadata=replace(made.metadata, creation_timestamp=f"{self.tries:04}"))
        if self.cpu:
            containers = (Container(name="c", resources=Resources(requests={"cpu": self.cpu})),)
            made = replace(made, spec=replace(made.spec, containers=containers))
        self.pods[made.uid], self.places[made.uid] = made, place
        self._settle_in(made.uid, identify(made, self._above(made)))

    def _above(self, pod):
        return (*self.between[pod.uid][:1], *self.owners) if pod.uid in self.between else self.owners

    def collect_garbage(self):
        """What belongs to a pod goes with it."""
        for uid, (_, leader) in self.between.items():
            if uid in self.pods and not self._is_there(leader):
                self.pods[uid] = _deleting(self.pods[uid])

    def _is_there(self, pod):
        return pod.uid in self.pods and lives(self.pods[pod.uid])

    def _of_this_generation(self, pod):
        def now(said):
            return {key: str(self.restarts) if key in GENERATIONS else value for key, value in said.items()}

        return replace(pod, metadata=replace(pod.metadata, labels=now(pod.labels), annotations=now(pod.annotations)))

    def _settle_in(self, uid, id):
        self.ids[uid] = id
        self.units.setdefault(id, Unit())

    def _of(self, place):
        return min(
            (uid for uid in self.pods if self.places[uid] == place and not self.pods[uid].is_finished), default=""
        )

    def delete(self, place):
        if uid := self._of(place):
            self.pods[uid] = _deleting(self.pods[uid])

    def gone(self, place):
        for uid in [uid for uid, pod in self.pods.items() if self.places[uid] == place and not lives(pod)]:
            del self.pods[uid]

    def end(self, place, phase):
        uid = self._of(place)
        if uid and self.pods[uid].spec.node_name:
            self.pods[uid] = replace(self.pods[uid], status=replace(self.pods[uid].status, phase=phase))

    def restart(self):
        """The owner makes all pods anew, as another generation, if it has such."""
        if any(key in GENERATIONS for pod in self.pods.values() for key in (*pod.labels, *pod.annotations)):
            self.restarts += 1
            self.pods = {uid: _deleting(pod) for uid, pod in self.pods.items()}

    # ------------------------------------------------------- what Slurm does

    def start(self, nodes=3):
        """All that wait; whether any did."""
        waiting = [(unit, job) for unit, job in self._jobs() if job.is_pending]
        for unit, job in waiting:
            given = job.required or FITS.eligible[: min(nodes, job.tasks)]
            layout = spread(given, job.tasks)
            begun = {"state": frozenset({"RUNNING"}), "nodes": given, "layout": layout}
            unit.jobs[job.id] = replace(job, **begun, room=self._room(job, layout))
        return bool(waiting)

    def _room(self, job, layout):
        """Slurm gives what it was asked for."""
        request, room = self.asked[job.id], {}
        for node, slots in layout:
            cpus = slots * request.cpus_per_task
            memory_mib = request.memory_mib_per_node or request.memory_mib_per_cpu * cpus
            room[node] = Room(cpus=cpus, memory_mib=memory_mib, gres={})
        return room

    def slurm(self, what, which):
        live = [(unit, job) for unit, job in self._jobs() if job.is_live]
        if what == "fewer nodes":
            self.start(nodes=1)
        elif what == "ended":
            for unit, job in self._jobs():
                unit.jobs[job.id] = replace(job, state=job.state - {"COMPLETING"})
        elif what in ("suspend", "resume", "requeue"):
            self._disturb(what)
        elif what == "shrink":
            self._shrink()
        elif live:
            unit, job = live[which % len(live)]
            over = {"PREEMPTED", "COMPLETING"} if not job.is_pending else {"CANCELLED"}
            unit.jobs[job.id] = replace(job, **({"missing": 2} if what == "lose" else {"state": frozenset(over)}))

    def _disturb(self, what):
        """What an administrator does to all jobs."""
        for unit, job in self._jobs():
            state = {"suspend": "SUSPENDED", "resume": "RUNNING", "requeue": "PENDING"}[what]
            if job.state == {"SUSPENDED" if what == "resume" else "RUNNING"}:
                kept = {} if what != "requeue" else {"nodes": (), "layout": (), "room": {}}
                unit.jobs[job.id] = replace(job, state=frozenset({state}), **kept)

    def _shrink(self):
        """What an administrator takes from all jobs of several nodes: the last one."""
        for unit, job in self._jobs():
            if job.state == {"RUNNING"} and len(job.nodes) > 1:
                left = job.layout[:-1]
                fewer = {"nodes": job.nodes[:-1], "layout": left, "tasks": sum(count for _, count in left)}
                unit.jobs[job.id] = replace(job, **fewer, room={node: job.room[node] for node, _ in left})

    def _jobs(self):
        return [(unit, job) for unit in self.units.values() for job in unit.jobs.values()]

    # ----------------------------------------------------------- what we do

    def look(self):
        """A pass over each gang; whether anything was done."""
        done = [self._pass(id) for id in list(self.units)]
        return any(done)

    def _pass(self, id):
        unit, view = self.units[id], self.view(id)
        parted = self._part(id, view)
        view = self.view(id)
        unit.is_half_bound = unit.is_half_bound and any(not pod.spec.node_name for pod in view.pods)
        _note_state(unit, view)
        actions = decide_gang(view, POLICY)
        self._nobody_is_left_alone(view, actions)
        if view.gang is not None and not view.gang.is_sized:
            _nothing_is_guessed(actions)
        for action in actions:
            self._do(id, view, action)
        # As the shell: what is through is forgotten.
        has_nodes = any(pod.spec.node_name for pod in view.pods)
        for job in [job for job in unit.jobs.values() if job.is_settled]:
            if not (has_nodes and job.id == unit.bound_to):
                del unit.jobs[job.id]
        if self.view(id).state is State.DONE:
            del self.units[id]
        did = [
            action
            for action in actions
            if isinstance(action, Submit | Bind | Cancel | Evict | Finish | Cover | SetApart)
        ]
        return bool(did) or parted

    def _part(self, id, view):
        """Pods that have no place become gangs of their own."""
        gang = view.gang
        if gang is None or not gang.is_complete or any(pod.is_deleting for pod in gang.members):
            return False
        pods = [pod for uid, pod in self.pods.items() if self.ids[uid] == id and pod.uid not in _uids(gang.members)]
        left = [pod for pod in pods if lives(pod) and not pod.spec.node_name]
        for pod in left:
            self._settle_in(pod.uid, replace(id, unit=extra_unit(pod)))
        return bool(left)

    def _nobody_is_left_alone(self, view, actions):
        """Where pods run, their job holds the node, or they are told to go, or another job is asked for."""
        job = view.bound_job
        living = {pod.uid for pod in view.pods if pod.uid in view.holding}
        if job is not None and not job.is_lost and holds_its_node(job):
            strays = {action.pod.uid for action in actions if isinstance(action, SetApart)}
            assert all(view.holding[uid] in job.nodes for uid in living - strays)
            return
        going = {action.pod.uid for action in actions if isinstance(action, Evict)}
        going |= {pod.uid for pod in view.pods if pod.is_deleting}
        is_covered = any(isinstance(action, Submit | Cover | Cancel) for action in actions) or bool(view.live_jobs)
        assert is_covered or going >= living

    def _do(self, id, view, action):
        unit = self.units[id]
        match action:
            case Submit(request=request):
                assert request.required_nodes or not self._generation_before(id), "before the one before it is gone"
                self.submitted += 1
                number, required = self.submitted, request.required_nodes
                self.asked[number] = request
                unit.jobs[number] = JobView(
                    id=number, state=frozenset({"PENDING"}), tasks=request.tasks, required=required
                )
            case Bind(job=job, bindings=bindings):
                self._check_first_wave(view, bindings)
                self._bind(unit, job, bindings)
            case Cancel(job=job) | Finish(job=job):
                unit.jobs[job] = replace(unit.jobs[job], state=frozenset({"CANCELLED"}))
            case Evict(pod=pod):
                self.pods[pod.uid] = _deleting(self.pods[pod.uid])
            case Cover(job=job, pod=pod):
                unit.bound_to = self.noted[pod.uid] = job
            case SetApart(pod=pod):
                self.apart.setdefault(id, set()).add(pod.uid)
                self._settle_in(pod.uid, replace(id, unit=apart_unit(pod)))

    def _check_first_wave(self, view, bindings):
        if not view.is_bound:
            wave = sum(role.first - len(role.elsewhere) for role in view.gang.roles)
            done = sum(pod.status.phase == "Succeeded" for pod in view.pods)
            assert len(bindings) + done >= wave, "half a gang"

    def _bind(self, unit, job, bindings):
        unit.bound_to = job
        for binding in bindings:
            pod = self.pods[binding.pod.uid]
            assert not pod.spec.node_name
            assert binding.slurm_node in unit.jobs[job].nodes
            note = {"sunkpy.dev/place": binding.place} if binding.place else {}
            metadata = replace(pod.metadata, annotations=pod.annotations | note)
            spec = replace(pod.spec, node_name=f"k-{binding.slurm_node}")
            self.pods[pod.uid] = replace(pod, metadata=metadata, spec=spec)
            self.nodes[pod.uid], self.noted[pod.uid] = binding.slurm_node, job
        own = {uid: pod for uid, pod in self.pods.items() if self.units.get(self.ids[uid]) is unit}
        places = [pod.annotations.get("sunkpy.dev/place") for pod in own.values() if holds(pod)]
        assert len(set(places)) == len(places), "two pods on one place"
        self._none_takes_what_is_others(unit.jobs[job])

    def _none_takes_what_is_others(self, job):
        """The pods that were bound under a job ask for no more than it has on any of their nodes."""
        for node, room in job.room.items():
            there = [pod for uid, pod in self.pods.items() if self.nodes.get(uid) == node and holds(pod)]
            own = [rounded(pod_requests(pod.spec)) for pod in there if self.noted[pod.uid] == job.id]
            assert sum(each["cpu"] for each in own) <= room.cpus * 1000, "more than Slurm gave"

    def new_leader(self):
        """Another scheduler takes over: jobs are known by their comments, bound pods by the job that they name."""
        known = {id: {job.id: job for job in unit.jobs.values() if not job.missing} for id, unit in self.units.items()}
        known = {id: jobs for id, jobs in known.items() if jobs}
        self.units, self.apart = {}, {}
        for id, jobs in known.items():
            live = {number: job for number, job in jobs.items() if job.is_live or "COMPLETING" in job.state}
            if live:
                self.units[id] = Unit()
                self.units[id].jobs = live
        for uid, pod in self.pods.items():
            base = identify(pod, self._above(pod))
            alone = [replace(base, unit=unit(pod)) for unit in (extra_unit, apart_unit)]
            id = next((each for each in alone if each in known), base)
            if id.unit == apart_unit(pod):
                self.apart.setdefault(base, set()).add(uid)
            if not pod.is_finished or id in self.units:
                self._settle_in(uid, id)
            self.ids[uid] = id
            if pod.spec.node_name and id in self.units and id in known:
                noted = self.noted.get(uid)
                own = max(known[id].values(), key=lambda job: (job.id == noted, "RUNNING" in job.state, job.id))
                self.units[id].bound_to = own.id
                self.units[id].jobs.setdefault(own.id, own)

    # ------------------------------------------------------------ a course

    def play(self, event, place):
        place %= len(self.makers)
        match event:
            case "late":
                self.late(place)
                return
            case "create" | "delete" | "gone":
                getattr(self, event)(place)
            case "fail" | "succeed":
                self.end(place, "Failed" if event == "fail" else "Succeeded")
            case "start" | "look" | "restart" | "new_leader" | "odd" | "mended":
                getattr(self, event)()
            case "larger":
                self.cpu = "3"
            case "all":
                for each in self.all_places:
                    self.create(each)
                    self.look()
                self.start()
                self.look()
            case _:
                self.slurm(event, place)
        self.collect_garbage()

    def settle(self):
        """From now on nothing is taken away: what is ending ends, each place gets its pod, jobs start."""
        self.mended()
        self.idle_s = 1000.0
        for _ in range(80):
            self.collect_garbage()
            for place in self.all_places:
                self.gone(place)
            self.slurm("ended", 0)
            for place in self.all_places:
                self.create(place)
            did = self.look() or self.start()
            pods = self.pods.values()
            if not did and len(pods) == len(self.makers) and all(holds(pod) and not pod.is_deleting for pod in pods):
                self._each_has_its_job()
                return
        raise AssertionError(
            f"stands still: {self.pods} {[(str(id), u.jobs, u.bound_to) for id, u in self.units.items()]}"
        )

    def _each_has_its_job(self):
        for uid in self.pods:
            job = self.view(self.ids[uid]).bound_job
            assert job is not None
            assert job.is_script_running
            assert self.nodes[uid] in job.nodes


def _note_state(unit, view):
    """As the shell; what it would log as an unexpected move is an error here."""
    unit.is_several |= view.is_several
    if unit.state is not None:
        advance(unit.state, view.state, several=unit.is_several)
    unit.state = view.state


def _nothing_is_guessed(actions):
    """Of a gang of which nobody can tell how large it is: what runs is covered, nobody else gets a node."""
    assert not any(isinstance(action, Bind) for action in actions)
    assert all(action.pod.spec.node_name for action in actions if isinstance(action, SetApart))
    assert all(action.request.required_nodes for action in actions if isinstance(action, Submit))


def lives(pod):
    """It is there to stay."""
    return not pod.is_finished and not pod.is_deleting


def holds(pod):
    return bool(pod.spec.node_name) and not pod.is_finished


def _uids(pods):
    return {pod.uid for pod in pods}


def _deleting(pod):
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp="2026-11-21T00:00:00Z"))
