"""The nodes that jobs exclude. Jobs with equal lists share one, and keep its text, not thousands of names.

Anybody may submit jobs that each exclude other nodes. So the lists that are kept at a time have a maximum.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from sunkpy.core.model import hostlist

MOST: Final = 500
"""Jobs that wait may have one of this many lists with more than one name."""
_EXPANDED: Final = 32
_MOST_NAMES: Final = 2**17
"""Slurm has 65536 nodes at most, and a text of 64 KiB may name each of them thousands of times."""


class Excluded(msgspec.Struct, frozen=True, weakref=True):
    """Nodes in Slurm's range syntax. `is_kept`: false if there were too many lists, so nobody knows which."""

    text: str = ""
    is_kept: bool = True

    @property
    def nodes(self) -> frozenset[str]:
        """The names of the excluded nodes. A list that cannot be read stands for one node that does not exist."""
        return _expand(self.text)


NONE: Final = Excluded()
TOO_MANY: Final = Excluded(is_kept=False)
_kept: Final[WeakValueDictionary[str, Excluded]] = WeakValueDictionary()


def share(text: str) -> Excluded:
    """The one list of that text, for as long as a job has it."""
    if not text:
        return NONE
    if (known := _kept.get(text)) is not None:
        return known
    if not {",", "["}.isdisjoint(text):
        if len(_kept) >= MOST:
            return TOO_MANY
        _kept[text] = made = Excluded(text)
        return made
    return Excluded(text)


@lru_cache(maxsize=_EXPANDED)
def _expand(text: str) -> frozenset[str]:
    try:
        return frozenset(map(sys.intern, hostlist.expand(text, most=_MOST_NAMES)))
    except hostlist.BadHostlist:
        return frozenset({text})
