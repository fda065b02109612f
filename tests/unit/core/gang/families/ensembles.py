"""A small workload of each family: its owners, and the pods that they make, each with the number of its place."""

from __future__ import annotations

import json

from msgspec.structs import replace

from sunkpy.core.model.objects import OwnerReference, SchedulingGroup
from tests.unit.core.gang.families.workload import owner, pod


def _made(api_version, kind, name="it", spec=None, **metadata):
    return owner({"apiVersion": api_version, "kind": kind, "metadata": {"name": name} | metadata, "spec": spec or {}})


def _below(maker):
    reference = {"apiVersion": maker.api_version, "kind": maker.kind, "name": maker.name, "uid": maker.uid}
    return [reference | {"controller": True}]


def _bare(labels=None, annotations=None):
    return lambda number: pod(f"p-{number}", labels=labels, annotations=annotations)


def _annotated():
    return (), [_bare(annotations={"sunkpy.dev/gang": "it", "sunkpy.dev/gang-size": "3"})] * 3


def _pod_group(least=3):
    group = _made("scheduling.x-k8s.io/v1alpha1", "PodGroup", spec={"minMember": least})
    return (group,), [_bare(labels={"scheduling.x-k8s.io/pod-group": "it"})] * 3


def _native():
    group = _made("scheduling.k8s.io/v1alpha2", "PodGroup", spec={"schedulingPolicy": {"gang": {"minCount": 3}}})

    def make(number):
        made = pod(f"p-{number}")
        return replace(made, spec=replace(made.spec, scheduling_group=SchedulingGroup(pod_group_name="it")))

    return (group,), [make] * 3


def _kueue():
    annotations = {"kueue.x-k8s.io/pod-group-total-count": "3"}
    return (), [_bare(labels={"kueue.x-k8s.io/pod-group-name": "it"}, annotations=annotations)] * 3


def _armada():
    return (), [_bare(annotations={"armadaproject.io/gangId": "it", "armadaproject.io/gangCardinality": "3"})] * 3


def _yunikorn():
    groups = json.dumps([{"name": "w", "minMember": 3}])
    said = {"yunikorn.apache.org/task-groups": groups, "yunikorn.apache.org/task-group-name": "w"}
    return (), [_bare(labels={"applicationId": "it"}, annotations=said)] * 3


def _exclusive():
    """One child Job, alone in its topology domain."""
    key = "alpha.jobset.sigs.k8s.io/exclusive-topology"
    job = {"name": "work", "replicas": 1, "template": {"spec": {"parallelism": 3, "completions": 3}}}
    top = _made("jobset.x-k8s.io/v1alpha2", "JobSet", spec={"replicatedJobs": [job]}, annotations={key: "rack"})

    return (top,), [_child_pod(top, "work", index, {key: "rack"}) for index in range(3)]


def _jobset(**more):
    jobs = [{"name": name, "replicas": 1, "template": {"spec": {"parallelism": n, "completions": n}}}
            for name, n in (("lead", 1), ("work", 2))]  # fmt: skip
    top = _made("jobset.x-k8s.io/v1alpha2", "JobSet", spec={"replicatedJobs": jobs} | more)

    return (top,), [_child_pod(top, *place) for place in (("lead", 0), ("work", 0), ("work", 1))]


def _child_pod(top, job, index, annotations=None):
    """Maker of a pod of a child Job of a JobSet."""

    def made(number):
        child = _made("batch/v1", "Job", f"it-{job}-0", ownerReferences=_below(top))
        prefix = "jobset.sigs.k8s.io/"
        labels = {f"{prefix}replicatedjob-name": job, f"{prefix}job-index": "0", f"{prefix}restart-attempt": "0"}
        labels |= {f"{prefix}jobset-name": "it", f"{prefix}jobset-uid": top.uid}
        labels["batch.kubernetes.io/job-completion-index"] = str(index)
        return pod(f"p-{number}", owned_by=(child,), labels=labels, annotations=annotations)

    return made


def _replicas(api_version, kind, specs, prefix, **more):
    top = _made(api_version, kind, spec=specs | more)

    def make(role, index):
        labels = {f"{prefix}replica-type": role, f"{prefix}replica-index": str(index)}
        labels |= {f"{prefix}job-role": role, f"{prefix}operator-name": "mpi-operator"}
        return lambda number: pod(f"p-{number}", owned_by=(top,), labels=labels)

    return (top,), make


