"""How autoscalers are asked for the nodes that a NodeSet lacks (`status.growth`): by objects that they read.

Autoscalers buy nodes for pods that fit nowhere. Jobs of Slurm are no pods, and slurmd pods are made for nodes that are
there. So an object stands for the nodes that are wanted, with the needs of the NodeSet's template:

* placeholders  pods that no scheduler binds, so they take nothing from a node. sunkpy gives them the condition that
                kube-scheduler would set, because autoscalers look for pods with exactly that condition.
* buffer        one CapacityBuffer with a number: the Cluster Autoscaler and Karpenter act as if that many pods waited.
* requests      a ProvisioningRequest for each job that lacks several nodes: all of them come, or none. Only the Cluster
                Autoscaler reads it.

Each of these pods stands for a whole node. So it has an anti-affinity to the others and to slurmd pods, which request
almost nothing. An object is removed as soon as the wanted node is there and has a slurmd pod, or no job wants it any
more. What is wanted is a number, so doing a step twice does no harm.
"""

from __future__ import annotations

import enum
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from sunkpy.core import names
from sunkpy.core.model.growth import GrowthRequest, GrowthStatus
from sunkpy.core.model.objects import Condition, KubeObject, Wire
from sunkpy.core.model.times import backoff_s, parse_rfc3339
from sunkpy.core.nodeset.potential import most_nodes
from sunkpy.core.nodeset.slurmd_pod import Json, fingerprint
from sunkpy.core.nodeset.spec import Ask, NodeSet

AUTOSCALING_GROUP: Final = "autoscaling.x-k8s.io"
ATOMIC: Final = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
"""The class of ProvisioningRequests that buys all nodes or gives back those that it got."""
NOBODY: Final = "sunkpy-placeholder"
"""The scheduler's name in placeholder pods. No scheduler has this name."""
UNSCHEDULABLE: Final = Condition(
    type="PodScheduled",
    status="False",
    reason="Unschedulable",
    message="stands for a node that jobs in Slurm's queue want; an autoscaler may add one",
)
_NAME_LIMIT: Final = 63
_RETRY_S: Final = 60.0
_RETRY_MOST_S: Final = 900.0
_ANSWERED_WITHIN_S: Final = 60.0
_MOST_OF_A_REQUEST: Final = 16_384


class Means(enum.Enum):
    """A kind of object by which autoscalers are asked for nodes: placeholder pod, PodTemplate, CapacityBuffer or
    ProvisioningRequest. The value is its name in URLs and its name in objects.
    """

    PLACEHOLDER = ("pods", "Pod")
    TEMPLATE = ("podtemplates", "PodTemplate")
    BUFFER = ("capacitybuffers", "CapacityBuffer")
    REQUEST = ("provisioningrequests", "ProvisioningRequest")

    @property
    def resource(self) -> str:
        """The name of the kind in URLs."""
        return self.value[0]

    @property
    def kind(self) -> str:
        """The name of the kind in objects."""
        return self.value[1]


class Reference(Wire, frozen=True, kw_only=True):
    """A reference to a PodTemplate by its name."""

    name: str = ""


class StandInSpec(Wire, frozen=True, kw_only=True):
    """The spec of a CapacityBuffer: how many nodes are wanted, and which PodTemplate they have to fit."""

    replicas: int = 0
    pod_template_ref: Reference = Reference()


class StandInStatus(Wire, frozen=True, kw_only=True):
    """The status of an object that asks autoscalers for nodes, as an autoscaler or sunkpy has written it."""

    conditions: tuple[Condition, ...] = ()


class StandIn(KubeObject, frozen=True, kw_only=True):
    """An object that asks autoscalers for nodes, of any of the kinds in `Means`."""

    spec: StandInSpec = StandInSpec()
    status: StandInStatus = StandInStatus()

    def condition(self, type_: str) -> Condition | None:
        """Return the object's condition of that type; None if it was never set."""
        return next((each for each in self.status.conditions if each.type == type_), None)

    @property
    def told_of(self) -> tuple[str, ...]:
        """The uids of the objects whose Events say whether a node comes. Karpenter writes no Events about a
        CapacityBuffer, but about virtual pods, one for each wanted node, whose uids end with their number
        (seen with Karpenter 1.14). Of these the last one is the first to get no node.
        """
        return (self.uid, f"{self.uid}-{self.spec.replicas}") if self.spec.replicas else (self.uid,)

    @property
    def job(self) -> str:
        """The job for which a ProvisioningRequest asks for nodes, as `GrowthRequest.number` names it; empty for other
        objects.
        """
        return self.annotations.get(names.ANNOTATION_WANTED_BY, "")

    @property
    def attempt(self) -> int:
        """The number of this ProvisioningRequest among the attempts for its job, from 0 on."""
        said = self.metadata.name.rpartition("-")[2]
        return int(said) if said.isascii() and said.isdecimal() and len(said) < 6 else 0


