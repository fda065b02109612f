"""A gang: pods that start together, as one Slurm job.

A *family* of workloads (`sunkpy.core.gang.families`) says which pods belong together. It has two functions: `identify`
finds the gang of one pod, as soon as the scheduler sees the pod; `assemble` makes the gang from all pods that exist.
The rest of the code knows gangs only, and no families.

A gang has *roles* (leader, worker …), and each role has a number of *seats*. Both come from the spec of the pods'
owner, not from the pods that exist now: the job also holds a seat for a pod that the owner makes only later. *Members*
are the pods that exist. `families.assemble` refuses a gang whose resource requests are no valid quantities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.job.options import Problem
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.objects import Key, Kind, KubeObject, Owner, OwnerReference, Pod, PodSpec
from sunkpy.core.placement.domains import HOSTNAME

_EXTRA, _APART = "extra-", "apart-"

ANY_SEAT = -1
"""The index of each member of a role whose family does not number the seats."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A pod of a role; `index` is the number of its seat in the role, from 0.

    Two members can have the same index: a pod that has ended or is being deleted, and the pod that replaces it.
    """

    pod: Pod
    index: int = ANY_SEAT


class Role(msgspec.Struct, frozen=True, kw_only=True):
    """Pods of one kind within a gang.

    Args:
        seats: how many pods of the role the job has room for, whether the pods exist or not.
        first: how many pods of the role must exist before the job is submitted; the owner makes the others later.
        members: the pods that exist, in rank order.
        elsewhere: pods with a seat in this role that became gangs of their own; their seats do not count as missing.
        shape: the owner's template for pods that do not exist yet; None: these will look like the members.
        decides: True if the exit codes of the role's pods become the job's. False for parameter servers, which end only
            when somebody stops them.
    """

    name: str
    seats: int
    first: int
    members: tuple[Member, ...]
    elsewhere: tuple[Member, ...] = ()
    shape: PodSpec | None = None
    decides: bool = True

    @property
    def present(self) -> int:
        """The number of the role's seats with a pod that has not failed and is not being deleted. Pods that became
        gangs of their own count, too.
        """
        pods = [m for m in (*self.members, *self.elsewhere) if not m.pod.is_deleting and m.pod.status.phase != "Failed"]
        numbered = {member.index for member in pods if member.index != ANY_SEAT}
        return len(numbered) + sum(member.index == ANY_SEAT for member in pods)

    @property
    def last_tries(self) -> list[Pod]:
        """The youngest pod of each numbered seat. If seats have no numbers: the youngest pods, as many as there are
        seats.
        """
        oldest_first = sorted(self.members, key=lambda m: (m.pod.metadata.creation_timestamp, m.pod.name))
        numbered = {member.index: member.pod for member in oldest_first if member.index != ANY_SEAT}
        others = [member.pod for member in oldest_first if member.index == ANY_SEAT]
        return [*numbered.values(), *others[-self.seats :]]


class Suspension(msgspec.Struct, frozen=True, kw_only=True):
    """An owner that can be suspended, and makes its pods again when it is resumed. Setting the field `path` of `owner`
    to true suspends it.
    """

    owner: Owner
    path: tuple[str, ...] = ("spec", "suspend")


class Gang(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that become one Slurm job.

    Args:
        kind: the gang's name in messages: `JobSet default/train`, stage `workers`.
        roles: in rank order, the leader's role first.
        one_per_node: True if each member needs a node of its own.
        one_domain: a node label whose value must be the same on all nodes of the job (`kubernetes.io/hostname`: all
            pods on one node); empty if there is no such label.
        expects_more: True if the owner will make more pods for this gang although all existing pods have ended.
        never_queues: True for pods of a DaemonSet: each is bound at once, without a job, to the node that its affinity
            names.
        final_because: why the owner does not replace evicted pods; empty if it does.
        suspension: how to suspend the owner instead of evicting its pods; None if it cannot be suspended.
        longest_grace_s: the namespace's limit for the grace period of pods whose job has lost the node; 0 if it has
            none.
        is_sized: False while the number of pods is unknown; the roles then have seats only for pods that exist.
    """

    id: GangId
    roles: tuple[Role, ...]
    options: JobSpec = JobSpec()
    problems: tuple[Problem, ...] = ()
    kind: str = ""
    one_per_node: bool = False
    one_domain: str = ""
    expects_more: bool = False
    never_queues: bool = False
    longest_grace_s: int = 0
    final_because: str = ""
    suspension: Suspension | None = None
    is_sized: bool = True

    @property
    def refused(self) -> str:
        """Why no job is submitted for the gang: its pods or its owner ask for something that cannot be done. Empty
        if a job may be submitted.
        """
        return "; ".join(str(problem) for problem in self.problems if problem.fatal)

    @property
    def members(self) -> tuple[Pod, ...]:
        """The gang's pods that exist, in rank order."""
        return tuple(member.pod for role in self.roles for member in role.members)

    @property
    def first_wave(self) -> tuple[Pod, ...]:
        """The pods of the roles that start first; all members if no such pod exists. Only the specs of these pods
        decide on which nodes the job may run, because a left-over pod of a later wave may have an outdated
        nodeSelector.
        """
        first = tuple(member.pod for role in self.roles if role.first for member in role.members)
        return first or self.members

    @property
    def named_hosts(self) -> dict[str, str]:
        """For each pod (by uid), the host name of the Kubernetes node that it names (nodeSelector). It is empty unless
        all pods name a node, and not all the same one.
        """
        if any(role.first < role.seats for role in self.roles):
            return {}
        hosts = {pod.uid: pod.spec.node_selector.get(HOSTNAME, "") for pod in self.members}
        return hosts if all(hosts.values()) and len(set(hosts.values())) > 1 else {}

    @property
    def seats(self) -> int:
        """The number of pods for which the job has room, over all roles."""
        return sum(role.seats for role in self.roles)

    @property
    def is_complete(self) -> bool:
        """True if all pods exist that must exist before the job is submitted. Pods that became gangs of their own
        count, too.
        """
        there = [(role, len(role.members) + len(role.elsewhere)) for role in self.roles]
        return any(count for _, count in there) and all(count >= role.first for role, count in there)

    @property
    def missing(self) -> str:
        """Say which pods of the first wave are missing: `2 of 4 pods (worker 1 of 3)`; empty if none is.

        Pods that have succeeded are not missing, and neither are pods with a job of their own.
        """
        have = [(role, min(role.present, role.first)) for role in self.roles]
        lacking = ", ".join(f"{role.name} {count} of {role.first}" for role, count in have if count < role.first)
        total, there = sum(role.first for role in self.roles), sum(count for _, count in have)
        return f"{total - there} of {total} pods ({lacking})" if lacking else ""

    @property
    def has_exit_code(self) -> bool:
        """True if pods of the gang can end by themselves. Pods of a service (restartPolicy Always) run until they are
        deleted.
        """
        specs = [*(pod.spec for pod in self.members), *(role.shape for role in self.roles)]
        return any(spec is not None and spec.restart_policy != "Always" for spec in specs)

    @property
    def has_succeeded(self) -> bool:
        """True if the last pod of each seat has succeeded. Only roles whose exit codes count (`Role.decides`) are
        asked, or all roles if no pod of these exists.
        """
        there = [role for role in self.roles if role.members]
        deciding = [role for role in there if role.decides] or there
        return all(pod.status.phase == "Succeeded" for role in deciding for pod in role.last_tries)


