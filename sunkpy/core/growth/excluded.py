"""The nodes that jobs exclude (sbatch --exclude). Jobs with equal lists of several nodes share one object, which keeps
the list's text instead of all names.

Any user may submit jobs that each exclude other nodes. So only `MOST` such lists are kept at a time.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from sunkpy.core.model import hostlist

MOST: Final = 500
"""The most lists with more than one node that are kept for all waiting jobs together."""
_EXPANDED: Final = 32
_MOST_NAMES: Final = 2**17
"""The most names that a list is expanded to. Slurm has at most 65536 nodes, but a list may name a node several times.
"""


class Excluded(msgspec.Struct, frozen=True, weakref=True):
    """The nodes that a job excludes, as text in Slurm's range syntax. `is_kept`: False if too many lists were kept
    already; then `text` is empty.
    """

    text: str = ""
    is_kept: bool = True

    @property
    def nodes(self) -> frozenset[str]:
        """The names of the excluded nodes. A list that cannot be read counts as one name, which no node has."""
        return _expand(self.text)


NONE: Final = Excluded()
TOO_MANY: Final = Excluded(is_kept=False)
_kept: Final[WeakValueDictionary[str, Excluded]] = WeakValueDictionary()


def share(text: str) -> Excluded:
    """Return the `Excluded` object for this list of nodes. Jobs that have equal lists of several nodes at the same time
    get the same object. If too many such lists are kept already, the object has no nodes, and `is_kept` is False.
    """
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
