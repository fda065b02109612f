"""Requests to slurmrestd through a relay: what it carries, and what is said when it ends."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from sunkpy.slurm import Slurm, errors
from sunkpy.slurm.connection import NoAnswer
from sunkpy.slurm.relay import Relay
from tests.doubles.serving import serving
from tests.doubles.slurmrestd import Slurmrestd

SUNKPY = str(Path(sys.executable).with_name("sunkpy"))


@asynccontextmanager
async def relayed(tmp_path):
    """A slurmrestd, a client through a relay, and how often that was started."""
    double, starts = Slurmrestd(), []
    double.jwt_key = b"0" * 32
    async with serving(double.app()) as port:
        (tmp_path / "key").write_bytes(double.jwt_key)
        slurm = {"url": f"http://127.0.0.1:{port}", "jwtKeyFile": str(tmp_path / "key"), "user": "k8s"}
        settings = {"cluster": "c1", "namespace": "slurm", "access": [], "slurm": slurm | {"reader": "reader"}}
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(settings))

        async def command():
            starts.append(1)
            return [SUNKPY, "slurm-relay", "--config", str(tmp_path / "config.yaml")]

        client = Slurm.through(Relay(command))
        try:
            yield double, client, starts
        finally:
            await client.close()


async def test_many_requests_at_once_share_one_relay_and_each_gets_its_own_answer(tmp_path):
    async with relayed(tmp_path) as (double, slurm, starts):
        jobs = [double.add_job("PENDING", comment="", user="ann", state_reason="Priority") for _ in range(30)]
        found = await asyncio.gather(*(slurm.job(job) for job in jobs))
        assert ([job.id for job in found], len(starts), slurm.user) == (jobs, 1, "k8s")
        with pytest.raises(errors.NotFound):
            await slurm.job(99999)


async def test_a_job_is_ended_as_the_user_it_is_asked_for(tmp_path):
    async with relayed(tmp_path) as (double, slurm, _):
        job = double.add_job("RUNNING", comment="", user="ann", state_reason="None")
        with pytest.raises(errors.SlurmError):
            await slurm.cancel_job(job, user="bob")
        await slurm.cancel_job(job, user="ann")


async def test_an_answer_of_megabytes_comes_whole(tmp_path):
    async with relayed(tmp_path) as (double, slurm, _):
        for number in range(3000):
            double.add_job("PENDING", comment="x" * 500, user="ann", name=f"j{number}", state_reason="Priority")
        assert len(await slurm.jobs()) == 3000


async def test_after_a_relay_has_ended_the_next_request_starts_another(tmp_path):
    async with relayed(tmp_path) as (_, slurm, starts):
        await slurm.ping()
        relay = slurm._transport._http
        relay._running._process.kill()
        await relay._running._reading
        assert (await slurm.ping()).is_up
        assert len(starts) == 2


async def test_a_relay_that_ends_while_it_is_asked_is_replaced_once_for_what_only_reads(tmp_path):
    async with relayed(tmp_path) as (double, good, _):
        good_relay = good._transport._http
        commands = []

        async def command():
            """One that says hello and then ends at the first request, as in a pod that is stopped."""
            commands.append(1)
            found = await good_relay._find_command()
            ends = "import sys, msgspec; from sunkpy.slurm.relay import Hello, _packed; "
            ends += "sys.stdout.buffer.write(_packed(Hello('k8s'))); sys.stdout.flush(); sys.stdin.buffer.read(4)"
            return [sys.executable, "-c", ends] if len(commands) in bad else found

        job = double.add_job("PENDING", comment="", user="ann", state_reason="Priority")
        bad = {1, 2}
        hint = "kubectl -n slurm get pods -l app.kubernetes.io/component=scheduler"
        slurm = Slurm.through(Relay(command, hint=hint))
        with pytest.raises(
            errors.Unreachable, match=r"no answer from the scheduler's pod: .*; kubectl -n slurm get pods"
        ):
            await slurm.queued_jobs(scheduler="k8s")
        bad = {3}
        assert [each.row.id for each in await slurm.queued_jobs(scheduler="k8s")] == [job]
        assert len(commands) == 4
        await slurm.close()
        commands.clear()
        bad, relay = {1}, Relay(command, hint=hint)
        with pytest.raises(NoAnswer) as refused:  # a write may have been carried out
            await relay.exchange("POST", "/slurm/v0.0.45/job/submit", content=b"{}", headers={})
        assert (refused.value.hint, len(commands)) == (hint, 1)
        await relay.close()


async def test_a_command_that_is_no_relay_is_told_with_its_words():
    async def command():
        return ["sh", "-c", "echo 'Error from server (Forbidden): pods is forbidden' >&2; exit 1"]

    slurm = Slurm.through(Relay(command))
    with pytest.raises(errors.Unreachable, match=r"no answer from the scheduler's pod: sh -c .*\(Forbidden\): pods"):
        await slurm.ping()
    await slurm.close()


async def test_the_seal_of_a_job_stays_where_the_key_is():
    async def command():
        return []

    with pytest.raises(errors.Unauthorized, match="make the seal of a job"):
        Relay(command).seal()


async def test_an_answer_that_the_relay_cannot_hold_ends_that_request_alone(tmp_path):
    async with relayed(tmp_path) as (double, _, _):
        for _ in range(150):
            double.add_job("PENDING", comment="x" * 2**20, user="ann", state_reason="Priority")
        code = (
            "import asyncio, sys; from pathlib import Path; from sunkpy.runtime.settings import load; "
            "from sunkpy.scheduler.settings import SchedulerSettings; from sunkpy.slurm import relay; "
            "relay._MEMORY_BYTES = 200 << 20; "
            "asyncio.run(relay.serve_here(load(Path(sys.argv[1]), SchedulerSettings).slurm))"
        )

        async def command():
            return [sys.executable, "-c", code, str(tmp_path / "config.yaml")]

        small = Slurm.through(Relay(command))
        with pytest.raises(errors.Unreachable, match="the answer is longer than the relay may hold"):
            await small.jobs()
        assert (await small.ping()).is_up
        await small.close()


@pytest.mark.parametrize("turns", range(12))
async def test_who_is_cancelled_while_the_relay_starts_ends_and_so_does_the_relay(turns):
    """asyncio may never end a task that is cancelled while it starts a process."""

    async def command():
        return ["sleep", "600"]

    relay = Relay(command)
    asked = asyncio.create_task(relay.exchange("GET", "/x", content=None, headers={}))
    for _ in range(turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(10):
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        await relay.close()


@pytest.mark.parametrize("turns", range(0, 16, 2))
async def test_a_relay_that_is_closed_while_it_starts_leaves_nothing_that_runs(turns):
    async def command():
        for _ in range(4):  # as if it asked the apiserver
            await asyncio.sleep(0)
        return ["sleep", "600"]

    relay = Relay(command)
    asked = [asyncio.create_task(relay.exchange("GET", "/x", content=None, headers={})) for _ in range(2)]
    for _ in range(turns):
        await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await relay.close()
        found = await asyncio.gather(*asked, return_exceptions=True)
    assert all(isinstance(each, NoAnswer | asyncio.CancelledError) for each in found), found
