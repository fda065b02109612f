"""Requests to the apiserver.

The official client supplies connection, TLS, kubeconfig and token refresh; bodies are sent and decoded here, because
its models cost 75 times the time and 20 times the memory of a typed decode. Nothing is retried here: each caller is a
reconcile that runs again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar
from urllib.parse import urlencode

import aiohttp
import msgspec
from kubernetes.aio import config
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration

from sunkpy.kube import errors, paths

T = TypeVar("T")
Json = Mapping[str, object]

MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

_TIMEOUT_S = 20.0


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _RawList(msgspec.Struct, frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: list[msgspec.Raw] | None = None


class Kube:
    """A connection to one apiserver, as one identity. Close it, or use it in `async with`."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api

    @classmethod
    async def connect(cls, kubeconfig: Path | None = None, *, connections: int = 32) -> Self:
        """Connect with the given kubeconfig, else as the pod's service account, else with `$KUBECONFIG`."""
        settings = Configuration()
        if kubeconfig is not None:
            await config.load_kube_config(config_file=str(kubeconfig), client_configuration=settings)
        else:
            await _load_ambient(settings)
        settings.connection_pool_maxsize = connections
        settings.retries = None
        return cls(ApiClient(settings))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._api.close()

    # ------------------------------------------------------------------ reads

    async def get(self, path: str, type_: type[T]) -> T:
        """One object.

        Raises:
            NotFound, Forbidden, Unavailable.
        """
        return msgspec.json.decode(await self.request("GET", path), type=type_)

    async def list_objects(
        self, path: str, item_type: type[T], *, label_selector: str = "", field_selector: str = ""
    ) -> list[T]:
        """All objects under a collection path, in one consistent read."""
        items, _ = await self.list_page(path, item_type, label_selector=label_selector, field_selector=field_selector)
        return items

    async def list_page(
        self, path: str, item_type: type[T], *, label_selector: str = "", field_selector: str = ""
    ) -> tuple[list[T], str]:
        """All objects and the resourceVersion of the read."""
        params = _selectors(label_selector, field_selector)
        body = msgspec.json.decode(await self.request("GET", path, params=params), type=_RawList)
        decoder = msgspec.json.Decoder(item_type)
        return [decoder.decode(item) for item in body.items or []], body.metadata.resource_version

    async def watch_lines(
        self,
        path: str,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        on_open: Callable[[], None] = lambda: None,
    ) -> AsyncIterator[bytes]:
        """Raw watch events, one JSON document each, until the server ends the stream.

        `on_open` is called when the server has accepted the watch: nothing may change for a long time after that.

        Raises:
            Gone: the version is too old; list again.
            Unavailable: no byte came for 100 s (bookmarks come each minute or so), or the connection broke.
        """
        params = _selectors(label_selector, field_selector) | {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
        }
        request = f"WATCH {path}"
        timeout = aiohttp.ClientTimeout(total=None, connect=10, sock_read=100)
        try:
            answer = await self._send("GET", path, params=params, timeout=timeout)
            if answer.status != 200:
                raise errors.from_response(request, answer.status, await answer.read())
            on_open()
            try:
                async for line in _lines(answer):
                    yield line
            finally:
                answer.close()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise errors.Unavailable(request, status=0, message=f"watch broke: {error!r}") from error

    # ----------------------------------------------------------------- writes

    async def create(self, path: str, body: Json) -> bytes:
        """Create an object under a collection path; the stored object as JSON.

        Raises:
            Conflict: it exists already (`already_exists`).
            Invalid: the apiserver refuses it.
        """
        return await self.request("POST", path, body=body)

    async def patch(self, path: str, body: Json, *, content_type: str = MERGE_PATCH) -> bytes:
        """Merge `body` into an object (RFC 7386: null removes a key). Guard with `metadata.resourceVersion`."""
        return await self.request("PATCH", path, body=body, content_type=content_type)

    async def apply(self, path: str, body: Json, *, field_manager: str) -> bytes:
        """Server-side apply, taking over conflicting fields (KEP-555)."""
        params = {"fieldManager": field_manager, "force": "true"}
        return await self.request("PATCH", path, body=body, params=params, content_type=APPLY_PATCH)

    async def delete(
        self, path: str, *, uid: str = "", resource_version: str = "", grace_period_s: int | None = None
    ) -> None:
        """Delete an object, only if it still has that uid and resourceVersion.

        Raises:
            Conflict: it has changed or is another one by now.
            NotFound: it is gone already.
        """
        preconditions = {k: v for k, v in (("uid", uid), ("resourceVersion", resource_version)) if v}
        body: dict[str, object] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": preconditions,
        }
        if grace_period_s is not None:
            body["gracePeriodSeconds"] = grace_period_s
        await self.request("DELETE", path, body=body)

    async def bind(self, namespace: str, name: str, *, uid: str, node: str, annotations: Mapping[str, str]) -> None:
        """Put a pending pod on a node; the annotations are merged into the pod by the apiserver in the same write.

        Raises:
            Conflict: the pod is bound already, or is another one under that name.
        """
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": uid, "annotations": dict(annotations)},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self.request("POST", f"{paths.pod(namespace, name)}/binding", body=body)

    async def review_token(self, token: str, *, audience: str) -> TokenReview:
        """Ask the apiserver whose token this is.

        Raises:
            Forbidden: we may not create TokenReviews.
        """
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [audience]},
        }
        answer = await self.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body=body)
        return msgspec.json.decode(answer, type=_TokenReviewAnswer).status

    # ---------------------------------------------------------------- request

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Json | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        """Send one request and return the body of its 2xx answer.

        Raises:
            KubeError: one of `sunkpy.kube.errors` for anything else.
        """
        request = f"{method} {path}"
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                answer = await self._send(method, path, params=params, body=body, content_type=content_type)
                content: bytes = await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise errors.Unavailable(request, status=0, message=f"no answer: {error!r}") from error
        if not 200 <= answer.status <= 299:
            raise errors.from_response(request, answer.status, content)
        return content

    async def _send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Json | None = None,
        content_type: str = "application/json",
        timeout: aiohttp.ClientTimeout | None = None,
    ) -> aiohttp.ClientResponse:
        settings = self._api.configuration
        headers = {"Content-Type": content_type, "Accept": "application/json", "User-Agent": "sunkpy"}
        for auth in (await settings.auth_settings()).values():
            headers[auth["key"]] = auth["value"]
        query = f"?{urlencode(params)}" if params else ""
        answer = await self._api.rest_client.request(
            method, f"{settings.host}{path}{query}", headers=headers, body=body, _request_timeout=timeout
        )
        response: aiohttp.ClientResponse = answer.response
        return response


class UserInfo(msgspec.Struct, frozen=True):
    """Who a token belongs to; `extra` tells the pod of a bound service-account token."""

    username: str = ""
    uid: str = ""
    extra: dict[str, Sequence[str]] = {}

    def bound_to(self, what: str) -> str:
        """Value of `authentication.kubernetes.io/<what>` (pod-name, pod-uid, node-name), or empty."""
        values = self.extra.get(f"authentication.kubernetes.io/{what}", ())
        return values[0] if values else ""


class TokenReview(msgspec.Struct, frozen=True):
    """The apiserver's verdict on a token."""

    authenticated: bool = False
    user: UserInfo = UserInfo()
    error: str = ""


class _TokenReviewAnswer(msgspec.Struct, frozen=True):
    status: TokenReview = TokenReview()


async def _load_ambient(settings: Configuration) -> None:
    try:
        config.load_incluster_config(client_configuration=settings)
    except config.ConfigException:
        await config.load_kube_config(client_configuration=settings)


def _selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    pairs = (("labelSelector", label_selector), ("fieldSelector", field_selector))
    return {key: value for key, value in pairs if value}


async def _lines(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Split a stream at newlines; a line may be longer than any read buffer."""
    rest = b""
    async for chunk in answer.content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line:
                yield line
