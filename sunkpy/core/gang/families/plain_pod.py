"""A pod that nothing declares to belong with others: a gang of one, under its own name and uid."""

from __future__ import annotations

from collections.abc import Sequence

from sunkpy.core.gang.gang import Family, Gang, Owners, solo
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.options import read_options
from sunkpy.core.model.objects import Pod


def _identify(pod: Pod, _owners: Owners) -> GangId:
    return GangId(namespace=pod.metadata.namespace, name=pod.name, uid=pod.uid)


def _assemble(id: GangId, pods: Sequence[Pod], owners: Owners) -> Gang:
    options, problems = read_options([pods[0].annotations, *(owner.annotations for owner in owners)])
    return solo(id, pods[0], options, problems)


FAMILY = Family(name="plain pod", identify=_identify, assemble=_assemble)
