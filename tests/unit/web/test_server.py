"""The page over HTTP, with the readers of the command line, against the doubles of both sides."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import aiohttp
import pytest

from sunkpy.core.explain.words import RELEASE
from tests.page_ground import KEY, Pool, page_of
from tests.unit.slurm.test_users import token as slurm_token

LINK = {"token": KEY}


@pytest.fixture
def pool():
    pool = Pool(nodes=3)
    pool.free.sort()
    pool.run_pod("team", "web", "gpu-0001")
    pool.run_job("train", "ann", "gpu-0002")
    pool.api.people = {"of-ann": "ann", "of-eve": "eve"}
    pool.api.allowed = {("ann", "nodesets", "slurm"), ("ann", "pods", "other")}
    return pool


@asynccontextmanager
async def opened(pool, folder, *, token=KEY, **how):
    """A browser's session, and the page."""
    jar = aiohttp.CookieJar(unsafe=True)  # the page is at an address without a name
    async with page_of(pool, folder, **how) as shown, aiohttp.ClientSession(shown.url, cookie_jar=jar) as session:
        async with session.post("/session", json={"token": token}) as answer:
            assert answer.status == 204
        yield session, shown.feed


async def read(session, path, *, status=200):
    async with session.get(path) as answer:
        assert answer.status == status, await answer.text()
        return await answer.json()


def rows(told, name):
    return dict(told["tables"][name]["set"])


async def events(stream, count):
    """The next texts of a stream."""
    found = []
    async for line in stream.content:
        if line.startswith(b"data: "):
            found.append(line[6:].decode().strip())
        if len(found) == count:
            return found
    return found


async def test_the_page_shows_both_sides(pool, tmp_path):
    async with opened(pool, tmp_path) as (session, _):
        told = await read(session, "/api/page")
        assert {name: row["joint"] for name, row in rows(told, "nodes").items()} == {
            "gpu-0001": "pods", "gpu-0002": "jobs", "gpu-0003": "free",
        }  # fmt: skip
        assert {row["name"] for row in rows(told, "running").values()} == {"team/web", "train"}


async def test_a_stream_tells_what_has_changed_and_no_more(pool, tmp_path):
    async with opened(pool, tmp_path, every_s=0.0) as (session, _feed):
        told = await read(session, "/api/page")
        async with session.get("/api/stream") as stream:
            assert stream.headers["Content-Type"] == "text/event-stream"
            (first,) = await events(stream, 1)
            assert json.loads(first)["number"] >= told["number"]
            pool.slurm.put("gpu-0003", "IDLE", "DRAIN", reason="bad fan")
            while "nodes" not in (change := json.loads((await events(stream, 1))[0]))["tables"]:
                pass
            assert [key for key, _ in change["tables"]["nodes"]["set"]] == ["gpu-0003"]
            assert rows(change, "nodes")["gpu-0003"]["holds"][0]["reason"] == "bad fan"


async def test_ten_viewers_are_one_reader(pool, tmp_path):
    async with opened(pool, tmp_path, every_s=60.0) as (session, _):
        await asyncio.gather(*(read(session, "/api/page") for _ in range(10)))
        assert pool.slurm.asked.count("all jobs") == 1
        assert pool.api.asked["/api/v1/nodes"] == 1


async def test_nobody_reads_while_nobody_looks(pool, tmp_path):
    async with page_of(pool, tmp_path, every_s=0.0), aiohttp.ClientSession() as _:
        await asyncio.sleep(0)
        assert pool.slurm.asked == []


async def test_a_thing_is_explained_with_the_words_of_the_command_line(pool, tmp_path):
    pool.slurm.put("gpu-0003", "IDLE", "DRAIN", reason="bad fan", reason_set_by_user="root")
    waiting = pool.slurm.add_job("PENDING", comment="", user="bob", state_reason="JobHeldUser")
    async with opened(pool, tmp_path) as (session, _):
        await read(session, "/api/page")
        node = await read(session, "/api/explain/node/gpu-0003")
        assert node["explanations"][0]["standing"] == "takes no new jobs"
        assert "scontrol update nodename=gpu-0003 state=resume" in node["explanations"][0]["whatToDo"]
        assert node["history"]["slurmNode"] == "gpu-0003"
        job = await read(session, f"/api/explain/job/{waiting}")
        assert job["explanations"][0]["whatToDo"] == f"Release it: {RELEASE.format(job=waiting)}"
        pod = await read(session, "/api/explain/pod/team/web")
        assert pod["explanations"][0]["subject"] == "Pod team/web"
        busy = await read(session, "/api/explain/node/gpu-0002")
        assert (busy["explanations"][0]["subject"], busy["explanations"][0]["standing"]) == (
            "Node gpu-0002", "is not drained",
        )  # fmt: skip
        await read(session, "/api/explain/node/other", status=404)
        await read(session, "/api/explain/job/999999", status=404)


