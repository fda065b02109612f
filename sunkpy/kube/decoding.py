"""Decodes the apiserver's JSON object by object, so that one object that cannot be read does not affect the others.

msgspec reads nested JSON with recursion, even the parts that it only skips, and fails at the depth of Python's stack.
In objects of a CRD without a schema, people may nest ten times as deep. If msgspec fails, everything nested deeper than
`LEVELS` is cut out, without recursion, and the rest still says which object it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, Generic, TypeVar

import msgspec

from sunkpy.core.model.objects import Key, KubeObject
from sunkpy.kube.errors import UnreadableAnswer

T = TypeVar("T", bound=KubeObject)
V = TypeVar("V")

LEVELS: Final = 32
"""The levels of nesting that are kept. Metadata needs far fewer."""

_STRING: Final = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_TOKEN: Final = re.compile(_STRING + rb"|[\[\]{}]", re.DOTALL)

TOO_DEEP: Final = "it is nested too deep"


class Unreadable(msgspec.Struct, frozen=True, kw_only=True):
    """An object that does not look as its kind should: the part that could be read, and why the rest could not."""

    object: KubeObject
    why: str

    @property
    def key(self) -> Key:
        """The namespace and name of the object."""
        return self.object.key


class ListPage(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a list: its objects, not decoded yet; the resourceVersion of the whole list; and the token for the next
    part, empty at the end.
    """

    items: tuple[bytes | msgspec.Raw, ...]
    version: str
    next_page: str = ""


class WatchEvent(msgspec.Struct, frozen=True):
    """An event of a watch, whose object is not decoded yet. `is_cut`: deeply nested parts of the object are missing."""

    type: str
    object: msgspec.Raw = msgspec.Raw()
    is_cut: bool = False


def read_answer(request: str, answer: bytes, type_: type[V]) -> V:
    """Return the answer to a request, decoded as `type_`. `request`: its method and path, for the error.

    Raises:
        UnreadableAnswer: the answer does not look like `type_`.
    """
    try:
        return msgspec.json.decode(answer, type=type_)
    except (msgspec.DecodeError, RecursionError) as error:
        message = TOO_DEEP if isinstance(error, RecursionError) else str(error)
        raise UnreadableAnswer(request, status=200, message=message) from error


class Decoder(Generic[T]):
    """Decodes objects of one kind."""

    def __init__(self, item_type: type[T]) -> None:
        self._decoder = msgspec.json.Decoder(item_type)

    def read(self, item: bytes | msgspec.Raw) -> T | Unreadable:
        """Return the decoded object, or an `Unreadable` if it cannot be decoded as its kind.

        Raises:
            msgspec.DecodeError: the text is not JSON, or not even the object's metadata can be decoded.
        """
        try:
            return self._decoder.decode(item)
        except msgspec.ValidationError as error:
            return Unreadable(object=_what_is_left(bytes(item)), why=str(error))
        except RecursionError:
            return Unreadable(object=_what_is_left(bytes(item)), why=TOO_DEEP)


def read_page(answer: bytes) -> ListPage:
    """Return the page in an answer to a list request.

    Raises:
        msgspec.DecodeError: the answer is not a list.
    """
    items: Iterable[bytes | msgspec.Raw]
    try:
        body = msgspec.json.decode(answer, type=_Answer)
        items = body.items or ()
    except RecursionError:
        body = msgspec.json.decode(cut(answer, levels=2), type=_Answer)
        items = _items(answer)
    return ListPage(items=tuple(items), version=body.metadata.resource_version, next_page=body.metadata.next_page)


def read_event(line: bytes) -> WatchEvent:
    """Return the event that is in one line of a watch. If it is nested too deep to be decoded, deep parts are cut out.

    Raises:
        msgspec.DecodeError: the line is not an event.
    """
    try:
        return msgspec.json.decode(line, type=WatchEvent)
    except RecursionError:
        event = msgspec.json.decode(cut(line, levels=LEVELS), type=WatchEvent)
        return WatchEvent(event.type, event.object, is_cut=True)


def cut(document: bytes, *, levels: int) -> bytes:
    """Return the document with null in the place of each list and object that is nested deeper than `levels`."""
    parts: list[bytes] = []
    done, depth, start = 0, 0, 0
    for token in _TOKEN.finditer(document):
        match document[token.start()]:
            case 0x5B | 0x7B:  # [ {
                depth += 1
                start = token.start() if depth == levels + 1 else start
            case 0x5D | 0x7D:  # ] }
                depth -= 1
                if depth == levels:
                    parts += [document[done:start], b"null"]
                    done = token.end()
    rest = document[done:] if depth <= levels else document[done:start]  # it ends in the middle of something deep
    return b"".join((*parts, rest))


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    next_page: str = msgspec.field(default="", name="continue")


class _Answer(msgspec.Struct, frozen=True):
    metadata: _ListMeta = _ListMeta()
    items: list[msgspec.Raw] | None = None


def _what_is_left(item: bytes) -> KubeObject:
    """Return the metadata of an object that cannot be decoded."""
    return msgspec.json.decode(cut(item, levels=LEVELS), type=KubeObject)


def _items(answer: bytes) -> Iterator[bytes]:
    """Yield the objects of a list without recursion: the values at the third level, below the key `items`."""
    depth, start, key = 0, 0, b""
    is_within = False
    for token in _TOKEN.finditer(answer):
        match answer[token.start()]:
            case 0x5B | 0x7B:
                depth += 1
                is_within = key == b'"items"' if depth == 2 else is_within
                start = token.start() if depth == 3 else start
            case 0x5D | 0x7D:
                if depth == 3 and is_within:
                    yield answer[start : token.end()]
                depth -= 1
            case _ if depth == 1:
                key = token.group()
