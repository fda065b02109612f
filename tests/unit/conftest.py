"""What tests of several parts ask."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.slurm.answers import Rest, recorded_rest


@pytest.fixture
async def rest() -> AsyncIterator[Rest]:
    """A slurmrestd for one test."""
    async with recorded_rest() as rest:
        yield rest
