"""The family of pods of DaemonSets: such a pod is bound at once, without a job, to the node that its affinity names.

A daemon's pod names this scheduler by mistake, or by a default of its namespace. It must not wait: the node may need
the daemon, and a job for it would take room from others.

Whoever makes a pod writes its owner references, and a pod without a job escapes the limits that Slurm sets for people.
So the DaemonSet must exist with the uid of the reference, and its namespace must be in `scheduler.daemonSetNamespaces`
of the chart. Slurm gives GPUs to jobs, and a daemon must not take these, so this family does not take a pod that asks
for a GPU or has a ResourceClaim. All other pods of DaemonSets get a job.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from sunkpy.core.gang.families.belonging import controllers
from sunkpy.core.gang.families.plain_pod import alone, own_id
from sunkpy.core.gang.gang import Family, Gang, Owners
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model import matching
from sunkpy.core.model.objects import Kind, Pod

DAEMON_SET: Final = Kind(group="apps", kind="DaemonSet")
NAMESPACES: Final = ("kube-system",)


def _assemble(id: GangId, pods: Sequence[Pod], owners: Owners) -> Gang:
    return msgspec.structs.replace(alone(id, pods[0], owners), never_queues=True)


def family(namespaces: Collection[str] = NAMESPACES, gpu_resources: Collection[str] = ()) -> Family:
    """Return the family (kind of workload) that takes pods of DaemonSets in these namespaces, unless they ask for one
    of these resources or have a ResourceClaim.
    """

    def identify(pod: Pod, owners: Owners) -> GangId | None:
        if pod.metadata.namespace not in namespaces:
            return None
        made = next(iter(controllers(pod, owners)), None)
        asked = matching.pod_requests(pod.spec)
        has_devices = bool(pod.spec.resource_claims) or any(asked.get(name) for name in gpu_resources)
        return own_id(pod) if made is not None and made.is_a == DAEMON_SET and not has_devices else None

    return Family(
        name="DaemonSet",
        known_by="its owner is a DaemonSet, in a namespace of scheduler.daemonSetNamespaces",
        identify=identify,
        assemble=_assemble,
    )


FAMILY = family()
