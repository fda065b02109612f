"""A plan is made by its seed, and has everything in it."""

from tests.bench.chaos.schedule import Door
from tests.bench.devices.measure import TOGETHER, Event, rounds


def test_the_same_seed_makes_the_same_rounds():
    assert list(rounds(40, seed=3)) == list(rounds(40, seed=3)) != list(rounds(40, seed=4))


def test_each_event_comes_as_often_as_the_others_and_both_doors_come():
    made = list(rounds(60, seed=1))
    events = [each.event for each in made if each.event]
    assert {event: events.count(event) for event in Event} == dict.fromkeys(Event, 2)
    assert {door for each in made for door, _ in each.coming} == {Door.POD, Door.SBATCH}
    assert all(1 <= each.leaving <= TOGETHER == len(each.coming) for each in made)
