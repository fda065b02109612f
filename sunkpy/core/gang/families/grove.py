"""The family of PodCliqueSets of NVIDIA Grove, which Dynamo writes for disaggregated inference: one gang for each
PodGang.

Each replica of a PodCliqueSet has PodCliques, which make the pods, and PodCliqueScalingGroups, each replica of which
has some PodCliques of its own. Grove declares as PodGangs what starts together. Each replica of the set has a base
PodGang, of `minAvailable` pods of each PodClique and `minAvailable` replicas of each scaling group; each further
replica of a scaling group has a PodGang, too. This module reads the PodGang, not the PodCliqueSet: the PodGang has the
minimum of each PodClique, and the topology domains as node labels. A label on the pods names the PodGang. The uid of
the PodCliqueSet tells the PodGang from one of an earlier set with the same name.

All pods exist at once. Grove removes its scheduling gate from the pods of a PodGang when the PodGang lists them all;
for a further replica of a scaling group also the base PodGang must have nodes. Any scheduler may bind the pods, but
Grove makes no pods for a scheduler that is not in its profiles. In an init container, bound pods wait for PodCliques
that must start earlier. Pods beyond `minAvailable` of a PodClique get jobs of their own.

A pod that is made again gets the lowest free number of its PodClique. An update and `terminationDelay` replace whole
PodCliques. An update replaces one PodClique after another, while the others serve and wait for the new pods, so the
gangs of a PodCliqueSet have no generation (the part of an identity that tells restarts apart).

Source: Grove v0.1.0-alpha.12-rc1, scheduler/api/core/v1alpha1/podgang.go, operator/api/common/labels.go,
operator/internal/controller/podclique/components/pod/{pod,syncflow,rollingupdate}.go (buildResource, gates),
operator/internal/controller/podcliqueset/components/podgang/syncflow.go (what is in which PodGang),
operator/internal/controller/podcliqueset/components/podcliquesetreplica/gangterminate.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from sunkpy.core.gang.families import declaration
from sunkpy.core.gang.families.belonging import made_by, named_id
from sunkpy.core.gang.families.declaration import BadDeclaration
from sunkpy.core.gang.gang import Family, Gang, Link, Member, Owners, Role, by_seniority
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.job.options import Problem
from sunkpy.core.model.objects import Kind, Owner, Pod, Wire

POD_CLIQUE_SET: Final = Kind(group="grove.io", kind="PodCliqueSet")
POD_CLIQUE: Final = Kind(group="grove.io", kind="PodClique")
POD_GANG: Final = Kind(group="scheduler.grove.io", kind="PodGang")

GANG: Final = "grove.io/podgang"
CLIQUE: Final = "grove.io/podclique"
INDEX: Final = "grove.io/podclique-pod-index"


class _Pack(Wire, frozen=True, kw_only=True):
    """A constraint of Grove on where pods are packed: all on nodes with the same value of the node label whose key is
    `required`. Preferred constraints are not read.
    """

    required: str = ""


class _Topology(Wire, frozen=True, kw_only=True):
    pack_constraint: _Pack = _Pack()


class _Group(Wire, frozen=True, kw_only=True):
    """A PodClique in the spec of a PodGang: its name, how many of its pods must start together, and its constraint on
    topology.
    """

    name: str
    min_replicas: int = 0
    topology_constraint: _Topology = _Topology()


class _Part(Wire, frozen=True, kw_only=True):
    """A set of PodCliques in the spec of a PodGang (those of one replica of a scaling group), and a constraint on
    topology that holds for them together.
    """

    pod_group_names: tuple[str, ...] = ()
    topology_constraint: _Topology = _Topology()


class _Spec(Wire, frozen=True, kw_only=True):
    groups: tuple[_Group, ...] = msgspec.field(default=(), name="podgroups")
    topology_constraint: _Topology = _Topology()
    topology_constraint_group_configs: tuple[_Part, ...] = ()


def _identify(pod: Pod, owners: Owners) -> GangId | None:
    if not _is_in_a_gang(pod):
        return None
    id = named_id(pod, GANG, pod.labels[GANG])
    whole = made_by(pod, POD_CLIQUE_SET, owners)
    return msgspec.structs.replace(id, uid=whole.uid) if whole else id


def _is_in_a_gang(pod: Pod) -> bool:
    return bool(pod.labels.get(GANG)) and made_by(pod, POD_CLIQUE) is not None


def _refers(pod: Pod) -> tuple[Link, ...]:
    return (Link(kind=POD_GANG, namespace=pod.metadata.namespace, name=pod.labels[GANG]),) if _is_in_a_gang(pod) else ()


def _assemble(id: GangId, pods: Sequence[Pod], owners: Owners) -> Gang:
    called = f"PodGang {id.namespace}/{id.name}"
    declares = declaration.required(owners, POD_GANG, called=called)
    spec = declaration.declared(declares, _Spec)
    groups = declaration.few(spec.groups, field=f"{called}: spec.podgroups")
    if len({group.name for group in spec.groups}) < len(spec.groups):
        raise BadDeclaration(f"{called}: spec.podgroups names a PodClique twice")
    domain, problems = _domain(spec)
    whole = made_by(pods[0], POD_CLIQUE_SET, owners)
    gang = Gang(
        id=id,
        roles=tuple(_role(group, pods, declares) for group in groups),
        kind=f"PodCliqueSet {id.namespace}/{whole.name}, PodGang {id.name}" if whole else called,
        one_domain=domain,
        expects_more=not any(each.is_deleting for each in owners if each.is_a in (POD_GANG, POD_CLIQUE_SET)),
        problems=problems,
    )
    return declaration.make(gang, owners)


def _role(group: _Group, pods: Sequence[Pod], declares: Owner) -> Role:
    own = [pod for pod in pods if pod.labels.get(CLIQUE) == group.name]
    seats = declaration.count(declares, f"spec.podgroups[{group.name}].minReplicas", group.min_replicas)
    return Role(name=group.name, seats=seats, first=seats, members=_seated(own, seats))


def _seated(pods: Sequence[Pod], seats: int) -> tuple[Member, ...]:
    """Return the pods of a PodClique that have a seat in the gang: those whose number is below `seats`. If a pod has no
    number (Grove before 0.1.0-alpha.8), bound pods and then the oldest have the seats.
    """
    if all(_index(pod) >= 0 for pod in pods):
        return declaration.numbered(pods, _index, seats)
    return by_seniority(pods, seats)


def _index(pod: Pod) -> int:
    return declaration.ordinal(pod.labels.get(INDEX))


def _domain(spec: _Spec) -> tuple[str, tuple[Problem, ...]]:
    """Return the node label whose value must be the same on all nodes of the gang (empty if there is none). Also return
    a fatal problem for each constraint on only a part of the gang, because Slurm cannot keep it.
    """
    everyone = frozenset(group.name for group in spec.groups)
    asked = [
        *((frozenset((group.name,)), group.topology_constraint) for group in spec.groups),
        *(
            (frozenset(part.pod_group_names), part.topology_constraint)
            for part in spec.topology_constraint_group_configs
        ),
        (everyone, spec.topology_constraint),
    ]
    required = [(names, topology.pack_constraint.required) for names, topology in asked]
    domain = next((label for names, label in required if label and names >= everyone), "")
    parts = [(names, label) for names, label in required if label not in ("", domain) and not names >= everyone]
    return domain, tuple(_refused(", ".join(sorted(names)), label) for names, label in parts)


def _refused(cliques: str, label: str) -> Problem:
    within = f"its PodCliques {cliques} must be within one {label}"
    return Problem(text=f"{within}: Slurm can keep the whole job within one, and no part of it", fatal=True)


FAMILY = Family(
    name="Grove",
    known_by="its owner is a PodClique of grove.io, label grove.io/podgang",
    identify=_identify,
    assemble=_assemble,
    reads=(POD_GANG,),
    refers=_refers,
)
