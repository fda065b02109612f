"""`sunkpy page`: what it says, and who may come in; the page itself is in tests/unit/web."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager, suppress

import aiohttp
import click.testing

from sunkpy.cli import main
from sunkpy.cli.access import Access
from sunkpy.cli.page import Options, show
from tests.doubles.serving import answering
from tests.page_ground import Pool
from tests.ports import free_ports
from tests.unit.cli.installed import installed
from tests.unit.cli.test_explain import configure
from tests.unit.cli.test_pod_exec import by_kubectl


@asynccontextmanager
async def opened(kubeconfig):
    """The page of a person: a client that has no session yet, the port, and the key of the link."""
    told, port = asyncio.Queue(), free_ports(1)[0]
    task = asyncio.ensure_future(show(Access(kubeconfig=kubeconfig), Options(port=port), told.put_nowait))
    url, key = (await asyncio.wait_for(told.get(), 30)).split("#key=")
    assert url == f"http://127.0.0.1:{port}/"
    async with aiohttp.ClientSession(url, cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        yield session, port, key
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def tables_of(session, key):
    async with session.post("/session", json={"token": key}) as answer:
        assert answer.status == 204
    async with session.get("/api/page") as answer:
        return (await answer.json())["tables"]


async def test_the_link_opens_the_page_on_this_machine_and_under_no_other_name(tmp_path):
    async with (
        answering(Pool(nodes=1).api.handle, tmp_path) as kubeconfig,
        opened(kubeconfig) as (session, port, key),
    ):
        async with session.get("/api/page") as answer:
            assert answer.status == 401
        tables = await tables_of(session, key)
        async with session.get("/api/page", headers={"Host": f"evil.example:{port}"}) as answer:
            assert answer.status == 421
    assert [name for name, _ in tables["nodes"]["set"]] == ["gpu-0001"]
    assert any("Slurm's side: not asked" in text for text in tables["head"]["set"][0][1]["unread"])


async def test_through_the_schedulers_pod_the_page_shows_slurms_half(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    world = installed()
    configure(world)
    world.slurm.put("n2", "ALLOCATED")
    world.slurm.add_job("RUNNING", comment="", user="ann", nodes="n2")
    async with by_kubectl(world, tmp_path) as kubeconfig, opened(kubeconfig) as (session, _, key):
        tables = await tables_of(session, key)
    ((_, head),) = tables["head"]["set"]
    assert head.get("unread", []) == []
    assert {name: row["joint"] for name, row in tables["nodes"]["set"]} == {"node-1": "free", "node-2": "jobs"}


def test_a_shared_page_without_settings_says_what_is_missing(tmp_path):
    runner = click.testing.CliRunner()
    result = runner.invoke(main, ["page", "--serve"])
    assert (result.exit_code, result.output) == (
        1,
        "sunkpy: --serve needs --config, the file with the scheduler's settings\n",
    )
    (tmp_path / "config.yaml").write_text("{}")
    result = runner.invoke(main, ["page", "--serve", "--config", str(tmp_path / "config.yaml")])
    says = "sunkpy: --serve needs --session-key-file, a file that sunkpy slurm-token writes\n"
    assert (result.exit_code, result.output) == (1, says)
