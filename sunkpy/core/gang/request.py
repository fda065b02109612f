"""The placeholder job of a gang: what it asks of Slurm so that its pods fit where it runs.

Amounts are rounded as `sunkpy.core.placement.needs` says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from sunkpy.core.gang.gang import Gang
from sunkpy.core.gang.options import JobOptions
from sunkpy.core.model import matching, quantity
from sunkpy.core.placement.needs import MINIMUM_MEMORY_MIB, gres, whole_cpus

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


class JobRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A job to submit. Amounts are per node; `gres` in Slurm's TRES syntax: `gres/gpu:h100:2`.

    `time_limit_min`: None is the partition's default, 0 is unlimited.
    """

    name: str
    comment: str
    nodes: int
    cpus_per_node: int
    memory_mib_per_node: int
    gres_per_node: str = ""
    options: JobOptions = JobOptions()
    time_limit_min: int | None = None
    excluded_nodes: tuple[str, ...] = ()
    required_nodes: tuple[str, ...] = ()
    script: str = PLACEHOLDER_SCRIPT


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that decisions need. `gpu_resources`: extended resource → GRES name, as {"nvidia.com/gpu": "gpu"}.

    `epilog_timeout_s`: how long an epilog waits for pods to be gone before it drains the node.
    """

    gpu_resources: Mapping[str, str]
    default_partition: str = ""
    epilog_timeout_s: float = 3600.0


def plan_job(
    gang: Gang, policy: Policy, *, excluded_nodes: Sequence[str] = (), required_nodes: Sequence[str] = ()
) -> JobRequest:
    """The job for a gang: one node per member, each with room for the largest member.

    Raises:
        quantity.BadQuantity: a request is not a quantity.
    """
    needs = gang_requests(gang)
    options = gang.options
    if not options.partition and policy.default_partition:
        options = msgspec.structs.replace(options, partition=policy.default_partition)
    return JobRequest(
        name=gang.id.name,
        comment=gang.id.comment(options.comment),
        nodes=gang.places,
        cpus_per_node=whole_cpus(needs),
        memory_mib_per_node=max(MINIMUM_MEMORY_MIB, quantity.mib_up(needs.get("memory", 0))),
        gres_per_node=gres(needs, gpu_resources=policy.gpu_resources, gpu_type=options.gpu_type),
        options=options,
        time_limit_min=_time_limit_min(gang),
        excluded_nodes=tuple(sorted(excluded_nodes)),
        required_nodes=tuple(sorted(required_nodes)),
    )


def gang_requests(gang: Gang) -> matching.Amounts:
    """The largest request of any member, resource by resource."""
    needs: matching.Amounts = {}
    for member in gang.members:
        needs = {
            name: max(needs.get(name, 0), amount)
            for name, amount in {**needs, **matching.pod_requests(member.spec)}.items()
        }
    return needs


def _time_limit_min(gang: Gang) -> int | None:
    if gang.options.time_limit_min is not None:
        return gang.options.time_limit_min
    deadlines = [member.spec.active_deadline_seconds for member in gang.members]
    longest_s = max((deadline for deadline in deadlines if deadline), default=None)
    # One minute more, so that the kubelet ends the pod by its own rule before Slurm ends the job.
    return None if longest_s is None else -(-longest_s // 60) + 1
