"""The families, which are kinds of workloads, one module each. The first family that recognises a pod takes it; the
last family takes every pod.

A new family is a module with its `FAMILY`, and an entry in `FAMILIES`. The order is: pods that must never queue,
sunkpy's own annotations on the pods, kinds whose owner declares the size, groups by name (their counts may be wrong
copies of an owner's), then single pods.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from typing import Final

import msgspec

from sunkpy.core.gang.families import (
    annotated,
    argo_workflow,
    armada,
    batch_job,
    daemon_set,
    generic,
    grove,
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
from sunkpy.core.gang.families.belonging import top
from sunkpy.core.gang.families.declaration import LARGEST_GANG, BadDeclaration, unsized
from sunkpy.core.gang.gang import Family, Gang, Member, Owners, Role, apart_unit, extra_unit
from sunkpy.core.gang.identity import GangId, legible
from sunkpy.core.gang.job.options import Problem
from sunkpy.core.gang.limits import KAI_DOMAIN, explain_length, explain_variety
from sunkpy.core.model import matching
from sunkpy.core.model.objects import OddOwner, Pod
from sunkpy.core.model.quantity import BadQuantity

Families = Sequence[Family]

FAMILIES: Final[Families] = (
    daemon_set.FAMILY,
    annotated.FAMILY,
    jobset.FAMILY,
    lws.FAMILY,
    grove.FAMILY,
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

_BEYOND: Final = "beyond its seats"
"""The role of bound pods that have no seat any more, because their gang has become smaller."""


def configured(
    rules: Sequence[generic.WorkloadRule], *, daemons_in: Collection[str], gpu_resources: Collection[str]
) -> Families:
    """Return all families (kinds of workloads) in the order in which they are asked. Those of `scheduler.workloads`
    come right after the family of sunkpy's own annotations.

    Args:
        rules: the entries of `scheduler.workloads`.
        daemons_in: namespaces in which pods of DaemonSets need no job, unless they ask for one of the `gpu_resources`
            or have a ResourceClaim.
        gpu_resources: the extended resources that Slurm gives to jobs.
    """
    described = (generic.family(rule) for rule in rules)
    return (daemon_set.family(daemons_in, gpu_resources), *FAMILIES[1:_FIRST], *described, *FAMILIES[_FIRST:])


def identify(pod: Pod, owners: Owners = (), *, families: Families = FAMILIES) -> GangId:
    """Return the identity of the gang that a pod belongs to. The first family (kind of workload) that recognises the
    pod decides.
    """
    return _family_of(pod, owners, families)[1]


def family_of(pod: Pod, owners: Owners = (), *, families: Families = FAMILIES) -> Family:
    """Return the family (kind of workload) that a pod belongs to: the first that recognises the pod."""
    return _family_of(pod, owners, families)[0]


def assemble(
    id: GangId,
    pods: Sequence[Pod],
    owners: Owners = (),
    *,
    families: Families = FAMILIES,
    largest: int = LARGEST_GANG,
) -> Gang:
    """Return the gang with the identity `id` as it is now. `pods`: all its pods, at least one. `owners`: the objects
    above the first pod.

    The gang has a fatal problem, and is not submitted, if the owner cannot be read as an object of its kind, declares
    more than `largest` pods or no possible gang, or if the first pod no longer says that it belongs to this gang.
    """
    is_solo = id.unit in (extra_unit(pods[0]), apart_unit(pods[0]))
    family, said = (plain_pod.FAMILY, id) if is_solo else _family_of(pods[0], owners, families)
    what = top(pods[0], owners) or f"{family.name} {id}"
    if not said.shares_owner_with(id):
        why = (
            f"pod {pods[0].name} does not say any more that it belongs to {id}: a label or annotation of the pod was "
            "changed, or an owner reference of the pod or of an object above it"
        )
        return unsized(id, pods, owners, kind=str(id), problem=Problem(text=why, fatal=True))
    if odd := next((each for each in owners if isinstance(each, OddOwner) and each.is_a in family.reads), None):
        return unreadable(id, pods, why=f"{odd.kind} {'/'.join(odd.key)} cannot be read: {odd.why}")
    try:
        gang = _within_domain(family.assemble(id, pods, owners), owners)
        _check(gang, largest)
    except BadDeclaration as error:
        gang = unsized(id, pods, owners, kind=what, problem=error.problem)
    except (msgspec.ValidationError, RecursionError, BadQuantity) as error:
        problem = Problem(text=f"{what} cannot be read: {error}", fatal=True)
        gang = unsized(id, pods, owners, kind=what, problem=problem)
    return _with_all_that_run(gang, pods)


def assemble_beside(
    id: GangId,
    pods: Sequence[Pod],
    apart: Sequence[Pod],
    owners: Owners = (),
    *,
    families: Families = FAMILIES,
    largest: int = LARGEST_GANG,
) -> Gang:
    """Return the gang as `assemble` does. `apart`: pods that have a seat in this gang but became gangs of their own.
    They are not among its members, and their seats do not count as missing.
    """
    gang = assemble(id, pods, owners, families=families, largest=largest)
    if not apart or not gang.is_sized or not gang.missing:
        return gang
    whole = assemble(id, [*pods, *apart], owners, families=families, largest=largest)
    uids = {pod.uid for pod in apart}
    return msgspec.structs.replace(whole, roles=tuple(_parted(role, uids) for role in whole.roles))


def _parted(role: Role, apart: Set[str]) -> Role:
    own = tuple(member for member in role.members if member.pod.uid not in apart)
    elsewhere = tuple(member for member in role.members if member.pod.uid in apart)
    return msgspec.structs.replace(role, members=own, elsewhere=elsewhere)


def unreadable(id: GangId, pods: Sequence[Pod], *, why: str) -> Gang:
    """Return the gang `id` for the time while its owner cannot be read. It has all its existing pods, and a fatal
    problem with the text `why`, so no job is submitted. It counts as a gang that may get more pods.
    """
    gang = unsized(id, pods, (), kind=str(id), problem=Problem(text=why, fatal=True))
    return _with_all_that_run(msgspec.structs.replace(gang, expects_more=True), pods)


def speaks_for(id: GangId, pod: Pod, owners: Owners, *, families: Families = FAMILIES) -> bool:
    """True if the pod's labels, annotations and owners still say that the pod belongs to the owner of this gang. People
    may have changed them since the pod was put into the gang. For a pod that became a gang of its own, always True.
    """
    return id.unit in (extra_unit(pod), apart_unit(pod)) or _family_of(pod, owners, families)[1].shares_owner_with(id)


def _within_domain(gang: Gang, owners: Owners) -> Gang:
    """Return the gang, within the domain that an annotation of KAI on an owner requires. The annotation of a pod wins
    over that of an owner.
    """
    if gang.one_domain or gang.seats == 1 or any(KAI_DOMAIN in pod.annotations for pod in gang.members):
        return gang
    domain = next((label for owner in owners if (label := owner.annotations.get(KAI_DOMAIN))), "")
    return msgspec.structs.replace(gang, one_domain=domain)


def _check(gang: Gang, largest: int) -> None:
    """Check the number of pods and the resource quantities of a gang. The apiserver does not check templates in custom
    resources.

    Raises:
        BadDeclaration: the gang is too large, one of its pods has a list that is too long, or its pods differ too much.
        BadQuantity: a pod or template asks for something that is not a quantity.
    """
    if gang.seats > largest:
        text = f"{gang.kind} declares {gang.seats} pods, and a gang has at most {largest}: make several gangs, or"
        raise BadDeclaration(f"{text} ask an administrator to raise scheduler.largestGang of the Slurm cluster")
    if unlike := explain_variety(gang):  # before each of them is looked at
        raise BadDeclaration(f"{gang.kind}: {unlike}")
    for name, spec in gang.named_specs:
        if long := explain_length(spec):
            raise BadDeclaration(f"{name} {long}")
        matching.pod_requests(spec)


def _with_all_that_run(gang: Gang, pods: Sequence[Pod]) -> Gang:
    """Return the gang with those of these pods added that are on a node, have not finished and have no seat in the
    gang, for example because the gang has become smaller. So they are evicted together with the job under which they
    run.
    """
    members = {pod.uid for pod in gang.members}
    left = [pod for pod in pods if pod.uid not in members and pod.spec.node_name and not pod.is_finished]
    if not left:
        return gang
    role = Role(name=_BEYOND, seats=0, first=0, members=tuple(Member(pod=pod) for pod in left), decides=False)
    return msgspec.structs.replace(gang, roles=(*gang.roles, role))


def _family_of(pod: Pod, owners: Owners, families: Families) -> tuple[Family, GangId]:
    for family in families:
        if (id := family.identify(pod, owners)) is not None:
            return family, legible(id)
    raise LookupError(f"no family takes pod {'/'.join(pod.key)}: the last one must take every pod")
