"""Gangs of unlike pods that grow while they run: whoever comes, in whatever order, sits where the job has room."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sunkpy.core import names
from sunkpy.core.gang.actions import Bind, Cancel, Report, SetApart, Submit
from sunkpy.core.gang.decide import decide_gang
from sunkpy.core.gang.gang import ANY_PLACE, Gang, Member, Role
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.request import Policy, plan_job
from sunkpy.core.gang.slots import rounded
from sunkpy.core.gang.view import GangView, JobView
from sunkpy.core.model import matching
from sunkpy.core.model.room import Room
from sunkpy.core.placement.domains import HOSTNAME
from sunkpy.core.placement.eligibility import Eligibility, size_of
from tests.unit.core.gang.pods import make_pod

GPU = "nvidia.com/gpu"
POLICY = Policy(gpu_resources={GPU: "gpu"})
ID = GangId(namespace="default", name="train", uid="uid-1")
LARGE = Eligibility(eligible=("n1",), sizes=frozenset({(99, 99_000, 2**40)}))


class Course:
    """A gang, its one job, and what becomes of them: pods are gone, come again, or are more than there were."""

    def __init__(self, sizes, asks, *, is_numbered=True, makes_apart=False, **limits):
        """`makes_apart`: no node has room for two pods in one slot."""
        self.places, self.asks, self.is_numbered, self.limits = dict(sizes), asks, is_numbered, limits
        self.pods, self.apart, self.holding, self.count = {}, {}, {}, 0
        self.is_started = self.is_over = self.is_told = self.has_larger = self.has_shrunk = False
        for role in sizes:
            for index in range(sizes[role]):
                self.bring(role, index)
        eligible = LARGE
        if makes_apart:
            eligible = replace(LARGE, sizes=frozenset({size_of(self.alone)}))
        self.made_for = dict(sizes)
        self.request = plan_job(self.gang, POLICY, eligible)

    @property
    def alone(self):
        several = [rounded(matching.pod_requests(pod.spec)) for _, _, pod in self.pods.values()]
        return {name: max(each.get(name, 0) for each in several) for name in several[0]}

    def __repr__(self):
        return f"{self.made_for} of {self.asks} in {self.layout}, told={self.is_told}, {self.limits}: {self.holding}"

    def bring(self, role, index, *, more_cpus=0):
        self.count += 1
        asks = self.asks[role] | {"cpu": str(int(self.asks[role]["cpu"]) + more_cpus)}
        pod = make_pod(f"{role}-{index}-{self.count:03}", uid=f"{role}-{index}-{self.count:03}", requests=asks)
        pod = replace(pod, metadata=replace(pod.metadata, creation_timestamp=f"{self.count:03}"))
        self.pods[pod.uid] = (role, index, pod)
        self.has_larger |= more_cpus > 0

    def shrink(self, role, away):
        """The last place of a role goes, and its pod; returned are those of `away` that may come back."""
        if self.places[role] > 1:
            self.places[role], self.has_shrunk = self.places[role] - 1, True
            last = (role, self.places[role])
            for uid in [uid for uid, each in self.pods.items() if each[:2] == last]:
                self.take_away(uid)
            self.apart = {uid: each for uid, each in self.apart.items() if each[:2] != last}
            away = [each for each in away if each != last]
        return away

    def take_away(self, uid):
        self.holding.pop(uid, None)
        return self.pods.pop(uid)

    def lie(self, counts):
        """Slurm lays the tasks out."""
        self.layout = tuple((f"n{number}", count) for number, count in enumerate(counts))
        self.rooms = {}
        for node, count in self.layout:
            cpus = count * self.request.cpus_per_task
            memory_mib = self.request.memory_mib_per_node or self.request.memory_mib_per_cpu * cpus
            text = self.request.gres_per_node or self.request.gres_per_task
            gpus = int(text.rpartition(":")[2] or 0) * (1 if self.request.gres_per_node else count)
            self.rooms[node] = Room(cpus=cpus, memory_mib=memory_mib, gres={"gpu": gpus})

    @property
    def gang(self):
        roles = [
            Role(name=name, places=n, first=0, members=self.of(name, self.pods)) for name, n in self.places.items()
        ]
        roles = [replace(role, first=role.places, elsewhere=self.of(role.name, self.apart)) for role in roles]
        return Gang(id=ID, roles=tuple(roles), **self.limits)

    def of(self, role, pods):
        return tuple(
            Member(pod=pod, index=index if self.is_numbered else ANY_PLACE)
            for name, index, pod in sorted(pods.values(), key=lambda each: (each[1], each[2].name))
            if name == role
        )

    @property
    def view(self):
        job = JobView(
            id=7,
            state=frozenset({"RUNNING"}),
            nodes=tuple(node for node, _ in self.layout),
            tasks=self.request.tasks,
            cpus_per_task=self.request.cpus_per_task,
            layout=self.layout if self.is_told or len(set(dict(self.layout).values())) > 1 else (),
            room=self.rooms if self.is_told else {},
        )
        bound_to = 7 if self.is_started else None
        return GangView(id=ID, gang=self.gang, jobs=(job,), bound_to=bound_to, placed=self.holding)

    def settle(self, choose):
        """What is wanted is done, one thing after the other, until there is nothing; `choose` which."""
        for _ in range(100):
            actions = [] if self.is_over or not self.pods else decide_gang(self.view, POLICY)
            assert not [action for action in actions if isinstance(action, Submit)]
            self.check_once(actions)
            todo = [action for action in actions if isinstance(action, (Bind, SetApart, Cancel))]
            if not todo:
                return actions
            self.do(choose(todo))
        raise AssertionError("never comes to rest")

    def check_once(self, actions):
        told = [binding.pod.uid for action in actions if isinstance(action, Bind) for binding in action.bindings]
        told += [action.pod.uid for action in actions if isinstance(action, SetApart)]
        assert len(told) == len(set(told))

    def do(self, action):
        match action:
            case Bind(bindings=bindings):
                self.is_started = True
                for each in bindings:
                    role, index, pod = self.pods[each.pod.uid]
                    assert pod.uid not in self.holding
                    meta = replace(pod.metadata, annotations={names.ANNOTATION_PLACE: each.place})
                    spec = replace(pod.spec, node_name=f"k-{each.slurm_node}")
                    self.pods[pod.uid] = (role, index, replace(pod, metadata=meta, spec=spec))
                    self.holding[pod.uid] = each.slurm_node
                self.check_room()
            case SetApart(pod=pod):
                assert pod.uid not in self.holding
                assert not self.must_sit(pod.uid)
                self.apart[pod.uid] = self.pods.pop(pod.uid)
            case Cancel():
                assert not self.holding
                self.is_over = True

    def check_room(self):
        for node, room in self.rooms.items():
            there = [pod for uid, (_, _, pod) in self.pods.items() if self.holding.get(uid) == node]
            asked = {}
            for pod in there:
                asked = matching.added(asked, rounded(matching.pod_requests(pod.spec)))
            has = {"cpu": room.cpus * 1000, "memory": room.memory_mib * 2**20, GPU: room.gres["gpu"]}
            counted = {name: asked.get(name, 0) for name in has}
            assert not matching.shortfalls(counted, has), (node, [pod.name for pod in there])

    def must_sit(self, uid):
        """The job was made for a pod of this place, as large as this one."""
        role, index, _ = self.pods[uid]
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
    made.lie(counts)
    # One node is asked for as a whole: the cpus of its slots are no more than an average.
    made.is_told = bool(made.gang.one_domain) or draw(st.booleans())
    return made


@given(courses(), st.data())
def test_however_a_gang_grows_and_whoever_is_made_again_no_slot_is_overfull_and_who_has_a_place_takes_it(course, data):
    def choose(todo):
        return todo[data.draw(st.integers(0, len(todo) - 1))]

    hides = not course.is_told
    away = []
    for event in data.draw(st.lists(st.sampled_from(EVENTS))):
        living = sorted(course.pods)
        if event == "settle":
            course.settle(choose)
        elif event == "grow":
            role = data.draw(st.sampled_from(["leader", "worker", "worker"]))
            if course.places[role] < 8:
                course.bring(role, course.places[role])
                course.places[role] += 1
        elif event == "less" and len(course.pods) > 1:
            away = course.shrink(data.draw(st.sampled_from(["leader", "worker"])), away)
        elif event == "gone" and len(living) > 1:
            away.append(course.take_away(data.draw(st.sampled_from(living)))[:2])
        elif event in ("back", "larger") and away:
            again = away.pop(data.draw(st.integers(0, len(away) - 1)))
            course.bring(*again, more_cpus=2 if event == "larger" and not hides else 0)
        elif event == "told" and hides:
            course.is_told = not course.is_told
    for again in away:
        course.bring(*again)
    left = course.settle(choose)
    assert course.is_over or set(course.pods) == set(course.holding)
    assert not [action for action in left if isinstance(action, Report)]
