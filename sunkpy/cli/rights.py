"""Asks the apiserver whether the person who runs the command has a right."""

from __future__ import annotations

from typing import Final

from sunkpy.core.model.objects import Wire
from sunkpy.kube import decoding
from sunkpy.kube.client import Kube

_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class _ReviewStatus(Wire, frozen=True, kw_only=True):
    allowed: bool = False


class _Review(Wire, frozen=True, kw_only=True):
    status: _ReviewStatus = _ReviewStatus()


async def may(kube: Kube, verb: str, resource: str, *, group: str = "", subresource: str = "", namespace: str) -> bool:
    """True if the person has the right to `verb` this resource in a namespace, or in all namespaces if `namespace` is
    empty.

    Raises:
        KubeError: the apiserver did not answer, or its answer is no SelfSubjectAccessReview.
    """
    asked = {"verb": verb, "group": group, "resource": resource, "subresource": subresource, "namespace": namespace}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    return decoding.read_answer(f"POST {_REVIEWS}", await kube.create(_REVIEWS, body), _Review).status.allowed
