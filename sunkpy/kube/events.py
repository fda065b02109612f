"""Events: what a person sees in `kubectl describe`. Said once per object, reason and text within ten minutes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime
from typing import Literal

import cachetools
import structlog

from sunkpy.core.model.objects import KubeObject
from sunkpy.core.model.times import rfc3339_micro, utc_now
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube

_QUIET_S = 600.0
_NOTE_LIMIT = 1024  # events.k8s.io/v1 refuses longer notes


class EventRecorder:
    """Writes Events; one that cannot be written is logged and forgotten, for no decision may hang on it."""

    def __init__(self, kube: Kube, *, component: str, instance: str, now: Callable[[], datetime] | None = None) -> None:
        self._kube = kube
        self._component = component
        self._instance = instance
        self._now = now or utc_now
        self._said: cachetools.TTLCache[str, bool] = cachetools.TTLCache(maxsize=4096, ttl=_QUIET_S)
        self._log = structlog.get_logger("events")

    async def normal(self, about: KubeObject, kind: str, *, reason: str, action: str, note: str) -> None:
        """Something happened as it should."""
        await self._record(about, kind, "Normal", reason=reason, action=action, note=note)

    async def warning(self, about: KubeObject, kind: str, *, reason: str, action: str, note: str) -> None:
        """Something a person may have to look at."""
        await self._record(about, kind, "Warning", reason=reason, action=action, note=note)

    async def _record(
        self,
        about: KubeObject,
        kind: str,
        type_: Literal["Normal", "Warning"],
        *,
        reason: str,
        action: str,
        note: str,
    ) -> None:
        digest = hashlib.sha256("\0".join((about.uid, about.name, type_, reason, note)).encode()).hexdigest()
        if digest in self._said:
            return
        self._said[digest] = True
        now = self._now()
        namespace = about.metadata.namespace or "default"
        body = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {
                "name": f"{about.name[:200]}.{digest[:8]}{int(now.timestamp() * 1000):x}",
                "namespace": namespace,
            },
            "eventTime": rfc3339_micro(now),
            "reportingController": f"sunkpy.dev/{self._component}",
            "reportingInstance": self._instance[:128],
            "action": action,
            "reason": reason,
            "type": type_,
            "note": note[:_NOTE_LIMIT],
            "regarding": {
                "apiVersion": _api_version(kind),
                "kind": kind,
                "name": about.name,
                "namespace": about.metadata.namespace,
                "uid": about.uid,
            },
        }
        try:
            await self._kube.create(paths.events(namespace), body)
        except errors.KubeError as error:
            self._said.pop(digest, None)
            self._log.warning("event not recorded", error=str(error), reason=reason, note=note)


def _api_version(kind: str) -> str:
    return "v1" if kind in ("Pod", "Node") else "sunkpy.dev/v1alpha1"
