"""By what each family knows its pods: the column *recognised by* of docs/workloads.md, for the one that took them."""

from __future__ import annotations

from typing import Final

RULES: Final = {
    "DaemonSet": "its owner is a DaemonSet",
    "annotated gang": "annotations sunkpy.dev/gang and gang-size, or gang-roles",
    "JobSet": "a Job whose owner is a JobSet",
    "LeaderWorkerSet": "labels leaderworkerset.sigs.k8s.io/…",
    "training-operator": "its owner is a job of kubeflow.org/v1",
    "MPIJob": "its owner, or the owner of that, is an MPIJob of kubeflow.org/v2beta1",
    "PaddleCloud": "its owner is a PaddleJob of batch.paddlepaddle.org",
    "Ray": "its owner is a RayCluster, label ray.io/node-type",
    "Spark": "labels spark-role and spark-app-selector",
    "Volcano Job": "its owner is a Job of batch.volcano.sh",
    "Kubernetes group": "spec.workloadRef or spec.schedulingGroup",
    "scheduler-plugins PodGroup": "label scheduling.x-k8s.io/pod-group or pod-group.scheduling.sigs.k8s.io",
    "Volcano PodGroup": "annotation scheduling.k8s.io/group-name",
    "Kueue pod group": "label kueue.x-k8s.io/pod-group-name",
    "YuniKorn task groups": "annotations yunikorn.apache.org/task-group-name and task-groups",
    "Armada gang": "annotations armadaproject.io/gangId and gangCardinality",
    "Argo Workflow": "its owner is a Workflow",
    "Job": "its owner is a Job",
    "plain pod": "nothing declares that it starts with others",
}
"""By name of the family."""

_BY_AN_ADMIN: Final = "an entry of scheduler.workloads of the Slurm cluster"


def rule_of(family: str) -> str:
    """What made the pods belong to this family; one that nobody here wrote is an administrator's."""
    return RULES.get(family, _BY_AN_ADMIN)