Present = Mapping[Means, Sequence[StandIn]]
"""The objects that stand for wanted nodes of a NodeSet now. A kind that the apiserver does not serve has no entry."""


class Create(msgspec.Struct, frozen=True):
    """Step: create this object, which asks autoscalers for nodes."""

    means: Means
    body: Json


class Remove(msgspec.Struct, frozen=True):
    """Step: delete exactly this object, which asks autoscalers for nodes."""

    means: Means
    found: StandIn


class ChangeBuffer(msgspec.Struct, frozen=True):
    """Step: set the number of nodes and the PodTemplate of a CapacityBuffer."""

    found: StandIn
    spec: Json


class SayUnschedulable(msgspec.Struct, frozen=True):
    """Step: set the condition that autoscalers look for, PodScheduled=False (Unschedulable), on a placeholder pod."""

    found: StandIn


AskStep = Create | Remove | ChangeBuffer | SayUnschedulable


class NodesToCome(msgspec.Struct, frozen=True, kw_only=True):
    """How many more nodes a NodeSet wants, and for which jobs, those of highest priority first."""

    nodes: int = 0
    requests: tuple[GrowthRequest, ...] = ()

    def without(self, nodes: int) -> NodesToCome:
        """Return the same wish for fewer nodes, because `nodes` of them are there already."""
        return msgspec.structs.replace(self, nodes=max(self.nodes - nodes, 0))


def wish_of(nodeset: NodeSet, *, there: int) -> NodesToCome:
    """Return how many nodes the NodeSet still wants by its status, less those that have come since the syncer counted.

    It is never more than `potential` and `replicas` allow, because the status may be older than the spec.

    Args:
        nodeset: the NodeSet. The syncer may have written its status without having seen the last slurmd pods.
        there: how many nodes it has: those with a slurmd pod that stays, and those that are about to get one.
    """
    growth = nodeset.status.growth
    if growth is None or nodeset.is_deleting:
        return NodesToCome()
    nodes = min(growth.wanted_nodes - max(there - growth.counted_nodes, 0), most_nodes(nodeset) - there)
    return NodesToCome(nodes=max(nodes, 0), requests=growth.requests)


def decide_steps(nodeset: NodeSet, wish: NodesToCome, present: Present, now: datetime) -> list[AskStep]:
    """Return the steps after which the objects that ask autoscalers for nodes match the wish. Removals come first."""
    if nodeset.spec.growth.ask is Ask.NONE:
        wish = NodesToCome()
    whole, left = _split(nodeset, wish, present)
    steps = [*_request_steps(nodeset, whole, present, now)]
    is_buffered = Means.BUFFER in present and nodeset.spec.growth.ask in (Ask.AUTO, Ask.CAPACITY_BUFFER)
    has_others = is_buffered or bool(explain_missing(nodeset, present))
    steps += _placeholder_steps(nodeset, 0 if has_others else left, present)
    steps += _buffer_steps(nodeset, left if is_buffered else 0, present)
    steps += _template_steps(nodeset, present, is_used=bool(whole) or (is_buffered and left > 0))
    return sorted(steps, key=_order)


def explain_missing(nodeset: NodeSet, present: Present) -> str:
    """Return why autoscalers cannot be asked for nodes: the cluster lacks the kind of object that `spec.growth.ask`
    names. Empty if the cluster has that kind, or if `spec.growth.ask` names none.
    """
    needed = {Ask.CAPACITY_BUFFER: Means.BUFFER, Ask.PROVISIONING_REQUEST: Means.REQUEST}.get(nodeset.spec.growth.ask)
    if needed is None or needed in present:
        return ""
    return (
        f"spec.growth.ask is {nodeset.spec.growth.ask}, and this cluster has no {needed.kind} "
        f"({AUTOSCALING_GROUP}): install its CRD and an autoscaler that reads it, or set growth.ask to another value"
    )


