"""A gang: pods that start together, as one Slurm job.

Which pods belong together is the business of a *family* of workloads (`sunkpy.core.gang.families`). A family answers
two questions: whose gang is this pod (`identify`, asked of one pod as soon as it is seen), and what does the gang look
like (`assemble`, asked with all its pods that are there). Everything else, here and in the shell, knows gangs only.

A gang has *roles* (leader, worker …) and each role a number of *seats*. Both come from what the owner declares, not
from the pods that happen to exist: the job holds a seat for a pod that appears only when others run. *Members* are the
pods that are there. What they and their templates ask for are quantities: `families.assemble` refuses any other text.
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
"""Index of a member whose family does not tell the seats of its role apart."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A pod of a role; `index` is its seat there, from 0.

    Two can have the same index: one that has ended or is being deleted, and the one that replaces it.
    """

    pod: Pod
    index: int = ANY_SEAT


class Role(msgspec.Struct, frozen=True, kw_only=True):
    """Pods of one kind within a gang.

    Args:
        seats: how many pods the job holds room for, whether they are there or not.
        first: how many of them must exist before the job is submitted; the others appear when these run.
        members: those that are there, in rank order.
        elsewhere: pods of its seats that were set apart: each is a gang of its own, and not missing here.
        shape: what each pod will ask for, by the owner's template; None: as the members that are there.
        decides: the exit codes of its pods are the job's. A parameter server's are not: it ends when it is stopped.
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
        """How many seats of the role have a pod that has not failed and is not being deleted, in this gang or set apart
        from it.
        """
        pods = [m for m in (*self.members, *self.elsewhere) if not m.pod.is_deleting and m.pod.status.phase != "Failed"]
        numbered = {member.index for member in pods if member.index != ANY_SEAT}
        return len(numbered) + sum(member.index == ANY_SEAT for member in pods)

    @property
    def last_tries(self) -> list[Pod]:
        """The youngest pod of each seat; if seats have no numbers, as many of the youngest pods as there are seats."""
        oldest_first = sorted(self.members, key=lambda m: (m.pod.metadata.creation_timestamp, m.pod.name))
        numbered = {member.index: member.pod for member in oldest_first if member.index != ANY_SEAT}
        others = [member.pod for member in oldest_first if member.index == ANY_SEAT]
        return [*numbered.values(), *others[-self.seats :]]


class Suspension(msgspec.Struct, frozen=True, kw_only=True):
    """An owner that can be suspended, and brings its pods back later: the field `path` of `owner` is set to true."""

    owner: Owner
    path: tuple[str, ...] = ("spec", "suspend")


class Gang(msgspec.Struct, frozen=True, kw_only=True):
    """Pods that become one Slurm job.

    Args:
        kind: what people call it: `JobSet default/train`, stage `workers`.
        roles: in rank order; the leader's first.
        one_per_node: no two members on a node.
        one_domain: a node label whose value must be the same on all its nodes (`kubernetes.io/hostname`: one node).
        expects_more: the owner will make more pods for this gang although those that are there have ended.
        never_queues: its pods belong on the node that their affinity names, at once and without a job (DaemonSet).
        final_because: why the owner does not bring evicted pods back; empty when it does.
        suspension: how the owner can be suspended instead, if it can.
        longest_grace_s: what its namespace gives to pods that have lost their node; 0: what all others get.
        is_sized: False while nobody can tell how many pods there will be: its roles hold those that are there.
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
        """Why the gang is not submitted: what it asks for or declares that cannot be done. Empty if it may be
        submitted.
        """
        return "; ".join(str(problem) for problem in self.problems if problem.fatal)

    @property
    def members(self) -> tuple[Pod, ...]:
        """The pods that are there, in rank order."""
        return tuple(member.pod for role in self.roles for member in role.members)

    @property
    def first_wave(self) -> tuple[Pod, ...]:
        """The roles that start first. They decide on which nodes the job may run.

        A pod of a later wave can be left from an earlier course of events, with a nodeSelector for another place.
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
        """How many pods the job holds room for."""
        return sum(role.seats for role in self.roles)

    @property
    def is_complete(self) -> bool:
        """The pods that must exist before the job is submitted are there, as members or each as a gang of its own."""
        there = [(role, len(role.members) + len(role.elsewhere)) for role in self.roles]
        return any(count for _, count in there) and all(count >= role.first for role, count in there)

    @property
    def missing(self) -> str:
        """Which pods of the first wave are missing: `2 of 4 pods (worker 1 of 3)`; empty if none is.

        Pods that succeeded have done their part, and so have pods with a job of their own.
        """
        have = [(role, min(role.present, role.first)) for role in self.roles]
        lacking = ", ".join(f"{role.name} {count} of {role.first}" for role, count in have if count < role.first)
        total, there = sum(role.first for role in self.roles), sum(count for _, count in have)
        return f"{total - there} of {total} pods ({lacking})" if lacking else ""

    @property
    def has_exit_code(self) -> bool:
        """True if pods of the role can end by themselves. Those of a service (restartPolicy Always) run until they are
        deleted.
        """
        specs = [*(pod.spec for pod in self.members), *(role.shape for role in self.roles)]
        return any(spec is not None and spec.restart_policy != "Always" for spec in specs)

    @property
    def has_succeeded(self) -> bool:
        """True if the pods that decide have succeeded: those of the roles that decide, or all pods if none of these
        exists.
        """
        there = [role for role in self.roles if role.members]
        deciding = [role for role in there if role.decides] or there
        return all(pod.status.phase == "Succeeded" for role in deciding for pod in role.last_tries)


