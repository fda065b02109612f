"""A made-up family: three pods in two roles, told apart by labels. It shows what a new family has to bring."""

from __future__ import annotations

from sunkpy.core.gang.families import FAMILIES
from sunkpy.core.gang.gang import Family, Gang
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.options import read_options

SIZE = 3
ROLES = ("leader", "worker")


def _identify(pod, owners):
    trio = pod.labels.get("example.com/trio")
    return GangId(namespace=pod.metadata.namespace, name=trio, uid=f"uid-of-{trio}") if trio else None


def _assemble(id, pods, owners):
    ranked = sorted(pods, key=lambda pod: (ROLES.index(pod.labels["example.com/role"]), pod.name))
    options, problems = read_options([ranked[0].annotations])
    return Gang(id=id, members=tuple(ranked), minimum=SIZE, options=options, problems=problems)


TRIO = Family(name="trio", identify=_identify, assemble=_assemble)
WITH_TRIO = (TRIO, *FAMILIES)


def labels(role, trio="band"):
    return {"example.com/trio": trio, "example.com/role": role}
