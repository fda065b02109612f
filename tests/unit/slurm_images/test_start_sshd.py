"""start-sshd as a process in namespaces of its own, with the chart's rights; a program stands for sshd."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from devcluster.waiting import wait_until
from tests import process_tree

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
GETENT: Final = """\
#!/bin/bash
for file in extrausers/passwd $([ ! -S /var/lib/sss/pipes/nss ] || echo directory); do
  ! grep -q "^[^:]*:[^:]*:$2:" "/var/lib/$file" || exit 0
done
exit 2
"""
"""It knows people of the values, and those of the directory while sssd answers."""
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
as() {{ local uid=$1; shift; setpriv --reuid "$uid" --regid "$uid" --clear-groups "$@"; }}
eval "$3"
exec setpriv {" ".join(RIGHTS)} "$2" "$1/pod"
"""


class Program:
    """start-sshd with a folder of its own, as beside slurmd, for the files `config` and `keys`.

    Values (`extrausers/passwd`) and the `directory` have people, whose name is their uid.
    """

    def __init__(self, folder: Path) -> None:
        self.config, self._log, self._folder = folder / "pod/config", folder / "log", folder
        for name in ("pod/config", "pod/ca", "pod/keys", "sbin", "bin", "lib/extrausers"):
            (folder / name).mkdir(parents=True)
        self.have("extrausers/passwd")
        self.have("directory")
        (self.config / "sshd_config").write_text("# one\n")
        for file, text in {"sbin/sshd": SSHD, "bin/getent": GETENT, "bin/raise-limits": ""}.items():
            (folder / file).write_text(text)
            (folder / file).chmod(0o755)
        (folder / "pod/keys/ssh_host_ed25519_key").write_text("")
        self._processes: list[subprocess.Popen[bytes]] = []

    def have(self, file: str, *uids: int) -> None:
        """Write the people of the values (extrausers/passwd) or of the directory."""
        part = self._folder / "lib/part"
        part.write_text("".join(f"p{uid}:*:{uid}:{uid}::/:/bin/sh\n" for uid in uids))
        part.rename(self._folder / "lib" / file)

    def start(self, sessions: str = "", **env: str) -> None:
        """Start it, and wait until sshd listens. `sessions`: commands that people have started before."""
        # Under nohup the tests ignore SIGHUP, and so would all that they start.
        own = ["env", "--default-signal=HUP", "unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
        path = f"{self._folder}/bin:{os.environ['PATH']}"
        with self._log.open("wb") as log:
            program = subprocess.Popen(
                [*own, "bash", "-c", ENTER, "-", self._folder, SCRIPT, sessions],
                env={**os.environ, "PATH": path, "SUNKPY_LOOK_S": "0.1", **env}, stdout=log, stderr=log,
            )  # fmt: skip
        self._processes.append(program)
        self.await_log("sshd listens")

    def runs(self, uid: int) -> int:
        """How many processes of a user run beside it."""
        found = 0
        for pid in process_tree.below(self._processes[-1].pid):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                found += Path(f"/proc/{pid}").stat().st_uid == uid
        return found

    @contextlib.contextmanager
    def sssd(self) -> Iterator[None]:
        """sssd answers."""
        (self._folder / "lib/sss/pipes").mkdir(parents=True)
        folder = os.open(self._folder / "lib/sss/pipes", os.O_PATH)
        with socket.socket(socket.AF_UNIX) as answers:
            answers.bind(f"/proc/self/fd/{folder}/nss")  # the path itself may be too long
            answers.listen(4096)
            yield
        os.close(folder)

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


GONE: Final = 54321
STAYS: Final = 54322
MANY: Final = "perl -e '$SIG{HUP} = q(IGNORE); for (2 .. 12) { fork or last } sleep 600'"
"""A program that ignores SIGHUP, in twelve processes."""


@pytest.mark.parametrize("most", ["", "10"])
def test_who_is_removed_from_the_values_loses_all_processes_also_at_the_limit_of_them(program: Program, most: str):
    program.have("extrausers/passwd", GONE, STAYS)
    program.start(f"as {GONE} {MANY} & as {STAYS} sleep 600 &", SUNKPY_END_SESSIONS="1", SUNKPY_PERSON_PROCESSES=most)
    assert wait_until(lambda: program.runs(GONE) == 12, timeout_s=60, every_s=0.05), program.log()
    program.have("extrausers/passwd", STAYS)
    assert wait_until(lambda: not program.runs(GONE), timeout_s=60, every_s=0.05), program.log()
    assert program.log().count(f"start-sshd: uid {GONE} belongs to no user any more: its processes are ended\n") == 1
    assert program.runs(STAYS) == 1


def test_who_moves_to_the_directory_keeps_their_sessions_while_sssd_is_away(program: Program):
    program.have("extrausers/passwd", GONE, STAYS)
    program.start(f"as {GONE} sleep 600 & as {STAYS} sleep 600 &", SUNKPY_END_SESSIONS="1", SUNKPY_SSSD="1")
    program.have("extrausers/passwd")
    program.have("directory", STAYS)
    for look in range(6):
        (program.config / "sshd_config").write_text(f"# look {look}\n")
        program.await_log(f"sshd has read # look {look}\n")
    assert (program.runs(GONE), program.runs(STAYS)) == (1, 1), program.log()
    with program.sssd():
        assert wait_until(lambda: not program.runs(GONE), timeout_s=60, every_s=0.05), program.log()
        assert program.runs(STAYS) == 1
