"""Sends HTTP requests to the apiserver, and returns the answers.

The official client supplies connection, TLS, kubeconfig and token refresh; bodies are sent and decoded here, because
that client's models cost 75 times the time and 20 times the memory of a typed decode. Nothing is retried here, because
the loops that send requests run again. A write has no more time than the deadline of the leader leaves (see
`sunkpy.runtime.deadline`).

A watch holds a connection for as long as it lives, so watches have a pool of their own: however many there are,
requests find a connection.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlencode
from urllib.request import getproxies_environment

import aiohttp
import msgspec
import yaml

from sunkpy.kube import errors
from sunkpy.kube.official_client import ApiClient, Configuration, RESTClientObject, config
from sunkpy.runtime.deadline import OVER, Deadline, unlimited

Json = Mapping[str, object]

JSON: Final = "application/json"

TIMEOUT_S: Final = 20.0
_CONNECTIONS = 32
"""The most connections for requests; each watch has one of its own in addition."""
_UNUSABLE: Final = (config.ConfigException, yaml.YAMLError, TypeError, AttributeError)
"""The errors of the official client for a kubeconfig that is invalid. For a file that is not a map of lists it raises
TypeError or AttributeError.
"""
_OF_POD: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
WATCH_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=10, sock_read=100)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request to the apiserver. As text it says in an error what was tried."""

    method: str
    path: str
    params: Mapping[str, str] = {}
    body: Json | None = None
    content_type: str = JSON
    accept: str = JSON

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def is_write(self) -> bool:
        """True for every method but GET. So it is also true for a review (such as TokenReview), which changes
        nothing.
        """
        return self.method != "GET"


class Connection:
    """A connection to one apiserver, with one identity. Close it when done. `timeout_s` limits each request, but not
    watches.
    """

    def __init__(self, api: ApiClient, *, deadline: Deadline = unlimited, timeout_s: float = TIMEOUT_S) -> None:
        self._api = api
        self._watching: ApiClient | None = None
        self._timeout_s = timeout_s
        self._deadline = deadline

    @classmethod
    async def open(
        cls, kubeconfig: Path | None, *, deadline: Deadline = unlimited, timeout_s: float = TIMEOUT_S
    ) -> Self:
        """Connect with the given kubeconfig, else as the pod's service account, else with `$KUBECONFIG`.

        Raises:
            Unavailable: there is no kubeconfig and no service account, or the one that was found cannot be used.
        """
        settings = Configuration()
        try:
            if kubeconfig is not None:
                await config.load_kube_config(config_file=str(kubeconfig), client_configuration=settings)
            else:
                await _load_ambient(settings)
        except _UNUSABLE as error:
            message = f"the kubeconfig cannot be used: {error}"
            raise errors.Unavailable("find the apiserver", status=0, message=message) from error
        settings.connection_pool_maxsize = _CONNECTIONS
        # Otherwise each request looks for proxies and a ~/.netrc in two threads, which is a third of its cost.
        settings.client_session_kwargs = {"trust_env": bool(getproxies_environment())}
        settings.retries = None
        return cls(_client(settings), deadline=deadline, timeout_s=timeout_s)

    async def close(self) -> None:
        """Close all connections."""
        await self._api.close()
        if self._watching is not None:
            await self._watching.close()

    async def send(self, request: Request) -> bytes:
        """Send a request, and return the body of a 2xx answer.

        Raises:
            KubeError: a class of `sunkpy.kube.errors` for any other answer, for no answer (Unavailable), and for a
                write after the deadline (LeaseOver).
        """
        limit_s = min(self._timeout_s, self._deadline()) if request.is_write else self._timeout_s
        if limit_s <= 0:
            raise errors.LeaseOver(str(request), status=0, message=OVER)
        try:
            async with asyncio.timeout(limit_s):
                answer = await self._send(request, self._api)
                content: bytes = await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise errors.Unavailable(str(request), status=0, message=f"no answer: {error!r}") from error
        if not 200 <= answer.status <= 299:
            raise errors.from_response(str(request), answer.status, content)
        return content

    async def stream(self, request: Request, on_open: Callable[[], None]) -> AsyncIterator[bytes]:
        """Yield the lines of an answer that does not end by itself, such as a watch. `on_open` is called when the
        server has accepted the request.

        After 100 s without a byte the stream ends as if the server had ended it. Such a silence is no error: the server
        sends bookmarks about each minute, but not for a kind that has not changed since the apiserver started.

        Raises:
            Gone: the requested resourceVersion is too old.
            Unavailable: the connection broke.
            KubeError: the server refused the request.
        """
        name = f"WATCH {request.path}"
        try:
            answer = await self._send(request, self._for_watches(), WATCH_TIMEOUT)
            if answer.status != 200:
                raise errors.from_response(name, answer.status, await answer.read())
            on_open()
            try:
                async for line in _lines(answer):
                    yield line
            except aiohttp.SocketTimeoutError:
                return
            finally:
                answer.close()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise errors.Unavailable(name, status=0, message=f"watch broke: {error!r}") from error

    def _for_watches(self) -> ApiClient:
        """Return the client for watches. It is made for the first watch, because commands have none, and each client
        reads the machine's certificates.
        """
        if self._watching is None:
            settings = self._api.configuration
            settings.connection_pool_maxsize = 0  # without a limit; the other client has its own already
            self._watching = _client(settings)
        return self._watching

    async def _send(
        self, request: Request, api: ApiClient, timeout: aiohttp.ClientTimeout | None = None
    ) -> aiohttp.ClientResponse:
        settings = api.configuration
        headers = {"Content-Type": request.content_type, "Accept": request.accept, "User-Agent": "sunkpy"}
        for auth in (await settings.auth_settings()).values():
            headers[auth["key"]] = auth["value"]
        query = f"?{urlencode(request.params)}" if request.params else ""
        url = f"{settings.host}{request.path}{query}"
        answer = await api.rest_client.request(
            request.method, url, headers=headers, body=request.body, _request_timeout=timeout
        )
        response: aiohttp.ClientResponse = answer.response
        return response


