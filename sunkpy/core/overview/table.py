"""Tables of text for a terminal, as kubectl prints them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

_GAP = "   "
_NONE = "-"


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A table of text. `wide`: the titles of columns that are shown only with `-o wide`."""

    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    wide: frozenset[str] = frozenset()


def render_table(table: Table, *, is_wide: bool = False) -> Iterator[str]:
    """Yield the lines of the table, the titles first; none if the table has no rows."""
    if not table.rows:
        return
    shown = [at for at, title in enumerate(table.titles) if is_wide or title not in table.wide]
    lines = [[table.titles[at] for at in shown], *([printable(row[at]) or _NONE for at in shown] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield _GAP.join(f"{text:{width}}" for text, width in zip(line, widths, strict=True)).rstrip()


def printable(text: str) -> str:
    """Return the text on one line, with `?` for characters that a terminal does not show as they are.

    Any user may choose names of jobs and reasons of drains.
    """
    return "".join(each if each.isprintable() else "?" for each in " ".join(text.split()))


def count(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: `1 job`, `2 jobs`."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def first_of(texts: Iterable[str], most: int) -> str:
    """Return the first `most` texts in one line, such as `a, b and 3 more`."""
    listed = list(texts)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more
