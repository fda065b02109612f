"""Every family through any course of events: pods that come, end and are made anew, and what Slurm does with the job.

A gang is bound whole or not at all, no pod runs without its job, and when nothing is taken away any more all run.
"""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from sunkpy.core.gang.actions import Bind, Cancel, Cover, Evict, Finish, Submit
from sunkpy.core.gang.decide import decide_gang
from sunkpy.core.gang.families import assemble, identify
from sunkpy.core.gang.places import explain_missing
from sunkpy.core.gang.request import Policy
from sunkpy.core.gang.view import GangView, JobView, holds_its_node
from sunkpy.core.placement.eligibility import Eligibility
from tests.unit.core.gang.families.ensembles import ENSEMBLES

POLICY = Policy(gpu_resources={})
FITS = Eligibility(eligible=("n1", "n2", "n3"))
EVENTS = ("all", "look", "start", "create", "delete", "gone", "fail", "succeed")
SLURMS = ("preempt", "lose", "fewer nodes", "ended")


class Course:
    """One gang: the pods of its places by try, its job, and what the scheduler remembers."""

    def __init__(self, name):
        self.owners, self.makers = ENSEMBLES[name]
        self.pods = {}
        self.tries = 0
        self.jobs = {}
        self.bound_to = None
        self.placed = {}
        self.is_half_bound = False
        self.idle_s = 0.0
        self.id = None

    def view(self):
        pods = list(self.pods.values())
        gang = assemble(self.id, pods, self.owners) if pods else None
        if gang is not None:
            seen = {pod.uid for pod in gang.members}
            assert {pod.uid for pod in pods if pod.spec.node_name and not pod.is_finished} <= seen
        return GangView(
            id=self.id, gang=gang, jobs=tuple(self.jobs.values()), bound_to=self.bound_to, placed=dict(self.placed),
            eligibility=FITS, is_half_bound=self.is_half_bound, idle_s=self.idle_s,
        )  # fmt: skip

    # -------------------------------------------------- what Kubernetes does

    def create(self, place):
        """A controller makes a pod for a place that has none left; it does not wait for one that is ending."""
        own = [pod for (own, _), pod in self.pods.items() if own == place]
        if any(not pod.is_finished and not pod.is_deleting for pod in own):
            return
        self.tries += 1
        made = self.makers[place](self.tries)
        made = replace(made, metadata=replace(made.metadata, creation_timestamp=f"{self.tries:04}"))
        identity = identify(made, self.owners)
        assert self.id in (None, identity)
        self.id = identity
        self.pods[place, self.tries] = made

    def _of(self, place):
        living = [key for key, pod in self.pods.items() if key[0] == place and not pod.is_finished]
        return min(living, default=None)

    def delete(self, place):
        if key := self._of(place):
            self.pods[key] = _deleting(self.pods[key])

    def gone(self, place):
        for key in [key for key, pod in self.pods.items() if key[0] == place and (pod.is_deleting or pod.is_finished)]:
            del self.pods[key]

    def end(self, place, phase):
        key = self._of(place)
        if key and self.pods[key].spec.node_name:
            self.pods[key] = replace(self.pods[key], status=replace(self.pods[key].status, phase=phase))

    # ------------------------------------------------------- what Slurm does

    def _job(self, **fields):
        for id, job in self.jobs.items():
            if job.is_live:
                self.jobs[id] = replace(job, **fields)

    def start(self, nodes=3):
        for id, job in self.jobs.items():
            if job.is_pending:
                given = FITS.eligible[: min(nodes, job.tasks)]
                self.jobs[id] = replace(job, state=frozenset({"RUNNING"}), nodes=given)

    def slurm(self, what):
        match what:
            case "preempt":
                self._job(state=frozenset({"PREEMPTED", "COMPLETING"}))
            case "lose":
                self._job(missing=2)
            case "fewer nodes":
                self.start(nodes=1)
            case "ended":
                for id, job in list(self.jobs.items()):
                    if job.is_over:
                        self.jobs[id] = replace(job, state=job.state - {"COMPLETING"})
                        if id != self.bound_to:
                            del self.jobs[id]

    # ----------------------------------------------------------- what we do

    def look(self):
        """One pass; whether anything was done."""
        if self.id is None:
            return False
        view = self.view()
        self.is_half_bound = self.is_half_bound and any(not pod.spec.node_name for pod in view.pods)
        living = [pod for pod in view.pods if pod.uid in view.holding]
        actions = decide_gang(view, POLICY)
        self._nobody_is_left_alone(view, living, actions)
        for action in actions:
            self._do(view, action)
        return any(isinstance(action, Submit | Bind | Cancel | Evict | Finish | Cover) for action in actions)

    def _nobody_is_left_alone(self, view, living, actions):
        """Where pods run, their job holds the node, or they are told to go, or another job is asked for."""
        job = view.bound_job
        if not living or (job is not None and not job.is_lost and holds_its_node(job)):
            return
        going = {action.pod.uid for action in actions if isinstance(action, Evict)}
        going |= {pod.uid for pod in living if pod.is_deleting}
        is_covered = any(isinstance(action, Submit | Cover | Cancel) for action in actions) or bool(view.live_jobs)
        assert is_covered or going >= {pod.uid for pod in living}

    def _do(self, view, action):
        match action:
            case Submit(request=request):
                id = 1 + max(self.jobs, default=0)
                required = request.required_nodes
                self.jobs[id] = JobView(id=id, state=frozenset({"PENDING"}), tasks=request.tasks, required=required)
            case Bind(job=job, bindings=bindings):
                if not view.is_bound:
                    wave = sum(role.first for role in view.gang.roles)
                    done = sum(pod.status.phase == "Succeeded" for pod in view.pods)
                    assert len(bindings) + done >= wave, "half a gang"
                self._bind(job, bindings)
            case Cancel(job=job) | Finish(job=job):
                self.jobs[job] = replace(self.jobs[job], state=frozenset({"CANCELLED"}))
            case Evict(pod=pod):
                key = next(key for key, known in self.pods.items() if known.uid == pod.uid)
                self.pods[key] = _deleting(self.pods[key])
            case Cover(job=job):
                self.bound_to = job

    def _bind(self, job, bindings):
        self.bound_to = job
        for binding in bindings:
            key = next(key for key, pod in self.pods.items() if pod.uid == binding.pod.uid)
            assert not self.pods[key].spec.node_name
            note = {"sunkpy.dev/place": binding.place} if binding.place else {}
            pod = self.pods[key]
            metadata = replace(pod.metadata, annotations=pod.annotations | note)
            self.pods[key] = replace(
                pod, metadata=metadata, spec=replace(pod.spec, node_name=f"k-{binding.slurm_node}")
            )
            self.placed[pod.uid] = binding.slurm_node
        held = [pod for pod in self.pods.values() if pod.spec.node_name and not pod.is_finished]
        assert len(held) <= 3
        places = [pod.annotations.get("sunkpy.dev/place") for pod in held]
        assert len(set(places)) == len(places), "two pods on one place"

    def play(self, event, place):
        match event:
            case "create" | "delete" | "gone":
                getattr(self, event)(place)
            case "fail":
                self.end(place, "Failed")
            case "succeed":
                self.end(place, "Succeeded")
            case "start":
                self.start()
            case "look":
                self.look()
            case "all":
                for place in range(3):
                    self.create(place)
                    self.look()
                self.start()
                self.look()
            case _:
                self.slurm(event)

    def settle(self):
        """From now on nothing is taken away: what is ending ends, each place gets its pod, jobs start."""
        self.idle_s = 1000.0
        for _ in range(60):
            for place in range(3):
                self.gone(place)
            self.slurm("ended")
            for place in range(3):
                self.create(place)
            did = self.look()
            self.start()
            pods = self.pods.values()
            if not did and len(pods) == 3 and all(pod.spec.node_name and not pod.is_deleting for pod in pods):
                return
            if not did and any(job.is_live and job.required for job in self.jobs.values()):
                # A job that covers what was left has no room for others: they come when those have ended.
                for place in range(3):
                    self.end(place, "Failed")
        raise AssertionError(f"stands still: {explain_missing(self.view().gang)} {self.pods} {self.jobs}")


