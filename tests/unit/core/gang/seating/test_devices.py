"""The devices of a job, shared by the members on each node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core import names
from sunkpy.core.gang.gang import Gang, Member, Role
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.seating.devices import assign_devices
from sunkpy.core.gang.seating.seating import seat
from tests.unit.core.gang.pods import make_pod
from tests.unit.core.gang.seating.test_seating import lies

ID = GangId(namespace="default", name="train", uid="uid-1")
RESOURCES = {"nvidia.com/gpu": "gpu", "example.com/nic": "nic"}
GPU, NIC = RESOURCES


def worker(index, *, gpus=1, nics=0, node="", noted=""):
    annotations = {names.ANNOTATION_GPU_INDICES: noted} if noted else {}
    requests = {GPU: str(gpus)} | ({NIC: str(nics)} if nics else {})
    pod = make_pod(f"w{index}", uid=f"w{index}", requests=requests, node=node, annotations=annotations)
    return Member(pod=pod, index=index)


def share(members, devices, layout):
    gang = Gang(id=ID, roles=(Role(name="worker", seats=len(members), first=1, members=tuple(members)),))
    holding = {m.pod.uid: m.pod.spec.node_name for m in members if m.pod.spec.node_name}
    seats = seat(gang, lies(layout), holding=holding).seats
    return assign_devices(gang, seats, devices, gpu_resources=RESOURCES)


def test_members_share_the_devices_of_each_node_in_seat_order():
    members = [worker(index, gpus=2) for index in (2, 0, 1)]
    devices = {"n2": {"gpu": (0, 1, 4, 5)}, "n1": {"gpu": (6, 7)}}
    assert share(members, devices, (("n2", 2), ("n1", 1))) == {"w0": "0,1", "w1": "4,5", "w2": "6,7"}


def test_each_gres_is_counted_alone():
    devices = {"n1": {"gpu": (0, 1), "nic": (0, 1)}}
    notes = share([worker(0, nics=1), worker(1, nics=1)], devices, (("n1", 2),))
    assert notes == {"w0": "0,nic:0", "w1": "1,nic:1"}


def test_a_replacement_gets_what_the_others_on_the_node_have_not():
    members = [worker(0), worker(1, node="n1", noted="0"), worker(2, node="n1", noted="2")]
    assert share(members, {"n1": {"gpu": (0, 1, 2)}}, (("n1", 3),)) == {"w0": "1", "w1": "0", "w2": "2"}


@pytest.mark.parametrize(
    ("noted", "notes"),
    [
        (("0", "1"), {"w0": "4", "w1": "5"}),
        (("5", "1"), {"w0": "5", "w1": "4"}),
        (("4", "4"), {"w0": "4", "w1": "5"}),
        (("4,5", "x"), {"w0": "4", "w1": "5"}),
    ],
)
def test_what_is_noted_and_is_not_the_jobs_is_noted_anew(noted, notes):
    members = [worker(index, node="n1", noted=text) for index, text in enumerate(noted)]
    assert share(members, {"n1": {"gpu": (4, 5)}}, (("n1", 2),)) == notes


def test_a_note_stays_where_slurm_has_not_told():
    assert share([worker(0, node="n1", noted="3")], {"n2": {"gpu": (0,)}}, (("n1", 1),)) == {}


def test_nothing_is_noted_when_slurm_tells_less_than_was_asked_for():
    assert share([worker(0, gpus=2)], {}, (("n1", 1),)) == {}
    assert share([worker(0, gpus=2)], {"n1": {"gpu": (0,)}}, (("n1", 1),)) == {}
    assert share([worker(0, gpus=0)], {"n1": {"gpu": (0,)}}, (("n1", 1),)) == {}


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["", "0", "1,2", "7", "x"])), min_size=1, max_size=6))
def test_no_index_is_given_twice_on_a_node(asked):
    members = [worker(n, gpus=gpus, node="n1" if noted else "", noted=noted) for n, (gpus, noted) in enumerate(asked)]
    notes = share(members, {"n1": {"gpu": tuple(range(8))}}, (("n1", len(members)),))
    given_out = [word for note in notes.values() for word in note.split(",")]
    assert len(given_out) == len(set(given_out))
    assert set(given_out) <= set(map(str, range(8)))
    assert all(len(note.split(",")) == asked[int(uid[1:])][0] for uid, note in notes.items())


@st.composite
def spreads(draw):
    """For each node how many pods lie there, and which indices sbatch has left to their job."""
    gpus = draw(st.integers(1, 3))
    counts = draw(st.lists(st.integers(1, 8 // gpus), min_size=1, max_size=4))
    left = [draw(st.permutations(range(8)))[: count * gpus] for count in counts]
    return gpus, {
        f"n{at}": (count, tuple(sorted(found))) for at, (count, found) in enumerate(zip(counts, left, strict=True))
    }


@given(spreads(), st.data())
def test_on_each_of_several_nodes_the_pods_share_what_their_job_has_there_and_a_second_look_changes_nothing(
    spread, data
):
    gpus, nodes = spread
    layout = tuple((node, count) for node, (count, _) in nodes.items())
    devices = {node: {"gpu": found} for node, (_, found) in nodes.items()}
    on = [node for node, count in layout for _ in range(count)]
    notes = share([worker(index, gpus=gpus) for index in range(len(on))], devices, layout)
    for node, (_, found) in nodes.items():
        words = [word for uid, note in notes.items() if on[int(uid[1:])] == node for word in note.split(",")]
        assert sorted(words) == sorted(map(str, found))
    is_there = [data.draw(st.booleans()) for _ in on]
    later = [
        worker(index, gpus=gpus, node=on[index] if there else "", noted=notes[f"w{index}"] if there else "")
        for index, there in enumerate(is_there)
    ]
    again = share(later, devices, layout)
    assert all(again[f"w{index}"] == notes[f"w{index}"] for index, there in enumerate(is_there) if there)
    assert sorted(word for note in again.values() for word in note.split(",")) == sorted(
        word for note in notes.values() for word in note.split(",")
    )
