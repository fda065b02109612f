"""Sends requests to slurmrestd through a program in a pod, by the program's standard input and output.

A person's laptop cannot reach slurmrestd and has no token. The program (`serve`) runs in a pod of sunkpy, which
reaches slurmrestd and has a token. `kubectl exec` connects the program's standard input and output with the person's
command (`Relay`). Keys and tokens stay in the pod: a request only names its Slurm user, if that is not the pod's own.

Each message is its length in four bytes, most significant first, and then msgpack. The program first sends a `Hello`.
Answers come in any order. They are compressed, because a list of all jobs is megabytes of text.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import resource
import sys
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec

from sunkpy.runtime.child import kill_child, start_child
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.slurm.auth import JWT_HEADER, TokenSource, token_source
from sunkpy.slurm.connection import Answer, Connection, NoAnswer
from sunkpy.slurm.errors import SlurmError, Unauthorized

S = TypeVar("S", bound=msgspec.Struct)

_BEGINS_S: Final = 30.0
_ANSWERS_S: Final = 60.0
_ENDS_S: Final = 2.0
_LENGTH_BYTES: Final = 4
_SAID_BYTES: Final = 2000
_MEMORY_BYTES: Final = 400 * 2**20
"""The relay's memory limit. If the container ran out of memory, all its processes would end, such as the scheduler."""
_TOO_LONG: Final = "the answer is longer than the relay may hold; see --slurmrestd"
_NO_MESSAGE: Final = (asyncio.IncompleteReadError, msgspec.DecodeError)


class Hello(msgspec.Struct, frozen=True):
    """The first message of the program in the pod. `user`: the Slurm user of the pod's own token."""

    user: str


class RelayRequest(msgspec.Struct, frozen=True):
    """A request to slurmrestd, sent to the program in the pod. `user`: the Slurm user of the request; empty for the
    user that the pod's settings name.
    """

    id: int
    method: str
    path: str
    user: str = ""
    content: bytes | None = None
    headers: dict[str, str] = {}


class Answered(msgspec.Struct, frozen=True):
    """The compressed answer to a request, or the reason why there is none (`problem`)."""

    id: int
    status: int = 0
    content: bytes = b""
    problem: str = ""


class _Ended(NoAnswer):
    """The relay's command did not start, or has ended, for example with its pod. `is_sent`: the request was sent to the
    command, so slurmrestd may have carried it out.
    """

    def __init__(self, text: str, *, is_sent: bool = False) -> None:
        super().__init__(text)
        self.is_sent = is_sent


class Relay:
    """Sends requests to slurmrestd through a command, mostly `kubectl exec`. If the command does not run, the next
    request starts it.

    A `Transport` uses this object both as connection and as source of tokens. `find_command` returns the command, or
    raises LookupError with the reason why there is none; it is called again whenever the command has ended. `hint`:
    what a person can do if a request fails because the command did not start, or has ended.
    """

    def __init__(self, find_command: Callable[[], Awaitable[Sequence[str]]], *, hint: str = "") -> None:
        self._find_command = find_command
        self._hint = hint
        self._starting = asyncio.Lock()
        self._running: _Running | None = None
        self._beginning: asyncio.Task[_Running] | None = None
        self._is_closed = False
        self.user = ""

    async def exchange(self, method: str, path: str, *, content: bytes | None, headers: Mapping[str, str]) -> Answer:
        """Send a request through the command, and return the answer. If the command fails, a GET, or a request that was
        not sent yet, is tried once more with a new command. `path`: URL-encoded, with its query.

        Raises:
            NoAnswer: slurmrestd or the command did not answer.
        """
        others = {name: value for name, value in headers.items() if name != JWT_HEADER}
        try:
            try:
                return await (await self._begun()).ask(method, path, headers.get(JWT_HEADER, ""), content, others)
            except _Ended as error:
                if error.is_sent and method != "GET":
                    raise
            return await (await self._begun()).ask(method, path, headers.get(JWT_HEADER, ""), content, others)
        except _Ended as error:
            error.hint = self._hint or error.hint
            raise

    async def _begun(self) -> _Running:
        async with self._starting:
            if self._running is None or self._running.has_ended:
                command = await self._command()
                if self._is_closed:
                    raise _Ended("the relay is closed")
                self._beginning = asyncio.create_task(_Running.start(command))
                self._running = await self._beginning
                self.user = self._running.user
            return self._running

    async def _command(self) -> Sequence[str]:
        try:
            return await self._find_command()
        except LookupError as error:
            raise _Ended(str(error)) from error

    async def close(self) -> None:
        """End the command, also one that is being started. Requests that come later fail."""
        self._is_closed = True
        if self._beginning is not None:
            self._beginning.cancel()
            await asyncio.wait([self._beginning])
        if self._running is not None:
            await self._running.end()

    def token(self, user: str = "") -> str:
        """Return the name of the user in place of a token; the program in the pod makes the token."""
        return user

    def seal(self) -> str:
        """Raise Unauthorized, because only the pod has the key with which the seal of a job is made."""
        raise Unauthorized("make the seal of a job", text="the key stays in the pod")

    def renew(self) -> None:
        """Do nothing: the program in the pod renews its token when one is refused."""

    def explain_refusal(self) -> str:
        """Return what a person should do if slurmrestd refuses the token of the program in the pod."""
        return "the token of the pod that was asked is refused: see the log of its process"


