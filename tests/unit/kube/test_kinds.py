"""Kinds that come, go, move and may not be read, followed through a small apiserver over HTTP."""

import asyncio
import contextlib
import itertools
import types

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from sunkpy.core.model.objects import Kind
from sunkpy.kube.client import Kube
from sunkpy.kube.kinds import MOST_KINDS, KindTimes, OwnerKinds
from tests.doubles.apiserver import Apiserver
from tests.doubles.serving import answering

CREW = Kind(group="example.com", kind="Crew")
AGAIN_S = 0.03
CREWS = "/apis/example.com/v1/crews"
ABSENT = "the apiserver knows no kind Crew of example.com: its CRD is not installed"


class Following:
    """Kinds of an apiserver, the time, and the changes that were reported."""

    def __init__(self, kube, times, expected=()):
        self.now = 0.0
        self.told = []
        on_change = self.told.append
        self.kinds = OwnerKinds(kube, clock=lambda: self.now, on_change=on_change, expected=expected, times=times)

    def at(self, kind=CREW):
        place = self.kinds.where(kind)
        return place.collection if place is not None else None


class Silent:
    """An apiserver that refuses everything."""

    def __init__(self, api):
        self._api = api

    async def handle(self, request):
        self._api.asked[request.path] += 1
        return web.json_response({"message": "not now"}, status=503)


@pytest.fixture
def api():
    api = Apiserver()
    api.define("example.com/v1", "Crew", "crews")
    return api


@contextlib.asynccontextmanager
async def following(api, folder, *kinds, again_s=AGAIN_S, expected=()):
    async with answering(api.handle, folder) as kubeconfig, await Kube.connect(kubeconfig) as kube:
        found = Following(kube, KindTimes(again_s=again_s, apart_s=0.0), expected)
        for kind in kinds:
            found.kinds.follow(kind)
        task = asyncio.ensure_future(found.kinds.run())
        yield found
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def looks(api, count=2):
    """Wait until the apiserver was asked `count` times and once more, so that `count` answers were taken in."""
    asked = api.asked["/apis"]
    await api.until(lambda: api.asked["/apis"] > asked + count)


def ghosts(count):
    return [Kind(group="ghosts.example.com", kind=f"Ghost{number}") for number in range(count)]


async def test_kinds_that_are_followed_later_need_no_other_answer(api, tmp_path):
    later = [Kind(group="example.com", kind=f"Band{number}") for number in range(20)]
    for kind in later:
        api.define("example.com/v1", kind.kind, f"{kind.kind.lower()}s")
    async with following(api, tmp_path, CREW, again_s=60.0) as found:
        await api.until(lambda: found.at() == CREWS)
        for kind in later:
            found.kinds.follow(kind)
        await api.until(lambda: len(found.told) == 1 + len(later))
        assert api.asked["/apis"] == 1


async def test_while_all_is_well_nothing_is_asked(api, tmp_path):
    async with following(api, tmp_path, CREW, again_s=0.5) as found:
        await api.until(lambda: found.at() == CREWS)
        await asyncio.sleep(1.0)  # whatever was asked before has its answer
        asked = api.asked["/apis"]
        await asyncio.sleep(1.2)
        assert api.asked["/apis"] == asked


async def test_a_kind_that_is_followed_later_and_gets_no_answer_is_tried_again(api, tmp_path):
    api.define("example.com/v1", "Band", "bands")
    band = Kind(group="example.com", kind="Band")
    refusals = iter([503, 503])

    async def handle(request):
        status = next(refusals, None) if request.path.endswith("/bands") else None
        return web.json_response({"message": "not now"}, status=status) if status else await api.handle(request)

    async with following(types.SimpleNamespace(handle=handle), tmp_path, CREW) as found:
        await api.until(lambda: found.at() == CREWS)
        await asyncio.sleep(5 * AGAIN_S)
        found.kinds.follow(band)
        await api.until(lambda: found.at(band) == "/apis/example.com/v1/bands")
    assert next(refusals, None) is None


async def test_a_kind_is_absent_when_answers_have_lacked_it_for_a_while_and_that_is_said_once(api, tmp_path):
    api.is_starting = True
    with capture_logs() as logs:
        async with following(api, tmp_path, CREW) as found:
            await looks(api)
            assert found.kinds.is_missing(CREW)
            assert found.kinds.problem(CREW) == ""
            found.now += 9.0
            await looks(api)
            assert found.kinds.problem(CREW) == ""
            found.now += 2.0
            await api.until(lambda: found.kinds.problem(CREW) == ABSENT)
            await looks(api)
    assert [(log["event"], log["problem"]) for log in logs] == [("kind cannot be read", ABSENT)]


async def test_what_an_answer_lacked_once_is_forgiven(api, tmp_path):
    api.is_starting = True
    async with following(api, tmp_path, CREW) as found:
        await looks(api)
        api.is_starting = False
        await api.until(lambda: found.at() == CREWS)
        found.now += 100.0
        assert not found.kinds.is_missing(CREW)
        api.is_starting = True
        waiting = asyncio.ensure_future(found.kinds.until_served(CREW))
        await looks(api)
        assert found.kinds.problem(CREW) == ""
        waiting.cancel()