def _torch():
    specs = {"pytorchReplicaSpecs": {"Master": {"replicas": 1}, "Worker": {"replicas": 2}}}
    owners, make = _replicas("kubeflow.org/v1", "PyTorchJob", specs, "training.kubeflow.org/")
    return owners, [make("master", 0), make("worker", 0), make("worker", 1)]


def _mpi():
    specs = {"mpiReplicaSpecs": {"Launcher": {"replicas": 1}, "Worker": {"replicas": 2}}}
    owners, make = _replicas("kubeflow.org/v2beta1", "MPIJob", specs, "training.kubeflow.org/")
    return owners, [make("launcher", 0), make("worker", 0), make("worker", 1)]


def _ray(workers=2):
    top = _made("ray.io/v1", "RayCluster", spec={"workerGroupSpecs": [{"groupName": "g", "replicas": workers}]})

    def make(node_type):
        labels = {"ray.io/node-type": node_type, "ray.io/group": "g" if node_type == "worker" else "headgroup"}
        return lambda number: pod(f"p-{number}", owned_by=(top,), labels=labels)

    return (top,), [make("head"), *[make("worker")] * workers]


def _spark():
    top = _made("sparkoperator.k8s.io/v1beta2", "SparkApplication", spec={"executor": {"instances": 2}})

    def make(role):
        labels = {"spark-role": role, "spark-app-selector": "app", "sparkoperator.k8s.io/submission-id": "s"}
        return lambda number: pod(f"p-{number}", owned_by=(top,), labels=labels)

    return (top,), [make("driver"), make("executor"), make("executor")]


def _volcano(least=3):
    spec = {"minAvailable": least, "tasks": [{"name": "w", "replicas": 3}]}
    top = _made("batch.volcano.sh/v1alpha1", "Job", spec=spec)

    def make(index):
        said = {"volcano.sh/task-spec": "w", "volcano.sh/task-index": str(index), "volcano.sh/job-version": "1"}
        return lambda number: pod(f"p-{number}", owned_by=(top,), annotations=said)

    return (top,), [make(0), make(1), make(2)]


