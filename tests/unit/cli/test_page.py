"""`sunkpy page`: what it says, and who may come in; the page itself is in tests/unit/web."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import aiohttp
import click.testing

from sunkpy.cli import main
from sunkpy.cli.access import Access
from sunkpy.cli.page import Options, show
from tests.doubles.serving import answering
from tests.page_ground import Pool
from tests.ports import free_ports


async def test_the_link_opens_the_page_on_this_machine_and_under_no_other_name(tmp_path):
    told, (port,) = asyncio.Queue(), free_ports(1)
    async with answering(Pool(nodes=1).api.handle, tmp_path) as kubeconfig:
        shown = show(Access(kubeconfig=kubeconfig), Options(port=port), told.put_nowait)
        task = asyncio.ensure_future(shown)
        url, key = (await asyncio.wait_for(told.get(), 30)).split("#key=")
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(url, cookie_jar=jar) as session:
            async with session.get("/api/page") as answer:
                assert answer.status == 401
            async with session.post("/session", json={"token": key}) as answer:
                assert answer.status == 204
            async with session.get("/api/page") as answer:
                tables = (await answer.json())["tables"]
            async with session.get("/api/page", headers={"Host": f"evil.example:{port}"}) as answer:
                assert answer.status == 421
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert url == f"http://127.0.0.1:{port}/"
    assert [name for name, _ in tables["nodes"]["set"]] == ["gpu-0001"]
    assert any("Slurm's side: not asked" in text for text in tables["head"]["set"][0][1]["unread"])


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