async def test_a_watch_waits_until_its_kind_is_there_again_and_the_place_is_not_forgotten(api, tmp_path):
    async with following(api, tmp_path, CREW) as found:
        await api.until(lambda: found.at() == CREWS)
        api.is_starting = True
        waiting = asyncio.ensure_future(found.kinds.until_served(CREW))
        await looks(api)
        found.now += 20.0
        await api.until(lambda: found.kinds.problem(CREW) == ABSENT)
        assert found.at() == CREWS
        assert not waiting.done()
        api.is_starting = False
        await asyncio.wait_for(waiting, 20)
        assert (found.kinds.problem(CREW), found.kinds.is_missing(CREW)) == ("", False)


async def test_a_kind_that_moves_is_found_where_it_is_and_the_old_watch_waits_on(api, tmp_path):
    async with following(api, tmp_path, CREW) as found:
        await api.until(lambda: found.at() == CREWS)
        api.define("example.com/v2", "Crew", "crews")
        waiting = asyncio.ensure_future(found.kinds.until_served(CREW))
        await api.until(lambda: found.at() == "/apis/example.com/v2/crews")
        assert not waiting.done()
        waiting.cancel()


async def test_what_it_costs_does_not_grow_with_the_number_of_missing_kinds(api, tmp_path):
    async with following(api, tmp_path, CREW, *ghosts(100)) as found:
        await looks(api, 5)
        found.now += 20.0
        await looks(api, 5)
        assert set(api.asked) == {"/api", "/apis", CREWS}
        assert api.asked[CREWS] == 1


async def test_other_tasks_have_their_turn_while_thousands_of_kinds_are_found_missing(api, tmp_path):
    async with following(api, tmp_path, CREW) as found:
        await api.until(lambda: found.at() == CREWS)
        told = []

        async def watch():
            while True:
                told.append(len(found.told))
                await asyncio.sleep(0)

        watching = asyncio.ensure_future(watch())
        for kind in ghosts(2000):
            found.kinds.follow(kind)
        await api.until(lambda: len(found.told) == 1 + 2000)
        await asyncio.sleep(0)
        watching.cancel()
    assert max(after - before for before, after in itertools.pairwise(told)) <= 100


async def test_of_kinds_that_may_not_be_read_one_at_a_time_is_tried_again(api, tmp_path):
    plurals = [f"crews{number}" for number in range(5)]
    for plural in plurals:
        api.define("example.com/v1", plural.title(), plural)
        api.forbidden.add(plural)
    kinds = [Kind(group="example.com", kind=plural.title()) for plural in plurals]
    with capture_logs() as logs:
        async with following(api, tmp_path, *kinds) as found:
            ticks = itertools.count(1)
            found.kinds._clock = lambda: float(next(ticks))  # one after another
            await looks(api, 12)
            tried = sum(api.asked[f"/apis/example.com/v1/{plural}"] for plural in plurals)
            assert tried <= len(plurals) + api.asked["/apis"]
            assert min(api.asked[f"/apis/example.com/v1/{plural}"] for plural in plurals) > 1
            assert found.kinds.problem(kinds[0]) == (
                "the scheduler may not read crews0.example.com: crews0.example.com is forbidden: "
                'User "ann" cannot list resource "crews0" in API group "example.com" at the cluster scope'
            )
            api.forbidden.clear()
            await api.until(lambda: all(found.at(kind) for kind in kinds))
    assert len([log for log in logs if log["log_level"] == "warning"]) == len(kinds)


async def test_an_apiserver_that_cannot_be_asked_is_told_once_and_proves_nothing(api, tmp_path):
    with capture_logs() as logs:
        async with following(Silent(api), tmp_path, CREW) as found:
            await api.until(lambda: api.asked["/api"] > 4)
            found.now += 100.0
            await api.until(lambda: api.asked["/api"] > 6)
            assert (found.told, found.kinds.is_missing(CREW)) == ([], False)
    assert [log["event"] for log in logs] == ["kinds cannot be listed: tried again until they can"]


async def test_no_more_than_so_many_kinds_are_followed_but_those_that_are_expected_always(api, tmp_path):
    bands = [Kind(group="example.com", kind=f"Band{number}") for number in range(MOST_KINDS + 2)]
    for kind in bands:
        api.define("example.com/v1", kind.kind, f"{kind.kind.lower()}s")
    async with following(api, tmp_path, *bands, expected={CREW}) as found:
        followed = await until_settled(api, found, bands)
        assert len(followed) == MOST_KINDS
        refused = next(kind for kind in bands if kind not in followed)
        assert found.kinds.problem(refused) == (
            f"the scheduler does not watch {refused.kind.lower()}s.example.com: "
            "64 kinds of owners are watched already, which is the limit"
        )
        found.kinds.follow(CREW)
        await api.until(lambda: found.at() == CREWS)
        found.now += KindTimes().unneeded_s + 1.0
        assert set(found.kinds.drop_unneeded([refused])) == {CREW, *bands} - {refused}
        await api.until(lambda: found.at(refused))
        assert found.kinds.problem(refused) == ""


async def until_settled(api, found, kinds):
    """The kinds that are followed, once each of `kinds` is followed or has a reason why not."""
    await api.until(lambda: all(found.at(kind) or found.kinds.problem(kind) for kind in kinds))
    return [kind for kind in kinds if found.at(kind)]
