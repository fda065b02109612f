"""The slurmd pod of one node: the NodeSet's template, pinned to the node, with what slurmd offers to Slurm."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator

import msgspec

from sunkpy.core import names
from sunkpy.core.health import drain_text
from sunkpy.core.model import quantity
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.nodeset.feasibility import OUR_TOLERATIONS, STAYS
from sunkpy.core.nodeset.node_mark import foreign_cordon, start_drained
from sunkpy.core.nodeset.spec import GpusOffered, NodeSet, Reserved

Json = dict[str, object]

_UID_VARIABLE = "SUNKPY_POD_UID"

_DEVICES = "devices="
_HEAVIEST = 0xFFFFFFF0
"""The largest weight that Slurm takes."""

OFFER_LASTS_S = 60.0
"""If a node offers something other than its pod was made for, the pod is outdated after this many seconds."""
GPUS_AWAY_S = 600.0
"""If a device plugin offers no GPUs at all, the pod is outdated only after this many seconds. The plugin may just be
away, and Slurm does not need it. The kubelet itself keeps its resource for five minutes.
"""


def template_hash(nodeset: NodeSet) -> str:
    """Return a fingerprint of all fields of the NodeSet's spec that shape a pod, without what a node offers."""
    spec = nodeset.spec
    shaping = {
        "template": spec.template,
        "cluster": spec.cluster,
        "prefix": nodeset.prefix,
        "naming": spec.naming,
        "features": list(spec.features),
        "gpu": msgspec.to_builtins(spec.gpu),
        "reserved": msgspec.to_builtins(spec.reserved),
        # Fields with their default are left out. Otherwise an upgrade would replace pods of older NodeSets for nothing.
        **({"smt": spec.smt} if spec.smt else {}),
        **({"labels": [*spec.feature_labels, spec.weight_label]} if spec.feature_labels or spec.weight_label else {}),
        **({"weight": spec.weight} if spec.weight != 1 else {}),
        **({"gres": msgspec.to_builtins(spec.gres)} if spec.gres else {}),
    }
    return fingerprint(shaping)


def fingerprint(shaping: object) -> str:
    """Return the hash of a JSON value. The order of keys does not matter."""
    text = json.dumps(shaping, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def build_pod(nodeset: NodeSet, node: Node, name: str) -> Json:
    """Return the slurmd pod as JSON for the apiserver. `name` is the name of the pod, the host and the Slurm node."""
    template = copy.deepcopy(nodeset.spec.template)
    metadata, spec = _child(template, "metadata"), _child(template, "spec")
    notes = {
        **_child(metadata, "annotations"),
        names.ANNOTATION_OFFERED: offer(nodeset, node),
        names.ANNOTATION_FEATURES: features(nodeset, node),
        **({names.ANNOTATION_SMT: smt} if (smt := nodeset.spec.smt) else {}),
        **_drains_at_start(node),
    }
    spec["hostname"] = name
    spec["affinity"] = _pinned(spec.get("affinity"), node.name)
    spec["tolerations"] = [*_items(spec, "tolerations"), *_missing_tolerations(spec)]
    spec["readinessGates"] = [*_items(spec, "readinessGates"), {"conditionType": names.READINESS_GATE}]
    for container in _items(spec, "containers"):
        if container.get("name") == names.SLURMD_CONTAINER:
            container["env"] = _merged_env(container, slurmd_env(nodeset, node, name))
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(nodeset, {**metadata, "annotations": notes}, name),
        "spec": spec,
    }


def _drains_at_start(node: Node) -> Json:
    """Return annotations for a new slurmd pod that say why its Node is cordoned or sick. Without them, the syncer would
    lift the drain with which the pod's slurmd starts.
    """
    told = {names.ANNOTATION_CORDON: foreign_cordon(node), names.ANNOTATION_HEALTH_DRAIN: drain_text(node)}
    return {key: why for key, why in told.items() if why is not None}


