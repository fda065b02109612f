"""What slurmd says of its cpus, from what it finds itself."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[3] / "slurm-images" / "bin" / "count-cores"


def count(folder: Path, shape: str, cpus: int, smt: str, conf: str = "") -> subprocess.CompletedProcess[str]:
    """Run count-cores on a machine of this shape, such as `2:18:2`: sockets, cores of each, threads of each core."""
    sockets, cores, threads = (int(each) for each in shape.split(":"))
    slurmd, slurm_conf = folder / "slurmd", folder / "slurm.conf"
    slurmd.write_text(
        '#!/bin/bash\n[ "$1" = -C ] || exit 1\n'
        f'echo "NodeName=a CPUs={sockets * cores * threads} Boards=1 SocketsPerBoard={sockets} CoresPerSocket={cores}'
        f' ThreadsPerCore={threads} RealMemory=1000"\necho UpTime=0-00:00:01\n'
    )
    slurmd.chmod(0o755)
    slurm_conf.write_text(conf)
    env = {"PATH": os.environ["PATH"], "SUNKPY_SLURMD": str(slurmd), "SUNKPY_SYS": str(folder / "system")}
    argv = [str(PROGRAM), str(cpus), smt, str(slurm_conf)]
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=30)


def share(folder: Path, caches: Sequence[str], nodes: Sequence[str]) -> None:
    """What the kernel lists: for each cpu which ones have its cache of level 3, for each NUMA node its cpus."""
    files = {f"cpu/cpu{cpu}/cache/index3/shared_cpu_list": cpus for cpu, cpus in enumerate(caches)}
    files |= {f"node/node{node}/cpulist": cpus for node, cpus in enumerate(nodes)}
    for name, cpus in files.items():
        file = folder / "system" / name
        file.parent.mkdir(parents=True)
        file.write_text(f"{cpus}\n")


def words(cpus: int, shape: str, spec: int = 0) -> str:
    sockets, cores, threads = shape.split(":")
    kept = f" CoreSpecCount={spec}" if spec else ""
    return f"CPUs={cpus} Boards=1 SocketsPerBoard={sockets} CoresPerSocket={cores} ThreadsPerCore={threads}{kept}"


@pytest.mark.parametrize(
    ("machine", "cpus", "smt", "said"),
    [
        pytest.param("2:18:2", 72, "", words(72, "2:18:2"), id="two sockets of cores with two threads"),
        pytest.param("2:18:2", 71, "whole-cores", words(72, "2:18:2", 1), id="half a core is not given away"),
        pytest.param("2:18:2", 70, "whole-cores", words(72, "2:18:2", 1), id="a whole core is kept"),
        pytest.param("2:18:2", 69, "whole-cores", words(72, "2:18:2", 2), id="one and a half are two"),
        pytest.param("2:18:2", 1, "whole-cores", words(72, "2:18:2", 35), id="one core there is"),
        pytest.param("2:18:2", 72, "one-cpu", words(36, "2:18:2"), id="SMT counts for nothing"),
        pytest.param("2:18:2", 70, "one-cpu", words(36, "2:18:2", 1), id="nor where a core is kept"),
        pytest.param("2:18:2", 70, "apart", words(70, "1:70:1"), id="each thread is a core"),
        pytest.param("1:4:2", 8, "whole-cores", words(8, "1:4:2"), id="one socket with two threads"),
        pytest.param("2:4:1", 8, "whole-cores", words(8, "2:4:1"), id="two sockets without threads"),
        pytest.param("2:4:1", 7, "one-cpu", words(8, "2:4:1", 1), id="of these one is kept"),
        pytest.param("1:8:1", 7, "whole-cores", words(7, "1:7:1"), id="nothing to tell"),
        pytest.param("2:4:2", 17, "whole-cores", words(17, "1:17:1"), id="a Node that says more than its machine has"),
        pytest.param("0:0:0", 4, "whole-cores", words(4, "1:4:1"), id="nothing is known"),
    ],
)
def test_sockets_and_cores_are_the_machines(tmp_path: Path, machine: str, cpus: int, smt: str, said: str) -> None:
    done = count(tmp_path, machine, cpus, smt)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, said, "")


@pytest.mark.parametrize(
    ("conf", "shape"),
    [
        ("SlurmdParameters=config_overrides,l3cache_as_socket\n", "4:2:2"),
        ("slurmdparameters=l3cache_as_socket,config_overrides\n", "4:2:2"),
        ("SlurmdParameters=NUMA_node_as_socket\n", "8:1:2"),
        ("SlurmdParameters=config_overrides\n#SlurmdParameters=l3cache_as_socket\n", "2:4:2"),
    ],
)
def test_caches_or_numa_nodes_are_sockets_where_slurm_conf_says_so(tmp_path: Path, conf: str, shape: str) -> None:
    """Four caches and eight NUMA nodes, beside which are two of a card that have memory only."""
    caches = [f"{core // 2 * 2}-{core // 2 * 2 + 1},{core // 2 * 2 + 8}-{core // 2 * 2 + 9}" for core in range(8)]
    share(tmp_path, caches * 2, [*(f"{core},{core + 8}" for core in range(8)), "", ""])
    done = count(tmp_path, "2:4:2", 16, "", conf)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, words(16, shape), "")


@pytest.mark.parametrize("caches", [[], ["0-2"] * 3 + ["3-5"] * 3 + ["6-7"] * 2])
def test_caches_that_cannot_be_sockets_are_told(tmp_path: Path, caches: list[str]) -> None:
    share(tmp_path, caches, ["0-7"])
    done = count(tmp_path, "2:4:1", 8, "", "SlurmdParameters=l3cache_as_socket\n")
    counted = len(set(caches))
    said = f"count-cores: l3cache_as_socket changes nothing here: 8 cores cannot be shared among {counted} sockets"
    assert (done.returncode, done.stdout.strip(), done.stderr.strip()) == (0, words(8, "2:4:1"), said)


def test_a_slurmd_that_finds_nothing_leaves_one_socket(tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "SUNKPY_SLURMD": "/bin/false"}
    done = subprocess.run([str(PROGRAM), "4"], env=env, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, words(4, "1:4:1"), "")
