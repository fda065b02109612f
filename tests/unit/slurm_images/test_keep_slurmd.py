"""keep-slurmd: slurmd starts again beside its jobs, on files on which it can."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.waiting import wait

BIN = Path(__file__).resolve().parents[3] / "slurm-images" / "bin"
SLURMD = """\
#!/bin/bash
# Fails on files that say so, else has started, and ends as the file `end` says; told to, in order.
trap 'exit 0' TERM
spool={folder}/spool cache=${{SLURMD_RECONF_CONF_CACHE:-}}
if [ -z "$cache" ]; then
  mkdir -p "$spool/conf-cache" && cp {folder}/slurmctld/* "$spool/conf-cache/"
fi
echo "$* on $(cat "$spool/conf-cache/slurm.conf") with ${{SLURM_SACK_KEY:-}}${{SLURM_SACK_JWKS:-}}" >> {folder}/starts
! grep -q bad "$spool/conf-cache/slurm.conf" || exit 1
[ ! -e {folder}/broken ] || exit 3
echo $$ > {folder}/run/slurmd.pid
until [ -e {folder}/end ]; do sleep 0.05; done
code=$(< {folder}/end)
rm {folder}/end
[ "$code" != reconfigure ] || exec env SLURMD_RECONF_CONF_CACHE="$spool/conf-cache" "$0" "$@"
exit "$code"
"""


class Kept:
    """A slurmd of ours."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("spool", "run", "slurmctld", "bin"):
            (folder / name).mkdir()
        programs = {
            "slurmd": SLURMD.format(folder=folder),
            "requeue-lost": f"#!/bin/bash\necho $SUNKPY_SLURM_NODE >> {folder}/asked-for-lost-jobs\n",
            "register-again": f"#!/bin/bash\necho $1 >> {folder}/looked-after\n",
        }
        for name, text in programs.items():
            (folder / "bin" / name).write_text(text)
            (folder / "bin" / name).chmod(0o755)
        (folder / "slurmctld/slurm.conf").write_text("first")
        self.process: subprocess.Popen[str] | None = None

    def start(self, *, begun_s: float = 0) -> None:
        env = {
            "PATH": f"{self.folder}/bin:{os.environ['PATH']}",
            "SUNKPY_SLURM_NODE": "n1",
            "SUNKPY_SLURMD": f"{self.folder}/bin/slurmd",
            "SUNKPY_SPOOL": f"{self.folder}/spool",
            "SUNKPY_RUN": f"{self.folder}/run",
            "SUNKPY_KEYS": f"{self.folder}",
            "SUNKPY_PAUSE_S": "0.05",
            "SUNKPY_BEGUN_S": f"{begun_s:.0f}",
        }
        argv = [BIN / "keep-slurmd", "-N", "n1"]
        out = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self.process = subprocess.Popen(argv, env=env, **out, text=True, start_new_session=True)

    def starts(self) -> list[str]:
        file = self.folder / "starts"
        return file.read_text().splitlines() if file.exists() else []

    def told(self, name: str, *, times: int) -> list[str]:
        """The calls of a program beside it, once it was started `times` times."""
        file = self.folder / name
        wait(
            lambda: file.exists() and len(file.read_text().splitlines()) == times, timeout_s=20, what=f"{times} {name}"
        )
        return file.read_text().splitlines()

    def has_started(self, times: int) -> None:
        """It has, and its files are kept."""
        pid_file, good = self.folder / "run/slurmd.pid", self.folder / "spool/conf-good"

        def is_kept() -> bool:
            if len(self.starts()) < times or not (pid_file.exists() and good.exists()):
                return False
            last = (self.folder / "starts").stat().st_mtime_ns
            return good.stat().st_mtime_ns >= pid_file.stat().st_mtime_ns >= last

        wait(is_kept, timeout_s=60, what=f"{times} starts")

    def send(self, text: str) -> None:
        """As slurmctld: another file takes the place of the one that is there."""
        new = self.folder / "spool/conf-cache/slurm.conf.new"
        new.write_text(text)
        new.rename(self.folder / "spool/conf-cache/slurm.conf")
        self.end("reconfigure")

    def end(self, code: str) -> None:
        (self.folder / "end.new").write_text(code)
        (self.folder / "end.new").rename(self.folder / "end")

    def ended(self) -> tuple[int, str]:
        assert self.process is not None
        said, _ = self.process.communicate(timeout=60)
        return self.process.returncode, said


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    kept = Kept(tmp_path)
    yield kept
    if kept.process is not None and kept.process.poll() is None:
        os.killpg(kept.process.pid, signal.SIGKILL)
        kept.process.communicate()


def test_one_that_never_started_ends_with_its_code(kept: Kept):
    (kept.folder / "slurmctld/slurm.conf").write_text("bad")
    kept.start()
    assert kept.ended() == (1, "")
    assert kept.starts() == ["-N n1 on bad with "]


def test_in_a_container_that_began_at_a_time_to_come_it_is_not_started(kept: Kept):
    """Its clock was ahead at the boot. The times of the container and of its slurmd could never be compared."""
    kept.start(begun_s=time.time() + 60)
    assert kept.ended() == (
        1,
        "start-slurmd: the clock was set back after this container had started: the container ends and starts again\n",
    )
    assert kept.starts() == []


def test_one_that_dies_starts_again_on_its_files_and_is_looked_after(kept: Kept):
    kept.start()
    kept.has_started(1)
    kept.end("137")
    kept.has_started(2)
    assert kept.starts() == ["-N n1 on first with ", f"-N n1 on first with {kept.folder}/slurm.key"]
    lost, pids = kept.told("asked-for-lost-jobs", times=2), kept.told("looked-after", times=2)
    assert lost == ["n1", "n1"]
    assert len(set(pids)) == 2
    assert pids[-1] == (kept.folder / "run/slurmd.pid").read_text().strip()
    assert kept.process is not None
    kept.process.terminate()
    assert kept.ended() == (0, "start-slurmd: slurmd has ended with 137 and starts again: jobs go on\n")


def test_one_that_cannot_start_on_new_files_goes_on_with_those_that_it_had(kept: Kept):
    (kept.folder / "slurm.jwks").touch()
    kept.start()
    kept.has_started(1)
    kept.send("second")
    kept.has_started(2)
    kept.send("bad")
    kept.has_started(4)
    kept.send("third")
    kept.has_started(5)
    assert [line.split()[3] for line in kept.starts()] == ["first", "second", "bad", "second", "third"]
    assert kept.starts()[3].endswith(f" with {kept.folder}/slurm.jwks")
    assert kept.process is not None
    kept.process.send_signal(signal.SIGTERM)
    assert kept.ended() == (
        0,
        "start-slurmd: slurmd does not start on what slurmctld has sent, and goes on with the files that it had: "
        "jobs go on, and the next pod of n1 starts on the new ones\n",
    )


def test_one_that_does_not_start_on_files_on_which_it_did_ends_after_three_times(kept: Kept):
    kept.start()
    kept.has_started(1)
    (kept.folder / "broken").touch()
    kept.end("reconfigure")
    code, _ = kept.ended()
    assert (code, len(kept.starts())) == (3, 1 + 1 + 3)


def test_one_that_ends_in_order_ends_its_container(kept: Kept):
    kept.start()
    kept.has_started(1)
    kept.end("0")
    assert kept.ended() == (0, "")
