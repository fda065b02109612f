"""A real Slurm for each module of tests, and clients of two of its users; for all, one as the chart configures it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator

import pytest

from sunkpy.slurm import NodesSnapshot, Slurm, errors
from tests.integration.slurm.asking import administrator, connect, happens
from tests.integration.slurm.daemons import RealSlurm
from tests.integration.slurm.gangs import CPUS, NODES, five_nodes
from tests.integration.slurm.site import Site
from tests.unit.scheduler.world import World


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    """The daemons of a real Slurm."""
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    slurm = RealSlurm(tmp_path_factory.mktemp("slurm"), os.environ.get("SLURM_SUITE", "trixie"))
    yield slurm
    slurm.stop()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """People, accounts, nodes and a slurm.conf of the chart's. Who changes it changes it back."""
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    site = Site(tmp_path_factory.mktemp("site"))
    try:
        asyncio.run(site.settle())
        yield site
    finally:
        site.stop()


@pytest.fixture(scope="session")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    """Five nodes of two cpus each."""
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    suite = os.environ.get("SLURM_SUITE", "trixie")
    slurm = RealSlurm(tmp_path_factory.mktemp("pool"), suite, machines=five_nodes())
    yield slurm
    slurm.stop()


@pytest.fixture
async def keeper(pool: RealSlurm) -> AsyncIterator[Slurm]:
    """SlurmUser, once all five nodes are idle; what a test leaves in the queue is gone after it."""
    slurm = connect(pool, "slurm")

    async def is_idle() -> bool:
        try:
            # Asked of all nodes: only then slurmctld looks again which cpus are in use.
            seen = await slurm.nodes()
        except errors.SlurmError:
            return False
        nodes = seen.nodes if isinstance(seen, NodesSnapshot) else {}
        is_open = {node.name for node in nodes.values() if node.is_registered and not node.is_closed}
        return is_open == set(NODES) and not any(node.is_busy for node in nodes.values())

    await happens(pool, is_idle)
    yield slurm
    for job_id, state in (await slurm.jobs_state()).items():
        if state & {"PENDING", "RUNNING", "SUSPENDED"}:
            await slurm.cancel_job(job_id)
    await slurm.close()


@pytest.fixture
async def own(pool: RealSlurm) -> AsyncIterator[Slurm]:
    """The scheduler's own user on the five nodes."""
    slurm = connect(pool, "k8s")
    yield slurm
    await slurm.close()


@pytest.fixture
def world() -> World:
    """Kubernetes with the same five nodes."""
    world = World()
    for number in range(1, len(NODES) + 1):
        world.add_node(number, cpu=str(CPUS))
    return world


@pytest.fixture
async def admin(real: RealSlurm) -> AsyncIterator[Slurm]:
    async with administrator(real) as slurm:
        yield slurm


@pytest.fixture
async def submitter(real: RealSlurm) -> AsyncIterator[Slurm]:
    """Who the jobs of pods belong to."""
    slurm = connect(real, "k8s")
    yield slurm
    await slurm.close()


@pytest.fixture
async def scheduler(site: Site) -> AsyncIterator[Slurm]:
    """The client as the scheduler has it; what a test leaves in the queue is gone after it."""
    client = site.connect("k8s")
    yield client
    await site.clear()
    await client.close()
