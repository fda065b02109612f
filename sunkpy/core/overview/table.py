"""Tables of text, as kubectl prints them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

_GAP = "   "
_NONE = "-"


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """Rows below a line of titles; the columns in `wide` are left out unless somebody wants them."""

    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    wide: frozenset[str] = frozenset()


def render_table(table: Table, *, is_wide: bool = False) -> Iterator[str]:
    """The lines, the titles first; none for a table without rows."""
    if not table.rows:
        return
    shown = [at for at, title in enumerate(table.titles) if is_wide or title not in table.wide]
    lines = [[table.titles[at] for at in shown], *([printable(row[at]) or _NONE for at in shown] for row in table.rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield _GAP.join(f"{text:{width}}" for text, width in zip(line, widths, strict=True)).rstrip()


def printable(text: str) -> str:
    """The text on one line, with only characters that a terminal shows as they are: anybody may choose names of jobs
    and reasons of drains.
    """
    return "".join(each if each.isprintable() else "?" for each in " ".join(text.split()))


def count(number: int, one: str, many: str = "") -> str:
    """`1 job`, `2 jobs`."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def first_of(texts: Iterable[str], most: int) -> str:
    """`a, b and 3 more`."""
    listed = list(texts)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more
