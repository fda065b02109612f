"""A day at work: commands that researchers type, from manuals and documentation of sites, do what is promised there.

Each file of typed/ is one thing that is typed; cases.py says what its header means. What needs software finds it
unpacked in the home, from outside: a login pod of these tests has no internet.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from demo import person
from demo.person import NAME
from demo.stack import Stack
from devcluster import packages
from devcluster.waiting import NotYet, wait
from tests.e2e.day import cases, software
from tests.e2e.day.cases import Case

pytestmark = pytest.mark.e2e

ON_A_LAPTOP: Final = {"ssh": "openssh-client", "rsync": "rsync"}
HANGS_S: Final = 240
"""A case hangs that takes so many seconds longer than on an idle machine."""
CASES: Final = [case for case in cases.read() if not case.cannot]
AS_PARAMETERS: Final = [
    pytest.param(case, id=case.name, marks=[pytest.mark.long] if case.is_long else []) for case in CASES
]


class Way:
    """The way to the login pod from a laptop, which calls the pod `cluster`."""

    def __init__(self, port: int, folder: Path) -> None:
        self._folder = folder
        (ssh, *options) = person.ssh(person.key(), "-p", str(port), f"-l{NAME}", "-oHostName=127.0.0.1")
        self.argv = [ssh, *options, "cluster"]
        config = folder / "config"
        config.write_text(
            f"Host *\n  IdentityFile {person.key().file}\n  User {NAME}\n  BatchMode yes\n  LogLevel ERROR\n"
            "  StrictHostKeyChecking no\n  UserKnownHostsFile /dev/null\n"
            f"Host cluster\n  HostName 127.0.0.1\n  Port {port}\n"
        )
        for program in ("ssh", "scp", "sftp"):
            called = folder / program
            called.write_text(f'#!/bin/bash\nexec /usr/bin/{program} -F {shlex.quote(str(config))} "$@"\n')
            called.chmod(0o755)

    def type(self, case: Case) -> tuple[int, str]:
        """Exit code and output of a case, in a folder of its own."""
        shell = "bash -leo pipefail typed 2>&1 < /dev/null"
        if case.is_typed_on_a_laptop:
            (self._folder / case.name).mkdir()
            command = ["bash", "-c", f"cd {self._folder}/{case.name}; cat > typed; {shell.replace('-leo', '-eo')}"]
        else:
            command = [*self.argv, f"rm -rf {case.name}; mkdir {case.name}; cd {case.name}; cat > typed; {shell}"]
        env = {**os.environ, "PATH": f"{self._folder}:{os.environ['PATH']}"}
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=env, text=True, start_new_session=True)
        try:
            said, _ = process.communicate(case.script + "\n", timeout=case.limit_s + HANGS_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # also what the script has in the background, which holds the output
            said, _ = process.communicate()
            said += f"\nended after {case.limit_s + HANGS_S:.0f} s"
        return process.returncode, said.replace("\r\n", "\n").strip()


@pytest.fixture(scope="module")
def way(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Way]:
    packages.ensure(ON_A_LAPTOP, progress=print)
    with person.forwarded(stack) as port:
        way = Way(port, tmp_path_factory.mktemp("laptop"))

        def comes() -> bool:
            done = subprocess.run([*way.argv, "true"], check=False, capture_output=True, text=True, timeout=30)
            if done.returncode:
                raise NotYet(done.stderr)
            return True

        wait(comes, timeout_s=120, what=f"{NAME} to come in by ssh")
        yield way


@pytest.fixture(scope="module")
def with_software(stack: Stack, way: Way) -> Iterator[None]:
    software.install(stack, way.argv)
    yield
    subprocess.run([*way.argv, "rm -rf ~/software"], check=True, timeout=120)


@pytest.mark.parametrize("case", AS_PARAMETERS)
def test_what_people_type(request: pytest.FixtureRequest, stack: Stack, way: Way, case: Case) -> None:
    if stack.suite == "sid" and case.cannot_on_newer:
        pytest.skip(case.cannot_on_newer)
    if case.needs_software:
        request.getfixturevalue("with_software")
    try:
        code, said = way.type(case)
    finally:
        stack.admin("scancel", "--quiet", f"--user={NAME}")
    assert code == 0, said
    assert re.fullmatch(case.says, said), f"{said}\n--- not\n{case.says}"
    subprocess.run([*way.argv, f"rm -rf {case.name}"], check=True, timeout=60)
