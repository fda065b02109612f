"""A pod of a DaemonSet: it belongs on the one node that its affinity names, at once and without a job.

That such a pod names Slurm as its scheduler is a mistake or the default of a namespace. It must not stand still for it:
the node may need the daemon, and a job would take room from all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from sunkpy.core.gang.families.belonging import made_by
from sunkpy.core.gang.families.plain_pod import alone, own_id
from sunkpy.core.gang.gang import Family, Gang, Owners
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.objects import Kind, Pod

DAEMON_SET: Final = Kind(group="apps", kind="DaemonSet")


def _identify(pod: Pod, _owners: Owners) -> GangId | None:
    return own_id(pod) if made_by(pod, DAEMON_SET) is not None else None


def _assemble(id: GangId, pods: Sequence[Pod], owners: Owners) -> Gang:
    return msgspec.structs.replace(alone(id, pods[0], owners), never_queues=True)


FAMILY = Family(name="DaemonSet", known_by="its owner is a DaemonSet", identify=_identify, assemble=_assemble)
