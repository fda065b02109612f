"""Gangs as they are met, each with the facts from which it is explained."""

from __future__ import annotations

import msgspec

from sunkpy.core import names
from sunkpy.core.explain.explanation import Explanation
from sunkpy.core.explain.facts import Facts
from sunkpy.core.explain.gang import explain_gang
from sunkpy.core.explain.no_gang import absent, foreign, unplaced
from sunkpy.core.gang.access import AccessRule, restricted
from sunkpy.core.gang.families import assemble, family_of, identify, plain_pod
from sunkpy.core.gang.families.jobset import JOB_SET
from sunkpy.core.gang.gang import Link, Suspension, extra_unit
from sunkpy.core.gang.job.request import Policy
from sunkpy.core.gang.owners import Above, Absence
from sunkpy.core.gang.snapshot import Snapshot
from sunkpy.core.model.objects import (
    Condition,
    ContainerState,
    ContainerStatus,
    PodSpec,
    SchedulingGate,
    Taint,
    WaitingContainer,
)
from sunkpy.core.placement.admission import Admission, Verdict
from sunkpy.core.placement.eligibility import Candidate, eligible_nodes
from tests.unit.core.gang.families import workload
from tests.unit.core.gang.jobs import make_job
from tests.unit.core.gang.pods import make_node, make_pod
from tests.unit.core.gang.trio import WITH_BAND, band_labels

POLICY = Policy(gpu_resources={"nvidia.com/gpu": "gpu"})
NODES = (
    make_node("a", labels={"pool": "x"}),
    make_node("b", labels={"pool": "x"}),
    make_node("c", labels={"pool": "y"}, taints=(Taint(key="team", value="red", effect="NoSchedule"),)),
)
STATES = {"n-a": "IDLE", "n-b": "MIXED+DRAIN", "n-c": "IDLE"}
OWNER = {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "web"}}


def job(*state, id=7, **fields):
    return make_job(*state, id=id, **fields)


def with_condition(pod, type_, status, reason, message):
    condition = Condition(type=type_, status=status, reason=reason, message=message)
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, conditions=(condition,)))


def labelled(pod, labels):
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, labels=labels))


def eligibility(pods, nodes=NODES):
    candidates = [Candidate(slurm_node=f"n-{node.name}", node=node) for node in nodes]
    return eligible_nodes(pods[0].spec, candidates, gpu_resources=POLICY.gpu_resources)


def explained(
    pods, *jobs, owners=(), nodes=NODES, asked=None, families=WITH_BAND, rule=None, id=None, admissions=None, **snapshot
) -> Explanation:
    id = id or identify(pods[0], owners, families=families)
    gang = assemble(id, pods, owners, families=families)
    if rule is not None:
        gang = restricted(gang, rule, default_partition="low")
    placed = {pod.uid: f"n-{pod.spec.node_name}" for pod in pods if pod.spec.node_name}
    known = {
        "id": id,
        "gang": gang,
        "jobs": jobs,
        "placed": placed,
        "bound_to": 7 if placed else None,
        "eligibility": eligibility(pods, nodes),
    }
    return explain_gang(
        Facts(
            snapshot=Snapshot(**(known | snapshot)),
            policy=POLICY,
            family=family_of(pods[0], owners, families=families),
            asked=pods[0].name if asked is None else asked,
            states=STATES,
            admissions=admissions or {},
            is_slurm_asked=True,
        )
    )


def band(*members):
    """The pods of a leader and two workers. Each member: role, index, and arguments of make_pod."""
    return [
        labelled(make_pod(f"{role}-{index}", uid=f"uid-{role}-{index}", **fields), band_labels(role, index))
        for role, index, fields in members
    ]


def annotated(size, *members):
    marks = {"sunkpy.dev/gang": "solver", "sunkpy.dev/gang-size": str(size)}
    return [make_pod(name, uid=f"uid-{name}", annotations=marks, **fields) for name, fields in members]


def _queued(reason):
    return explained([make_pod()], job("PENDING", reason=reason, excluded=("n-c",)))


