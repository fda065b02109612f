"""Tokens for slurmrestd: signed with the cluster's HS256 key, or read from a file that another program rotates.

With the key, requests can be sent as any user, and slurmctld applies that user's limits. The *seal* of a job proves
that its request came from a holder of the key, not from the user: see charts/slurm/files/job_submit.lua.

slurmrestd takes a JWT in `X-SLURM-USER-TOKEN`; its claims are `iat`, `exp` and `sun`, the Slurm user
(https://slurm.schedmd.com/jwt.html). A signed token lives five minutes and is renewed a minute before it ends, so a
leaked token is of little use. A token file is read for each request, so its rotation needs no restart.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from sunkpy.core.model.times import rfc3339
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.slurm.errors import Unauthorized

JWT_HEADER = "X-SLURM-USER-TOKEN"
LIFETIME_S = 300
RENEW_BEFORE_S = 60
_SEAL = b"sunkpy seal"
_PAGE = b"sunkpy page"
_AS_PRINTED = "SLURM_JWT="
"""The prefix that `scontrol token` prints before the token, for a shell."""


class TokenSource(Protocol):
    """A source of tokens for requests to slurmrestd."""

    def token(self, user: str = "") -> str:
        """Return a token of the Slurm user `user` for the next request; if `user` is empty, of the process's own user.

        Raises:
            Unauthorized: there is no token, or none of this user can be made.
        """

    def seal(self) -> str:
        """Return the seal: a text that proves to slurmctld that the request for a job comes from a holder of the
        cluster's key.

        Raises:
            Unauthorized: this source has no key.
        """

    def renew(self) -> None:
        """Forget the last token, because slurmrestd refused it."""

    def explain_refusal(self) -> str:
        """Return what a person should do if a renewed token is refused."""

    @property
    def user(self) -> str:
        """The process's own Slurm user, as its token says; empty if the token does not say."""


class MintedToken:
    """A source of tokens that signs them with the key in `key_file`. slurmctld must have the same key as its `jwt_key`.
    `user`: the Slurm user of the tokens for which a caller names no other user.
    """

    def __init__(self, key_file: Path, *, user: str, wall_clock: Callable[[], float] = time.time) -> None:
        self._key_file = key_file
        self._user = user
        self._wall_clock = wall_clock
        self._minted: dict[str, tuple[str, float]] = {}

    def token(self, user: str = "") -> str:
        """Return a token of `user`, by default of the source's own user, that is valid for at least another minute.

        Raises:
            Unauthorized: the key cannot be read, or the user is a number, which slurmctld would take for a uid.
        """
        name = user or self._user
        if name.isdigit():
            raise Unauthorized(f"make a token for Slurm user {name}", text="that is a number, not a name")
        now_s = self._wall_clock()
        token, expires_s = self._minted.get(name, ("", 0.0))
        if now_s >= expires_s - RENEW_BEFORE_S:
            expires_s = now_s + LIFETIME_S
            import jwt  # with cryptography below it, which takes longer than the answer of slurmrestd

            claims = {"iat": int(now_s), "exp": int(expires_s), "sun": name}
            token = jwt.encode(claims, _read_key(self._key_file), algorithm="HS256")
            self._minted.pop(name, None)
            self._minted[name] = token, expires_s
            self._forget_expired(now_s)
        return token

    def _forget_expired(self, now_s: float) -> None:
        """Drop expired tokens. The oldest tokens come first in the dict."""
        for name, (_, expires_s) in tuple(self._minted.items()):
            if expires_s > now_s:
                return
            del self._minted[name]

    def seal(self) -> str:
        """Return the seal of jobs: a hash of the key, which slurmctld computes from its own copy of the key, and
        compares.
        """
        return hashlib.sha256(_read_key(self._key_file) + _SEAL).hexdigest()

    def page_key(self) -> str:
        """Return the key with which the web page signs its sessions. It is derived from the cluster's key, and does not
        reveal it.
        """
        return hmac.new(_read_key(self._key_file), _PAGE, hashlib.sha256).hexdigest()

    def renew(self) -> None:
        """Drop all tokens, so that the next ones are signed with the key file as it is then."""
        self._minted.clear()

    def explain_refusal(self) -> str:
        """Return what a person should check if slurmrestd refuses these tokens: the key, the clocks and the user."""
        return (
            f"is {self._key_file} the jwt_key of slurmctld, are the clocks the same, and does user {self._user} exist?"
        )

    @property
    def user(self) -> str:
        """The Slurm user of the tokens for which a caller names no other user."""
        return self._user


class TokenFile:
    """A source of one user's token, which another program writes into the file `path`. It cannot make the seal of a
    job, because it has no key.
    """

    def __init__(self, path: Path, *, wall_clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._wall_clock = wall_clock

    def token(self, user: str = "") -> str:
        """Return the token in the file.

        Raises:
            Unauthorized: the file cannot be read or is empty, or another user's token is wanted.
        """
        if user:
            raise _needs_key(f"make a token for Slurm user {user}")
        try:
            token = self._path.read_text().strip().removeprefix(_AS_PRINTED)
        except OSError as error:
            raise Unauthorized(
                f"read the Slurm token in {self._path}",
                text=error.strerror or str(error),
                hint="mount a token there (scontrol token username=… lifespan=…)",
            ) from error
        if not token:
            raise Unauthorized(f"read the Slurm token in {self._path}", text="the file is empty")
        return token

    def seal(self) -> str:
        """Raise Unauthorized, because the seal of a job is made with the key, and a token file has no key."""
        raise _needs_key("make the seal of a job")

    def renew(self) -> None:
        """Do nothing: the file is read for each request, so there is no old token to forget."""

    def explain_refusal(self) -> str:
        """Return what a person should do if slurmrestd refuses the token in the file. The text names the file, and when
        the token expired, if it has.
        """
        expires_s = _expiry_s(self.token())
        if expires_s is not None and expires_s <= self._wall_clock():
            when = rfc3339(datetime.datetime.fromtimestamp(expires_s, datetime.UTC))
            return f"the token in {self._path} expired at {when}: write a fresh one there (scontrol token)"
        return f"the token in {self._path} is not one of this cluster: write a fresh one there (scontrol token)"

    @property
    def user(self) -> str:
        """The Slurm user that the token in the file names; empty if it names none. Raises Unauthorized if there is no
        token.
        """
        name = _claims(self.token()).get("sun", "")
        return name if isinstance(name, str) else ""


def token_source(settings: SlurmSettings) -> TokenSource:
    """Return the source of tokens that the settings name: a key or a token file."""
    if settings.jwt_key_file:
        return MintedToken(Path(settings.jwt_key_file), user=settings.user)
    return TokenFile(Path(settings.token_file))


def _needs_key(what: str) -> Unauthorized:
    return Unauthorized(what, text="there is no key to sign with", hint="give slurm.jwtKeyFile instead of tokenFile")


def _read_key(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Unauthorized(
            f"read the JWT key in {path}", text=error.strerror or str(error), hint="mount the cluster's jwt.key there"
        ) from error


def _expiry_s(token: str) -> float | None:
    expires = _claims(token).get("exp")
    return float(expires) if isinstance(expires, int | float) else None


def _claims(token: str) -> dict[str, object]:
    """Return the claims of a token, without a check of its signature; empty if it is no JWT."""
    import jwt

    try:
        return jwt.decode(token, options={"verify_signature": False})
    except jwt.InvalidTokenError:
        return {}
