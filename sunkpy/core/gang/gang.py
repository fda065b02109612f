"""A gang: the pods for which one Slurm job holds the nodes. The pods of its first wave start together.

A *family* is a kind of workload (`sunkpy.core.gang.families`) and says which pods belong together. It has two
functions: `identify` finds the gang of one pod, as soon as the scheduler knows the pod and the objects above it;
`assemble` makes the gang from all its pods that exist. The rest of the code knows only gangs, not families.

A gang has *roles* (leader, worker …), and each role has a number of *seats*. A seat is room in the job for one pod.
Roles and seats are what the owner's spec or annotations declare, whichever pods exist now. So the job also holds a seat
for a pod that the owner makes only later. *Members* are the pods of the gang that exist. `families.assemble` gives a
gang a fatal problem if a resource request in it is not a valid quantity, so no job is submitted for such a gang.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, reduce
from operator import or_

import msgspec

from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.job.options import Problem
from sunkpy.core.gang.phases import is_over
from sunkpy.core.model.alike import one_of_each, template_of
from sunkpy.core.model.concerns import Concern, concerns_of
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.objects import Key, Kind, KubeObject, Owner, OwnerReference, Pod, PodSpec
from sunkpy.core.placement.domains import HOSTNAME

_EXTRA, _APART = "extra-", "apart-"

ANY_SEAT = -1
"""The index of each member of a role whose family does not number the seats."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """An existing pod of a gang. `index` is the number of the pod's seat (its room in the job) within its role, from 0;
    it is -1 (`ANY_SEAT`) if the seats of the role have no numbers.

    Two members can have the same index: a pod that has ended or is being deleted, and the pod that replaces it.
    """

    pod: Pod
    index: int = ANY_SEAT


class Role(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of one kind within a gang, such as its workers.

    Args:
        seats: how many pods of the role the job has room for, whether the pods exist or not.
        first: how many pods of the role must exist before the job is submitted; the owner makes the others later.
        members: the pods of the role that exist, in rank order.
        elsewhere: existing pods that have a seat in this role but became gangs of their own; their seats do not count
            as missing.
        shape: the spec, from the owner's template, of the pods that do not exist yet. None: such pods are taken to look
            like the members.
        decides: True if the exit codes of the role's pods decide the exit code of the job. False, for example, for
            parameter servers, which end only when somebody stops them.
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
        """How many seats of the role have a pod that has not failed and is not being deleted. Pods that became gangs of
        their own (`elsewhere`) count, too.
        """
        pods = [m for m in (*self.members, *self.elsewhere) if not m.pod.is_deleting and m.pod.status.phase != "Failed"]
        numbered = {member.index for member in pods if member.index != ANY_SEAT}
        return len(numbered) + sum(member.index == ANY_SEAT for member in pods)

    @property
    def last_tries(self) -> list[Pod]:
        """For each numbered seat of the role, the pod that was created last for it: a failed pod may have a
        replacement. Of the pods without a number, the youngest, as many as the role has seats.
        """
        oldest_first = sorted(self.members, key=lambda m: (m.pod.metadata.creation_timestamp, m.pod.name))
        numbered = {member.index: member.pod for member in oldest_first if member.index != ANY_SEAT}
        others = [member.pod for member in oldest_first if member.index == ANY_SEAT]
        return [*numbered.values(), *others[-self.seats :]]


class Suspension(msgspec.Struct, frozen=True, kw_only=True):
    """How to suspend the workload object that owns the pods of a gang, such as a Job: by setting the field `path` of
    `owner` to true. The object's controller then deletes the pods, and makes new ones when the object is resumed.
    """

    owner: Owner
    path: tuple[str, ...] = ("spec", "suspend")


class Gang(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A gang: the pods for which one Slurm job holds the nodes.

    Args:
        options: what annotations on the pods and their owners ask of the job, such as a partition.
        problems: faults in annotations or specs; with a fatal one, no job is submitted for pods without a node.
        kind: the name of the gang in messages: `JobSet default/train, stage workers`.
        roles: in rank order, the leader's role first.
        one_per_node: True if each pod needs a node of its own.
        one_domain: a node label whose value must be the same on all nodes of the job (`kubernetes.io/hostname`: all
            pods on one node); empty if there is no such label.
        expects_more: True if the owner may make more pods for this gang after all existing pods have ended.
        never_queues: True for pods of a DaemonSet: each is bound at once, without a job, to the node that its affinity
            names.
        final_because: why the owner does not replace evicted pods; empty if it does, or if that is not known.
        suspension: how to suspend the owner instead of evicting its pods; None if the owner cannot or must not be
            suspended.
        longest_grace_s: the namespace's limit, in seconds, for the grace period of pods whose job has lost the node; 0
            if the namespace sets no limit.
        is_sized: False while it is unknown how many pods the gang has; its roles then have seats only for the pods that
            exist.
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
        """The fatal problems of the gang in words: what its pods or its owner ask for that cannot be done. While there
        are some, no job is submitted for pods without a node. Empty if there are none.
        """
        return "; ".join(str(problem) for problem in self.problems if problem.fatal)

    @property
    def members(self) -> tuple[Pod, ...]:
        """The gang's pods that exist, in rank order."""
        return tuple(member.pod for role in self.roles for member in role.members)

    @property
    def named_specs(self) -> list[tuple[str, PodSpec]]:
        """All pod specs of the gang, each with a name for messages: the specs of the existing pods, of which equal ones
        appear once, and the template of each role that has one.
        """
        there = [(f"pod {pod.name}", pod.spec) for pod in one_of_each(self.members, lambda pod: template_of(pod.spec))]
        return there + [(f"role {role.name}", role.shape) for role in self.roles if role.shape is not None]

    @cached_property
    def concerns(self) -> Concern:
        """The concerns of all pods of the gang, also of those that do not exist yet: what they ask for besides CPUs,
        memory and a node with the right labels.
        """
        return reduce(or_, {concerns_of(spec) for spec in self._all_specs}, Concern.NONE)

    @property
    def _all_specs(self) -> list[PodSpec]:
        shapes = [role.shape for role in self.roles if role.shape is not None]
        return shapes + [pod.spec for pod in self.members]

    @property
    def first_wave(self) -> tuple[Pod, ...]:
        """The existing pods of the roles that must have pods before the job is submitted; all existing pods if there
        are none of these, or all of these have ended. Pods that have ended are not among them, unless all have. Of the
        existing pods, only these decide on which nodes the job may run: a pod of a later role may be left over from an
        earlier start and have an outdated nodeSelector.
        """
        first = tuple(member.pod for role in self.roles if role.first for member in role.members)
        return _not_over(first) or _not_over(self.members) or first or self.members

    @property
    def named_hosts(self) -> dict[str, str]:
        """The host name that each pod demands of its Kubernetes node, by pod uid (nodeSelector
        `kubernetes.io/hostname`). Empty if some pod demands none, if all pods demand the same one, or if some pods are
        made only after the job was submitted.
        """
        if any(role.first < role.seats for role in self.roles):
            return {}
        hosts = {pod.uid: pod.spec.node_selector.get(HOSTNAME, "") for pod in self.members}
        return hosts if all(hosts.values()) and len(set(hosts.values())) > 1 else {}

    @property
    def seats(self) -> int:
        """The number of pods for which the gang's job must have room, over all roles, whether the pods exist or not."""
        return sum(role.seats for role in self.roles)

    @property
    def is_complete(self) -> bool:
        """True if as many pods exist in each role as must exist before the job is submitted. Pods that became gangs of
        their own count, too. False if the gang has no pods at all.
        """
        there = [(role, len(role.members) + len(role.elsewhere)) for role in self.roles]
        return any(count for _, count in there) and all(count >= role.first for role, count in there)

    @property
    def missing(self) -> str:
        """Say how many of the pods are missing that must exist before the job is submitted; empty if none is missing.
        `2 of 4 pods (worker 1 of 3)`: 2 of 4 pods are missing, and 1 of 3 workers exists.

        Pods that have succeeded are not missing, and neither are pods with a job of their own. Failed pods and pods
        that are being deleted are missing.
        """
        have = [(role, min(role.present, role.first)) for role in self.roles]
        lacking = ", ".join(f"{role.name} {count} of {role.first}" for role, count in have if count < role.first)
        total, there = sum(role.first for role in self.roles), sum(count for _, count in have)
        return f"{total - there} of {total} pods ({lacking})" if lacking else ""

    @property
    def has_exit_code(self) -> bool:
        """True if some pods of the gang can end by themselves and so give the job an exit code. False for a service,
        whose pods (restartPolicy Always) run until they are deleted.
        """
        specs = [*(pod.spec for pod in self.members), *(role.shape for role in self.roles)]
        return any(spec is not None and spec.restart_policy != "Always" for spec in specs)

    @property
    def has_succeeded(self) -> bool:
        """True if the gang's work has succeeded: for each seat, the pod that was created last has succeeded. Only the
        roles whose exit codes count (`Role.decides`) are looked at, or all roles if no pod of these exists.
        """
        there = [role for role in self.roles if role.members]
        deciding = [role for role in there if role.decides] or there
        return all(pod.status.phase == "Succeeded" for role in deciding for pod in role.last_tries)


