"""`slurmConfig.privatePids`: each job has process ids of its own, and a /dev/shm of the size in values. It is off by
default, because of what a job loses that runs while it is turned on.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from devcluster.waiting import wait
from tests.integration.slurm.daemons import ONE_SLURMD, Machines, RealSlurm
from tests.roots import RELEASE, SUITE, unpack
from tests.unit.charts.rendering import of_kind, render

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(RELEASE in ("24.11", "25.05"), reason="has no NamespaceType"),
]

PERSON = 2001
CONF = "NamespaceType=namespace/linux\nPrologFlags=Alloc,Contain\n"
WITHOUT = "JobContainerType=job_container/tmpfs\nPrologFlags=Alloc,Contain\n"
BASE = "BasePath=/var/spool/slurmd/private AutoBasePath=true\n"
SIZE_SHM = '#!/bin/sh\nnsenter --mount="$SLURM_NS" mount -o remount,size=64m /dev/shm\n'
"""In place of the script that start-slurmd writes, which Slurm calls with the job's mount namespace."""


def start(tmp_path: Path, conf: str, files: Mapping[str, str]) -> RealSlurm:
    """One slurmd, with these lines in slurm.conf and these files beside it."""
    root = tmp_path / "root"
    unpack(SUITE, ("slurmctld", "slurmrestd", "slurmd"), root)
    for folder in ("etc/sunkpy", "var/spool/slurmd/private"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    (root / "etc/sunkpy/size-shm").write_text(SIZE_SHM)
    (root / "etc/sunkpy/size-shm").chmod(0o755)
    keep = "keep /usr/local/bin/hold-namespaces /usr/sbin/slurmd"  # as in a pod: without it jobs fail on Linux 6.18
    machines = Machines(
        conf=ONE_SLURMD.conf + conf,
        start=ONE_SLURMD.start.replace("keep /usr/sbin/slurmd", keep),
        files={**ONE_SLURMD.files, **files},
    )
    return RealSlurm(tmp_path, SUITE, people={"ann": PERSON}, machines=machines)


def namespaces() -> str:
    """namespace.yaml of the chart."""
    config = of_kind(render("slurm", {"slurmConfig": {"privatePids": True}}), "ConfigMap")["demo-slurm-config"]["data"]
    return str(config["namespace.yaml"])


def test_a_job_sees_only_its_own_processes_and_its_shared_memory_has_the_size_in_values(tmp_path: Path):
    slurm = start(tmp_path, CONF, {"namespace.yaml": namespaces()})
    try:
        shown = "df --output=size --block-size=1M /dev/shm | tail -n 1; ps -e -o comm= | sort -u | xargs"
        said = slurm.as_user(PERSON, "timeout", "60", "srun", "--mem=50", "bash", "-c", shown).splitlines()
        assert said[0].strip() == "64", said
        assert not {"slurmd", "slurmctld"} & set(said[1].split()), said
    finally:
        slurm.stop()


def test_a_job_that_runs_while_it_is_turned_on_starts_no_more_steps(tmp_path: Path):
    """So an upgrade must not turn it on by itself. A job that begins later runs."""
    files = {"namespace.yaml": namespaces(), "job_container.conf": BASE}
    slurm = start(tmp_path, WITHOUT, files)
    try:
        batch = ("sbatch", "--parsable", "--mem=50", "--ntasks=1", "--chdir=/tmp", "--output=/dev/null")
        job = slurm.as_user(PERSON, *batch, "--wrap=sleep 1000")
        step = ("bash", "-c", f"timeout 60 srun --overlap --jobid={job} echo a step || echo refused")
        wait(lambda: slurm.as_user(PERSON, *step) == "a step", timeout_s=60, what="the job runs")
        conf = (slurm.root / "etc/slurm/slurm.conf").read_text()
        slurm.configure(conf.replace(WITHOUT, CONF))
        assert slurm.run_as("slurm", "scontrol", "reconfigure")[0] == 0
        log = slurm.root / "var/log/slurmd.log"

        def is_refused() -> bool:
            return slurm.as_user(PERSON, *step) == "refused" and "namespace_p_join: open failed" in log.read_text()

        wait(is_refused, timeout_s=60, what="the new plugin refuses a step of the job")
        assert slurm.as_user(PERSON, "timeout", "60", "srun", "--mem=50", "echo", "a job") == "a job", slurm.logs()
    finally:
        slurm.stop()
