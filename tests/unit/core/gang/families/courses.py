"""Workloads of each family in the simulator: their owners, the courses of events, and the invariants of their gangs.

The owner makes pods for three seats, asks for more from some time on, and cannot be read for a while. A workload can
be several gangs: pods beyond the seats, those that were set apart, generations that follow one another.
"""

from __future__ import annotations

from msgspec.structs import replace

from sunkpy.core.gang.actions import Bind, Cancel, Evict, MakeSolo, NoteJob, Submit
from sunkpy.core.gang.families import assemble_beside, identify
from sunkpy.core.gang.job.phases import HOLDING
from sunkpy.core.gang.snapshot import explain_generation
from sunkpy.core.model.layout import spread
from sunkpy.core.model.objects import Container, OddOwner, Resources
from tests.unit.core.gang.families.ensembles import ENSEMBLES, GENERATIONS, LEADER_FIRST, OF_ONE, OF_THE_LEADER, below
from tests.unit.core.gang.simulator import FITS, World, holds, lives


class Course(World):
    """A workload of a family; `seats`: which of its seats each pod is for."""

    def __init__(self, name):
        super().__init__()
        self.owners, self.makers = (ENSEMBLES | OF_ONE)[name]
        self.all_places = range(len(self.makers))
        self.readable = self.owners
        self.is_leader_first, self.are_the_leaders = name in LEADER_FIRST, name in OF_THE_LEADER
        self.between, self.seats = {}, {}
        self.tries = self.restarts = 0
        self.cpu = ""

    def identify(self, pod):
        return identify(pod, self._above(pod))

    def assemble(self, id, pods, apart):
        return assemble_beside(id, pods, apart, self._above(pods[0]))

    def waits_for(self, id):
        others = [each for each in self.units if each != id and replace(each, generation=id.generation) == id]
        left = (explain_generation(each, self.units[each].jobs.values(), self.pods_of(each)) for each in others)
        return next(filter(None, left), "")

    def odd(self):
        """Somebody writes into the owner what cannot be read."""
        parts = [(each.metadata, each.api_version, each.kind) for each in self.owners]
        self.owners = tuple(OddOwner(metadata=m, api_version=v, kind=k, why="nested too deep") for m, v, k in parts)

    def mended(self):
        self.owners = self.readable

    # -------------------------------------------------- what Kubernetes does

    def late(self, place):
        """The StatefulSet of a leader that is gone goes a moment later, and makes a worker again until then."""
        leaders = (leader for uid, (_, leader) in self.between.items() if self.seats[uid] == place)
        leader = next((each for each in leaders if not self._is_there(each)), None)
        if leader is not None:
            self._make(place, leader)

    def create(self, place):
        """A controller makes a pod for a place that has none left; it does not wait for one that is ending."""
        if any(self.seats[uid] == place and lives(pod) for uid, pod in self.pods.items()):
            return
        leader = next((pod for uid, pod in self.pods.items() if self.seats[uid] == 0 and lives(pod)), None)
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
        self.seats[made.uid] = place
        self.add(made)

    def _above(self, pod):
        return (*self.between[pod.uid][:1], *self.owners) if pod.uid in self.between else self.owners

    def collect_garbage(self):
        """What belongs to a pod goes with it."""
        for uid, (_, leader) in self.between.items():
            if uid in self.pods and not self._is_there(leader):
                self.delete(self.pods[uid])

    def _is_there(self, pod):
        return pod.uid in self.pods and lives(self.pods[pod.uid])

    def _of_this_generation(self, pod):
        def now(said):
            return {key: str(self.restarts) if key in GENERATIONS else value for key, value in said.items()}

        return replace(pod, metadata=replace(pod.metadata, labels=now(pod.labels), annotations=now(pod.annotations)))

    def _of(self, place):
        return min(
            (uid for uid in self.pods if self.seats[uid] == place and not self.pods[uid].is_finished), default=""
        )

    def delete_at(self, place):
        if uid := self._of(place):
            self.delete(self.pods[uid])

    def gone(self, place):
        self.remove([pod for pod in self.pods.values() if self.seats[pod.uid] == place and not lives(pod)])

    def finish_at(self, place, phase):
        uid = self._of(place)
        if uid and self.pods[uid].spec.node_name:
            self.enter(self.pods[uid], phase)

    def restart(self):
        """The owner makes all pods again, as another generation if its kind has generations."""
        if any(key in GENERATIONS for pod in self.pods.values() for key in (*pod.labels, *pod.annotations)):
            self.restarts += 1
            for pod in self.pods.values():
                self.delete(pod)

    # ------------------------------------------------------- what Slurm does

    def start_all(self, nodes=3):
        """All that wait; whether any did."""
        waiting = [job for job in self.jobs if job.slurm.is_pending]
        for job in waiting:
            given = job.slurm.required_nodes or FITS.eligible[: min(nodes, job.slurm.tasks)]
            self.start(job, spread(given, job.slurm.tasks))
        return bool(waiting)

    def slurm(self, what, which):
        live = [job for job in self.jobs if job.is_live]
        running = [job for job in self.jobs if job.state == {"RUNNING"}]
        match what:
            case "fewer nodes":
                self.start_all(nodes=1)
            case "lose" if live:
                self.lose(live[which % len(live)])
            case "preempt" if live:
                self._preempt(live[which % len(live)])
            case "ended":
                self._each(self.end_epilogs, self.jobs)
            case "suspend" | "requeue":
                self._each(self.suspend if what == "suspend" else self.requeue, running)
            case "resume":
                self._each(self.resume, [job for job in self.jobs if job.state == {"SUSPENDED"}])
            case "shrink":
                self._each(self.shrink, [job for job in running if len(job.nodes) > 1])

    def _each(self, happens, jobs):
        for job in jobs:
            happens(job)

    def _preempt(self, job):
        if job.slurm.is_pending:
            self.end(job, "CANCELLED")
        else:
            self.end(job, "PREEMPTED", is_completing=True)

    # ------------------------------------------------------------ invariants

    def check(self, snapshot, actions):
        super().check(snapshot, actions)
        self._nobody_is_left_alone(snapshot, actions)
        if snapshot.gang is not None and not snapshot.gang.is_sized:
            _nothing_is_guessed(actions)
        for action in actions:
            match action:
                case Submit(request=request):
                    assert request.required_nodes or not snapshot.waits_for, "before the one before it is gone"
                case Bind(bindings=bindings):
                    self._check_first_wave(snapshot, bindings)

    def _nobody_is_left_alone(self, snapshot, actions):
        """If pods run, their job has the node, or they are evicted, or one job for all or one for each is requested."""
        job = snapshot.bound_job
        living = {pod.uid for pod in snapshot.pods if pod.uid in snapshot.holding}
        if job is not None and job.is_live and job.phase in HOLDING:
            strays = {action.pod.uid for action in actions if isinstance(action, MakeSolo)}
            assert all(snapshot.holding[uid] in job.nodes for uid in living - strays)
            return
        going = {action.pod.uid for action in actions if isinstance(action, Evict | MakeSolo)}
        going |= {pod.uid for pod in snapshot.pods if pod.is_deleting}
        is_covered = any(isinstance(action, Submit | NoteJob | Cancel) for action in actions) or bool(
            snapshot.live_jobs
        )
        assert is_covered or going >= living

    def _check_first_wave(self, snapshot, bindings):
        if not snapshot.is_bound:
            wave = sum(role.first - len(role.elsewhere) for role in snapshot.gang.roles)
            done = sum(pod.status.phase == "Succeeded" for pod in snapshot.pods)
            assert len(bindings) + done >= wave, "half a gang"

    # ------------------------------------------------------------ a course

    def play(self, event, place):
        place %= len(self.makers)
        match event:
            case "late":
                self.late(place)
                return
            case "create" | "gone":
                getattr(self, event)(place)
            case "delete":
                self.delete_at(place)
            case "fail" | "succeed":
                self.finish_at(place, "Failed" if event == "fail" else "Succeeded")
            case "start":
                self.start_all()
            case "look" | "restart" | "take_over" | "odd" | "mended":
                getattr(self, event)()
            case "larger":
                self.cpu = "3"
            case "all":
                for each in self.all_places:
                    self.create(each)
                    self.look()
                self.start_all()
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
            did = self.look() or self.start_all()
            pods = self.pods.values()
            if not did and len(pods) == len(self.makers) and all(holds(pod) and not pod.is_deleting for pod in pods):
                self._each_has_its_job()
                return
        raise AssertionError(
            f"stands still: {self.pods} {[(str(id), u.jobs, u.bound_to) for id, u in self.units.items()]}"
        )

    def _each_has_its_job(self):
        for uid in self.pods:
            job = self.snapshot(self.ids[uid]).bound_job
            assert job is not None
            assert job.is_script_running
            assert self.placed[uid] in job.nodes


def _nothing_is_guessed(actions):
    """If nobody can tell how large the gang is, jobs cover its running pods, and no other pod gets a node."""
    assert not any(isinstance(action, Bind) for action in actions)
    assert all(action.pod.spec.node_name for action in actions if isinstance(action, MakeSolo))
    assert all(action.request.required_nodes for action in actions if isinstance(action, Submit))
