"""The manifests, what each should become in Slurm, and what must be there before it can be applied.

Which those are says `tests.manifests`: those of `$SUNKPY_MANIFESTS`, or else the project's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import msgspec

from tests.manifests import FURTHER, OWN, Expected, expected

MANIFESTS = FURTHER or OWN


class JobShape(msgspec.Struct, frozen=True, order=True):
    """What a Slurm job holds, as sums over its pods."""

    pods: int
    cpus: int
    mem_mib: int
    gpus: int = 0

    def __str__(self) -> str:
        gpus = f", {self.gpus} GPUs" if self.gpus else ""
        return f"{self.pods} pods, {self.cpus} cpus, {self.mem_mib} MiB{gpus}"


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One manifest.

    Args:
        jobs: the Slurm jobs that should come of it, each as often as there are such.
        also: other sets of jobs that are right as well.
        waves: which pods appear together, in words; empty: all at once.
        preempt: what goes with a place that is taken: gang, group, pod, or in words.
        comes_back: whether its owner makes the pods again; begins with yes or no, or says it in words.
        operators: what must be installed.
        first: manifests to apply before it.
        missing: why it cannot be run here; empty when it can.
        ends_between: its pods must end before others appear, so it cannot be held still to be preempted.
        refused: what an Event must name, because nothing on this cluster gives it; then there are no jobs.
    """

    manifest: str
    jobs: tuple[JobShape, ...]
    also: tuple[tuple[JobShape, ...], ...] = ()
    waves: tuple[str, ...] = ()
    preempt: str = ""
    comes_back: str = ""
    operators: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    missing: str = ""
    ends_between: bool = False
    refused: str = ""

    @property
    def must_come_back(self) -> bool | None:
        """True or False where expected.yaml is plain about it; None where it takes words."""
        word = self.comes_back.replace(":", " ").replace(",", " ").split()[:1]
        return {"yes": True, "no": False}.get(word[0]) if word else None

    @property
    def is_restarted_whole(self) -> bool:
        """When one of its pods goes its owner takes all others away, whatever job of Slurm they have (Volcano)."""
        return "RestartJob" in self.comes_back


# Words of `needs` that mean an operator; the longest first, so that `trainer v2, jobset` is both.
OPERATORS: Mapping[str, str] = {
    "jobset": "jobset",
    "lws": "lws",
    "kueue v0.14.0": "kueue",
    "training-operator v1.8.1": "training-operator",
    "mpi-operator v0.6.0": "mpi-operator",
    "paddle-operator v0.3.5": "paddle-operator",
    "kuberay v1.4.2": "kuberay",
    "trainer v2": "trainer",
    "vc-controller-manager": "volcano",
    "Volcano CRDs": "volcano",
    "argo workflow-controller": "argo-workflows",
    "scheduling.x-k8s.io CRD": "scheduler-plugins",
}
NOT_HERE: Mapping[str, str] = {
    "KEDA": "KEDA is not installed",
    "Java": "Java, Spark or Flink is not on the machine",
    "spark-submit": "Java, Spark or Flink is not on the machine",
    "armadactl": "Armada needs Pulsar, Redis and Postgres",
    "knative serving": "Knative is not built",
    "topology.node.k8s.io": "no Slurm job comes of it",
    "--etcd-server": "the operator runs without etcd",
    "--batch-scheduler": "the operator runs without a batch scheduler",
    "Kubernetes 1.35": "Kubernetes 1.37 does not serve this version of Workload",
}

NOT_RUN: Mapping[str, str] = dict.fromkeys(
    ("argo-workflows/dag-diamond.yaml", "argo-workflows/jobset-step.yaml"),
    "the pods of Argo's steps do not finish: its executor does not build",
) | {
    "training-operator/mpijob-v1-horovod.yaml": "the operator's init container asks for ephemeral storage, "
    "which nodes of the development cluster do not count",
}