def _order(step: AskStep) -> int:
    """Return the sort key of a step. Removals come before creations; a PodTemplate is created before the objects that
    refer to it, and removed after them.
    """
    is_template = isinstance(step, Create | Remove) and step.means is Means.TEMPLATE
    if isinstance(step, Remove):
        return 1 if is_template else 0
    return 2 if is_template else 3


def _split(nodeset: NodeSet, wish: NodesToCome, present: Present) -> tuple[dict[str, int], int]:
    """Return job → how many nodes its ProvisioningRequest asks for, and how many nodes are asked for by other objects.

    A job that lacks several nodes gets a request. The request stays until the job lacks no node, although the job lacks
    fewer nodes as they come.
    """
    if Means.REQUEST not in present or nodeset.spec.growth.ask not in (Ask.AUTO, Ask.PROVISIONING_REQUEST):
        return {}, wish.nodes
    is_for_all = nodeset.spec.growth.ask is Ask.PROVISIONING_REQUEST
    asked = {found.job for found in present[Means.REQUEST]}
    by_job: Counter[str] = Counter()
    left = wish.nodes
    for each in wish.requests:
        by_job[each.number] += min(each.nodes, left)
        left -= min(each.nodes, left)
    whole = {
        job: min(nodes, _MOST_OF_A_REQUEST)
        for job, nodes in by_job.items()
        if nodes > 1 or (nodes and (is_for_all or job in asked))
    }
    return whole, 0 if is_for_all else wish.nodes - sum(whole.values())


def _placeholder_steps(nodeset: NodeSet, count: int, present: Present) -> Iterator[AskStep]:
    wanted = [child_name(nodeset, "wanted", str(number)) for number in range(1, count + 1)]
    good: set[str] = set()
    for found in present.get(Means.PLACEHOLDER, ()):
        is_current = found.metadata.labels.get(names.LABEL_TEMPLATE_HASH) == shape_hash(nodeset)
        if found.metadata.name not in wanted or not is_current:
            yield Remove(Means.PLACEHOLDER, found)
            continue
        good.add(found.metadata.name)
        if found.condition(UNSCHEDULABLE.type) is None:
            yield SayUnschedulable(found)
    yield from (Create(Means.PLACEHOLDER, placeholder(nodeset, name)) for name in wanted if name not in good)


def _buffer_steps(nodeset: NodeSet, count: int, present: Present) -> Iterator[AskStep]:
    found = next(iter(present.get(Means.BUFFER, ())), None)
    template = template_name(nodeset)
    spec: Json = {"podTemplateRef": {"name": template}, "replicas": count}
    if found is None and count > 0:
        yield Create(Means.BUFFER, {"metadata": _metadata(nodeset, child_name(nodeset, "wanted")), "spec": spec})
    elif found is not None and count == 0:
        yield Remove(Means.BUFFER, found)
    elif found is not None and (found.spec.replicas, found.spec.pod_template_ref.name) != (count, template):
        yield ChangeBuffer(found, spec)


def _request_steps(nodeset: NodeSet, whole: Mapping[str, int], present: Present, now: datetime) -> Iterator[AskStep]:
    """Yield the steps after which each of these jobs has one ProvisioningRequest. A request that failed, or lost its
    nodes, is made again after a pause.
    """
    by_job = {found.job: found for found in present.get(Means.REQUEST, ())}
    for job, found in by_job.items():
        if job not in whole:
            yield Remove(Means.REQUEST, found)
        elif (over_at := ended_at(found)) is not None and (now - over_at).total_seconds() >= pause_s(found):
            yield Remove(Means.REQUEST, found)
            yield Create(Means.REQUEST, _request(nodeset, job, whole[job], attempt=found.attempt + 1))
    for job, count in whole.items():
        if job not in by_job:
            yield Create(Means.REQUEST, _request(nodeset, job, count, attempt=0))


