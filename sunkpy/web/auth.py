"""Decides who may look at the page, and what they see. A viewer proves who they are by a token, which the browser sends
as a cookie or as a bearer token.

* In the cluster, the token may be one of Kubernetes: people who may `get nodesets` in the namespace see the pool, and
  they see the pods of each namespace where they may `get pods`. It may also be one of Slurm (`scontrol token`): its
  user sees their own jobs. A browser sends a token of Slurm once, and gets a session instead.
* On a person's own machine, the token is a key. Only the link that the command prints has this key, because other
  people may have a login on that machine.

The answer about a token is kept for a minute, so a person who loses a right keeps it here for that long. A session
lasts eight hours. At most a few questions at a time go to the apiserver, whatever strangers send; a known person does
not wait for them.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from functools import partial
from typing import Final, Protocol, TypeVar

import cachetools

from sunkpy.core import names
from sunkpy.core.overview.sight import EVERYTHING, Sight
from sunkpy.kube.access import may_get
from sunkpy.kube.client import Kube
from sunkpy.kube.tokens import UserInfo
from sunkpy.slurm.errors import Unauthorized
from sunkpy.slurm.users import proved_user, user_of
from sunkpy.web.sessions import NoSession, Sessions

K = TypeVar("K")
V = TypeVar("V")

_KEPT_S: Final = 60.0
_REFUSED_S: Final = 5.0
_USED_S: Final = 24 * 3600.0
"""How long the page remembers that a token of Slurm has opened it. A token of my-page lives for only five minutes."""
_REMEMBERED: Final = 4096
_AT_ONCE: Final = 4
_LONGEST: Final = 16 * 1024


class PageDenied(Exception):
    """The token does not prove who asks, or this person may not see the page; the text says why. `status`: the status
    of the HTTP answer.
    """

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Doorkeeper(Protocol):
    """Decides who may look at the page, and what they may see."""

    async def sight(self, token: str) -> Sight:
        """Return what the bearer of the token may see.

        Raises:
            PageDenied: the token does not prove who the bearer is, or they may see nothing.
            KubeError, SlurmError: the apiserver or Slurm could not be asked.
        """

    async def enter(self, token: str) -> str:
        """Return what a browser with this token is to keep as its cookie: the token, or a session.

        Raises:
            PageDenied: as in `sight`; or this link of my-page was opened before, or no session can be signed yet.
            KubeError, SlurmError: as in `sight`.
        """


class LocalDoor:
    """Decides who may look at the page on a person's own machine: whoever has the key in the printed link sees all that
    the command reads.
    """

    def __init__(self, key: str) -> None:
        self._key = key

    async def sight(self, token: str) -> Sight:
        """Return the right to see everything if the token is the key.

        Raises:
            PageDenied: the token is not the key.
        """
        if not token.isascii() or not hmac.compare_digest(token, self._key):
            raise PageDenied(401, "this needs a key: open the link that the command has printed")
        return EVERYTHING

    async def enter(self, token: str) -> str:
        """Return the token, to be kept as the browser's cookie.

        Raises:
            PageDenied: the token is not the key.
        """
        await self.sight(token)
        return token


class ClusterDoor:
    """Decides who may look at the page in the cluster. It asks the apiserver about tokens of Kubernetes, and slurmrestd
    at `slurm_url` about tokens of Slurm.

    `namespaces`: returns the namespaces whose pods the page shows.
    """

    def __init__(
        self,
        kube: Kube,
        *,
        namespace: str,
        namespaces: Callable[[], Iterable[str]],
        slurm_url: str,
        sessions: Sessions,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._namespace = namespace
        self._namespaces = namespaces
        self._slurm_url = slurm_url
        self._sessions = sessions
        self._used: cachetools.TTLCache[bytes, bool] = cachetools.TTLCache(_REMEMBERED, _USED_S, clock)
        self._known: cachetools.TTLCache[bytes, UserInfo] = cachetools.TTLCache(_REMEMBERED, _KEPT_S, clock)
        self._users: cachetools.TTLCache[bytes, str] = cachetools.TTLCache(_REMEMBERED, _KEPT_S, clock)
        self._may: cachetools.TTLCache[tuple[bytes, str, str], bool] = cachetools.TTLCache(_REMEMBERED, _KEPT_S, clock)
        self._refused: cachetools.TTLCache[bytes, PageDenied] = cachetools.TTLCache(_REMEMBERED, _REFUSED_S, clock)
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def sight(self, token: str) -> Sight:
        """Return what the bearer of this session, or token of Slurm or Kubernetes, may see. Raises what
        `Doorkeeper.sight` raises.
        """
        if not token or len(token) > _LONGEST or not token.isascii():
            raise PageDenied(401, "give a token: from kubectl create token NAME, or from your kubeconfig")
        digest = hashlib.sha256(token.encode()).digest()
        self._recall_refusal(digest)
        try:
            return await self._sight(token, digest)
        except PageDenied as denied:
            self._refused.setdefault(digest, denied)
            raise

    async def enter(self, token: str) -> str:
        """Return what the browser keeps as its cookie: a session for a token of Slurm, else the token. A link of
        my-page opens once, so that nobody can use one that they find in a chat later. Raises what `Doorkeeper.enter`
        raises.
        """
        sight = await self.sight(token)
        if not user_of(token):
            return token
        digest = hashlib.sha256(token.encode()).digest()
        if digest in self._used:
            raise PageDenied(401, "this link was opened already: run my-page, which prints another one")
        try:
            session = self._sessions.begin(sight.user)
        except NoSession as error:
            raise PageDenied(503, str(error)) from error
        self._used[digest] = True
        return session

    async def _sight(self, token: str, digest: bytes) -> Sight:
        try:
            if whose := self._sessions.user(token):
                return Sight(user=whose)
        except NoSession as over:
            raise PageDenied(401, str(over)) from over
        if user_of(token):
            return Sight(user=await self._answer(self._users, digest, digest, lambda: self._ask_slurm(token)))
        user = await self._answer(self._known, digest, digest, lambda: self._ask_who(token))
        if not await self._may_get(user, digest, names.NODESET_PLURAL, self._namespace):
            raise PageDenied(403, f"{user.username} may not get nodesets in namespace {self._namespace}")
        if await self._may_get(user, digest, "pods", ""):
            return EVERYTHING
        seen = [each for each in self._namespaces() if await self._may_get(user, digest, "pods", each)]
        return Sight(namespaces=frozenset(seen))

    async def _may_get(self, user: UserInfo, digest: bytes, resource: str, namespace: str) -> bool:
        group = names.API_GROUP if resource == names.NODESET_PLURAL else ""
        ask = partial(may_get, self._kube, user, resource, group=group, namespace=namespace)
        return await self._answer(self._may, digest, (digest, resource, namespace), ask)

    async def _ask_slurm(self, token: str) -> str:
        try:
            return await proved_user(self._slurm_url, token)
        except Unauthorized as error:
            raise PageDenied(401, f"the token is not accepted: {error.message}") from error

    async def _ask_who(self, token: str) -> UserInfo:
        review = await self._kube.review_token(token)
        if not review.authenticated or not review.user.username:
            raise PageDenied(401, f"the token is not accepted: {review.error or 'wrong or expired'}")
        return review.user

    async def _answer(self, known: MutableMapping[K, V], digest: bytes, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        """Return the answer under this key if it is known. If not, call `ask`, but only a few at a time, and keep its
        answer.
        """
        if (answer := known.get(key)) is not None:
            return answer
        async with self._turn:
            self._recall_refusal(digest)
            if (answer := known.get(key)) is None:
                answer = known[key] = await ask()
        return answer

    def _recall_refusal(self, digest: bytes) -> None:
        if (refusal := self._refused.get(digest)) is not None:
            raise PageDenied(refusal.status, str(refusal))
