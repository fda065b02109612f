"""Where manifests are that tests compare with what they should become."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.manifests import FOLDERS


@pytest.fixture(params=FOLDERS.values(), ids=FOLDERS)
def manifests(request: pytest.FixtureRequest) -> Path:
    """The project's manifests, then those of `$SUNKPY_MANIFESTS`."""
    return request.param
