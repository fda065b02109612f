"""The reasons that sunkpy writes into Slurm: all start with `k8s: `, and that makes a drain ours."""

from __future__ import annotations

from sunkpy.core import names

REASON_LIMIT = 200
UNKILLABLE = "Kill task failed: job "
"""Prefix of the reason that `report-unkillable` of slurmd's image writes: it is Slurm's own, and the processes that
cannot be killed follow.
"""


def our_reason(text: str) -> str:
    """The text as one line without spare blanks, as Slurm gives it back. Otherwise it would always look like another
    reason.
    """
    line = " ".join(text.split())[:REASON_LIMIT].rstrip()
    return names.REASON_PREFIX + line


def health_reason(why: str) -> str:
    """The reason for a Node that is sick by a signal of `health.signals`."""
    return our_reason(f"health: {why}")


def cordon_reason(why: str) -> str:
    """The reason for a Node that somebody cordoned in Kubernetes."""
    return our_reason(f"cordon: {why}" if why else "cordon")
