"""The families of workloads, one module each. The first that knows a pod has it; the last one takes every pod.

A new family is a module with its `FAMILY`, and one entry in `FAMILIES`. Their order says who is believed: what must
never queue, what a person wrote on the pods, the kinds whose owners declare sizes, groups by name (whose counts are
sometimes copied from an owner, and wrong), then pods that stand for themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from sunkpy.core.gang.families import (
    annotated,
    argo_workflow,
    armada,
    batch_job,
    daemon_set,
    generic,
    jobset,
    kueue,
    lws,
    mpi_operator,
    native_group,
    paddlecloud,
    plain_pod,
    pod_group,
    ray,
    spark,
    training_operator,
    volcano,
    yunikorn,
)
from sunkpy.core.gang.families.grouping import top, unsized
from sunkpy.core.gang.gang import Family, Gang, Owners, extra_unit
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.objects import Pod

Families = Sequence[Family]

FAMILIES: Final[Families] = (
    daemon_set.FAMILY,
    annotated.FAMILY,
    jobset.FAMILY,
    lws.FAMILY,
    training_operator.FAMILY,
    mpi_operator.FAMILY,
    paddlecloud.FAMILY,
    ray.FAMILY,
    spark.FAMILY,
    volcano.FAMILY,
    native_group.FAMILY,
    pod_group.FAMILY,
    volcano.POD_GROUP_FAMILY,
    kueue.FAMILY,
    yunikorn.FAMILY,
    armada.FAMILY,
    argo_workflow.FAMILY,
    batch_job.FAMILY,
    plain_pod.FAMILY,
)
_FIRST: Final = FAMILIES.index(annotated.FAMILY) + 1


def with_workloads(rules: Sequence[generic.WorkloadRule]) -> Families:
    """The families, and those that an admin described: believed before all but what people wrote on the pods."""
    return (*FAMILIES[:_FIRST], *(generic.family(rule) for rule in rules), *FAMILIES[_FIRST:])


def identify(pod: Pod, owners: Owners = (), *, families: Families = FAMILIES) -> GangId:
    """The gang that a pod belongs to."""
    return _family_of(pod, owners, families)[1]


def family_of(pod: Pod, owners: Owners = (), *, families: Families = FAMILIES) -> Family:
    """The family that takes a pod."""
    return _family_of(pod, owners, families)[0]


def assemble(id: GangId, pods: Sequence[Pod], owners: Owners = (), *, families: Families = FAMILIES) -> Gang:
    """The gang `id` as made of `pods`, of which there is at least one; all belong to it.

    An owner that does not look as its kind should gives a gang that is refused, and says so.
    """
    if id.unit == extra_unit(pods[0]):
        return plain_pod.alone(id, pods[0], owners)
    family, _ = _family_of(pods[0], owners, families)
    try:
        return family.assemble(id, pods, owners)
    except (msgspec.ValidationError, RecursionError) as error:
        what = top(pods[0], owners) or f"{family.name} {id}"
        return unsized(id, pods, owners, kind=what, why=f"{what} cannot be read: {error}")


def _family_of(pod: Pod, owners: Owners, families: Families) -> tuple[Family, GangId]:
    for family in families:
        if (id := family.identify(pod, owners)) is not None:
            return family, id
    raise LookupError(f"no family takes pod {'/'.join(pod.key)}: the last one must take every pod")
