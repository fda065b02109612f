"""Recorded answers, and a client that gets them."""

import json
from pathlib import Path

import httpx
import msgspec
from pytest_httpx import HTTPXMock

from sunkpy.slurm import Slurm
from sunkpy.slurm.transport import Transport

URL = "http://slurmrestd:6820"
RECORDED = Path(__file__).parent / "recorded"
SERVERS = [("24.11", "v0.0.42"), ("26.05", "v0.0.42"), ("26.05", "v0.0.45")]


class Answer(msgspec.Struct):
    request: str
    status: int
    content_type: str
    body: msgspec.Raw

    def to_response(self) -> httpx.Response:
        body = json.loads(bytes(self.body))
        content = body.encode() if isinstance(body, str) else bytes(self.body)
        return httpx.Response(self.status, content=content, headers={"Content-Type": self.content_type})


def answer(slurm: str, api: str, name: str) -> httpx.Response:
    path = RECORDED / slurm / api / f"{name}.json"
    return msgspec.json.decode(path.read_bytes(), type=Answer).to_response()


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


def client(version: str = "auto", tokens: FixedToken | None = None) -> Slurm:
    return Slurm(Transport(URL, tokens or FixedToken(), version=version, sleep=no_sleep))


def serve(httpx_mock: HTTPXMock, *responses: httpx.Response) -> None:
    """Answer in this order, whatever is asked."""
    waiting = list(responses)

    def callback(request: httpx.Request) -> httpx.Response:
        assert waiting, f"unexpected {request.method} {request.url}"
        return waiting.pop(0)

    httpx_mock.add_callback(callback, is_reusable=True)


def slurm_errors(status: int, number: int, text: str = "no") -> httpx.Response:
    body = {"errors": [{"error_number": number, "error": text, "description": "it failed"}], "warnings": []}
    return httpx.Response(status, json=body)
