"""Computes what pods need of a node: what Slurm counts, in Slurm's units, and what only Kubernetes counts.

Slurm counts whole CPUs and MiB, so requests are rounded up. For each pod Slurm holds at least one CPU and
`MINIMUM_MEMORY_MIB`, also for a pod without requests. `core.model.gres` reads which devices Slurm gave for `gres`;
`core.gang.devices.indices` shares them among the pods of a job.

Slurm does not know what pods without a Slurm job take of a node: daemons, the slurmd pod, pods of other schedulers. Of
pods with a job, it does not know what they take of resources that it does not count: ephemeral-storage, hugepages,
devices without a GRES. A pod counts here while it is on the node and has not finished, as for the kubelet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from sunkpy.core import names
from sunkpy.core.model import matching, quantity
from sunkpy.core.model.matching import Amounts
from sunkpy.core.model.objects import Container, Pod, PodSpec, Resources
from sunkpy.core.model.quantity import BadQuantity

MINIMUM_CPUS: Final = 1
MINIMUM_MEMORY_MIB: Final = 128
_MIB: Final = 2**20
_COUNTED: Final = frozenset({"cpu", "memory"})
_MOST_RESOURCES: Final = 100
_FIRST: Final = ("cpu", "memory", "ephemeral-storage")
_NOTHING: Final[dict[str, str]] = {}


def requests(spec: PodSpec) -> Amounts:
    """Return all that a pod takes from a node; nothing if its quantities cannot be read."""
    try:
        return matching.pod_requests(spec)
    except BadQuantity:  # the apiserver would not have stored it
        return {}


def whole_cpus(needs: Mapping[str, int]) -> int:
    """Return the needed millicores as whole CPUs, rounded up, at least one."""
    return max(MINIMUM_CPUS, -(-needs.get("cpu", 0) // 1000))


def rounded(needs: Mapping[str, int]) -> Amounts:
    """Return what Slurm holds for one pod: whole CPUs and whole MiB, and of each at least the minimum."""
    memory_mib = max(MINIMUM_MEMORY_MIB, quantity.mib_up(needs.get("memory", 0)))
    return {**needs, "cpu": whole_cpus(needs) * 1000, "memory": memory_mib * _MIB}


def counted(needs: Mapping[str, int], gpu_resources: Mapping[str, str], *, gpu_type: str = "") -> Amounts:
    """Return the part of the needs that Slurm counts, rounded up: CPUs, memory, and each GRES by its name."""
    held = rounded(needs)
    return {"cpu": held["cpu"], "memory": held["memory"], **count_gres(needs, gpu_resources, gpu_type=gpu_type)}


def uncounted(spec: PodSpec, *, gpu_resources: Collection[str]) -> Amounts:
    """Return the part of a pod's requests that Slurm does not count; this is at least `pods: 1`."""
    return {name: n for name, n in requests(spec).items() if name not in _COUNTED and name not in gpu_resources and n}


def gres(needs: Mapping[str, int], *, gpu_resources: Mapping[str, str], gpu_type: str = "") -> str:
    """Return the GRES that a job has to request for these needs, as in `tres_per_node`: `gres/gpu:h100:2`. Empty if the
    needs have no extended resource that Slurm counts.
    """
    counts = count_gres(needs, gpu_resources, gpu_type=gpu_type)
    return ",".join(f"gres/{name}:{count}" for name, count in sorted(counts.items()) if count > 0)


def count_gres(needs: Mapping[str, int], gpu_resources: Mapping[str, str], *, gpu_type: str = "") -> Amounts:
    """Return how many of each GRES the pod needs, by the name that Slurm knows: `gpu` or `gpu:h100`.

    `gpu_type`: the type for GPUs whose extended resource stands for `gpu` without a type; empty for none.
    """
    typed = {name: f"{name}:{gpu_type}" if gpu_type and name == "gpu" else name for name in gpu_resources.values()}
    counts = dict.fromkeys(typed.values(), 0)
    for resource, name in gpu_resources.items():
        counts[typed[name]] += needs.get(resource, 0)
    return counts


def taken_by_others(pods: Iterable[Pod], *, scheduler_names: Collection[str]) -> Amounts:
    """Return what the pods without a Slurm job take together."""
    total: Amounts = {}
    for pod in pods:
        total = matching.added(total, taken_without_job(pod, scheduler_names=scheduler_names))
    return total


def taken_without_job(pod: Pod, *, scheduler_names: Collection[str]) -> Amounts:
    """Return what the pod takes if it has no Slurm job, such as a daemon that names sunkpy's scheduler; nothing if it
    has one.
    """
    is_other = pod.spec.scheduler_name not in scheduler_names or _is_without_job(pod)
    return requests(pod.spec) if is_other and _is_there(pod) else {}


def taken_uncounted(pod: Pod, *, gpu_resources: Collection[str]) -> Amounts:
    """Return what a pod with a job takes that Slurm does not count; nothing for a pod without a job."""
    return uncounted(pod.spec, gpu_resources=gpu_resources) if _is_there(pod) and not _is_without_job(pod) else {}


def as_much(spec: PodSpec) -> Container:
    """Return one container that takes as much of a node as the whole pod, because some pods have ten thousand
    containers.

    If the pod asks for more than a hundred resources, the container has cpu, memory, ephemeral-storage and some others.
    """
    asked = {name: amount for name, amount in requests(spec).items() if name != "pods"}
    if len(asked) > _MOST_RESOURCES:
        first = [*filter(asked.__contains__, _FIRST), *asked][:_MOST_RESOURCES]
        asked = {name: asked[name] for name in first}
    amounts = {name: f"{n}m" if name == "cpu" else str(n) for name, n in asked.items()}
    return Container(resources=Resources(requests=amounts, limits=_NOTHING))


def _is_without_job(pod: Pod) -> bool:
    """True if the pod is made for one node, like a DaemonSet's pod, and was bound there without a Slurm job."""
    return names.ANNOTATION_JOB_ID not in pod.annotations and bool(matching.named_node(pod.spec))


def _is_there(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and not pod.is_finished