def _lws(size=3, **annotations):
    """The workers belong to the StatefulSet of their leader, whose uid is only known when it is made: `below`."""
    top = _made("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec={"leaderWorkerTemplate": {"size": size}})
    leaders = _made("apps/v1", "StatefulSet", "it", ownerReferences=_below(top))

    def make(index):
        prefix = "leaderworkerset.sigs.k8s.io/"
        labels = {f"{prefix}name": "it", f"{prefix}group-key": "key", f"{prefix}group-index": "0"}
        labels[f"{prefix}worker-index"] = str(index)
        said = {f"{prefix}size": str(size)}
        said |= {prefix + key.replace("_", "-"): value for key, value in annotations.items()}
        return lambda number: pod(f"p-{number}", owned_by=(leaders,), labels=labels, annotations=said)

    return (top,), [make(index) for index in range(size)]


def below(leader, worker):
    """A worker as one of this leader, and the StatefulSet between them."""
    of_pod = OwnerReference(api_version="v1", kind="Pod", name=leader.name, uid=leader.uid, controller=True)
    workers = _made("apps/v1", "StatefulSet", leader.name)
    workers = replace(workers, metadata=replace(workers.metadata, owner_references=(of_pod,)))
    own = OwnerReference(api_version="apps/v1", kind="StatefulSet", name=workers.name, uid=workers.uid, controller=True)
    return replace(worker, metadata=replace(worker.metadata, owner_references=(own,))), workers


def _paddlecloud():
    top = _made("batch.paddlepaddle.org/v1", "PaddleJob", spec={"worker": {"replicas": 3}})
    maker = _bare(labels={"paddle-res-type": "worker"})
    return (top,), [lambda number: replace(maker(number), metadata=_owned_meta(maker(number), top))] * 3


def _owned_meta(made, top):
    return replace(made.metadata, owner_references=pod("x", owned_by=(top,)).metadata.owner_references)


def _ray_job():
    above = _made("ray.io/v1", "RayJob", "above", {"backoffLimit": 1, "shutdownAfterJobFinishes": True})
    (top,), makers = _ray()
    return (top, above), makers


def _workload():
    groups = [{"name": "w", "policy": {"gang": {"minCount": 3}}}]
    group = _made("scheduling.k8s.io/v1alpha1", "Workload", spec={"podGroups": groups})
    return (group,), [lambda number: pod(f"p-{number}", spec={"workloadRef": {"name": "it", "podGroup": "w"}})] * 3


def _volcano_group():
    group = _made("scheduling.volcano.sh/v1beta1", "PodGroup", spec={"minMember": 3, "minTaskMember": {"w": 1}})
    return (group,), [_bare(annotations={"scheduling.k8s.io/group-name": "it"})] * 3


def _alone(api_version, kind, spec):
    top = _made(api_version, kind, spec=spec)
    return (top,), [lambda number: pod(f"p-{number}", owned_by=(top,))]


def _grove(least=2):
    """The base PodGang of a replica: a PodClique of one pod, and one of two."""
    top = _made("grove.io/v1alpha1", "PodCliqueSet")
    groups = [{"name": "it-0-lead", "minReplicas": 1}, {"name": "it-0-work", "minReplicas": least}]
    made = _made("scheduler.grove.io/v1alpha1", "PodGang", "it-0", {"podgroups": groups}, ownerReferences=_below(top))

    def make(name, index):
        clique = _made("grove.io/v1alpha1", "PodClique", f"it-0-{name}", ownerReferences=_below(top))
        labels = {"grove.io/podgang": "it-0", "grove.io/podclique": clique.name}
        labels["grove.io/podclique-pod-index"] = str(index)
        return lambda number: pod(f"p-{number}", owned_by=(clique,), labels=labels)

    return (made,), [make("lead", 0), make("work", 0), make("work", 1)]


ALONE_OR_ABOVE = {
    "PaddleCloud": _paddlecloud(),
    "RayJob": _ray_job(),
    "Workload": _workload(),
    "Volcano PodGroup": _volcano_group(),
    "Job": _alone("batch/v1", "Job", {"parallelism": 1, "podFailurePolicy": {"rules": [{"action": "Ignore"}]}}),
    "Workflow": _alone("argoproj.io/v1alpha1", "Workflow", {"templates": [{"retryStrategy": {"limit": 1}}]}),
}
"""Others whose objects are read; their pods come one by one, or nobody follows their whole course."""

ENSEMBLES = {
    "annotated": _annotated(),
    "PodGroup": _pod_group(),
    "PodGroup, one beyond": _pod_group(2),
    "native": _native(),
    "Kueue": _kueue(),
    "Armada": _armada(),
    "YuniKorn": _yunikorn(),
    "JobSet": _jobset(),
    "JobSet in order": _jobset(startupPolicy={"startupPolicyOrder": "InOrder"}),
    "JobSet, exclusive": _exclusive(),
    "LeaderWorkerSet": _lws(),
    "LeaderWorkerSet, exclusive": _lws(exclusive_topology="rack"),
    "Grove": _grove(),
    "Grove, one beyond": _grove(1),
    "PyTorchJob": _torch(),
    "MPIJob": _mpi(),
    "Ray": _ray(),
    "Spark": _spark(),
    "Volcano": _volcano(),
    "Volcano, one beyond": _volcano(2),
}
"""Owners above the pods, and how to make the pod of each of three seats; `number` tells one try from another."""

OF_ONE = {
    "LeaderWorkerSet of one": _lws(1),
    "Ray, a head alone": _ray(0),
}
"""Ensembles whose gang has one seat. Their owner makes its pod again, as the same gang or as another generation."""

LEADER_FIRST = ("JobSet in order", "JobSet, exclusive", "LeaderWorkerSet, exclusive", "Spark")
"""Ensembles whose other pods appear when the first pod has a node."""

OF_THE_LEADER = ("LeaderWorkerSet", "LeaderWorkerSet, exclusive", "LeaderWorkerSet of one")
"""Ensembles whose other pods belong to the first pod, and go with it."""

GENERATIONS = ("jobset.sigs.k8s.io/restart-attempt", "volcano.sh/job-version")
"""Labels and annotations that a restart of all changes."""
