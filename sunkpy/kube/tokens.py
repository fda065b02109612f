"""What the apiserver says of somebody's token: TokenReview (authentication.k8s.io/v1)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class UserInfo(msgspec.Struct, frozen=True):
    """Who a token belongs to; `extra` tells the pod of a bound service-account token."""

    username: str = ""
    extra: dict[str, Sequence[str]] = {}

    def bound_to(self, what: str) -> str:
        """Value of `authentication.kubernetes.io/<what>` (pod-name, pod-uid, node-name), or empty."""
        values = self.extra.get(f"authentication.kubernetes.io/{what}", ())
        return values[0] if values else ""


class TokenReview(msgspec.Struct, frozen=True):
    """The apiserver's verdict on a token; `error` is why it was not accepted."""

    authenticated: bool = False
    user: UserInfo = UserInfo()
    error: str = ""


class TokenReviewAnswer(msgspec.Struct, frozen=True):
    """The object that the apiserver sends back: the verdict stands in its status."""

    status: TokenReview = TokenReview()
