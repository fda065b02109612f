"""The family of YuniKorn's task groups: the first pod of an application declares all groups, and how many pods of each
must be placed together.

`yunikorn.apache.org/task-groups` is a JSON list on that pod. `yunikorn.apache.org/task-group-name` on each pod names
its group. The annotation or label `yunikorn.apache.org/app-id`, or the label `applicationId` or `spark-app-selector`,
names the application. The job has room for the pods of all groups as soon as the first pod exists, before the others
are made: Spark's driver makes the executors. Pods beyond `minMember` get jobs of their own. So does each pod of an
application without task groups.

Sources: yunikorn-k8shim pkg/common/utils/gang_utils.go, pkg/cache/application.go; "Labels and annotations" of its site.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from sunkpy.core.gang.families.batch_job import as_made
from sunkpy.core.gang.families.belonging import named_id
from sunkpy.core.gang.families.declaration import BadDeclaration, about, few, options_of, role, size
from sunkpy.core.gang.gang import Family, Gang, Owners, Role
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model import quantity
from sunkpy.core.model.objects import Affinity, Container, Pod, PodSpec, Resources, Toleration, Wire

PREFIX: Final = "yunikorn.apache.org/"
GROUPS: Final = PREFIX + "task-groups"
GROUP: Final = PREFIX + "task-group-name"
_LONGEST_AMOUNT: Final = 30
_FIRST: Final = ""
"""The role of a first pod that declares the groups and is in none of them."""


class _TaskGroup(Wire, frozen=True, kw_only=True):
    name: str
    min_member: int
    min_resource: dict[str, str | int | float] = msgspec.field(default_factory=dict)
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    affinity: Affinity | None = None

    @property
    def shape(self) -> PodSpec:
        """A pod spec with the least that each pod of the task group asks for: resources, node selector, tolerations and
        affinity.
        """
        resources = Resources(requests={name: str(amount) for name, amount in self.min_resource.items()})
        return PodSpec(
            containers=(Container(name="any", resources=resources),),
            node_selector=self.node_selector,
            tolerations=self.tolerations,
            affinity=self.affinity,
        )


def _application(pod: Pod) -> str:
    return (
        pod.annotations.get(PREFIX + "app-id")
        or pod.labels.get(PREFIX + "app-id")
        or pod.labels.get("applicationId")
        or pod.labels.get("spark-app-selector")
        or ""
    )


def _identify(pod: Pod, _owners: Owners) -> GangId | None:
    application = _application(pod)
    if not application or not (pod.annotations.get(GROUP) or pod.annotations.get(GROUPS)):
        return None
    return named_id(pod, "applicationId", application)


def _assemble(id: GangId, pods: Sequence[Pod], owners: Owners) -> Gang:
    elders = sorted(pods, key=lambda pod: (pod.metadata.creation_timestamp, pod.name))
    declaring = next((pod for pod in elders if pod.annotations.get(GROUPS)), None)
    if declaring is None:
        raise BadDeclaration(f"none of the pods of application {id.name} declares {GROUPS}")
    with about(annotation=GROUPS):
        roles = _roles(declaring, _groups(declaring.annotations[GROUPS]), pods)
    options, problems = options_of(pods, owners)
    kind = f"YuniKorn application {id}"
    return as_made(Gang(id=id, roles=roles, options=options, problems=problems, kind=kind), pods, owners)


def _groups(text: str) -> Sequence[_TaskGroup]:
    try:
        groups = msgspec.json.decode(text, type=tuple[_TaskGroup, ...])
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadDeclaration(f"cannot be read: {error}") from error
    names = [group.name for group in few(groups, field="it")]
    if len(set(names)) < len(names):
        raise BadDeclaration(f"a task group is named twice: {', '.join(sorted(names))[:80]}")
    for group in groups:
        with about(f"minMember of {group.name[:40]!r}"):
            size(group.min_member)
        if wrong := _wrong_amount(group):
            raise BadDeclaration(f"minResource of {group.name[:40]!r}: {wrong}")
    size(sum(group.min_member for group in groups))
    return groups


def _wrong_amount(group: _TaskGroup) -> str:
    """Say which resource amount of a task group is not valid; empty if all are. The amounts stand in an annotation, so
    no apiserver has checked them.
    """
    for name, amount in group.min_resource.items():
        text = str(amount)
        try:
            units = quantity.base_units(name, text) if len(text) <= _LONGEST_AMOUNT else -1
        except (quantity.BadQuantity, ArithmeticError):
            units = -1
        if not 0 <= units < 1 << 63:
            return f"{text[:_LONGEST_AMOUNT]!r} is no amount of {name[:40]}"
    return ""


def _roles(declaring: Pod, groups: Sequence[_TaskGroup], pods: Sequence[Pod]) -> tuple[Role, ...]:
    """Return a role for each task group. The group of the first pod (`declaring`, which declares the groups) comes
    first; if that pod is in no group, it has a role of its own. Only this first role must have a pod before the job is
    submitted.
    """
    names = {group.name for group in groups}
    own = declaring.annotations.get(GROUP, _FIRST)
    strangers = sorted({pod.annotations.get(GROUP, _FIRST) for pod in pods} - names - {_FIRST})
    if strangers:
        raise BadDeclaration(f"there is no task group {strangers[0][:40]!r} in it")
    roles = [
        msgspec.structs.replace(
            role(group.name, _of(group.name, pods), group.min_member, first=int(group.name == own)), shape=group.shape
        )
        for group in sorted(groups, key=lambda group: group.name != own)
    ]
    if own == _FIRST:
        roles.insert(0, role("first pod", _of(_FIRST, pods), 1))
    return tuple(roles)


def _of(group: str, pods: Sequence[Pod]) -> list[Pod]:
    return [pod for pod in pods if pod.annotations.get(GROUP, _FIRST) == group]


FAMILY = Family(
    name="YuniKorn task groups",
    known_by="annotations yunikorn.apache.org/task-group-name and task-groups",
    identify=_identify,
    assemble=_assemble,
)
