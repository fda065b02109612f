"""What a benchmark measured, as a file for machines and a table for people (design: reports).

A report is a list of figures. A figure says by itself whether its bound holds, so that nobody has to interpret it; one
that does not hold says what limits it, and the run still ends.
"""

from __future__ import annotations

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
"""Of what is wrong, so many are told."""


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """What did the same thing in the same run, and our value over its value."""

    name: str
    value: float
    ratio: float | None


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One measured number. `bound` is the most that `value` may be, in the same unit."""

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
    """A figure that holds while `value <= bound`; `limited_by` is kept only when it does not."""
    value, holds, why = round(value, 4), value <= bound, "" if value <= bound else limited_by
    return Figure(
        figure=figure, value=value, unit=unit, bound=bound, holds=holds, n=n, seed=seed, peer=peer, limited_by=why
    )


def none(figure: str, wrong: Collection[str], *, n: int = 1, seed: int | None = None) -> Figure:
    """A figure that holds while nothing is wrong, of `n` that were looked at; else the first of it are named."""
    named = "; ".join([*wrong][:_NAMED])
    return at_most(figure, len(wrong), unit="", bound=0, n=n, limited_by=named, seed=seed)


def spread(
    figure: str,
    values: Sequence[float],
    *,
    bounds: tuple[float, float],
    limited_by: str = "",
    peer: Other | None = None,
) -> list[Figure]:
    """Median and p95 in seconds, with their bounds; `peer`: the name of another, and what was measured of it."""
    found = []
    for name, statistic, bound in (("median", median, bounds[0]), ("p95", p95, bounds[1])):
        value = statistic(values)
        other = None if peer is None else against(f"{peer[0]}, {name}", statistic(peer[1]), ours=value)
        found.append(at_most(f"{figure}, {name}", value, bound=bound, n=len(values), limited_by=limited_by, peer=other))
    return found


def longest_turn(found: Sequence[Hold], *, bound_s: float, of: str = "the scheduler's event loop") -> Figure:
    """How long an event loop was held at most, and by what."""
    longest, unit = holds.longest(found), "s of processor time"
    what = f"longest turn of {of}"
    return at_most(what, longest.held_s, unit=unit, bound=bound_s, n=len(found), limited_by=longest.what)


def observed(figure: str, value: float, *, unit: str = "s", n: int = 1, peer: Peer | None = None) -> Figure:
    """A figure without a bound, for the record."""
    return Figure(figure=figure, value=round(value, 4), unit=unit, bound=None, holds=True, n=n, peer=peer)


def against(name: str, theirs: float, *, ours: float) -> Peer:
    """The peer's value and how many times more we take."""
    return Peer(name=name, value=round(theirs, 4), ratio=round(ours / theirs, 3) if theirs else None)


def median(values: Sequence[float]) -> float:
    """Middle of the values."""
    return statistics.median(values)


def p95(values: Sequence[float]) -> float:
    """The smallest value that 95 of 100 do not exceed (nearest rank: always one that was measured)."""
    return _at_rank(values, 95)


def p99(values: Sequence[float]) -> float:
    """The smallest value that 99 of 100 do not exceed; of fewer than a hundred it is the largest."""
    return _at_rank(values, 99)


def _at_rank(values: Sequence[float], percent: int) -> float:
    ranked = sorted(values)
    return ranked[-(-percent * len(ranked) // 100) - 1]


def write(name: str, figures: Sequence[Figure], *, folder: Path = REPORTS, console: Console | None = None) -> Path:
    """Write `<folder>/<name>.json` and print the same as a table."""
    path = save(name, figures, folder=folder)
    (console or _console()).print(_table(name, figures))
    return path


def save(name: str, figures: Sequence[Figure], *, folder: Path = REPORTS) -> Path:
    """Write `<folder>/<name>.json`, as the state of a run that goes on."""
    path = folder / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode([_entry(figure) for figure in figures]), indent=2) + b"\n")
    return path


def _console() -> Console:
    """As wide as the terminal; a log file has room for whole lines."""
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
