"""Decodes an answer with a long list in pieces, so that other tasks of the process do not wait long.

msgspec holds the GIL while it decodes, in any thread: 23 MB (10,000 nodes) take 50 ms or more at once. So the text is
cut between entries of the list, about each `PIECE_BYTES`, and the pieces are decoded one by one in a thread. Between
two pieces the event loop can run.

A cut is between two entries: `},{`, with any white space. A string or another list may contain the same characters. But
a piece that begins in a string cannot be decoded, because its first quote is an escaped one, and neither can a piece
that ends behind the list. If a piece cannot be decoded, the whole answer is decoded at once.
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
    """Return the answer decoded as `reply`. `field`: the name of its long list, which is decoded in pieces; `entry`:
    the type of the list's entries.

    Raises:
        msgspec.DecodeError: the text is no `reply`.
    """
    try:
        whole = _decode(text, _find_cuts(text), reply, field=field, entry=entry)
    except msgspec.DecodeError:
        whole = None
    return msgspec.json.decode(text, type=reply) if whole is None else whole


def _decode(text: bytes, cuts: list[tuple[int, int]], reply: type[R], *, field: str, entry: type) -> R | None:
    """Return the answer, with its list decoded in pieces at these cuts. Return None if there are no cuts, or if another
    field with a value comes before the list.
    """
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
    """Return cuts of the text, about one for each `PIECE_BYTES`. Each cut is a pair of positions: where an entry ends,
    and where the next one begins.
    """
    cuts = []
    match = _CUT.search(text, PIECE_BYTES)
    while match is not None:
        cuts.append(match.span(1))
        match = _CUT.search(text, match.end() + PIECE_BYTES)
    return cuts
