"""check-node: what fails drains the node with evidence, and what is well again lifts that, and nothing else."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "slurm-images" / "bin" / "check-node"
SCONTROL = """\
#!/bin/bash
case $* in
  *show*) echo "NodeName=n State=$(< state) Reason=$(< reason) [root@2026-01-01T00:00:00]" && exit ;;
  *state=drain*) echo IDLE+DRAIN > state ;;
  *state=undrain*) echo IDLE > state ;;
esac
last=${!#}
echo "${last#reason=}" > reason
echo "$*" >> writes
"""
ALL = "files disk=95 memory gpus zombies=3 rdma=2 clock=30"


class Machine:
    """A machine that is well, and what Slurm says of its node."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / "root"
        for path, text in {
            "proc/self/mounts": "/dev/sda1 / ext4 rw 0 0\nsrv:/home /nfs\\040home nfs4 rw 0 0\n",
            "proc/meminfo": "MemTotal:        2097152 kB\nMemFree: 1 kB\n",
            "proc/1/stat": "1 (tini) S 0 1 1\n",
            "proc/7/stat": "7 (a b) Z 1 1 1\n",
            "etc/sunkpy/gpus": "- /dev/nvidia0 GPU-a 0000:01:00.0\n- /dev/nvidia1 GPU-b 0000:02:00.0\n",
            "dev/nvidia0": "",
            "dev/nvidia1": "",
            "proc/driver/nvidia/gpus/0000:01:00.0/information": "",
            "proc/driver/nvidia/gpus/0000:02:00.0/information": "",
            "sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n",
            "sys/class/infiniband/mlx5_1/ports/1/state": "4: ACTIVE\n",
            "tmp/x": "",
            "var/spool/slurmd/x": "",
        }.items():
            self.write(path, text)
        self.program("scontrol", SCONTROL)
        self.program("stat", "#!/bin/bash\nexit 0\n")
        self.program("df", "#!/bin/bash\necho 'Use% IUse%'\necho ' 40%   -'\n")
        self.date(0)
        self.slurm("IDLE")

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def program(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def date(self, off_s: int) -> None:
        """So far ahead is the clock of the cluster, whenever it is asked."""
        date = f"LC_ALL=C date --utc --date '{off_s} seconds' '+%a, %d %b %Y %T GMT'"
        answer = f"printf 'HTTP/1.1 404 Not Found\\r\\nDate: %s\\r\\n\\r\\n' \"$({date})\""
        self.program("curl", f"#!/bin/bash\n{answer}\n")

    def slurm(self, state: str, reason: str = "") -> None:
        (self.folder / "state").write_text(state)
        (self.folder / "reason").write_text(reason)

    def check(self, *args: str, checks: str = ALL, within_s: int = 1) -> str:
        env = {
            "SUNKPY_WITHIN_S": str(within_s),
            "SUNKPY_PATH": f"{self.folder}:{os.environ['PATH']}",
            "SUNKPY_CHECKS_ENV": str(self.folder / "checks.env"),
            "SUNKPY_ROOT": str(self.root),
            "SUNKPY_STATE": str(self.folder / "run"),
        }
        (self.folder / "checks.env").write_text(
            f"SUNKPY_SLURM_NODE=n\nSUNKPY_CHECKS='{checks}'\nSUNKPY_MEMORY_MIB=2000\nSUNKPY_HOOKS_URL=https://hooks\n"
        )
        done = subprocess.run(
            [SCRIPT, *args], env=env, cwd=self.folder, capture_output=True, text=True, check=True, timeout=60
        )
        assert done.stderr == ""
        return done.stdout.strip()

    @property
    def node(self) -> tuple[str, str]:
        return (self.folder / "state").read_text().strip(), (self.folder / "reason").read_text().strip()

    @property
    def writes(self) -> list[str]:
        file = self.folder / "writes"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def full(machine: Machine) -> None:
    machine.program("df", "#!/bin/bash\necho head\n[[ $* == */tmp ]] && echo '96% 3%' || echo '40% 3%'\n")


def without_inodes(machine: Machine) -> None:
    machine.program("df", "#!/bin/bash\necho head\n[[ $* == */tmp ]] && echo '40% 99%' || echo '40% 3%'\n")


def slow_disk(machine: Machine) -> None:
    machine.program("df", "#!/bin/bash\n[[ $* == */tmp ]] && exec sleep 30\necho head\necho '40% 3%'\n")


def hangs(machine: Machine) -> None:
    machine.program("stat", "#!/bin/bash\nexec sleep 30\n")


def stale(machine: Machine) -> None:
    machine.program("stat", "#!/bin/bash\nexit 1\n")


def lost_gpu(machine: Machine) -> None:
    (machine.root / "dev/nvidia1").unlink()


def lost_by_driver(machine: Machine) -> None:
    folder = machine.root / "proc/driver/nvidia/gpus/0000:01:00.0"
    (folder / "information").unlink()
    folder.rmdir()


def zombies(machine: Machine) -> None:
    for pid in (20, 21):
        machine.write(f"proc/{pid}/stat", f"{pid} (python) Z 1 1 1\n")


FAULTS = {
    "hangs": (hangs, "files: /nfs home (nfs4 of srv:/home) does not answer"),
    "stale": (stale, "files: /nfs home (nfs4 of srv:/home) cannot be read"),
    "full": (full, "disk: /tmp is 96% full"),
    "inodes": (without_inodes, "disk: /tmp has used 99% of its inodes"),
    "memory": (
        lambda machine: machine.write("proc/meminfo", "MemTotal: 1048576 kB\n"),
        "memory: the machine has 1024 MiB, and Slurm gives 2000 to jobs",
    ),
    "gpu": (lost_gpu, "gpus: /dev/nvidia1 has gone"),
    "driver": (lost_by_driver, "gpus: the driver has lost the GPU at 0000:01:00.0"),
    "zombies": (zombies, "zombies: 3 processes have ended and are still there, such as a b"),
    "rdma": (
        lambda machine: machine.write("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n"),
        "rdma: 1 ports are active, and 2 should be; not active: mlx5_1:1",
    ),
    "clock": (lambda machine: machine.date(-90), "clock: the node is 90 s ahead of the cluster"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_drains_the_node_with_its_evidence(machine: Machine, fault: str) -> None:
    inject, evidence = FAULTS[fault]
    inject(machine)
    machine.check()
    state, reason = machine.node
    assert state == "IDLE+DRAIN"
    if fault == "clock":
        assert reason.startswith("sunkpy check: clock: the node is ")
    elif fault == "zombies":
        assert reason.startswith("sunkpy check: zombies: 3 processes have ended and are still there, such as ")
    else:
        assert reason == f"sunkpy check: {evidence}"


@pytest.mark.parametrize("fault", FAULTS)
def test_each_check_can_be_off(machine: Machine, fault: str) -> None:
    inject, evidence = FAULTS[fault]
    inject(machine)
    off = evidence.partition(":")[0]
    machine.check(checks=" ".join(word for word in ALL.split() if word.partition("=")[0] != off))
    assert machine.writes == []
    if "=" in next(word for word in ALL.split() if word.startswith(off)):
        machine.check(checks=f"{off}=0")
        assert machine.writes == []


def test_a_machine_that_is_well_changes_nothing(machine: Machine) -> None:
    machine.check()
    assert machine.writes == []


def test_several_faults_are_counted(machine: Machine) -> None:
    lost_gpu(machine)
    full(machine)
    machine.check()
    assert machine.node[1] == ("sunkpy check: disk: /tmp is 96% full; and 1 more: gpus: /dev/nvidia1 has gone")


def test_what_is_well_twice_in_a_row_lifts_the_drain_of_this_program(machine: Machine) -> None:
    lost_gpu(machine)
    machine.check()
    (machine.root / "dev/nvidia1").write_text("")
    machine.check()
    assert machine.node[0] == "IDLE+DRAIN"
    lost_gpu(machine)
    machine.check()
    (machine.root / "dev/nvidia1").write_text("")
    machine.check()
    assert machine.node[0] == "IDLE+DRAIN", "in a row"
    machine.check()
    assert machine.node[0] == "IDLE"
    assert len(machine.writes) == 2


@pytest.mark.parametrize(
    ("state", "reason"),
    [("IDLE+DRAIN", "bad fan"), ("IDLE+DRAIN", "k8s: cordon: fan"), ("DOWN", "Not responding"), ("IDLE+FAIL", "dimm")],
)
def test_nothing_of_others_is_touched_whether_it_is_well_or_not(machine: Machine, state: str, reason: str) -> None:
    machine.slurm(state, reason)
    for _ in range(3):
        machine.check()
    lost_gpu(machine)
    machine.check()
    assert machine.node == (state, reason)
    assert machine.writes == []


def test_a_file_server_that_hangs_is_told_and_costs_one_process(machine: Machine) -> None:
    machine.program("stat", "#!/bin/bash\necho $$ >> started\nexec sleep 30\n")
    machine.write("proc/self/mounts", "".join(f"srv:/{n} /{n} nfs rw 0 0\n" for n in range(8)))
    assert machine.check("--only").startswith("sunkpy check: files: /")
    started = (machine.folder / "started").read_text().split()
    for pid in started:
        (machine.root / "proc" / pid).mkdir(exist_ok=True)
    assert len(started) == 8


def test_whatever_may_hang_is_asked_at_the_same_time(machine: Machine) -> None:
    """Each of these programs waits until all others run, so one after the other they would all hang."""
    machine.write("proc/self/mounts", "".join(f"srv:/{n} /{n} nfs rw 0 0\n" for n in range(8)))
    everyone = 3 + 8 + 1  # df for three folders, stat for each file system, curl
    meet = f"echo >> met\nwhile [ $(wc -l < met) -lt {everyone} ]; do sleep 0.05; done\n"
    for name in ("df", "stat", "curl"):
        answer = (machine.folder / name).read_text().removeprefix("#!/bin/bash\n")
        machine.program(name, f"#!/bin/bash\n{meet}{answer}")
    assert machine.check("--only", within_s=20) == ""


def test_a_disk_that_is_slow_once_is_not_closed(machine: Machine) -> None:
    """The second check finds that the first one has not ended."""
    slow_disk(machine)
    assert machine.check("--only") == ""
    pid = (machine.folder / "run" / "disk-tmp.pid").read_text().strip()
    (machine.root / "proc" / pid).mkdir(exist_ok=True)
    assert machine.check("--only") == "sunkpy check: disk: /tmp does not answer"


def test_before_slurmd_registers_it_only_says_what_fails(machine: Machine) -> None:
    lost_gpu(machine)
    assert machine.check("--only") == "sunkpy check: gpus: /dev/nvidia1 has gone"
    assert machine.writes == []
    (machine.root / "dev/nvidia1").write_text("")
    assert machine.check("--only") == ""


def test_without_settings_it_does_nothing(machine: Machine) -> None:
    lost_gpu(machine)
    env = {"SUNKPY_PATH": os.environ["PATH"], "SUNKPY_CHECKS_ENV": "none"}
    subprocess.run([SCRIPT], env=env, cwd=machine.folder, check=True, capture_output=True)
    assert machine.writes == []
