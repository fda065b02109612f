"""Watches Kubernetes objects and records the time of each change, to check the order of changes."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec

from demo.stack import Stack
from devcluster.waiting import NeverSo
from sunkpy.core.model.objects import KubeObject, Meta

O = TypeVar("O", bound=KubeObject)  # noqa: E741


class _Event(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _List(msgspec.Struct, frozen=True):
    metadata: Meta
    items: list[msgspec.Raw] = []


class Seen(NamedTuple, Generic[O]):
    """A change of an object, and when it was seen, in seconds since the epoch. `type`: ADDED, MODIFIED or DELETED."""

    at_s: float
    type: str
    object: O


class Watch(Generic[O]):
    """Records every change of the objects under a collection path, from their state at its start on."""

    def __init__(self, process: subprocess.Popen[bytes], type_: type[O], *, start: Sequence[O] = ()) -> None:
        self._process = process
        self._decoder = msgspec.json.Decoder(type_)
        self._seen = [Seen(time.time(), "ADDED", object_) for object_ in start]
        self._broken = ""
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def seen(self) -> list[Seen[O]]:
        """All changes so far, in order."""
        with self._changed:
            return list(self._seen)

    def first(self, matches: Callable[[Seen[O]], bool], *, timeout_s: float, what: str) -> Seen[O]:
        """Wait for the first change that matches, and return it.

        Raises:
            NeverSo: no change has matched within `timeout_s`.
        """
        deadline = time.monotonic() + timeout_s
        read = 0
        with self._changed:
            while True:
                for change in self._seen[read:]:
                    if matches(change):
                        return change
                read = len(self._seen)
                if self._broken:
                    raise NeverSo(f"{what}: the watch broke: {self._broken}")
                if not self._changed.wait(deadline - time.monotonic()) and time.monotonic() >= deadline:
                    raise NeverSo(f"{what}: not seen after {timeout_s:.0f} s, among {read} changes")

    def end_of(self, name: str, *, timeout_s: float) -> Seen[O]:
        """Wait until an object is deleted, and return that change.

        Raises:
            NeverSo: it still exists after `timeout_s`.
        """
        return self.first(
            lambda seen: seen.type == "DELETED" and seen.object.name == name,
            timeout_s=timeout_s,
            what=f"the end of {name}",
        )

    def close(self) -> None:
        """End the watch."""
        self._process.terminate()
        self._process.wait()
        self._thread.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            at_s = time.time()
            event = msgspec.json.decode(line, type=_Event)
            with self._changed:
                if event.type == "ERROR":
                    self._broken = bytes(event.object).decode()
                else:
                    self._seen.append(Seen(at_s, event.type, self._decoder.decode(event.object)))
                self._changed.notify_all()


@contextmanager
def watching(stack: Stack, type_: type[O], path: str, *, label_selector: str = "") -> Iterator[Watch[O]]:
    """Yield a watch of a collection path such as `/api/v1/namespaces/x/pods`; it begins with the existing objects."""
    query = f"labelSelector={quote(label_selector)}"
    listed = msgspec.json.decode(stack.kubectl("get", "--raw", f"{path}?{query}"), type=_List)
    decoder = msgspec.json.Decoder(type_)
    process = subprocess.Popen(
        ("kubectl", "get", "--raw", f"{path}?{query}&watch=1&resourceVersion={listed.metadata.resource_version}"),
        env={**os.environ, **stack.kubectl.env},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    watch = Watch(process, type_, start=[decoder.decode(item) for item in listed.items])
    try:
        yield watch
    finally:
        watch.close()
