"""Whose process it is, and when two were really there together."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from devcluster.waiting import wait
from tests.bench.chaos import observer
from tests.bench.chaos.record import Owner, Running


def running(name: str, *pids: int) -> Running:
    return Running(node="node-1", owner=Owner("pod", name), pod_uid="u", pids=pids)


@pytest.mark.parametrize(
    ("environ", "owner"),
    [
        (b"PATH=/bin\0CHAOS_POD=chaos-1-7\0", Owner("pod", "chaos-1-7")),
        (b"SLURM_JOB_ID=9\0CHAOS_JOB=chaos-1-8\0", Owner("job", "chaos-1-8")),
        (b"SLURM_RESTART_COUNT=2\0CHAOS_JOB=chaos-1-8\0", Owner("job", "chaos-1-8", 2)),
        (b"SLURM_JOB_ID=9\0SLURM_JOB_COMMENT=k8s:a/b:c\0", None),
        (b"SLURM_EXPORT_ENV=ALL,CHAOS_JOB=x\0", None),
        (b"", None),
    ],
)
def test_only_processes_of_the_load_have_an_owner(environ, owner):
    assert observer.owner_of(environ) == owner


def test_of_two_owners_only_what_both_scans_saw_counts():
    first = [running("ends", 10), running("starts", 20, 21)]
    second = [running("starts", 21, 22)]
    assert observer.seen_twice(first, second) == [running("starts", 21)]


def test_two_owners_that_both_scans_saw_both_count():
    both = [running("one", 10), running("other", 20)]
    assert observer.seen_twice(both, both) == both


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A node's cgroup with one container of a pod and one process, which is of the load."""
    folder = tmp_path / "kubepods/burstable/pod9b3f39ad-bec8-477c-96d9-f960ae735c5e/container"
    folder.mkdir(parents=True)
    environ = os.environ | {"CHAOS_POD": "chaos-1-1"}
    with subprocess.Popen(["sleep", "60"], env=environ) as process:
        environ_of = Path(f"/proc/{process.pid}/environ")
        wait(lambda: b"CHAOS_POD" in environ_of.read_bytes(), timeout_s=20, what="the process to be itself")
        (folder / "cgroup.procs").write_text(f"{process.pid}\n{2**22 + 1}\n")
        yield tmp_path
        process.kill()


def test_a_scan_tells_node_pod_owner_and_pids(node):
    (found,) = observer.scan({"node-1": node}, now=lambda: 5.0).running
    assert (found.node, found.owner) == ("node-1", Owner("pod", "chaos-1-1"))
    assert found.pod_uid == "9b3f39ad-bec8-477c-96d9-f960ae735c5e"
    assert len(found.pids) == 1
