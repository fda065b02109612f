"""Tokens for slurmrestd: minted from the cluster's HS256 key, or read from a file that something else rotates.

slurmrestd takes a JWT in `X-SLURM-USER-TOKEN`; its claims are `iat`, `exp` and `sun`, the Slurm user
(https://slurm.schedmd.com/jwt.html). A minted token lives five minutes and is renewed a minute before it ends, so a
token that leaks is worth little; an external one is re-read for each request, so its rotation needs no restart.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import jwt

from sunkpy.core.model.times import rfc3339
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.slurm.errors import Unauthorized

LIFETIME_S = 300
RENEW_BEFORE_S = 60


class TokenSource(Protocol):
    """Where the token of the next request comes from."""

    def token(self) -> str:
        """The token to send now. Raises Unauthorized when there is none."""

    def renew(self) -> None:
        """The last token was refused: forget it."""

    def explain_refusal(self) -> str:
        """What a person should do about a token that is refused again."""


class MintedToken:
    """Signs its own tokens as `user` with the key in `key_file`, the same file slurmctld has as `jwt_key`."""

    def __init__(self, key_file: Path, *, user: str, wall_clock: Callable[[], float] = time.time) -> None:
        self._key_file = key_file
        self._user = user
        self._wall_clock = wall_clock
        self._token = ""
        self._expires_s = 0.0

    def token(self) -> str:
        """A token with at least a minute to live."""
        now_s = self._wall_clock()
        if now_s >= self._expires_s - RENEW_BEFORE_S:
            self._expires_s = now_s + LIFETIME_S
            claims = {"iat": int(now_s), "exp": int(self._expires_s), "sun": self._user}
            self._token = jwt.encode(claims, _read_key(self._key_file), algorithm="HS256")
        return self._token

    def renew(self) -> None:
        """The key file is read again for the next token: it may have been replaced."""
        self._expires_s = 0.0

    def explain_refusal(self) -> str:
        """See TokenSource."""
        return (
            f"is {self._key_file} the jwt_key of slurmctld, are the clocks the same, and does user {self._user} exist?"
        )


class TokenFile:
    """A token that something else writes into `path`."""

    def __init__(self, path: Path, *, wall_clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._wall_clock = wall_clock

    def token(self) -> str:
        """What the file holds now."""
        try:
            token = self._path.read_text().strip()
        except OSError as error:
            raise Unauthorized(
                f"read the Slurm token in {self._path}",
                text=error.strerror or str(error),
                hint="mount a token there (scontrol token username=… lifespan=…)",
            ) from error
        if not token:
            raise Unauthorized(f"read the Slurm token in {self._path}", text="the file is empty")
        return token

    def renew(self) -> None:
        """Nothing is kept."""

    def explain_refusal(self) -> str:
        """See TokenSource. Names the file, and the expiry when it has passed."""
        expires_s = _expiry_s(self.token())
        if expires_s is not None and expires_s <= self._wall_clock():
            when = rfc3339(datetime.datetime.fromtimestamp(expires_s, datetime.UTC))
            return f"the token in {self._path} expired at {when}: write a fresh one there (scontrol token)"
        return f"the token in {self._path} is not one of this cluster: write a fresh one there (scontrol token)"


def token_source(settings: SlurmSettings) -> TokenSource:
    """Where these settings say that tokens come from."""
    if settings.jwt_key_file:
        return MintedToken(Path(settings.jwt_key_file), user=settings.user)
    return TokenFile(Path(settings.token_file))


def _read_key(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Unauthorized(
            f"read the JWT key in {path}", text=error.strerror or str(error), hint="mount the cluster's jwt.key there"
        ) from error


def _expiry_s(token: str) -> float | None:
    try:
        expires = jwt.decode(token, options={"verify_signature": False}).get("exp")
    except jwt.InvalidTokenError:
        return None
    return float(expires) if isinstance(expires, int | float) else None
