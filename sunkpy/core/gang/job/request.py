"""Makes the request for the placeholder job of a gang, so that the gang's pods fit where the job runs.

Amounts are rounded as `sunkpy.core.placement.needs` says.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import reduce
from typing import Final

import msgspec

from sunkpy.core.gang.gang import Gang, Suspension
from sunkpy.core.gang.identity import REPLACEMENT, WHOLE, JobKind, make_comment
from sunkpy.core.gang.seating.slots import Slots, largest, needs_of_seats, plan_slots
from sunkpy.core.model import matching, quantity
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.placement.domains import HOSTNAME
from sunkpy.core.placement.eligibility import Eligibility, excluded, with_features
from sunkpy.core.placement.needs import count_gres, counted, gres, rounded, whole_cpus

PLACEHOLDER_SCRIPT: Final = """\
#!/bin/bash
# Holds resources for Kubernetes pods. USR1: they succeeded. USR2: they failed. TERM: make room at once.
trap 'kill "$held"; exit 0' USR1
trap 'kill "$held"; exit 1' USR2
trap 'kill "$held"; exit 143' TERM
sleep infinity &
held=$!
wait "$held"
"""


class GpuSharing(enum.StrEnum):
    """Whether other jobs may use the remaining GPUs of a node if pods ask for GPUs by number.

    Slurm counts GPUs, and the device plugin chooses them. If jobs share a node, a usual plugin may give one job a GPU
    that Slurm gave to another. sunkpy's own plugin hands out the GPUs that Slurm chose. EXCLUSIVE: jobs with GPUs get
    whole nodes. COUNT: jobs share nodes, at the risk above. PLUGIN: jobs share nodes, and sunkpy's plugin hands out the
    GPUs.
    """

    EXCLUSIVE = "exclusive"
    COUNT = "count"
    PLUGIN = "plugin"


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the scheduler that decisions about gangs need.

    Args:
        gpu_resources: extended resource → GRES, as {"nvidia.com/gpu": "gpu"}.
        longest_grace_s: the limit, in seconds, for the grace period of a pod whose job has lost the node, if neither
            the partition nor the namespace has a limit of its own.
        partition_grace_s: partition → its limit for that grace period, in seconds.
        suspend_owners: when a gang is preempted, suspend the owner of its pods if annotations of the pods or of the
            owner ask for that.
        immediate_allocation: ask for the job of a service first as an allocation that starts at once or is refused,
            before the job is queued.
        gpu_sharing: whether jobs with GPUs get whole nodes.
        growing_partitions: partitions with a NodeSet for which the operator asks autoscalers for nodes.
    """

    gpu_resources: Mapping[str, str]
    default_partition: str = ""
    longest_grace_s: int = 300
    partition_grace_s: Mapping[str, int] = {}
    suspend_owners: bool = False
    immediate_allocation: bool = True
    gpu_sharing: GpuSharing = GpuSharing.EXCLUSIVE
    growing_partitions: tuple[str, ...] = ()

    def may_grow(self, partitions: str) -> bool:
        """True if one of these partitions has a NodeSet for which autoscalers may add nodes. `partitions`: as a job
        names them, separated by commas; empty means the default partition.
        """
        return not set(self.growing_partitions).isdisjoint((partitions or self.default_partition).split(","))

    def grace_limit_s(self, gang: Gang) -> int:
        """Return the longest grace period, in seconds, that the gang's pods may have when their job has lost the node:
        the limit of their namespace, or without one the shortest limit of the partitions that the gang asks for. A
        partition without a limit of its own has that of the scheduler.
        """
        by_partition = self.partition_grace_s
        partitions = (gang.options.partition or self.default_partition).split(",")
        return gang.longest_grace_s or min(by_partition.get(name, self.longest_grace_s) for name in partitions)

    def suspension_of(self, gang: Gang) -> Suspension | None:
        """Return how to suspend the gang's owner when its job is preempted. None unless the settings allow that, the
        gang asks for it by annotation, and the owner can be suspended.
        """
        return gang.suspension if self.suspend_owners and gang.options.on_preemption == "suspend" else None


def plan_job(gang: Gang, policy: Policy, eligibility: Eligibility | None = None) -> JobSpec:
    """Return the request for the job of a gang whose pods have no nodes yet.

    The slots of the job (one for each pod, or for several) may lie on any number of nodes, unless the gang wants one
    node for each pod, or all pods on one. Slurm takes memory per cpu or per node. If slots share nodes, the request is
    per cpu, rounded up to MiB. On whole nodes it is per node: such a job gets all cpus of the node, and memory for each
    of these cpus would be too much.
    """
    slots = plan_slots(gang, eligibility, policy.gpu_resources)
    request = _request(gang, policy, slots, eligibility, has_own_nodes=gang.one_per_node or slots.count == 1)
    if gang.one_domain == HOSTNAME:
        request = _on_one_node(request, gang, policy)
    elif request.whole_nodes and request.memory_mib_per_cpu and eligibility is not None:
        request = _on_whole_nodes(request, slots, eligibility, policy)
    if eligibility is None:
        return request
    return msgspec.structs.replace(request, excluded_nodes=excluded(eligibility))


def plan_for_nodes(
    gang: Gang, policy: Policy, placed: Mapping[str, str], kind: JobKind | None = REPLACEMENT
) -> JobSpec:
    """Return the request for a job on exactly the nodes that the gang's pods already have, or that the pods name.
    `placed`: pod uid → Slurm node. `kind`: how the job's tasks were chosen for the pods, for the comment of the job; if
    there are as many nodes as seats in the gang, it is `whole` instead.

    Slurm's tasks are all alike, so on each node the job asks for the most of each resource that the pods need on any of
    them.
    """
    on_node = needs_on_nodes(gang, placed)
    kind = WHOLE if len(on_node) == gang.seats else kind
    slots = Slots(count=len(on_node), needs=largest(on_node.values()), kind=kind)
    request = _request(gang, policy, slots, has_own_nodes=True)
    return msgspec.structs.replace(request, required_nodes=tuple(sorted(on_node)))


