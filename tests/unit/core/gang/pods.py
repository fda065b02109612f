"""Builders of the values that tests of gangs and placement start from."""

from sunkpy.core.gang.families import assemble, identify
from sunkpy.core.gang.gang import Gang
from sunkpy.core.model.objects import (
    Container,
    ContainerState,
    ContainerStatus,
    Meta,
    Node,
    NodeSpec,
    NodeStatus,
    Pod,
    PodSpec,
    PodStatus,
    Resources,
    Running,
)


def make_pod(
    name="web-1",
    *,
    uid="uid-1",
    requests=None,
    annotations=None,
    node="",
    phase="Pending",
    running=False,
    deleting=False,
    grace=None,
    finalizers=(),
    **spec,
) -> Pod:
    containers = spec.pop("containers", None) or (Container(name="c", resources=Resources(requests=requests or {})),)
    statuses = (ContainerStatus(name="c", state=ContainerState(running=Running())),) if running else ()
    return Pod(
        metadata=Meta(
            name=name,
            namespace="default",
            uid=uid,
            annotations=dict(annotations or {}),
            deletion_grace_period_seconds=grace,
            finalizers=finalizers,
            deletion_timestamp="2026-11-21T00:00:00Z" if deleting else None,
        ),
        spec=PodSpec(containers=containers, node_name=node, scheduler_name="slurm", **spec),
        status=PodStatus(phase=phase, container_statuses=statuses),
    )


def make_gang(**pod) -> Gang:
    return gang_of(make_pod(**pod))


def gang_of(pod) -> Gang:
    return assemble(identify(pod), [pod])


def make_node(name="node1", *, labels=None, taints=(), unschedulable=False, **allocatable) -> Node:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"} | {k.replace("__", "."): v for k, v in allocatable.items()}
    return Node(
        metadata=Meta(name=name, labels=labels or {}),
        spec=NodeSpec(taints=tuple(taints), unschedulable=unschedulable),
        status=NodeStatus(allocatable=amounts),
    )


def make_room(cpu, memory, **gres):
    """What a node has: millicores, bytes, and each GRES."""
    return frozenset({"cpu": cpu, "memory": memory, **gres}.items())
