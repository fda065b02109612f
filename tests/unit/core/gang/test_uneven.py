"""Gangs of unlike pods that grow while they run: whoever comes, in whatever order, sits where the job has room."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sunkpy.core.gang.actions import Bind, Cancel, MakeSolo, Report, Submit
from sunkpy.core.gang.decide import decide_gang
from sunkpy.core.gang.gang import ANY_SEAT, Gang, Member, Role
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.job.request import plan_job
from sunkpy.core.model import matching
from sunkpy.core.placement.domains import HOSTNAME
from sunkpy.core.placement.eligibility import Eligibility
from sunkpy.core.placement.needs import counted, rounded
from tests.unit.core.gang.jobs import change_job
from tests.unit.core.gang.pods import make_pod, make_room
from tests.unit.core.gang.simulator import GPU, World

ID = GangId(namespace="default", name="train", uid="uid-1")
LARGE = Eligibility(eligible=("n1",), rooms=frozenset({make_room(99_000, 2**40, gpu=99)}))


class Course(World):
    """A gang, its one job, and what becomes of them: pods are gone, come again, or are more than there were.

    `seats`: role and index of each pod that there ever was.
    """

    eligibility = None

    def __init__(self, sizes, asks, *, is_numbered=True, makes_apart=False, **limits):
        """`makes_apart`: no node has room for two pods in one slot."""
        super().__init__()
        self.places, self.asks, self.is_numbered, self.limits = dict(sizes), asks, is_numbered, limits
        self.seats = {}
        self.is_told = self.has_larger = self.has_shrunk = False
        for role in sizes:
            for index in range(sizes[role]):
                self.bring(role, index)
        eligible = LARGE
        if makes_apart:
            eligible = replace(LARGE, rooms=frozenset({make_room(**counted(self.alone, self.policy.gpu_resources))}))
        self.made_for = dict(sizes)
        gang = self.snapshot(ID).gang
        self.apply(ID, Submit(request=plan_job(gang, self.policy, eligible), pods=gang.members))

    @property
    def alone(self):
        several = [rounded(matching.pod_requests(pod.spec)) for pod in self.pods.values()]
        return {name: max(each.get(name, 0) for each in several) for name in several[0]}

    @property
    def request(self):
        return self.job.spec

    @property
    def job(self):
        return self.units[ID].jobs[self.submitted]

    @property
    def is_over(self):
        return self.job.is_over

    @property
    def living(self):
        """Uids of those that were not set apart."""
        return {pod.uid for pod in self.pods_of(ID)}

    def __repr__(self):
        layout, placed = self.job.slurm.layout, self.placed
        return f"{self.made_for} of {self.asks} in {layout}, told={self.is_told}, {self.limits}: {placed}"

    def bring(self, role, index, *, more_cpus=0):
        asks = self.asks[role] | {"cpu": str(int(self.asks[role]["cpu"]) + more_cpus)}
        number = len(self.seats) + 1
        pod = make_pod(f"{role}-{index}-{number:03}", uid=f"{role}-{index}-{number:03}", requests=asks)
        self.seats[pod.uid] = (role, index)
        self.add(replace(pod, metadata=replace(pod.metadata, creation_timestamp=f"{number:03}")))
        self.has_larger |= more_cpus > 0

    def shrink_role(self, role, away):
        """The last place of a role goes, and its pod; returned are those of `away` that may come back."""
        if self.places[role] > 1:
            self.places[role], self.has_shrunk = self.places[role] - 1, True
            last = (role, self.places[role])
            self.remove([pod for pod in self.pods.values() if self.seats[pod.uid] == last])
            away = [each for each in away if each != last]
        return away

    def take_away(self, uid):
        self.remove([self.pods[uid]])
        return self.seats[uid]

    def identify(self, pod):
        return ID

    def assemble(self, id, pods, apart):
        roles = (
            Role(name=name, seats=n, first=n, members=self.of(name, pods), elsewhere=self.of(name, apart))
            for name, n in self.places.items()
        )
        return Gang(id=ID, roles=tuple(roles), **self.limits)

    def of(self, role, pods):
        return tuple(
            Member(pod=pod, index=index if self.is_numbered else ANY_SEAT)
            for index, _, pod in sorted((self.seats[pod.uid][1], pod.name, pod) for pod in pods)
            if self.seats[pod.uid][0] == role
        )

    def snapshot(self, id):
        """Slurm tells late what the job has on each node."""
        made = super().snapshot(id)
        if self.is_told or not self.submitted:
            return made
        layout = self.job.slurm.layout
        told = layout if len(set(dict(layout).values())) > 1 else ()
        return replace(made, jobs=(change_job(self.job, layout=told, capacity={}),))

    def settle(self, choose):
        """What is wanted is done, one thing after the other, until there is nothing; `choose` which."""
        for _ in range(100):
            snapshot = self.snapshot(ID)
            actions = [] if self.is_over or not self.living else decide_gang(snapshot, self.policy)
            assert not [action for action in actions if isinstance(action, Submit)]
            self.check(snapshot, actions)
            todo = [action for action in actions if isinstance(action, (Bind, MakeSolo, Cancel))]
            if not todo:
                return actions
            self.apply(ID, choose(todo))
        raise AssertionError("never comes to rest")

    def apply(self, id, action):
        match action:
            case MakeSolo(pod=pod):
                assert not self.pods[pod.uid].spec.node_name
                assert not self.must_sit(pod.uid)
            case Cancel():
                assert not self.snapshot(ID).holding
        super().apply(id, action)

    def must_sit(self, uid):
        """The job was made for a pod of this place, as large as this one."""
        role, index = self.seats[uid]
        early = [name for name in self.places if name != list(self.places)[-1]]
        has_new_before = any(self.places[name] != self.made_for[name] for name in early)
        is_old = self.is_numbered and index < self.made_for[role]
        return is_old and not (has_new_before or self.has_larger or self.has_shrunk)


AMOUNTS = st.tuples(st.integers(1, 6), st.sampled_from([64, 300, 1024, 4000]), st.sampled_from([0, 0, 1, 4]))
ASKS = AMOUNTS.map(lambda each: {"cpu": str(each[0]), "memory": f"{each[1]}Mi", GPU: str(each[2])})
LIMITS = st.sampled_from([{}, {}, {"one_per_node": True}, {"one_domain": HOSTNAME}])
EVENTS = ["settle", "grow", "less", "gone", "gone", "back", "larger", "told"]


@st.composite
def courses(draw):
    sizes = {"leader": draw(st.integers(1, 3)), "worker": draw(st.integers(1, 5))}
    makes_apart = draw(st.booleans())
    asks = {role: draw(ASKS) for role in sizes}
    made = Course(sizes, asks, is_numbered=draw(st.booleans()), makes_apart=makes_apart, **draw(LIMITS))
    tasks, request = made.request.tasks, made.request
    nodes = draw(st.integers(request.minimum_nodes, request.maximum_nodes))
    counts = [1] * nodes
    for _ in range(tasks - nodes):
        counts[draw(st.integers(0, nodes - 1))] += 1
    made.start(made.job, tuple((f"n{number}", count) for number, count in enumerate(counts)))
    # One node is asked for as a whole: the cpus of its slots are no more than an average.
    made.is_told = bool(made.limits.get("one_domain")) or draw(st.booleans())
    return made


@given(courses(), st.data())
def test_however_a_gang_grows_and_whoever_is_made_again_no_slot_is_overfull_and_who_has_a_place_takes_it(course, data):
    def choose(todo):
        return todo[data.draw(st.integers(0, len(todo) - 1))]

    hides = not course.is_told
    away = []
    for event in data.draw(st.lists(st.sampled_from(EVENTS))):
        living = sorted(course.living)
        if event == "settle":
            course.settle(choose)
        elif event == "grow":
            role = data.draw(st.sampled_from(["leader", "worker", "worker"]))
            if course.places[role] < 8:
                course.bring(role, course.places[role])
                course.places[role] += 1
        elif event == "less" and len(living) > 1:
            away = course.shrink_role(data.draw(st.sampled_from(["leader", "worker"])), away)
        elif event == "gone" and len(living) > 1:
            away.append(course.take_away(data.draw(st.sampled_from(living))))
        elif event in ("back", "larger") and away:
            again = away.pop(data.draw(st.integers(0, len(away) - 1)))
            course.bring(*again, more_cpus=2 if event == "larger" and not hides else 0)
        elif event == "told" and hides:
            course.is_told = not course.is_told
    for again in away:
        course.bring(*again)
    left = course.settle(choose)
    assert course.is_over or course.living == course.snapshot(ID).holding.keys()
    assert not [action for action in left if isinstance(action, Report)]
