"""Commands in a login pod while slurmctld dies, its sackd registers again, and the configuration changes."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from devcluster.waiting import wait
from tests.integration.slurm.daemons import Machines, RealSlurm, give
from tests.roots import SUITE, discard, unpack

pytestmark = pytest.mark.integration

ANN: Final = 2001
CONF: Final = "SlurmctldParameters=enable_configless\n"
ENTER: Final = 'hostname localhost; cd "$1"; mount --bind /dev dev; mount --rbind /proc proc; '
OF_SACKD: Final = (
    ENTER + 'mount --bind "$2" run/login; mount --bind "$2/sackd" run/slurm; exec chroot --userspec=401:401'
)
OF_PEOPLE: Final = ENTER + 'mount --bind -o ro "$2" run/slurm; exec chroot --userspec=2001:2001'
SUBMIT: Final = ("sbatch", "--hold", "--mem=10", "--output=/dev/null", "--chdir=/tmp", "--wrap=true")


class LoginPod:
    """Two containers of a login pod, as the chart mounts its volume into them."""

    def __init__(self, folder: Path, slurm: RealSlurm) -> None:
        self._root, self.volume = folder / "login", folder / "volume"
        unpack(SUITE, ("login",), self._root)
        for path in (self.volume, self.volume / "sackd", self._root / "run/login", self._root / "run/slurm"):
            path.mkdir()
            os.chown(path, 401, 401)
        os.chown(self._root / "etc/slurm", 401, 401)
        shutil.copy(slurm.root / "etc/passwd", self._root / "etc/passwd")
        give(self._root / "keys/slurm.key", (slurm.root / "etc/slurm/slurm.key").read_bytes(), 401)
        env = {"SUNKPY_CONF_SERVER": f"127.0.0.1:{slurm.slurmctld_port}"}
        self._log = folder / "sackd.log"
        with self._log.open("wb") as log:
            argv = self._argv(OF_SACKD, "/usr/local/bin/start-sackd")
            self._sackd = subprocess.Popen(argv, env=os.environ | env, stdout=log, stderr=log)

    def _argv(self, enter: str, *command: str) -> list[str]:
        script = f'{enter} "$1" "${{@:3}}"'
        return ["unshare", "--mount", "--uts", "bash", "-ec", script, "-", str(self._root), str(self.volume), *command]

    def run(self, *command: str) -> tuple[int, str]:
        """Exit code and output of a command of ann."""
        done = subprocess.run(self._argv(OF_PEOPLE, *command), capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stdout + done.stderr

    def logs(self) -> str:
        """What sackd and its script say."""
        return self._log.read_text()

    def slurm_conf(self) -> str:
        """As people read it."""
        code, said = self.run("cat", "/run/slurm/conf/slurm.conf")
        assert code == 0, said
        return said

    def starts(self) -> int:
        """How often sackd has started in its own place, or at first."""
        return sum(line.endswith((": running", "] running")) for line in self.logs().splitlines())

    def stop(self) -> None:
        """sackd ends."""
        self._sackd.terminate()
        self._sackd.wait()
        discard(self._root.parent)


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[RealSlurm]:
    """slurmctld without any node: sackd listens on the port of slurmd."""
    slurm = RealSlurm(tmp_path / "slurm", SUITE, people={"ann": ANN}, machines=Machines(conf=CONF))
    yield slurm
    slurm.stop()


@pytest.fixture
def pod(tmp_path: Path, slurm: RealSlurm) -> Iterator[LoginPod]:
    (tmp_path / "pod").mkdir()
    pod = LoginPod(tmp_path / "pod", slurm)
    try:
        wait((pod.volume / "sack.socket").exists, timeout_s=60, what="sackd to run")
        yield pod
    finally:
        pod.stop()


class Commands:
    """Commands of ann, one after the other. `failed`: what those said that failed, but for a connection that slurmctld
    had not yet read when it made way for itself with the new configuration: sackd has no part in that.
    """

    def __init__(self, pod: LoginPod) -> None:
        self._pod, self.ran, self.failed = pod, 0, list[str]()

    def run_until(self, is_done: Callable[[], bool], what: str) -> None:
        """At least one runs."""

        def one_more() -> bool:
            code, said = self._pod.run(*SUBMIT)
            self.ran += 1
            self.failed.extend([said] if code and "Connection reset by peer" not in said else [])
            return is_done()

        wait(one_more, timeout_s=60, every_s=0, what=what)


def _reconfigure(slurm: RealSlurm, line: str) -> None:
    lines = (slurm.root / "etc/slurm/slurm.conf").read_text().splitlines()
    others = [each for each in lines if each.partition("=")[0] != line.partition("=")[0]]
    slurm.configure("\n".join((*others, line, "")))
    assert slurm.run_as("slurm", "scontrol", "reconfigure") == (0, "")


def test_no_command_fails_while_sackd_registers_with_a_slurmctld_that_has_forgotten_it(pod: LoginPod, slurm: RealSlurm):
    commands = Commands(pod)
    slurm.send("KILL", "slurmctld")
    commands.run_until(lambda: pod.starts() > 1, "sackd to register again")
    enough = commands.ran + 20
    commands.run_until(lambda: commands.ran >= enough, "more commands")
    _reconfigure(slurm, "MaxArraySize=77")
    commands.run_until(lambda: "MaxArraySize=77" in pod.slurm_conf(), "the login pod to be told")
    assert commands.failed == []


def test_no_command_fails_while_people_get_a_new_configuration(pod: LoginPod, slurm: RealSlurm):
    commands = Commands(pod)
    for number in (77, 78, 79):
        line = f"MaxArraySize={number}"
        _reconfigure(slurm, line)
        commands.run_until(lambda line=line: line in pod.slurm_conf(), "the login pod to be told")
    assert commands.failed == []
    shown = pod.run("scontrol", "show", "config")[1]
    assert "MaxArraySize            = 79\n" in shown
