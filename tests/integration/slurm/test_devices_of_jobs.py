"""What a job may open where Slurm holds it to the devices of its GRES: also adapters of InfiniBand, which are none.

The devices are others of this kernel under the names of those: a character device that is not of the few that cgroups
always allow. Each controller has a group of its own here, as in a pod.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest

from sunkpy.core.model.job_spec import JobSpec
from sunkpy.slurm import Slurm
from tests.integration.slurm.asking import administrator, happens
from tests.integration.slurm.daemons import NODE, Machines, RealSlurm

CGROUPS: Final = Path("/sys/fs/cgroup")
CONTROLLERS: Final = ("cpuacct", "cpuset", "devices", "freezer", "memory", "systemd")
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the daemons change their user"),
    pytest.mark.skipif(not (CGROUPS / "devices/devices.list").exists(), reason="no cgroup v1; v2: BENCH=machines"),
    pytest.mark.skipif(
        not all(Path("/dev", each).exists() for each in ("fuse", "net/tun")),
        reason="no devices that are not always allowed",
    ),
]

OWN: Final = f"sunkpy-devices-{os.getpid()}"
GPU, ADAPTER = "/var/tmp/nvidia0", "/var/tmp/infiniband/uverbs0"
CONF: Final = """\
MaxNodeCount=16
PrologFlags=Alloc
GresTypes=gpu
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
"""
FILES: Final = {
    "cgroup.conf": "CgroupPlugin=cgroup/v1\nConstrainDevices=yes\n",
    "gres.conf": f"Name=gpu File={GPU}\n",
}
START: Final = f"""\
for each in {" ".join(CONTROLLERS)}; do
  mkdir /sys/fs/cgroup/$each/{OWN} && mount --bind /sys/fs/cgroup/$each/{OWN} /sys/fs/cgroup/$each
done
mkdir -p {ADAPTER.rpartition("/")[0]} && mknod -m 666 {GPU} c 10 229 && mknod -m 666 {ADAPTER} c 10 200
keep /usr/sbin/slurmd -D -Z -N {NODE} --conf 'CPUs=2 RealMemory=1000 Gres=gpu:1' >> /var/log/slurmd.log 2>&1 &
"""
SCRIPT: Final = f"""\
#!/bin/bash
for each in {GPU} {ADAPTER}; do
  {{ : <> $each; }} 2> /var/tmp/said && echo open || sed 's/.*: //' /var/tmp/said
done > /var/tmp/opened
"""


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[RealSlurm]:
    machines = Machines(conf=CONF, start=START, files=FILES)
    slurm = RealSlurm(tmp_path, os.environ.get("SLURM_SUITE", "trixie"), machines=machines)
    yield slurm
    slurm.stop()
    for controller in CONTROLLERS:
        own = CGROUPS / controller / OWN
        for folder in sorted((each for each in own.rglob("*") if each.is_dir()), reverse=True):
            folder.rmdir()
        own.rmdir()


@pytest.fixture
async def admin(slurm: RealSlurm) -> AsyncIterator[Slurm]:
    async with administrator(slurm) as client:
        yield client


@pytest.mark.parametrize(
    ("gres", "opened"), [("", ["Operation not permitted", "open"]), ("gres/gpu:1", ["open", "open"])]
)
async def test_a_job_may_open_adapters_and_no_gpu_that_is_not_its_own(
    slurm: RealSlurm, admin: Slurm, gres: str, opened: list[str]
) -> None:
    spec = JobSpec(name="x", comment="", script=SCRIPT, memory_mib_per_node=10, gres_per_node=gres)
    job = (await admin.submit_job(spec)).job_id

    async def has_ended() -> bool:
        return (await admin.job(job)).is_ended

    await happens(slurm, has_ended)
    assert (slurm.root / "var/tmp/opened").read_text().splitlines() == opened, slurm.logs()
