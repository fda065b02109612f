"""Which of Slurm's cores are near a GPU, from what the kernel says of it and of the cpus."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

PROGRAM = Path(__file__).parents[3] / "slurm-images" / "bin" / "near-cores"
GPU = "0000:3b:00.0"
L3 = "SlurmdParameters=config_overrides,l3cache_as_socket\n"
NUMA = "slurmdparameters=numa_node_as_socket\n"


class Machine(NamedTuple):
    """Lists of cpus, as the kernel writes them."""

    packages: Sequence[str]
    nodes: Sequence[str] = ()
    caches: Sequence[str] = ()


TWO = Machine(("0-3,8-11", "4-7,12-15"), ("0-3,8-11", "4-7,12-15"))
"""Two sockets of four cores of two threads; the second threads come last, as with Intel."""
ODD = Machine(("0,2,4,6", "1,3,5,7"), ("0,4", "2,6", "1,5", "3,7"), ("0,2", "4,6", "1,3", "5,7"))
"""Two sockets whose cpus take turns; of each two NUMA nodes and two caches."""


def cpus_of(ranges: str) -> list[int]:
    parts = (part.partition("-") for part in ranges.split(","))
    return [cpu for first, _, last in parts for cpu in range(int(first), int(last or first) + 1)]


def sysfs(folder: Path, machine: Machine, local: str) -> None:
    system = folder / "devices/system"
    for package in machine.packages:
        for cpu in cpus_of(package):
            (system / f"cpu/cpu{cpu}/topology").mkdir(parents=True)
            (system / f"cpu/cpu{cpu}/topology/core_siblings_list").write_text(f"{package}\n")
    for at, node in enumerate(machine.nodes):
        (system / f"node/node{at}").mkdir(parents=True)
        (system / f"node/node{at}/cpulist").write_text(f"{node}\n")
        for cpu in cpus_of(node):
            (system / f"cpu/cpu{cpu}/node{at}").symlink_to(system / f"node/node{at}")
    for cache in machine.caches:
        for cpu in cpus_of(cache):
            (system / f"cpu/cpu{cpu}/cache/index3").mkdir(parents=True)
            (system / f"cpu/cpu{cpu}/cache/index3/shared_cpu_list").write_text(f"{cache}\n")
    (system / "cpu/cpu99/topology").mkdir(parents=True)  # it is offline
    device = folder / "bus/pci/devices" / GPU
    device.mkdir(parents=True)
    (device / "local_cpulist").write_text(f"{local}\n")


def near(folder: Path, machine: Machine, local: str, shape: str, conf: str = "", gpu: str = GPU) -> str:
    sysfs(folder, machine, local)
    (folder / "slurm.conf").write_text(conf)
    sockets, cores, threads = shape.split(":")
    words = f"CPUs=1 Boards=1 SocketsPerBoard={sockets} CoresPerSocket={cores} ThreadsPerCore={threads}"
    env = {"PATH": os.environ["PATH"], "SUNKPY_SYS": str(folder / "devices/system")}
    argv = [PROGRAM, gpu, words, folder / "slurm.conf"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("machine", "local", "shape", "conf", "cores"),
    [
        pytest.param(TWO, "0-3,8-11", "2:4:2", "", "0-3", id="the first socket"),
        pytest.param(TWO, "4-7,12-15", "2:4:2", "", "4-7", id="the second"),
        pytest.param(TWO, "4-5", "2:4:2", "", "4-7", id="a part of a socket is the socket"),
        pytest.param(TWO, "0-15", "2:4:2", "", "", id="all are near"),
        pytest.param(ODD, "1,3,5,7", "2:4:1", "", "4-7", id="sockets whose cpus take turns"),
        pytest.param(ODD, "2,6", "4:2:1", NUMA, "2-3", id="a NUMA node as socket"),
        pytest.param(ODD, "1,5", "4:2:1", NUMA, "4-5", id="one of the second package"),
        pytest.param(ODD, "0,2,5,7", "4:2:1", L3, "0-1,6-7", id="two caches as sockets"),
        pytest.param(ODD, "1,5", "2:4:1", L3, "4-7", id="caches that slurmd could not count as sockets"),
    ],
)
def test_cores_have_the_numbers_of_slurm(
    tmp_path: Path, machine: Machine, local: str, shape: str, conf: str, cores: str
) -> None:
    assert near(tmp_path, machine, local, shape, conf) == cores


@pytest.mark.parametrize(
    ("shape", "gpu"),
    [
        pytest.param("1:16:1", GPU, id="each cpu is a core of one socket"),
        pytest.param("4:2:2", GPU, id="slurmd sees other sockets"),
        pytest.param("2:3:2", GPU, id="slurmd sees other cores"),
        pytest.param("2:4:2", "-", id="a device without an address"),
        pytest.param("2:4:2", "0000:5e:00.0", id="one that the kernel does not know"),
    ],
)
def test_what_is_not_known_is_not_said(tmp_path: Path, shape: str, gpu: str) -> None:
    assert near(tmp_path, TWO, "0-3,8-11", shape, gpu=gpu) == ""
