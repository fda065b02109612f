"""Made-up families of three pods in two roles, told apart by labels. They show what a new family has to bring.

A trio starts together, one pod to a node. A band is numbered, its workers come when the leader runs, and they may share
nodes.
"""

from __future__ import annotations

from sunkpy.core.gang.families import FAMILIES
from sunkpy.core.gang.gang import Family, Gang, Member, Role, ranked
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.job.options import read_options

PLACES = {"leader": 1, "worker": 2}


def _identify(pod, owners):
    trio = pod.labels.get("example.com/trio")
    return GangId(namespace=pod.metadata.namespace, name=trio, uid=f"uid-of-{trio}") if trio else None


def _assemble(id, pods, owners):
    options, problems = read_options([("", min(pods, key=lambda pod: pod.name).annotations)])
    roles = tuple(_role(name, seats, pods) for name, seats in PLACES.items())
    return Gang(id=id, roles=roles, options=options, problems=problems, one_per_node=True)


def _role(name, seats, pods):
    own = sorted((pod for pod in pods if pod.labels["example.com/role"] == name), key=lambda pod: pod.name)
    members = tuple(Member(pod=pod, index=index) for index, pod in enumerate(own))
    return Role(name=name, seats=seats, first=seats, members=members)


TRIO = Family(name="trio", known_by="label example.com/band", identify=_identify, assemble=_assemble)
WITH_TRIO = (TRIO, *FAMILIES)


def _identify_band(pod, owners):
    band = pod.labels.get("example.com/band")
    return GangId(namespace=pod.metadata.namespace, name=band, uid=f"uid-of-{band}") if band else None


def _assemble_band(id, pods, owners):
    def role(name, seats, first):
        own = (pod for pod in pods if pod.labels["example.com/role"] == name)
        members = ranked(own, lambda pod: int(pod.labels["example.com/index"]))
        return Role(name=name, seats=seats, first=first, members=members)

    return Gang(id=id, roles=(role("leader", 1, 1), role("worker", 2, 0)), final_because="nobody restarts a band")


BAND = Family(name="band", known_by="label example.com/band", identify=_identify_band, assemble=_assemble_band)
WITH_BAND = (BAND, *WITH_TRIO)


def band_labels(role, index, band="band"):
    return {"example.com/band": band, "example.com/role": role, "example.com/index": str(index)}


def labels(role, trio="band"):
    return {"example.com/trio": trio, "example.com/role": role}
