"""The placeholder job of a gang: what it asks of Slurm so that its pods fit where it runs.

Amounts are rounded as `sunkpy.core.placement.needs` says.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import reduce
from typing import Final

import msgspec

from sunkpy.core.gang.gang import Gang
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
    """Who may use the other GPUs of a node if pods ask for GPUs by number: nobody, or others.

    Slurm counts them, and the device plugin chooses: where two owners share a node it may give one what the other has.
    sunkpy's own plugin does not do that: it hands out what Slurm gave.
    """

    EXCLUSIVE = "exclusive"
    COUNT = "count"
    PLUGIN = "plugin"


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that decisions need. `gpu_resources`: extended resource → GRES, as {"nvidia.com/gpu": "gpu"}.

    `longest_grace_s`: what a pod is given to end at most once its job has lost the node, where `partition_grace_s` says
    nothing of its partition, nor the map of its namespace. `suspend_owners`: owners that ask for it are suspended when
    their gang is preempted. `immediate_allocation`: a service is asked for as an allocation that starts at once, before
    it is queued. `gpu_sharing`: who gets whole nodes for its GPUs. `growing_partitions`: those with a NodeSet for
    which the operator asks autoscalers.
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
        """True if a NodeSet of one of these partitions may grow. The partitions are as a job names them; empty is the
        default one.
        """
        return not set(self.growing_partitions).isdisjoint((partitions or self.default_partition).split(","))


def plan_job(gang: Gang, policy: Policy, eligibility: Eligibility | None = None) -> JobSpec:
    """The job for a gang.

    Its slots may lie on any number of nodes, unless the gang wants one node for each member. Slurm knows memory per
    cpu or per node: where slots share nodes it is asked per cpu, rounded up to MiB. On whole nodes a job has all cpus,
    and would need that much memory for each of them.
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
    """The job for the nodes that members have already, or name; `placed`: uid → Slurm node.

    Tasks are alike, so each node is asked for what is most on any of them.
    """
    on_node = needs_on_nodes(gang, placed)
    kind = WHOLE if len(on_node) == gang.seats else kind
    slots = Slots(count=len(on_node), needs=largest(on_node.values()), kind=kind)
    request = _request(gang, policy, slots, has_own_nodes=True)
    return msgspec.structs.replace(request, required_nodes=tuple(sorted(on_node)))


def needs_on_nodes(gang: Gang, placed: Mapping[str, str]) -> dict[str, matching.Amounts]:
    """What the members need together on each of their nodes. `placed` as in `plan_for_nodes`."""
    on_node: dict[str, matching.Amounts] = {}
    for pod in gang.members:
        if node := placed.get(pod.uid):
            on_node[node] = matching.added(on_node.get(node, {}), rounded(matching.pod_requests(pod.spec)))
    return on_node


def plan_terms(
    gang: Gang, policy: Policy, eligibility: Eligibility | None = None, *, kind: JobKind | None = None
) -> JobSpec:
    """All that the scheduler asks of a job of this kind, except its size."""
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
    """True if these needs have GPUs by number. GPUs of claims do not count: they are allocated one by one."""
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
        # An allocation has no script, so nothing that could end with the exit code of pods. What waits for another job
        # would only be refused.
        at_once=policy.immediate_allocation and not terms.dependency and not gang.has_exit_code,
    )
    return _per_node(request, slots.needs, policy, nodes=slots.count) if has_own_nodes else request


def _per_node(request: JobSpec, here: Mapping[str, int], policy: Policy, *, nodes: int) -> JobSpec:
    """A job on that many nodes; each node is asked for what is `here`."""
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
    """The sum of what the pods need, however uneven they are; the number of tasks says for how many it was asked."""
    together = reduce(
        matching.added, (needs for role in gang.roles for needs in needs_of_seats(role)), matching.Amounts()
    )
    request = msgspec.structs.replace(request, cpus_per_task=-(-whole_cpus(together) // request.tasks))
    return _per_node(request, together, policy, nodes=1)


def _on_whole_nodes(request: JobSpec, slots: Slots, eligibility: Eligibility, policy: Policy) -> JobSpec:
    """On as few nodes as the smallest of those that hold a slot allows; each is asked for what lies there at most."""
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
    # Whoever has no deadline may run on when the others have ended.
    longest_s = max(deadlines, default=None) if len(deadlines) == len(specs) else None
    # One minute more, so that the kubelet ends the pod by its own rule before Slurm ends the job.
    return None if longest_s is None else -(-longest_s // 60) + 1