def _deleting(pod):
    return replace(pod, metadata=replace(pod.metadata, deletion_timestamp="2026-11-21T00:00:00Z"))


STEPS = st.lists(st.tuples(st.sampled_from((*EVENTS, *SLURMS)), st.integers(0, 2)), max_size=12)


@pytest.mark.parametrize("name", ENSEMBLES)
@settings(max_examples=40, deadline=None)
@given(steps=STEPS)
def test_whatever_happens_it_ends_in_a_whole_gang(name, steps):
    course = Course(name)
    course.play("all", 0)
    for event, place in steps:
        course.play(event, place)
    course.settle()


STATUS = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.sampled_from(["", "Failed", "True", "2026-11-21T00:00:00Z"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["conditions", "type", "status", "restarts", "phase", "state", "suspend", "name", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("name", ENSEMBLES)
@settings(max_examples=40, deadline=None)
@given(
    status=STATUS,
    annotations=st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
    place=st.integers(0, 2),
)
def test_what_changes_above_a_pod_never_makes_it_another_gang(name, status, annotations, place):
    owners, makers = ENSEMBLES[name]
    pod = makers[place](1)
    id = identify(pod, owners)
    raw = msgspec.Raw(msgspec.json.encode(status))
    changed = tuple(
        replace(owner, status=raw, metadata=replace(owner.metadata, annotations=annotations)) for owner in owners
    )
    ended = replace(pod, status=replace(pod.status, phase="Failed"), spec=replace(pod.spec, node_name="k"))
    deleted = _deleting(pod)
    for life in (pod, ended, deleted):
        assert identify(life, changed) == id
        gang = assemble(id, [life], changed)
        assert {each.uid for each in gang.members} == {life.uid}


@pytest.mark.parametrize("name", ENSEMBLES)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_pods_that_lose_labels_and_annotations_stop_no_gang(name, data):
    owners, makers = ENSEMBLES[name]
    pods = [make(number) for number, make in enumerate(makers)]
    id = identify(pods[0], owners)
    changed = []
    for pod in pods:
        keep = {part: data.draw(st.sets(st.sampled_from(sorted(text)))) if text else set()
                for part, text in (("labels", pod.labels), ("annotations", pod.annotations))}  # fmt: skip
        meta = replace(
            pod.metadata,
            labels={key: pod.labels[key] for key in keep["labels"]},
            annotations={key: pod.annotations[key] for key in keep["annotations"]},
        )
        is_bound = data.draw(st.booleans())
        changed.append(replace(pod, metadata=meta, spec=replace(pod.spec, node_name="k" if is_bound else "")))
    for order in data.draw(st.permutations(changed)), changed:
        gang = assemble(id, order, owners)
        assert {pod.uid for pod in changed if pod.spec.node_name} <= {pod.uid for pod in gang.members}
        decide_gang(GangView(id=id, gang=gang, eligibility=FITS), POLICY)
