"""Sends a request to slurmrestd with token and API version, repeats it if allowed, and decodes the answer.

* Success is 2xx *and* no `errors`; anything else becomes an error of `sunkpy.slurm.errors`.
* After a refused token the request is sent once more with a new one, whatever its method: a refused request did
  nothing.
* If no answer comes, only idempotent requests are sent again.
* A write has only the time until its deadline, each time that it is sent (see `sunkpy.runtime.deadline`).
* A long answer is decoded in a thread (see `sunkpy.slurm.pieces`), so that the event loop goes on.
* The newest known API version is tried first. slurmrestd answers 404 to versions that it lacks; if it does so later,
  after an upgrade or a rollback, the version is searched for again.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec
import tenacity

from sunkpy.runtime.deadline import OVER, Deadline, unlimited
from sunkpy.slurm import wire
from sunkpy.slurm.auth import JWT_HEADER, TokenSource
from sunkpy.slurm.connection import Answer, Connection, Exchange, NoAnswer
from sunkpy.slurm.errors import LeaseOver, Malformed, SlurmError, Unauthorized, Unreachable, classify
from sunkpy.slurm.recorder import Recorder, Silent
from sunkpy.slurm.request import Request

VERSIONS: Final = ("v0.0.45", "v0.0.44", "v0.0.43", "v0.0.42")
"""The API versions of this client, newest first: Slurm 26.05 serves 42–45, 24.11 serves 40–42."""

R = TypeVar("R", bound=wire.Reply)

_TEXT_LIMIT = 200
_LONG_BYTES = 200_000

_DISCOVERY = Request(what="find an API version that slurmrestd serves", method="GET", endpoint="ping/")


class Transport:
    """Sends requests to one slurmrestd. `attempts`: how often an idempotent request is sent in all. `reader`: the Slurm
    user of reads. `connection`: used in place of HTTP connections to the address.
    """

    def __init__(
        self,
        url: str,
        tokens: TokenSource,
        *,
        version: str = "auto",
        reader: str = "",
        attempts: int = 4,
        recorder: Recorder | None = None,
        connection: Exchange | None = None,
        deadline: Deadline = unlimited,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.url = url.rstrip("/")
        self._tokens = tokens
        self._version = "" if version == "auto" else version
        self._is_version_fixed = version != "auto"
        self._reader = reader
        self._attempts = attempts
        self._recorder = recorder or Silent()
        self._deadline = deadline
        self._sleep = sleep
        self._http = connection or Connection(self.url)
        self._discovery = asyncio.Lock()

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()

    async def version(self) -> str:
        """Return the API version in use; the first call finds it.

        Raises:
            Unreachable: slurmrestd did not answer, or serves no version of this client.
            Unauthorized: the token was refused.
        """
        async with self._discovery:
            if not self._version:
                self._version = await self._discover()
            return self._version

    @property
    def user(self) -> str:
        """The process's own Slurm user; empty if the token does not say."""
        return self._tokens.user

    def seal(self) -> str:
        """Return the seal: a text that proves to slurmctld that a job comes from a holder of the cluster's JWT key.

        Raises:
            Unauthorized: this process has a token, but not the key.
        """
        return self._tokens.seal()

    async def ask(self, request: Request, reply: type[R]) -> R:
        """Send a request and return the decoded answer; like `call`, but 304 Not Modified is an error.

        Raises:
            SlurmError: see `sunkpy.slurm.errors`.
        """
        answer = await self.call(request, reply)
        if answer is None:
            text = "not modified, though nothing was compared"
            raise Malformed(request.what, endpoint=request.label, http_status=304, text=text)
        return answer

    async def call(self, request: Request, reply: type[R]) -> R | None:
        """Send a request and return the decoded answer; None for 304 Not Modified.

        Raises:
            SlurmError: see `sunkpy.slurm.errors`.
        """
        limit = (request.attempts or self._attempts) if request.is_idempotent else 1
        if limit == 1:
            return await self._measured(request, reply)
        async for attempt in tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception_type(Unreachable),
            stop=tenacity.stop_after_attempt(limit),
            wait=tenacity.wait_random_exponential(multiplier=0.2, max=5),
            before_sleep=lambda _: self._recorder.retried(request.label),
            sleep=self._sleep,
            reraise=True,
        ):
            with attempt:
                return await self._measured(request, reply)
        raise AssertionError("tenacity ends with a result or an error")

    async def _measured(self, request: Request, reply: type[R]) -> R | None:
        started = time.monotonic()
        code = "ok"
        try:
            return await self._authorized(request, reply)
        except SlurmError as error:
            code = error.code
            raise
        finally:
            self._recorder.answered(request.label, code=code, seconds=time.monotonic() - started)

    async def _authorized(self, request: Request, reply: type[R]) -> R | None:
        version = await self.version()
        try:
            return await self._read(request, await self._send(request, version), reply)
        except Unauthorized:
            self._tokens.renew()
        answer = await self._send(request, version)
        try:
            return await self._read(request, answer, reply)
        except Unauthorized as error:
            error.hint = self._tokens.explain_refusal()
            raise

    async def _send(self, request: Request, version: str) -> Answer:
        user = request.user or ("" if request.is_write else self._reader)
        headers = {JWT_HEADER: self._tokens.token(user)}
        if request.body is not None:
            headers["Content-Type"] = "application/json"
        path, content = request.path(version), request.content
        limit_s = self._deadline() if request.is_write else math.inf
        if limit_s <= 0:
            raise LeaseOver(request.what, endpoint=request.label, text=OVER)
        try:
            async with asyncio.timeout(limit_s):
                answer = await self._http.exchange(
                    request.method, f"{path}{request.query}", content=content, headers=headers
                )
        except (NoAnswer, TimeoutError) as error:
            raise Unreachable(
                request.what,
                endpoint=path,
                text=f"no answer from {self.url}: {str(error) or 'not in the time that was left'}",
                hint=error.hint if isinstance(error, NoAnswer) else NoAnswer.hint,
            ) from error
        self._recorder.exchanged(request.label, size=len(content or b"") + len(answer.content))
        return answer

    async def _read(self, request: Request, answer: Answer, reply: type[R]) -> R | None:
        status = answer.status
        if status == HTTPStatus.NOT_MODIFIED:
            return None
        try:
            is_long = len(answer.content) > _LONG_BYTES
            read = partial(_decoded, reply, answer.content)
            decoded = await asyncio.to_thread(read) if is_long else read()
        except msgspec.DecodeError as error:
            raise self._unreadable(request, answer, error) from error
        if decoded.errors or not answer.is_success:
            first = decoded.errors[0] if decoded.errors else wire.Failure()
            raise classify(request, http_status=status, error_number=first.error_number, text=first.text)
        return decoded

    def _unreadable(self, request: Request, answer: Answer, error: msgspec.DecodeError) -> SlurmError:
        """Return the error for an answer that cannot be decoded. slurmrestd refuses without JSON when it answers 401 or
        404, and 404 means that it does not serve the API version; or another server has answered.
        """
        status = answer.status
        if answer.is_success:
            return Malformed(request.what, endpoint=request.label, http_status=status, text=str(error))
        if status != HTTPStatus.NOT_FOUND:
            return classify(request, http_status=status, text=_text(answer))
        version = self._version
        if not self._is_version_fixed:
            self._version = ""
        return Unreachable(
            request.what,
            endpoint=request.label,
            http_status=status,
            text=_text(answer),
            hint=f"slurmrestd at {self.url} does not serve {version}; is its Slurm 24.11 or newer?",
        )

    async def _discover(self) -> str:
        what = _DISCOVERY.what
        for version in VERSIONS:
            answer = await self._send(_DISCOVERY, version)
            if answer.status == HTTPStatus.UNAUTHORIZED:
                self._tokens.renew()
                answer = await self._send(_DISCOVERY, version)
            if answer.status == HTTPStatus.UNAUTHORIZED:
                hint = self._tokens.explain_refusal()
                raise Unauthorized(what, endpoint=_DISCOVERY.label, http_status=answer.status, hint=hint)
            if answer.is_success:
                return version
            if answer.status != HTTPStatus.NOT_FOUND:
                raise classify(_DISCOVERY, http_status=answer.status, text=_text(answer))
        raise Unreachable(
            what,
            endpoint=_DISCOVERY.label,
            http_status=404,
            text=f"none of {', '.join(VERSIONS)} at {self.url}",
            hint="Slurm 24.11 or newer is needed",
        )


def _decoded(reply: type[R], content: bytes) -> R:
    """Decode an answer. Slurm passes on texts of users in any encoding, so bytes that are not UTF-8 become U+FFFD.

    Raises:
        msgspec.DecodeError: the content is no `reply`.
    """
    try:
        return reply.read(content)
    except UnicodeDecodeError:
        return reply.read(content.decode(errors="replace").encode())


def _text(answer: Answer) -> str:
    return answer.text.strip()[:_TEXT_LIMIT]
