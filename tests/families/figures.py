"""Outcomes as figures of a report, and whole, for whoever wants to know why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from tests.bench import report
from tests.bench.asked import Asked
from tests.bench.report import Figure
from tests.families import cases
from tests.families.cases import Case
from tests.families.room import bring_up_room
from tests.families.run import Outcome, run_all


def measure(asked: Asked) -> list[Figure]:
    """Manifests of all families on a cluster of its own, with room for them."""
    parts = asked.only.split(",")
    wanted = [case for case in cases.read() if any(part in case.manifest for part in parts)]
    if asked.quick:
        wanted = [case for case in wanted if case.manifest in cases.SMALL]
    if not wanted:
        raise click.ClickException(f"--only {asked.only}: no manifest has any of it in its name")
    stack, cluster = bring_up_room(click.echo)
    outcomes: list[Outcome] = []
    for outcome in run_all(stack, cluster, wanted, click.echo):
        outcomes.append(outcome)
        save(outcomes, wanted)  # each time: it takes an hour, and may be ended before
    return figures(outcomes, wanted)


def figures(outcomes: Sequence[Outcome], cases: Sequence[Case]) -> list[Figure]:
    """One figure for each manifest that was run, and how many were right; `n` is the number of jobs that came of it."""
    right = sum(not outcome.wrong for outcome in outcomes)
    skipped = sum(bool(case.missing) for case in cases)
    whole = Figure(
        figure="manifests that became what they should",
        value=right,
        unit=f"of {len(outcomes)}",
        bound=None,
        holds=right == len(outcomes),
        n=len(outcomes),
        limited_by=f"{skipped} more cannot run here" if skipped else "",
    )
    return [whole, *map(figure, outcomes)]


def figure(outcome: Outcome) -> Figure:
    """How long one manifest took, and what was wrong with what came of it."""
    return Figure(
        figure=f"{outcome.case.manifest}: {wanted_text(outcome.case)}",
        value=outcome.seconds,
        unit="s",
        bound=None,
        holds=not outcome.wrong,
        n=len(outcome.jobs),
        limited_by="; ".join(outcome.wrong)[:400],
    )


def wanted_text(case: Case) -> str:
    """`2 x (3 pods, 3 cpus, 384 MiB)`."""
    if case.refused:
        return f"refused: {case.refused}"
    counted = sorted(Counter(case.jobs).items())
    return " + ".join(f"{count} x ({shape})" for shape, count in counted) or "no job of its own"


class _Entry(msgspec.Struct, frozen=True):
    manifest: str
    wanted: str
    seen: tuple[str, ...]
    waves_wanted: tuple[str, ...]
    waves_seen: tuple[int, ...]
    preempted: str
    wrong: tuple[str, ...]
    seconds: float


def save(outcomes: Sequence[Outcome], cases: Sequence[Case], *, folder: Path = report.REPORTS) -> None:
    """`families.json` in the form of all reports, and beside it `families-seen.json` with all that was seen."""
    report.save("families", figures(outcomes, cases), folder=folder)
    entries = [
        _Entry(
            manifest=outcome.case.manifest,
            wanted=wanted_text(outcome.case),
            seen=outcome.jobs,
            waves_wanted=outcome.case.waves,
            waves_seen=outcome.waves,
            preempted=outcome.preempted,
            wrong=outcome.wrong,
            seconds=outcome.seconds,
        )
        for outcome in outcomes
    ]
    skipped = {case.manifest: case.missing for case in cases if case.missing}
    whole = {"run": entries, "not here": skipped}
    (folder / "families-seen.json").write_bytes(msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n")