def ended_at(found: StandIn) -> datetime | None:
    """Return when a ProvisioningRequest failed, or when its nodes were given back; None if neither has happened."""
    over = [each for each in found.status.conditions if each.type in _ENDS and each.status == "True"]
    times = [parse_rfc3339(each.last_transition_time) for each in over if each.last_transition_time]
    return min(times, default=None)


def pause_s(found: StandIn) -> float:
    """Return how many seconds after its end a ProvisioningRequest is tried again; the pause doubles with each attempt,
    up to a limit.
    """
    return backoff_s(found.attempt, first_s=_RETRY_S, last_s=_RETRY_MOST_S)


_ENDS: Final = frozenset({"Failed", "BookingExpired", "CapacityRevoked"})


def _template_steps(nodeset: NodeSet, present: Present, *, is_used: bool) -> Iterator[AskStep]:
    """Yield steps for the PodTemplate to which a CapacityBuffer and ProvisioningRequests refer. A changed template gets
    a new PodTemplate. If none is used, all PodTemplates are removed.
    """
    wanted = template_name(nodeset) if is_used else ""
    found = {each.metadata.name: each for each in present.get(Means.TEMPLATE, ())}
    if wanted and wanted not in found:
        body: Json = {"metadata": _metadata(nodeset, wanted), "template": _template(nodeset)}
        yield Create(Means.TEMPLATE, body)
    if not is_used:
        yield from (Remove(Means.TEMPLATE, each) for each in found.values())


def _request(nodeset: NodeSet, job: str, count: int, *, attempt: int) -> Json:
    name = child_name(nodeset, "wanted", hashlib.sha256(job.encode()).hexdigest()[:8], str(attempt))
    metadata = {**_metadata(nodeset, name), "annotations": {names.ANNOTATION_WANTED_BY: job}}
    pods = [{"podTemplateRef": {"name": template_name(nodeset)}, "count": count}]
    return {"metadata": metadata, "spec": {"provisioningClassName": ATOMIC, "parameters": {}, "podSets": pods}}


def child_name(nodeset: NodeSet, *parts: str) -> str:
    """Return the name of an object for the NodeSet, `gpu-wanted-3`. A long NodeSet name is cut and gets a hash."""
    end = "-".join(parts)
    room = _NAME_LIMIT - len(end) - 1
    start = nodeset.name
    if len(start) > room:
        start = f"{start[: room - 9]}-{hashlib.sha256(start.encode()).hexdigest()[:8]}"
    return f"{start}-{end}"


def template_name(nodeset: NodeSet) -> str:
    """Return the name of the PodTemplate for the NodeSet's present template."""
    return child_name(nodeset, "wanted", shape_hash(nodeset))


def placeholder(nodeset: NodeSet, name: str) -> Json:
    """Return a placeholder: a pod that stands for one wanted node, and that no scheduler binds."""
    template = _template(nodeset)
    labels = {**_labels(nodeset), names.LABEL_TEMPLATE_HASH: shape_hash(nodeset)}
    return {"metadata": {**_metadata(nodeset, name), "labels": labels}, "spec": template["spec"]}


def shape_hash(nodeset: NodeSet) -> str:
    """Return the fingerprint of what an autoscaler sees of the NodeSet's template (needs, selectors, tolerations)."""
    return fingerprint(_spec(nodeset))


def _template(nodeset: NodeSet) -> Json:
    return {"metadata": {"labels": _labels(nodeset)}, "spec": _spec(nodeset)}


def _labels(nodeset: NodeSet) -> dict[str, str]:
    return {names.LABEL_WANTED: nodeset.name}


def _metadata(nodeset: NodeSet, name: str) -> Json:
    """Return the metadata of an object that asks autoscalers for nodes. The NodeSet owns the object but is not its
    controller, because a NodeSet controls only slurmd pods.
    """
    return {
        "name": name,
        "namespace": nodeset.metadata.namespace,
        "labels": _labels(nodeset),
        "ownerReferences": [nodeset.reference],
    }


def _spec(nodeset: NodeSet) -> Json:
    """Return a pod spec with the part of the NodeSet's template that decides whether a node fits: needs, selectors,
    tolerations. A pod with this spec never runs.
    """
    template = nodeset.spec.template.get("spec")
    spec = template if isinstance(template, dict) else {}
    kept = {key: spec[key] for key in ("nodeSelector", "tolerations", "runtimeClassName") if key in spec}
    affinity = spec.get("affinity")
    return {
        **kept,
        "affinity": {**(affinity if isinstance(affinity, dict) else {}), "podAntiAffinity": _apart(nodeset)},
        "schedulerName": NOBODY,
        "containers": [_container(nodeset, each) for each in _items(spec, "containers")],
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
    }


