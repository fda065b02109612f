import errno
from pathlib import Path

import pytest

from devcluster import cgroups
from devcluster.cgroups import Hierarchy, parse_hierarchies, tracking, working

V1 = """\
30 24 0:26 / /sys/fs/cgroup rw shared:4 - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/pids rw shared:5 master:1 - cgroup cgroup rw,pids
33 30 0:29 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
"""
UNIFIED = "34 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
V2 = "30 24 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
ELSEWHERE = "35 24 0:31 / /var/lib/x/cgroup rw - cgroup2 none rw\n"


@pytest.mark.parametrize(
    ("mountinfo", "mounts", "used"),
    [
        (V1, ["cpu,cpuacct", "pids", "systemd"], ["cpu,cpuacct", "pids", "systemd"]),
        (V1 + UNIFIED, ["cpu,cpuacct", "pids", "systemd", "unified"], ["cpu,cpuacct", "pids", "systemd"]),
        (V2, ["."], ["."]),
        (V2 + ELSEWHERE, ["."], ["."]),
        ("", [], []),
    ],
)
def test_trees_are_found_on_version_1_on_version_2_and_on_both(mountinfo: str, mounts: list, used: list):
    trees = parse_hierarchies(mountinfo)
    assert [str(tree.mount.relative_to("/sys/fs/cgroup")) for tree in trees] == mounts
    assert [str(tree.mount.relative_to("/sys/fs/cgroup")) for tree in working(trees)] == used


def test_processes_are_counted_where_that_has_no_side_effect():
    assert tracking(parse_hierarchies(V1 + UNIFIED)).mount == Path("/sys/fs/cgroup/pids")
    assert tracking(parse_hierarchies(V2)).mount == Path("/sys/fs/cgroup")


def v2_tree(root: Path, *parts: str) -> Hierarchy:
    for folder in [root, *(root.joinpath(*parts[:end]) for end in range(1, len(parts) + 1))]:
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.controllers").write_text("cpu memory pids\n")
        (folder / "cgroup.subtree_control").write_text("cpu\n")
        (folder / "cgroup.procs").write_text("")
    return Hierarchy(root, 2)


def test_version_2_hands_down_the_controllers_that_are_missing(tmp_path: Path):
    tree = v2_tree(tmp_path, "ours")
    cgroups.create("ours", [tree])
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+memory +pids"
    assert (tmp_path / "ours" / "cgroup.subtree_control").read_text() == "cpu\n"
    cgroups.delegate("ours", [tree])
    assert (tmp_path / "ours" / "cgroup.subtree_control").read_text() == "+memory +pids"


def test_inside_a_container_the_roots_processes_move_to_a_leaf(tmp_path: Path):
    tree = v2_tree(tmp_path)
    (tmp_path / "cgroup.procs").write_text("7\n8\n")
    written: list[tuple[str, str]] = []

    def busy_once(path: Path, text: str) -> None:
        written.append((str(path.relative_to(tmp_path)), text))
        if len(written) == 1:
            raise OSError(errno.EBUSY, "busy")

    cgroups.create("ours", [tree], write=busy_once)
    assert written == [
        ("cgroup.subtree_control", "+memory +pids"),
        ("init/cgroup.procs", "7"),
        ("init/cgroup.procs", "8"),
        ("cgroup.subtree_control", "+memory +pids"),
    ]


def test_a_version_1_cpuset_gets_what_its_parent_has(tmp_path: Path):
    for name in ("cpuset.cpus", "cpuset.mems"):
        (tmp_path / name).write_text("0-1\n")
    folder = tmp_path / "ours"
    folder.mkdir()
    for name in ("cpuset.cpus", "cpuset.mems"):
        (folder / name).write_text("\n")
    cgroups.create("ours", [Hierarchy(tmp_path, 1, frozenset({"cpuset"}))])
    assert (folder / "cpuset.cpus").read_text() == "0-1\n"


def test_removal_takes_children_first_and_is_content_with_nothing(tmp_path: Path):
    (tmp_path / "ours" / "a" / "b").mkdir(parents=True)
    trees = [Hierarchy(tmp_path, 2)]
    assert cgroups.remove("ours", trees) == []
    assert not (tmp_path / "ours").exists()
    assert cgroups.remove("ours", trees) == []
