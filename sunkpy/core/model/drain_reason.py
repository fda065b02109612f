"""The reasons of sunkpy's drains in Slurm: all start with `k8s: `, by which sunkpy recognises its own drains."""

from __future__ import annotations

from sunkpy.core import names

REASON_LIMIT = 200
UNKILLABLE = "Kill task failed: job "
"""The beginning of the drain reason that `report-unkillable` in slurmd's image writes when a job's processes cannot be
killed; job, step and processes follow. Slurm's own reason begins with `Kill task failed`, too.
"""


def our_reason(text: str) -> str:
    """Return the drain reason `k8s: <text>`, with the text cut to `REASON_LIMIT` characters, as one line without spare
    blanks, which is how Slurm gives it back. With other blanks, Slurm's reason would always seem to differ from this
    one.
    """
    line = " ".join(text.split())[:REASON_LIMIT].rstrip()
    return names.REASON_PREFIX + line


def health_reason(why: str) -> str:
    """Return the drain reason for a Node that a signal of `health.signals` calls sick."""
    return our_reason(f"health: {why}")


def cordon_reason(why: str) -> str:
    """Return the drain reason for a Node that somebody cordoned in Kubernetes."""
    return our_reason(f"cordon: {why}" if why else "cordon")
