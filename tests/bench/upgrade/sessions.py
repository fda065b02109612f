"""Sessions of a person while all images change: a shell in the shared login pod, tmux in her own login pod, ssh to her
node.

Each session writes the time to a file in her home once a second, so the last line tells when it ended.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from demo import person
from demo.person import CLIENT, NAME
from demo.stack import Stack
from devcluster import packages, shell
from devcluster.shell import CommandFailed
from devcluster.waiting import NotYet, wait

VALUES: Final[Mapping[str, object]] = {
    "login": {"perUser": {"enabled": True, "users": {NAME: {}}}},
    "compute": {"ssh": {"enabled": True}},
}
"""Values of charts/slurm that are added to the demo's."""
_FOLDER: Final = "sessions"
_SILENT_S: Final = 20.0
"""For how many seconds a running session may write nothing, because two shared cores give it no time."""


class Sessions:
    """The sessions of the demo's person. Her job writes a line when it begins and when it ends."""

    def __init__(self, stack: Stack, volumes: Path, port: int) -> None:
        self._stack = stack
        self._volumes = volumes
        self._shared = person.ssh(person.key(), "-p", str(port), f"{NAME}@127.0.0.1")
        self._own = person.ssh_to_own(NAME, person.key(), port)

    def _in_own(self, command: str) -> str:
        return shell.run([*self._own, command], timeout_s=120).strip()

    def open(self, *, job_s: float) -> subprocess.Popen[bytes]:
        """Start a job of `job_s` seconds, and open all sessions. Return the process of the one in the shared pod."""

        def comes() -> bool:
            try:
                return self._in_own(f"mkdir -p {_FOLDER} && echo in") == "in"
            except CommandFailed as error:
                raise NotYet(str(error)) from error

        wait(comes, timeout_s=180, what=f"{NAME} to come to her own login pod", every_s=2)
        script = f"date +%s >> {_FOLDER}/job; sleep {job_s:.0f}; date +%s >> {_FOLDER}/job"
        said = self._in_own(f"sbatch --parsable --exclusive -p high -J {NAME} -o /dev/null --wrap '{script}'")
        node = self._stack.wait_for_job(int(said), "RUNNING", timeout_s=120)["NodeList"]
        wait(lambda: self._stamps_of("job"), timeout_s=120, what=f"the job of {NAME} to have passed its Prolog")
        # From her own login pod she can ssh to her node with a key in her home.
        keep = f"umask 077; mkdir -p .ssh; cat > .ssh/{NAME}"
        shell.run([*self._own, keep], stdin=person.key().file.read_text(), timeout_s=60)
        options = f"-i ~/.ssh/{NAME} -o StrictHostKeyChecking=no -o BatchMode=yes"
        to_node = f"ssh {options} {node}.{self._stack.release}-compute '{_stamps('node')}'"
        for name, command in (("own", _stamps("own")), ("node", to_node)):
            script = f"{_FOLDER}/{name}.sh"
            self._in_own(f"cat > {script} <<'END'\n{command}\nEND\ntmux new -d -s {name} bash {script}")
        opened = subprocess.Popen([*self._shared, _stamps("shared")], stdin=subprocess.DEVNULL)
        wait(lambda: all(map(self._stamps_of, ("shared", "own", "node"))), timeout_s=60, what="all sessions stamp")
        return opened

    def ended_wrongly(self, *, upgrade_s: float, end_s: float) -> list[str]:
        """Say which sessions ended too early by docs/reference/restarts.md: only that in the shared pod may end."""
        job = self._stamps_of("job")
        if len(job) != 2:
            return [f"job began and ended at {job}"]
        until_s = {"shared": upgrade_s, "own": end_s, "node": job[1]}
        wrong = []
        for name, least_s in until_s.items():
            stamps = self._stamps_of(name)
            silent_s = max(later - at for at, later in zip(stamps, [*stamps[1:], least_s], strict=True))
            if silent_s > _SILENT_S:
                wrong.append(f"{name}: silent for {silent_s} s, last {least_s - stamps[-1]:.0f} s before its time")
        return wrong

    def _stamps_of(self, name: str) -> list[int]:
        files = self._volumes.rglob(f"{NAME}/{_FOLDER}/{name}")
        return [int(line) for file in files for line in file.read_text().split()]


def _stamps(name: str) -> str:
    return f"while date +%s >> {_FOLDER}/{name}; do sleep 1; done"


@contextlib.contextmanager
def opened(stack: Stack, volumes: Path, *, job_s: float) -> Iterator[Sessions]:
    packages.ensure(CLIENT, progress=print)
    with person.forwarded(stack) as port:
        sessions = Sessions(stack, volumes, port)
        shared = sessions.open(job_s=job_s)
        try:
            yield sessions
        finally:
            shared.kill()
            shared.wait()
