"""Tells whether a node has the features that a job asks for: `a&(b|c)`, `[a|b]` (sbatch(1), --constraint).

For `[a|b]` all nodes of a job need the same feature; this is not checked, because the nodes of one NodeSet have the
same features anyway. Any user may write a constraint, so a very long or deeply nested one is refused, and results are
cached.
"""

from __future__ import annotations

import re
from collections.abc import Set
from functools import lru_cache
from typing import Final

_TOKEN: Final = re.compile(r"[&|,()\[\]]|[^&|,()\[\]]+")
_CLOSES: Final = {"(": ")", "[": "]"}
_LONGEST: Final = 1000
_DEEPEST: Final = 10


class NotUnderstood(ValueError):
    """The error that this module cannot read a job's constraint: its form is not known, such as one that counts nodes
    by feature, or it is too long or too deeply nested.
    """


def satisfies(constraint: str, features: Set[str]) -> bool:
    """True if a node with these features satisfies the job's constraint.

    Raises:
        NotUnderstood: the constraint cannot be read.
    """
    if not constraint:
        return True
    if len(constraint) > _LONGEST:
        raise NotUnderstood(f"it has {len(constraint)} characters")
    return _is_satisfied(constraint, frozenset(features))


@lru_cache(maxsize=4096)
def _is_satisfied(constraint: str, features: frozenset[str]) -> bool:
    tokens = _TOKEN.findall(constraint.replace(" ", ""))[::-1]
    found = _any_of(tokens, features, depth=0)
    if tokens:
        raise NotUnderstood(constraint)
    return found


def _any_of(tokens: list[str], features: Set[str], *, depth: int) -> bool:
    """True if the features satisfy the expression at the end of `tokens`, which are in reverse order. The tokens that
    were read are removed.
    """
    found = _all_of(tokens, features, depth=depth)
    while tokens and tokens[-1] == "|":
        tokens.pop()
        found |= _all_of(tokens, features, depth=depth)
    return found


def _all_of(tokens: list[str], features: Set[str], *, depth: int) -> bool:
    found = _one(tokens, features, depth=depth)
    while tokens and tokens[-1] in ("&", ","):
        tokens.pop()
        found &= _one(tokens, features, depth=depth)
    return found


def _one(tokens: list[str], features: Set[str], *, depth: int) -> bool:
    token = tokens.pop() if tokens else ""
    if closes := _CLOSES.get(token):
        if depth == _DEEPEST:
            raise NotUnderstood(token)
        found = _any_of(tokens, features, depth=depth + 1)
        if not tokens or tokens.pop() != closes:
            raise NotUnderstood(token)
        return found
    if not token or any(sign in token for sign in "&|,)]*{}"):
        raise NotUnderstood(token)
    return token in features
