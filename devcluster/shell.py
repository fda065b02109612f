"""Runs short-lived programs, and raises an error with their output if they fail."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from devcluster.errors import DevclusterError


class CommandFailed(DevclusterError):
    """A program failed with exit code `code`, or did not end in time (`code` is None)."""

    def __init__(self, argv: Sequence[str], how: str, *, code: int | None, output: str = "") -> None:
        self.argv = tuple(argv)
        self.code = code
        self.output = output.strip()
        command = " ".join(argv)
        shown = command if len(command) <= 200 else f"{command[:200]}…"
        super().__init__(f"`{shown}` {how}" + (f": {self.output[-2000:]}" if self.output else ""))


def failed(argv: Sequence[str], code: int, output: str) -> CommandFailed:
    """Return the error for a program that ended with another exit code than 0."""
    return CommandFailed(argv, f"failed with exit code {code}", code=code, output=output)


def run(
    argv: Sequence[str],
    *,
    stdin: str = "",
    env: Mapping[str, str] | None = None,
    timeout_s: float = 300,
    netns: Path | None = None,
    cwd: Path | None = None,
) -> str:
    """Run a program and return its stdout. ``netns``: the network namespace; ``cwd``: the folder.

    ``env`` is added to the environment of this process.

    Raises:
        CommandFailed: the program is missing, failed, or ran longer than ``timeout_s``.
    """
    enter = ["nsenter", f"--net={netns}"] if netns else []
    try:
        done = subprocess.run(
            [*enter, *argv],
            input=stdin,
            env={**os.environ, **(env or {})},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            cwd=cwd,
            check=False,
        )
    except FileNotFoundError as error:
        how = "is not on this machine; `.venv/bin/python -m devcluster doctor` says what to install"
        raise CommandFailed(argv[:1], how, code=127) from error
    except subprocess.TimeoutExpired as error:
        raise CommandFailed(argv, f"did not end within {timeout_s:g} s", code=None) from error
    if done.returncode != 0:
        raise failed(argv, done.returncode, done.stderr or done.stdout)
    return done.stdout


def succeeds(argv: Sequence[str], *, netns: Path | None = None) -> bool:
    """Run a program, and return whether its exit code is 0; for checks, where a failure is an answer."""
    enter = ["nsenter", f"--net={netns}"] if netns else []
    return subprocess.run([*enter, *argv], capture_output=True, check=False).returncode == 0
