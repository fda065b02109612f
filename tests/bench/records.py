"""What slurmdbd has of the jobs that a bench submitted."""

from __future__ import annotations

from collections.abc import Collection

from demo.stack import Stack
from tests.bench import report


def recorded_once(stack: Stack, jobs: Collection[str], *, what: str = "records lost or doubled") -> report.Figure:
    """Jobs, by their names, of which slurmdbd has no record, or several."""
    recorded = stack.login("sacct -anXP -o jobname -S now-1day").split()
    wrong = [name for name in jobs if recorded.count(name) != 1]
    return report.at_most(what, len(wrong), unit="", bound=0, n=len(jobs), limited_by=str(wrong))
