"""A made-up family: three pods in two roles, told apart by labels. It shows what a new family has to bring."""

from __future__ import annotations

from sunkpy.core.gang.families import FAMILIES
from sunkpy.core.gang.gang import Family, Gang, Member, Role
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.options import read_options

PLACES = {"leader": 1, "worker": 2}


def _identify(pod, owners):
    trio = pod.labels.get("example.com/trio")
    return GangId(namespace=pod.metadata.namespace, name=trio, uid=f"uid-of-{trio}") if trio else None


def _assemble(id, pods, owners):
    options, problems = read_options([min(pods, key=lambda pod: pod.name).annotations])
    roles = tuple(_role(name, places, pods) for name, places in PLACES.items())
    return Gang(id=id, roles=roles, options=options, problems=problems, one_per_node=True)


def _role(name, places, pods):
    own = sorted((pod for pod in pods if pod.labels["example.com/role"] == name), key=lambda pod: pod.name)
    members = tuple(Member(pod=pod, index=index) for index, pod in enumerate(own))
    return Role(name=name, places=places, first=places, members=members)


TRIO = Family(name="trio", identify=_identify, assemble=_assemble)
WITH_TRIO = (TRIO, *FAMILIES)


def labels(role, trio="band"):
    return {"example.com/trio": trio, "example.com/role": role}
