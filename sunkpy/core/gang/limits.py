"""Rules between pods that Slurm does not know and the kubelet does not check. A rule within a gang becomes a constraint
of the gang's job, or the gang is refused with a message that names the pod and the rule.

* Devices of resource claims become GRES of the job, or the gang is refused: `core.gang.devices.asked`.
* If pods of one gang must not share a node (required anti-affinity by hostname, a host port), the job gets one node for
  each pod. Anti-affinity over a larger domain than a node is refused: Slurm cannot spread pods over such domains.
* If pods must be spread evenly over nodes (topologySpreadConstraints), the job gets one node for each pod. Within a
  gang, spreading over a larger domain is refused.
* If pods must be near other pods of their gang (required affinity), all nodes of the job have the same value of the
  affinity's node label.
* Pods of *other* gangs and of other schedulers may forbid a pod on some nodes now, or may be missing where the pod must
  be near them. `avoid_nodes` finds these nodes. The gang is not refused for that, because such pods come and go.

Two queued gangs may exclude each other while neither has a node, and Slurm may place both on one node. So the nodes are
checked again before a pod is bound. Gangs that each want a topology domain for themselves choose different domains:
`sunkpy.core.placement.domains`.

Source of the rules: kube-scheduler plugins interpodaffinity (symmetric anti-affinity; a pod that matches its own
affinity may be the first) and nodeports. Preferred terms are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from operator import attrgetter
from typing import Final

import msgspec

from sunkpy.core.gang.devices.asked import Claimed, refused_devices, with_devices
from sunkpy.core.gang.gang import Gang
from sunkpy.core.gang.job.options import Problem
from sunkpy.core.model import matching
from sunkpy.core.model.alike import one_of_each, template_of
from sunkpy.core.model.concerns import Concern
from sunkpy.core.model.objects import (
    Affinity,
    ContainerPort,
    LabelSelector,
    Meta,
    Node,
    Pod,
    PodAffinityTerm,
    PodSpec,
    SpreadConstraint,
    Toleration,
    shown_to,
)
from sunkpy.core.placement.domains import HOSTNAME
from sunkpy.core.placement.needs import as_much
from sunkpy.core.placement.spreading import (
    counter_of,
    crowded,
    is_counted,
    labels_alike,
    labels_compared,
)

ANY_ADDRESS: Final = ("", "0.0.0.0", "::")
MOST_LINES: Final = 100
MOST_TO_PODS: Final = 16
"""The most terms of affinity to pods, the most lines in all these terms, and the most topologySpreadConstraints that a
pod may have: each may select most pods of the cluster.
"""
MOST_VALUES: Final = 2000
"""The most values, such as names of nodes, in all lines of a pod's affinity. Each takes a hundred bytes of memory as
long as the pod exists.
"""

MOST_UNLIKE: Final = 64
"""The most different templates, and the most different rules about other pods, that the pods of a gang may have: as
many as a gang may have roles.
"""
_MOST_UNLIKE_ON_A_NODE: Final = 4
"""The most different templates for each node that the pods of a gang name, such as a worker and its helpers."""

_Terms = Callable[[PodSpec], tuple[PodAffinityTerm, ...]]
_anti_affinity: Final[_Terms] = attrgetter("anti_affinity_terms")
_pod_affinity: Final[_Terms] = attrgetter("pod_affinity_terms")
KAI_DOMAIN: Final = "kai.scheduler/topology-required-placement"
DOMAINS_REQUIRED: Final = ("kueue.x-k8s.io/podset-required-topology", KAI_DOMAIN)
"""Annotations of Kueue and KAI that users set on a pod. The value is the key of a Node label. All pods of the gang go
to nodes where this label has the same value. KAI itself reads its annotation from the pods' topmost owner
(pkg/podgrouper, default_grouper.go); sunkpy reads that of KAI from pods and from their owners.
"""

_Inner = tuple[str, PodAffinityTerm]


def within_limits(
    gang: Gang, gpu_resources: Mapping[str, str], claimed: Claimed | None = None, plugin_resource: str = ""
) -> Gang:
    """Return the gang with the constraints on its nodes that the specs of its pods demand, such as one node for each
    pod, and with the devices of claims among the pods' requests. It gets a fatal problem if Slurm cannot meet these
    constraints, or if something about its devices is refused. A gang that is not sized or never queues is returned
    unchanged.

    Args:
        gang: as its family (kind of workload) made it.
        gpu_resources: extended resource → GRES, `gpu` or `gpu:h100`.
        claimed: what is known of the pods' resource claims; None if this scheduler allocates no claims.
        plugin_resource: the extended resource whose GPUs sunkpy's device plugin hands out; empty if the plugin is not
            in use. Only one container of a pod may ask for it.
    """
    if not gang.is_sized or gang.never_queues:
        return gang
    refused = ""
    if Concern.DEVICES in gang.concerns:
        refused = refused_devices(gang, claimed, gpu_resources, plugin_resource)
        gang = with_devices(gang, claimed) if claimed is not None else gang
    apart, together, evenly = list[_Inner](), _podsets(gang), list[tuple[str, str]]()
    if Concern.NEIGHBOURS in gang.concerns:
        apart, evenly = _inner(gang, _anti_affinity), _spread_evenly(gang)
        together = [*_inner(gang, _pod_affinity), *together]
    refused = refused or _refused_spread(gang, apart, together) or _refused_evenness(evenly)
    return msgspec.structs.replace(
        gang,
        problems=(*gang.problems, Problem(text=refused, fatal=True)) if refused else gang.problems,
        one_per_node=gang.one_per_node or _must_spread(gang, apart) or bool(evenly),
        one_domain=HOSTNAME if _domain(together) == HOSTNAME else gang.one_domain or _domain(together),
    )


class LongSpec(PodSpec, frozen=True, kw_only=True):
    """A shortened copy of a pod's spec, made because a list in the spec is too long to keep in memory; `why` says which
    list.
    """

    why: str


def shortened(pod: Pod) -> Pod:
    """Return a copy of the pod that takes less memory. Of the volumes it has only those with claims, and of the
    finalizers only the first, which shows that the pod has some. If a list in the spec is too long, the spec becomes a
    `LongSpec`: it has little more than the pod's resources, its node, and the reason why the pod is refused.

    Anybody may make pods of a megabyte, each of which takes up to nine megabytes in memory.
    """
    spec, meta = pod.spec, pod.metadata
    if why := explain_length(spec):
        spec = LongSpec(
            why=why,
            containers=(as_much(spec),),
            node_name=spec.node_name,
            scheduler_name=spec.scheduler_name,
            restart_policy=spec.restart_policy,
            scheduling_gates=spec.scheduling_gates[:1],
            termination_grace_period_seconds=spec.termination_grace_period_seconds,
        )
    elif spec.volumes:
        with_claims = tuple(each for each in spec.volumes if each.persistent_volume_claim or each.ephemeral)
        spec = msgspec.structs.replace(spec, volumes=with_claims)
    if len(meta.finalizers) > 1:
        meta = msgspec.structs.replace(meta, finalizers=meta.finalizers[:1])
    is_same = spec is pod.spec and meta is pod.metadata
    return pod if is_same else msgspec.structs.replace(pod, spec=spec, metadata=meta)


def explain_length(spec: PodSpec) -> str:
    """Say which list in a pod's spec is too long: it would take too much memory, or too much time to compare with each
    node or pod. Empty if no list is too long.
    """
    if isinstance(spec, LongSpec):
        return spec.why
    containers, required = matching.containers_of(spec), matching.required_affinity(spec)
    terms = required.node_selector_terms if required is not None else ()
    node_lines = [line for term in terms for line in (*term.match_expressions, *term.match_fields)]
    of_pods, constraints = (*spec.anti_affinity_terms, *spec.pod_affinity_terms), spec.topology_spread_constraints
    selectors = [term.label_selector for term in of_pods if term.label_selector is not None]
    others = [term.namespace_selector for term in of_pods] + [each.label_selector for each in constraints]
    lines = [*node_lines, *(line for each in (*selectors, *others) if each for line in each.match_expressions)]
    counts = {
        "containers": len(containers),
        "resources": len({name for each in containers for name in matching.wanted(each.resources)}),
        "ports": sum(len(each.ports) for each in containers),
        "labels in its nodeSelector": len(spec.node_selector),
        "tolerations": len(spec.tolerations),
        "lines of node affinity": max(len(terms), len(node_lines)),
        "scheduling gates": len(spec.scheduling_gates),
        "claims for devices": len(spec.resource_claims),
        "volumes with claims": sum(bool(each.persistent_volume_claim or each.ephemeral) for each in spec.volumes),
    }
    to_pods = {
        "terms of affinity to pods": len(of_pods),
        "topologySpreadConstraints": len(constraints),
        "lines of affinity to pods": sum(len(each.match_labels) + len(each.match_expressions) for each in selectors),
    }
    values = {
        "values in its affinity": sum(len(line.values) for line in lines)
        + sum(len(term.namespaces) for term in of_pods)
        + sum(len(each.match_labels) + len(each.match_expressions) for each in others if each is not None)
    }
    for each, limit in ((counts, MOST_LINES), (to_pods, MOST_TO_PODS), (values, MOST_VALUES)):
        most = max(each, key=each.__getitem__)
        if each[most] > limit:
            return f"has {each[most]} {most}, and may have at most {limit}"
    return ""


def explain_variety(gang: Gang) -> str:
    """Say in what the pods of a gang differ too much. For each different template of its pods, the scheduler has to
    look for nodes once, and for each different rule about other pods it looks for the pods that the rule selects. Empty
    if the pods are alike enough.

    Pods that name many nodes may have `_MOST_UNLIKE_ON_A_NODE` templates for each node that they name.
    """
    pods = gang.members
    most_templates = max(MOST_UNLIKE, _MOST_UNLIKE_ON_A_NODE * len({*gang.named_hosts.values()}))
    spread = one_of_each((pod for pod in pods if pod.spec.hard_spread_constraints), _spread_by)
    rules: Iterator[object] = chain(
        _unlike_terms(pods, _anti_affinity),
        _unlike_terms(pods, _pod_affinity),
        chain.from_iterable(pod.spec.hard_spread_constraints for pod in spread),
    )
    templates = one_of_each(pods, lambda pod: template_of(pod.spec))
    for what, those, most in (
        ("combinations of requests, nodeSelector, affinity and tolerations", templates, most_templates),
        ("terms of affinity to pods and topologySpreadConstraints", rules, MOST_UNLIKE),
    ):
        if len(tuple(islice(those, most + 1))) > most:
            return f"its pods have more than {most} different {what}: make several gangs"
    return ""


def is_short(term: PodAffinityTerm) -> bool:
    """True if an affinity term is small enough that the results of comparing it with pods may be cached."""
    selectors = [each for each in (term.label_selector, term.namespace_selector) if each is not None]
    lines = sum(len(each.match_labels) + len(each.match_expressions) for each in selectors)
    values = sum(len(line.values) for each in selectors for line in each.match_expressions)
    return lines <= MOST_LINES and len(term.namespaces) + values <= MOST_VALUES


ShutOut = tuple[PodAffinityTerm, Meta, Iterable[Pod]]
"""A term of anti-affinity, the metadata of one pod that has it, and all pods of that namespace that have it."""
_Namespaces = Collection[str] | None


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of all schedulers that are on nodes, behind look-up functions. Many daemons have host ports and
    anti-affinity, so each function finds only the pods that can matter for a question.

    `shutting_out`: for some pods, finds the required anti-affinity terms of other pods that may select one of them,
    each with the pods of one namespace that have the term. `on_port`: finds the pods with a host port of this number.
    `meant`: finds the pods that a label selector selects in these namespaces (None: in any), and perhaps others.
    `meant_on`: finds on each of these nodes one such pod or several, if there are any that have not finished and are
    not in `but` (uids), and perhaps such pods on other nodes. `is_usable`: True if a job could have the Kubernetes node
    of this name.
    """

    nodes: Mapping[str, Node]
    shutting_out: Callable[[Sequence[Pod]], Iterable[ShutOut]] = lambda _: ()
    on_port: Callable[[int], Iterable[Pod]] = lambda _: ()
    meant: Callable[[LabelSelector, _Namespaces], Iterable[Pod]] = lambda *_: ()
    meant_on: Callable[[Collection[str], LabelSelector, _Namespaces, Collection[str]], Iterable[Pod]] = lambda *_: ()
    is_usable: Callable[[str], bool] = lambda _: True

    @classmethod
    def of(cls, nodes: Mapping[str, Node], pods: Sequence[Pod]) -> Surroundings:
        """Return surroundings that consist of these nodes and of a few pods; each look-up compares all of the pods."""
        return cls(
            nodes=nodes,
            shutting_out=lambda _: (
                (term, pod.metadata, (pod,)) for pod in pods for term in pod.spec.anti_affinity_terms
            ),
            on_port=lambda port: (pod for pod in pods if port in host_ports_of(pod)),
            meant=lambda *_: pods,
            meant_on=lambda _, selector, namespaces, but: selected(pods, selector, namespaces, but),
        )


