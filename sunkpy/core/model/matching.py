"""Which nodes a pod may use, and what it takes there: the rules of kube-scheduler and of the kubelet's admission.

Amounts are dicts from resource name to integers: millicores for `cpu`, bytes for `memory`, units for the rest.
Sources of the rules: k8s.io/component-helpers scheduling/corev1 (node affinity, tolerations) and resource
PodRequests (sidecars, overhead, pod-level resources).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation

import msgspec

from sunkpy.core import names
from sunkpy.core.model import quantity
from sunkpy.core.model.devices import CLAIMED
from sunkpy.core.model.objects import (
    Container,
    LabelSelector,
    Node,
    NodeSelector,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    Resources,
    SelectorRequirement,
    Taint,
    Toleration,
)

Amounts = dict[str, int]

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
_POD_LEVEL_RESOURCES = ("cpu", "memory", "hugepages-", CLAIMED)


class Shortfall(msgspec.Struct, frozen=True, kw_only=True):
    """A resource of which a node has less (`has`) than a pod needs: millicores for `cpu`, bytes for `memory`, units for
    others.
    """

    resource: str
    needs: int
    has: int

    def __str__(self) -> str:
        return f"lacks {self.resource}: needs {show(self.resource, self.needs)}, has {show(self.resource, self.has)}"


def matches_requirement(values: Mapping[str, str], requirement: SelectorRequirement) -> bool:
    """True if the labels match one line of a selector. An unknown operator never matches."""
    value = values.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(value, requirement)
    return False


def matches_labels(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """True if the labels match all labels and all expressions of the selector."""
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        matches_requirement(labels, line) for line in selector.match_expressions
    )


def label_matcher(selector: LabelSelector) -> Callable[[Mapping[str, str]], bool]:
    """Return a function that does what `matches_labels` does for this selector, for labels of many pods: it compares
    equal labels only once.
    """
    names = tuple(dict.fromkeys(labels_named(selector)))
    known: dict[tuple[str | None, ...], bool] = {}

    def matches(labels: Mapping[str, str]) -> bool:
        asked = tuple(map(labels.get, names))
        answer = known.get(asked)
        if answer is None:
            answer = known[asked] = matches_labels(selector, labels)
        return answer

    return matches


def labels_named(selector: LabelSelector | None) -> Iterator[str]:
    """Yield the names of the labels that a selector looks at."""
    if selector is not None:
        yield from selector.match_labels
        yield from (line.key for line in selector.match_expressions)


def matches_term(node: Node, term: NodeSelectorTerm) -> bool:
    """True if the node matches all lines of the term. An empty term matches no node, as in Kubernetes."""
    if not term.match_expressions and not term.match_fields:
        return False
    labels = node.metadata.labels
    for line in term.match_expressions:  # runs for each node and each of up to a hundred terms
        if not matches_requirement(labels, line):
            return False
    return all(matches_requirement({"metadata.name": node.name}, line) for line in term.match_fields)


def matches_selector(node: Node, selector: NodeSelector) -> bool:
    """True if the node matches one of the selector's terms."""
    return any(matches_term(node, term) for term in selector.node_selector_terms)


def matches_node_labels(node: Node, node_selector: Mapping[str, str]) -> bool:
    """True if every label of `spec.nodeSelector` is on the node with that value."""
    return all(node.labels.get(key) == value for key, value in node_selector.items())


def required_affinity(spec: PodSpec) -> NodeSelector | None:
    """Return the required node affinity of the pod; None if it has none."""
    if spec.affinity is None or spec.affinity.node_affinity is None:
        return None
    return spec.affinity.node_affinity.required


def matches_affinity(node: Node, spec: PodSpec) -> bool:
    """True if the pod's `nodeSelector` and its required node affinity both allow the node."""
    required = required_affinity(spec)
    return matches_node_labels(node, spec.node_selector) and (required is None or matches_selector(node, required))


