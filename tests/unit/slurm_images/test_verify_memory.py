"""The check of a machine's memory: what changes while it is kept there is noticed, and so is what the kernel counts."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "slurm-images" / "bin" / "verify-memory"
MIB = 2**20
V2, V1 = "0::/pod/job\n", "7:memory:/pod/job\n2:cpu:/pod\n"


class Machine:
    """A machine with so much free memory, and the program that checks it."""

    def __init__(self, folder: Path, *, free_mib: int = 64) -> None:
        self.root = folder
        self.write("proc/meminfo", f"MemTotal: 99999999 kB\nMemAvailable: {free_mib * 1024} kB\n")

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    @contextlib.contextmanager
    def check(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        environment = {"PATH": os.environ["PATH"], "SUNKPY_ROOT": str(self.root)}
        with subprocess.Popen([SCRIPT, *words], env=environment, stdout=subprocess.PIPE, text=True) as process:
            try:
                yield process
            finally:
                process.kill()

    def says(self, *words: str) -> tuple[int, list[str]]:
        with self.check(*words) as process:
            return ended(process)


def ended(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    said, _ = process.communicate(timeout=120)
    return process.returncode, said.splitlines()


def children(process: subprocess.Popen[str]) -> list[int]:
    """Its processes; nproc was one of them."""
    found = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [pid for each in found if b"nproc" not in Path(f"/proc/{(pid := int(each))}/cmdline").read_bytes()]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_memory_that_keeps_what_is_written_passes(machine: Machine) -> None:
    code, (head, *problems) = machine.says("75")
    assert (code, problems) == (0, [])
    assert head.startswith("verify-memory: 48 MiB, ")
    assert machine.says("100", "8")[1][0].startswith("verify-memory: 8 MiB, ")


def test_a_bit_that_changes_by_itself_is_noticed(tmp_path: Path) -> None:
    """The test changes the memory of a process of the program, again and again."""
    with Machine(tmp_path, free_mib=256).check("100") as process:
        assert process.stdout is not None
        head = process.stdout.readline()
        (pid, *_) = children(process)
        while process.poll() is None:
            flip(pid)
        code, problems = ended(process)
    assert head.startswith("verify-memory: 256 MiB, ")
    assert code == 1
    assert "differs from what was written there (pattern " in problems[0]


def flip(pid: int) -> None:
    """Change a byte in each fourth MiB of the largest part of its memory, as far as it is there now."""
    with contextlib.suppress(OSError, ValueError):
        areas = [line.split()[0].split("-") for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
        start, end = max(((int(a, 16), int(b, 16)) for a, b in areas), key=lambda each: each[1] - each[0])
        if end - start < 32 * MIB:
            return
        with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
            for at in range(start + MIB, end - MIB, 4 * MIB):
                memory.seek(at)
                (byte,) = memory.read(1)
                memory.seek(at)
                memory.write(bytes([byte ^ 0x10]))


def test_a_process_that_is_ended_has_not_passed(tmp_path: Path) -> None:
    with Machine(tmp_path, free_mib=256).check("100") as process:
        assert process.stdout is not None
        process.stdout.readline()
        os.kill(children(process)[0], 9)
        code, problems = ended(process)
    assert (code, problems) == (1, ["verify-memory: a process was ended by signal 9, as when memory is short"])


@pytest.mark.parametrize(("kind", "called"), [("ce", "corrected"), ("ue", "not corrected")])
def test_errors_that_the_kernel_counts_meanwhile_are_told(tmp_path: Path, kind: str, called: str) -> None:
    machine = Machine(tmp_path, free_mib=256)
    counter = f"sys/devices/system/edac/mc/mc0/{kind}_count"
    machine.write(counter, "7\n")
    assert machine.says("100", "8")[0] == 0
    with machine.check("100") as process:
        assert process.stdout is not None
        process.stdout.readline()
        machine.write(counter, "9\n")
        code, problems = ended(process)
    assert (code, problems) == (1, [f"verify-memory: the kernel has counted 2 errors meanwhile (mc0, {called})"])


@pytest.mark.parametrize(
    ("own", "files", "mib"),
    [
        (V2, {"pod/job/memory.max": "max\n"}, 64),
        (V2, {"pod/job/memory.max": f"{32 * MIB}\n", "pod/job/memory.current": f"{20 * MIB}\n"}, 12),
        (V2, {"pod/memory.max": f"{32 * MIB}\n", "pod/memory.current": f"{20 * MIB}\n",
              "pod/memory.stat": f"anon 9\nfile {28 * MIB}\nshmem {12 * MIB}\ninactive_anon {12 * MIB}\n"
                                 f"inactive_file {4 * MIB}\nactive_file {12 * MIB}\n"}, 28),
        (V1, {"memory/pod/memory.limit_in_bytes": f"{32 * MIB}\n",
              "memory/pod/memory.usage_in_bytes": f"{8 * MIB}\n"}, 24),
        (V1, {"memory/pod/memory.limit_in_bytes": f"{32 * MIB}\n",
              "memory/pod/memory.usage_in_bytes": f"{20 * MIB}\n",
              "memory/pod/memory.stat": f"inactive_file 1\ntotal_cache {16 * MIB}\n"
                                        f"total_inactive_file {3 * MIB}\ntotal_active_file {MIB}\n"}, 16),
        (V1, {"cpu/pod/memory.limit_in_bytes": f"{MIB}\n"}, 64),
    ],
)  # fmt: skip
def test_it_takes_no_more_than_its_cgroup_has_left(machine: Machine, own: str, files: dict[str, str], mib: int) -> None:
    machine.write("proc/self/cgroup", own)
    for path, text in files.items():
        machine.write(f"sys/fs/cgroup/{path}", text)
    code, (head, *problems) = machine.says("100")
    assert (code, problems) == (0, [])
    assert head.startswith(f"verify-memory: {mib} MiB, ")


def test_where_no_memory_is_free_nothing_has_passed(tmp_path: Path) -> None:
    machine = Machine(tmp_path, free_mib=0)
    done = subprocess.run(
        [SCRIPT], env={"PATH": os.environ["PATH"], "SUNKPY_ROOT": str(machine.root)}, capture_output=True, text=True,
        check=False, timeout=30,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "verify-memory: no MiB of memory is free\n")


@pytest.mark.parametrize("words", [("0",), ("101",), ("all",), ("80", "1G"), ("80", "0")])
def test_what_is_no_number_is_refused(machine: Machine, words: tuple[str, ...]) -> None:
    done = subprocess.run([SCRIPT, *words], capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 1
    assert done.stderr == "usage: verify-memory [PERCENT [MIB]]\n"
