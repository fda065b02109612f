from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from devcluster import state
from devcluster.cluster import Asked, Cluster, change, expected_processes
from devcluster.errors import DevclusterError
from devcluster.layout import Layout
from devcluster.state import Spec
from devcluster.waiting import wait


def test_a_saved_spec_is_read_back(tmp_path: Path):
    spec = Spec(name="a", slot=2, nodes=3, gpus=1, labels={"node-1": {"zone": "x"}})
    state.save_spec(tmp_path, spec)
    assert state.load_spec(tmp_path, "a") == spec
    assert state.list_specs(tmp_path) == [spec]
    assert state.load_spec(tmp_path, "b") is None


def test_a_broken_spec_says_which_file_and_what_to_do(tmp_path: Path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "cluster.json").write_text("{")
    with pytest.raises(DevclusterError, match=r"a/cluster\.json cannot be read .* remove the file"):
        state.load_spec(tmp_path, "a")


def test_writing_leaves_no_half_made_file_behind(tmp_path: Path):
    state.write_atomically(tmp_path / "f", b"1", mode=0o600)
    state.write_atomically(tmp_path / "f", b"2", mode=0o600)
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("asked", "result"),
    [
        ({}, Spec(name="a", slot=0, nodes=2, gpus=1, labels={"node-1": {"k": "v"}})),
        ({"nodes": 3}, Spec(name="a", slot=0, nodes=3, gpus=1, labels={"node-1": {"k": "v"}})),
        ({"gpus": 0}, Spec(name="a", slot=0, nodes=2, gpus=0, labels={"node-1": {"k": "v"}})),
        ({"dra": 4}, Spec(name="a", slot=0, nodes=2, gpus=1, dra=4, labels={"node-1": {"k": "v"}})),
        ({"vms": 1}, Spec(name="a", slot=0, nodes=2, gpus=1, vms=1, labels={"node-1": {"k": "v"}})),
        ({"kwok": 5}, Spec(name="a", slot=0, nodes=2, gpus=1, kwok=5, labels={"node-1": {"k": "v"}})),
        (
            {"labels": {"node-1": {"l": "w"}, "node-2": {"k": "v"}}},
            Spec(name="a", slot=0, nodes=2, gpus=1, labels={"node-1": {"k": "v", "l": "w"}, "node-2": {"k": "v"}}),
        ),
    ],
)
def test_what_is_not_asked_for_stays_as_it_was(asked: dict, result: Spec):
    spec = Spec(name="a", slot=0, nodes=2, gpus=1, labels={"node-1": {"k": "v"}})
    assert change(spec, Asked(**asked)) == result


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"nodes": 1}, "cannot shrink to 1: take it down first"),
        ({"nodes": 0}, "give 1 to 64"),
        ({"nodes": 65}, "give 1 to 64"),
        ({"cpus": 16}, "kubelets count them once; take the cluster down first"),
        ({"dra": 0}, "drivers count them once; take the cluster down first"),
        ({"labels": {"node-9": {"k": "v"}}}, "names node-9, but the nodes are node-1, node-2, vm-1"),
        ({"vms": 0}, "--vm 0: cluster a has 1; give 1 to 4"),
        ({"vms": 5}, "--vm 5: cluster a has 1; give 1 to 4"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(asked: dict, message: str):
    spec = Spec(name="a", slot=0, nodes=2, dra=8, vms=1)
    with pytest.raises(DevclusterError, match=message):
        change(spec, Asked(**asked))


def test_a_cluster_that_is_not_there_says_how_to_make_one(tmp_path: Path):
    with pytest.raises(DevclusterError, match=r"no cluster 'x' in .*`.venv/bin/python -m devcluster up` makes one"):
        _ = Cluster("x", root=Path("/nowhere")).spec


def test_every_node_has_its_three_programs():
    names = expected_processes(Spec(name="a", slot=0, nodes=2), Layout(root=Path("/r"), name="a", slot=0))
    assert len(names) == len(set(names)) == 6 + 2 * 3
    assert "node-2-kubelet" in names
    assert "node-2-dra-driver" not in names
    assert "kwok" not in names


def test_a_machine_is_one_process():
    spec = Spec(name="a", slot=0, nodes=1, vms=2)
    names = expected_processes(spec, Layout(root=Path("/r"), name="a", slot=0))
    assert [name for name in names if name.startswith("vm-")] == ["vm-1-machine", "vm-2-machine"]


def test_with_dra_every_node_has_a_driver():
    spec = Spec(name="a", slot=0, nodes=2, dra=1)
    names = expected_processes(spec, Layout(root=Path("/r"), name="a", slot=0))
    assert {"node-1-dra-driver", "node-2-dra-driver"} <= set(names)


def test_a_lock_that_its_last_holder_removed_is_taken_anew(tmp_path: Path):
    """Who waited for the file that is gone must not hold it beside somebody who has the new one."""
    root, held = tmp_path / "clusters", []
    lock = state.cluster_lock(root, "a")

    def wait_for_it() -> None:
        with state.locked(lock):
            held.append(lock.exists())

    with ThreadPoolExecutor() as pool:
        with state.locked(lock):
            waiting = pool.submit(wait_for_it)
            wait(lambda: f":{lock.stat().st_ino} " in waiters(), timeout_s=10, what="somebody waits for the lock")
            state.remove_lock(root, "a")
            assert not root.exists()
        waiting.result()
    assert held == [True]


def waiters() -> str:
    """The lines of those who wait, in /proc/locks."""
    return "\n".join(line for line in Path("/proc/locks").read_text().splitlines() if " -> " in line)


def test_the_folder_of_clusters_stays_while_another_one_is_in_it(tmp_path: Path):
    state.save_spec(tmp_path, Spec(name="b", slot=0))
    with state.locked(state.cluster_lock(tmp_path, "a")):
        state.remove_lock(tmp_path, "a")
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