Owners = Sequence[Owner]
"""The objects above a pod that could be read: first its controllers, nearest first, then the objects that the pod names
in labels or annotations.
"""


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A reference from a pod to an object above it. With `uid` it means only the object with that uid; without, any
    object with this name.
    """

    kind: Kind
    namespace: str
    name: str
    uid: str = ""

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.namespace}/{self.name}"

    @classmethod
    def to(cls, reference: OwnerReference, namespace: str) -> Link:
        """Return the link for an owner reference of an object in this namespace."""
        group, _, _ = reference.api_version.rpartition("/")
        kind = Kind(group=group, kind=reference.kind)
        return cls(kind=kind, namespace=namespace, name=reference.name, uid=reference.uid)

    def leads_to(self, owner: KubeObject) -> bool:
        """True if `owner` has the uid of this link, or the link has no uid."""
        return self.uid in ("", owner.uid)

    @property
    def key(self) -> Key:
        """The namespace and name of the object that the link means."""
        return (self.namespace, self.name)

    def find_in(self, owners: Owners) -> Owner | None:
        """Return the object among `owners` that has the kind, namespace and name of this link; None if none has."""
        return next((owner for owner in owners if owner.is_a == self.kind and owner.key == self.key), None)


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of workload, such as JobSet or RayCluster.

    `assemble` gives a pod no seat if there are more pods than the owner's minimum, and the pods have no numbers. Such a
    pod becomes a gang of its own, with the unit `extra_unit(pod)`.

    Args:
        known_by: the label, annotation or owner by which a pod of this family is recognised, in words for people.
        identify: returns the gang of a pod, or None if the pod is not of this family. It reads only what cannot change
            during the pod's life.
        assemble: returns the gang as it is now, from at least one pod and the owners of the first pod.
        reads: kinds of owners of which the family needs more than metadata. A pod below such an owner waits until the
            owner was read.
        refers: returns links to the objects that a pod of this family names in labels or annotations.
    """

    name: str
    known_by: str
    identify: Callable[[Pod, Owners], GangId | None]
    assemble: Callable[[GangId, Sequence[Pod], Owners], Gang]
    reads: tuple[Kind, ...] = ()
    refers: Callable[[Pod], tuple[Link, ...]] = lambda _: ()


