"""Building needs no Go on the machine."""

import shutil

import pytest

from devcluster import Cluster
from devcluster.binaries import find_go, is_new_enough

pytestmark = pytest.mark.integration


def test_without_go_on_the_path_the_wheel_is_used(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    cache = Cluster().binaries.cache
    go = find_go(cache, progress=print)
    assert is_new_enough(go)
    on_path = shutil.which("go")
    assert go.is_relative_to(cache) or (on_path and is_new_enough(go))
