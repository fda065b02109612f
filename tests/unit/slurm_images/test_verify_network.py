"""The check of the network between nodes: processes of one machine, two by two, over TCP."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "slurm-images" / "bin" / "verify-network"
USAGE = "usage: srun --ntasks-per-node=1 verify-network [MIB [LEAST]]"
ASK = "use --ntasks-per-node=1"
GOOD = ", the slowest has "
MIB = 2**20
IDS = iter(random.sample(range(1, 9000, 10), 900))  # of jobs; from each the number of its ports follows
CLAIMS: list[socket.socket] = []  # of the ports of a job, by a name that only one process has
SOON_S = 10  # how long a task waits for one that does not come; also the time that the others have to begin


class Job:
    """A job on `count` nodes, which are all here. Of each in `without` Slurm has no address."""

    def __init__(self, folder: Path, count: int, *, without: tuple[int, ...] = (), within_s: int = 60) -> None:
        self.folder, self.count, self.within_s = folder, count, within_s
        self.id = _free_id(count)
        records = "".join(
            f"NodeName=n{number} Arch=x86_64 NodeAddr={'' if number in without else '127.0.0.1'} X=1\\n"
            for number in range(count)
        )
        names = "".join(f"n{number}\\n" for number in range(count))
        scontrol = f"#!/bin/bash\n[[ $* == *hostnames* ]] && printf '{names}' || printf '{records}'\n"
        (folder / "scontrol").write_text(scontrol)
        (folder / "scontrol").chmod(0o755)

    def start(self, number: int, *words: str) -> subprocess.Popen[str]:
        """The task on a node."""
        environment = {
            "PATH": f"{self.folder}:{os.environ['PATH']}", "SLURM_NODEID": str(number), "SLURM_JOB_ID": str(self.id),
            "SLURM_STEP_NODELIST": f"n[0-{self.count - 1}]", "SLURM_STEP_TASKS_PER_NODE": f"1(x{self.count})",
            "SUNKPY_WITHIN_S": str(self.within_s),
        }  # fmt: skip
        return subprocess.Popen(
            [SCRIPT, *(words or ("2",))], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def port(self, number: int) -> int:
        return 20000 + self.id + number

    @contextlib.contextmanager
    def running(self, *numbers: int, words: tuple[str, ...] = ()) -> Iterator[dict[int, subprocess.Popen[str]]]:
        """The tasks on these nodes, ended and closed afterwards whatever became of the test."""
        with contextlib.ExitStack() as stack:
            tasks = {}
            for number in numbers:
                tasks[number] = stack.enter_context(self.start(number, *words))
                stack.callback(tasks[number].kill)
            yield tasks


def _free_id(count: int) -> int:
    """A job whose ports nobody has, and which no other run on this machine gets until this one ends."""
    for number in IDS:
        CLAIMS.append(socket.socket(socket.AF_UNIX))
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            CLAIMS[-1].bind(f"\0sunkpy-verify-network-{number}")
            for port in range(20000 + number, 20000 + number + count):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            return number
    raise AssertionError("no ports are free")


def end(task: subprocess.Popen[str]) -> tuple[int, list[str]]:
    said, _ = task.communicate(timeout=120)
    return task.returncode, said.splitlines()


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_each_node_exchanges_data_with_every_other_one(tmp_path: Path, count: int) -> None:
    with Job(tmp_path, count).running(*range(count)) as tasks:
        for number, task in tasks.items():
            code, (line,) = end(task)
            assert (code, line.partition(GOOD)[0]) == (
                0,
                f"verify-network: n{number}: {count - 1} of {count - 1} pairs are good",
            )


def test_a_node_that_does_not_answer_is_told_by_the_others_which_are_not_at_fault(tmp_path: Path) -> None:
    with Job(tmp_path, 4, within_s=SOON_S).running(0, 1, 3) as tasks:
        for number, task in tasks.items():
            code, (bad, counted) = end(task)
            why = "no connection from it" if number < 2 else "cannot connect to it: Connection refused"
            assert (code, bad) == (0, f"verify-network: n{number} with n2: {why}")
            assert counted.partition(GOOD)[0] == f"verify-network: n{number}: 2 of 3 pairs are good"


def test_one_that_reaches_nobody_is_at_fault_itself(tmp_path: Path) -> None:
    with Job(tmp_path, 3, without=(0, 1)).running(2) as tasks:
        code, said = end(tasks[2])
    assert (code, said) == (
        1,
        [
            "verify-network: n2 with n1: cannot connect to it: Slurm has no address of it",
            "verify-network: n2 with n0: cannot connect to it: Slurm has no address of it",
            "verify-network: n2: 0 of 2 pairs are good",
        ],
    )


def test_a_pair_that_is_slower_than_it_should_be_is_bad(tmp_path: Path) -> None:
    with Job(tmp_path, 2).running(0, 1, words=("2", "99999999")) as tasks:
        for number, task in tasks.items():
            code, (bad, counted) = end(task)
            assert code == 1
            assert bad.startswith(f"verify-network: n{number} with n{1 - number}: ")
            assert bad.endswith(" MiB/s, and 99999999 should be")
            assert counted == f"verify-network: n{number}: 0 of 1 pairs are good"


def test_data_that_change_on_the_way_are_noticed(tmp_path: Path) -> None:
    """The test is between both, and changes one byte of what comes back."""
    job, behind = Job(tmp_path, 2), Job(tmp_path, 2)  # the real n0 is in the second one
    with socket.create_server(("127.0.0.1", job.port(0))) as server:
        thread = threading.Thread(target=_relay, args=(server, behind), daemon=True)
        thread.start()
        with behind.running(0), job.running(1) as tasks:
            code, (bad, _) = end(tasks[1])
    thread.join()
    assert code == 1
    assert bad == "verify-network: n1 with n0: MiB 2 of 2 from it differs from what was sent"


def test_one_that_takes_nothing_is_told_after_its_time(tmp_path: Path) -> None:
    job = Job(tmp_path, 2, within_s=SOON_S)
    with job.running(0, words=("64",)) as tasks, _connected(job.port(0)) as second:
        second.sendall(struct.pack(">II", 1, job.id))
        code, (bad, _) = end(tasks[0])
    assert code == 1
    assert bad.startswith("verify-network: n0 with n1: it did not take MiB ")


def test_one_that_sends_a_byte_now_and_then_is_told_after_its_time(tmp_path: Path) -> None:
    job = Job(tmp_path, 2, within_s=SOON_S)
    with socket.create_server(("127.0.0.1", job.port(0))) as server, job.running(1) as tasks:
        first, _ = server.accept()
        with first:
            thread = threading.Thread(target=_trickle, args=(first,), daemon=True)
            thread.start()
            code, (bad, _) = end(tasks[1])
        thread.join()
    assert (code, bad) == (1, "verify-network: n1 with n0: MiB 1 of 2 did not come from it")


def _trickle(to: socket.socket) -> None:
    with contextlib.suppress(OSError):
        to.sendall(b"r")
        for _ in range(200):
            to.sendall(b"\0")
            time.sleep(0.2)


def test_a_node_that_is_away_is_waited_for_once(tmp_path: Path) -> None:
    with Job(tmp_path, 8, within_s=SOON_S).running(*range(7)) as tasks:
        begun = time.monotonic()
        for task in tasks.values():
            code, (bad, _) = end(task)
            assert code == 0
            assert " with n7: no connection from it" in bad
    assert time.monotonic() - begun < 4 * SOON_S


def _relay(server: socket.socket, to: Job) -> None:
    """Pass on what comes from n1 to the real n0, and back with a fault in the second MiB."""
    near, _ = server.accept()
    with near, _connected(to.port(0)) as far:
        number, _ = struct.unpack(">II", near.recv(8, socket.MSG_WAITALL))
        far.sendall(struct.pack(">II", number, to.id))
        came = 0
        while text := far.recv(65536):
            at = MIB + 777 - came
            came += len(text)
            if 0 <= at < len(text):
                text = text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :]
            near.sendall(text)


def _connected(port: int) -> socket.socket:
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            return socket.create_connection(("127.0.0.1", port))


@pytest.mark.parametrize(
    ("environment", "words", "says"),
    [
        ({}, (), "verify-network: not in a job: use srun --ntasks-per-node=1 verify-network"),
        ({"SLURM_STEP_TASKS_PER_NODE": "2(x2)"}, (), "verify-network: more than one task on a node: " + ASK),
        ({}, ("1G",), USAGE),
        ({}, ("00",), USAGE),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_told(environment: dict[str, str], words: tuple[str, ...], says: str) -> None:
    job = {"SLURM_NODEID": "0", "SLURM_JOB_ID": "7", "SLURM_STEP_NODELIST": "n[0-1]"} if environment else {}
    done = subprocess.run(
        [SCRIPT, *words], env={"PATH": os.environ["PATH"], **job, **environment}, capture_output=True, text=True,
        check=False, timeout=30,
    )  # fmt: skip
    assert (done.returncode != 0, done.stderr.strip()) == (True, says)