def _deployed():
    owner = workload.owner(OWNER)
    status = {"phase": "Running", "containerStatuses": [{"name": "c", "state": {"running": {}}}]}
    pod = workload.pod("web-1", owned_by=[owner], spec={"schedulerName": "slurm", "nodeName": "a"}, status=status)
    return explained([pod], job("RUNNING", nodes=("n-a",)), owners=[owner], bound_to=7)


def _daemon():
    owner = workload.owner(
        {"kind": "DaemonSet", "apiVersion": "apps/v1", "metadata": {"name": "agent", "namespace": "kube-system"}}
    )
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    spec = {"schedulerName": "slurm", "affinity": {"nodeAffinity": required}}
    return workload.pod("agent-1", owned_by=[owner], namespace="kube-system", spec=spec), owner


def _daemon_bound():
    pod, owner = _daemon()
    bound = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name="a"))
    return explained([bound], owners=[owner])


def _daemon_unbound():
    pod, owner = _daemon()
    return explained([pod], owners=[owner])


def _daemon_without_node():
    pod, owner = _daemon()
    nowhere = msgspec.structs.replace(pod, spec=PodSpec(scheduler_name="slurm"))
    return explained([nowhere], owners=[owner])


def _extra():
    pod = make_pod("extra", uid="uid-extra")
    id = msgspec.structs.replace(identify(pod), name="solver", uid="by-solver", unit=extra_unit(pod))
    return explained([pod], job("PENDING", reason="Priority", excluded=("n-c",)), id=id)


def _evicted():
    pods = band(
        ("leader", 0, {"node": "a", "running": True, "phase": "Running", "deleting": True}),
        ("worker", 0, {"node": "b", "running": True, "phase": "Running"}),
    )
    told = "Slurm job 7 was preempted by Slurm job 57 (user alice, partition high)"
    pods = [with_condition(pod, "DisruptionTarget", "True", "PreemptionByScheduler", told) for pod in pods]
    return explained(pods, job("PREEMPTED", "COMPLETING", nodes=("n-a", "n-b"), epilogs=frozenset({"n-a"})))


def _half_running():
    return band(
        ("leader", 0, {"node": "a", "running": True, "phase": "Running"}),
        ("worker", 0, {"node": "b", "running": True, "phase": "Running"}),
    )


def _stuck():
    waits = WaitingContainer(reason="ImagePullBackOff", message='Back-off pulling image "nvcr.io/typo"')
    status = ContainerStatus(name="main", state=ContainerState(waiting=waits))
    pod = make_pod(node="a")
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, container_statuses=(status,)))


def _half_gated():
    gate = (SchedulingGate(name="kueue.x-k8s.io/admission"),)
    return explained(annotated(2, ("solver-0", {}), ("solver-1", {"scheduling_gates": gate})))