def with_pods(gang: Gang, pods: Mapping[str, Pod]) -> Gang | None:
    """Return the gang with each member replaced by the newer version of the same pod in `pods`, which is by uid. None
    if a member is not in `pods`.
    """
    if any(pod.uid not in pods for pod in gang.members):
        return None
    roles = (
        msgspec.structs.replace(
            role, members=tuple(msgspec.structs.replace(each, pod=pods[each.pod.uid]) for each in role.members)
        )
        for role in gang.roles
    )
    return msgspec.structs.replace(gang, roles=tuple(roles))


def extra_unit(pod: Pod) -> str:
    """Return the unit for the gang of a pod that is one more than its owner's gang has seats. Such a pod has a job of
    its own, so Slurm can preempt it alone.
    """
    return f"{_EXTRA}{pod.uid}"


def apart_unit(pod: Pod) -> str:
    """Return the unit for the gang of a pod that was set apart: the pod has a seat in its owner's gang, but the job of
    that gang has no room for it.
    """
    return f"{_APART}{pod.uid}"


def solo_pod(id: GangId) -> str:
    """Return the uid of the pod if this is a solo gang, with a unit of `extra_unit` or `apart_unit`; empty for other
    gangs.
    """
    prefix = next((prefix for prefix in (_EXTRA, _APART) if id.unit.startswith(prefix)), "")
    return id.unit.removeprefix(prefix) if prefix else ""


def is_apart(id: GangId) -> bool:
    """True if the gang is one pod for which the job of its owner's gang has no room (`apart_unit`)."""
    return id.unit.startswith(_APART)


def solo(id: GangId, pod: Pod, options: JobSpec, problems: tuple[Problem, ...] = ()) -> Gang:
    """Return a gang that has only this pod."""
    role = Role(name="pod", seats=1, first=1, members=(Member(pod=pod, index=0),))
    return Gang(id=id, roles=(role,), options=options, problems=problems, kind=f"Pod {id}")


def ranked(pods: Iterable[Pod], index_of: Callable[[Pod], int]) -> tuple[Member, ...]:
    """Return the members of a role whose seats are numbered, in the order of the numbers; `index_of` reads the number
    of a pod.
    """
    members = (Member(pod=pod, index=index_of(pod)) for pod in pods)
    return tuple(sorted(members, key=lambda member: (member.index, member.pod.metadata.creation_timestamp)))


def by_seniority(pods: Iterable[Pod], seats: int) -> tuple[Member, ...]:
    """Return the members of a role whose seats have no numbers: all pods that have ended, then at most `seats` others.
    Of these, bound pods come first, then the oldest.
    """
    pods = sorted(pods, key=lambda pod: (not pod.spec.node_name, pod.metadata.creation_timestamp, pod.name))
    over = [pod for pod in pods if pod.is_finished]
    living = [pod for pod in pods if not pod.is_finished]
    return tuple(Member(pod=pod) for pod in (*over, *living[:seats]))
