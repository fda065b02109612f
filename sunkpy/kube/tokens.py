"""The apiserver's answer to the question to whom a token belongs: TokenReview (authentication.k8s.io/v1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from jwt.types import Options

_LEEWAY_S = 300.0
_REQUIRED = ["exp", "aud", "iss"]


class UserInfo(msgspec.Struct, frozen=True):
    """The user to whom a token belongs. `extra` names the pod of a bound service-account token."""

    username: str = ""
    uid: str = ""
    groups: Sequence[str] = ()
    extra: dict[str, Sequence[str]] = {}

    def bound_to(self, what: str) -> str:
        """Return the entry `authentication.kubernetes.io/<what>` of `extra`: the name or uid of the pod, or the name of
        the node, to which the token is bound (`what`: pod-name, pod-uid, node-name). Empty if there is none.
        """
        values = self.extra.get(f"authentication.kubernetes.io/{what}", ())
        return values[0] if values else ""


class TokenReview(msgspec.Struct, frozen=True):
    """The apiserver's verdict on a token. `error` says why it was not accepted."""

    authenticated: bool = False
    user: UserInfo = UserInfo()
    error: str = ""


class TokenReviewAnswer(msgspec.Struct, frozen=True):
    """The TokenReview object that the apiserver sends back, with the verdict in its status."""

    status: TokenReview = TokenReview()


class BoundTo(msgspec.Struct, frozen=True):
    """The pod to which a token says that it is bound; the fields are empty if it is bound to none."""

    name: str = ""
    uid: str = ""


class _Claim(msgspec.Struct, frozen=True):
    pod: BoundTo = BoundTo()


def read_unproved(token: str, *, audience: str) -> BoundTo | None:
    """Return the pod to which the token says that it is bound, without a check of its signature. Return None if the
    token has expired, is for another audience, or cannot be read: then no apiserver would accept it.

    Any issuer is accepted, because two are right while a cluster changes its issuer. Times in the token are by the
    apiserver's clock, so the clocks may differ by `_LEEWAY_S` seconds.
    """
    import jwt  # imports cryptography, which most commands do not need

    checks: Options = {"verify_signature": False, "verify_exp": True, "verify_aud": True, "require": _REQUIRED}
    try:
        claims = jwt.decode(token, options=checks, audience=audience, leeway=_LEEWAY_S)
        return msgspec.convert(claims.get("kubernetes.io", {}), _Claim).pod
    except (jwt.PyJWTError, msgspec.ValidationError, RecursionError):
        return None
