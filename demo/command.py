"""Run a program and say clearly what went wrong when it does."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence


class CommandFailed(Exception):
    """A program ended with an error, or did not end in time."""

    def __init__(self, command: Sequence[str], *, code: int | None, output: str) -> None:
        self.command = tuple(command)
        self.code = code
        self.output = output.strip()
        how = "did not end in time" if code is None else f"ended with {code}"
        super().__init__(f"{_shown(command)} {how}: {self.output[-2000:] or 'no output'}")


def run(
    *command: str,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 60,
) -> str:
    """Standard output of a program.

    Raises:
        CommandFailed: it ended with an error, or ran for more than `timeout_s`.
    """
    try:
        done = subprocess.run(
            command,
            input=stdin if stdin is not None else "",
            env=dict(os.environ) | dict(env or {}),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CommandFailed(command, code=None, output=f"nothing after {timeout_s:.0f} s") from error
    except FileNotFoundError as error:
        raise CommandFailed(command, code=127, output=f"{command[0]} is not installed") from error
    if done.returncode != 0:
        raise CommandFailed(command, code=done.returncode, output=done.stderr or done.stdout)
    return done.stdout


def follow(*command: str, tell: Callable[[str], None]) -> None:
    """Run a program that may take long, telling each line it prints.

    Raises:
        CommandFailed: it ended with an error.
    """
    last: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            tell(line.rstrip())
            last = [*last[-20:], line]
    if process.returncode != 0:
        raise CommandFailed(command, code=process.returncode, output="".join(last))


def _shown(command: Sequence[str]) -> str:
    text = " ".join(command)
    return text if len(text) <= 200 else f"{text[:200]}…"


class Remote:
    """A program that runs meanwhile and tells a time at its end. It says `ready` first, so that nothing is missed."""

    def __init__(self, *command: str, env: Mapping[str, str], timeout_s: float) -> None:
        self._command = command
        self._timeout_s = timeout_s
        whole_env = dict(os.environ) | dict(env)
        # Unbuffered, so that reading the first line takes nothing of what follows.
        self._process = subprocess.Popen(
            command, env=whole_env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != b"ready":
            self.time_s()

    def time_s(self) -> float:
        """Wait for its end; the seconds since the epoch that it printed.

        Raises:
            CommandFailed: it failed or timed out.
        """
        try:
            out, errors = self._process.communicate(timeout=self._timeout_s)
        except subprocess.TimeoutExpired as error:
            self._process.kill()
            self._process.communicate()
            raise CommandFailed(self._command, code=None, output=f"nothing after {self._timeout_s:.0f} s") from error
        if self._process.returncode != 0:
            raise CommandFailed(
                self._command, code=self._process.returncode, output=(errors or out).decode(errors="replace")
            )
        return float(out.split()[-1])