Owners = Sequence[Owner]
"""The objects above a pod that could be read: first its controllers, nearest first, then the objects that the pod names
in its labels, annotations or spec.
"""


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A reference to an object above a pod: an owner, or an object that the pod names. If `uid` is set, only the object
    with that uid is meant; if it is empty, any object with this kind, namespace and name.
    """

    kind: Kind
    namespace: str
    name: str
    uid: str = ""

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.namespace}/{self.name}"

    @classmethod
    def to(cls, reference: OwnerReference, namespace: str) -> Link:
        """Return the link that points to the owner in an owner reference. `namespace` is that of the object with the
        reference.
        """
        group, _, _ = reference.api_version.rpartition("/")
        kind = Kind(group=group, kind=reference.kind)
        return cls(kind=kind, namespace=namespace, name=reference.name, uid=reference.uid)

    def leads_to(self, owner: KubeObject) -> bool:
        """True if the uid of `owner` is that of this link, or this link has no uid. Kind and name are not compared."""
        return self.uid in ("", owner.uid)

    @property
    def key(self) -> Key:
        """The namespace and the name of the object to which this link points."""
        return (self.namespace, self.name)

    def find_in(self, owners: Owners) -> Owner | None:
        """Return the first of `owners` that has the kind, namespace and name of this link; None if none has. The uid is
        not compared.
        """
        return next((owner for owner in owners if owner.is_a == self.kind and owner.key == self.key), None)


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of workload, such as JobSet or RayCluster, with the functions that find and make its gangs (a gang is the
    pods for which one Slurm job holds the nodes).

    If there are more pods than the gang has seats (room in its job), `assemble` leaves the surplus pods out of the
    gang. Each of them that has no node soon becomes a gang of its own, with the `GangId.unit` that `extra_unit(pod)`
    returns.

    Args:
        known_by: the label, annotation or owner by which a pod of this family is recognised, in words for people.
        identify: returns the identity of the pod's gang, or None if the pod is not of this family. The scheduler keeps
            the first answer: later changes of the pod or its owners do not move it to another gang.
        assemble: returns the gang as it is now, from at least one pod and the owners of the first pod.
        reads: kinds of owners of which the family needs more than metadata. A pod below such an owner waits until the
            owner was read, or is known to be gone.
        refers: returns links to the objects that a pod of this family names in its labels, its annotations or its spec.
    """

    name: str
    known_by: str
    identify: Callable[[Pod, Owners], GangId | None]
    assemble: Callable[[GangId, Sequence[Pod], Owners], Gang]
    reads: tuple[Kind, ...] = ()
    refers: Callable[[Pod], tuple[Link, ...]] = lambda _: ()


