"""The shape of a gang's job: nothing is ever asked less than the pods need, and for equal pods nothing more."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.gang.gang import Gang, Member, Role
from sunkpy.core.gang.identity import REPLACEMENT, GangId, JobKind, kind_in
from sunkpy.core.gang.job.request import GpuSharing, Policy, plan_job
from sunkpy.core.gang.seating.slots import is_for_as_many, needs_of_seats, plan_slots, seats_of, slot_of_each_seat
from sunkpy.core.model import matching
from sunkpy.core.model.gres import gres_counts
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.layout import spread
from sunkpy.core.placement.domains import HOSTNAME
from sunkpy.core.placement.eligibility import Eligibility
from tests.unit.core.gang.pods import make_pod, make_room

GPU = "nvidia.com/gpu"
POLICY = Policy(gpu_resources={GPU: "gpu"}, gpu_sharing=GpuSharing.COUNT)
ID = GangId(namespace="default", name="train", uid="uid-1")


def role(name, seats, requests, *, there=None):
    pods = [make_pod(f"{name}-{n}", uid=f"{name}-{n}", requests=requests) for n in range(seats)]
    members = tuple(Member(pod=pod, index=n) for n, pod in enumerate(pods[:there]))
    return Role(name=name, seats=seats, first=1, members=members, shape=pods[0].spec if pods else None)


def gang(*roles, **fields):
    return Gang(id=ID, roles=roles, **fields)


def needs_by_seat(shaped):
    return {(each.name, at): needs for each in shaped.roles for at, needs in enumerate(needs_of_seats(each))}


def test_equal_members_are_asked_for_exactly_and_may_share_nodes():
    job = plan_job(gang(role("worker", 5, {"cpu": "2", "memory": "3Gi", GPU: "1"})), POLICY)
    assert (job.tasks, job.cpus_per_task, job.minimum_nodes, job.maximum_nodes) == (5, 2, 1, 5)
    assert (job.memory_mib_per_cpu, job.memory_mib_per_node) == (1536, 0)
    assert (job.gres_per_task, job.gres_per_node) == ("gres/gpu:1", "")


def test_memory_per_cpu_is_rounded_up():
    job = plan_job(gang(role("worker", 2, {"cpu": "3", "memory": "1000Mi"})), POLICY)
    assert job.memory_mib_per_cpu == 334


def test_members_that_want_nodes_of_their_own_ask_per_node():
    wants = {"cpu": "2", "memory": "3Gi", GPU: "1"}
    job = plan_job(gang(role("worker", 3, wants), one_per_node=True), POLICY)
    assert (job.tasks, job.minimum_nodes, job.maximum_nodes) == (3, 3, 3)
    assert (job.memory_mib_per_node, job.memory_mib_per_cpu) == (3072, 0)
    assert (job.gres_per_node, job.gres_per_task) == ("gres/gpu:1", "")


def test_a_launcher_joins_the_first_worker_where_that_asks_for_less():
    shaped = gang(role("launcher", 1, {"cpu": "1"}), role("worker", 2, {"cpu": "4", GPU: "8"}))
    slots = plan_slots(shaped)
    assert (slots.count, slots.needs["cpu"], slots.needs[GPU]) == (2, 5000, 8)
    of = slot_of_each_seat(shaped, slots.count, slots.kind)
    assert of == {("launcher", 0): 0, ("worker", 0): 0, ("worker", 1): 1}


def test_a_small_role_gets_slots_of_its_own_where_that_asks_for_less():
    slots = plan_slots(gang(role("ps", 2, {"cpu": "2"}), role("worker", 4, {"cpu": "2"})))
    assert (slots.count, slots.needs["cpu"]) == (6, 2000)


def test_a_slot_that_fits_no_node_is_not_asked_for():
    uneven = gang(role("launcher", 1, {"cpu": "1"}), role("worker", 2, {"cpu": "4", GPU: "8"}))
    small = Eligibility(eligible=("n1",), rooms=frozenset({make_room(4000, 2**40, gpu=8)}))
    assert plan_slots(uneven, small, POLICY.gpu_resources).count == 3
    large = Eligibility(eligible=("n1",), rooms=frozenset({make_room(cpu, 2**40, gpu=8) for cpu in (4000, 5000)}))
    assert plan_slots(uneven, large, POLICY.gpu_resources).count == 2


def test_of_slots_that_fit_no_node_the_one_is_asked_for_that_whole_cpus_alone_make_too_large():
    """Daemons take a part of a cpu, and Slurm has the node with all of them."""
    uneven = gang(role("leader", 1, {"cpu": "1200m"}), role("worker", 2, {"cpu": "500m"}))
    slots = plan_slots(uneven, Eligibility(eligible=("n1",), rooms=frozenset({make_room(1750, 2**40)})))
    assert (slots.count, slots.needs["cpu"]) == (3, 2000)
    whole = gang(role("launcher", 1, {"cpu": "1"}), role("worker", 1, {"cpu": "3"}))
    slots = plan_slots(whole, Eligibility(eligible=("n1",), rooms=frozenset({make_room(3750, 2**40)})))
    assert (slots.count, slots.needs["cpu"]) == (2, 3000)


def test_places_without_pods_are_held_as_the_template_says():
    slots = plan_slots(gang(role("driver", 1, {"cpu": "1"}), role("executor", 3, {"cpu": "1"}, there=0)))
    assert (slots.count, slots.needs["cpu"]) == (4, 1000)


def test_what_was_added_to_some_pods_of_a_role_is_held_for_the_others_too():
    there = Role(
        name="worker",
        seats=2,
        first=1,
        members=(Member(pod=make_pod(requests={"cpu": "3"}), index=0),),
        shape=make_pod(requests={"cpu": "2"}).spec,
    )
    assert [needs["cpu"] for needs in needs_of_seats(there)] == [3000, 3000]


def test_of_a_job_that_does_not_say_its_kind_each_seat_has_a_slot():
    grown = gang(role("launcher", 1, {"cpu": "1"}), role("worker", 3, {"cpu": "4"}))
    assert list(slot_of_each_seat(grown, 2, None).values()) == [0, 1, 2, 3]
    assert not is_for_as_many(grown, 2, None)


SHARED = JobKind("shared", (("worker", 2), ("launcher", 1)))


@pytest.mark.parametrize(
    ("launchers", "workers", "kind", "slots", "is_ours"),
    [
        (1, 2, SHARED, [0, 0, 1], True),
        (1, 3, SHARED, [0, 0, 1, None], False),  # workers came: the launcher stays with the first of them
        (2, 2, SHARED, [0, None, 0, 1], False),  # it was asked for one launcher
        (2, 2, JobKind("shared", (("worker", 2), ("launcher", 2))), [0, 1, 0, 1], True),
        (1, 1, SHARED, [0, 1], True),  # a slot for each is enough
        (1, 2, JobKind("whole"), [0, 1, None], False),
        (1, 2, REPLACEMENT, [0, 1, None], False),
        (1, 2, JobKind("shared", (("boss", 2), ("launcher", 1))), [0, None, None], False),
    ],
)
def test_the_kind_of_a_job_says_which_places_share_a_slot(launchers, workers, kind, slots, is_ours):
    uneven = gang(role("launcher", launchers, {"cpu": "1"}), role("worker", workers, {"cpu": "4", GPU: "8"}))
    assert [slot if slot < 2 else None for slot in slot_of_each_seat(uneven, 2, kind).values()] == slots
    assert is_for_as_many(uneven, 2, kind) is is_ours


def test_a_gang_whose_kind_would_not_fit_into_a_comment_is_asked_for_whole():
    many = gang(*(role(f"{'r' * 40}-{number}", 1, {"cpu": "1"}) for number in range(9)), role("w", 9, {GPU: "8"}))
    assert (plan_slots(many).count, plan_slots(many).kind) == (18, JobKind("whole"))


def test_a_gang_that_must_be_on_one_node_is_asked_for_exactly():
    parts = (role("a", 1, {"cpu": "1", "memory": "512Mi", GPU: "1"}), role("b", 2, {"cpu": "500m", "memory": "256Mi"}))
    job = plan_job(gang(*parts, one_domain=HOSTNAME), POLICY)
    assert (job.tasks * job.cpus_per_task, job.minimum_nodes, job.maximum_nodes) == (3, 1, 1)
    assert (job.memory_mib_per_node, job.gres_per_node) == (1024, "gres/gpu:1")


def test_on_one_node_it_makes_no_difference_which_pod_has_which_place():
    asks = [{"cpu": "1", "memory": "512Mi"}, {"cpu": "1", "memory": "256Mi"}]
    pods = [make_pod(f"p-{n}", uid=f"p-{n}", requests=requests) for n, requests in enumerate(asks)]
    uneven = Role(name="pod", seats=3, first=3, members=tuple(Member(pod=pod) for pod in pods))
    job = plan_job(gang(uneven, one_domain=HOSTNAME), POLICY)
    assert (job.tasks, job.cpus_per_task, job.memory_mib_per_node) == (3, 1, 512 + 256 + 512)


AMOUNTS = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.integers(1, 9000).map(lambda m: f"{m}m"),
        "memory": st.integers(1, 2**34).map(str),
        GPU: st.integers(0, 8).map(str),
    },
)
ROLES = st.lists(st.tuples(st.integers(0, 5), AMOUNTS, st.integers(0, 5)), min_size=1, max_size=4).map(
    lambda roles: tuple(
        role(f"role{number}", seats, requests, there=there) for number, (seats, requests, there) in enumerate(roles)
    )
)


@given(ROLES, st.booleans())
def test_every_place_has_a_slot_and_no_slot_is_too_small(roles, one_per_node):
    shaped = gang(*roles, one_per_node=one_per_node)
    needs, slots = needs_by_seat(shaped), plan_slots(shaped)
    of = slot_of_each_seat(shaped, slots.count, slots.kind)
    assert set(of) == set(seats_of(shaped))
    assert is_for_as_many(shaped, slots.count, slots.kind)
    for slot in range(slots.count):
        inside = [needs[place] for place, at in of.items() if at == slot]
        assert inside
        assert len(inside) == 1 or not one_per_node
        total = {}
        for each in inside:
            total = matching.added(total, each)
        assert not matching.shortfalls(total, slots.needs)


@given(ROLES)
def test_one_node_is_asked_for_what_all_need_and_for_how_many(roles):
    shaped = gang(*roles, one_domain=HOSTNAME)
    if not shaped.seats:
        return
    job, needs = plan_job(shaped, POLICY), needs_by_seat(shaped).values()
    assert is_for_as_many(shaped, job.tasks, kind_in(job.comment))
    assert (job.minimum_nodes, job.maximum_nodes) == (1, 1)
    assert 0 <= job.tasks * job.cpus_per_task - sum(each["cpu"] for each in needs) // 1000 < job.tasks
    assert job.memory_mib_per_node == sum(each["memory"] for each in needs) // 2**20


@given(st.integers(1, 9), AMOUNTS)
def test_what_equal_members_ask_is_what_they_need(seats, requests):
    uniform = gang(role("worker", seats, requests))
    slots, needs = plan_slots(uniform), needs_by_seat(uniform)
    assert slots.count == seats
    assert all(slots.needs == each for each in needs.values())
    job = plan_job(uniform, POLICY)
    if seats > 1:
        memory_mib = slots.needs["memory"] // 2**20
        assert 0 <= job.memory_mib_per_cpu * job.cpus_per_task - memory_mib < job.cpus_per_task


# ------------------------------------------------------------ what Slurm holds on each node, however the tasks lie

WHOLE = {"options": JobSpec(shared="none")}
ROOMS = (make_room(40_000, 2**36, gpu=64), make_room(99_000, 2**40, gpu=99))
LARGE = Eligibility(eligible=("n1",), rooms=frozenset(ROOMS))


@st.composite
def layouts(draw, job):
    """Tasks per node, as Slurm may lay them out: even where it gives whole nodes, any way where nodes are shared."""
    nodes = draw(st.integers(job.minimum_nodes, job.maximum_nodes))
    if job.memory_mib_per_node:
        return [count for _, count in spread(range(nodes), job.tasks)]
    if nodes == 1:
        return [job.tasks]
    cuts = draw(st.lists(st.integers(1, job.tasks - 1), min_size=nodes - 1, max_size=nodes - 1, unique=True))
    edges = [0, *sorted(cuts), job.tasks]
    return [after - before for before, after in itertools.pairwise(edges)]


def held(job, tasks):
    """What the job has on a node with `tasks` of its tasks: millicores, bytes and GPUs."""
    cpus = tasks * job.cpus_per_task
    memory_mib = job.memory_mib_per_node or cpus * job.memory_mib_per_cpu
    gpus = int(job.gres_per_node.rpartition(":")[2] or 0) + tasks * int(job.gres_per_task.rpartition(":")[2] or 0)
    return {"cpu": cpus * 1000, "memory": memory_mib * 2**20, GPU: gpus}


def asked_on(shaped, job, counts):
    """What the pods that are there ask, by the number of the node of their place."""
    node_of_slot = [node for node, count in enumerate(counts) for _ in range(count)]
    slots = slot_of_each_seat(shaped, job.tasks, kind_in(job.comment))
    asked = [{} for _ in counts]
    for each in shaped.roles:
        for member in each.members:
            node = node_of_slot[slots[each.name, member.index]] if len(counts) > 1 else 0
            asked[node] = matching.added(asked[node], matching.pod_requests(member.pod.spec))
    return asked


@given(ROLES, st.sampled_from([{}, {"one_per_node": True}, {"one_domain": HOSTNAME}, WHOLE]), st.data())
def test_on_no_node_slurm_holds_less_than_the_pods_there_ask(roles, limits, data):
    shaped = gang(*roles, **limits)
    if not shaped.seats:
        return
    job = plan_job(shaped, POLICY, LARGE)
    counts = data.draw(layouts(job))
    for tasks, asked in zip(counts, asked_on(shaped, job, counts), strict=True):
        wants = {name: asked.get(name, 0) for name in ("cpu", "memory", GPU)}
        assert not matching.shortfalls(wants, held(job, tasks))


@given(st.integers(1, 9), AMOUNTS, st.sampled_from([{}, {"one_per_node": True}]), st.data())
def test_on_no_node_slurm_holds_more_than_equal_pods_need(seats, requests, limits, data):
    """But for what it cannot count: parts of a cpu or MiB, and with memory by cpu a MiB for each."""
    shaped = gang(role("worker", seats, requests), **limits)
    job = plan_job(shaped, POLICY, LARGE)
    need = next(iter(needs_by_seat(shaped).values()))
    for tasks in data.draw(layouts(job)):
        has = held(job, tasks)
        assert (has["cpu"], has[GPU]) == (tasks * need["cpu"], tasks * need.get(GPU, 0))
        assert 0 <= has["memory"] - tasks * need["memory"] < (has["cpu"] // 1000 or 1) * 2**20


@pytest.mark.parametrize(
    ("wants", "count", "nodes", "memory_mib", "gres"),
    [
        ({"cpu": "1", "memory": "30Gi"}, 5, 3, 61440, ""),  # two by memory on the smaller node, where 40 cpus are
        ({"cpu": "1", "memory": "1Gi"}, 5, 1, 5120, ""),
        ({"cpu": "1", "memory": "1Gi", GPU: "32"}, 5, 3, 2048, "gres/gpu:64"),
        ({"cpu": "41", "memory": "1Gi"}, 5, 3, 2048, ""),  # only the larger one holds it, twice
    ],
)
def test_of_whole_nodes_memory_is_asked_by_node(wants, count, nodes, memory_mib, gres):
    job = plan_job(gang(role("worker", count, wants), **WHOLE), POLICY, LARGE)
    assert (job.tasks, job.minimum_nodes, job.maximum_nodes) == (count, nodes, nodes)
    assert (job.memory_mib_per_node, job.memory_mib_per_cpu) == (memory_mib, 0)
    assert (job.gres_per_node, job.gres_per_task) == (gres, "")


@pytest.mark.parametrize("fields", [{}, {"one_domain": HOSTNAME}, {"one_per_node": True}])
def test_one_member_with_a_gpu_gives_its_gang_whole_nodes(fields):
    uneven = gang(role("launcher", 1, {"cpu": "1"}), role("worker", 3, {"cpu": "1", GPU: "1"}, there=0), **fields)
    job = plan_job(uneven, Policy(gpu_resources={GPU: "gpu"}), LARGE)
    assert (job.whole_nodes, job.memory_mib_per_cpu) == (True, 0)


@pytest.mark.parametrize(
    ("asks", "there", "nodes", "gres"),
    [
        ({"nvidia.com/mig-1g.5gb": "1"}, ["gpu:3g.20gb:8,gpu:1g.5gb:4"], 2, "gres/gpu:1g.5gb:3"),
        ({"nvidia.com/mig-1g.5gb": "2"}, ["gpu:1g.5gb:4", "gpu:1g.5gb:8", "gpu:3g.20gb:9"], 3, "gres/gpu:1g.5gb:4"),
        ({GPU: "2"}, ["gpu:h100:4,nic:8"], 3, "gres/gpu:4"),
        ({}, ["gpu:1g.5gb:1"], 1, ""),
    ],
)
def test_no_whole_node_is_asked_for_more_of_a_type_than_it_has(asks, there, nodes, gres):
    policy = Policy(gpu_resources={GPU: "gpu", "nvidia.com/mig-1g.5gb": "gpu:1g.5gb"})
    six = gang(role("worker", 6, {"cpu": "1", **asks}), **WHOLE)
    rooms = frozenset(make_room(99_000, 2**40, **gres_counts(each)) for each in there)
    job = plan_job(six, policy, Eligibility(eligible=("n1",), rooms=rooms))
    assert (job.minimum_nodes, job.gres_per_node) == (nodes, gres)


def test_of_whole_nodes_of_unknown_size_slurm_chooses_how_many():
    job = plan_job(gang(role("worker", 4, {"cpu": "1"}), **WHOLE), POLICY, Eligibility(eligible=("n1",)))
    assert (job.minimum_nodes, job.maximum_nodes, job.memory_mib_per_node) == (1, 4, 0)


def test_what_an_old_comment_claims_of_seats_takes_no_more_than_the_gang_has():
    claimed = kind_in("k8s:a/b:c +shared=worker.999999999,launcher.999999999")
    uneven = gang(role("launcher", 1, {"cpu": "1"}), role("worker", 2, {"cpu": "4"}))
    assert slot_of_each_seat(uneven, 2, claimed) == {("launcher", 0): 0, ("worker", 0): 0, ("worker", 1): 1}
