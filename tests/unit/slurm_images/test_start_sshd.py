"""start-sshd as a process in namespaces of its own, with the chart's rights; a program stands for sshd."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from devcluster.waiting import wait_until

SCRIPT = Path(__file__).parents[3] / "slurm-images" / "bin" / "start-sshd"
SITUATION = """\
set -euo pipefail
hold-memory() { :; }
ulimit() { echo "ulimit $*"; return 1; }
SUNKPY_PERSON_MEMORY_MIB=2 SUNKPY_PERSON_PROCESSES=9
eval "$(sed -n '/^# All that people start/,/^host_keys=/p' "$1")"
echo "sshd starts"
"""


def test_a_lower_limit_of_the_container_does_not_keep_sshd_from_starting():
    done = subprocess.run(["bash", "-c", SITUATION, "-", SCRIPT], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["ulimit -d 2048", "ulimit -u 9", "sshd starts"], done.stderr


@pytest.mark.parametrize(("port", "option"), [("", ""), ("2022", "-p 2022 ")])
def test_sshd_listens_where_it_is_told_in_place_of_its_configuration(port: str, option: str):
    """With a port on the command line, sshd ignores the ports of its configuration (sshd(8))."""
    (line,) = [line for line in SCRIPT.read_text().splitlines() if "/usr/sbin/sshd -D" in line]
    shell = f"host_keys=(-h /key); {line.replace('/usr/sbin/sshd', 'echo').rstrip(' &')}"
    env = {**os.environ, "SUNKPY_SSH_PORT": port}
    done = subprocess.run(["bash", "-uc", shell], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == f"-D -e -f /run/sshd_config {option}-h /key\n"


SSHD: Final = """\
#!/bin/bash
[ "$1" != -t ] || exit 0
trap 'echo "sshd has read $(head -1 /run/sshd_config)"' HUP
echo "sshd listens"
while sleep 0.05; do :; done
"""
RIGHTS: Final = (
    "--bounding-set=-all,+audit_write,+chown,+setgid,+setuid,+sys_chroot",
    "--inh-caps=-all",
    "--no-new-privs",
)
ENTER: Final = f"""\
set -e
mount --bind "$1/sbin" /usr/sbin
mount -t tmpfs tmpfs /run
mount --bind "$1/lib" /var/lib
exec setpriv {" ".join(RIGHTS)} "$2" "$1/pod"
"""


class Program:
    """start-sshd with a folder of its own, as beside slurmd, for the files `config` and `keys`."""

    def __init__(self, folder: Path) -> None:
        self.config, self._log, self._folder = folder / "pod/config", folder / "log", folder
        for name in ("pod/config", "pod/ca", "pod/keys", "sbin", "bin", "lib/extrausers"):
            (folder / name).mkdir(parents=True)
        for file, text in {"sbin/sshd": SSHD, "bin/raise-limits": "", "lib/extrausers/passwd": ""}.items():
            (folder / file).write_text(text)
            (folder / file).chmod(0o755)
        (folder / "pod/keys/ssh_host_ed25519_key").write_text("")
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, **env: str) -> None:
        """Start it, and wait until sshd listens."""
        own = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
        path = f"{self._folder}/bin:{os.environ['PATH']}"
        with self._log.open("wb") as log:
            program = subprocess.Popen(
                [*own, "bash", "-c", ENTER, "-", self._folder, SCRIPT],
                env={**os.environ, "PATH": path, "SUNKPY_LOOK_S": "0.1", **env}, stdout=log, stderr=log,
            )  # fmt: skip
        self._processes.append(program)
        self.await_log("sshd listens")

    def log(self) -> str:
        """What it and sshd have printed."""
        return self._log.read_text()

    def await_log(self, text: str) -> None:
        """Wait until it has printed a text."""
        assert wait_until(lambda: text in self.log(), timeout_s=60, every_s=0.05), self.log()

    def stop(self) -> None:
        """End all processes."""
        for process in self._processes:
            process.kill()
            process.wait()


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    if os.geteuid() != 0:
        pytest.skip("needs root: namespaces, and processes of several users")
    program = Program(tmp_path)
    yield program
    program.stop()


@pytest.mark.parametrize(
    "line",
    [
        "RevokedKeys {}/revoked_keys",
        "TrustedUserCAKeys {}/trusted_user_ca_keys",
        "AuthorizedPrincipalsCommand /usr/bin/awk '{{ print }}' %u {}/principals",
    ],
)
def test_a_configuration_that_names_a_missing_file_counts_once_the_file_is_there(program: Program, line: str):
    """sshd itself would take it, and refuse everybody."""
    config, line = program.config / "sshd_config", line.format(program.config)
    config.write_text("# one\n")
    program.start()
    config.write_text(f"# two\n{line}\n")
    file = Path(line.split()[-1])
    program.await_log(f"start-sshd: {file} is missing, so sshd_config, which names it, is not used\n")
    config.write_text("# three\n")
    program.await_log("sshd has read # three")
    config.write_text(f"# four\n{line}\n")
    assert wait_until(lambda: program.log().count("is missing") == 2, timeout_s=60, every_s=0.05), program.log()
    file.write_text("")
    program.await_log("sshd has read # four")
    assert "# two" not in program.log()
