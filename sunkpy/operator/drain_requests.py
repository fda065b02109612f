"""Follows the objects by which other programs ask for drains of nodes, and answers each once nothing runs on its node.

As long as such a request exists, it counts as a signal that its node is sick (`core.health`), so the node is drained.
Then the operator asks the syncer whether anything still runs there, and answers the request when the syncer has said
that nothing does (`core.nodeset.emptied`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

import msgspec
import structlog

from sunkpy.core.health.requests import DrainRequest, DrainRequests
from sunkpy.core.model.objects import Condition, Key, Node, Pod
from sunkpy.core.model.times import rfc3339, utc_now
from sunkpy.core.nodeset.emptied import is_empty
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from sunkpy.kube.informer import Informer

_AGAIN_S = 15.0


class DrainRequestWatch:
    """Follows the objects by which other programs ask for drains of Nodes. When one changes, `on_change` is called with
    the name of its Node.
    """

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
        """Watch the objects that ask for drains until cancelled; return at once if the values name no kind."""
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
        """Return the Node with the text of who asks for its drain (`drain_request`), empty if nobody does. Until these
        requests are listed, and if the values name no kind of request, return it unchanged.
        """
        if self._watch is None or not self._watch.synced.is_set():
            return node
        found = self._of_node.get(node.name, {})
        return msgspec.structs.replace(node, drain_request="; ".join(each.text for each in found.values()))

    def is_waited(self, node: Node) -> bool | None:
        """True if a program that asked for a drain of this Node waits for the answer; None until such requests are
        listed.
        """
        if self._watch is not None and not self._watch.synced.is_set():
            return None
        return bool(self._unanswered(node))

    def _unanswered(self, node: Node) -> list[DrainRequest]:
        requests = self._of_node.get(node.name, {}).values()
        return [each for each in requests if not each.is_answered(self._settings.condition) and not each.is_deleting]

    async def answer(self, node: Node, pod: Pod | None, occupants: Iterable[Pod]) -> float | None:
        """Answer the requests to drain this Node, if the syncer has just said that it is drained and runs no job, and
        no pod of a job is left among its `occupants` (all pods on the Node).

        Returns:
            After how many seconds to try again, because the apiserver refused an answer; None if it refused none.
        """
        if pod is None or not is_empty(node, pod, occupants, utc_now()):
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
