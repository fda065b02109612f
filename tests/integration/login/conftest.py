"""What people who logged in have before them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.integration.slurm.daemons import RealSlurm


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    """A real one."""
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    real = RealSlurm(tmp_path_factory.mktemp("slurm"), os.environ.get("SLURM_SUITE", "trixie"))
    yield real
    real.stop()
