"""What a benchmark measured, as a file for programs and a table for people (design: reports).

A report is a list of figures. A figure says itself whether its bound holds, and if not, what limits it. The run goes on
after a figure that does not hold.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from tests.bench import holds
from tests.bench.holds import Hold

REPORTS = Path("build/reports")
Other = tuple[str, Sequence[float]]
_NAMED = 20
"""The most faults that one figure names."""


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """The value of something else that did the same in the same run, and our value divided by it."""

    name: str
    value: float
    ratio: float | None


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One measured number. `bound`: the most that `value` may be, in the same unit; None: no bound."""

    figure: str
    value: float
    unit: str
    bound: float | None
    holds: bool
    n: int
    seed: int | None = None
    peer: Peer | None = None
    limited_by: str = ""


def at_most(
    figure: str,
    value: float,
    *,
    bound: float,
    unit: str = "s",
    n: int = 1,
    limited_by: str = "",
    peer: Peer | None = None,
    seed: int | None = None,
) -> Figure:
    """Return a figure that holds if `value <= bound`. If it does not, it says by what it is `limited_by`: by default
    the machine, on which all programs run.
    """
    value, holds = round(value, 4), value <= bound
    why = "" if holds else limited_by or f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    return Figure(
        figure=figure, value=value, unit=unit, bound=bound, holds=holds, n=n, seed=seed, peer=peer, limited_by=why
    )


def none(figure: str, wrong: Collection[str], *, n: int = 1, seed: int | None = None) -> Figure:
    """Return a figure that holds if nothing is `wrong`, of `n` things that were checked; else it names the first."""
    named = "; ".join([*wrong][:_NAMED])
    return at_most(figure, len(wrong), unit="", bound=0, n=n, limited_by=named, seed=seed)


def spread(
    figure: str, values: Sequence[float], *, bounds: tuple[float, float], peer: Other | None = None
) -> list[Figure]:
    """Return figures of median and p95 in seconds. `peer`: name and values of something to compare with."""
    found = []
    for name, statistic, bound in (("median", median, bounds[0]), ("p95", p95, bounds[1])):
        value = statistic(values)
        other = None if peer is None else against(f"{peer[0]}, {name}", statistic(peer[1]), ours=value)
        found.append(at_most(f"{figure}, {name}", value, bound=bound, n=len(values), peer=other))
    return found


def longest_turn(found: Sequence[Hold], *, bound_s: float, of: str = "the scheduler's event loop") -> Figure:
    """Return a figure of the longest time that an event loop was held, and by what."""
    longest, unit = holds.longest(found), "s of processor time"
    what = f"longest turn of {of}"
    return at_most(what, longest.held_s, unit=unit, bound=bound_s, n=len(found), limited_by=longest.what)


def observed(figure: str, value: float, *, unit: str = "s", n: int = 1, peer: Peer | None = None) -> Figure:
    return Figure(figure=figure, value=round(value, 4), unit=unit, bound=None, holds=True, n=n, peer=peer)


def against(name: str, theirs: float, *, ours: float) -> Peer:
    """Return what we are compared with, `name`, with its value, and our value divided by it."""
    return Peer(name=name, value=round(theirs, 4), ratio=round(ours / theirs, 3) if theirs else None)


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def p95(values: Sequence[float]) -> float:
    """Return the smallest value that 95 of 100 do not exceed (nearest rank: always a measured value)."""
    return _at_rank(values, 95)


def p99(values: Sequence[float]) -> float:
    """Return the smallest value that 99 of 100 do not exceed; of fewer than a hundred values, the largest."""
    return _at_rank(values, 99)


def _at_rank(values: Sequence[float], percent: int) -> float:
    ranked = sorted(values)
    return ranked[-(-percent * len(ranked) // 100) - 1]


def write(name: str, figures: Sequence[Figure], *, folder: Path = REPORTS, console: Console | None = None) -> Path:
    """Write `<folder>/<name>.json` and print the same as a table. Return the file's path."""
    path = save(name, figures, folder=folder)
    (console or _console()).print(_table(name, figures))
    return path


def save(name: str, figures: Sequence[Figure], *, folder: Path = REPORTS) -> Path:
    """Write the figures to `<folder>/<name>.json`, also while a run goes on. Return the file's path."""
    path = folder / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode([_entry(figure) for figure in figures]), indent=2) + b"\n")
    return path


def _console() -> Console:
    """Return a console as wide as the terminal; in a log file, wide enough for whole lines."""
    console = Console()
    return console if console.is_terminal else Console(width=180)


def _entry(figure: Figure) -> dict[str, object]:
    entry: dict[str, object] = msgspec.to_builtins(figure)
    if not figure.limited_by:
        del entry["limited_by"]
    return entry


def _table(name: str, figures: Sequence[Figure]) -> Table:
    table = Table("figure", "value", "bound", "holds", "n", "peer", "limited by", title=name)
    for figure in figures:
        table.add_row(
            figure.figure,
            f"{figure.value:g} {figure.unit}",
            "-" if figure.bound is None else f"{figure.bound:g} {figure.unit}",
            "yes" if figure.holds else "NO",
            str(figure.n),
            "-" if figure.peer is None else _peer(figure.peer),
            figure.limited_by,
        )
    return table


def _peer(peer: Peer) -> str:
    ratio = "" if peer.ratio is None else f" (x{peer.ratio:g})"
    return f"{peer.name} {peer.value:g}{ratio}"
