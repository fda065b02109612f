"""A pod of a DaemonSet: it belongs on the one node that its affinity names, at once and without a job.

That such a pod names Slurm as its scheduler is a mistake or the default of a namespace. It must not stand still for it:
the node may need the daemon, and a job would take room from all others.

Whoever makes a pod writes its reference to an owner, and a job is what limits people. So the DaemonSet must be there,
under the uid of the reference, and in a namespace that an admin lists. Slurm shares out GPUs, and others it gives them
to must not lose them: a pod that asks for one is none of these. All that is not so is a pod like others, with a job.
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
    """The family of pods of DaemonSets in these namespaces, if they ask for none of these resources."""

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
