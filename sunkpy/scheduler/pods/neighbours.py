"""Knows which pods are on which node, to check affinity rules and host ports of pods that are to be placed there.

The pods come from the watches of this and all other schedulers' pods. A pod of this scheduler counts as soon as its
binding is sent, before the watch shows the binding.

A large cluster has tens of thousands of daemons with host ports and pods with anti-affinity. They are indexed by node,
port number, affinity term and label, so that a binding looks only at pods that may conflict with its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from sunkpy.core.gang.limits import (
    ShutOut,
    Surroundings,
    TermPlace,
    anywhere_in,
    host_ports_of,
    labels_asked,
    places_meant,
    places_of,
    selected,
)
from sunkpy.core.model.labelled import Labelled
from sunkpy.core.model.objects import LabelSelector, Meta, Node, Pod, PodAffinityTerm
from sunkpy.runtime.groups import Groups

PodsOn = Mapping[str, Iterable[Pod]]
"""Kubernetes node → pods there."""


class Neighbours:
    """The pods that are on nodes, for checks of affinity rules and host ports.

    `on_moved` is called with each pod that came to a node or left one. If labels or affinity of a pod on a node
    changed, it is called with the pod before the change and with the pod after it. `on_asked` is called before that,
    with a place (a namespace), if anti-affinity terms of pods on nodes begin to read a further label of the pods in
    this place.
    """

    def __init__(
        self,
        *,
        on_moved: Callable[[Pod], None] = lambda _: None,
        on_asked: Callable[[TermPlace], None] = lambda _: None,
    ) -> None:
        self._on_moved = on_moved
        self._on_asked = on_asked
        self._shutting_out: set[str] = set()
        self._there = Labelled()
        self._on_port: Groups[int, str, Pod] = Groups()
        self._with_term: Groups[bytes, str, Pod] = Groups()
        self._terms: dict[bytes, tuple[PodAffinityTerm, Meta]] = {}
        self._meaning: Groups[TermPlace, bytes, bytes] = Groups()
        self._asking: Groups[tuple[TermPlace, str], str, str] = Groups()
        self._asked: Groups[TermPlace, str, str] = Groups()
        self._sent: dict[str, Pod] = {}

    def around(self, nodes: Mapping[str, Node], *, listed: PodsOn | None = None) -> Surroundings:
        """Return which pods are on which node, as one object that answers questions about it until the next change.
        `listed`: for some nodes, all pods that the apiserver has just shown there; they replace what the watches show
        of these nodes.
        """
        listed, find = listed or {}, self._there.finder()
        further = [*(pod for pods in listed.values() for pod in pods), *self._sent.values()]

        def still(pods: Iterable[Pod]) -> Iterator[Pod]:
            return (pod for pod in pods if pod.spec.node_name not in listed)

        def meant(selector: LabelSelector, namespaces: Collection[str] | None) -> Iterator[Pod]:
            yield from still(find.all(selector, namespaces))
            yield from further

        def meant_on(
            names: Collection[str], selector: LabelSelector, namespaces: Collection[str] | None, but: Collection[str]
        ) -> Iterator[Pod]:
            yield from still(find.some_on_each([n for n in names if n not in listed], selector, namespaces, but))
            yield from selected(further, selector, namespaces, but)

        def shutting_out(pods: Sequence[Pod]) -> Iterator[ShutOut]:
            places = dict.fromkeys(place for pod in pods for place in places_of(pod))
            for key in dict.fromkeys(key for place in places for key in self._meaning.of(place)):
                yield *self._terms[key], still(self._with_term.of(key))
            yield from ((term, pod.metadata, (pod,)) for pod in further for term in pod.spec.anti_affinity_terms)

        def on_port(port: int) -> Iterator[Pod]:
            yield from still(self._on_port.of(port))
            yield from (pod for pod in further if port in host_ports_of(pod))

        return Surroundings(nodes=nodes, shutting_out=shutting_out, on_port=on_port, meant=meant, meant_on=meant_on)

    @property
    def is_open(self) -> bool:
        """True if no pod on a node has an anti-affinity term, which would keep other pods away by their labels."""
        return not self._shutting_out

    def labels_asked(self, pod: Pod) -> set[str]:
        """Return the keys of those labels on which it depends whether pods on nodes keep away a pod of this namespace:
        the anti-affinity terms of pods on nodes read them.
        """
        return {label for place in anywhere_in(pod.metadata.namespace) for label in self._asked.get(place, {})}

    def note_sent(self, pod: Pod) -> None:
        """Count a pod as on its node from now on, because its binding is being sent. `pod` is the pod as bound."""
        self._sent[pod.uid] = pod
        self._moved(None, pod)

    def on(self, node: str) -> list[Pod]:
        """Return the pods that are on a node as the watches show, and the pods whose binding to the node was sent."""
        return [*self._there.on(node), *self.sent_to(node)]

    def sent_to(self, node: str) -> list[Pod]:
        """Return the pods whose binding to a node was sent, and which the watch does not show as bound yet."""
        return [pod for pod in self._sent.values() if pod.spec.node_name == node]

    def drop_sent(self, uid: str) -> None:
        """Stop counting a pod as on the node to which its binding was sent, because the binding was not done."""
        self._moved(self._sent.pop(uid, None), None)

    def update(self, old: Pod | None, new: Pod | None) -> None:
        """Take one change of a pod in a watch into account. `old` is None if the pod is new, `new` if it is gone."""
        before = _on_node(old)
        self._there.follow(before, _on_node(new))
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
        for port in host_ports_of(pod):
            self._on_port.put(port, pod.uid, pod)
        for term in pod.spec.anti_affinity_terms:
            key = _key(term, pod)
            self._terms[key] = (term, pod.metadata)
            self._with_term.put(key, pod.uid, pod)
            for place in places_meant(term, pod.metadata):
                self._meaning.put(place, key, key)

    def _drop(self, pod: Pod) -> None:
        for port in host_ports_of(pod):
            self._on_port.drop(port, pod.uid)
        for term in pod.spec.anti_affinity_terms:
            key = _key(term, pod)
            self._with_term.drop(key, pod.uid)
            if key not in self._with_term:
                self._terms.pop(key, None)
                for place in places_meant(term, pod.metadata):
                    self._meaning.drop(place, key)

    def _moved(self, before: Pod | None, now: Pod | None) -> None:
        """Call the listeners if a pod came to a node, left one, or changed there. `before` and `now`: the pod on its
        node, before the change and after it; None if it was or is on no node.
        """
        if before is not None and now is not None and _facts(before) == _facts(now):
            return
        if before is not None:
            if before.uid in self._shutting_out:
                self._shutting_out.remove(before.uid)
                self._ask_no_more(before)
            self._on_moved(before)
        if now is not None:
            if now.spec.anti_affinity_terms:
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
    """Return a key for an anti-affinity term of a pod. Terms with equal keys keep away the same pods. The key contains
    the pod's namespace, because a term without namespaces means the namespace of its pod.
    """
    return msgspec.json.encode((pod.metadata.namespace, term), order="sorted")


def _asked_by(pod: Pod) -> Iterator[tuple[TermPlace, str]]:
    """Yield, for a pod on a node: each namespace from which its anti-affinity terms keep pods away (as a place), with
    each label key by which the terms select those pods.
    """
    for term in pod.spec.anti_affinity_terms:
        for namespace in {namespace for namespace, _ in places_meant(term, pod.metadata)}:
            yield from (((namespace, None), label) for label in labels_asked([term]))


def _facts(pod: Pod) -> tuple[object, ...]:
    return (pod.uid, pod.spec.node_name, pod.labels, pod.spec.affinity)
