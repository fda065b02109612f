"""Asks other programs to repair sick machines (remedies), by objects or annotations, once the health record on the Node
says so.

The name of a new object follows from the Node and the time of its record. So a later pass or the next leader finds the
object there, and makes no second one. Annotations of an existing object may be written again.
"""

from __future__ import annotations

import cachetools
import structlog

from sunkpy.core.health import HealthRules, HealthStep, Record, Remedy, State
from sunkpy.core.health.decide import remedy_name
from sunkpy.core.model.objects import Node
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from sunkpy.kube.events import EventRecorder

_AGAIN_S = 15.0


class RemedyWriter:
    """Writes what asks for a Node's repair (the remedy). It remembers what it has written; if an earlier leader has
    created the object, the apiserver answers that the object exists.
    """

    def __init__(self, kube: Kube, events: EventRecorder, rules: HealthRules) -> None:
        self._kube = kube
        self._events = events
        self._rules = rules
        self._written: cachetools.LRUCache[str, bool] = cachetools.LRUCache(maxsize=4096)
        self._log = structlog.get_logger("operator")

    async def ensure(self, node: Node, step: HealthStep) -> float | None:
        """Write what asks for the Node's repair, if its health record already was in state REMEDY and stays in it, and
        its signal has not ended.

        Returns:
            After how many seconds to try again, because it could not be written; else None.
        """
        record = step.before
        rule = self._rules.signals.get(record.signal) if record is not None else None
        if record is None or record.state is not State.REMEDY or step.is_new_state or rule is None:
            return None
        if step.after is not None and step.after.good_since:
            return None
        remedy = self._rules.remedies.get(rule.remedy)
        return await self._write(node, record, rule.remedy, remedy) if remedy is not None else None

    async def _write(self, node: Node, record: Record, called: str, remedy: Remedy) -> float | None:
        name = remedy_name(node, record, called)
        if name in self._written:
            return None
        if problem := remedy.problem(node):
            return await self._failed(node, f"remedy {called}: {problem}")
        filled = remedy.filled(node)
        what = f"{remedy.resource} {'/'.join(filter(None, (filled.namespace, filled.name or name)))}"
        try:
            await self._ask(filled, name)
        except errors.Conflict:
            pass  # written by an earlier pass
        except errors.KubeError as error:
            return await self._failed(node, f"remedy {called}: {what} could not be written: {error.message}")
        else:
            note = f"remedy {called}: {what} written for {record.signal}: {record.text}"
            await self._events.normal(node, "Node", reason="HealthRemedyWritten", action="Health", note=note)
        self._written[name] = True
        return None

    async def _ask(self, remedy: Remedy, name: str) -> None:
        path = paths.collection(remedy.api_version, remedy.resource, remedy.namespace)
        if remedy.manifest:
            await self._kube.create(path, remedy.body(name))
        else:
            await self._kube.patch(f"{path}/{remedy.name}", {"metadata": {"annotations": remedy.annotations}})

    async def _failed(self, node: Node, note: str) -> float:
        self._log.error(note, node=node.name)
        await self._events.warning(node, "Node", reason="HealthRemedyFailed", action="Health", note=note)
        return _AGAIN_S