def with_pods(gang: Gang, pods: Mapping[str, Pod]) -> Gang | None:
    """Return the gang with each of its pods replaced by the version of the same pod in `pods` (uid → pod). None if
    `pods` lacks a pod of the gang.
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
    """Return the `GangId.unit` of a surplus pod: its gang has more pods than seats (room in the job). Such a pod
    becomes a gang of its own with a job of its own, so Slurm can preempt it alone.
    """
    return f"{_EXTRA}{pod.uid}"


def apart_unit(pod: Pod) -> str:
    """Return the `GangId.unit` of a pod that was taken out of its gang and became a gang of its own. The former gang
    has a seat for the pod, but its Slurm job cannot serve the pod: for example, the job has no room for it, or does not
    have its node.
    """
    return f"{_APART}{pod.uid}"


def solo_pod(id: GangId) -> str:
    """Return the uid of the single pod of this gang, if the pod belongs to a larger workload but has a job of its own
    (the gang's unit is one of `extra_unit` or `apart_unit`). Empty for all other gangs.
    """
    prefix = next((prefix for prefix in (_EXTRA, _APART) if id.unit.startswith(prefix)), "")
    return id.unit.removeprefix(prefix) if prefix else ""


def is_apart(id: GangId) -> bool:
    """True if the gang is a single pod that was taken out of another gang, because the job of that gang could not serve
    it (the unit is one of `apart_unit`).
    """
    return id.unit.startswith(_APART)


def solo(id: GangId, pod: Pod, options: JobSpec, problems: tuple[Problem, ...] = ()) -> Gang:
    """Return a gang that has this pod as its only pod, in one role with one seat."""
    role = Role(name="pod", seats=1, first=1, members=(Member(pod=pod, index=0),))
    return Gang(id=id, roles=(role,), options=options, problems=problems, kind=f"Pod {id}")


def ranked(pods: Iterable[Pod], index_of: Callable[[Pod], int]) -> tuple[Member, ...]:
    """Return the pods as members of a role whose seats are numbered, the lowest number first. `index_of` returns the
    number of a pod's seat.
    """
    members = (Member(pod=pod, index=index_of(pod)) for pod in pods)
    return tuple(sorted(members, key=lambda member: (member.index, member.pod.metadata.creation_timestamp)))


def by_seniority(pods: Iterable[Pod], seats: int) -> tuple[Member, ...]:
    """Return the pods as members of a role whose seats have no numbers: all pods that have finished, then at most
    `seats` others. Of the others, bound pods come first, then the oldest; pods beyond `seats` are left out.
    """
    pods = sorted(pods, key=lambda pod: (not pod.spec.node_name, pod.metadata.creation_timestamp, pod.name))
    over = [pod for pod in pods if pod.is_finished]
    living = [pod for pod in pods if not pod.is_finished]
    return tuple(Member(pod=pod) for pod in (*over, *living[:seats]))


def _not_over(pods: tuple[Pod, ...]) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if not is_over(pod))
