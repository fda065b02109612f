"""Who may see what, against the doubles of the apiserver and of slurmrestd."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from sunkpy.core.overview.sight import EVERYTHING, Sight
from sunkpy.kube.client import Kube
from sunkpy.web.auth import ClusterDoor, Denied, LocalDoor
from tests.doubles.apiserver import Apiserver, token_of
from tests.doubles.serving import Changes, answering, serving
from tests.doubles.slurmrestd import Slurmrestd
from tests.unit.slurm.test_users import KEY, token


@pytest.fixture
def api():
    api = Apiserver()
    api.people = {"of-ann": "ann", "of-bob": "bob", "of-eve": "eve"}
    api.allowed = {("ann", "nodesets", "slurm"), ("ann", "pods", "team"), ("eve", "pods", "")}
    api.allowed |= {("bob", "nodesets", ""), ("bob", "pods", "")}
    api.put("pods", {"metadata": {"name": "p", "namespace": "slurm", "uid": "u"}})
    return api


class Clock:
    now_s = 0.0

    def __call__(self):
        return self.now_s


@asynccontextmanager
async def door(api, folder, *, namespaces=("team", "other"), slurm_url="", clock=None, handle=None):
    async with answering(handle or api.handle, folder) as kubeconfig, await Kube.connect(kubeconfig) as kube:
        how = {"namespace": "slurm", "namespaces": lambda: namespaces, "slurm_url": slurm_url}
        yield ClusterDoor(kube, **how, clock=clock or Clock())


async def refused(door, token):
    with pytest.raises(Denied) as denied:
        await door.sight(token)
    return denied.value.status, str(denied.value)


async def test_who_may_get_nodesets_sees_the_pool_and_pods_where_they_may_get_them(api, tmp_path):
    async with door(api, tmp_path) as own:
        assert await own.sight("of-ann") == Sight(namespaces=frozenset({"team"}))
        assert await own.sight("of-bob") == EVERYTHING


async def test_a_right_in_another_namespace_opens_nothing(api, tmp_path):
    api.allowed.add(("eve", "nodesets", "elsewhere"))
    async with door(api, tmp_path) as own:
        assert await refused(own, "of-eve") == (403, "eve may not get nodesets in namespace slurm")


@pytest.mark.parametrize(
    "forged",
    [
        "",
        "x",
        "\udcff\udcfe",
        "x" * 20_000,
        token_of("p", uid="u", audience="sunkpy-hooks"),
        token_of("p", uid="u", key="k" * 40),
    ],
)
async def test_what_no_apiserver_accepts_is_refused(api, tmp_path, forged):
    async with door(api, tmp_path) as own:
        assert (await refused(own, forged))[0] == 401


async def test_a_verdict_lasts_a_minute_and_a_refusal_some_seconds(api, tmp_path):
    clock = Clock()
    async with door(api, tmp_path, clock=clock) as own:
        for _ in range(5):
            await own.sight("of-ann")
            await refused(own, "wrong")
        assert api.reviews == 2
        api.allowed.clear()
        assert await own.sight("of-ann")
        clock.now_s = 61.0
        assert (await refused(own, "of-ann"))[0] == 403
        api.people["wrong"] = "bob"
        api.allowed = {("bob", "nodesets", "slurm")}
        assert await own.sight("wrong") == Sight(namespaces=frozenset())


async def test_who_is_known_does_not_wait_behind_strangers_who_are_asked_about_a_few_at_a_time(api, tmp_path):
    is_up, asked = asyncio.Event(), Changes()
    waiting = 0

    async def handle(request):
        nonlocal waiting
        waiting += 1
        asked.note()
        await is_up.wait()
        return await api.handle(request)

    is_up.set()
    async with door(api, tmp_path, handle=handle) as own:
        assert await own.sight("of-bob") == EVERYTHING
        assert (await refused(own, "known as wrong"))[0] == 401
        is_up.clear()
        waiting = 0
        strangers = [asyncio.create_task(refused(own, f"forged-{number % 10}")) for number in range(50)]
        await asked.until(lambda: waiting == 4)
        async with asyncio.timeout(10):
            assert await own.sight("of-bob") == EVERYTHING
            assert (await refused(own, "known as wrong"))[0] == 401
        assert waiting == 4
        is_up.set()
        assert {status for status, _ in await asyncio.gather(*strangers)} == {401}
    assert api.reviews <= 2 + 10 * 4


async def test_a_user_of_slurm_sees_their_own_jobs_if_slurm_accepts_the_token(api, tmp_path):
    slurm = Slurmrestd()
    slurm.jwt_key = KEY
    async with serving(slurm.app()) as port, door(api, tmp_path, slurm_url=f"http://127.0.0.1:{port}") as own:
        assert await own.sight(token()) == Sight(user="ann")
        assert (await refused(own, token("root", key=b"another key, which is as long as it")))[0] == 401
        assert [await own.sight(token()) for _ in range(3)][2].user == "ann"
        assert slurm.asked.count("partitions") == 1
    assert api.reviews == 0


async def test_on_ones_own_machine_the_key_of_the_link_opens_and_nothing_else():
    assert await LocalDoor("secret").sight("secret") == EVERYTHING
    assert (await refused(LocalDoor("secret"), "Secret"))[0] == 401
    assert (await refused(LocalDoor("secret"), ""))[0] == 401
