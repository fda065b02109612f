"""The devices of a job, shared by the members on each node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core import names
from sunkpy.core.gang.devices.indices import assign_devices, noted_indices
from sunkpy.core.gang.gang import Gang, Member, Role
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.seating.seating import seat
from sunkpy.core.model.gres import gres_indices
from tests.unit.core.gang.pods import make_pod
from tests.unit.core.gang.seating.test_seating import lies

ID = GangId(namespace="default", name="train", uid="uid-1")
RESOURCES = {"nvidia.com/gpu": "gpu", "example.com/nic": "nic"}
GPU, NIC = RESOURCES


def worker(index, *, gpus=1, nics=0, node="", noted=""):
    return asking(index, {GPU: str(gpus)} | ({NIC: str(nics)} if nics else {}), node=node, noted=noted)


def asking(index, requests, *, node="", noted=""):
    annotations = {names.ANNOTATION_GPU_INDICES: noted} if noted else {}
    pod = make_pod(f"w{index}", uid=f"w{index}", requests=requests, node=node, annotations=annotations)
    return Member(pod=pod, index=index)


def share(members, devices, layout, resources=RESOURCES):
    gang = Gang(id=ID, roles=(Role(name="worker", seats=len(members), first=1, members=tuple(members)),))
    holding = {m.pod.uid: m.pod.spec.node_name for m in members if m.pod.spec.node_name}
    seats = seat(gang, lies(layout), holding=holding).seats
    return assign_devices(gang, seats, devices, gpu_resources=resources)


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


TYPED = {"example.com/a100": "gpu:a100", "nvidia.com/mig-1g.5gb": "gpu:1g.5gb", "nvidia.com/gpu": "gpu"}
BOTH = gres_indices("gpu:a100:2(IDX:0-1),gpu:1g.5gb:3(IDX:4-6)")


@pytest.mark.parametrize(
    ("asks", "notes"),
    [
        ([{"example.com/a100": "1"}, {"nvidia.com/mig-1g.5gb": "2"}], ["gpu:a100:0", "gpu:1g.5gb:4,gpu:1g.5gb:5"]),
        ([{"nvidia.com/mig-1g.5gb": "1", "example.com/a100": "2"}], ["gpu:a100:0,gpu:a100:1,gpu:1g.5gb:4"]),
        ([{"nvidia.com/gpu": "3"}], ["0,1,4"]),
        ([{"example.com/a100": "3"}], []),
    ],
)
def test_who_asks_for_a_type_gets_indices_of_that_type(asks, notes):
    members = [asking(index, requests) for index, requests in enumerate(asks)]
    found = share(members, {"n1": BOTH}, (("n1", len(asks)),), TYPED)
    assert found == {f"w{index}": note for index, note in enumerate(notes)}


@pytest.mark.parametrize(
    ("noted", "notes"),
    [
        (("gpu:a100:1", ""), {"w0": "gpu:a100:1", "w1": "gpu:a100:0"}),
        (("1", ""), {"w0": "1", "w1": "gpu:a100:0"}),
        (("gpu:1g.5gb:1", ""), {"w0": "gpu:a100:0", "w1": "gpu:a100:1"}),
    ],
)
def test_what_is_noted_stays_by_whatever_name_and_is_given_to_no_other(noted, notes):
    asks = {"example.com/a100": "1"}
    members = [asking(index, asks, node="n1" if text else "", noted=text) for index, text in enumerate(noted)]
    assert share(members, {"n1": BOTH}, (("n1", 2),), TYPED) == notes


def test_indices_of_a_note_are_known_by_their_type_and_by_their_name():
    note = "gpu:a100:1,gpu:1g.5gb:4,nic:0"
    assert noted_indices(note) == {"gpu:a100": (1,), "gpu": (1, 4), "gpu:1g.5gb": (4,), "nic": (0,)}
    assert noted_indices("0,3") == {"gpu": (0, 3)}
    assert noted_indices(f"x,gpu:,²,-1,{'9' * 5000},3") == {"gpu": (3,)}, "anybody may write it on a pod without a job"


@st.composite
def jobs_of_types(draw):
    """What some pods of a job ask of a node by type, and the indices of types that follow one another there."""
    asked = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=5))
    least = tuple(map(sum, zip(*asked, strict=True)))
    sizes = [count + draw(st.integers(0, 2)) for count in least]
    places = list(range(sizes[0])), list(range(sizes[0], sum(sizes)))
    indices = [sorted(draw(st.permutations(of_type))[:count]) for of_type, count in zip(places, least, strict=True)]
    return asked, dict(zip(("gpu:a100", "gpu:1g.5gb"), map(tuple, indices), strict=True))


@given(jobs_of_types())
def test_each_pod_gets_as_many_of_each_type_as_it_asks_for_and_no_device_is_given_twice(job):
    asked, by_type = job
    members = [
        asking(index, {"example.com/a100": str(whole), "nvidia.com/mig-1g.5gb": str(slices)})
        for index, (whole, slices) in enumerate(asked)
    ]
    devices = {"n1": by_type | {"gpu": tuple(at for indices in by_type.values() for at in indices)}}
    notes = share(members, devices, (("n1", len(members)),), TYPED)
    given_out = {uid: noted_indices(note) for uid, note in notes.items()}
    for index, counts in enumerate(asked):
        of_pod = given_out.get(f"w{index}", {})
        assert tuple(len(of_pod.get(gres, ())) for gres in by_type) == counts
        assert all(set(of_pod.get(gres, ())) <= set(indices) for gres, indices in by_type.items())
    all_given = [at for indices in given_out.values() for at in indices["gpu"]]
    assert len(all_given) == len(set(all_given)) == sum(map(sum, asked))
