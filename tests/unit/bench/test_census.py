import os
import shutil
import subprocess
from pathlib import Path

from devcluster.waiting import wait
from tests.bench import census


def test_the_daemons_of_slurm_are_found_below_the_process_that_started_them(tmp_path: Path):
    """Whatever root they have: that of another mount namespace reads as `/`."""
    for name in ("slurmctld", "other"):
        shutil.copy(shutil.which("sleep") or "", tmp_path / name)
    with subprocess.Popen(["bash", "-c", f"{tmp_path}/slurmctld 60 & {tmp_path}/other 60 & wait"]) as parent:
        try:
            wait(lambda: "slurmctld" in census.slurm_daemons_of(parent.pid), timeout_s=20, what="slurmctld runs")
            found = census.slurm_daemons_of(parent.pid)
            assert [*found] == ["slurmctld"]
            assert Path(f"/proc/{found['slurmctld']}/exe").readlink() == tmp_path / "slurmctld"
            assert census.slurm_daemons_of(found["slurmctld"]) == {}
        finally:
            subprocess.run(["pkill", "-KILL", "-P", str(parent.pid)], check=False)


def test_the_memory_of_a_process_is_less_than_the_most_that_it_had():
    assert 1 < census.status_mib("self", "VmRSS") <= census.status_mib(os.getpid(), "VmHWM")
