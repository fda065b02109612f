"""Whether pods fit what their job has at their places, and what is done with those that do not."""

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from sunkpy.core.gang.actions import Bind, Cancel, MakeSolo, Warn
from sunkpy.core.gang.decide import decide_gang
from sunkpy.core.gang.gang import Gang, Member, Role
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.job.request import Policy, plan_job
from sunkpy.core.gang.seating.fits import find_outgrown
from sunkpy.core.gang.seating.seating import Seat, Seating
from sunkpy.core.gang.snapshot import Snapshot
from sunkpy.core.model.capacity import Capacity
from sunkpy.core.model.gres import gres_counts
from sunkpy.core.model.layout import spread
from sunkpy.core.placement.domains import HOSTNAME
from sunkpy.core.placement.eligibility import Eligibility
from tests.unit.core.gang.jobs import make_job
from tests.unit.core.gang.pods import make_pod

GPUS = {"nvidia.com/gpu": "gpu", "example.com/a100": "gpu:a100"}
POLICY = Policy(gpu_resources=GPUS)
ID = GangId(namespace="default", name="train", uid="uid-1")
ONE = Capacity(cpus=1, memory_mib=128, gres={})


def pod(name, *, cpu="1", memory="64Mi", gpus="0", a100="0", **fields):
    requests = {"cpu": cpu, "memory": memory, "nvidia.com/gpu": gpus, "example.com/a100": a100}
    return make_pod(name, uid=name, requests=requests, **fields)


def gang(*pods, seats=0):
    members = tuple(Member(pod=each, index=index) for index, each in enumerate(pods))
    return Gang(id=ID, roles=(Role(name="worker", seats=seats or len(pods), first=len(pods), members=members),))


def outgrown(made, capacities, *nodes):
    """`nodes`: of the places in rank order; members that have a node are there."""
    places = {("worker", index): node for index, node in enumerate(nodes)}
    members = [member for role in made.roles for member in role.members]
    seats = {m.pod.uid: Seat(("worker", m.index), places["worker", m.index]) for m in members}
    holding = {m.pod.uid: seats[m.pod.uid].node for m in members if m.pod.spec.node_name}
    return find_outgrown(made, Seating(holding=holding, seats=seats, nodes=places), capacities, gpu_resources=GPUS)


@pytest.mark.parametrize(
    ("asks", "capacity", "lacks"),
    [
        ({}, ONE, ""),
        ({"cpu": "500m"}, ONE, ""),
        ({"cpu": "1100m"}, ONE, "lacks cpu: needs 2, has 1"),
        ({"cpu": "2"}, Capacity(cpus=4, memory_mib=128, gres={}), ""),  # the job has the node for itself
        ({"memory": "129Mi"}, ONE, "lacks memory: needs 129Mi, has 128Mi"),
        ({"memory": "1Ti"}, Capacity(cpus=1, gres={}), ""),  # Slurm does not count memory there
        ({"cpu": "9"}, Capacity(memory_mib=128, gres={}), ""),
        ({"gpus": "1"}, ONE, "lacks gpu: needs 1, has 0"),
        ({"gpus": "2"}, Capacity(cpus=1, memory_mib=128, gres={"gpu": 1}), "lacks gpu: needs 2, has 1"),
        ({"gpus": "2"}, Capacity(cpus=1, memory_mib=128, gres={"gpu": 2}), ""),
        ({"a100": "2"}, Capacity(cpus=1, memory_mib=128, gres=gres_counts("gpu:a100:2,gpu:l40s:1")), ""),
        (
            {"a100": "2"},
            Capacity(cpus=1, memory_mib=128, gres=gres_counts("gpu:l40s:2")),
            "lacks gpu:a100: needs 2, has 0",
        ),
        ({"gpus": "2"}, Capacity(cpus=1, memory_mib=128), ""),  # it has not said which GRES there are
    ],
)
def test_a_pod_is_held_against_what_slurm_has_said(asks, capacity, lacks):
    assert outgrown(gang(pod("w", **asks)), {"n1": capacity}, "n1") == ({"w": lacks} if lacks else {})


def test_who_is_there_is_counted_before_who_comes_and_is_never_asked_again():
    made = gang(pod("comes"), pod("there", node="k1", cpu="3"))
    capacities = {"n1": Capacity(cpus=2, memory_mib=1000, gres={}), "n2": ONE}
    assert outgrown(made, capacities, "n1", "n1") == {"comes": "lacks cpu: needs 1, has 0"}
    assert outgrown(made, capacities, "n2", "n1") == {}


def test_who_asks_for_less_leaves_room_for_others_and_who_asks_for_more_comes_last():
    capacities = {"n1": Capacity(cpus=4, memory_mib=1000, gres={})}
    less = gang(pod("less", node="k1", cpu="1"), pod("more", cpu="3"))
    assert outgrown(less, capacities, "n1", "n1") == {}
    others = gang(pod("more", cpu="3"), pod("a"), pod("b", node="k1"))
    assert outgrown(others, capacities, "n1", "n1", "n1") == {"more": "lacks cpu: needs 3, has 2"}
    nobody_yet = gang(pod("more", cpu="3"), pod("b", node="k1"), seats=3)
    assert outgrown(nobody_yet, capacities, "n1", "n1", "n1") == {}


# ------------------------------------------------------------------------------------ what is done about it


def runs(*nodes, **fields):
    """A job of one slot of one cpu on each node."""
    known = {"nodes": nodes, "tasks": len(nodes), "layout": tuple((node, 1) for node in nodes)}
    return make_job("RUNNING", **known | {"capacity": dict.fromkeys(nodes, ONE)} | fields)


