"""What `down` removes of the machine itself, on a machine of its own: its links, and tmpfs in place of its folders."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from devcluster import cleanup, state
from devcluster.layout import Layout

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")

FOLDERS = Layout(root=Path("/r"), name="x", slot=0).node(1).own
REMOVE = """
from pathlib import Path
from devcluster import cleanup
from devcluster.layout import Layout
cleanup.remove_mount_points(Layout(root=Path("/r"), name="x", slot=0))
"""


def left(before: str) -> set[str]:
    """What is left of the folders when shell has run, and then a cluster in the first slot is taken down."""
    shown = " ".join(map(str, FOLDERS))
    script = f"""
set -e
for folder in /run /var/lib /var/log; do mount -t tmpfs tmpfs $folder; done
mkdir -p {shown}
{before}
{sys.executable} -c '{REMOVE}'
ls -d {shown} /var/lib/kubelet 2> /dev/null || true
"""
    own = ["unshare", "--net", "--mount", "sh", "-c", script]
    return set(subprocess.run(own, capture_output=True, text=True, check=True).stdout.split())


def test_folders_over_which_nodes_mounted_their_own_go_with_the_last_cluster():
    assert left("ip link add skd0 type bridge") == set()


def test_they_stay_for_another_cluster():
    assert left("ip link add skd3 type bridge") == {*map(str, FOLDERS), "/var/lib/kubelet"}


def test_what_somebody_else_has_in_them_stays():
    others = "touch /run/containerd/containerd.sock /var/lib/kubelet/config.yaml"
    assert left(others) == {"/run/containerd", "/var/lib/kubelet"}


def test_a_cluster_whose_folder_is_half_removed_is_still_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout(root=tmp_path, name="c", slot=0)
    (layout.home / "nodes").mkdir(parents=True)
    state.spec_path(tmp_path, "c").write_text("{}")
    killed, rmtree = [OSError("killed")] * 2, shutil.rmtree

    def until_killed(folder: Path, *, ignore_errors: bool = False) -> None:
        if not killed:
            rmtree(folder)
            return
        error = killed.pop()
        for file in folder.glob("*.json"):
            file.unlink()
        if not ignore_errors:
            raise error

    monkeypatch.setattr(shutil, "rmtree", until_killed)
    with pytest.raises(OSError, match="killed"):
        cleanup.remove_home(layout)
    assert state.spec_path(tmp_path, "c").exists()
    cleanup.remove_home(layout)
    assert not layout.home.exists()