def named_node(spec: PodSpec) -> str:
    """Return the one node that the pod's affinity names, as for a DaemonSet's pod; empty if there is none."""
    affinity = required_affinity(spec)
    terms = affinity.node_selector_terms if affinity is not None else ()
    fields = [field for term in terms for field in term.match_fields if field.key == "metadata.name"]
    named = {field.values if field.operator == "In" else frozenset[str]() for field in fields}
    names = list(named.pop()) if len(named) == 1 and len(fields) == len(terms) else []
    return names[0] if len(names) == 1 else ""


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """True if the toleration covers the taint. An empty effect covers each effect; an empty key with Exists covers each
    key.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def untolerated(
    taints: Iterable[Taint],
    tolerations: Iterable[Toleration],
    *,
    effects: Iterable[str] = (NO_SCHEDULE, NO_EXECUTE),
    ignored_keys: Iterable[str] = (),
) -> tuple[Taint, ...]:
    """Return the taints with one of these effects that no toleration covers.

    Left out are taints whose key is in `ignored_keys`, and sunkpy's lock of the node, which only keeps off pods of
    other schedulers.
    """
    effects, ignored, tolerations = set(effects), set(ignored_keys), tuple(tolerations)
    return tuple(
        taint
        for taint in taints
        if taint.effect in effects
        and taint.key not in ignored
        and (taint.value, taint.effect) != (names.LOCKED_FOR_JOBS, NO_SCHEDULE)
        and not any(tolerates(toleration, taint) for toleration in tolerations)
    )


def wanted(resources: Resources) -> dict[str, str]:
    """Return a container's requests, and its limit where it has no request. The apiserver does this copy for pods, but
    not for pod templates.
    """
    return {**resources.limits, **resources.requests}


def containers_of(spec: PodSpec) -> tuple[Container, ...]:
    """Return all containers of a pod, init containers first, as Kubernetes counts them."""
    return (*spec.init_containers, *spec.containers)


def pod_requests(spec: PodSpec) -> Amounts:
    """Return what the pod takes from a node, `pods: 1` included.

    Containers and sidecars (init containers that restart always) add up. An init container needs its own requests plus
    those of the sidecars started before it; of these sums, which are never needed together, the largest counts.
    Pod-level requests replace the sum for cpu, memory and hugepages; devices of claims are only in pod-level requests.
    Overhead comes on top.

    Raises:
        quantity.BadQuantity: a request is not a quantity.
    """
    total: Amounts = {}
    peak: Amounts = {}
    # Only resources that a container requests are read: a pod may have thousands of containers and of resources.
    for container in spec.init_containers:
        for name, amount in _requests(container.resources).items():
            together = total.get(name, 0) + amount
            peak[name] = max(peak.get(name, 0), together)
            if container.is_sidecar:
                total[name] = together
    for container in spec.containers:
        for name, amount in _requests(container.resources).items():
            total[name] = total.get(name, 0) + amount
    total = {name: max(total.get(name, 0), peak.get(name, 0)) for name in {**total, **peak}}
    pod_level = _requests(spec.resources)
    total |= {name: n for name, n in pod_level.items() if name.startswith(_POD_LEVEL_RESOURCES)}
    return added(added(total, _amounts(spec.overhead)), {"pods": 1})


def of_kubelet(needs: Mapping[str, int]) -> Amounts:
    """Return those needs of a pod that its kubelet counts: without devices of ResourceClaims, which no `allocatable`
    has.
    """
    return {name: amount for name, amount in needs.items() if not name.startswith(CLAIMED)}


def allocatable(node: Node) -> Amounts:
    """Return what the node offers to all pods together."""
    return _amounts(node.status.allocatable)


def free_allocatable(node: Node, pods_on_node: Iterable[Pod]) -> Amounts:
    """Return what the node has left for one more pod. Pods take their part until they have finished."""
    free = allocatable(node)
    for pod in pods_on_node:
        if not pod.is_finished:
            free = subtracted(free, pod_requests(pod.spec))
    return free


def shortfalls(needs: Mapping[str, int], free: Mapping[str, int]) -> tuple[Shortfall, ...]:
    """Return each resource of which `free` has less than `needs`, by name. A need of 0 is never lacking."""
    return tuple(
        Shortfall(resource=name, needs=amount, has=free.get(name, 0))
        for name, amount in sorted(needs.items())
        if amount > 0 and amount > free.get(name, 0)
    )


def added(left: Mapping[str, int], right: Mapping[str, int]) -> Amounts:
    """Return the sum of two amounts, resource by resource."""
    return {name: left.get(name, 0) + right.get(name, 0) for name in {**left, **right}}


def subtracted(left: Mapping[str, int], right: Mapping[str, int]) -> Amounts:
    """Return `left` minus `right`, resource by resource. An amount may be negative."""
    return {name: left.get(name, 0) - right.get(name, 0) for name in {**left, **right}}


def show(resource: str, amount: int) -> str:
    """Return an amount as people write it: `1500m`, `512Mi`, `2`."""
    if resource == "cpu":
        return str(amount // 1000) if amount % 1000 == 0 else f"{amount}m"
    if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-"):
        return _show_bytes(amount)
    return str(amount)


def _show_bytes(size_bytes: int) -> str:
    for suffix, scale in (("Gi", 2**30), ("Mi", 2**20)):
        if size_bytes and size_bytes % scale == 0:
            return f"{size_bytes // scale}{suffix}"
    return f"{size_bytes // 2**20}Mi" if abs(size_bytes) >= 2**20 else str(size_bytes)


def _compares(value: str | None, requirement: SelectorRequirement) -> bool:
    try:
        left, right = Decimal(value or ""), Decimal(next(iter(requirement.values), ""))
    except InvalidOperation:
        return False
    return left > right if requirement.operator == "Gt" else left < right


def _requests(resources: Resources) -> Amounts:
    return _amounts(wanted(resources))


def _amounts(quantities: Mapping[str, str]) -> Amounts:
    return {name: quantity.base_units(name, text) for name, text in quantities.items()}
