"""Views of one name, short to write."""

from datetime import datetime

from sunkpy.core import names
from sunkpy.core.mirror import MirrorMemory, SlurmAnswer, View
from sunkpy.core.model.objects import Condition, Meta, Pod, PodSpec, PodStatus
from sunkpy.core.model.states import NodeComment, SlurmNode
from sunkpy.core.model.times import LATEST

NAME = "gpu-000-001"
NAMESPACE = "slurm"
TOKEN = "2026-11-21T00:00:00Z/scale-down"
NOW_S = 1000.0
IP, OLD_IP = "10.65.1.9", "10.65.1.4"
STARTED, STARTED_S = "2026-11-21T00:00:00Z", 1795219200


def make_pod(
    *,
    name: str = NAME,
    ready: bool = True,
    cordon: str | None = None,
    pending: str | None = None,
    deleting: bool = False,
    phase: str = "Running",
    registered: bool = False,
    uid: str = "uid-1",
    annotations: dict[str, str] | None = None,
    started: str | None = None,
) -> Pod:
    notes = dict(annotations or {})
    if cordon is not None:
        notes[names.ANNOTATION_CORDON] = cordon
    if pending is not None:
        notes[names.ANNOTATION_PENDING_DELETION] = pending
    conditions = [Condition(type="ContainersReady", status="True" if ready else "False")]
    if registered:
        conditions.append(Condition(type=names.READINESS_GATE, status="True", reason="Registered"))
    return Pod(
        metadata=Meta(
            name=name,
            namespace=NAMESPACE,
            uid=uid,
            resource_version="1",
            labels={names.LABEL_NODESET: "gpu", names.LABEL_SLURM_NODE: name},
            annotations=notes,
            deletion_timestamp="2026-11-21T00:00:00Z" if deleting else None,
        ),
        spec=PodSpec(node_name="node-1"),
        status=PodStatus(phase=phase, pod_ip=IP, start_time=started, conditions=tuple(conditions)),
    )


def make_comment(*, name: str = NAME, uid: str = "uid-1", namespace: str = NAMESPACE) -> str:
    return NodeComment(node="node-1", namespace=namespace, pod=name, uid=uid, nodeset="gpu").encode()


def make_node(
    state: str = "IDLE",
    *,
    reason: str = "",
    comment: str | None = None,
    alloc_cpus: int = 0,
    address: str = IP,
    slurmd_since_s: int = 0,
    topology: str = "",
) -> SlurmNode:
    return SlurmNode(
        name=NAME,
        state=frozenset(state.split("+")) | {"DYNAMIC_NORM"},
        reason=reason,
        comment=make_comment() if comment is None else comment,
        alloc_cpus=alloc_cpus,
        address=address,
        slurmd_since_s=slurmd_since_s,
        topology=topology,
    )


def make_view(
    pod: Pod | None,
    node: SlurmNode | None,
    *,
    number: int = 1,
    age_s: float = 0.0,
    trusted: bool = True,
    pods_known: bool = True,
    memory: MirrorMemory | None = None,
    now_s: float = NOW_S,
    topology: str | None = None,
    place: str | None = "",
    today: datetime = LATEST,
) -> View:
    return View(
        name=NAME,
        namespace=NAMESPACE,
        pod=pod,
        answer=SlurmAnswer(node=node, number=number, at_s=now_s - age_s, is_trusted=trusted),
        are_pods_known=pods_known,
        memory=memory or MirrorMemory(),
        topology=topology,
        place=place,
        today=today,
    )
