"""The cookie of a person who came with a token of Slurm: good only for this page, and for a working day.

The link that brings the token stays where links stay: in a history, a chat. So it is short-lived, opens the page once,
and the browser gets a session in its place. All pods of the page sign with a key that follows from the cluster's
`jwt.key`, which none of them has: another container of each pod keeps it in a file.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import jwt

_AUDIENCE: Final = "sunkpy-page"
_LASTS_S: Final = 8 * 3600


class NoSession(Exception):
    """The session is over, or cannot be checked; the text says what to do."""


class Sessions:
    """Begins sessions, and recognises them."""

    def __init__(self, key_file: Path, *, wall_clock: Callable[[], float] = time.time) -> None:
        self._key_file = key_file
        self._wall_clock = wall_clock

    def begin(self, user: str) -> str:
        """Begin a session, and return the text that the browser keeps.

        Raises:
            NoSession: the key cannot be read.
        """
        claims = {"aud": _AUDIENCE, "sub": user, "exp": int(self._wall_clock()) + _LASTS_S}
        return jwt.encode(claims, self._key(), algorithm="HS256")

    def user(self, text: str) -> str:
        """The user of Slurm whose session it is; empty if it is none of any page.

        Raises:
            NoSession: it is over, or of another page.
        """
        try:
            claims = jwt.decode(text, options={"verify_signature": False})
        except (jwt.PyJWTError, RecursionError):
            return ""
        if claims.get("aud") != _AUDIENCE:
            return ""
        try:
            proved = jwt.decode(
                text,
                self._key(),
                ["HS256"],
                audience=_AUDIENCE,
                options={"require": ["exp", "sub"], "verify_exp": False},
            )
        except (jwt.PyJWTError, RecursionError) as error:
            raise NoSession(f"this session is not accepted ({error}): my-page prints another link") from error
        if proved["exp"] < self._wall_clock():
            raise NoSession("this session is over: my-page prints another link")
        return str(proved["sub"])

    def _key(self) -> str:
        """Read each time: it changes with the key of the cluster."""
        try:
            return self._key_file.read_text().strip()
        except OSError as error:
            raise NoSession(f"the page has no key for sessions yet ({error}): try again") from error
