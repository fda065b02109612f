"""The families of workloads, one module each. The first that knows a pod has it; the last one takes every pod.

A new family is a module with its `FAMILY`, and one entry in `FAMILIES`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sunkpy.core.gang.families import jobset, lws, mpi_operator, paddlecloud, plain_pod, training_operator
from sunkpy.core.gang.gang import Family, Gang, Owners
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.objects import Pod

Families = Sequence[Family]

FAMILIES: Final[Families] = (
    jobset.FAMILY,
    lws.FAMILY,
    training_operator.FAMILY,
    mpi_operator.FAMILY,
    paddlecloud.FAMILY,
    plain_pod.FAMILY,
)


def identify(pod: Pod, owners: Owners = (), *, families: Families = FAMILIES) -> GangId:
    """The gang that a pod belongs to."""
    return _family_of(pod, owners, families)[1]


def assemble(id: GangId, pods: Sequence[Pod], owners: Owners = (), *, families: Families = FAMILIES) -> Gang:
    """The gang `id` as made of `pods`, of which there is at least one; all belong to it."""
    family, _ = _family_of(pods[0], owners, families)
    return family.assemble(id, pods, owners)


def _family_of(pod: Pod, owners: Owners, families: Families) -> tuple[Family, GangId]:
    for family in families:
        if (id := family.identify(pod, owners)) is not None:
            return family, id
    raise LookupError(f"no family takes pod {'/'.join(pod.key)}: the last one must take every pod")
