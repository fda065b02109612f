"""Each annotation of people, changed while the job is in the queue: applied to the job, or answered by an Event that
says what to do; on the pod, on an object above it, and on one member of a gang.
"""

import copy
from typing import NamedTuple

import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.gang.job import options
from tests.unit.scheduler.test_owners import KNOWN, add_crew
from tests.unit.scheduler.test_scheduler import bound_pod, hook_client
from tests.unit.scheduler.world import OPEN, World, leading

DELETE = "To change it, delete the pods: the next ones are submitted with the new value"


class Row(NamedTuple):
    """What an annotation says first and then, and what comes of it: fields of the job, or words of a note."""

    first: str
    then: str
    applied: dict[str, object] | None = None
    answered: str = ""


def number(value):
    return {"set": True, "infinite": False, "number": value}


ROWS = {
    "user": Row("ann", "bob", answered=f"user: a job stays that of the user who submitted it. {DELETE}"),
    "account": Row("chem", "bio", {"account": "bio"}),
    "partition": Row("low", "high", {"partition": "high"}),
    "qos": Row("normal", "gold", {"qos": "gold"}),
    "reservation": Row("maint", "course", {"reservation": "course"}),
    "time-limit": Row("1h", "2h", {"time_limit": number(120)}),
    "comment": Row("one", "two", {"comment": "two"}),
    "constraint": Row("ib", "eth", {"constraints": "eth"}),
    "exclusive": Row("false", "true", answered=DELETE),
    "licenses": Row("matlab", "ansys", {"licenses": "ansys"}),
    "dependency": Row("afterok:1", "afterok:2", {"dependency": "afterok:2"}),
    "gpu-type": Row("a100", "h100", answered=DELETE),
    "job-name": Row("one", "two", {"name": "two"}),
    "wckey": Row("w1", "w2", answered=DELETE),
    "switches": Row("1", "2", {"required_switches": number(2)}),
    "segment": Row("1", "2", answered=DELETE),
    "on-preemption": Row("evict", "suspend", {}),
}
"""By annotation. No field: the job is the same, the scheduler itself heeds it when the time comes."""


MAY_DIFFER = {"job-name", "comment", "time-limit"}
EVERYBODY = {"access": (msgspec.structs.replace(OPEN, users=("*",)),)}


@pytest.fixture
def world():
    world = World()
    world.add_node(1)
    world.add_node(2)
    world.api.define("example.com/v1", "Crew", "crews")
    return world


def test_every_annotation_that_a_job_is_made_of_has_a_row():
    assert set(ROWS) == set(options.OPTIONS)


OF_GANGS = {
    names.ANNOTATION_GANG: (names.ANNOTATION_GANG_SIZE, "other", "the pod that is made in its place belongs to"),
    names.ANNOTATION_GANG_SIZE: (names.ANNOTATION_GANG_SIZE, "3", "pods of a gang must agree: a says '2', b says '3'"),
    names.ANNOTATION_GANG_ROLES: (names.ANNOTATION_GANG_ROLES, "x=1,y=3", "pods of a gang must agree: a says"),
    names.ANNOTATION_GANG_ROLE: (
        names.ANNOTATION_GANG_ROLES,
        "z",
        "pod b has the role 'z', which is not declared: use one of x, y",
    ),
}
"""By annotation: the annotation that declares the gang, what one of its pods says later, and the answer to that pod."""

MADE_OF = {names.ANNOTATION_GANG_SIZE: "2", names.ANNOTATION_GANG_ROLES: "x=1,y=1"}


def test_every_annotation_of_gangs_has_a_row():
    found = {text for name, text in vars(names).items() if name.startswith("ANNOTATION_GANG")}
    assert set(OF_GANGS) == found - set(names.BINDING_NOTE)  # the scheduler writes that, and nobody else may


@pytest.mark.parametrize("name", OF_GANGS)
async def test_what_makes_pods_a_gang_changed_on_one_of_them_is_answered_and_the_job_stays(world, tmp_path, name):
    declared_by, then, answered = OF_GANGS[name]
    gang = {names.ANNOTATION_GANG: "train", declared_by: MADE_OF[declared_by]}
    async with leading(world, tmp_path):
        for member, role in (("a", "x"), ("b", "y")):
            world.add_pod(member, annotations=gang | {names.ANNOTATION_GANG_ROLE: role})
        await world.until(lambda: world.submissions)
        world.api.change("pods", "default", "b", {"metadata": {"annotations": {name: then}}})
        await world.until(lambda: any(answered in note for note in [*told(world), *world.notes("StaysInGang")]))
        assert (len(world.submissions), world.slurm.updates, world.cancelled) == (1, [], [])


async def test_a_pod_that_says_only_in_the_queue_that_it_is_of_a_gang_is_told_what_to_do(world, tmp_path):
    async with leading(world, tmp_path):
        world.add_pod("a")
        await world.until(lambda: world.submissions)
        change = {names.ANNOTATION_GANG: "train", names.ANNOTATION_GANG_SIZE: "2"}
        world.api.change("pods", "default", "a", {"metadata": {"annotations": change}})
        await world.until(lambda: world.notes("StaysInGang"))
        assert world.notes("StaysInGang") == [
            "the pod stays in default/a, for which it was made: delete it, so that the pod that is made in its place "
            "belongs to default/train"
        ]


