"""Follows the requests of other programs that nodes be drained, and answers each once nothing runs on its node.

A request is a signal for as long as it is there (`core.health`). Once its node is drained, the operator asks the syncer
by a token on the slurmd pod (`sunkpy.dev/drain-asked`). The request is answered when the syncer has written a receipt
for that token within the last seconds (`core.nodeset.removal`): Slurm has said twice that the node is drained and that
no job is on it. What the pod shows besides may be hours old, from before the request.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Final

import msgspec
import structlog

from sunkpy.core import names
from sunkpy.core.health import State, read_record
from sunkpy.core.health.requests import DrainRequest, DrainRequests
from sunkpy.core.model.objects import Condition, Key, Node, Pod
from sunkpy.core.model.times import rfc3339, utc_now
from sunkpy.core.nodeset.removal import has_fresh_receipt
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from sunkpy.kube.informer import Informer

_AGAIN_S = 15.0
_ASKED: Final = names.ANNOTATION_DRAIN_ASKED
_DRAINED: Final = frozenset({State.DRAINED, State.REMEDY, State.VERIFY, State.PERSON})
"""States in which nothing should run there. Only then is the syncer asked: its receipt is a write every ten seconds."""


class DrainRequestWatch:
    """Those of each Node. `on_change` is called with the Node of one that has changed."""

    def __init__(self, kube: Kube, settings: DrainRequests, on_change: Callable[[str], None]) -> None:
        self._kube = kube
        self._settings = settings
        self._on_change = on_change
        self._of_node: defaultdict[str, dict[Key, DrainRequest]] = defaultdict(dict)
        self._log = structlog.get_logger("operator")
        self._watch: Informer[DrainRequest] | None = None
        if settings.api_version:
            path = paths.collection(settings.api_version, settings.resource, settings.namespace)
            self._watch = Informer(kube, path, DrainRequest)
            self._watch.add_handler(self._changed)

    async def run(self) -> None:
        """Follow them until cancelled, if values name any."""
        if self._watch is not None:
            await self._watch.run()

    def _changed(self, old: DrainRequest | None, new: DrainRequest | None) -> None:
        if old is not None:
            self._of_node[old.spec.node_name].pop(old.key, None)
        if new is not None and new.spec.node_name:
            self._of_node[new.spec.node_name][new.key] = new
        for node in {each.spec.node_name for each in (old, new) if each is not None and each.spec.node_name}:
            if not self._of_node[node]:
                del self._of_node[node]
            self._on_change(node)

    def add_to(self, node: Node) -> Node:
        """The Node with what is asked for it; as long as they were not listed, that is not known."""
        if self._watch is None or not self._watch.synced.is_set():
            return node
        found = self._of_node.get(node.name, {})
        return msgspec.structs.replace(node, drain_request="; ".join(each.text for each in found.values()))

    def question(self, node: Node | None, pod: Pod) -> dict[str, str | None]:
        """What to change on the slurmd pod, so that the syncer says whether anything runs there."""
        if node is None or (self._watch is not None and not self._watch.synced.is_set()):
            return {}
        token = _token(node) if self._unanswered(node) else None
        return {} if pod.annotations.get(_ASKED) == token else {_ASKED: token}

    def _unanswered(self, node: Node) -> list[DrainRequest]:
        requests = self._of_node.get(node.name, {}).values()
        return [each for each in requests if not each.is_answered(self._settings.condition) and not each.is_deleting]

    async def answer(self, node: Node, pod: Pod | None) -> float | None:
        """Answer those of a Node on which nothing runs any more, because it was closed.

        Returns:
            After how many seconds to try again, because the apiserver refused it.
        """
        if not _is_empty(pod, _token(node)):
            return None
        for request in self._unanswered(node):
            try:
                await self._write(request, node)
            except (errors.NotFound, errors.Conflict):
                continue  # its watch brings what there is now
            except errors.KubeError as error:
                self._log.error(f"drain request {request.text} could not be answered: {error.message}", node=node.name)
                return _AGAIN_S
        return None

    async def _write(self, request: DrainRequest, node: Node) -> None:
        namespace, name = request.key
        path = f"{paths.collection(self._settings.api_version, self._settings.resource, namespace)}/{name}"
        conditions = request.answered(self._settings.condition, node.name, rfc3339(utc_now()))
        seen = {"uid": request.uid, "resourceVersion": request.metadata.resource_version}
        body = {"metadata": seen, "status": {"conditions": [_body(each) for each in conditions]}}
        await self._kube.patch(paths.status(path), body)


def _body(condition: Condition) -> dict[str, object]:
    written: dict[str, object] = msgspec.to_builtins(condition)
    return {"status": condition.status, **written}


def _token(node: Node) -> str | None:
    """What the syncer is asked about a Node that has been drained for its health; None: it has not been."""
    record = read_record(node)
    if record is None or record.state not in _DRAINED:
        return None
    return f"{record.since or record.at}/drain-request"


def _is_empty(pod: Pod | None, token: str | None) -> bool:
    """The syncer has said so lately, for this token."""
    if pod is None or token is None or pod.annotations.get(names.ANNOTATION_DRAINED) != token:
        return False
    running = pod.condition(names.CONDITION_RUNNING)
    is_idle = running is not None and running.status == "False"
    return is_idle and pod.is_condition_true(names.CONDITION_DRAIN) and has_fresh_receipt(pod, utc_now())
