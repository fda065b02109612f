"""share-gpus writes for each partition what a GPU has of the node with the least for each."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from devcluster.waiting import wait_until

SCRIPT = Path(__file__).resolve().parents[3] / "slurm-images" / "bin" / "share-gpus"


def node(partitions: str, cpus: int, memory_mib: int, gres: str, *, shape: str = "", usable: int = 0) -> str:
    """A line of scontrol; `shape`: sockets and cores of each, `usable`: cpus for jobs, if these are not all."""
    sockets, _, cores = (shape or f"1:{cpus}").partition(":")
    return (
        f"NodeName=n1 Arch=x86_64 CoresPerSocket={cores}  CPUAlloc=0 CPUEfctv={usable or cpus} CPUTot={cpus} "
        f"AvailableFeatures=gpu ActiveFeatures=gpu Gres={gres} NodeAddr=n1 OS=Linux 6.1 RealMemory={memory_mib} "
        f"AllocMem=0 Sockets={sockets} Boards=1 State=IDLE ThreadsPerCore={'2' if shape else '1'} "
        f"Partitions={partitions} Reason=see Gres=gpu:99 Partitions=cpu\n"
    )


NODES = "".join((
    node("cpu", 32, 128000, "(null)"),
    node("gpu", 96, 1000000, "gpu:h100:8(S:0-1)"),
    node("gpu", 64, 900001, "gpu:a100:4(S:0,1)"),
    node("gpu", 32, 128000, "(null)"),
    node("mixed", 16, 64000, "gpu:a100:1,shard:8,gpu:1g.5gb:7(S:0)"),
    node("plain,own", 8, 8000, "gpu:2"),
    node("few", 2, 8000, "gpu:4"),
))  # fmt: skip


def shares(folder: Path, *, conf: str = "", said: str = NODES) -> str:
    """The file, once it is there."""
    (folder / "slurm.conf").write_text(conf)
    (folder / "answer").write_text(said)
    (folder / "scontrol").write_text("#!/bin/bash\n[ \"$*\" = '--all --future --oneliner show nodes' ] && cat answer\n")
    (folder / "scontrol").chmod(0o755)
    env = {"PATH": f"{folder}:{os.environ['PATH']}", "SUNKPY_SLURM_CONF": str(folder / "slurm.conf")}
    with subprocess.Popen([SCRIPT, "shares", "0.1"], env=env, cwd=folder) as process:
        try:
            assert wait_until((folder / "shares").exists, timeout_s=20, every_s=0.05)
            return (folder / "shares").read_text()
        finally:
            process.kill()


def test_a_gpu_has_its_share_of_the_node_with_the_least_for_each(tmp_path: Path):
    conf = "DefMemPerCPU=1024\nPartitionName=gpu Nodes=ALL\nPartitionName=own Nodes=ALL defmempergpu=5\n"
    assert shares(tmp_path, conf=conf) == "few 0 2000\ngpu 12 125000\nmixed 2 8000\nplain 4 4000\n"


@pytest.mark.parametrize(
    ("cpus", "shape", "usable", "share"),
    [
        pytest.param(144, "2:36", 0, 18, id="whole cores"),
        pytest.param(144, "2:36", 140, 16, id="17 threads would be 9 cores, and the last GPU had none"),
        pytest.param(72, "2:36", 70, 8, id="a core is one cpu"),
    ],
)
def test_it_is_whole_cores_of_those_that_jobs_may_have(tmp_path: Path, cpus: int, shape: str, usable: int, share: int):
    said = node("gpu", cpus, 800000, "gpu:h100:8(S:0-1)", shape=shape, usable=usable)
    assert shares(tmp_path, said=said) == f"gpu {share} 100000\n"


def test_where_slurm_conf_says_it_for_all_nothing_is_shared(tmp_path: Path):
    assert shares(tmp_path, conf="DefMemPerGPU=0\n") == ""


def test_a_slurmctld_that_does_not_answer_changes_nothing(tmp_path: Path):
    assert shares(tmp_path) == "few 0 2000\ngpu 12 125000\nmixed 2 8000\nown 4 4000\nplain 4 4000\n"
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SUNKPY_SLURM_CONF": str(tmp_path / "slurm.conf")}
    (tmp_path / "scontrol").write_text("#!/bin/bash\n: > asked\nexit 1\n")
    with subprocess.Popen([SCRIPT, "shares", "0.1"], env=env, cwd=tmp_path) as process:
        assert wait_until((tmp_path / "asked").exists, timeout_s=20, every_s=0.05)
        (tmp_path / "asked").unlink()
        assert wait_until((tmp_path / "asked").exists, timeout_s=20, every_s=0.05)
        process.kill()
    assert (tmp_path / "shares").read_text().startswith("few 0 2000\n")
