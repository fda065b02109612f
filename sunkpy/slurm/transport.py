"""One HTTP exchange with slurmrestd: token, API version, retries, and whether the answer means yes.

* Success is 2xx *and* no `errors`; anything else becomes an error of `sunkpy.slurm.errors`.
* A refused token is renewed and the request sent once more, whatever its method: a refused request did nothing.
* Only idempotent requests are sent again when nobody answered.
* The API version is found by asking for the newest known one first. slurmrestd answers 404 to versions it lacks; when
  it does so later (it was upgraded or rolled back) the version is looked for again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar
from urllib.parse import quote

import httpx
import msgspec
import tenacity

from sunkpy.slurm import wire
from sunkpy.slurm.auth import TokenSource
from sunkpy.slurm.errors import Malformed, SlurmError, Unauthorized, Unreachable, classify
from sunkpy.slurm.recorder import Recorder, Silent

VERSIONS: Final = ("v0.0.45", "v0.0.44", "v0.0.43", "v0.0.42")
"""Newest first: Slurm 26.05 serves 42–45, 24.11 serves 40–42."""

R = TypeVar("R", bound=wire.Reply)
Params = Mapping[str, str | int]

_TIMEOUT = httpx.Timeout(connect=2, read=30, write=10, pool=10)
_LIMITS = httpx.Limits(max_connections=10, max_keepalive_connections=10, keepalive_expiry=60)


class Transport:
    """Connections to one slurmrestd. `attempts` is how often an idempotent request is sent in all."""

    def __init__(
        self,
        url: str,
        tokens: TokenSource,
        *,
        version: str = "auto",
        attempts: int = 4,
        recorder: Recorder | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.url = url.rstrip("/")
        self._tokens = tokens
        self._version = "" if version == "auto" else version
        self._is_version_fixed = version != "auto"
        self._attempts = attempts
        self._recorder = recorder or Silent()
        self._sleep = sleep
        self._http = httpx.AsyncClient(base_url=self.url, timeout=_TIMEOUT, limits=_LIMITS, trust_env=False)
        self._discovery = asyncio.Lock()

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def version(self) -> str:
        """The API version in use, found on first need.

        Raises:
            Unreachable: no answer, or no version that both sides know.
            Unauthorized: the token was refused.
        """
        async with self._discovery:
            if not self._version:
                self._version = await self._discover()
            return self._version

    async def call(
        self,
        what: str,
        method: str,
        endpoint: str,
        reply: type[R],
        *,
        name: str | int = "",
        params: Params | None = None,
        body: object = None,
        idempotent: bool = True,
        attempts: int | None = None,
    ) -> R | None:
        """Send a request; the decoded answer, or None for 304 Not Modified.

        `what` is for people, `endpoint` a template below the version such as `node/{name}`; `attempts` overrides the
        transport's, for callers that are a loop themselves.

        Raises:
            SlurmError: see `sunkpy.slurm.errors`.
        """
        limit = (attempts or self._attempts) if idempotent else 1
        async for attempt in tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(Unreachable),
            stop=tenacity.stop_after_attempt(limit),
            wait=tenacity.wait_random_exponential(multiplier=0.2, max=5),
            before_sleep=lambda _: self._recorder.retried(endpoint),
            sleep=self._sleep,
            reraise=True,
        ):
            with attempt:
                return await self._call_once(what, method, endpoint, reply, name=name, params=params, body=body)
        raise AssertionError("tenacity ends with a result or an error")

    async def _call_once(
        self,
        what: str,
        method: str,
        endpoint: str,
        reply: type[R],
        *,
        name: str | int,
        params: Params | None,
        body: object,
    ) -> R | None:
        started = time.monotonic()
        code = "ok"
        try:
            return await self._authorized(what, method, endpoint, reply, name=name, params=params, body=body)
        except SlurmError as error:
            code = error.code
            raise
        finally:
            self._recorder.answered(endpoint, code=code, seconds=time.monotonic() - started)

    async def _authorized(
        self,
        what: str,
        method: str,
        endpoint: str,
        reply: type[R],
        *,
        name: str | int,
        params: Params | None,
        body: object,
    ) -> R | None:
        path = f"/slurm/{await self.version()}/{endpoint.format(name=_quote(name))}"
        content = None if body is None else msgspec.json.encode(body)
        try:
            answer = await self._send(what, method, path, params=params, content=content)
            return self._read(what, endpoint, answer, reply)
        except Unauthorized:
            self._tokens.renew()
        answer = await self._send(what, method, path, params=params, content=content)
        try:
            return self._read(what, endpoint, answer, reply)
        except Unauthorized as error:
            error.hint = self._tokens.explain_refusal()
            raise

    async def _send(
        self, what: str, method: str, path: str, *, params: Params | None = None, content: bytes | None = None
    ) -> httpx.Response:
        headers = {"X-SLURM-USER-TOKEN": self._tokens.token()}
        if content is not None:
            headers["Content-Type"] = "application/json"
        try:
            return await self._http.request(method, path, params=params, content=content, headers=headers)
        except httpx.TransportError as error:
            raise Unreachable(
                what,
                endpoint=path,
                text=f"no answer from {self.url}: {type(error).__name__} {error}".rstrip(),
                hint="is slurmrestd running?",
            ) from error

    def _read(self, what: str, endpoint: str, answer: httpx.Response, reply: type[R]) -> R | None:
        status = answer.status_code
        if status == httpx.codes.NOT_MODIFIED:
            return None
        try:
            decoded = msgspec.json.decode(answer.content, type=reply)
        except msgspec.DecodeError as error:
            raise self._unreadable(what, endpoint, answer, error) from error
        if decoded.errors or not answer.is_success:
            first = decoded.errors[0] if decoded.errors else wire.Failure()
            raise classify(
                what, endpoint=endpoint, http_status=status, error_number=first.error_number, text=first.text
            )
        return decoded

    def _unreadable(self, what: str, endpoint: str, answer: httpx.Response, error: msgspec.DecodeError) -> SlurmError:
        """Plain text: slurmrestd refuses before it looks (401, 404), or is not slurmrestd at all."""
        status = answer.status_code
        if answer.is_success:
            return Malformed(what, endpoint=endpoint, http_status=status, text=str(error))
        text = answer.text.strip()[:200]
        if status == httpx.codes.NOT_FOUND:
            version = self._version
            if not self._is_version_fixed:
                self._version = ""
            return Unreachable(
                what,
                endpoint=endpoint,
                http_status=status,
                text=text,
                hint=f"slurmrestd at {self.url} does not serve {version}; is it slurmrestd {VERSIONS[-1]} or newer?",
            )
        return classify(what, endpoint=endpoint, http_status=status, text=text)

    async def _discover(self) -> str:
        what = "find an API version that slurmrestd serves"
        for version in VERSIONS:
            answer = await self._send(what, "GET", f"/slurm/{version}/ping/")
            if answer.status_code == httpx.codes.UNAUTHORIZED:
                self._tokens.renew()
                answer = await self._send(what, "GET", f"/slurm/{version}/ping/")
            if answer.status_code == httpx.codes.UNAUTHORIZED:
                raise Unauthorized(
                    what, endpoint="ping", http_status=answer.status_code, hint=self._tokens.explain_refusal()
                )
            if answer.is_success:
                return version
            if answer.status_code != httpx.codes.NOT_FOUND:
                raise classify(what, endpoint="ping", http_status=answer.status_code, text=answer.text.strip()[:200])
        raise Unreachable(
            what,
            endpoint="ping",
            http_status=404,
            text=f"none of {', '.join(VERSIONS)} at {self.url}",
            hint="Slurm 24.11 or newer is needed",
        )


def _quote(name: str | int) -> str:
    return quote(str(name), safe="")