Owners = Sequence[Owner]
"""The objects above a pod, as far as they could be read: first its controllers, nearest first, then objects to which it
refers.
"""


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """An object above a pod. With `uid` it is that one and no other of its name; without, whoever has the name."""

    kind: Kind
    namespace: str
    name: str
    uid: str = ""

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.namespace}/{self.name}"

    @classmethod
    def to(cls, reference: OwnerReference, namespace: str) -> Link:
        """The owner of an object in that namespace."""
        group, _, _ = reference.api_version.rpartition("/")
        kind = Kind(group=group, kind=reference.kind)
        return cls(kind=kind, namespace=namespace, name=reference.name, uid=reference.uid)

    def leads_to(self, owner: KubeObject) -> bool:
        """True if this object is the one that the reference means."""
        return self.uid in ("", owner.uid)

    @property
    def key(self) -> Key:
        """The namespace and name."""
        return (self.namespace, self.name)

    def find_in(self, owners: Owners) -> Owner | None:
        """The object that has this name, among these."""
        return next((owner for owner in owners if owner.is_a == self.kind and owner.key == self.key), None)


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of workload.

    A pod that `assemble` gives no seat (there are more than the owner's minimum, and the family does not number them)
    becomes a gang of its own, with the unit `extra_unit(pod)`.

    Args:
        known_by: what on a pod or above it says that it is of this family, in words for people.
        identify: the gang of a pod, or None when the pod is not of this family. It looks at nothing that changes during
            the pod's life.
        assemble: the gang as it is now; gets at least one pod, and the owners of the first.
        reads: kinds of owners of which it needs more than metadata. A pod below one of them waits until it was read.
        refers: objects that a pod of this family names.
    """

    name: str
    known_by: str
    identify: Callable[[Pod, Owners], GangId | None]
    assemble: Callable[[GangId, Sequence[Pod], Owners], Gang]
    reads: tuple[Kind, ...] = ()
    refers: Callable[[Pod], tuple[Link, ...]] = lambda _: ()


def with_pods(gang: Gang, pods: Mapping[str, Pod]) -> Gang | None:
    """The gang with these pods, by uid, for its members; None when one of them is missing."""
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
    """The unit of a pod beyond the seats of its gang. Such a pod is elastic: it has a job of its own, and is preempted
    first and alone.
    """
    return f"{_EXTRA}{pod.uid}"


def apart_unit(pod: Pod) -> str:
    """Unit of a pod that was set apart: it has a seat in its gang, and the gang's job has no room for it."""
    return f"{_APART}{pod.uid}"


def solo_pod(id: GangId) -> str:
    """Uid of the pod that is this gang, beyond the seats of another or set apart; empty for all other gangs."""
    prefix = next((prefix for prefix in (_EXTRA, _APART) if id.unit.startswith(prefix)), "")
    return id.unit.removeprefix(prefix) if prefix else ""


def is_apart(id: GangId) -> bool:
    """The gang is a pod that was set apart."""
    return id.unit.startswith(_APART)


def solo(id: GangId, pod: Pod, options: JobSpec, problems: tuple[Problem, ...] = ()) -> Gang:
    """A gang with only this pod."""
    role = Role(name="pod", seats=1, first=1, members=(Member(pod=pod, index=0),))
    return Gang(id=id, roles=(role,), options=options, problems=problems, kind=f"Pod {id}")


def ranked(pods: Iterable[Pod], index_of: Callable[[Pod], int]) -> tuple[Member, ...]:
    """Members of a role whose family numbers them."""
    members = (Member(pod=pod, index=index_of(pod)) for pod in pods)
    return tuple(sorted(members, key=lambda member: (member.index, member.pod.metadata.creation_timestamp)))


def by_seniority(pods: Iterable[Pod], seats: int) -> tuple[Member, ...]:
    """Members of a role whose family does not number them: bound ones first, then the oldest, as many as have seats.

    Pods that have ended are members too, and take no seat.
    """
    pods = sorted(pods, key=lambda pod: (not pod.spec.node_name, pod.metadata.creation_timestamp, pod.name))
    over = [pod for pod in pods if pod.is_finished]
    living = [pod for pod in pods if not pod.is_finished]
    return tuple(Member(pod=pod) for pod in (*over, *living[:seats]))