def _suspended_instead():
    owner = workload.owner({"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "train"}})
    pod = make_pod("train-0", node="a", running=True, annotations={"sunkpy.dev/on-preemption": "suspend"})
    gang = msgspec.structs.replace(assemble(identify(pod), [pod]), suspension=Suspension(owner=owner))
    return explained([pod], job("RUNNING", nodes=("n-a",)), gang=gang)


def _not_read():
    pod = make_pod()
    id = identify(pod)
    snapshot = Snapshot(id=id, gang=assemble(id, [pod]))
    return explain_gang(
        Facts(
            snapshot=snapshot,
            policy=POLICY,
            family=plain_pod.FAMILY,
            asked="web-1",
            unread=("nodes: you may not list them",),
        )
    )


def _gone():
    snapshot = Snapshot(id=identify(make_pod()), gang=None, jobs=(job("RUNNING", nodes=("n-a",)),))
    return explain_gang(Facts(snapshot=snapshot, policy=POLICY, family=plain_pod.FAMILY, is_slurm_asked=True))


def _owner_unknown(absence, unreadable=""):
    link = Link(kind=JOB_SET, namespace="default", name="train")
    return unplaced(make_pod(), Above(links=(link,), waits_for=link, absence=absence), unreadable=unreadable)


def _in_the_docs():
    owner = workload.owner(
        {"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "solver", "namespace": "team"}}
    )
    marks = {"sunkpy.dev/gang": "solver", "sunkpy.dev/gang-size": "2", "sunkpy.dev/time-limit": "9-0"}
    gpus = {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "8"}}}], "schedulerName": "slurm"}
    pods = [
        workload.pod(f"solver-{number}", owned_by=[owner], annotations=marks, spec=gpus, namespace="team")
        for number in range(2)
    ]
    with_gpus = [make_node(f"gpu-{number:03}") for number in range(1, 5)]
    for node in with_gpus:
        node.status.allocatable["nvidia.com/gpu"] = "8"
    nodes = (*with_gpus, *(make_node(f"cpu-{number:03}") for number in range(1, 9)))
    fits = eligible_nodes(
        pods[0].spec,
        [Candidate(slurm_node=node.name, node=node) for node in nodes],
        gpu_resources=POLICY.gpu_resources,
    )
    id = identify(pods[0], [owner])
    queued = job("PENDING", id=812, reason="PartitionTimeLimit", tasks=2, excluded=tuple(sorted(fits.refused)))
    snapshot = Snapshot(id=id, gang=assemble(id, pods, [owner]), jobs=(queued,), eligibility=fits)
    states = {f"gpu-{number:03}": "IDLE" for number in range(1, 4)} | {"gpu-004": "MIXED+DRAIN"}
    return explain_gang(
        Facts(
            snapshot=snapshot,
            policy=POLICY,
            family=family_of(pods[0], [owner]),
            asked="solver-1",
            states=states,
            is_slurm_asked=True,
        )
    )


NO_CRD = "the apiserver knows no kind JobSet of jobset.x-k8s.io: its CRD is not installed"
ENDING = Admission(verdict=Verdict.WAIT, why="node a lacks cpu: needs 2, has 1 until pod default/old has ended")
FULL = Admission(verdict=Verdict.REFUSE, why="node a lacks cpu: needs 2, has 1")
REFUSED = "submit job web-1 (partition low, account none): Invalid account (error 2045)"

