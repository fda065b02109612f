"""Drains of Slurm nodes, waited for."""

from __future__ import annotations

from demo.stack import Stack
from devcluster.waiting import wait_until_equal
from sunkpy.core import names
from sunkpy.core.model.objects import Pod


def is_drained(stack: Stack, pod: Pod) -> bool:
    """Slurm gives the node of a slurmd pod no new job."""
    return "DRAIN" in stack.slurm_nodes()[pod.labels[names.LABEL_SLURM_NODE]]["State"]


def wait_for_drain(stack: Stack, pod: Pod, *, wanted: bool, timeout_s: float) -> None:
    """Wait until the node of a slurmd pod is drained, or is not any more.

    Raises:
        NeverSo: it is not so after `timeout_s`.
    """
    what = f"Slurm node of {pod.name} drained"
    wait_until_equal(lambda: is_drained(stack, pod), wanted, timeout_s=timeout_s, what=what)
