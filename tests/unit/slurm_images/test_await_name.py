"""Whoever joins waits until DNS knows its name, and asks so that no resolver keeps a "no" for those who come after."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

AWAIT_NAME = Path(__file__).parents[3] / "slurm-images" / "bin" / "await-name"
NAME: Final = "compute-000-011.slurm-compute.slurm.svc.cluster.local"
KNOWN, SERVER_FAILED, UNKNOWN = 0, 2, 3
"""Codes of RFC 1035, section 4.1.1: for a name without such a record, too, the first."""
SILENT = -1
Question = tuple[str, int]
"""Name and type."""


class Server:
    """DNS, whose answers have these codes, the last for ever."""

    def __init__(self, codes: Sequence[int]) -> None:
        self._codes = list(codes)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.questions: list[Question] = []

    def serve(self) -> None:
        """Serve until a packet comes that is no question."""
        with self._socket:
            self._answer()

    def _answer(self) -> None:
        while (received := self._socket.recvfrom(512))[0]:
            packet, sender = received
            self.questions.append(read(packet))
            code = self._codes.pop(0) if len(self._codes) > 1 else self._codes[0]
            if code != SILENT:
                self._socket.sendto(packet[:2] + bytes([0x81, 0x80 | code]) + packet[4:], sender)

    def end(self) -> None:
        """Such a word."""
        self._socket.sendto(b"", ("127.0.0.1", self.port))


def read(packet: bytes) -> Question:
    """RFC 1035, section 4.1; one question of class IN, and recursion is wanted."""
    assert struct.unpack(">6H", packet[:12])[1:] == (0x0100, 1, 0, 0, 0)
    labels, rest = [], packet[12:]
    while size := rest[0]:
        labels.append(rest[1 : 1 + size].decode())
        rest = rest[1 + size :]
    kind, class_ = struct.unpack(">2H", rest[1:])
    assert class_ == 1
    return ".".join(labels), kind


@contextmanager
def serving(*codes: int) -> Iterator[Server]:
    server = Server(codes)
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield server
    finally:
        server.end()
        thread.join()


def await_name(server: Server, *, seconds: int, answer_s: int = 60) -> tuple[int, str]:
    """Exit code and words."""
    argv = [AWAIT_NAME, NAME, str(seconds), "127.0.0.1", str(server.port)]
    env = {**os.environ, "SUNKPY_ANSWER_S": str(answer_s)}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("code", [KNOWN, SERVER_FAILED])
def test_who_is_known_goes_on_at_once_and_so_does_who_gets_another_answer(code: int) -> None:
    with serving(code) as server:
        assert await_name(server, seconds=60) == (0, "")
        assert [name for name, _ in server.questions] == [NAME]


def test_each_question_is_of_another_type_that_nobody_else_asks_for() -> None:
    with serving(UNKNOWN, UNKNOWN, SILENT, KNOWN) as server:
        assert await_name(server, seconds=60, answer_s=4) == (0, f"await-name: DNS does not know {NAME} yet\n")
        assert {name for name, _ in server.questions} == {NAME}
        kinds = [kind for _, kind in server.questions]
        assert len(set(kinds)) == len(kinds) == 4
        assert all(65280 <= kind <= 65534 for kind in kinds)


@pytest.mark.parametrize("code", [UNKNOWN, SILENT])
def test_who_stays_unknown_gives_up(code: int) -> None:
    with serving(code) as server:
        exit_code, said = await_name(server, seconds=1, answer_s=1)
        assert exit_code == 1
        assert said.splitlines()[-1] == f"await-name: DNS does not know {NAME} after 1 s"