def selected(
    pods: Iterable[Pod], selector: LabelSelector, namespaces: Collection[str] | None, but: Collection[str]
) -> Iterator[Pod]:
    """Yield those of these pods that a label selector selects in these namespaces (None: in any), which have not
    finished and whose uid is not in `but`.
    """
    for pod in pods:
        is_there = namespaces is None or pod.metadata.namespace in namespaces
        if is_there and _counts(pod, but) and matching.matches_labels(selector, pod.labels):
            yield pod


def deciding_specs(gang: Gang) -> list[PodSpec]:
    """Return the specs that decide on which nodes the gang's job may run: those of the existing pods that start first,
    and the node selectors and node affinities of templates for pods that do not exist yet.

    Webhooks add fields to a pod that its template lacks, mostly tolerations. So a template's spec, as returned here,
    tolerates all taints.
    """
    shapes = (role.shape for role in gang.roles if role.shape is not None and role.first < role.seats)
    return [pod.spec for pod in gang.first_wave] + [_nodes_of(shape) for shape in shapes if _chooses_nodes(shape)]


def _chooses_nodes(spec: PodSpec) -> bool:
    return bool(spec.node_selector or (spec.affinity is not None and spec.affinity.node_affinity is not None))


def _nodes_of(spec: PodSpec) -> PodSpec:
    affinity = Affinity(node_affinity=spec.affinity.node_affinity) if spec.affinity is not None else None
    bears_all = Toleration(operator="Exists")
    return PodSpec(node_selector=spec.node_selector, affinity=affinity, tolerations=(bears_all,))