def snapshot(made, job, **fields):
    placed = {m.pod.uid: f"n{m.index + 1}" for role in made.roles for m in role.members if m.pod.spec.node_name}
    return Snapshot(id=ID, gang=made, jobs=(job,), placed=placed, bound_to=7 if placed else None, **fields)


@pytest.mark.parametrize("cpu", ["1", "2"])
def test_a_replacement_that_asks_for_more_gets_a_job_of_its_own_and_the_others_stay(cpu):
    stays, comes = pod("stays", node="k1", running=True), pod("comes", cpu=cpu)
    actions = decide_gang(snapshot(gang(stays, comes), runs("n1", "n2")), POLICY)
    if cpu == "1":
        assert [type(action) for action in actions] == [Bind]
        return
    apart, told = actions
    assert apart == MakeSolo(pod=comes)
    assert isinstance(told, Warn)
    assert (told.pod, told.reason) == (comes, "AsksForMore")
    assert told.note == (
        "the pod asks for more than its part of Slurm job 7 has: this part lacks cpu: needs 2, has 1. "
        "The pod gets a job of its own"
    )


def test_a_smaller_one_is_bound_and_the_place_of_another_is_not_taken():
    stays, grown, small = pod("stays", node="k1", running=True), pod("grown", cpu="2"), pod("small", cpu="100m")
    actions = decide_gang(snapshot(gang(stays, grown, small), runs("n1", "n2", "n3")), POLICY)
    assert [type(action) for action in actions] == [MakeSolo, Warn, Bind]
    (binding,) = actions[2].bindings
    assert (binding.pod, binding.note.slurm_node) == (small, "n3")


def test_when_nobody_runs_under_the_job_it_is_given_back_and_the_next_is_made_for_the_pods_that_are_there():
    over, comes = pod("over", node="k1", phase="Failed"), pod("comes", cpu="2")
    role = Role(name="worker", seats=1, first=1, members=(Member(pod=over, index=0), Member(pod=comes, index=0)))
    made = Gang(id=ID, roles=(role,))
    cancel, told = decide_gang(snapshot(made, runs("n1")), POLICY)
    assert cancel == Cancel(job=7, why="pod comes lacks cpu: needs 2, has 1")
    assert told.note.endswith(
        "lacks cpu: needs 2, has 1. Job 7 is cancelled, and one for the pods as they are now is submitted"
    )


@pytest.mark.parametrize("half", [True, False])
def test_a_gang_is_not_bound_in_part_because_one_that_was_replaced_in_the_queue_asks_for_more(half):
    first = pod("a", node="k1", running=True) if half else pod("a")
    actions = decide_gang(snapshot(gang(first, pod("b", cpu="2")), runs("n1", "n2"), is_half_bound=half), POLICY)
    assert [type(action) for action in actions] == [Cancel, Warn]


def test_as_long_as_slurm_does_not_say_what_the_job_has_nothing_is_held_against_anybody():
    (bind,) = decide_gang(snapshot(gang(pod("a", cpu="64")), runs("n1", capacity={})), POLICY)
    assert isinstance(bind, Bind)


REQUESTS = st.fixed_dictionaries({
    "cpu": st.sampled_from(["0", "100m", "1", "1500m", "4"]),
    "memory": st.sampled_from(["0", "1", "100Mi", "3000001k", "7Gi"]),
    "nvidia.com/gpu": st.sampled_from(["0", "1", "3"]),
})  # fmt: skip
ROLES = st.lists(
    st.tuples(st.lists(REQUESTS, max_size=4), st.integers(0, 2), st.none() | REQUESTS), min_size=1, max_size=3
)


def role_of(number, asked, more, template):
    """Pods, and places without one."""
    pods = [make_pod(f"{number}-{at}", uid=f"{number}-{at}", requests=each) for at, each in enumerate(asked)]
    members = tuple(Member(pod=each, index=at) for at, each in enumerate(pods))
    shape = make_pod(requests=template).spec if template is not None else None
    return Role(name=f"{number}", seats=len(pods) + more, first=len(pods), members=members, shape=shape)


SMALL, LARGE = ({"cpu": "0", "memory": "3000001k"}, {"cpu": "1500m", "memory": "0"})


@given(ROLES, st.sampled_from([{}, {"one_per_node": True}, {"one_domain": HOSTNAME}]), st.integers(1, 4))
@example([([], 1, None), ([], 1, None), ([SMALL, LARGE], 0, None)], {}, 2)
def test_the_pods_for_which_a_job_was_made_fit_it_however_it_lies(asked, limits, nodes):
    """Slurm gives as much as it is asked for, so a job is never given back for the pods that it was made for."""
    made = Gang(id=ID, roles=tuple(role_of(at, *each) for at, each in enumerate(asked)), **limits)
    assume(made.members)
    request = plan_job(made, POLICY, Eligibility(eligible=("n1",)))
    names = [f"n{number}" for number in range(max(request.minimum_nodes, min(nodes, request.maximum_nodes)))]
    layout = spread(names, request.tasks)
    capacities = {}
    for name, slots in layout:
        cpus = slots * request.cpus_per_task
        memory_mib = request.memory_mib_per_node or request.memory_mib_per_cpu * cpus
        text = request.gres_per_node or request.gres_per_task
        count = int(text.rpartition(":")[2] or 0) * (1 if request.gres_per_node else slots)
        capacities[name] = Capacity(cpus=cpus, memory_mib=memory_mib, gres={"gpu": count})
    job = runs(*names, tasks=request.tasks, layout=layout, capacity=capacities, spec=request)
    seen = snapshot(made, job)
    assert find_outgrown(made, seen.seating(job), capacities, gpu_resources=GPUS) == {}
