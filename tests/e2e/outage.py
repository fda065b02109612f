"""Take a part of the cluster away for a while."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from demo.stack import Stack
from devcluster.waiting import NotYet, wait
from tests.e2e.processes import pods_of


def slurmrestd_down(stack: Stack) -> contextlib.AbstractContextManager[None]:
    """slurmrestd is away while the block runs, and answers again after it."""
    return scaled_to_zero(stack, "slurmrestd")


@contextlib.contextmanager
def scaled_to_zero(stack: Stack, part: str) -> Iterator[None]:
    """A Deployment of the release has no pods while the block runs, and is ready again after it."""
    before = replicas(stack, part)
    scale(stack, part, 0)

    def gone() -> bool:
        left = pods_of(stack, part)
        if left:
            raise NotYet(f"{len(left)} left")
        return True

    try:
        wait(gone, timeout_s=60, what=f"{part} is gone")
        yield
    finally:
        scale(stack, part, before)
        stack.kubectl(
            "rollout", "status", _deployment(stack, part), "-n", stack.namespace, "--timeout=180s", timeout_s=190
        )


def replicas(stack: Stack, part: str) -> int:
    """How many a Deployment of the release wants."""
    text = stack.kubectl("get", _deployment(stack, part), "-n", stack.namespace, "-o", "jsonpath={.spec.replicas}")
    return int(text)


def scale(stack: Stack, part: str, count: int) -> None:
    """Scale a Deployment of the release to `count` replicas."""
    stack.kubectl("scale", _deployment(stack, part), "-n", stack.namespace, f"--replicas={count}")


def _deployment(stack: Stack, part: str) -> str:
    return f"deploy/{stack.release}-{part}"
