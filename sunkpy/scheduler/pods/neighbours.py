"""Knows which pods are on which node, for pods with affinity rules and host ports.

The watches show all pods. A pod of this scheduler counts from when its binding is sent, before the watch shows it.

A large cluster has tens of thousands of daemons with host ports and pods with anti-affinity. They are indexed by node,
port number and affinity term, so that a binding looks only at those that its pods could meet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from sunkpy.core.gang.limits import (
    ShutOut,
    Surroundings,
    TermPlace,
    anti_affinity,
    anywhere_in,
    host_ports_of,
    labels_asked,
    places_meant,
    places_of,
)
from sunkpy.core.model.objects import Meta, Node, Pod, PodAffinityTerm
from sunkpy.runtime.groups import Groups

PodsOn = Mapping[str, Iterable[Pod]]
"""Kubernetes node → pods there."""


class Neighbours:
    """The pods on nodes. `pods` returns all watched pods, of all schedulers.

    `on_moved` is called with each pod that came to a node or left it; with a pod whose labels changed, as it was and as
    it is. Before that, `on_asked` is called with each place where terms now ask for a further label of pods.
    """

    def __init__(
        self,
        *,
        pods: Callable[[], Iterable[Pod]],
        on_moved: Callable[[Pod], None] = lambda _: None,
        on_asked: Callable[[TermPlace], None] = lambda _: None,
    ) -> None:
        self._pods = pods
        self._on_moved = on_moved
        self._on_asked = on_asked
        self._shutting_out: set[str] = set()
        self._there: Groups[str, str, Pod] = Groups()
        self._on_port: Groups[int, str, Pod] = Groups()
        self._with_term: Groups[bytes, str, Pod] = Groups()
        self._terms: dict[bytes, tuple[PodAffinityTerm, Meta]] = {}
        self._meaning: Groups[TermPlace, bytes, bytes] = Groups()
        self._asking: Groups[tuple[TermPlace, str], str, str] = Groups()
        self._asked: Groups[TermPlace, str, str] = Groups()
        self._sent: dict[str, Pod] = {}

    def around(self, nodes: Mapping[str, Node], *, listed: PodsOn | None = None) -> Surroundings:
        """Return which pods are on which node. `listed`: all pods of some nodes, as the apiserver has them now."""
        listed = listed or {}
        further = [*(pod for pods in listed.values() for pod in pods), *self._sent.values()]

        def still(pods: Iterable[Pod]) -> Iterator[Pod]:
            return (pod for pod in pods if pod.spec.node_name not in listed)

        def everyone() -> Iterator[Pod]:
            yield from (pod for pod in self._pods() if pod.spec.node_name and pod.spec.node_name not in listed)
            yield from further

        def shutting_out(pods: Sequence[Pod]) -> Iterator[ShutOut]:
            places = dict.fromkeys(place for pod in pods for place in places_of(pod))
            for key in dict.fromkeys(key for place in places for key in self._meaning.of(place)):
                yield *self._terms[key], still(self._with_term.of(key))
            yield from ((term, pod.metadata, (pod,)) for pod in further for term in anti_affinity(pod.spec))

        def on_port(port: int) -> Iterator[Pod]:
            yield from still(self._on_port.of(port))
            yield from (pod for pod in further if port in host_ports_of(pod))

        return Surroundings(nodes=nodes, shutting_out=shutting_out, on_port=on_port, everyone=everyone)

    @property
    def is_open(self) -> bool:
        """True if no pod on a node keeps others away by their labels."""
        return not self._shutting_out

    def labels_asked(self, pod: Pod) -> set[str]:
        """Return the label names by which pods on nodes keep away others in the namespace of this pod."""
        return {label for place in anywhere_in(pod.metadata.namespace) for label in self._asked.get(place, {})}

    def note_sent(self, pod: Pod) -> None:
        """Count a pod as on its node, because its binding is being sent. The pod is given as bound."""
        self._sent[pod.uid] = pod
        self._moved(None, pod)

    def on(self, node: str) -> list[Pod]:
        """Return the pods that the watches show on a node, and those whose binding to it was sent."""
        return [*self._there.of(node), *self.sent_to(node)]

    def sent_to(self, node: str) -> list[Pod]:
        """Return the pods whose binding to a node was sent, and which the watch does not show there yet."""
        return [pod for pod in self._sent.values() if pod.spec.node_name == node]

    def drop_sent(self, uid: str) -> None:
        """Do not count a pod any more, because its binding was not done."""
        self._moved(self._sent.pop(uid, None), None)

    def update(self, old: Pod | None, new: Pod | None) -> None:
        """Follow one change of a pod in a watch."""
        before = _on_node(old)
        if before is not None:
            self._drop(before)
        for pod in (old, new):
            if pod is not None and (new is None or pod.uid != new.uid or new.spec.node_name):
                before = self._sent.pop(pod.uid, before)
        there = _on_node(new)
        if there is not None:
            self._put(there)
        self._moved(before, there)

    def _put(self, pod: Pod) -> None:
        self._there.put(pod.spec.node_name, pod.uid, pod)
        for port in host_ports_of(pod):
            self._on_port.put(port, pod.uid, pod)
        for term in anti_affinity(pod.spec):
            key = _key(term, pod)
            self._terms[key] = (term, pod.metadata)
            self._with_term.put(key, pod.uid, pod)
            for place in places_meant(term, pod.metadata):
                self._meaning.put(place, key, key)

    def _drop(self, pod: Pod) -> None:
        self._there.drop(pod.spec.node_name, pod.uid)
        for port in host_ports_of(pod):
            self._on_port.drop(port, pod.uid)
        for term in anti_affinity(pod.spec):
            key = _key(term, pod)
            self._with_term.drop(key, pod.uid)
            if key not in self._with_term:
                self._terms.pop(key, None)
                for place in places_meant(term, pod.metadata):
                    self._meaning.drop(place, key)

    def _moved(self, before: Pod | None, now: Pod | None) -> None:
        """Report a pod that came to a node or left it; None: it was, or is, on no node."""
        if before is not None and now is not None and _facts(before) == _facts(now):
            return
        if before is not None:
            if before.uid in self._shutting_out:
                self._shutting_out.remove(before.uid)
                self._ask_no_more(before)
            self._on_moved(before)
        if now is not None:
            if anti_affinity(now.spec):
                self._shutting_out.add(now.uid)
                self._ask(now)
            self._on_moved(now)

    def _ask(self, pod: Pod) -> None:
        new = [(place, label) for place, label in _asked_by(pod) if label not in self._asked.get(place, {})]
        for place, label in _asked_by(pod):
            self._asking.put((place, label), pod.uid, pod.uid)
            self._asked.put(place, label, label)
        for place in {place for place, _ in new}:
            self._on_asked(place)

    def _ask_no_more(self, pod: Pod) -> None:
        for place, label in _asked_by(pod):
            self._asking.drop((place, label), pod.uid)
            if (place, label) not in self._asking:
                self._asked.drop(place, label)


def _on_node(pod: Pod | None) -> Pod | None:
    return pod if pod is not None and pod.spec.node_name and not pod.is_finished else None


def _key(term: PodAffinityTerm, pod: Pod) -> bytes:
    """Return the key of a term. Pods with equal keys keep away the same pods: a term's meaning depends on the namespace
    of its pod.
    """
    return msgspec.json.encode((pod.metadata.namespace, term), order="sorted")


def _asked_by(pod: Pod) -> Iterator[tuple[TermPlace, str]]:
    """Yield each namespace and label by which the anti-affinity terms of a pod on a node tell pods apart."""
    for term in anti_affinity(pod.spec):
        for namespace in {namespace for namespace, _ in places_meant(term, pod.metadata)}:
            yield from (((namespace, None), label) for label in labels_asked([term]))


def _facts(pod: Pod) -> tuple[object, ...]:
    return (pod.uid, pod.spec.node_name, pod.labels, pod.spec.affinity)
