"""Whether a node has the features that a job asks for: `a&(b|c)`, `[a|b]` (sbatch(1), --constraint).

Of `[a|b]` all nodes of a job have the same one, which those of one NodeSet have anyway.
"""

from __future__ import annotations

import re
from collections.abc import Set
from typing import Final

_TOKEN: Final = re.compile(r"[&|,()\[\]]|[^&|,()\[\]]+")
_CLOSES: Final = {"(": ")", "[": "]"}


class NotUnderstood(ValueError):
    """Another form, such as one that counts nodes by feature."""


def satisfies(constraint: str, features: Set[str]) -> bool:
    """A node with these features would do.

    Raises:
        NotUnderstood: it cannot be told.
    """
    if not constraint:
        return True
    tokens = _TOKEN.findall(constraint.replace(" ", ""))
    found = _any_of(tokens, features)
    if tokens:
        raise NotUnderstood(constraint)
    return found


def _any_of(tokens: list[str], features: Set[str]) -> bool:
    found = _all_of(tokens, features)
    while tokens and tokens[0] == "|":
        del tokens[0]
        found |= _all_of(tokens, features)
    return found


def _all_of(tokens: list[str], features: Set[str]) -> bool:
    found = _one(tokens, features)
    while tokens and tokens[0] in ("&", ","):
        del tokens[0]
        found &= _one(tokens, features)
    return found


def _one(tokens: list[str], features: Set[str]) -> bool:
    token = tokens.pop(0) if tokens else ""
    if closes := _CLOSES.get(token):
        found = _any_of(tokens, features)
        if not tokens or tokens.pop(0) != closes:
            raise NotUnderstood(token)
        return found
    if not token or any(sign in token for sign in "&|,)]*{}"):
        raise NotUnderstood(token)
    return token in features
