"""Metric `sunkpy_job_gpu`, which says which job has which GPU: one series for each GPU, to be joined with the metrics
of DCGM.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from sunkpy.core.figures.family import MetricFamily, Sample
from sunkpy.core.figures.jobs import JobRow
from sunkpy.core.gang.identity import parse_comment
from sunkpy.core.model.devices import SlurmDevice, read_extra
from sunkpy.core.model.states import SlurmNode, is_job_running

_GPU: Final = "gpu"
_LABELS: Final = ("job", "user", "account", "partition", "node", "index", "uuid", "pod", "namespace")


def gpus_alloc(jobs: Iterable[JobRow]) -> Counter[str]:
    """Return node → how many of its GPUs jobs have. Jobs whose devices Slurm does not name are not counted."""
    found: Counter[str] = Counter()
    for job in jobs:
        for node, indices in job.devices.items():
            found[node] += len(indices.get(_GPU, ()))
    return found


def device_family(jobs: Iterable[JobRow], nodes: Mapping[str, SlurmNode]) -> MetricFamily:
    """Return metric `sunkpy_job_gpu` for these jobs and nodes. The label `pod` names the pod of the job; for a gang of
    several pods the object that makes the pods a gang; it is empty for jobs of people.
    """
    known: dict[str, Sequence[SlurmDevice]] = {}
    samples = []
    for job in jobs:
        if is_job_running(job.state) and job.devices:
            samples += [Sample(labels, 1) for labels in _labels(job, nodes, known)]
    text = (
        "1 for each GPU that a running job has. Join it with DCGM's metrics by `uuid`, which is empty if the "
        "node's slurmd does not publish it"
    )
    return MetricFamily(name="sunkpy_job_gpu", help=text, labels=_LABELS, samples=samples)


def _labels(
    job: JobRow, nodes: Mapping[str, SlurmNode], known: dict[str, Sequence[SlurmDevice]]
) -> Iterator[tuple[str, ...]]:
    gang = parse_comment(job.comment)
    pod, namespace = (gang.name, gang.namespace) if gang is not None else ("", "")
    for node, indices in job.devices.items():
        if node not in known:
            known[node] = read_extra(nodes[node].extra).get(_GPU, ()) if node in nodes else ()
        devices = known[node]
        for index in indices.get(_GPU, ()):
            uuid = devices[index].uuid if index < len(devices) else ""
            yield str(job.id), job.user, job.account, job.partition, node, str(index), uuid, pod, namespace