def _container(nodeset: NodeSet, container: Json) -> Json:
    resources = container.get("resources")
    kept = resources if isinstance(resources, dict) else {}
    if container.get("name") == names.SLURMD_CONTAINER and (gpu := _gpu_resource(nodeset)):
        # slurmd takes no GPU, and its node has to have one.
        kept = {key: {gpu: "1", **(kept.get(key) or {})} for key in ("requests", "limits")}
    image = container.get("image", "")
    return {"name": container.get("name", ""), "image": image, "resources": kept}


def _gpu_resource(nodeset: NodeSet) -> str:
    gpu = nodeset.spec.gpu
    return gpu.resource if gpu is not None and not gpu.driver and not gpu.types else ""


def _apart(nodeset: NodeSet) -> Json:
    """Return the anti-affinity that gives a placeholder a node of its own: no slurmd pod, and no other placeholder."""
    others = [
        {"key": names.LABEL_ROLE, "operator": "In", "values": [names.ROLE_COMPUTE]},
        {"key": names.LABEL_WANTED, "operator": "Exists"},
    ]
    terms = [
        {
            "labelSelector": {"matchExpressions": [each]},
            "namespaceSelector": {},
            "topologyKey": "kubernetes.io/hostname",
        }
        for each in others
    ]
    return {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def _items(spec: Mapping[str, object], key: str) -> list[Json]:
    value = spec.get(key)
    return value if isinstance(value, list) else []


class Told(KubeObject, frozen=True, kw_only=True):
    """An Event (v1) about an object that asks autoscalers for nodes: whether an autoscaler adds a node, and if not,
    why.
    """

    reason: str = ""
    message: str = ""
    last_timestamp: str | None = None
    event_time: str | None = None

    @property
    def at(self) -> str:
        """The time of the Event as text, cut to seconds so that two times can be compared; empty if it has none."""
        return (self.last_timestamp or self.event_time or "")[:19]


_REFUSES: Final = frozenset({"NotTriggerScaleUp", "FailedScheduling"})
"""Reasons of Events by which the Cluster Autoscaler and Karpenter say that no node comes for a pod. kube-scheduler
never sees a placeholder.
"""


_REFUSED: Final = (("Failed", "True"), ("Provisioned", "False"), ("ReadyForProvisioning", "False"))
"""Conditions of objects that ask for nodes, and their status when no node comes. The Cluster Autoscaler tries again
after `Provisioned` is False, and not after `Failed` (provisioningrequest/besteffortatomic, checkcapacity).
"""


def explain_refusal(found: StandIn, told: Iterable[Told], now: datetime) -> str:
    """Return why no node comes for this object, in the words of an autoscaler, or that no autoscaler has reacted. Empty
    if an autoscaler is at work, or if it is too early to say.
    """
    for type_, is_refused in _REFUSED:
        condition = found.condition(type_)
        if condition is not None and condition.status == is_refused:
            return f"{condition.reason}: {condition.message}"
    last = max(told, key=lambda each: each.at, default=None)
    if last is not None:
        return f"{last.reason}: {last.message}" if last.reason in _REFUSES else ""
    created = found.metadata.creation_timestamp
    age_s = (now - parse_rfc3339(created)).total_seconds() if created else 0.0
    is_answered = any(each.type != UNSCHEDULABLE.type for each in found.status.conditions)
    if is_answered or age_s < _ANSWERED_WITHIN_S:
        return ""
    return f"no autoscaler has reacted for {age_s:.0f} s: check that an autoscaler runs that reads objects of this kind"


def describe_jobs(growth: GrowthStatus) -> str:
    """Return the jobs that lack nodes, with the number of nodes, highest priority first: `job 12 (4), job 7 (1)`."""
    told = [f"job {each.job} ({each.nodes})" for each in growth.requests[:5]]
    more = len(growth.requests) - len(told)
    return ", ".join(told + ([f"{more} more"] if more else []))