ALSO: Mapping[str, tuple[tuple[JobShape, ...], ...]] = {
    # Sizes stand in the JobSet, so all may be reserved from the first pod on.
    "jobset/startup-driver-ready.yaml": ((JobShape(5, 5, 640),),),
    "jobset/depends-on.yaml": ((JobShape(1, 1, 128), JobShape(5, 5, 640)),),
    "training-operator/pytorchjob-elastic.yaml": ((JobShape(2, 2, 256),),),
    # Elastic pods may be in the same job when all of them fit at once.
    "scheduler-plugins/podgroup-replicaset.yaml": ((JobShape(6, 6, 3000),),),
    # The driver alone, in the job that holds the seats of the next file.
    "yunikorn/spark-10-driver.shape.yaml": ((JobShape(1, 3, 6144),),),
    # Here the operator adds no init container, which counts as long as the worker is not there.
    "kuberay/ray-job-sample.yaml": ((JobShape(2, 2, 256),),),
    # Equal slots that cover a smaller leader or launcher as well (docs/design/gangs-and-shapes.md).
    "slurm-bridge/jobset-coordinator.yaml": ((JobShape(5, 10, 1000),),),
    "mpi-operator/horovod-tensorflow-mnist.yaml": ((JobShape(3, 6, 12288),),),
    "mpi-operator/tensorflow-benchmarks-gpu.yaml": ((JobShape(3, 4, 512, 2),),),
    # Each pod that fails is made again, twice.
    "argo-workflows/retry-on-error.yaml": ((JobShape(1, 1, 128),) * 2, (JobShape(1, 1, 128),) * 3),
    # Bound into the job that was reserved at the driver, or one each.
    "spark-native/20-executors.shape.yaml": ((JobShape(1, 1, 1408),) * 3,),
}
COMES_BACK: Mapping[str, str] = {
    "kueue/jobset.yaml": "no: with backoffLimit 0 and no failurePolicy, one pod that is deleted ends a JobSet",
    "paddle-operator/simple.yaml": "yes: only a pod that is Failed is final, and an evicted one is deleted",
    "paddle-operator/ps-worker.yaml": "yes: only a pod that is Failed is final, and an evicted one is deleted",
}
"""Where expected.yaml does not say it, or has come back what the manifest forbids."""
FIRST: Mapping[str, tuple[str, ...]] = {
    "trainer/trainjob-multi-node.yaml": ("trainer/runtime-torch.yaml",),
    **{f"kueue/{name}.yaml": ("kueue/00-setup.yaml",) for name in ("job", "jobset", "pod-group", "statefulset")},
    **{
        f"volcano/{name}.yaml": ("volcano/queue-default.yaml",)
        for name in ("job", "mpi", "depends-on", "tf-dist-mnist", "elastic")
    },
    "spark-native/20-executors.shape.yaml": ("spark-native/10-driver.shape.yaml",),
    "yunikorn/spark-20-executors.shape.yaml": ("yunikorn/spark-10-driver.shape.yaml",),
    "flink/20-taskmanagers.shape.yaml": ("flink/10-jobmanager.shape.yaml",),
}
ENDS_BETWEEN = frozenset({
    "jobset/failure-policy.yaml",
    "jobset/depends-on.yaml",
    "native/job-indexed.yaml",
    "native/cronjob.yaml",
    "trainer/trainjob-multi-step.yaml",
    "argo-workflows/dag-diamond.yaml",
})  # fmt: skip
REFUSED: Mapping[str, str] = {
    "slurm-bridge/dra-nvidia-pod.yaml": "deviceclass.resource.kubernetes.io/gpu.nvidia.com",
    "slurm-bridge/dra-example-job.yaml": "deviceclass.resource.kubernetes.io/gpu.example.com",
    "noderesourcetopology/test-deployment.yaml": "example.com/deviceA",
}
"""A device that no NodeSet has: GPUs of Slurm if it is mapped, else refused by name."""
JOBLESS = frozenset({"native/daemonset-slurm.yaml", *FIRST})
"""Manifests whose pods get nodes, though no job of their own may come of them."""
SMALL = (
    "native/job.yaml",
    "native/deployment.yaml",
    "native/statefulset-ordered.yaml",
    "jobset/coordinator.yaml",
    "jobset/exclusive-placement.yaml",
    "lws/lws-leader-ready.yaml",
)
"""A selection that covers a plain owner, an ordered one, a gang, and gangs that are bound in waves."""


def read(folder: Path = MANIFESTS) -> list[Case]:
    """All cases of expected.yaml."""
    return [case_of(each) for each in expected(folder)]


def case_of(entry: Expected) -> Case:
    """An entry of expected.yaml, with what is known here about running it."""
    jobs = (JobShape(job.pods, job.cpus, job.mem_mib, job.gpus) for job in entry.jobs for _ in range(job.count))
    missing = [reason for word, reason in NOT_HERE.items() if word in entry.needs]
    missing += [NOT_RUN[entry.manifest]] if entry.manifest in NOT_RUN else []
    if not entry.jobs and entry.manifest not in JOBLESS:
        missing.append("no Slurm job comes of it")
    refused = REFUSED.get(entry.manifest, "")
    return Case(
        manifest=entry.manifest,
        jobs=tuple(sorted(jobs)) if not refused else (),
        also=ALSO.get(entry.manifest, ()),
        waves=tuple(entry.waves),
        preempt=entry.preempt,
        comes_back=COMES_BACK.get(entry.manifest, entry.comes_back),
        operators=tuple(sorted({name for word, name in OPERATORS.items() if word in entry.needs})),
        first=FIRST.get(entry.manifest, ()),
        missing=missing[0] if missing else "",
        ends_between=entry.manifest in ENDS_BETWEEN,
        refused=refused,
    )


def phases(cases: Sequence[Case]) -> Iterator[tuple[tuple[str, ...], list[Case]]]:
    """Cases that need the same operators, together: each set is installed once, and never beside another."""
    for operators, group in groupby(sorted(cases, key=lambda case: case.operators), key=lambda case: case.operators):
        yield operators, list(group)
