"""A GPU that is there, given by a real Slurm: only on a machine with NVIDIA's driver and cgroup v2."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from devcluster.waiting import wait_until
from sunkpy.cli.canary import Patience, run_job
from sunkpy.core.model.devices import read_extra
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.overview.installation import Seen
from sunkpy.slurm import Slurm
from tests.integration.slurm.asking import administrator, happens
from tests.integration.slurm.daemons import NODE, Machines, RealSlurm

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not Path("/proc/driver/nvidia/gpus").exists(), reason="no card"),
    pytest.mark.skipif(not Path("/sys/fs/cgroup/cgroup.controllers").exists(), reason="no cgroup v2"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the daemons change their user"),
]

# Of a line that is there twice Slurm takes the later one.
CONF = """\
MaxNodeCount=16
PrologFlags=Alloc
SlurmctldParameters=enable_configless
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
"""
CGROUP = "CgroupPlugin=autodetect\nIgnoreSystemd=yes\nConstrainDevices=yes\n"
OWN_CGROUP = Path(f"/sys/fs/cgroup/sunkpy-card-{os.getpid()}")
START = f"""\
mkdir -p {OWN_CGROUP}/pod && echo 1 > {OWN_CGROUP}/pod/cgroup.procs # as in a pod, where all processes are of its own
install -D -m 0600 /etc/slurm/slurm.key /keys/slurm.key
port() {{ sed -n "s/^$1=//p" /etc/slurm/slurm.conf; }}
export SUNKPY_SLURM_NODE={NODE} SUNKPY_CPUS=2 SUNKPY_MEMORY_MIB=1000 SUNKPY_GRES=gpu:card:{{count}}
export SUNKPY_CONF_SERVER=localhost:$(port SlurmctldPort) SUNKPY_SLURMD_PORT=$(port SlurmdPort)
keep start-slurmd >> /var/log/slurmd.log 2>&1 &
"""


def cards() -> list[list[str]]:
    """The uuid and PCI address of each, as NVML says them."""
    query = ["nvidia-smi", "--query-gpu=uuid,pci.bus_id", "--format=csv,noheader"]
    said = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    return [line.split(", ") for line in said.splitlines()]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    files = {"cgroup.conf": CGROUP, "gres.conf": "Include /etc/sunkpy/gres.conf\n"}
    machines = Machines(conf=CONF, start=START.replace("{count}", str(len(cards()))), files=files)
    slurm = RealSlurm(tmp_path_factory.mktemp("card"), os.environ.get("SLURM_SUITE", "trixie"), machines=machines)
    yield slurm
    slurm.stop()
    assert wait_until(lambda: not (OWN_CGROUP / "pod/cgroup.procs").read_text(), timeout_s=10)
    for folder in sorted((each for each in OWN_CGROUP.rglob("*") if each.is_dir()), reverse=True):
        folder.rmdir()
    OWN_CGROUP.rmdir()


@pytest.fixture
async def admin(slurm: RealSlurm) -> AsyncIterator[Slurm]:
    async with administrator(slurm) as client:
        yield client


async def test_the_slurm_node_names_each_card_as_nvml_does(admin: Slurm) -> None:
    devices = read_extra((await admin.node(NODE)).extra)["gpu"]
    named = [[each.uuid, each.pci_address] for each in devices]
    assert sorted(named) == sorted([uuid, bus.lower().removeprefix("0000")] for uuid, bus in cards())


async def test_a_canary_job_may_open_its_card_and_no_other(slurm: RealSlurm, admin: Slurm) -> None:
    canary = await run_job(admin, Patience(limit_s=40), has_gpus=True)
    assert canary.job is not None, f"{canary}\n{slurm.logs()}"
    assert canary.job.exit_code == Seen.ITS_OWN, slurm.logs()


async def test_a_job_that_asks_for_no_card_may_open_none(slurm: RealSlurm, admin: Slurm) -> None:
    script = "#!/bin/bash\nfor each in /dev/nvidia[0-9]*; do { : < $each; } 2>> /var/tmp/refused; done\n"
    job = (await admin.submit_job(JobSpec(name="x", comment="", script=script, memory_mib_per_node=10))).job_id

    async def has_ended() -> bool:
        return (await admin.job(job)).is_ended

    await happens(slurm, has_ended)
    refused = (slurm.root / "var/tmp/refused").read_text().splitlines()
    assert [line.rpartition(": ")[2] for line in refused] == ["Operation not permitted"] * len(cards())
