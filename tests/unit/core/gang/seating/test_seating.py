"""Who sits where: rank order along the job's nodes, places that are kept, and places that are waited for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sunkpy.core import names
from sunkpy.core.gang.gang import ANY_SEAT, Gang, Member, Role
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.seating.seating import seat
from tests.unit.core.gang.calls import counted
from tests.unit.core.gang.jobs import make_job
from tests.unit.core.gang.pods import make_pod

ID = GangId(namespace="default", name="train", uid="uid-1")
LAYOUT = (("n2", 2), ("n1", 2))


def pod(name, *, made="", place="", **fields):
    annotations = {names.ANNOTATION_PLACE: place} if place else {}
    built = make_pod(name, uid=name, annotations=annotations, **fields)
    return replace(built, metadata=replace(built.metadata, creation_timestamp=made))


def gang(*members, seats=4):
    role = Role(name="worker", seats=seats, first=seats, members=tuple(Member(pod=p, index=i) for p, i in members))
    return Gang(id=ID, roles=(role,))


def lies(layout):
    nodes = tuple(dict.fromkeys(node for node, _ in layout))
    return make_job("RUNNING", id=7, nodes=nodes, layout=layout, tasks=sum(count for _, count in layout))


def seats(gang, holding=None, layout=LAYOUT):
    found = seat(gang, lies(layout), holding=holding or {}).seats
    return {uid: (seat.note, seat.node) for uid, seat in found.items()}


def test_ranks_go_along_the_nodes_in_the_order_of_the_job():
    everybody = gang(*((pod(f"w{n}"), n) for n in (3, 1, 0, 2)))
    assert seats(everybody) == {
        "w0": ("worker/0", "n2"),
        "w1": ("worker/1", "n2"),
        "w2": ("worker/2", "n1"),
        "w3": ("worker/3", "n1"),
    }


def test_the_time_grows_with_the_seats_and_not_with_their_square():
    """Each prolog of a gang asks for it, also of pods whose notes somebody removed."""
    pods = [pod(f"w{number:04}", node=f"n{number % 250}") for number in range(1000)]
    holding = {each.uid: each.spec.node_name for each in pods}
    layout = tuple((f"n{number}", 4) for number in range(250))
    large = gang(*((each, ANY_SEAT) for each in pods), seats=1000)
    found, calls = counted(seats, large, holding, layout)
    assert {uid: node for uid, (_, node) in found.items()} == holding
    assert calls < 100_000


def test_a_place_is_held_for_a_pod_that_is_not_there():
    assert seats(gang((pod("w3"), 3), (pod("w1"), 1))) == {"w1": ("worker/1", "n2"), "w3": ("worker/3", "n1")}


def test_who_has_a_node_keeps_it_and_the_others_take_what_is_left():
    # w0 sits where w3 would have been: the job was another one, or the layout is not what it was.
    there = gang((pod("w0", node="k1"), 0), *((pod(f"w{n}"), n) for n in (1, 2, 3)))
    assert seats(there, {"w0": "n1"}) == {
        "w0": ("worker/0", "n1"),
        "w1": ("worker/1", "n2"),
        "w2": ("worker/2", "n2"),
        "w3": ("worker/3", "n1"),
    }


def test_a_replacement_waits_for_the_one_that_is_being_deleted_and_then_sits_where_that_was():
    old, new = pod("old", node="k1", deleting=True, made="1"), pod("new", made="2")
    assert "new" not in seats(gang((old, 1), (new, 1)), {"old": "n2"})
    assert seats(gang((new, 1)))["new"] == ("worker/1", "n2")


def test_a_finished_member_has_left_its_place():
    over, new = pod("over", node="k1", phase="Failed", made="1"), pod("new", made="2")
    assert seats(gang((over, 1), (new, 1))) == {"new": ("worker/1", "n2")}


def test_of_two_pods_for_one_place_the_older_has_it():
    assert seats(gang((pod("b", made="2"), 1), (pod("a", made="1"), 1))) == {"a": ("worker/1", "n2")}


def test_members_without_numbers_take_any_free_place_of_their_role():
    there = gang((pod("b", node="k1"), ANY_SEAT), (pod("c", made="2"), ANY_SEAT), (pod("a", made="1"), ANY_SEAT))
    assert seats(there, {"b": "n1"}) == {
        "b": ("worker/0", "n1"),
        "a": ("worker/1", "n2"),
        "c": ("worker/2", "n2"),
    }


@pytest.mark.parametrize(
    ("place", "held"), [("worker/3", "worker/3"), ("worker/9", "worker/0"), ("boss/1", "worker/0"), ("x", "worker/0")]
)
def test_the_place_that_was_noted_is_read_again(place, held):
    there = gang((pod("b", node="k1", place=place), ANY_SEAT))
    assert seats(there, {"b": "n1"}) == {"b": (held, "n1")}


def test_more_pods_than_places_find_none():
    crowd = gang(*((pod(f"w{n}", made=str(n)), ANY_SEAT) for n in range(6)), (pod("odd"), 17))
    assert set(seats(crowd)) == {"w0", "w1", "w2", "w3"}


def test_a_gang_that_grew_has_no_seat_where_the_job_has_none():
    grown = gang(*((pod(f"w{n}"), n) for n in range(6)), seats=6)
    assert set(seats(grown)) == {"w0", "w1", "w2", "w3"}


def test_a_pod_whose_node_is_not_known_holds_its_place():
    there = gang((pod("a", node="k9"), 0), (pod("b", made="2"), 0))
    assert seats(there, {"a": ""}) == {"a": ("worker/0", "")}


def test_a_member_on_a_node_that_the_job_gave_up_draws_no_other_there():
    """The job was made smaller: one slot is left, in which both places are."""
    leader, worker = pod("leader", made="2"), pod("worker", node="k9")
    roles = (("leader", leader), ("worker", worker))
    shrunk = Gang(
        id=ID,
        roles=tuple(Role(name=name, seats=1, first=1, members=(Member(pod=each, index=0),)) for name, each in roles),
    )
    assert seats(shrunk, {"worker": "n9"}, (("n1", 1),)) == {"leader": ("leader/0", "n1"), "worker": ("worker/0", "n9")}


@pytest.mark.parametrize(
    ("phases", "missing"),
    [
        (["Pending"] * 4, ""),
        (["Pending"] * 3, "1 of 4 pods (worker 3 of 4)"),
        (["Succeeded", "Pending", "Pending", "Pending"], ""),
        (["Failed", "Pending", "Pending", "Pending"], "1 of 4 pods (worker 3 of 4)"),
    ],
)
def test_what_is_missing_is_said_with_the_roles(phases, missing):
    there = gang(*((pod(f"w{n}", phase=phase), n) for n, phase in enumerate(phases)))
    assert there.missing == missing


def test_two_pods_of_one_place_are_not_two():
    assert gang((pod("a"), 0), (pod("b"), 0), seats=2).missing == "1 of 2 pods (worker 1 of 2)"
    assert gang((pod("a", deleting=True), 0), (pod("b"), 1), seats=2).missing == "1 of 2 pods (worker 1 of 2)"


@st.composite
def crowds(draw):
    """A gang of two roles on some nodes, some of its members bound, ended or on their way out."""
    roles, holding = [], {}
    layout = tuple((f"n{n}", draw(st.integers(1, 3))) for n in draw(st.permutations(range(draw(st.integers(1, 4))))))
    left = [node for node, count in layout for _ in range(count)]
    for name in ("leader", "worker"):
        members = []
        places = draw(st.integers(0, 4))
        numbered = draw(st.booleans())
        for number in range(draw(st.integers(0, 5))):
            is_bound, phase = draw(st.booleans()) and bool(left), draw(st.sampled_from(["Pending", "Failed"]))
            index = draw(st.integers(-1, 5)) if numbered else ANY_SEAT
            uid = f"{name}-{number}"
            made = pod(uid, node="k" if is_bound else "", phase=phase, deleting=draw(st.booleans()))
            if is_bound and phase == "Pending":
                gave_up = draw(st.booleans())  # the job was larger when it was bound
                holding[uid] = "n9" if gave_up else left.pop(draw(st.integers(0, len(left) - 1)))
            members.append(Member(pod=made, index=index))
        roles.append(Role(name=name, seats=places, first=places, members=tuple(members)))
    return Gang(id=ID, roles=tuple(roles), one_per_node=draw(st.booleans())), layout, holding


@given(crowds())
def test_nobody_moves_no_place_is_taken_twice_and_no_node_is_overfull(crowd):
    gang, layout, holding = crowd
    found = seat(gang, lies(layout), holding=holding).seats
    assert len({own.id for own in found.values()}) == len(found)
    by_uid = {m.pod.uid: m.pod for role in gang.roles for m in role.members}
    for uid, own in found.items():
        assert own.node == holding.get(uid, own.node)
        assert uid in holding or not (by_uid[uid].is_deleting or by_uid[uid].is_finished or by_uid[uid].spec.node_name)
    new = [own.node for uid, own in found.items() if uid not in holding]
    assert set(new) <= {node for node, _ in layout}
    for node, count in layout if gang.one_per_node else ():
        there = sum(held == node for held in holding.values())
        assert new.count(node) <= max(0, count - there)
    assert all(new)
