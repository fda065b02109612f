"""One cluster with room for all tests of this folder; they cost minutes and are run on purpose alone."""

from __future__ import annotations

import os

import pytest

from demo.stack import Stack
from devcluster import Cluster
from tests.families.room import bring_up_room


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(os.path.dirname(__file__)):
            item.add_marker(pytest.mark.families)


@pytest.fixture(scope="session")
def room() -> tuple[Stack, Cluster]:
    """The stack, and the cluster that it is on."""
    return bring_up_room(print)
