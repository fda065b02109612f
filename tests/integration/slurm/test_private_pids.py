"""`slurmConfig.privatePids`: each job has process ids of its own, and a /dev/shm of the size in values."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.integration.slurm.daemons import ONE_SLURMD, RealSlurm
from tests.roots import SUITE, unpack
from tests.unit.charts.rendering import of_kind, render

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(SUITE == "trixie", reason="Slurm 24.11 has no NamespaceType"),
]

PERSON = 2001
CONF = "NamespaceType=namespace/linux\nPrologFlags=Alloc,Contain\n"
SIZE_SHM = '#!/bin/sh\nnsenter --mount="$SLURM_NS" mount -o remount,size=64m /dev/shm\n'
"""In place of the script that start-slurmd writes, which Slurm calls with the job's mount namespace."""


def test_a_job_sees_only_its_own_processes_and_its_shared_memory_has_the_size_in_values(tmp_path: Path):
    config = of_kind(render("slurm", {"slurmConfig": {"privatePids": True}}), "ConfigMap")["demo-slurm-config"]["data"]
    files = {**ONE_SLURMD.files, "namespace.yaml": config["namespace.yaml"]}
    root = tmp_path / "root"
    unpack(SUITE, ("slurmctld", "slurmrestd", "slurmd"), root)
    for folder in ("etc/sunkpy", "var/spool/slurmd/private"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "etc/sunkpy/size-shm").write_text(SIZE_SHM)
    (root / "etc/sunkpy/size-shm").chmod(0o755)
    machines = msgspec.structs.replace(ONE_SLURMD, conf=ONE_SLURMD.conf + CONF, files=files)
    slurm = RealSlurm(tmp_path, SUITE, people={"ann": PERSON}, machines=machines)
    try:
        shown = "df --output=size --block-size=1M /dev/shm | tail -n 1; ps -e -o comm= | sort -u | xargs"
        said = slurm.as_user(PERSON, "timeout", "60", "srun", "--mem=50", "bash", "-c", shown).splitlines()
        assert said[0].strip() == "64", said
        assert not {"slurmd", "slurmctld"} & set(said[1].split()), said
    finally:
        slurm.stop()