async def test_what_a_pod_that_runs_says_of_gangs_is_nobodys_business(world, tmp_path):
    change = {"metadata": {"labels": {"tier": "front"}, "annotations": {names.ANNOTATION_GANG: "train"}}}
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        await bound_pod(world, call)
        world.api.change("pods", "default", "web", change)
        world.add_pod("a")
        await world.until(lambda: len(world.submissions) == 2)
        world.api.change("pods", "default", "a", change)
        await world.until(lambda: world.notes("StaysInGang"))
        assert [note for note in world.notes("StaysInGang") if "default/web" in note] == []


def said(name, text):
    return {names.PREFIX + name: text}


def annotate(world, collection, name, annotations):
    body = copy.deepcopy(world.api.objects[collection, "default", name])
    body["metadata"]["annotations"] = annotations
    world.put(collection, body)


def told(world):
    return [*world.notes("JobNotChanged"), *world.notes("FailedScheduling")]


def is_applied(world, wanted):
    changes = {key: value for update in world.slurm.updates for key, value in update.items() if key != "extra"}
    if "comment" in changes:
        changes["comment"] = changes["comment"].rpartition(" ")[2]
    return changes == wanted


async def comes_true(world, row):
    """What the row says, and nothing else, with the job that there is."""
    if row.answered:
        await world.until(lambda: any(row.answered in note for note in told(world)))
        assert world.slurm.updates == []
    elif row.applied:
        await world.until(lambda: is_applied(world, row.applied))
        await world.until(lambda: world.notes("JobChanged"))
        assert told(world) == []
    else:
        for member in [name for name in "abc" if world.pod(name)]:
            said_after = {"metadata": {"annotations": said("comment", "after-it")}}
            world.api.change("pods", "default", member, said_after)
        await world.until(lambda: is_applied(world, {"comment": "after-it"}))
        assert told(world) == []
    assert (len(world.submissions), world.cancelled) == (1, [])


@pytest.mark.parametrize("name", ROWS)
async def test_changed_on_a_pod(world, tmp_path, name):
    row = ROWS[name]
    async with leading(world, tmp_path, **EVERYBODY):
        world.add_pod("a", annotations=said(name, row.first))
        await world.until(lambda: world.submissions)
        annotate(world, "pods", "a", said(name, row.then))
        await comes_true(world, row)


@pytest.mark.parametrize("name", ROWS)
async def test_changed_on_an_object_above_it(world, tmp_path, name):
    row = ROWS[name]
    crew = add_crew(world, size=2, annotations=said(name, row.first))
    async with leading(world, tmp_path, families=KNOWN, **EVERYBODY):
        for member in ("a", "b"):
            world.add_pod(member, owner=crew)
        await world.until(lambda: world.submissions)
        annotate(world, "crews", "band", said(name, row.then))
        await comes_true(world, row)


@pytest.mark.parametrize("name", ROWS)
async def test_changed_on_one_member_of_a_gang_when_the_others_say_nothing(world, tmp_path, name):
    row = ROWS[name]
    gang = {names.ANNOTATION_GANG: "train", names.ANNOTATION_GANG_SIZE: "3"}
    async with leading(world, tmp_path, **EVERYBODY):
        for member, more in (("a", {}), ("b", said(name, row.first)), ("c", {})):
            world.add_pod(member, annotations=gang | more)
        await world.until(lambda: world.submissions)
        annotate(world, "pods", "b", gang | said(name, row.then))
        await comes_true(world, row)


@pytest.mark.parametrize("name", ROWS)
async def test_changed_on_one_member_of_a_gang_whose_others_say_the_old(world, tmp_path, name):
    """The members contradict each other, and an Event on each says who says what. Where they may differ, the rule for
    that annotation holds."""
    row = ROWS[name]
    gang = {names.ANNOTATION_GANG: "train", names.ANNOTATION_GANG_SIZE: "2"}
    async with leading(world, tmp_path, **EVERYBODY):
        for member in ("a", "b"):
            world.add_pod(member, annotations=gang | said(name, row.first))
        await world.until(lambda: world.submissions)
        annotate(world, "pods", "a", gang | said(name, row.then))
        if name in MAY_DIFFER:
            await comes_true(world, row)
        else:
            who = f"annotation sunkpy.dev/{name}: the pods of a gang are one Slurm job and must agree: "
            await world.until(lambda: len([note for note in told(world) if who in note]) == 2)
            assert (world.slurm.updates, world.cancelled) == ([], [])


async def test_a_warning_is_not_repeated_in_each_pass_however_many_others_there_are(world, tmp_path):
    """The cache of Events has some thousands of entries. A namespace with more would write all its Events again each
    time that a node changes.
    """
    async with leading(world, tmp_path):
        world.add_pod(annotations={"sunkpy.dev/no-such": "1"})
        await world.until(lambda: world.notes("UnknownAnnotation"))
        for number in range(2):
            world.term._leader.events._said.clear()
            world.api.change("pods", "default", "web", {"metadata": {"labels": {"turn": str(number)}}})
            world.add_pod(f"next-{number}")
            await world.until(lambda number=number: len(world.submissions) == number + 2)
        assert len(world.notes("UnknownAnnotation")) == 1
