"""Recorded answers, and a slurmrestd on loopback that gives them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import msgspec
from aiohttp import web

from sunkpy.runtime.deadline import Deadline, unlimited
from sunkpy.slurm import Slurm
from sunkpy.slurm.connection import Answer
from sunkpy.slurm.recorder import Recorder
from sunkpy.slurm.transport import Transport
from tests.doubles.serving import serving

RECORDED = Path(__file__).parent / "recorded"
SERVERS = [("24.11", "v0.0.42"), ("26.05", "v0.0.42"), ("26.05", "v0.0.45")]
NOBODY = "http://127.0.0.1:1"


class Recording(msgspec.Struct):
    request: str
    status: int
    body: msgspec.Raw

    def to_answer(self) -> Answer:
        body = json.loads(bytes(self.body))
        return Answer(self.status, body.encode() if isinstance(body, str) else bytes(self.body))


def answer(slurm: str, api: str, name: str) -> Answer:
    path = RECORDED / slurm / api / f"{name}.json"
    return msgspec.json.decode(path.read_bytes(), type=Recording).to_answer()


def in_json(status: int, body: object) -> Answer:
    return Answer(status, msgspec.json.encode(body))


def slurm_errors(status: int, number: int, text: str = "no") -> Answer:
    body = {"errors": [{"error_number": number, "error": text, "description": "it failed"}], "warnings": []}
    return in_json(status, body)


class FixedToken:
    """Tokens that are counted."""

    def __init__(self) -> None:
        self.number = 1

    def token(self, user: str = "") -> str:
        return f"token-{self.number}{user and f'-of-{user}'}"

    def seal(self) -> str:
        return "seal"

    def renew(self) -> None:
        self.number += 1

    def explain_refusal(self) -> str:
        return "write a new token"


async def no_sleep(_: float) -> None:
    return None


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it came: `target` is path and query, as they stood on the wire."""

    method: str
    target: str
    headers: dict[str, str]
    content: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> str:
        return urlsplit(self.target).query

    @property
    def params(self) -> dict[str, str]:
        return dict(parse_qsl(self.query))


Respond = Callable[[Asked], Awaitable[Answer | None]]


class Rest:
    """A slurmrestd that gives set answers to any request, and keeps the requests."""

    def __init__(self) -> None:
        self.url = NOBODY
        self.asked: list[Asked] = []
        self._waiting: list[Answer | None] = []
        self._respond: Respond = self._next
        self._clients: list[Transport] = []

    def say(self, *answers: Answer) -> None:
        """Answer in this order."""
        self._waiting += answers

    def hang_up(self) -> None:
        """Close the connection at the next request, which nobody answers."""
        self._waiting.append(None)

    def respond(self, respond: Respond) -> None:
        """Ask this for each answer from now on."""
        self._respond = respond

    def transport(
        self,
        version: str = "auto",
        tokens: FixedToken | None = None,
        *,
        url: str = "",
        reader: str = "",
        recorder: Recorder | None = None,
        deadline: Deadline = unlimited,
    ) -> Transport:
        made = Transport(
            url or self.url,
            tokens or FixedToken(),
            version=version,
            reader=reader,
            recorder=recorder,
            deadline=deadline,
            sleep=no_sleep,
        )
        self._clients.append(made)
        return made

    def client(self, version: str = "auto", *, url: str = "", deadline: Deadline = unlimited) -> Slurm:
        return Slurm(self.transport(version, url=url, deadline=deadline))

    async def close(self) -> None:
        for transport in self._clients:
            await transport.close()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        asked = Asked(
            method=request.method, target=request.raw_path, headers=dict(request.headers), content=await request.read()
        )
        self.asked.append(asked)
        said = await self._respond(asked)
        if said is None:
            assert request.transport is not None
            request.transport.abort()
            await asyncio.Event().wait()
        assert said is not None
        return web.Response(status=said.status, body=said.content)

    async def _next(self, asked: Asked) -> Answer | None:
        return self._waiting.pop(0) if self._waiting else Answer(501, f"unexpected {asked.target}".encode())


@asynccontextmanager
async def recorded_rest() -> AsyncIterator[Rest]:
    rest = Rest()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", rest.handle)
    async with serving(app) as port:
        rest.url = f"http://127.0.0.1:{port}"
        try:
            yield rest
        finally:
            await rest.close()
