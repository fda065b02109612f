"""The changes of the page's tables since the last update: only these are sent to the browser."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sunkpy.core.page.rows import Tables


class TableChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The change of one table of the page. `gone`: the keys of removed rows.

    `set`: new and changed rows by key, as a list because JavaScript objects lose the order. `order`: all keys in order;
    empty if no row moves and new rows come last.
    """

    set: tuple[tuple[str, msgspec.Struct], ...] = ()
    gone: tuple[str, ...] = ()
    order: tuple[str, ...] = ()


def diff_tables(old: Tables, new: Tables) -> Mapping[str, TableChange]:
    """Return table → its change, for each table that differs."""
    changes = {name: _diff(old.get(name, {}), rows) for name, rows in new.items()}
    return {name: change for name, change in changes.items() if change != TableChange()}


def _diff(old: Mapping[str, msgspec.Struct], new: Mapping[str, msgspec.Struct]) -> TableChange:
    stays = [key for key in old if key in new]
    order = tuple(new)
    by_itself = (*stays, *(key for key in new if key not in old))
    return TableChange(
        set=tuple((key, row) for key, row in new.items() if old.get(key) != row),
        gone=tuple(key for key in old if key not in new),
        order=() if by_itself == order else order,
    )
