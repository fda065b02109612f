"""Take a part of the cluster away for a while."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from demo.stack import Stack
from demo.waiting import NotYet, wait
from tests.e2e.processes import pods_of


@contextlib.contextmanager
def slurmrestd_down(stack: Stack) -> Iterator[None]:
    """slurmrestd is scaled to zero while the block runs, and answers again after it."""
    deployment = f"deploy/{stack.release}-slurmrestd"
    replicas = stack.kubectl("get", deployment, "-n", stack.namespace, "-o", "jsonpath={.spec.replicas}")
    stack.kubectl("scale", deployment, "-n", stack.namespace, "--replicas=0")

    def gone() -> bool:
        left = pods_of(stack, "slurmrestd")
        if left:
            raise NotYet(f"{len(left)} left")
        return True

    try:
        wait(gone, timeout_s=60, what="slurmrestd is gone")
        yield
    finally:
        stack.kubectl("scale", deployment, "-n", stack.namespace, f"--replicas={replicas}")
        stack.kubectl("rollout", "status", deployment, "-n", stack.namespace, "--timeout=60s", timeout_s=70)
