"""One odd object through the whole scheduler: its own gang waits with a message and is not ended; all others go on."""

import msgspec
import pytest

from sunkpy.core.gang.families import FAMILIES
from sunkpy.core.gang.gang import Family, Gang, Role, by_seniority
from sunkpy.core.gang.identity import GangId
from sunkpy.kube.kinds import KindTimes
from tests.doubles.apiserver import DEEP
from tests.unit.scheduler.test_owners import KNOWN, add, add_crew
from tests.unit.scheduler.test_scheduler import hook_client
from tests.unit.scheduler.world import World, leading


@pytest.fixture
def world():
    world = World()
    world.hasten(kinds=KindTimes(patience_s=0.05), unidentified_told_after_s=0.05)
    for number in (1, 2, 3):
        world.add_node(number)
    world.api.define("example.com/v1", "Crew", "crews")
    world.api.define("apps/v1", "Deployment", "deployments")
    return world


def crew_called(world, name, spec):
    return add(world, "crews", "Crew", "example.com/v1", name, spec=spec)


def names(world):
    return sorted(job["name"] for job in world.submissions)


@pytest.mark.parametrize("is_listed", [True, False])
async def test_an_owner_nested_too_deep_keeps_its_own_pods_waiting_and_nobody_else(world, tmp_path, is_listed):
    def make():
        odd = crew_called(world, "odd", {"size": 1, "more": DEEP})
        world.add_pod("odd-1", owner=odd)
        world.add_pod("good-1", owner=crew_called(world, "good", {"size": 1}))

    if is_listed:
        make()
    async with leading(world, tmp_path, families=KNOWN):
        if not is_listed:
            world.add_pod("first", owner=crew_called(world, "first", {"size": 1}))
            await world.until(lambda: world.api.watched >= {"crews"})
            make()
        why = "not scheduled yet: it belongs to Crew default/odd, and that cannot be read: it is nested too deep"
        # On a busy machine it is told before that that the owner has not been read yet.
        await world.until(lambda: "good" in names(world) and why in world.notes("OwnerUnknown"))
        assert "odd" not in names(world)
        world.put("crews", {"metadata": {"name": "odd", "namespace": "default"}, "spec": {"size": 1}})
        await world.until(lambda: "odd" in names(world))


async def test_an_owner_that_becomes_unreadable_ends_nothing(world, tmp_path):
    crew = add_crew(world, size=2)
    world.add_pod("a", owner=crew)
    world.add_pod("b", owner=crew)
    async with leading(world, tmp_path, families=KNOWN) as server, hook_client(server) as call:
        await world.until(lambda: world.submissions)
        (job,) = world.jobs
        world.api.change("crews", "default", "band", {"spec": {"size": 2, "more": DEEP}})
        refusal = "Crew default/band cannot be read: it is nested too deep"
        await world.until(lambda: world.notes("FailedScheduling") == [refusal] * 2)
        assert (world.cancelled, world.bindings) == ([], [])
        world.api.change("crews", "default", "band", {"spec": {"more": None}})
        world.set_job(job, "RUNNING", nodes="n[1-2]")
        for node in (1, 2):
            await call("prolog", job, node=node)
        await world.until(lambda: len(world.bindings) == 2)
        world.api.change("crews", "default", "band", {"spec": {"more": DEEP}})
        world.add_pod("probe")
        await world.until(lambda: len(world.submissions) == 2)
        assert (world.cancelled, world.deleted, world.signals) == ([], [], [])


async def test_of_a_kind_that_no_family_reads_the_annotations_are_enough(world, tmp_path):
    note = {"sunkpy.dev/partition": "high"}
    web = add(world, "deployments", "Deployment", "apps/v1", "web", spec=DEEP, annotations=note)
    async with leading(world, tmp_path, families=KNOWN):
        world.add_pod("web-1", owner=web)
        await world.until(lambda: world.submissions)
        assert world.submissions[0]["partition"] == "high"


def fails(pod, where):
    if pod.labels.get("example.com/fails") == where:
        raise ZeroDivisionError(where)


def _identify(pod, owners):
    fails(pod, "identify")
    return GangId(namespace="default", name=pod.name, uid=pod.uid) if pod.labels else None


def _assemble(id, pods, owners):
    fails(pods[0], "assemble")
    return Gang(id=id, roles=(Role(name="pod", seats=1, first=1, members=by_seniority(pods, 1)),))


def _refers(pod):
    fails(pod, "refers")
    return ()


BUGGY = (Family(name="buggy", known_by="", identify=_identify, assemble=_assemble, refers=_refers), *FAMILIES)


@pytest.mark.parametrize(
    ("where", "reason"), [("refers", "OwnerUnknown"), ("identify", "OwnerUnknown"), ("assemble", "FailedScheduling")]
)
async def test_a_pod_over_which_a_family_fails_waits_and_all_others_go_on(world, tmp_path, where, reason):
    world.add_pod("odd", labels={"example.com/fails": where})
    world.add_pod("good")
    async with leading(world, tmp_path, families=BUGGY):
        await world.until(lambda: names(world) == ["good"] and world.notes(reason) and world.notes("OddObject"))
        why = f"the scheduler failed on it (ZeroDivisionError: {where}): please report this"
        assert world.notes(reason) == [f"not scheduled yet: {why}" if reason == "OwnerUnknown" else why]
        assert world.notes("OddObject") == [f"the scheduler ignores this pod: {why}"]
        world.add_pod("better")
        await world.until(lambda: names(world) == ["better", "good"])
        world.api.change("pods", "default", "odd", {"metadata": {"labels": {"example.com/fails": "no"}}})
        await world.until(lambda: names(world) == ["better", "good", "odd"])


async def test_a_pod_of_another_form_is_told_and_costs_no_other(world, tmp_path):
    odd = world.add_pod("odd", activeDeadlineSeconds="tomorrow")
    async with leading(world, tmp_path):
        world.add_pod("good")
        await world.until(lambda: names(world) == ["good"] and world.notes("OddObject"))
        assert world.notes("OddObject") == [
            "the scheduler ignores this pod: Expected `int | null`, got `str` - at `$.spec.activeDeadlineSeconds`"
        ]
        world.put("pods", msgspec.json.decode(msgspec.json.encode(odd)) | {"spec": {"schedulerName": "slurm"}})
        await world.until(lambda: names(world) == ["good", "odd"])
