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
    deployment = f"deploy/{stack.release}-{part}"
    replicas = stack.kubectl("get", deployment, "-n", stack.namespace, "-o", "jsonpath={.spec.replicas}")
    stack.kubectl("scale", deployment, "-n", stack.namespace, "--replicas=0")

    def gone() -> bool:
        left = pods_of(stack, part)
        if left:
            raise NotYet(f"{len(left)} left")
        return True

    try:
        wait(gone, timeout_s=60, what=f"{part} is gone")
        yield
    finally:
        stack.kubectl("scale", deployment, "-n", stack.namespace, f"--replicas={replicas}")
        stack.kubectl("rollout", "status", deployment, "-n", stack.namespace, "--timeout=60s", timeout_s=70)
