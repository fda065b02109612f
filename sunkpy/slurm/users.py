"""Finds the Slurm user of a token (`scontrol token`); slurmctld says whether the token is valid."""

from __future__ import annotations

import jwt

from sunkpy.slurm.client import Slurm
from sunkpy.slurm.errors import Unauthorized
from sunkpy.slurm.transport import Transport


def user_of(token: str) -> str:
    """Return the user that a token names, without a check of its signature; empty if it is no token of Slurm."""
    try:
        user = jwt.decode(token, options={"verify_signature": False}).get("sun", "")
    except (jwt.PyJWTError, RecursionError):
        return ""
    return user if isinstance(user, str) else ""


async def proved_user(url: str, token: str) -> str:
    """Send a read with a token to slurmctld, and return the token's user if it is accepted.

    Raises:
        Unauthorized: the token is refused.
        SlurmError: Slurm could not be asked.
    """
    slurm = Slurm(Transport(url, _GivenToken(token), attempts=1))
    try:
        await slurm.partitions()
    finally:
        await slurm.close()
    return user_of(token)


class _GivenToken:
    """A source of tokens with a single one, which a viewer of the web page has sent."""

    def __init__(self, token: str) -> None:
        self._token = token

    def token(self, user: str = "") -> str:
        if user:
            raise Unauthorized(f"make a token for Slurm user {user}", text="there is only the viewer's")
        return self._token

    def seal(self) -> str:
        raise Unauthorized("make the seal of a job", text="a viewer has no key")

    def renew(self) -> None:
        """Do nothing: only the viewer can get a new token."""

    def explain_refusal(self) -> str:
        return "the token is wrong or expired: scontrol token makes another one"

    @property
    def user(self) -> str:
        return user_of(self._token)