def host_ports_of(pod: Pod) -> set[int]:
    """Return the numbers of the host ports that the pod takes on its node."""
    return {port.host_port for port in pod.spec.host_ports}


def terms_of(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    """Return all terms by which a pod requires to be near to other pods (affinity) or away from them
    (anti-affinity).
    """
    return pod.spec.anti_affinity_terms + pod.spec.pod_affinity_terms


TermPlace = tuple[str, tuple[str, str | None] | None]
"""A key under which pods are indexed: a namespace (empty: any), and a label with its value (value None: any). The pods
of a namespace with any label or none are under the label None.
"""

_ANYWHERE: Final = ""


def places_meant(term: PodAffinityTerm, of: Meta) -> Iterator[TermPlace]:
    """Yield the index keys under which the pods are found that an affinity term may select. `of` is the metadata of the
    pod that has the term.
    """
    namespaces = term.namespaces or (of.namespace,)
    is_anywhere = term.namespace_selector is not None or len(namespaces) > MOST_TO_PODS
    return _places(term.label_selector, (_ANYWHERE,) if is_anywhere else namespaces)


def _places(selector: LabelSelector | None, namespaces: Sequence[str]) -> Iterator[TermPlace]:
    labels = _labels_meant(selector, len(namespaces)) if selector is not None else ()
    yield from ((namespace, label) for label in labels for namespace in namespaces)


def _labels_meant(selector: LabelSelector, times: int) -> Iterable[tuple[str, str | None] | None]:
    """Return labels of which each pod that the selector selects has one: those of the line with the fewest values. If
    these would be more than `MOST_TO_PODS` in as many namespaces as `times`, they count as any value.
    """
    lines: list[tuple[str, Collection[str]]] = [(name, (value,)) for name, value in selector.match_labels.items()]
    lines += [(line.key, line.values) for line in selector.match_expressions if line.operator == "In"]
    name, values = min(lines, key=lambda line: len(line[1]), default=("", ()))
    if lines and len(values) * times <= MOST_TO_PODS:
        return ((name, value) for value in values)
    named = name or next((line.key for line in selector.match_expressions if line.operator == "Exists"), "")
    return ((named, None),) if named else (None,)


def places_of(pod: Pod) -> Iterator[TermPlace]:
    """Yield the index keys under which a pod is found: its namespace and the key for any namespace, each with every
    label of the pod, with the label and any value, and with None, the key for any label.
    """
    for namespace, _ in anywhere_in(pod.metadata.namespace):
        yield (namespace, None)
        for label in pod.labels.items():
            yield (namespace, label)
            yield (namespace, (label[0], None))


def anywhere_in(namespace: str) -> tuple[TermPlace, ...]:
    """Return the two `TermPlace` keys without a label under which each pod of a namespace is found: the key of this
    namespace, and the key of any namespace.
    """
    return ((namespace, None), (_ANYWHERE, None))


Topic = tuple[str, TermPlace | int]


def topics_of(pods: Iterable[Pod]) -> Iterator[Topic]:
    """Yield the topics of these pods, which say what decides where they may go: the pods that they select or that may
    keep them away, and host ports. A topic is a key to compare: another pod that comes to a node or leaves it can
    matter to them only if `touches` yields one of the same topics for the other pod.
    """
    for pod in pods:
        for term in terms_of(pod):
            yield from (("meant", place) for place in places_meant(term, pod.metadata))
        for each in pod.spec.hard_spread_constraints:
            yield from (("meant", place) for place in _places(each.label_selector, (pod.metadata.namespace,)))
        yield from (("port", port) for port in host_ports_of(pod))
        yield from (("shut out", place) for place in places_of(pod))


def touches(pod: Pod) -> Iterator[Topic]:
    """Yield the topics of a pod that comes to a node or leaves it: what other pods may select it by, its host ports,
    and the pods that its anti-affinity keeps away. A topic is a key to compare: the pod can matter only to pods for
    which `topics_of` yields one of the same topics.
    """
    yield from (("meant", place) for place in places_of(pod))
    yield from (("port", port) for port in host_ports_of(pod))
    for term in pod.spec.anti_affinity_terms:
        yield from (("shut out", place) for place in places_meant(term, pod.metadata))


def shut_out_from(place: TermPlace) -> Topic:
    """Return the topic of pods that the anti-affinity of other pods may keep away. A topic is a key that `topics_of`
    and `touches` yield, to be compared. `place` is the index key of these pods: a namespace (empty: any), and a label
    with its value (None: any).
    """
    return ("shut out", place)


def labels_asked(terms: Iterable[PodAffinityTerm]) -> Iterator[str]:
    """Yield the keys of the pod labels that the label selectors of these affinity terms compare."""
    for term in terms:
        yield from matching.labels_named(term.label_selector)


def wants_to_be_alone(pods: Iterable[Pod], label: str) -> bool:
    """True if one of the pods has required anti-affinity whose topologyKey is this node label."""
    return any(term.topology_key == label for pod in pods for term in pod.spec.anti_affinity_terms)


def depend_on(pods: Sequence[Pod], other: Pod) -> bool:
    """True if the nodes where one of `pods` may go can change when the pod `other` comes to a node or leaves it."""
    return (
        any(_selects(term, pod.metadata, other.metadata) for pod in pods for term in terms_of(pod))
        or any(_selects(term, other.metadata, pod.metadata) for term in other.spec.anti_affinity_terms for pod in pods)
        or any(_port_taken(pod.spec, other.spec) for pod in pods)
        or any(is_counted(each, pod, other) for pod in pods for each in pod.spec.hard_spread_constraints)
    )


def avoid_nodes(
    pods: Sequence[Pod], around: Surroundings, *, but: Collection[str] = (), names_all: bool = False
) -> dict[str, str]:
    """Return the Kubernetes nodes to which one of these pods must not go now, each with the reason: because of other
    pods there, or because a pod that must be near is missing there.

    Args:
        pods: pods of one gang that are not bound.
        around: the pods on nodes.
        but: uids of pods that do not count: above all those of the gang itself, which `within_limits` keeps apart or
            together.
        names_all: whether the reasons name pods of other namespaces, for a reader who may see all pods.
    """
    away, together = (tuple(_unlike_terms(pods, terms)) for terms in (_anti_affinity, _pod_affinity))
    places = _Places(around.nodes)

    def show(other: Pod) -> str:
        return shown_to(other.metadata.namespace if names_all else pods[0].metadata.namespace, other)

    def first_meant(term: PodAffinityTerm, pod: Pod, names: Collection[str]) -> dict[str, Pod]:
        if term.label_selector is None:
            return {}
        namespaces = None if term.namespace_selector is not None else term.namespaces or (pod.metadata.namespace,)
        return places.first_in_each_domain(term, around.meant_on(names, term.label_selector, namespaces, but))

    def others(pod: Pod, selector: LabelSelector) -> Iterator[Pod]:
        return (each for each in around.meant(selector, (pod.metadata.namespace,)) if each.uid not in but)

    with_ports = [pod.spec for pod in pods if pod.spec.host_ports]
    avoided: dict[str, str] = {}
    for term, pod in away:
        open_nodes = places.open_nodes(term, avoided)
        for domain, other in first_meant(term, pod, open_nodes).items():
            _avoid(avoided, places.nodes_in(term, domain), f"near {show(other)}, which its anti-affinity avoids")
    for term, of, shutting_out in around.shutting_out(pods):
        if any(_selects(term, of, pod.metadata) for pod in pods):
            there = places.first_in_each_domain(term, (other for other in shutting_out if _counts(other, but)))
            for domain, other in there.items():
                _avoid(avoided, places.nodes_in(term, domain), f"near {show(other)}, whose anti-affinity keeps it away")
    for port in sorted(set[int]().union(*map(host_ports_of, pods))):
        for other in around.on_port(port):
            if _counts(other, but) and any(_port_taken(spec, other.spec) == port for spec in with_ports):
                _avoid(avoided, (other.spec.node_name,), f"host port {port} is taken")
    for term, pod in together:
        domains = first_meant(term, pod, around.nodes)
        # The first pod of several that select each other may go anywhere.
        if domains or not _selects(term, pod.metadata, pod.metadata):
            near = {name for domain in domains for name in places.nodes_in(term, domain)}
            _avoid(
                avoided,
                (name for name in around.nodes if name not in near),
                ("without a pod that its affinity asks for"),
            )
    for pod in one_of_each((pod for pod in pods if pod.spec.hard_spread_constraints), _spread_by):
        for name, why in crowded(pod, around.nodes, partial(others, pod), is_usable=around.is_usable).items():
            _avoid(avoided, (name,), why)
    return avoided


def _spread_by(pod: Pod) -> tuple[object, ...]:
    """Return a key of all that decides over which nodes the pod's topology spread constraints spread it. Pods with
    equal keys are spread alike.
    """
    labels = {name: pod.labels[name] for name in labels_compared(pod) if name in pod.labels}
    where = (pod.spec.node_selector, pod.spec.affinity, pod.spec.tolerations)
    return (pod.spec.hard_spread_constraints, labels, where)


def spreads_by(pod: Pod) -> tuple[object, ...]:
    """Return a key of all that decides how the pod's topology spread constraints spread it: pods with equal keys are
    spread alike. Empty if the pod has no constraint that keeps it from nodes.
    """
    return _spread_by(pod) if pod.spec.hard_spread_constraints else ()


def _unlike_terms(pods: Iterable[Pod], terms: _Terms) -> Iterator[tuple[PodAffinityTerm, Pod]]:
    """Yield each different affinity term of these pods once, with one pod that has it. `terms` returns the terms of a
    spec.
    """
    unlike = one_of_each(pods, lambda pod: terms(pod.spec))  # mostly one: this compares no single terms
    all_terms = ((term, pod) for pod in unlike for term in terms(pod.spec))
    return one_of_each(all_terms, lambda found: found[0])


def _counts(other: Pod, but: Container[str]) -> bool:
    return not other.is_finished and other.uid not in but


def _refused_spread(gang: Gang, apart: Sequence[_Inner], together: Sequence[_Inner]) -> str:
    for name, term in apart:
        if term.topology_key != HOSTNAME:
            return (
                f"{name} must not share its {term.topology_key} with others of its gang: "
                "Slurm can keep the pods of a job on different nodes, not in different domains"
            )
    if _must_spread(gang, apart) and HOSTNAME in (gang.one_domain, _domain(together)):
        return (
            "its pods must be on one node (pod affinity or a required topology) and on different nodes (anti-affinity "
            "or the same hostPort): remove one of the two"
        )
    keys = sorted({term.topology_key for _, term in together} | ({gang.one_domain} - {""}))
    if len(keys) > 1 and HOSTNAME not in keys:
        return (
            f"its pods must be together by {' and by '.join(keys)}: Slurm can keep a job together by only one of "
            "these labels"
        )
    return ""


def _spread_evenly(gang: Gang) -> list[tuple[str, str]]:
    """Return the pods (as `pod <name>`) whose topologySpreadConstraints also count other pods of their gang. Each comes
    with the node label over whose values these pods have to be spread (topologyKey). Of pods that are spread alike,
    only one is returned.
    """
    found = []
    for role in gang.roles:
        for constraint, pod in _unlike_constraints(each.pod for each in role.members):
            counts = counter_of(constraint, pod)
            others = sum(
                each.seats - (each is role) for each in gang.roles if any(counts(member.pod) for member in each.members)
            )
            if others > 0:
                found.append((f"pod {pod.name}", constraint.topology_key))
    return found


def _unlike_constraints(pods: Iterable[Pod]) -> Iterator[tuple[SpreadConstraint, Pod]]:
    """Yield each different topology spread constraint of these pods once, with one pod that has it."""
    unlike = one_of_each((pod for pod in pods if pod.spec.hard_spread_constraints), _spread_by)
    each_of = ((constraint, pod) for pod in unlike for constraint in pod.spec.hard_spread_constraints)
    return one_of_each(each_of, lambda found: (found[0], labels_alike(*found)))


def _refused_evenness(evenly: Iterable[tuple[str, str]]) -> str:
    """Say why Slurm cannot spread the pods as their topologySpreadConstraints ask; empty if it can. One pod on each
    node is always even; over domains larger than a node Slurm cannot spread. `evenly`: each pod with its node label.
    """
    for name, label in evenly:
        if label != HOSTNAME:
            return (
                f"{name} must be spread over {label} with others of its gang (topologySpreadConstraints): Slurm can "
                "keep the pods of a job on different nodes, not spread them over domains"
            )
    return ""


def _must_spread(gang: Gang, apart: Sequence[_Inner]) -> bool:
    return any(term.topology_key == HOSTNAME for _, term in apart) or _ports_clash(gang)


def _domain(together: Sequence[_Inner]) -> str:
    """Return the node label whose value must be the same on all nodes of the gang, by the topologyKeys of these
    affinity terms; empty without terms. If several labels are named, the hostname label wins.
    """
    keys = sorted({term.topology_key for _, term in together})
    return HOSTNAME if HOSTNAME in keys else next(iter(keys), "")


def _inner(gang: Gang, terms: _Terms) -> list[_Inner]:
    """Return the affinity terms of the gang's pods that select other pods of the same gang, each with `pod <name>`.
    `terms` returns the terms of a spec. Pods that do not exist yet are taken to look like the existing pods of their
    role.
    """
    found = []
    for role in gang.roles:
        for term, pod in _unlike_terms([each.pod for each in role.members], terms):
            selects = _selector(term, pod.metadata)
            others = sum(
                each.seats - (each is role)
                for each in gang.roles
                if any(selects(member.pod) for member in each.members)
            )
            if others > 0:
                found.append((f"pod {pod.name}", term))
    return found


def _podsets(gang: Gang) -> list[_Inner]:
    """Return the topology domains in which annotations of Kueue or KAI require the gang to stay, as affinity terms,
    each with `pod <name>`.
    """
    members = gang.members if gang.seats > 1 else ()
    asking = {pod.annotations[key]: pod for key in DOMAINS_REQUIRED for pod in members if pod.annotations.get(key)}
    return [(f"pod {pod.name}", PodAffinityTerm(topology_key=label)) for label, pod in asking.items()]


def _ports_clash(gang: Gang) -> bool:
    """True if two pods of the gang would take the same host port, so that they cannot share a node."""
    taken: list[ContainerPort] = []
    for role in gang.roles:
        ports = list(role.members[0].pod.spec.host_ports) if role.members else []
        if ports and (role.seats > 1 or any(_same_port(one, other) for one in ports for other in taken)):
            return True
        taken += ports
    return False


def _port_taken(spec: PodSpec, other: PodSpec) -> int:
    return next((one.host_port for one in spec.host_ports for each in other.host_ports if _same_port(one, each)), 0)


def _same_port(one: ContainerPort, other: ContainerPort) -> bool:
    same_address = one.host_ip in ANY_ADDRESS or other.host_ip in ANY_ADDRESS or one.host_ip == other.host_ip
    return same_address and one.protocol == other.protocol and one.host_port == other.host_port


class _Places:
    """Finds in which topology domains pods are: a domain is all nodes that have the same value of the label in an
    affinity term's `topologyKey`. A cluster may have thousands of pods in a domain of thousands of nodes, so only one
    pod of each domain counts.
    """

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self._by_label: dict[str, dict[str, list[str]]] = {}
        self._domain_of: dict[str, dict[str, str]] = {}

    def first_in_each_domain(self, term: PodAffinityTerm, pods: Iterable[Pod]) -> dict[str, Pod]:
        """Return, for each domain (by the value of its label), the first of these pods. A pod whose node lacks the
        label is in no domain.
        """
        found: dict[str, Pod] = {}
        domains = self._domains(term.topology_key)
        for pod in pods:
            domain = domains.get(pod.spec.node_name)
            if domain is not None and domain not in found:
                found[domain] = pod
        return found

    def open_nodes(self, term: PodAffinityTerm, avoided: Mapping[str, str]) -> list[str]:
        """Return the names of the nodes in those domains of which a node is not among `avoided`."""
        domains = self._domains(term.topology_key)
        still_open = {domain for name, domain in domains.items() if name not in avoided}
        return [name for name, domain in domains.items() if domain in still_open]

    def nodes_in(self, term: PodAffinityTerm, domain: str) -> Sequence[str]:
        """Return the names of the nodes in a domain."""
        label = term.topology_key
        if label not in self._by_label:
            by_value = self._by_label[label] = {}
            for name, value in self._domains(label).items():
                by_value.setdefault(value, []).append(name)
        return self._by_label[label][domain]

    def _domains(self, label: str) -> Mapping[str, str]:
        """Return node → its domain, of all nodes that have this label."""
        if label not in self._domain_of:
            self._domain_of[label] = {
                name: node.labels[label] for name, node in self._nodes.items() if label in node.labels
            }
        return self._domain_of[label]


def _selects(term: PodAffinityTerm, of: Meta, other: Meta) -> bool:
    """True if an affinity term of the pod with metadata `of` selects the pod with metadata `other`. A term with a
    namespaceSelector is taken to select all namespaces, because the labels of namespaces are not known here.
    """
    if term.label_selector is None or not _is_in_its_namespaces(term, of, other):
        return False
    return matching.matches_labels(term.label_selector, other.labels)


def _selector(term: PodAffinityTerm, of: Meta) -> Callable[[Pod], bool]:
    """Return a function that says whether an affinity term of the pod with metadata `of` selects a pod, as `_selects`
    does. The function is faster when it is asked about many pods.
    """
    if term.label_selector is None:
        return lambda _: False
    matches = matching.label_matcher(term.label_selector)
    return lambda other: _is_in_its_namespaces(term, of, other.metadata) and matches(other.labels)


def _is_in_its_namespaces(term: PodAffinityTerm, of: Meta, other: Meta) -> bool:
    return term.namespace_selector is not None or other.namespace in (term.namespaces or (of.namespace,))


def _avoid(avoided: dict[str, str], names: Iterable[str], why: str) -> None:
    for name in names:
        avoided.setdefault(name, why)