def _metadata(nodeset: NodeSet, template: Json, name: str) -> Json:
    """Return the pod's metadata: the template's labels and annotations. A label of sunkpy replaces one of the same
    name.
    """
    return {
        "name": name,
        "namespace": nodeset.metadata.namespace,
        "labels": {**_child(template, "labels"), **pod_labels(nodeset, name)},
        "annotations": _child(template, "annotations"),
        "ownerReferences": [nodeset.controller_reference],
    }


def pod_labels(nodeset: NodeSet, name: str) -> dict[str, str]:
    """Return the labels of a new slurmd pod: NodeSet, Slurm cluster, role and Slurm node, by which the pod is found,
    and the hash of its template.
    """
    return {
        names.LABEL_NODESET: nodeset.name,
        names.LABEL_CLUSTER: nodeset.spec.cluster,
        names.LABEL_ROLE: names.ROLE_COMPUTE,
        names.LABEL_SLURM_NODE: name,
        names.LABEL_TEMPLATE_HASH: template_hash(nodeset),
    }


def slurmd_env(nodeset: NodeSet, node: Node, name: str) -> list[Json]:
    """Return the environment of the slurmd container, which its entry point turns into `slurmd -Z --conf`."""
    comment = {
        "node": node.name,
        "namespace": nodeset.metadata.namespace,
        "pod": name,
        "uid": f"$({_UID_VARIABLE})",  # known only to the kubelet, which expands it
        "nodeset": nodeset.name,
    }
    values = {
        "SUNKPY_SLURM_NODE": name,
        "SUNKPY_K8S_NODE": node.name,
        "SUNKPY_CPUS": str(cpus_offered(node, nodeset.spec.reserved)),
        "SUNKPY_SMT": nodeset.spec.smt,
        "SUNKPY_MEMORY_MIB": str(memory_offered_mib(node, nodeset.spec.reserved)),
        "SUNKPY_GRES": gres_offered(nodeset, node),
        "SUNKPY_COUNTED_GRES": counted_gres(nodeset, node),
        "SUNKPY_DEVICES": ";".join(each.words for each in _gpus(nodeset, node)),
        "SUNKPY_FEATURES": features(nodeset, node),
        "SUNKPY_WEIGHT": str(weight(nodeset, node)),
        "SUNKPY_START_DRAINED": start_drained(node) or "",
        "SUNKPY_COMMENT": json.dumps(comment, separators=(",", ":")),
    }
    uid: Json = {"name": _UID_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}
    variables: list[Json] = [{"name": key, "value": value} for key, value in values.items()]
    return [uid, *variables]


