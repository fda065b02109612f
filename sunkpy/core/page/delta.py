"""The changes of the tables since the last update, so that a viewer is sent only these."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from sunkpy.core.page.rows import Tables


class TableChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The change of one table. `set`: rows by key, in order, which an object of JavaScript would lose. `order`: all
    keys, where the new ones do not simply come last.
    """

    set: tuple[tuple[str, msgspec.Struct], ...] = ()
    gone: tuple[str, ...] = ()
    order: tuple[str, ...] = ()


def diff_tables(old: Tables, new: Tables) -> Mapping[str, TableChange]:
    """The changes of each table that has changed."""
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
