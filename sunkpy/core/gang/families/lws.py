"""The family of LeaderWorkerSets: one gang for each group, which is a leader and its workers.

The leader is made first. Its workers are made at once after it, or when the leader is Ready (startupPolicy
LeaderReady), or when the leader is bound (exclusive topology). Exclusive topology keeps the pods of a group on nodes of
one topology domain, and other groups away from this domain. If subgroups each need a domain of their own, the gang is
refused. The leader's pod owns the workers' StatefulSet. A group that is made again has another leader. The leader's uid
is the generation of the gang (the part of its identity that tells restarts apart). The label group-key cannot be the
generation, because it is a hash of the leader's name.

Sources: lws v0.7.0 api/leaderworkerset/v1/leaderworkerset_types.go, pkg/controllers/pod_controller.go (Reconcile,
handleRestartPolicy), pkg/webhooks/pod_webhook.go (Default, genGroupUniqueKey).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sunkpy.core.gang.families import declaration
from sunkpy.core.gang.families.belonging import made_by, nearest
from sunkpy.core.gang.families.declaration import BadDeclaration, ordinal
from sunkpy.core.gang.gang import Family, Gang, Link, Owners, Role
from sunkpy.core.gang.identity import GangId, token
from sunkpy.core.gang.job.options import Problem
from sunkpy.core.model.objects import Kind, Pod, Wire

LWS: Final = Kind(group="leaderworkerset.x-k8s.io", kind="LeaderWorkerSet")
STATEFUL_SET: Final = Kind(group="apps", kind="StatefulSet")
POD: Final = Kind(group="", kind="Pod")

NAME: Final = "leaderworkerset.sigs.k8s.io/name"
GROUP: Final = "leaderworkerset.sigs.k8s.io/group-index"
GROUP_KEY: Final = "leaderworkerset.sigs.k8s.io/group-key"
WORKER: Final = "leaderworkerset.sigs.k8s.io/worker-index"
SIZE: Final = "leaderworkerset.sigs.k8s.io/size"
EXCLUSIVE: Final = "leaderworkerset.sigs.k8s.io/exclusive-topology"
SUBGROUP_EXCLUSIVE: Final = "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology"
SUBGROUP_SIZE: Final = "leaderworkerset.sigs.k8s.io/subgroup-size"


class _LeaderWorkerTemplate(Wire, frozen=True, kw_only=True):
    size: int = 1
    leader_template: declaration.Template | None = None
    worker_template: declaration.Template = declaration.Template()


class _Spec(Wire, frozen=True, kw_only=True):
    leader_worker_template: _LeaderWorkerTemplate = _LeaderWorkerTemplate()
    startup_policy: str = "LeaderCreated"


def _identify(pod: Pod, owners: Owners) -> GangId | None:
    if not pod.labels.get(NAME) or not pod.labels.get(GROUP_KEY) or WORKER not in pod.labels:
        return None
    if made_by(pod, STATEFUL_SET) is None:
        return None
    lws = nearest(owners, LWS)
    return GangId(
        namespace=pod.metadata.namespace,
        name=token(pod.labels[NAME]),
        uid=lws.uid if lws else token(pod.labels[GROUP_KEY]),
        unit=token(f"group-{pod.labels.get(GROUP, '')}"),
        generation=token(_leader_uid(pod, owners)),
    )


def _leader_uid(pod: Pod, owners: Owners) -> str:
    if _is_leader(pod):
        return pod.uid
    leader = made_by(pod, POD, owners)
    return leader.uid if leader else ""


def _is_leader(pod: Pod) -> bool:
    return pod.labels.get(WORKER) == "0"


def _refers(pod: Pod) -> tuple[Link, ...]:
    name = pod.labels.get(NAME)
    return (Link(kind=LWS, namespace=pod.metadata.namespace, name=name),) if name and GROUP_KEY in pod.labels else ()


def _assemble(id: GangId, pods: Sequence[Pod], owners: Owners) -> Gang:
    lws = nearest(owners, LWS)
    spec = declaration.declared(lws, _Spec) if lws else _Spec()
    template = spec.leader_worker_template
    domain = pods[0].annotations.get(EXCLUSIVE, "")
    workers = _size(id, pods, template.size if lws else None) - 1
    leaders = [pod for pod in pods if _is_leader(pod)]
    roles = (
        Role(name="leader", seats=1, first=1, members=declaration.numbered(leaders, _index, 1)),
        Role(
            name="worker",
            seats=workers,
            first=0 if domain or spec.startup_policy == "LeaderReady" else workers,
            members=declaration.numbered(pods, lambda pod: _index(pod) - 1, workers),
        ),
    )
    gang = Gang(
        id=id,
        roles=(roles[0], declaration.waiting_role(roles[1], template.worker_template)),
        kind=f"LeaderWorkerSet {id.namespace}/{id.name}, {id.unit.replace('-', ' ')}",
        one_domain=domain,
        # A worker is made again as long as its leader exists; a new leader begins a new generation.
        expects_more=lws is not None and not lws.is_deleting and any(not pod.is_deleting for pod in leaders),
        problems=_refused(pods[0], workers),
    )
    return declaration.make(gang, owners)


def _refused(pod: Pod, workers: int) -> tuple[Problem, ...]:
    """Return a fatal problem if the group is divided into subgroups that each need a topology domain of their own;
    empty if not. The leader has the same annotations as its workers, so this is known before the workers exist.
    """
    topology, size = pod.annotations.get(SUBGROUP_EXCLUSIVE, ""), ordinal(pod.annotations.get(SUBGROUP_SIZE))
    # If all workers are one subgroup, with the leader in it or not, one domain is enough.
    if not topology or not 0 < size < workers:
        return ()
    text = f"its subgroups of {size} pods must have a {topology} each: Slurm can only keep the whole job within one"
    return (Problem(text=text, fatal=True),)


def _index(pod: Pod) -> int:
    return ordinal(pod.labels.get(WORKER))


def _size(id: GangId, pods: Sequence[Pod], declared: int | None) -> int:
    """Return how many pods a group of a LeaderWorkerSet has, as its pods say; if they do not say it, as the
    LeaderWorkerSet says (`declared`). During a rolling update, the LeaderWorkerSet already has the size of the new
    groups.

    Raises:
        BadDeclaration: neither the pods nor the LeaderWorkerSet say a number above 0.
    """
    where = f"LeaderWorkerSet {id.namespace}/{id.name}: the size of {id.unit.replace('-', ' ')} is"
    text = next((pod.annotations[SIZE] for pod in pods if SIZE in pod.annotations), str(declared))
    size = ordinal(text)
    if size < 1:
        raise BadDeclaration(f"{where} {text[:20]!r}, and must be a number above 0")
    return size


FAMILY = Family(
    name="LeaderWorkerSet",
    known_by="labels leaderworkerset.sigs.k8s.io/…",
    identify=_identify,
    assemble=_assemble,
    reads=(LWS, STATEFUL_SET),
    refers=_refers,
)
