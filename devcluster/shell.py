"""Short-lived programs: run, and raise with what they said when they fail."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from devcluster.errors import DevclusterError


class CommandFailed(DevclusterError):
    """A program ended with an error (`code`), or did not end in time (`code` is None)."""

    def __init__(self, argv: Sequence[str], how: str, *, code: int | None, output: str = "") -> None:
        self.argv = tuple(argv)
        self.code = code
        self.output = output.strip()
        command = " ".join(argv)
        shown = command if len(command) <= 200 else f"{command[:200]}…"
        super().__init__(f"`{shown}` {how}" + (f": {self.output[-2000:]}" if self.output else ""))


def failed(argv: Sequence[str], code: int, output: str) -> CommandFailed:
    """A program that ended with another code than 0."""
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
    """Run ``argv``, in the network namespace bound to ``netns`` and in the folder ``cwd`` when given; its stdout.

    ``env`` is added to the environment of this process.

    Raises:
        CommandFailed: it is not there, ended with an error, or ran for more than ``timeout_s``.
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
        how = "is not on this machine; `python -m devcluster doctor` says what to install"
        raise CommandFailed(argv[:1], how, code=127) from error
    except subprocess.TimeoutExpired as error:
        raise CommandFailed(argv, f"did not end within {timeout_s:g} s", code=None) from error
    if done.returncode != 0:
        raise failed(argv, done.returncode, done.stderr or done.stdout)
    return done.stdout


def succeeds(argv: Sequence[str], *, netns: Path | None = None) -> bool:
    """Whether ``argv`` ends with 0; for questions, where failing is an answer."""
    enter = ["nsenter", f"--net={netns}"] if netns else []
    return subprocess.run([*enter, *argv], capture_output=True, check=False).returncode == 0
