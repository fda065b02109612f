"""Who looks, and what they may see: proved by what the browser sends, a cookie or a bearer token.

* In the cluster by a token of Kubernetes: who may `get nodesets` in the namespace sees the pool, and pods where they
  may `get pods`. Or by a token of Slurm (`scontrol token`), which shows its user their own jobs.
* On a person's own machine by a key that only the link has which the command prints: others may have a login there.

A verdict is kept for a minute, so who loses a right keeps it here for so long. The apiserver gets a few questions at
once at most, whatever strangers send.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections.abc import Callable, Iterable
from typing import Final, Protocol

import cachetools

from sunkpy.core import names
from sunkpy.core.overview.sight import EVERYTHING, Sight
from sunkpy.kube.access import may_get
from sunkpy.kube.client import Kube
from sunkpy.kube.tokens import UserInfo
from sunkpy.slurm.errors import Unauthorized
from sunkpy.slurm.users import proved_user, user_of

_KEPT_S: Final = 60.0
_REFUSED_S: Final = 5.0
_REMEMBERED: Final = 4096
_AT_ONCE: Final = 4
_LONGEST: Final = 16 * 1024


class Denied(Exception):
    """Not proved, or not allowed; the text says which right is missing."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Door(Protocol):
    """Knows who may look."""

    async def sight(self, token: str) -> Sight:
        """What its bearer may see.

        Raises:
            Denied: nothing.
            KubeError, SlurmError: it could not be asked.
        """


class LocalDoor:
    """One key, for the person who started the command; they see what they may read."""

    def __init__(self, key: str) -> None:
        self._key = key

    async def sight(self, token: str) -> Sight:
        """See Door."""
        if not token.isascii() or not hmac.compare_digest(token, self._key):
            raise Denied(401, "open the link that the command has printed")
        return EVERYTHING


class ClusterDoor:
    """Asks the apiserver, and Slurm for a token of Slurm where `slurm_url` is given. `namespaces`: those with pods."""

    def __init__(
        self,
        kube: Kube,
        *,
        namespace: str,
        namespaces: Callable[[], Iterable[str]],
        slurm_url: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._namespace = namespace
        self._namespaces = namespaces
        self._slurm_url = slurm_url
        self._known: cachetools.TTLCache[bytes, UserInfo] = cachetools.TTLCache(_REMEMBERED, _KEPT_S, clock)
        self._users: cachetools.TTLCache[bytes, str] = cachetools.TTLCache(_REMEMBERED, _KEPT_S, clock)
        self._may: cachetools.TTLCache[tuple[bytes, str, str], bool] = cachetools.TTLCache(_REMEMBERED, _KEPT_S, clock)
        self._refused: cachetools.TTLCache[bytes, Denied] = cachetools.TTLCache(_REMEMBERED, _REFUSED_S, clock)
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def sight(self, token: str) -> Sight:
        """See Door."""
        if not token or len(token) > _LONGEST or not token.isascii():
            raise Denied(401, "give a token: kubectl create token NAME, or that of your kubeconfig")
        digest = hashlib.sha256(token.encode()).digest()
        async with self._turn:
            if (refusal := self._refused.get(digest)) is not None:
                raise Denied(refusal.status, str(refusal))
            try:
                return await self._sight(token, digest)
            except Denied as denied:
                self._refused[digest] = denied
                raise

    async def _sight(self, token: str, digest: bytes) -> Sight:
        if self._slurm_url and user_of(token):
            return Sight(user=await self._slurm_user(token, digest))
        user = await self._user(token, digest)
        if not await self._may_get(user, digest, names.NODESET_PLURAL, self._namespace):
            raise Denied(403, f"{user.username} may not get nodesets in namespace {self._namespace}")
        if await self._may_get(user, digest, "pods", ""):
            return EVERYTHING
        seen = [each for each in self._namespaces() if await self._may_get(user, digest, "pods", each)]
        return Sight(namespaces=frozenset(seen))

    async def _slurm_user(self, token: str, digest: bytes) -> str:
        if (known := self._users.get(digest)) is None:
            try:
                known = self._users[digest] = await proved_user(self._slurm_url, token)
            except Unauthorized as error:
                raise Denied(401, f"the token is not accepted: {error.message}") from error
        return known

    async def _user(self, token: str, digest: bytes) -> UserInfo:
        if (known := self._known.get(digest)) is not None:
            return known
        review = await self._kube.review_token(token)
        if not review.authenticated or not review.user.username:
            raise Denied(401, f"the token is not accepted: {review.error or 'wrong or expired'}")
        self._known[digest] = review.user
        return review.user

    async def _may_get(self, user: UserInfo, digest: bytes, resource: str, namespace: str) -> bool:
        key = (digest, resource, namespace)
        if (known := self._may.get(key)) is None:
            group = names.API_GROUP if resource == names.NODESET_PLURAL else ""
            known = self._may[key] = await may_get(self._kube, user, resource, group=group, namespace=namespace)
        return known
