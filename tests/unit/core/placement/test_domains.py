"""One domain for a gang: which one, and what is said when there is none."""

import pytest

from sunkpy.core.model.states import SlurmNode
from sunkpy.core.placement.domains import HOSTNAME, DomainWish, in_one_domain
from sunkpy.core.placement.eligibility import Candidate, Eligibility, explain_eligibility
from tests.unit.core.gang.pods import make_node

RACK = "example.com/rack"
GIB = 2**30
NEEDS = {"cpu": 2000, "memory": GIB}


def node(name, rack="", *, cpu="4", busy=False, gres=""):
    slurm = SlurmNode(name=name, state=frozenset({"MIXED" if busy else "IDLE"}), gres=gres)
    labels = {RACK: rack} if rack else {}
    return Candidate(slurm_node=name, node=make_node(name, labels=labels, cpu=cpu, memory="8Gi"), slurm=slurm)


RACKS = (node("a1", "a"), node("a2", "a"), node("b1", "b"), node("b2", "b"), node("b3", "b"), node("x"))


def choose(nodes, slots, *, unfit=None, **wish):
    names = tuple(each.slurm_node for each in nodes)
    eligible = tuple(name for name in names if name not in (unfit or {}))
    wish = {"label": RACK, "needs": NEEDS} | wish
    return in_one_domain(Eligibility(eligible=eligible, refused=unfit or {}), nodes, DomainWish(slots=slots, **wish))


@pytest.mark.parametrize(
    ("slots", "wish", "chosen"),
    [
        (2, {}, ("b1", "b2", "b3")),
        (6, {}, ("b1", "b2", "b3")),
        (7, {}, ()),
        (3, {"apart": True}, ("b1", "b2", "b3")),
        (4, {"apart": True}, ()),
        (4, {"excluded": ("b1", "b2", "b3", "x")}, ("a1", "a2")),
        (5, {"excluded": ("b1", "b2", "b3", "x")}, ("b1", "b2", "b3")),
        (4, {"refused": ("b2",)}, ("a1", "a2")),
        (5, {"refused": ("b2",)}, ("b1", "b2", "b3")),
        (2, {"turn": 0}, ("b1", "b2", "b3")),
        (2, {"turn": 1}, ("a1", "a2")),
        (2, {"turn": 2}, ("b1", "b2", "b3")),
        (5, {"turn": 1}, ("b1", "b2", "b3")),
        (2, {"turn": 1, "excluded": ("a1", "a2", "x")}, ("b1", "b2", "b3")),
        (2, {"turn": 1, "refused": ("a1",)}, ("b1", "b2", "b3")),
        (1, {"label": HOSTNAME, "turn": 1}, ("a2",)),
    ],
)
def test_the_domain_with_most_room_that_holds_the_gang_and_later_the_same(slots, wish, chosen):
    found = choose(RACKS, slots, **wish)
    assert found.eligible == chosen
    assert set(found.refused) == {"a1", "a2", "b1", "b2", "b3", "x"} - set(chosen)


@pytest.mark.parametrize(
    ("slots", "gres", "chosen"),
    [
        (2, {"gpu:h100": 1}, ("a1",)),
        (3, {"gpu:h100": 1}, ()),
        (3, {"gpu": 1}, ("b1", "b2")),
        (2, {"gpu:a100": 1, "gpu:h100": 1}, ("b1", "b2")),
    ],
)
def test_gpus_of_one_type_are_not_those_of_another(slots, gres, chosen):
    mixed = "gpu:h100:1,gpu:a100:2"
    racks = (node("a1", "a", cpu="8", gres="gpu:h100:2"), node("b1", "b", gres=mixed), node("b2", "b", gres=mixed))
    assert choose(racks, slots, needs=NEEDS | gres).eligible == chosen


def test_a_domain_that_has_room_now_goes_first():
    racks = (node("a1", "a"), node("b1", "b", busy=True), node("b2", "b", busy=True))
    assert choose(racks, 2).eligible == ("a1",)
    assert choose(racks, 3).eligible == ("b1", "b2")


def test_nodes_that_do_not_fit_do_not_count():
    assert choose(RACKS, 4, unfit={"b2": "tainted", "b3": "tainted"}).eligible == ("a1", "a2")


def test_nothing_is_excluded_when_all_nodes_are_in_one_domain():
    assert choose(RACKS[:2], 2).refused == {}


def test_one_node_is_any_that_is_large_enough():
    nodes = (node("n1"), node("n2", cpu="8"), node("n3", cpu="6"))
    assert choose(nodes, 3, label=HOSTNAME).eligible == ("n2", "n3")


def test_what_is_said_when_no_domain_holds_it():
    assert explain_eligibility(choose(RACKS, 7)) == (
        "none of 6 Slurm nodes fits: 3 with room for 6 of its 7 slots within example.com/rack=b, "
        "2 with room for 4 of its 7 slots within example.com/rack=a, 1 without label example.com/rack"
    )
