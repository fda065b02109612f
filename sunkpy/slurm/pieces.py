"""A long list in an answer, decoded in pieces, so that other tasks do not wait long.

msgspec does not let go of the interpreter while it decodes, whatever thread it runs in: 23 MB, 10,000 nodes, are 50 ms
and more in one go. So the text is cut between entries of the list, each about `PIECE_BYTES`, and the pieces are decoded
one by one, in a thread: between two of them the event loop has its turn.

A cut is where one entry ends and the next begins: `},{`, with whatever white space. The same characters may stand in a
string, or in another list; but a piece that begins within a string cannot be decoded (its first quote is an escaped
one), nor can one that reaches beyond the list. Then the answer is decoded in one go.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TypeVar

import msgspec

PIECE_BYTES = 200_000
_CUT = re.compile(rb"\}(\s*,\s*)\{")

R = TypeVar("R", bound=msgspec.Struct)


def decode_in_pieces(text: bytes, reply: type[R], *, field: str, entry: type) -> R:
    """The answer as `reply`, whose `field`, a tuple of `entry`, is long.

    Raises:
        msgspec.DecodeError: it is none.
    """
    try:
        whole = _decode(text, _find_cuts(text), reply, field=field, entry=entry)
    except msgspec.DecodeError:
        whole = None
    return msgspec.json.decode(text, type=reply) if whole is None else whole


def _decode(text: bytes, cuts: list[tuple[int, int]], reply: type[R], *, field: str, entry: type) -> R | None:
    """None where there is nothing to cut, or something that matters stands before the list."""
    if not cuts:
        return None
    first = msgspec.json.decode(text[: cuts[0][0]] + b"]}", type=reply)
    if msgspec.structs.replace(first, **{field: ()}) != reply():
        return None
    many = msgspec.json.Decoder(list[entry])  # type: ignore[valid-type]
    found = list(getattr(first, field))
    for (_, start), (end, _) in pairwise(cuts):
        found += many.decode(b"[" + text[start:end] + b"]")
    last = msgspec.json.decode(b'{"%s":[' % field.encode() + text[cuts[-1][1] :], type=reply)
    return msgspec.structs.replace(last, **{field: (*found, *getattr(last, field))})


def _find_cuts(text: bytes) -> list[tuple[int, int]]:
    """Where an entry ends and where the next one begins, about each `PIECE_BYTES`."""
    cuts = []
    match = _CUT.search(text, PIECE_BYTES)
    while match is not None:
        cuts.append(match.span(1))
        match = _CUT.search(text, match.end() + PIECE_BYTES)
    return cuts
