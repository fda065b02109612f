"""Who calls a hook: the root user of a slurmd pod, proved by that pod's projected service-account token."""

from __future__ import annotations

import hashlib

import cachetools

from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.slurmd import is_slurmd
from sunkpy.kube.client import Kube
from sunkpy.scheduler.calls import Denied
from sunkpy.scheduler.cluster import Cluster

_TOKEN_TTL_S = 60.0


class NodeAuth:
    """Does this token belong to the slurmd pod of that Slurm node? Only yes is remembered, for a minute."""

    def __init__(self, kube: Kube, cluster: Cluster, *, audience: str) -> None:
        self._kube = kube
        self._cluster = cluster
        self._audience = audience
        self._known: cachetools.TTLCache[bytes, tuple[str, str]] = cachetools.TTLCache(maxsize=20_000, ttl=_TOKEN_TTL_S)

    async def check(self, authorization: str, slurm_node: str) -> Pod:
        """The slurmd pod that calls.

        Raises:
            Denied: no token, a token that is not accepted, or one of another node.
            KubeError: the apiserver could not be asked.
        """
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise Denied(401, "send the pod's projected token: Authorization: Bearer …")
        name, uid = await self._pod_of(token)
        pod = self._cluster.slurmd_pods.get(self._cluster.namespace, name)
        if pod is None or pod.uid != uid or not is_slurmd(pod):
            raise Denied(403, f"the token belongs to pod {name or '(none)'}, which is no slurmd pod of this cluster")
        own = pod.labels.get(names.LABEL_SLURM_NODE, "")
        if own != slurm_node:
            raise Denied(403, f"pod {name} is Slurm node {own} and may not speak for {slurm_node}")
        return pod

    async def _pod_of(self, token: str) -> tuple[str, str]:
        digest = hashlib.sha256(token.encode()).digest()
        if digest not in self._known:
            review = await self._kube.review_token(token, audience=self._audience)
            if not review.authenticated:
                raise Denied(401, f"the token is not accepted: {review.error or 'wrong audience or expired'}")
            expected = f"system:serviceaccount:{self._cluster.namespace}:"
            if not review.user.username.startswith(expected):
                raise Denied(403, f"{review.user.username} is not from namespace {self._cluster.namespace}")
            self._known[digest] = (review.user.bound_to("pod-name"), review.user.bound_to("pod-uid"))
        return self._known[digest]