class _Running:
    """A running command that has sent its first message, the `Hello`."""

    def __init__(self, process: asyncio.subprocess.Process, hello: Hello, command: Sequence[str]) -> None:
        self.user = hello.user
        self._process = process
        self._command = command
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Answered]] = {}
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, command: Sequence[str]) -> _Running:
        try:
            process = await start_child(command, takes_input=True)
        except OSError as error:
            raise _Ended(f"cannot run {command[0]}: {error.strerror}") from error
        assert process.stdout is not None
        try:
            async with asyncio.timeout(_BEGINS_S):
                hello = await _receive(process.stdout, Hello)
        except TimeoutError as error:
            await kill_child(process)
            raise _Ended(f"{' '.join(command)}: it has not begun within {_BEGINS_S:.0f} s") from error
        except _NO_MESSAGE as error:
            raise _Ended(await _last_words(process, command)) from error
        except asyncio.CancelledError:
            await kill_child(process)
            raise
        return cls(process, hello, command)

    @property
    def has_ended(self) -> bool:
        return self._reading.done()

    async def ask(self, method: str, path: str, user: str, content: bytes | None, headers: Mapping[str, str]) -> Answer:
        if self.has_ended:
            raise _Ended(f"{' '.join(self._command)}: it has ended")
        asked = RelayRequest(next(self._ids), method, path, user, content, dict(headers))
        answer = self._waiting[asked.id] = asyncio.get_running_loop().create_future()
        assert self._process.stdin is not None
        try:
            async with asyncio.timeout(_ANSWERS_S):
                self._process.stdin.write(_packed(asked))
                await self._process.stdin.drain()
                found = await answer
        except TimeoutError as error:
            raise NoAnswer(f"{' '.join(self._command)}: no answer in time") from error
        except OSError as error:
            raise _Ended(f"{' '.join(self._command)}: {error}", is_sent=True) from error
        finally:
            del self._waiting[asked.id]
        if found.problem:
            raise NoAnswer(found.problem)
        return Answer(found.status, await asyncio.to_thread(zlib.decompress, found.content))

    async def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            while True:
                found = await _receive(self._process.stdout, Answered)
                if (answer := self._waiting.get(found.id)) is not None and not answer.done():
                    answer.set_result(found)
        except _NO_MESSAGE:
            problem = await _last_words(self._process, self._command)
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(_Ended(problem, is_sent=True))

    async def end(self) -> None:
        if not self.has_ended:
            self._reading.cancel()
            await kill_child(self._process)


async def serve(settings: SlurmSettings, reader: asyncio.StreamReader, write: Callable[[bytes], object]) -> None:
    """Send each request that `reader` gives to slurmrestd, and write the answers, until the input ends."""
    tokens, connection = token_source(settings), Connection(settings.url.rstrip("/"))
    carried: set[asyncio.Task[None]] = set()

    async def carry(asked: RelayRequest) -> None:
        write(_packed(await _carried(asked, settings, tokens, connection)))

    write(_packed(Hello(tokens.user)))
    try:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                task = asyncio.create_task(carry(await _receive(reader, RelayRequest)))
                carried.add(task)
                task.add_done_callback(carried.discard)
    finally:
        for task in carried:
            task.cancel()
        await connection.close()


async def serve_here(settings: SlurmSettings) -> None:
    """Serve requests from standard input in the pod, with a limit on this process's memory."""
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    def write(message: bytes) -> None:
        sys.stdout.buffer.write(message)
        sys.stdout.buffer.flush()

    await serve(settings, reader, write)


async def _carried(
    asked: RelayRequest, settings: SlurmSettings, tokens: TokenSource, connection: Connection
) -> Answered:
    user = asked.user or (settings.reader if asked.method == "GET" else "")
    try:
        headers = asked.headers | {JWT_HEADER: tokens.token(user)}
        answer = await connection.exchange(asked.method, asked.path, content=asked.content, headers=headers)
        packed = await asyncio.to_thread(zlib.compress, answer.content, 1)
    except MemoryError:
        return Answered(asked.id, problem=f"{settings.url}: {_TOO_LONG}")
    except (NoAnswer, SlurmError) as error:
        return Answered(asked.id, problem=f"{settings.url}: {error}")
    if answer.status == HTTPStatus.UNAUTHORIZED:
        tokens.renew()
    return Answered(asked.id, answer.status, packed)


def _packed(message: msgspec.Struct) -> bytes:
    packed = msgspec.msgpack.encode(message)
    return len(packed).to_bytes(_LENGTH_BYTES, "big") + packed


async def _receive(reader: asyncio.StreamReader, kind: type[S]) -> S:
    length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES), "big")
    return msgspec.msgpack.decode(await reader.readexactly(length), type=kind)


async def _last_words(process: asyncio.subprocess.Process, command: Sequence[str]) -> str:
    """Wait for the end of a command that failed, and kill it after 2 s. Return, for people, the command line with what
    the command wrote to standard error.
    """
    try:
        async with asyncio.timeout(_ENDS_S):
            await process.wait()
    except TimeoutError:
        await kill_child(process)
    assert process.stderr is not None
    said = (await process.stderr.read(_SAID_BYTES)).decode(errors="replace").strip()
    return f"{' '.join(command)}: {said or 'it has ended'}"
