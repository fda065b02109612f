"""report-unkillable: which processes wait where in the kernel, in the reason of the drain."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from devcluster.waiting import wait_until

SCRIPT = Path(__file__).resolve().parents[3] / "slurm-images" / "bin" / "report-unkillable"
SCONTROL = """\
#!/bin/bash
last=${!#}
case $* in
  *show*) echo "NodeName=n State=$(< state) Reason=$(< reason) [root@2026-01-01T00:00:00]" && exit ;;
  *state=drain*) echo IDLE+DRAIN > state ;;
esac
echo "${last#reason=}" > reason
"""
NFS = """\
[<0>] rpc_wait_bit_killable+0x11/0x70 [sunrpc]
[<0>] __wait_on_bit+0x2a/0x90
[<0>] out_of_line_wait_on_bit+0x91/0xb0
[<0>] nfs4_call_sync_sequence+0x75/0xb0 [nfsv4]
[<0>] _nfs4_proc_getattr+0x11b/0x180 [nfsv4]
"""
TOLD = "rpc_wait_bit_killable<__wait_on_bit<out_of_line_wait_on_bit<nfs4_call_sync_sequence"


class Node:
    """A node of Slurm, and the processes of its pod."""

    def __init__(self, folder: Path, *, state: str = "IDLE+COMPLETING", reason: str = "") -> None:
        self._folder = folder
        for name, text in (("state", state), ("reason", reason), ("hooks.env", "SUNKPY_SLURM_NODE=n\n")):
            (folder / name).write_text(text)
        (folder / "scontrol").write_text(SCONTROL)
        (folder / "scontrol").chmod(0o755)
        (folder / "slurmd.pid").write_text("1\n")
        self.add(1, "slurmd", "S", "")
        (folder / "proc/1/fd").mkdir()

    def add(self, pid: int, name: str, state: str, stack: str, wchan: str = "0", *, of: int = 0) -> None:
        """A process, or a thread of one."""
        own = self._folder / "proc" / str(of or pid) / "task" / str(pid)
        own.mkdir(parents=True)
        (own / "stat").write_text(f"{pid} ({name}) {state} 1 1 1 0 -1 0\n")
        (own / "stack").write_text(stack)
        (own / "wchan").write_text(wchan)

    def run(self, step: str = "0") -> subprocess.Popen[bytes]:
        """slurmd calls it."""
        env = {
            **os.environ, "SUNKPY_PROC": str(self._folder / "proc"), "SUNKPY_HOOKS_ENV": "hooks.env",
            "SUNKPY_SLURMD_PID_FILE": "slurmd.pid", "SUNKPY_SEEN_S": "0", "SUNKPY_PAUSE_S": "0.05",
            "SLURM_JOB_ID": "12", "SLURM_STEP_ID": step, "SUNKPY_PATH": f"{self._folder}:{os.environ['PATH']}",
        }  # fmt: skip
        return subprocess.Popen([SCRIPT], env=env, cwd=self._folder)

    def reports(self, step: str = "0") -> str:
        """The reason that the node has once it is through."""
        assert self.run(step).wait(timeout=30) == 0
        return self.reason

    @property
    def reason(self) -> str:
        """Why it is drained."""
        return (self._folder / "reason").read_text().strip()

    @reason.setter
    def reason(self, text: str) -> None:
        (self._folder / "new").write_text(text)
        (self._folder / "new").rename(self._folder / "reason")

    @property
    def log(self) -> str:
        """The log of the pod."""
        return (self._folder / "proc/1/fd/2").read_text()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_the_reason_says_which_processes_wait_where(node: Node):
    node.add(345, "cp", "D", NFS)
    node.add(346, "a) D (b", "R", "")
    node.add(347, "tar $(x)=1", "D", "", wchan="io_schedule")
    assert node.reports() == (
        f"Kill task failed: job 12 step 0; cp (pid 345) in {TOLD}; tar _(x)_1 (pid 347) in io_schedule"
    )
    assert "cp (pid 345)\n" + NFS.strip() in node.log


def test_a_thread_that_has_outlived_the_first_of_its_process_is_named(node: Node):
    node.add(345, "python", "Z", "")
    node.add(351, "loader", "D", NFS, of=345)
    assert node.reports() == f"Kill task failed: job 12 step 0; loader (pid 351) in {TOLD}"


def test_a_reason_fits_into_an_event(node: Node):
    for pid in range(300, 330):
        node.add(pid, "python", "D", NFS)
    assert node.reports("4294967291").startswith("Kill task failed: job 12 step batch; python (pid 300) in ")
    assert node.reason.endswith("; and 25 more")
    assert len(node.reason) < 900


def test_slurm_writes_over_the_reason_and_it_is_set_again(node: Node):
    node.add(345, "cp", "D", NFS)
    reason = node.reports()
    node.reason = "Kill task failed"
    assert wait_until(lambda: node.reason == reason, timeout_s=20, every_s=0.05)


def test_a_drain_of_a_person_stays_and_one_of_ours_does_not(tmp_path: Path):
    for name, kept in (("bad disk", True), ("k8s: cordon", False)):
        folder = tmp_path / name[:3]
        folder.mkdir()
        node = Node(folder, state="IDLE+DRAIN", reason=name)
        node.add(345, "cp", "D", NFS)
        assert (node.reports() == name) is kept


def test_where_nothing_waits_any_more_it_says_so(node: Node):
    assert node.reports() == "Kill task failed: job 12 step 0; no process waits in the kernel now"
