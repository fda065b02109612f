import os
import signal
import sys
from pathlib import Path

import pytest

from devcluster.errors import DevclusterError
from devcluster.process import Daemon, Daemons, marked_pids, parse_stat, start_ticks

SLEEP = Daemon(name="sleeper", argv=[sys.executable, "-c", "import signal; signal.pause()"])


def await_program(pid: int | None) -> None:
    """Wait until the shell that joins the cgroup has become the program."""
    while Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0] != sys.executable.encode():
        os.sched_yield()


@pytest.fixture
def daemons(tmp_path: Path):
    every = Daemons(tmp_path, tmp_path / "cgroup.procs")
    yield every
    for pid in marked_pids(tmp_path):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("command", ["etcd", "a b", ") S 1 (", "x) Z"])
def test_a_stat_line_is_read_whatever_the_command_is_called(command: str):
    rest = " ".join(["S", *map(str, range(4, 22)), "777", "23"])
    assert parse_stat(f"42 ({command}) {rest}") == ("S", 777)


def test_a_started_process_is_found_by_a_later_command(daemons: Daemons, tmp_path: Path):
    assert daemons.start(SLEEP)
    later = Daemons(tmp_path, tmp_path / "cgroup.procs")
    assert later.pid("sleeper") == daemons.pid("sleeper") is not None
    assert not later.start(SLEEP)
    await_program(daemons.pid("sleeper"))
    assert (tmp_path / "cgroup.procs").read_text().strip() == str(daemons.pid("sleeper"))


def test_a_process_whose_record_was_never_written_is_adopted(daemons: Daemons, tmp_path: Path):
    daemons.start(SLEEP)
    pid = daemons.pid("sleeper")
    await_program(pid)
    (tmp_path / "proc" / "sleeper").unlink()
    assert not daemons.start(SLEEP)
    assert daemons.pid("sleeper") == pid


def test_a_killed_process_is_seen_as_dead_and_started_again(daemons: Daemons):
    daemons.start(SLEEP)
    first = daemons.pid("sleeper")
    daemons.stop("sleeper", sig=signal.SIGKILL)
    assert daemons.pid("sleeper") is None
    assert daemons.names() == []
    assert daemons.start(SLEEP)
    assert daemons.pid("sleeper") not in (None, first)


def test_a_pid_that_belongs_to_somebody_else_by_now_is_not_ours(daemons: Daemons, tmp_path: Path):
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "x").write_text(f'{{"pid": {os.getpid()}, "start_ticks": 1}}')
    assert daemons.pid("x") is None
    assert start_ticks(os.getpid()) is not None


def test_a_program_that_dies_at_once_is_reported_with_its_last_words(daemons: Daemons):
    daemons.start(Daemon(name="bad", argv=[sys.executable, "-c", "raise SystemExit('no such flag')"]))
    while daemons.pid("bad"):
        os.sched_yield()
    with pytest.raises(DevclusterError, match=r"bad ended right after its start(?s:.*)no such flag"):
        daemons.require("bad")
