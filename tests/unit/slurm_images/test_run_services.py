"""Services of a site beside slurmd: order, timeouts, restarts, and their end."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from devcluster.waiting import wait_until
from sunkpy.core.health.verification import failure_of
from tests.unit.core.health.build import pod

PROGRAM = Path(__file__).resolve().parents[3] / "slurm-images" / "bin" / "run-services"


class Services:
    """A folder as the ConfigMap has it; `told` has the lines that services and program wrote."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "services"
        self.folder.mkdir()
        self.kept = folder / "verify/environment"
        self.list = self.folder / "services.list"
        self.list.touch()

    def add(self, name: str, type_: str, script: str, *, up_s: int = 60, down_s: int = 60) -> None:
        file = self.folder / name
        file.write_text(f'#!/bin/bash\ntell() {{ echo "$*" >> {self.folder}/told; }}\n{script}\n')
        file.chmod(0o755)
        with self.list.open("a") as lines:
            lines.write(f"{name} {type_} {up_s} {down_s}\n")

    def start(self, script: str, **env: str) -> subprocess.Popen[str]:
        program = f'tell() {{ echo "$*" >> {self.folder}/told; }}; {script}'
        return subprocess.Popen(
            [PROGRAM, "bash", "-c", program], stderr=subprocess.PIPE, text=True, start_new_session=True,
            env={"PATH": "/usr/bin:/bin", "SUNKPY_SERVICES": str(self.folder), "SUNKPY_PAUSE_S": "0.05",
                 "SITE": "two\nlines"} | env,
        )  # fmt: skip

    @property
    def told(self) -> list[str]:
        file = self.folder / "told"
        return file.read_text().splitlines() if file.exists() else []

    def hears(self, word: str, times: int = 1) -> None:
        assert wait_until(lambda: self.told.count(word) >= times, timeout_s=30, every_s=0.02), self.told


@pytest.fixture
def services(tmp_path: Path) -> Services:
    return Services(tmp_path)


LONGRUN = "trap 'tell NAME down; exit' TERM; tell NAME up; while :; do sleep 0.05; done"


def longrun(name: str) -> str:
    return LONGRUN.replace("NAME", name)


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, said = process.communicate(timeout=60)
    return process.returncode, said


def test_without_services_it_is_the_program(services: Services):
    assert ended(services.start("tell ran; exit 7")) == (7, "")
    assert services.told == ["ran"]


def test_they_start_in_order_before_the_program_and_end_after_it_in_the_opposite_one(services: Services):
    services.add("mount", "oneshot", "sleep 0.1; tell mount")
    services.add("agent", "longrun", longrun("agent"))
    services.add("wait", "oneshot", f"until grep -q 'agent up' {services.folder}/told; do sleep 0.02; done; tell wait")
    services.add("log", "longrun", longrun("log"))
    script = f"until grep -q 'log up' {services.folder}/told; do sleep 0.02; done; tell program; exit 3"
    assert ended(services.start(script))[0] == 3
    assert services.told == ["mount", "agent up", "wait", "log up", "program", "log down", "agent down"]


def test_the_program_is_told_when_the_first_of_them_began(services: Services):
    services.add("mount", "oneshot", "until [ $EPOCHSECONDS -gt $SUNKPY_BEGUN_S ]; do sleep 0.05; done; tell later")
    assert ended(services.start("[ $EPOCHSECONDS -gt $SUNKPY_BEGUN_S ] && tell ran"))[0] == 0
    assert services.told == ["later", "ran"]


def test_a_longrun_that_ends_is_started_again(services: Services):
    services.add("agent", "longrun", "tell up; exit 4")
    process = services.start("sleep 60")
    services.hears("up", times=3)
    process.terminate()
    code, said = ended(process)
    assert code != 0
    assert "agent ended with 4, starting it again" in said


def test_what_a_oneshot_says_stands_where_it_was_said(services: Services):
    """On one stream: whoever reads two of them has their lines in any order."""
    services.add("check", "oneshot", "echo looking; echo link is down >&2; exit 3")
    assert ended(services.start("tell ran")) == (
        1,
        "run-services: running check\nlooking\nlink is down\nrun-services: check failed with 3\n",
    )