def cpus_offered(node: Node, reserved: Reserved) -> int:
    """Return how many hardware threads the node offers to Slurm: the allocatable ones that are not reserved, and at
    least one, because Slurm knows no node without.

    The slurmd finds on its machine how many cores these are (slurm-images/bin/count-cores).
    """
    free = quantity.millicores(node.status.allocatable.get("cpu", "0")) - quantity.millicores(str(reserved.cpu))
    return max(free // 1000, 1)


def memory_offered_mib(node: Node, reserved: Reserved) -> int:
    """Return how much memory the node offers to Slurm, in MiB: the allocatable less the reserved; at least one."""
    free = quantity.whole(node.status.allocatable.get("memory", "0")) - quantity.whole(str(reserved.memory))
    return max(quantity.mib_down(free), 1)


def offer(nodeset: NodeSet, node: Node) -> str:
    """Return all that a node offers to Slurm through its pod, as one text: `cpus=8 memory=32256 gres=gpu:h100:2
    devices=a;b`.

    Devices without names are left out. If the NodeSet asks for them, more words follow: `counted=nic:8
    features=gpu,k8s/rack=a weight=3`.
    """
    cpus, memory = cpus_offered(node, nodeset.spec.reserved), memory_offered_mib(node, nodeset.spec.reserved)
    words = ";".join(word for each in _gpus(nodeset, node) for word in sorted(each.words.split()))
    found = [f"cpus={cpus}", f"memory={memory}", f"gres={gres_offered(nodeset, node)}"]
    found += [f"{_DEVICES}{words}"] if words else []
    found += [f"counted={counted_gres(nodeset, node)}"] if nodeset.spec.gres else []
    found += [f"features={features(nodeset, node)}"] if nodeset.spec.feature_labels else []
    found += [f"weight={weight(nodeset, node)}"] if nodeset.spec.weight_label else []
    return " ".join(found)


def is_offer_of(pod: Pod, offers_now: str) -> bool:
    """True if the pod was made when its node offered to Slurm the same as in `offers_now` (a text from `offer`). Only
    words that both have are compared. False for a pod of an older operator, without the annotation.
    """
    made_for, now = _offer_of(pod), _by_key(offers_now)
    # An older operator wrote no devices, and a driver may learn their names later.
    both = made_for.keys() & now.keys()
    return bool(both) and all(made_for[key] == now[key] for key in both)


def _offer_of(pod: Pod) -> dict[str, str]:
    return _by_key(pod.annotations.get(names.ANNOTATION_OFFERED, ""))


def _by_key(offer: str) -> dict[str, str]:
    """Return the words of an offer (a text from `offer`) by their keys: `cpus` → `cpus=8`."""
    return {word.partition("=")[0]: word for word in offer.split()}


def features(nodeset: NodeSet, node: Node) -> str:
    """Return the features of the Slurm node: `gpu,ib,k8s/topology.kubernetes.io/zone=eu-1a`."""
    labels = node.metadata.labels
    of_labels = (names.feature_of_label(key, labels[key]) for key in nodeset.spec.feature_labels if key in labels)
    return ",".join(dict.fromkeys((nodeset.name, *nodeset.spec.features, *of_labels)))


def weight(nodeset: NodeSet, node: Node) -> int:
    """Return the Slurm node's weight: the value of the Node label that `spec.weightLabel` names, or `spec.weight` if
    that is not a weight.
    """
    said = node.metadata.labels.get(nodeset.spec.weight_label, "") if nodeset.spec.weight_label else ""
    is_weight = said.isascii() and said.isdecimal() and 0 < int(said) <= _HEAVIEST
    return int(said) if is_weight else nodeset.spec.weight


def changed_offer(nodeset: NodeSet, node: Node | None, pod: Pod) -> str:
    """Return what the pod's node offers to Slurm now, if the pod was made for something else; empty if it was not.

    It is also empty if that is not sure: the node is not ready, its GPUs are not known yet, or an older operator made
    the pod, without the annotation.
    """
    is_said, gpu = names.ANNOTATION_OFFERED in pod.annotations, nodeset.spec.gpu
    if node is None or not is_said or not node.is_ready or (gpu is not None and gpu.offered_on(node) is None):
        return ""
    now = offer(nodeset, node)
    return now if not is_offer_of(pod, now) else ""


def lacks_gpus(nodeset: NodeSet, offers_now: str) -> bool:
    """True if the NodeSet's GPUs come from a device plugin, and the node offers none now.

    It is False for a DRA driver: if the driver is away, the node's offer is not known; if it lists no device, none is
    healthy.
    """
    gpu = nodeset.spec.gpu
    return gpu is not None and not gpu.driver and "gres=" in offers_now.split()


def offer_lasts_s(nodeset: NodeSet, offers_now: str) -> float:
    """Return for how many seconds a node must offer something else to Slurm before its pod is outdated; more if a
    device plugin's GPUs are gone.
    """
    return GPUS_AWAY_S if lacks_gpus(nodeset, offers_now) else OFFER_LASTS_S


def explain_offer(pod: Pod, offers_now: str) -> str:
    """Return in words how the node's offer to Slurm differs from the one at the pod's creation; empty if it does not,
    or if that is not known.
    """
    made_for, now = _offer_of(pod), _by_key(offers_now)
    both = [key for key in now if key in made_for and now[key] != made_for[key]]
    changes = (_but_for_the_same(now[key], made_for[key]) for key in both)
    return ", ".join(f"its node offers {now} in place of {before or 'none'}" for now, before in changes)


def _but_for_the_same(now: str, before: str) -> tuple[str, str]:
    """Return one word of the new offer (`gres=gpu:4`) and its old value. For a list of devices, the word has only those
    that came, and the old value only those that went.
    """
    (what, _, new), (_, _, old) = now.partition("="), before.partition("=")
    if now.startswith(_DEVICES):
        came, went = set(new.split(";")), set(old.split(";"))
        new, old = ";".join(sorted(came - went)), ";".join(sorted(went - came))
    return f"{what}={new}", old


def gres_offered(nodeset: NodeSet, node: Node) -> str:
    """Return the GPUs that the node offers, as GRES: `gpu:a100:4,gpu:l40s:2`; empty if it offers none."""
    return ",".join(f"{each.gres}:{each.count}" for each in _gpus(nodeset, node))


def counted_gres(nodeset: NodeSet, node: Node) -> str:
    """Return the other GRES that the node offers, which Slurm only counts: `fpga:1,nic:8`; empty if there are none."""
    counts = {each.name: each.count_on(node) for each in nodeset.spec.gres}
    return ",".join(f"{name}:{count}" for name, count in sorted(counts.items()) if count > 0)


def _gpus(nodeset: NodeSet, node: Node) -> tuple[GpusOffered, ...]:
    return (nodeset.spec.gpu.offered_on(node) if nodeset.spec.gpu is not None else None) or ()


def explain_limits(asked: Json, admitted: Json) -> str:
    """Return the cpu and memory limits that admission has added to the slurmd container; empty if there are none.

    With such limits Slurm would give jobs more than the container may use, and the kernel would kill slurmd with all
    jobs of the node.
    """
    ours, theirs = _slurmd_limits(asked), _slurmd_limits(admitted)
    imposed = ", ".join(f"{key} {theirs[key]}" for key in ("cpu", "memory") if key in theirs and key not in ours)
    why = "a LimitRange of the namespace? Slurm hands out more: remove it, or set limits in the template"
    return f"admission would limit container {names.SLURMD_CONTAINER} to {imposed} ({why})" if imposed else ""


def _slurmd_limits(pod: Json) -> Json:
    containers = _items(_child(pod, "spec"), "containers")
    ours = (each for each in containers if each.get("name") == names.SLURMD_CONTAINER)
    return _child(_child(next(ours, {}), "resources"), "limits")


def node_of(pod: Pod) -> str:
    """Return the node that a slurmd pod is on, or is pinned to before it is bound; empty if it is not pinned."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    terms = affinity.required.node_selector_terms if affinity and affinity.required else ()
    for line in (line for term in terms for line in term.match_fields):
        if line.key == "metadata.name" and line.operator == "In" and line.values:
            return next(iter(line.values))
    return ""


def _pinned(affinity: object, node_name: str) -> Json:
    """Return the pod's affinity with this node as the only one that the required node affinity allows, as a DaemonSet
    does; the other parts are kept.
    """
    kept = dict(affinity) if isinstance(affinity, dict) else {}
    node_affinity = dict(kept.get("nodeAffinity") or {})
    field = {"key": "metadata.name", "operator": "In", "values": [node_name]}
    node_affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {**kept, "nodeAffinity": node_affinity}


def _missing_tolerations(spec: Json) -> Iterator[Json]:
    written = _items(spec, "tolerations")
    for toleration in (*OUR_TOLERATIONS, STAYS):
        body: Json = msgspec.to_builtins(toleration)
        if body not in written:
            yield body


def _merged_env(container: Json, ours: list[Json]) -> list[Json]:
    """Return the container's environment with sunkpy's variables (`ours`) first, so that the container's own may refer
    to them. A variable of sunkpy replaces one of the same name.
    """
    reserved = {variable["name"] for variable in ours}
    return [*ours, *(variable for variable in _items(container, "env") if variable.get("name") not in reserved)]


def _child(parent: Json, key: str) -> Json:
    value = parent.get(key)
    return value if isinstance(value, dict) else {}


def _items(parent: Json, key: str) -> list[Json]:
    value = parent.get(key)
    return value if isinstance(value, list) else []
