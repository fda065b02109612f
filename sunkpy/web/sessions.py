"""The session cookie of a person who opened the page with a token of Slurm. It is valid for this page, for eight hours.

The link with the token may stay in a browser's history or in a chat. So the token lives for minutes, opens the page
once, and the browser gets a session instead. All pods of the page sign sessions with the same key, which is derived
from the cluster's `jwt.key`. The page itself has no `jwt.key`: another container of its pod writes the key to a file.
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
    """A session has expired, is invalid, or cannot be signed; the text says what to do."""


class Sessions:
    """Signs session cookies of the page, and verifies them. `key_file`: the file with the key."""

    def __init__(self, key_file: Path, *, wall_clock: Callable[[], float] = time.time) -> None:
        self._key_file = key_file
        self._wall_clock = wall_clock

    def begin(self, user: str) -> str:
        """Return a new session of this Slurm user, as text for the browser's cookie.

        Raises:
            NoSession: the key cannot be read.
        """
        claims = {"aud": _AUDIENCE, "sub": user, "exp": int(self._wall_clock()) + _LASTS_S}
        return jwt.encode(claims, self._key(), algorithm="HS256")

    def user(self, text: str) -> str:
        """Return the Slurm user of a session; empty if the text is not a session of a page.

        Raises:
            NoSession: the session has expired, or another page signed it.
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
            raise NoSession(f"this session is not accepted ({error}): run my-page for another link") from error
        if proved["exp"] < self._wall_clock():
            raise NoSession("this session has expired: run my-page for another link")
        return str(proved["sub"])

    def _key(self) -> str:
        """Return the key that signs sessions. It is read each time, because it changes with the cluster's `jwt.key`."""
        try:
            return self._key_file.read_text().strip()
        except OSError as error:
            raise NoSession(f"the page has no key for sessions yet ({error}): try again in a minute") from error