class _Connections(RESTClientObject):  # type: ignore[misc]  # the official client has no types
    """The official client's HTTP connections, which all close fully when the client closes, even if the reader of an
    answer stopped in the middle.

    Closing TLS means to wait until the server closes its side, and before Python 3.12.8 nobody did that: such a
    connection outlived its client, for 30 s if the server was silent.
    """

    def _create_connector(self) -> aiohttp.TCPConnector:
        return aiohttp.TCPConnector(
            limit=self.maxsize, ssl=self.ssl_context, enable_cleanup_closed=sys.version_info < (3, 12, 8)
        )


def _client(settings: Configuration) -> ApiClient:
    client = ApiClient(settings)
    client.rest_client = _Connections(settings)
    return client


async def _load_ambient(settings: Configuration) -> None:
    try:
        config.load_incluster_config(client_configuration=settings)
    except config.ConfigException:
        await config.load_kube_config(client_configuration=settings)


async def _lines(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield the lines of a stream. A line may be longer than any read buffer."""
    rest = b""
    async for chunk in answer.content.iter_any():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line:
                yield line


def _own_namespace() -> str:
    """Return the namespace of the pod whose service account would be used; empty outside a pod."""
    try:
        return _OF_POD.read_text().strip() if os.environ.get("KUBERNETES_SERVICE_HOST") else ""
    except OSError:
        return ""


def current_namespace(kubeconfig: Path | None = None) -> str:
    """Return the namespace of the kubeconfig's current context. Without `kubeconfig`, a pod's own namespace comes
    first. If there is no namespace or no usable kubeconfig, return `default`.
    """
    if kubeconfig is None and (own := _own_namespace()):
        return own
    paths = str(kubeconfig or config.KUBE_CONFIG_DEFAULT_LOCATION)
    if not any(path and os.path.exists(os.path.expanduser(path)) for path in paths.split(os.pathsep)):
        return "default"  # the official client would say on standard error that there is none
    try:
        _, context = config.list_kube_config_contexts(paths)
    except _UNUSABLE:
        return "default"
    namespace: str = context["context"].get("namespace") or "default"
    return namespace
