"""Whether a node can hold jobs by cgroups: what `check-cgroups` finds in /sys/fs/cgroup."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[3] / "slurm-images" / "bin" / "check-cgroups"
AUTO = "ClusterName=x\nProctrackType=proctrack/cgroup\n"
V1 = ("cpu", "cpuacct", "cpuset", "devices", "freezer", "memory", "systemd")


def check(folder: Path, conf: str | None = AUTO) -> subprocess.CompletedProcess[str]:
    if conf is not None:
        (folder / "slurm.conf").write_text(conf)
    env = {
        "PATH": os.environ["PATH"],
        "SUNKPY_CGROUPS": str(folder / "cgroup"),
        "SUNKPY_OWN_CGROUP": str(folder / "own"),
        "SUNKPY_TERMINATION_LOG": str(folder / "log"),
    }
    argv = [PROGRAM, str(folder / "slurm.conf")]
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=30)


def mount(folder: Path, *, v1: tuple[str, ...] = (), v2: str | None = None) -> None:
    (folder / "own").write_text("0::/\n")
    (folder / "cgroup").mkdir()
    for each in v1:
        (folder / "cgroup" / each).mkdir()
        (folder / "cgroup" / each / "cgroup.procs").touch()
    if v2 is not None:
        (folder / "cgroup" / "cgroup.controllers").write_text(v2)


def container(folder: Path, own: str, controllers: str) -> None:
    """The cgroup of this container."""
    (folder / "own").write_text(f"0::/{own}\n")
    (folder / "cgroup" / own).mkdir(parents=True, exist_ok=True)
    (folder / "cgroup" / own / "cgroup.controllers").write_text(controllers)


@pytest.mark.parametrize(
    ("there", "version"), [({"v2": "cpuset cpu io memory hugetlb pids rdma misc\n"}, "v2"), ({"v1": V1}, "v1")]
)
def test_a_kernel_that_can_hold_jobs_is_named(tmp_path: Path, there, version):
    mount(tmp_path, **there)
    done = check(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"check-cgroups: jobs are held by cgroup {version}\n", "")


@pytest.mark.parametrize(
    ("cpus", "told"),
    [
        ("\n", ""),
        (
            "0-5,8-71\n",
            "check-cgroups: this pod may use cpus 0-5,8-71, as by a kubelet's cpuManagerPolicy: static. Slurm does not"
            " know which ones pods get for themselves, and may give them to jobs. Keep both apart (docs/tasks/cpus.md),"
            " set the policy to none where jobs run, or give the node to pods alone\n",
        ),
    ],
)
@pytest.mark.parametrize("own", ["", "kubepods.slice/pod.slice/container.scope"], ids=["in its root", "of the machine"])
def test_a_kubelet_that_gives_cores_to_pods_is_told(tmp_path: Path, own: str, cpus: str, told: str):
    """That of policy `none` leaves the file empty, as the kernel makes it. The root of the machine has no such file."""
    mount(tmp_path, v2="cpuset cpu memory\n")
    container(tmp_path, own, "cpuset cpu memory pids\n")
    (tmp_path / "cgroup" / own / "cpuset.cpus").write_text(cpus)
    done = check(tmp_path)
    assert (done.returncode, done.stdout) == (0, f"check-cgroups: jobs are held by cgroup v2\n{told}")


@pytest.mark.parametrize(
    ("there", "lacks"),
    [
        ({"v2": "cpu io memory\n"}, "cgroup v2 lacks cpuset."),
        ({"v2": ""}, "cgroup v2 lacks cpu cpuset memory."),
        ({"v1": tuple(each for each in V1 if each != "freezer")}, "cgroup v1 lacks freezer."),
        ({}, "cgroup v1 lacks cpuacct cpuset devices freezer memory systemd."),
    ],
)
def test_a_node_that_could_not_hold_jobs_does_not_start_and_says_what_to_do(tmp_path: Path, there, lacks):
    mount(tmp_path, **there)
    done = check(tmp_path)
    assert done.returncode == 1
    assert lacks in done.stderr
    assert "slurmConfig.cgroup: disabled" in done.stderr
    assert (tmp_path / "log").read_text() == done.stderr


def test_what_counts_is_what_the_pod_has_and_not_the_machine(tmp_path: Path):
    """Slurm makes its cgroups in that of the pod, beside that of the container: both have what the pod hands on."""
    mount(tmp_path, v2="cpuset cpu io memory pids\n")
    container(tmp_path, "kubepods.slice/pod.slice/container.scope", "cpu memory pids\n")
    done = check(tmp_path)
    assert done.returncode == 1
    assert "cgroup v2 lacks cpuset." in done.stderr


@pytest.mark.parametrize(("there", "code"), [({"v1": V1}, 1), ({"v2": "cpuset cpu memory\n"}, 0)])
def test_process_ids_of_a_job_of_its_own_need_v2(tmp_path: Path, there, code):
    mount(tmp_path, **there)
    done = check(tmp_path, AUTO + "NamespaceType=namespace/linux\n")
    assert done.returncode == code
    assert ("Boot the node with cgroup v2, or set slurmConfig.privatePids: false." in done.stderr) is (code == 1)


@pytest.mark.parametrize("conf", ["ProctrackType=proctrack/linuxproc\n", "#ProctrackType=proctrack/cgroup\n", None])
def test_a_cluster_that_only_counts_needs_none(tmp_path: Path, conf):
    mount(tmp_path)
    assert check(tmp_path, conf).returncode == 0
