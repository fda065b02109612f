"""Who is on which node, for pods that want to be near others or away from them.

Pods of this scheduler are known by their watch, and before that by the bindings that were sent. Of all others only what
matters here is kept, from the lists that `nodes.occupancy` reads: pods of one template share it, for a large
cluster has many.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import msgspec

from sunkpy.core.gang.limits import MOST_LINES, Surroundings, keeps_away, shuts_out
from sunkpy.core.model.objects import Affinity, Container, Meta, Node, Pod, PodAffinity, PodSpec

PodsOn = Mapping[str, Iterable[Pod]]
"""Kubernetes node → pods there."""


class Neighbours:
    """Pods that are on nodes. `own`: those that name this scheduler, under one of `scheduler_names`.

    `on_moved` is called with each that came to a node or left it, and with both forms of one whose labels changed.
    """

    def __init__(
        self,
        *,
        own: Callable[[], Iterable[Pod]],
        scheduler_names: Collection[str],
        on_moved: Callable[[Pod], None] = lambda _: None,
    ) -> None:
        self._own = own
        self._scheduler_names = scheduler_names
        self._on_moved = on_moved
        self._shutting_out: set[str] = set()
        self._own_keeping_away: dict[str, Pod] = {}
        self._sent: dict[str, Pod] = {}
        self._others: dict[str, tuple[Pod, ...]] = {}
        self._others_keeping_away: dict[str, tuple[Pod, ...]] = {}
        self._templates: dict[bytes, tuple[dict[str, str], PodSpec]] = {}

    def around(self, nodes: Mapping[str, Node], *, listed: PodsOn | None = None) -> Surroundings:
        """Who is where; `listed`: all pods of some nodes, as the apiserver has them now."""
        listed = listed or {}

        def everyone() -> Iterator[Pod]:
            own = (pod for pod in self._own() if pod.spec.node_name)
            others = (pod for pods in self._others.values() for pod in pods)
            yield from (pod for pods in (own, others) for pod in pods if pod.spec.node_name not in listed)
            yield from (pod for pods in listed.values() for pod in pods)
            yield from self._sent.values()

        keeping_away = [*self._own_keeping_away.values()]
        keeping_away += (pod for pods in self._others_keeping_away.values() for pod in pods)
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
        """Follow one change of the watch of own pods."""
        before = _on_node(old)
        if old is not None:
            self._own_keeping_away.pop(old.uid, None)
        for pod in (old, new):
            if pod is not None and (new is None or pod.uid != new.uid or new.spec.node_name):
                before = self._sent.pop(pod.uid, before)
        there = _on_node(new)
        if there is not None and keeps_away(there):
            self._own_keeping_away[there.uid] = there
        self._moved(before, there)

    def only_on(self, nodes: Collection[str]) -> None:
        """All pods of others were listed, and these are the nodes that have any; `note` tells which."""
        for node in self._others.keys() - nodes:
            self.note(node, ())
            del self._others[node]
        self._templates.clear()

    def note(self, node: str, pods: Iterable[Pod]) -> None:
        """The pods of one node were listed."""
        others = (pod for pod in pods if pod.spec.scheduler_name not in self._scheduler_names and not pod.is_finished)
        before = {pod.uid: pod for pod in self._others.get(node, ())}
        self._others[node] = tuple(self._kept(pod) for pod in others)
        keeping_away = tuple(pod for pod in self._others[node] if keeps_away(pod))
        if keeping_away:
            self._others_keeping_away[node] = keeping_away
        else:
            self._others_keeping_away.pop(node, None)
        for pod in self._others[node]:
            self._moved(before.pop(pod.uid, None), pod)
        for gone in before.values():
            self._moved(gone, None)

    def _moved(self, before: Pod | None, now: Pod | None) -> None:
        """A pod is on a node now, or is there no more; None: it is on none."""
        if before is not None and now is not None and _facts(before) == _facts(now):
            return
        for pod, is_there in ((before, False), (now, True)):
            if pod is not None:
                (self._shutting_out.add if is_there and shuts_out(pod) else self._shutting_out.discard)(pod.uid)
                self._on_moved(pod)

    def _kept(self, pod: Pod) -> Pod:
        """What others can be for or against, and where it is."""
        terms = pod.spec.affinity.pod_anti_affinity if pod.spec.affinity is not None else None
        # Nobody has refused it for too many of them.
        few = PodAffinity(required=terms.required[:MOST_LINES] if terms is not None else ())
        ports = pod.spec.host_ports
        spec = PodSpec(
            node_name=pod.spec.node_name,
            affinity=Affinity(pod_anti_affinity=few) if few.required else None,
            containers=(Container(ports=ports),) if ports else (),
        )
        key = msgspec.json.encode((pod.labels, spec), order="sorted")
        labels, spec = self._templates.setdefault(key, (pod.labels, spec))
        meta = pod.metadata
        return Pod(
            metadata=Meta(
                name=meta.name,
                namespace=meta.namespace,
                uid=meta.uid,
                deletion_timestamp=meta.deletion_timestamp,
                labels=labels,
            ),
            spec=spec,
        )


def _on_node(pod: Pod | None) -> Pod | None:
    return pod if pod is not None and pod.spec.node_name and not pod.is_finished else None


def _facts(pod: Pod) -> tuple[object, ...]:
    return (pod.uid, pod.spec.node_name, pod.labels, pod.spec.affinity)