SITUATIONS = {
    "queued-resources": lambda: _queued("Resources"),
    "queued-priority": lambda: _queued("Priority"),
    "queued-limit": lambda: _queued("QOSMaxJobsPerUserLimit"),
    "queued-bad-constraints": lambda: _queued("BadConstraints"),
    "queued-partition-down": lambda: _queued("PartitionDown"),
    "queued-qos": lambda: _queued("QOSNotAllowed"),
    "queued-held": lambda: _queued("JobHeldUser"),
    "in-the-docs": _in_the_docs,
    "queued-untold": lambda: explained([make_pod()], job()),
    "no-node-labels": lambda: explained([make_pod(node_selector={"pool": "z"})]),
    "no-node-taint": lambda: explained([make_pod()], nodes=NODES[2:]),
    "no-node-memory": lambda: explained([make_pod(requests={"memory": "64Gi"})]),
    "no-node-gpus": lambda: explained([make_pod(requests={"nvidia.com/gpu": "8"})]),
    "no-slurm-node": lambda: explained([make_pod()], nodes=()),
    "annotation-refused": lambda: explained([make_pod(annotations={"sunkpy.dev/time-limit": "soon"})]),
    "annotation-unknown": lambda: explained([make_pod(annotations={"sunkpy.dev/partiton": "low"})]),
    "partition-not-allowed": lambda: explained(
        [make_pod(annotations={"sunkpy.dev/partition": "high"})], rule=AccessRule()
    ),
    "gated": lambda: explained([make_pod(scheduling_gates=(SchedulingGate(name="kueue.x-k8s.io/admission"),))]),
    "gang-incomplete": lambda: explained(annotated(3, ("one", {}), ("two", {})), asked=""),
    "gang-queued": lambda: explained(
        annotated(2, ("one", {}), ("two", {})), job("PENDING", reason="Resources", tasks=2, excluded=("n-c",)), asked=""
    ),
    "job-starts": lambda: explained([make_pod()], job("RUNNING", nodes=("n-a",), reason="Prolog", prologs=frozenset())),
    "admission-waits": lambda: explained(
        [make_pod()], job("RUNNING", nodes=("n-a",)), admissions={"uid-1": ENDING}, idle_s=3.0
    ),
    "admission-refused": lambda: explained([make_pod()], job("RUNNING", nodes=("n-a",)), admissions={"uid-1": FULL}),
    "about-to-be-bound": lambda: explained([make_pod()], job("RUNNING", nodes=("n-a",))),
    "bound": lambda: explained([make_pod(node="a")], job("RUNNING", nodes=("n-a",))),
    "image-not-there": lambda: explained([_stuck()], job("RUNNING", nodes=("n-a",))),
    "running-deployment": _deployed,
    "running-bare": lambda: explained(
        [make_pod(node="a", running=True, phase="Running")], job("RUNNING", nodes=("n-a",))
    ),
    "suspended-instead": _suspended_instead,
    "handing-over": _evicted,
    "job-lost": lambda: explained([make_pod(node="a", running=True, phase="Running")], job(missing=2)),
    "bound-by-others": lambda: explained([make_pod(node="a", running=True, phase="Running")], bound_to=None),
    "gang-with-a-gated-pod": _half_gated,
    "submit-refused": lambda: explained([make_pod()], may_submit=False, refused=REFUSED),
    "not-submitted-yet": lambda: explained([make_pod()]),
    "owner-gone": lambda: _owner_unknown(Absence.GONE),
    "owner-unreadable": lambda: _owner_unknown(Absence.UNREADABLE, NO_CRD),
    "owner-not-seen": lambda: _owner_unknown(Absence.UNKNOWN),
    "declaration-broken": lambda: explained(
        [make_pod(annotations={"sunkpy.dev/gang": "solver", "sunkpy.dev/gang-size": "many"})], asked=""
    ),
    "daemon-bound": _daemon_bound,
    "daemon-unbound": _daemon_unbound,
    "daemon-without-node": _daemon_without_node,
    "extra": _extra,
    "leader-first": lambda: explained(band(("leader", 0, {})), job("PENDING", reason="Priority", tasks=3), asked=""),
    "later-wave-runs": lambda: explained(_half_running(), job("RUNNING", nodes=("n-a", "n-b"), tasks=3), asked=""),
    "no-place-left": lambda: explained(
        [*_half_running(), *band(("worker", 5, {}))],
        job("RUNNING", nodes=("n-a", "n-b"), tasks=3),
        asked="worker-5",
    ),
    "generation-waits": lambda: explained(
        [make_pod()], waits_for="generation 1 of default/train to end: pod train-0 is not gone"
    ),
    "nodes-not-read": _not_read,
    "finished-gang": lambda: explained(
        annotated(2, *((f"solver-{at}", {"node": "a", "phase": "Succeeded"}) for at in range(2))),
        job("COMPLETED"),
        asked="",
    ),
    "finished": lambda: explained([make_pod(node="a", phase="Succeeded")], job("COMPLETED")),
    "finished-job-left": lambda: explained([make_pod(node="a", phase="Failed")], job("RUNNING", nodes=("n-a",))),
    "finished-one-of-gang": lambda: explained(
        [*_half_running()[:1], *band(("worker", 0, {"node": "b", "phase": "Succeeded"}))],
        job("RUNNING", nodes=("n-a", "n-b"), tasks=3),
        asked="worker-0",
    ),
    "deleted-unbound": lambda: explained([make_pod(deleting=True)], job("PENDING", reason="Priority")),
    "gone": _gone,
    "unknown-pod": lambda: absent("Pod", "default", "nobody"),
    "unknown-gang": lambda: absent("Gang", "default", "nobody"),
    "renamed-scheduler": lambda: foreign(make_pod(node="a", annotations={names.ANNOTATION_JOB_ID: "148"}), ("other",)),
    "other-scheduler-names-unread": lambda: foreign(msgspec.structs.replace(make_pod(), spec=PodSpec()), ()),
    "other-scheduler": lambda: foreign(msgspec.structs.replace(make_pod(), spec=PodSpec()), ("slurm",)),
}