async def test_pods_of_others_have_no_name_and_no_explanation(pool, tmp_path):
    async with opened(pool, tmp_path, token="of-ann", is_shared=True) as (session, _feed):
        text = json.dumps(await read(session, "/api/page"))
        assert "web" not in text
        assert "a pod" in text
        refused = await read(session, "/api/explain/pod/team/web", status=403)
        assert refused["why"] == "you may not get pods in namespace team"
        job = next(job["job_id"] for job in pool.slurm.jobs.values() if job["comment"])
        assert "web" not in json.dumps(await read(session, f"/api/explain/job/{job}"))
        assert "web" not in json.dumps(await read(session, "/api/explain/node/gpu-0001"))


async def test_a_user_of_slurm_sees_their_own_jobs_and_of_others_none(pool, tmp_path):
    pool.slurm.jwt_key = b"k" * 32
    own, other = (pool.slurm.add_job("PENDING", comment="", user=user) for user in ("ann", "bob"))
    async with opened(pool, tmp_path, token=slurm_token("ann", key=b"k" * 32), is_shared=True) as (session, _):
        await read(session, "/api/page")
        (cookie,) = session.cookie_jar
        assert cookie.value != slurm_token("ann", key=b"k" * 32), "it is good for the page alone"
        async with session.post("/session", json={"token": slurm_token("ann", key=b"k" * 32)}) as again:
            assert (again.status, await again.json()) == (
                401,
                {"why": "this link was opened already: run my-page, which prints another one"},
            )
        job = await read(session, f"/api/explain/job/{own}")
        assert "bob" not in json.dumps(job)
        await read(session, f"/api/explain/job/{other}", status=404)


async def test_who_has_jobs_that_slurm_hides_from_the_page_is_told_that_and_no_number(tmp_path):
    pool = Pool(nodes=1)
    pool.slurm.jwt_key = b"k" * 32
    ann = slurm_token("ann", key=b"k" * 32)
    async with opened(pool, tmp_path, token=ann, is_shared=True, private_jobs=True) as (session, _):
        (head,) = rows(await read(session, "/api/page"), "head").values()
        assert head["headline"] == "Your jobs cannot be shown"
        assert "jobs: PrivateData=jobs in slurm.conf hides them from the page; squeue shows you yours" in head["unread"]
        pool.slurm.add_job("PENDING", comment="", user="ann")
    async with opened(pool, tmp_path, token=ann, is_shared=True, private_jobs=True) as (session, _):
        (head,) = rows(await read(session, "/api/page"), "head").values()
        assert head["headline"] == "0 of your jobs have nodes, 1 wait", "an Operator sees jobs"
        assert "unread" not in head


@pytest.mark.parametrize("path", ["/api/page", "/api/stream", "/api/explain/pod/team/web", "/api/explain/node/x"])
async def test_without_a_token_nothing_is_told(pool, tmp_path, path):
    async with page_of(pool, tmp_path, is_shared=True) as shown, aiohttp.ClientSession(shown.url) as session:
        for headers in (
            {},
            {"Authorization": "Bearer forged"},
            {"Cookie": f"sunkpy-page-{shown.url.rpartition(':')[2]}=forged"},
        ):
            async with session.get(path, headers=headers) as answer:
                assert answer.status == 401
        async with session.get(path, headers={"Authorization": "Bearer of-eve"}) as answer:
            assert answer.status == 403
        assert pool.slurm.asked == []


async def test_a_form_of_another_site_cannot_enter(pool, tmp_path):
    async with page_of(pool, tmp_path) as shown, aiohttp.ClientSession(shown.url) as session:
        async with session.post("/session", data=json.dumps(LINK)) as answer:
            assert answer.status == 415
        async with session.post("/session", data="[", headers={"Content-Type": "application/json"}) as answer:
            assert answer.status == 400
        async with session.post("/session", json=LINK, headers={"X-Forwarded-Proto": "https"}) as answer:
            cookie = answer.headers["Set-Cookie"]
        assert all(part in cookie for part in ("HttpOnly", "SameSite=Strict", "Secure"))


async def test_two_pages_on_one_machine_do_not_end_each_others_sessions(pool, tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    async with opened(pool, tmp_path / "one") as (session, _), page_of(pool, tmp_path / "other") as other:
        async with session.post(f"{other.url}/session", json=LINK) as answer:
            assert answer.status == 204
        await read(session, "/api/page")
        await read(session, f"{other.url}/api/page")


async def test_nothing_of_another_origin_is_loaded_and_no_script_of_others_runs(pool, tmp_path):
    async with page_of(pool, tmp_path) as shown, aiohttp.ClientSession(shown.url) as session:
        for path in ("/", "/static/page.js", "/api/page"):
            async with session.get(path) as answer:
                policy = answer.headers["Content-Security-Policy"]
                assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
                assert "unsafe" not in policy
                assert "//" not in (await answer.text()).replace("http://www.w3.org/2000/svg", "").replace("// ", "")
        async with session.get("/static/../server.py") as answer:
            assert answer.status == 404
