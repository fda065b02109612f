"""Short-lived programs: run, and raise with what they said when they fail."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from devcluster.errors import DevclusterError


def run(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 300,
    netns: Path | None = None,
) -> str:
    """Run ``argv``, in the network namespace bound to ``netns`` when given, and return its stdout."""
    enter = ["nsenter", f"--net={netns}"] if netns else []
    try:
        done = subprocess.run(
            [*enter, *argv], cwd=cwd, env=env, timeout=timeout_s, capture_output=True, text=True, check=False
        )
    except FileNotFoundError as error:
        raise DevclusterError(
            f"{argv[0]} is not on this machine; `python -m devcluster doctor` says what to install"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise DevclusterError(f"`{' '.join(argv)}` did not end within {timeout_s:g} s") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise DevclusterError(f"`{' '.join(argv)}` failed with exit code {done.returncode}: {said}")
    return done.stdout


def succeeds(argv: Sequence[str], *, netns: Path | None = None) -> bool:
    """Whether ``argv`` ends with 0; for questions, where failing is an answer."""
    enter = ["nsenter", f"--net={netns}"] if netns else []
    return subprocess.run([*enter, *argv], capture_output=True, check=False).returncode == 0
