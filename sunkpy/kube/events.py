"""Writes Kubernetes Events, which a person sees in `kubectl describe`. An Event with the same object, reason and text
is written at most once in ten minutes, unless more than 4,096 other Events were written meanwhile.

While `EventRecorder.run` runs, callers never wait for the apiserver: their Events wait in a queue, and are written a
few at a time. If too many wait, for example because the etcd in which the apiserver keeps Events is away, new ones are
dropped.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import Literal

import cachetools
import msgspec
import structlog
from prometheus_client import Counter

from sunkpy.core.model.objects import KubeObject
from sunkpy.core.model.times import rfc3339_micro, utc_now
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube

_QUIET_S = 600.0
_AT_ONCE = 4
_UNWRITTEN_LIMIT = 50_000
_NOTE_LIMIT = 1024  # events.k8s.io/v1 refuses longer notes


class _Words(msgspec.Struct, frozen=True, kw_only=True):
    """The words of an Event: `reason` is for programs, `action` says what sunkpy did, `note` is for people."""

    type: Literal["Normal", "Warning"]
    reason: str
    action: str
    note: str

    def as_json(self) -> dict[str, str]:
        return {"type": self.type, "reason": self.reason, "action": self.action, "note": self.note[:_NOTE_LIMIT]}


class _Event(msgspec.Struct, frozen=True):
    """An Event to write: its namespace, its body, and a digest by which a repetition is recognised."""

    namespace: str
    body: dict[str, object]
    digest: str


class EventRecorder:
    """Writes Events. An Event that cannot be written is logged and forgotten, because no decision may depend on it.

    `lost` counts Events that nobody will read, by `why`: `too many` were dropped, `failed` could not be written.
    """

    def __init__(self, kube: Kube, *, component: str, instance: str, lost: Counter | None = None) -> None:
        self._kube = kube
        self._lost = lost or Counter("sunkpy_events_lost", "Events that were not written", ["why"], registry=None)
        self._component = component
        self._instance = instance
        self._said: cachetools.TTLCache[str, bool] = cachetools.TTLCache(maxsize=4096, ttl=_QUIET_S)
        self._unwritten: asyncio.Queue[_Event] | None = None
        self._is_dropping = False
        self._log = structlog.get_logger("events")

    async def run(self) -> None:
        """Write the Events that are recorded from now on, until cancelled. Without it, a caller waits until its Event
        is written.
        """
        unwritten = self._unwritten = asyncio.Queue[_Event](_UNWRITTEN_LIMIT)

        async def work() -> None:
            while True:
                await self._write(await unwritten.get())
                self._is_dropping = self._is_dropping and not unwritten.empty()

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(_AT_ONCE):
                    group.create_task(work())
        finally:
            self._unwritten = None

    async def normal(self, about: KubeObject, kind: str, *, reason: str, action: str, note: str) -> None:
        """Record an Event of type Normal: something happened as it should."""
        await self._record(about, kind, _Words(type="Normal", reason=reason, action=action, note=note))

    async def warning(self, about: KubeObject, kind: str, *, reason: str, action: str, note: str) -> None:
        """Record an Event of type Warning: a person may have to look at something."""
        await self._record(about, kind, _Words(type="Warning", reason=reason, action=action, note=note))

    async def _record(self, about: KubeObject, kind: str, words: _Words) -> None:
        event = self._new(about, kind, words)
        if event is None:
            return
        if self._unwritten is None:
            await self._write(event)
            return
        try:
            self._unwritten.put_nowait(event)
        except asyncio.QueueFull:
            self._drop(event)

    def _new(self, about: KubeObject, kind: str, words: _Words) -> _Event | None:
        """Return the Event to write; None if the same Event was recorded in the last ten minutes."""
        said = "\0".join((about.uid, about.name, words.type, words.reason, words.note))
        digest = hashlib.sha256(said.encode()).hexdigest()
        if digest in self._said:
            return None
        self._said[digest] = True
        namespace = about.metadata.namespace or "default"
        now = utc_now()
        body: dict[str, object] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": f"{about.name[:200]}.{digest[:8]}{int(now.timestamp() * 1000):x}",
                "namespace": namespace,
            },
            "eventTime": rfc3339_micro(now),
            "reportingController": f"sunkpy.dev/{self._component}",
            "reportingInstance": self._instance[:128],
            "regarding": _regarding(about, kind),
            **words.as_json(),
        }
        return _Event(namespace, body, digest)

    def _drop(self, event: _Event) -> None:
        """Drop an Event, because too many wait. The first drop is logged, and later ones only after the queue was
        empty. The same Event may be recorded again at once.
        """
        self._said.pop(event.digest, None)
        self._lost.labels("too many").inc()
        if not self._is_dropping:
            self._log.warning("events are dropped: too many wait to be written", waiting=_UNWRITTEN_LIMIT)
        self._is_dropping = True

    async def _write(self, event: _Event) -> None:
        try:
            await self._kube.create(paths.events(event.namespace), event.body)
        except errors.KubeError as error:
            self._said.pop(event.digest, None)
            self._lost.labels("failed").inc()
            said = {"reason": event.body["reason"], "note": event.body["note"]}
            self._log.warning("event not recorded", error=str(error), **said)


def _regarding(about: KubeObject, kind: str) -> dict[str, str]:
    return {
        "apiVersion": _api_version(kind),
        "kind": kind,
        "name": about.name,
        "namespace": about.metadata.namespace,
        "uid": about.uid,
    }


def _api_version(kind: str) -> str:
    return "v1" if kind in ("Pod", "Node") else "sunkpy.dev/v1alpha1"
