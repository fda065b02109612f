"""Who is on which node, for pods that want to be near others or away from them.

All are known by their watches, and pods of this scheduler before that by the bindings that were sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from sunkpy.core.gang.limits import Surroundings, keeps_away, shuts_out
from sunkpy.core.model.objects import Node, Pod

PodsOn = Mapping[str, Iterable[Pod]]
"""Kubernetes node → pods there."""


class Neighbours:
    """Pods that are on nodes. `pods`: all that are watched, of all schedulers.

    `on_moved` is called with each that came to a node or left it, and with both forms of one whose labels changed.
    """

    def __init__(self, *, pods: Callable[[], Iterable[Pod]], on_moved: Callable[[Pod], None] = lambda _: None) -> None:
        self._pods = pods
        self._on_moved = on_moved
        self._shutting_out: set[str] = set()
        self._keeping_away: dict[str, Pod] = {}
        self._sent: dict[str, Pod] = {}

    def around(self, nodes: Mapping[str, Node], *, listed: PodsOn | None = None) -> Surroundings:
        """Who is where; `listed`: all pods of some nodes, as the apiserver has them now."""
        listed = listed or {}

        def everyone() -> Iterator[Pod]:
            yield from (pod for pod in self._pods() if pod.spec.node_name and pod.spec.node_name not in listed)
            yield from (pod for pods in listed.values() for pod in pods)
            yield from self._sent.values()

        keeping_away = [*self._keeping_away.values()]
        if listed:
            keeping_away = [pod for pod in keeping_away if pod.spec.node_name not in listed]
            keeping_away += (pod for pods in listed.values() for pod in pods if keeps_away(pod))
        keeping_away += filter(keeps_away, self._sent.values())
        return Surroundings(nodes=nodes, keeping_away=keeping_away, everyone=everyone)

    @property
    def is_open(self) -> bool:
        """No pod on a node shuts out others by their labels."""
        return not self._shutting_out

    def note_sent(self, pod: Pod) -> None:
        """A binding goes out for this pod, which is as it will be then."""
        self._sent[pod.uid] = pod
        self._moved(None, pod)

    def sent_to(self, node: str) -> list[Pod]:
        """Pods for which a binding to the node went out, and which the watch does not show there yet."""
        return [pod for pod in self._sent.values() if pod.spec.node_name == node]

    def drop_sent(self, uid: str) -> None:
        """The binding was not done."""
        self._moved(self._sent.pop(uid, None), None)

    def update(self, old: Pod | None, new: Pod | None) -> None:
        """Follow one change of a watch."""
        before = _on_node(old)
        if old is not None:
            self._keeping_away.pop(old.uid, None)
        for pod in (old, new):
            if pod is not None and (new is None or pod.uid != new.uid or new.spec.node_name):
                before = self._sent.pop(pod.uid, before)
        there = _on_node(new)
        if there is not None and keeps_away(there):
            self._keeping_away[there.uid] = there
        self._moved(before, there)

    def _moved(self, before: Pod | None, now: Pod | None) -> None:
        """A pod is on a node now, or is there no more; None: it is on none."""
        if before is not None and now is not None and _facts(before) == _facts(now):
            return
        for pod, is_there in ((before, False), (now, True)):
            if pod is not None:
                (self._shutting_out.add if is_there and shuts_out(pod) else self._shutting_out.discard)(pod.uid)
                self._on_moved(pod)


def _on_node(pod: Pod | None) -> Pod | None:
    return pod if pod is not None and pod.spec.node_name and not pod.is_finished else None


def _facts(pod: Pod) -> tuple[object, ...]:
    return (pod.uid, pod.spec.node_name, pod.labels, pod.spec.affinity)