def needs_on_nodes(gang: Gang, placed: Mapping[str, str]) -> dict[str, matching.Amounts]:
    """Return, for each Slurm node, what the gang's pods there need together. `placed`: pod uid → Slurm node."""
    on_node: dict[str, matching.Amounts] = {}
    for pod in gang.members:
        if node := placed.get(pod.uid):
            on_node[node] = matching.added(on_node.get(node, {}), rounded(matching.pod_requests(pod.spec)))
    return on_node


def plan_terms(
    gang: Gang, policy: Policy, eligibility: Eligibility | None = None, *, kind: JobKind | None = None
) -> JobSpec:
    """Return what the scheduler asks of the gang's job except its size: name, comment, partition, time limit, and so
    on. `kind`, which the comment carries, says how the job's tasks were chosen for the pods.
    """
    options = gang.options
    return msgspec.structs.replace(
        options,
        name=options.name or gang.id.name,
        comment=make_comment(gang.id, kind, options.comment),
        partition=options.partition or policy.default_partition,
        constraint=with_features(options.constraint, eligibility.features if eligibility is not None else ()),
        time_limit_min=_time_limit_min(gang),
        script=PLACEHOLDER_SCRIPT,
    )


def counts_gpus(needs: Mapping[str, int], policy: Policy) -> bool:
    """True if a pod with these needs asks for GPUs by number, as an extended resource. GPUs of claims do not count:
    they are allocated one by one.
    """
    return any(count_gres(matching.of_kubelet(needs), policy.gpu_resources).values())


def _request(
    gang: Gang, policy: Policy, slots: Slots, eligibility: Eligibility | None = None, *, has_own_nodes: bool
) -> JobSpec:
    terms = plan_terms(gang, policy, eligibility, kind=slots.kind)
    cpus, memory_mib = whole_cpus(slots.needs), quantity.mib_up(slots.needs.get("memory", 0))
    request = msgspec.structs.replace(
        terms,
        tasks=slots.count,
        cpus_per_task=cpus,
        minimum_nodes=1,
        maximum_nodes=slots.count,
        whole_nodes=terms.shared == "none"
        or (counts_gpus(slots.needs, policy) and policy.gpu_sharing is GpuSharing.EXCLUSIVE),
        memory_mib_per_cpu=-(-memory_mib // cpus),
        gres_per_task=gres(slots.needs, gpu_resources=policy.gpu_resources, gpu_type=terms.gpu_type),
        # An allocation has no script that could end with the exit code of the pods. With a dependency it cannot start
        # at once.
        at_once=policy.immediate_allocation and not terms.dependency and not gang.has_exit_code,
    )
    return _per_node(request, slots.needs, policy, nodes=slots.count) if has_own_nodes else request


def _per_node(request: JobSpec, here: Mapping[str, int], policy: Policy, *, nodes: int) -> JobSpec:
    """Return the request changed so that it asks for exactly this many nodes, with the amounts `here` of memory and
    GRES on each.
    """
    return msgspec.structs.replace(
        request,
        minimum_nodes=nodes,
        maximum_nodes=nodes,
        memory_mib_per_node=quantity.mib_up(here.get("memory", 0)),
        memory_mib_per_cpu=0,
        gres_per_node=gres(here, gpu_resources=policy.gpu_resources, gpu_type=request.gpu_type),
        gres_per_task="",
    )


def _on_one_node(request: JobSpec, gang: Gang, policy: Policy) -> JobSpec:
    """Return the request changed so that it asks for one node, with the sum of what all pods of the gang need. The
    number of tasks stays as it is.
    """
    together = reduce(
        matching.added, (needs for role in gang.roles for needs in needs_of_seats(role)), matching.Amounts()
    )
    request = msgspec.structs.replace(request, cpus_per_task=-(-whole_cpus(together) // request.tasks))
    return _per_node(request, together, policy, nodes=1)


def _on_whole_nodes(request: JobSpec, slots: Slots, eligibility: Eligibility, policy: Policy) -> JobSpec:
    """Return the request changed so that it asks for as few whole nodes as hold all slots (tasks), counted on the
    smallest eligible node that has room for one. It is unchanged if the sizes of the nodes are unknown.
    """
    needs = counted(slots.needs, policy.gpu_resources, gpu_type=request.gpu_type)
    fitting = eligibility.slots_on_smallest(needs)
    if not fitting:
        return request
    nodes = -(-slots.count // fitting)
    here = {name: amount * -(-slots.count // nodes) for name, amount in slots.needs.items()}
    return _per_node(request, here, policy, nodes=nodes)


def _time_limit_min(gang: Gang) -> int | None:
    if gang.options.time_limit_min is not None:
        return gang.options.time_limit_min
    shapes = [role.shape for role in gang.roles if role.shape is not None and len(role.members) < role.seats]
    specs = [*(pod.spec for pod in gang.members), *shapes]
    deadlines = [deadline for spec in specs if (deadline := spec.active_deadline_seconds)]
    # A pod without a deadline may run on when the others have ended.
    longest_s = max(deadlines, default=None) if len(deadlines) == len(specs) else None
    # One minute more, so that the kubelet ends the pod by its own rule before Slurm ends the job.
    return None if longest_s is None else -(-longest_s // 60) + 1
