"""Builders of the values that NodeSet tests start from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from sunkpy.core import names
from sunkpy.core.model.objects import (
    Affinity,
    Condition,
    Meta,
    Node,
    NodeAddress,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    NodeSpec,
    NodeStatus,
    OwnerReference,
    Pod,
    PodSpec,
    PodStatus,
    SelectorRequirement,
    Taint,
)
from sunkpy.core.nodeset.slurmd_pod import node_of, pod_labels
from sunkpy.core.nodeset.spec import (
    CountedGres,
    Gpu,
    NodeSet,
    NodeSetSpec,
    NodeSetStatus,
    RollingUpdate,
    Template,
    UpdateStrategy,
)
from sunkpy.core.nodeset.survey import make_survey
from sunkpy.core.nodeset.verdict import NodeView
from sunkpy.core.nodeset.wanted import Wanted
from sunkpy.core.nodeset.windows import Window
from sunkpy.core.nodeset.world import World

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
EARLIER = "2026-11-20T11:00:00Z"


def make_template(*, image: str = "slurmd:1", requests: dict[str, object] | None = None, **spec: object) -> Template:
    container = {"name": "slurmd", "image": image, "resources": {"requests": requests or {}}}
    return {"spec": {"containers": [container], **spec}}


def make_nodeset(
    *,
    replicas: int | None = None,
    template: Template | None = None,
    max_unavailable: int | str = 1,
    windows: tuple[Window, ...] = (),
    strategy: str = "RollingUpdate",
    paused: bool = False,
    naming: str = "InternalIP",
    prefix: str = "",
    gpu: Gpu | None = None,
    gres: tuple[CountedGres, ...] = (),
    features: tuple[str, ...] = (),
    smt: str = "",
    feature_labels: tuple[str, ...] = (),
    weight: int = 1,
    weight_label: str = "",
    deleting: bool = False,
    drain_timeout_s: int | None = None,
    drain_timeout_policy: str = "Wait",
    annotations: dict[str, str] | None = None,
    finalizers: tuple[str, ...] = (names.FINALIZER_NODESET,),
    status: NodeSetStatus | None = None,
    name: str = "gpu",
) -> NodeSet:
    return NodeSet(
        metadata=Meta(
            name=name,
            namespace="slurm",
            uid=f"uid-{name}",
            generation=3,
            finalizers=finalizers,
            annotations=annotations or {},
            deletion_timestamp=EARLIER if deleting else None,
        ),
        spec=NodeSetSpec(
            cluster="c1",
            replicas=replicas,
            pod_name_prefix=prefix,
            naming=naming,
            features=features,
            smt=smt,
            feature_labels=feature_labels,
            weight=weight,
            weight_label=weight_label,
            gpu=gpu,
            gres=gres,
            update_strategy=UpdateStrategy(
                type=strategy, rolling_update=RollingUpdate(max_unavailable=max_unavailable, windows=windows)
            ),
            paused=paused,
            drain_timeout_seconds=drain_timeout_s,
            drain_timeout_policy=drain_timeout_policy,
            template=template or make_template(),
        ),
        status=status or NodeSetStatus(),
    )


def make_node(
    number: int,
    *,
    ip: str | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    taints: tuple[Taint, ...] = (),
    allocatable: dict[str, str] | None = None,
    unschedulable: bool = False,
    ready: bool = True,
    says: str = "",
    created: str = EARLIER,
    deleting: bool = False,
    conditions: tuple[Condition, ...] = (),
) -> Node:
    return Node(
        metadata=Meta(
            name=f"n{number}",
            uid=f"node-uid-{number}",
            labels=labels or {},
            annotations=annotations or {},
            creation_timestamp=created,
            deletion_timestamp=EARLIER if deleting else None,
        ),
        spec=NodeSpec(taints=taints, unschedulable=unschedulable),
        status=NodeStatus(
            allocatable={"cpu": "8", "memory": "32Gi", "pods": "110", **(allocatable or {})},
            addresses=(NodeAddress(type="InternalIP", address=ip or f"10.0.12.{number}"),),
            conditions=(Condition(type="Ready", status="True" if ready else "False", message=says), *conditions),
        ),
    )


def make_pod(
    nodeset: NodeSet,
    number: int,
    *,
    name: str | None = None,
    node: str | None = None,
    bound: bool = True,
    ready: bool = True,
    running: str | None = "False",
    drain: str | None = "False",
    cordon: Condition | None = None,
    token: str | None = None,
    drained: str | None = None,
    drained_at: str = "2026-11-20T11:59:59Z",
    created: str = EARLIER,
    deleting: bool = False,
    phase: str = "Running",
    reason: str = "",
    annotations: dict[str, str] | None = None,
    template_hash: str | None = None,
) -> Pod:
    name = name or f"gpu-012-{number:03d}"
    node = node or f"n{number}"
    labels = pod_labels(nodeset, name)
    if template_hash is not None:
        labels[names.LABEL_TEMPLATE_HASH] = template_hash
    marks = {
        names.ANNOTATION_PENDING_DELETION: token,
        names.ANNOTATION_DRAINED: drained,
        names.ANNOTATION_DRAINED_AT: drained_at if drained is not None else None,
    }
    conditions = {
        "Ready": "True" if ready else "False",
        names.CONDITION_RUNNING: running,
        names.CONDITION_DRAIN: drain,
    }
    field = SelectorRequirement(key="metadata.name", operator="In", values=(node,))
    return Pod(
        metadata=Meta(
            name=name,
            namespace="slurm",
            uid=f"uid-{name}-{created}",
            labels=labels,
            owner_references=(msgspec.convert({**nodeset.reference, "controller": True}, OwnerReference),),
            annotations={**(annotations or {}), **{key: value for key, value in marks.items() if value is not None}},
            creation_timestamp=created,
            deletion_timestamp=EARLIER if deleting else None,
        ),
        spec=PodSpec(
            node_name=node if bound else "",
            affinity=Affinity(
                node_affinity=NodeAffinity(
                    required=NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(field,)),))
                )
            ),
        ),
        status=PodStatus(
            phase=phase,
            reason=reason,
            conditions=(
                *(Condition(type=key, status=value) for key, value in conditions.items() if value is not None),
                *([cordon] if cordon else []),
            ),
        ),
    )


def make_views(nodes: Iterable[Node], pods: Iterable[Pod], occupants: Mapping[str, Sequence[Pod]]) -> list[NodeView]:
    """Every node that is there, and every one that a pod is on."""
    there = {node.name: node for node in nodes}
    on_node: dict[str, list[Pod]] = {}
    for pod in pods:
        on_node.setdefault(node_of(pod), []).append(pod)
    return [
        NodeView(
            name=name,
            node=there.get(name),
            slurmd_pods=on_node.get(name, []),
            occupants=occupants.get(name, ()),
        )
        for name in {**there, **on_node}
    ]


def make_world(
    nodeset: NodeSet,
    nodes: Sequence[Node],
    pods: Sequence[Pod] = (),
    *,
    occupants: dict[str, Sequence[Pod]] | None = None,
    failures: dict[str, int] | None = None,
    create_error: str = "",
    now: datetime = NOW,
) -> World:
    return World(
        nodeset=nodeset,
        survey=make_survey(Wanted.read(nodeset), make_views(nodes, pods, occupants or {})),
        failures=failures or {},
        create_error=create_error,
        now=now,
    )


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """A NodeSet with the nodes and slurmd pods around it, to be changed step by step."""

    nodeset: NodeSet
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    now: datetime = NOW

    @property
    def world(self) -> World:
        """The world, with a new verdict on each node."""
        return make_world(self.nodeset, self.nodes, self.pods, now=self.now)
