"""Asks the apiserver what a user may do, by SubjectAccessReview (authorization.k8s.io/v1)."""

from __future__ import annotations

from typing import Final

import msgspec

from sunkpy.kube import decoding
from sunkpy.kube.client import Kube
from sunkpy.kube.tokens import UserInfo

_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class _Verdict(msgspec.Struct, frozen=True):
    allowed: bool = False


class _Answer(msgspec.Struct, frozen=True):
    status: _Verdict = _Verdict()


async def may_get(kube: Kube, user: UserInfo, resource: str, *, group: str = "", namespace: str = "") -> bool:
    """True if the user may get objects of this resource in a namespace, or in all namespaces if `namespace` is empty.

    Raises:
        Forbidden: this process may not create SubjectAccessReviews.
        UnreadableAnswer: the answer is no SubjectAccessReview.
    """
    attributes = {"verb": "get", "group": group, "resource": resource, "namespace": namespace}
    who = {"user": user.username, "uid": user.uid, "groups": list(user.groups), "extra": dict(user.extra)}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"resourceAttributes": attributes, **who},
    }
    return decoding.read_answer(f"POST {_REVIEWS}", await kube.create(_REVIEWS, body), _Answer).status.allowed
