"""A real Slurm for each module of tests, and clients of two of its users; for all, one as the chart configures it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator

import pytest

from sunkpy.slurm import Slurm
from tests.integration.slurm.asking import connect, happens, is_usable
from tests.integration.slurm.daemons import RealSlurm
from tests.integration.slurm.site import Site


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    """Its daemons."""
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


@pytest.fixture
async def admin(real: RealSlurm) -> AsyncIterator[Slurm]:
    """SlurmUser, once the node can be used."""
    slurm = connect(real, "slurm")
    await happens(real, lambda: is_usable(slurm))
    yield slurm
    await slurm.close()


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