def test_the_environment_of_a_check_is_kept_for_root_alone(services: Services):
    services.add("verify", "oneshot", "env -0 > $SUNKPY_SERVICES/../seen")
    assert ended(services.start("tell ran"))[0] == 0
    kept, seen = (file.read_bytes().split(b"\0") for file in (services.kept, services.folder.parent / "seen"))
    assert b"SITE=two\nlines" in kept
    own = (b"_=", b"SHLVL=")
    assert {each for each in kept if not each.startswith(own)} == {each for each in seen if not each.startswith(own)}
    assert [path.stat().st_mode & 0o777 for path in (services.kept.parent, services.kept)] == [0o700, 0o600]


def test_without_a_check_none_is_kept(services: Services):
    ended(services.start("tell ran"))
    assert not services.kept.parent.exists()


@pytest.mark.parametrize(
    ("script", "up_s", "why"), [("exit 5", 60, "check failed with 5"), ("sleep 60", 1, "check took more than 1 s")]
)
def test_without_a_oneshot_the_program_is_not_started(services: Services, script: str, up_s: int, why: str):
    services.add("agent", "longrun", longrun("agent"))
    services.add("until", "oneshot", f"until grep -q 'agent up' {services.folder}/told; do sleep 0.02; done")
    services.add("check", "oneshot", script, up_s=up_s)
    services.add("never", "oneshot", "tell never")
    code, said = ended(services.start("tell program"))
    assert (code, services.told) == (1, ["agent up", "agent down"])
    assert why in said


@pytest.mark.parametrize(
    ("script", "up_s", "how"), [("exit 5", 60, "verify failed with 5"), ("sleep 60", 5, "verify took more than 5 s")]
)
def test_the_operator_reads_how_the_check_of_the_site_failed(services: Services, script: str, up_s: int, how: str):
    services.add("agent", "longrun", longrun("agent"))
    services.add("verify", "oneshot", f"echo 'link is down' >&2; {script}", up_s=up_s)
    failed = failure_of(pod(check_s=1, restarts=1, words=ended(services.start("tell program"))[1]))
    assert failed == (how, "link is down")


def test_a_signal_is_for_the_program_which_may_take_its_time(services: Services):
    services.add("agent", "longrun", longrun("agent"))
    process = services.start(
        "trap 'sleep 0.3; tell program down; exit 0' TERM; tell program; while :; do sleep 0.05; done"
    )
    services.hears("program")
    services.hears("agent up")
    process.terminate()
    process.terminate()
    assert ended(process)[0] == 0
    assert services.told[-2:] == ["program down", "agent down"]


def test_one_that_does_not_go_down_is_killed_with_all_that_it_started(services: Services):
    services.add("stubborn", "longrun", "trap '' TERM; sleep 300 & tell child $!; tell up; wait", down_s=1)
    process = services.start(f"until grep -qx up {services.folder}/told; do sleep 0.02; done")
    assert "stubborn was killed: it had not stopped after 1 s" in ended(process)[1]
    (child,) = (line.split()[1] for line in services.told if line.startswith("child"))
    assert wait_until(lambda: not Path(f"/proc/{child}/cmdline").exists() or _is_zombie(child), timeout_s=10)


def _is_zombie(pid: str) -> bool:
    return ") Z " in Path(f"/proc/{pid}/stat").read_text()


def test_a_signal_while_they_come_up_ends_it(services: Services):
    services.add("agent", "longrun", longrun("agent"))
    services.add("slow", "oneshot", "tell slow; exec sleep 60", up_s=0)
    process = services.start("tell program")
    services.hears("slow")
    services.hears("agent up")
    process.terminate()
    assert ended(process)[0] == 143
    assert services.told[-1] == "agent down"
    assert "program" not in services.told


STUBBORN = "trap '' TERM; tell agent up; while :; do sleep 0.05; done"


@pytest.mark.parametrize(
    ("pid", "agent"), [("running", longrun("agent")), ("child", longrun("agent")), ("child", STUBBORN)]
)
def test_a_signal_between_a_start_and_the_note_of_its_pid_ends_it(
    services: Services, tmp_path: Path, pid: str, agent: str
):
    """bash reads `BASH_ENV`, and so waits before it notes the pid, as on a machine that is overloaded."""
    slow = tmp_path / "slow"
    slow.write_text(f"set -T; trap 'case $BASH_COMMAND in {pid}=\\$!) sleep 0.5 ;; esac' DEBUG\n")
    services.add("agent", "longrun", agent, down_s=2)
    services.add("slow", "oneshot", "tell slow; exec sleep 60", up_s=0)
    process = services.start("tell program", BASH_ENV=str(slow))
    services.hears("slow" if pid == "running" else "agent up")
    process.terminate()
    assert ended(process)[0] == 143
    assert "program" not in services.told
