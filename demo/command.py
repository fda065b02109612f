"""Runs programs that take long: with each line printed at once, or in the background until they print a time."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping

from devcluster.shell import CommandFailed, failed


def follow(*command: str, tell: Callable[[str], None]) -> None:
    """Run a program, and pass each line that it prints to `tell` at once.

    Raises:
        CommandFailed: the program ended with an error.
    """
    last: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            tell(line.rstrip())
            last = [*last[-20:], line]
    if process.returncode != 0:
        raise failed(command, process.returncode, "".join(last))


class Remote:
    """A program in the background that prints a time at its end. It prints `ready` first: from then on it misses
    nothing.
    """

    def __init__(self, *command: str, env: Mapping[str, str], timeout_s: float) -> None:
        self._command = command
        self._timeout_s = timeout_s
        whole_env = dict(os.environ) | dict(env)
        # Unbuffered, so that reading the first line reads no more than that.
        self._process = subprocess.Popen(
            command, env=whole_env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != b"ready":
            self.time_s()

    def time_s(self) -> float:
        """Wait for the program's end; return the seconds since the epoch that it printed.

        Raises:
            CommandFailed: the program failed or timed out.
        """
        try:
            out, errors = self._process.communicate(timeout=self._timeout_s)
        except subprocess.TimeoutExpired as error:
            self._process.kill()
            self._process.communicate()
            how = f"did not end within {self._timeout_s:g} s"
            raise CommandFailed(self._command, how, code=None) from error
        if self._process.returncode != 0:
            raise failed(self._command, self._process.returncode, (errors or out).decode(errors="replace"))
        return float(out.split()[-1])
