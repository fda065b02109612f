"""One update without any change, when an answer shows nodes that may be given jobs and could not have any before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sunkpy.runtime.settings import SlurmSettings
from sunkpy.slurm import NodeCache, Slurm
from sunkpy.syncer.queue_waker import QueueWaker
from tests.doubles.serving import Changes, serving
from tests.doubles.slurmrestd import Slurmrestd


class Rig:
    """Slurm is read when a test says so; a leader has begun with the first answer."""

    def __init__(self, slurm: Slurmrestd, client: Slurm) -> None:
        self.slurm = slurm
        self.nodes = NodeCache(client)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    key = tmp_path / "jwt.key"
    key.write_bytes(b"k" * 32)
    slurm = Slurmrestd(Changes())
    for name in ("n1", "n2", "n3"):
        slurm.put(name)
    async with serving(slurm.app()) as port:
        url = f"http://127.0.0.1:{port}"
        client = Slurm.connect(SlurmSettings(url=url, version="v0.0.45", jwt_key_file=str(key)))
        rig = Rig(slurm, client)
        waker = asyncio.create_task(QueueWaker(client, rig.nodes).run())
        await rig.nodes.refresh()
        yield rig
        waker.cancel()
        await client.close()


async def until_written(rig: Rig, count: int) -> list[str]:
    await rig.slurm.changes.until(lambda: len(rig.slurm.writes) >= count)
    written, rig.slurm.writes = rig.slurm.writes, []
    return written


@pytest.mark.parametrize(
    ("closed", "reason"),
    [
        pytest.param(("IDLE", "DRAIN"), "k8s: cordon", id="its drain was lifted"),
        pytest.param(("IDLE", "NOT_RESPONDING"), "", id="its slurmd answers again"),
        pytest.param(("DOWN",), "Not responding", id="its slurmd has registered again"),
        pytest.param(("DOWN",), "broken", id="somebody has resumed it"),
    ],
)
async def test_a_node_that_opens_has_the_queue_looked_at(rig: Rig, closed: tuple[str, ...], reason: str) -> None:
    rig.slurm.put("n2", *closed, reason=reason)
    await rig.nodes.refresh(full=True)
    rig.slurm.put("n2", "IDLE", reason="")
    await rig.nodes.refresh(full=True)
    assert await until_written(rig, 1) == ["POST n2 {}"]


async def test_a_lifted_drain_counts_once_slurmd_answers(rig: Rig) -> None:
    """slurmctld has looked when the drain was lifted, and passed the node over."""
    for state in (("IDLE", "DRAIN"), ("IDLE", "NOT_RESPONDING"), ("IDLE",)):
        assert rig.slurm.writes == []
        rig.slurm.put("n1", *state)
        await rig.nodes.refresh(full=True)
    assert await until_written(rig, 1) == ["POST n1 {}"]


async def test_jobs_that_come_and_go_cost_nothing(rig: Rig) -> None:
    for state in ("MIXED", "ALLOCATED", "COMPLETING", "IDLE"):
        rig.slurm.put("n1", state)
        await rig.nodes.refresh(full=True)
    rig.slurm.put("new")
    await rig.nodes.refresh(full=True)
    assert await until_written(rig, 1) == ["POST new {}"]


async def test_many_that_open_at_once_cost_one_update(rig: Rig) -> None:
    for number in range(50):
        rig.slurm.put(f"new-{number:02}")
    await rig.nodes.refresh(full=True)
    rig.slurm.put("n1", "IDLE", "DRAIN")
    await rig.nodes.refresh(full=True)
    assert await until_written(rig, 1) == ["POST new-00 {}"]


async def test_one_that_fails_is_left_to_backfill(rig: Rig) -> None:
    rig.slurm.put("gone")
    await rig.nodes.refresh(full=True)
    rig.slurm.refuse = "busy"
    await until_written(rig, 1)
    rig.slurm.refuse = ""
    rig.slurm.put("new")
    await rig.nodes.refresh(full=True)
    assert await until_written(rig, 1) == ["POST new {}"]
