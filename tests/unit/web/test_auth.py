"""Who may see what, against the doubles of the apiserver and of slurmrestd."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import jwt
import pytest

from sunkpy.core.overview.sight import EVERYTHING, Sight
from sunkpy.kube.client import Kube
from sunkpy.slurm.errors import SlurmError
from sunkpy.slurm.users import user_of
from sunkpy.web.auth import ClusterDoor, LocalDoor, PageDenied
from sunkpy.web.sessions import Sessions
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


NOW_S = 1_800_000_000.0


class Clock:
    now_s = 0.0

    def __call__(self):
        return self.now_s


@asynccontextmanager
async def door(api, folder, *, namespaces=("team", "other"), slurm_url="", clock=None, handle=None):
    async with answering(handle or api.handle, folder) as kubeconfig, await Kube.connect(kubeconfig) as kube:
        how = {"namespace": "slurm", "namespaces": lambda: namespaces, "slurm_url": slurm_url}
        (folder / "page.key").write_text("p" * 64)
        clock = clock or Clock()
        sessions = Sessions(folder / "page.key", wall_clock=lambda: NOW_S + clock())
        yield ClusterDoor(kube, **how, sessions=sessions, clock=clock)


async def refused(door, token):
    with pytest.raises(PageDenied) as denied:
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


ANN = Sight(user="ann")
AGAIN = "this link was opened already: run my-page, which prints another one"


async def test_a_link_of_my_page_opens_once_and_what_the_browser_keeps_is_no_token_of_slurm(api, tmp_path):
    slurm, clock = Slurmrestd(), Clock()
    slurm.jwt_key = KEY
    async with serving(slurm.app()) as port:
        url = f"http://127.0.0.1:{port}"
        async with door(api, tmp_path, slurm_url=url, clock=clock) as own:
            kept = await own.enter(token())
            assert user_of(kept) == ""
            with pytest.raises(PageDenied, match=AGAIN):
                await own.enter(token())
            assert await own.enter(kept) == kept, "who comes back is not asked for a link"
            slurm.jwt_key = b"nobody is asked for it again, xx"
            clock.now_s = 8 * 3600 - 1
            assert await own.sight(kept) == ANN
            clock.now_s = 8 * 3600 + 1
            assert await refused(own, kept) == (401, "this session has expired: run my-page for another link")
        async with door(api, tmp_path, slurm_url=url) as replica:
            assert await replica.sight(kept) == ANN, "all pods of the page sign alike"
        async with door(api, tmp_path, slurm_url=url) as other:
            (tmp_path / "page.key").write_text("q" * 64)
            status, why = await refused(other, kept)
            assert (status, "Signature verification failed" in why, "run my-page" in why) == (401, True, True)
    assert api.reviews == 0


@pytest.mark.parametrize(
    "forged",
    [
        {"aud": "sunkpy-page", "sub": "ann", "exp": 4_000_000_000},
        {"aud": "sunkpy-page", "sub": "ann"},
        {"aud": "sunkpy-page", "sun": "ann", "exp": 4_000_000_000},
        {"aud": ["sunkpy-page"], "sub": "ann", "exp": 4_000_000_000},
        {"sub": "ann", "exp": 4_000_000_000},
    ],
)
async def test_a_session_that_this_page_has_not_begun_is_none(api, tmp_path, forged):
    for key, algorithm in ((KEY, "HS256"), ("p" * 64, "HS512"), (None, "none")):
        async with door(api, tmp_path, slurm_url="http://127.0.0.1:1") as own:
            text = jwt.encode(forged, key, algorithm)
            with pytest.raises((PageDenied, SlurmError)):
                await own.sight(text)


async def test_without_the_key_for_sessions_a_link_is_not_used_up(api, tmp_path):
    slurm = Slurmrestd()
    slurm.jwt_key = KEY
    async with serving(slurm.app()) as port, door(api, tmp_path, slurm_url=f"http://127.0.0.1:{port}") as own:
        (tmp_path / "page.key").unlink()
        with pytest.raises(PageDenied, match="the page has no key for sessions yet") as denied:
            await own.enter(token())
        assert denied.value.status == 503
        (tmp_path / "page.key").write_text("p" * 64)
        assert await own.sight(await own.enter(token())) == ANN


async def test_on_ones_own_machine_the_key_of_the_link_opens_and_nothing_else():
    assert await LocalDoor("secret").sight("secret") == EVERYTHING
    assert (await refused(LocalDoor("secret"), "Secret"))[0] == 401
    assert (await refused(LocalDoor("secret"), ""))[0] == 401
