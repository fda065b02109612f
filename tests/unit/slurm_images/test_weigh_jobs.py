"""weigh-jobs gives the slurmd pod the weight of all cpus that Slurm has of its node."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
POD = "kubepods/burstable/pod21d50e8c-959b"
SYSTEMD = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod21d5.slice"
HELD, COUNTED = "ProctrackType=proctrack/cgroup\n", "ProctrackType=proctrack/linuxproc\n"


def weigh(tmp_path: Path, own: str, *, cpus: int = 2, conf: str = HELD) -> None:
    (tmp_path / "slurm.conf").write_text(conf)
    (tmp_path / "self").write_text(own)
    env = {**os.environ, "SUNKPY_CGROUPS": str(tmp_path), "SUNKPY_SELF_CGROUP": str(tmp_path / "self")}
    script = ROOT / "slurm-images" / "bin" / "weigh-jobs"
    subprocess.run([script, tmp_path / "slurm.conf", str(cpus)], env=env, check=True)


def pod(tmp_path: Path, folder: str = POD) -> Path:
    weight = tmp_path / folder / "cpu.weight"
    weight.parent.mkdir(parents=True)
    weight.write_text("1\n")
    return weight


@pytest.mark.parametrize(("cpus", "weight"), [(1, "39"), (2, "79"), (64, "2500"), (512, "10000")])
def test_the_pod_weighs_what_a_request_for_the_node_would(tmp_path: Path, cpus: int, weight: str):
    file = pod(tmp_path)
    weigh(tmp_path, f"0::/{POD}/b4232e67\n", cpus=cpus)
    assert file.read_text().strip() == weight


def test_the_systemd_driver_has_other_names(tmp_path: Path):
    file = pod(tmp_path, SYSTEMD)
    weigh(tmp_path, f"0::/{SYSTEMD}/cri-containerd-b4232e67.scope\n")
    assert file.read_text().strip() == "79"


@pytest.mark.parametrize(
    "own", ["0::/\n", "12:cpu:/kubepods/burstable/pod21d50e8c-959b/b4232e67\n", "0::/init.scope/a\n"]
)
def test_without_the_cgroup_of_the_pod_nothing_is_written(tmp_path: Path, own: str):
    file = pod(tmp_path)
    (tmp_path / "cpu.weight").write_text("1\n")
    (tmp_path / "init.scope").mkdir()
    (tmp_path / "init.scope" / "cpu.weight").write_text("1\n")
    weigh(tmp_path, own)
    assert {path.read_text() for path in (file, tmp_path / "cpu.weight", tmp_path / "init.scope" / "cpu.weight")} == {
        "1\n"
    }


def test_jobs_that_may_use_each_cpu_weigh_as_before(tmp_path: Path):
    file = pod(tmp_path)
    weigh(tmp_path, f"0::/{POD}/b4232e67\n", conf=COUNTED)
    assert file.read_text() == "1\n"
