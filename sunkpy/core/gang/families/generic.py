"""Workloads that an administrator describes in the values of the chart, so that a new kind of workload needs no code.

An entry of `scheduler.workloads` says which object owns or groups the pods, which of the pods are one gang, and which
fields of the object say how many pods there are:

    - name: solver
      ownerKind: {group: sim.example.com, kind: Solver}
      roles:
        - {name: master, label: {key: sim.example.com/role, value: master}, countPath: "1"}
        - name: worker
          label: {key: sim.example.com/role, value: worker}
          countPath: spec.workers.replicas
          minPath: spec.workers.minReplicas
          indexLabel: sim.example.com/rank

* A gang is all pods below one owner. With `unitBy: {label: …}` it is the pods with the same label value below one
  owner. With `namedBy: {label: …}` it is the pods whose label names the object, whoever owns them. Both can also name
  an annotation.
* The seats of a role (room for its pods) are a number, or a path in the object: `spec.replicas`,
  `spec.groups[name=worker].count`, `spec.groups[0].count`. With `minPath`, pods beyond that minimum get jobs of their
  own. With `later: true`, the job starts without the role's pods, and keeps seats for them.
* A role has the pods with its label; the last role may have all others. A pod's rank follows from its index, if the
  role has an index label or annotation; if not, from its age.
* `suspendPath` is the field of the owner that suspends the owner when it is set to true.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from sunkpy.core.gang.families.belonging import controllers, distinct, named_id
from sunkpy.core.gang.families.declaration import BadDeclaration, about, options_of, size
from sunkpy.core.gang.gang import Family, Gang, Link, Member, Owners, Role, Suspension, by_seniority, ranked
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.objects import Kind, Owner, Pod

_STEP: Final = re.compile(r"^(?P<field>[A-Za-z0-9_-]+)(?:\[(?P<index>[0-9]{1,4}|[A-Za-z0-9_-]+=[^\[\]=]+)\])?$")
_DOTS: Final = re.compile(r"\.(?![^\[]*\])")
_NAME: Final = re.compile(r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")
_KNOWN_BY: Final = "an entry of scheduler.workloads of the Slurm cluster"


class _Table(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The base class of all structs that are read from `scheduler.workloads` in the chart's values. An unknown key
    there is an error that names the key.
    """


class OwnerKind(_Table, frozen=True, kw_only=True):
    """The kind of the object that owns or groups the pods of a workload: API group and kind, in any version."""

    group: str = ""
    kind: str


class GroupKey(_Table, frozen=True, kw_only=True):
    """The name of a label or of an annotation of a pod. Exactly one of the two is set."""

    label: str = ""
    annotation: str = ""

    def __post_init__(self) -> None:
        if bool(self.label) == bool(self.annotation):
            raise ValueError("write either label or annotation")

    def of(self, pod: Pod) -> str:
        """Return the value that the pod has for this label or annotation; empty if the pod does not have it."""
        return pod.labels.get(self.label, "") if self.label else pod.annotations.get(self.annotation, "").strip()

    def __str__(self) -> str:
        return f"label {self.label}" if self.label else f"annotation {self.annotation}"


class LabelValue(_Table, frozen=True, kw_only=True):
    """The key of a label, and the value that a pod's label must have."""

    key: str
    value: str


class RoleRule(_Table, frozen=True, kw_only=True):
    """An entry of `roles` in `scheduler.workloads`: describes the pods of one role in a gang, such as its workers.

    `label`: a pod with this label belongs to the role; None: all pods that no other role takes. `count_path` and
    `min_path`: where the owner says how many pods the role has, and how many must start together. `index_label`,
    `index_annotation`: where a pod has its number. `later`: True if the job starts without these pods.
    """

    name: str
    count_path: str
    min_path: str = ""
    label: LabelValue | None = None
    index_label: str = ""
    index_annotation: str = ""
    later: bool = False

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise ValueError(f"role name {self.name!r}: lower-case letters, digits and dashes only")
        if self.index_label and self.index_annotation:
            raise ValueError(f"role {self.name}: write either indexLabel or indexAnnotation")
        _check_path(self.count_path)
        if self.min_path:
            _check_path(self.min_path)

    def takes(self, pod: Pod) -> bool:
        """True if the pod belongs to this role: it has the role's label, or the role demands no label."""
        return self.label is None or pod.labels.get(self.label.key) == self.label.value

    @property
    def index(self) -> GroupKey | None:
        """The label or annotation in which each pod of the role has its number; None if the pods have no numbers."""
        if not self.index_label and not self.index_annotation:
            return None
        return GroupKey(label=self.index_label, annotation=self.index_annotation)


class WorkloadRule(_Table, frozen=True, kw_only=True):
    """One entry of `scheduler.workloads`, by which an administrator describes a kind of workload.

    `owner_kind`: the object that owns or groups the pods. `unit_by`: only pods with the same value of this label or
    annotation are one gang; pods without it are left to other families. `named_by`: this label or annotation of a pod
    names the object. `suspend_path`: the field that suspends the object; it is not used together with `unit_by`.
    """

    name: str
    owner_kind: OwnerKind
    roles: tuple[RoleRule, ...]
    unit_by: GroupKey | None = None
    named_by: GroupKey | None = None
    suspend_path: str = ""

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise ValueError(f"name {self.name!r}: lower-case letters, digits and dashes only")
        if not self.roles:
            raise ValueError(f"workload {self.name}: roles must name at least one")
        if self.unit_by and self.named_by:
            raise ValueError(f"workload {self.name}: write either unitBy or namedBy")
        names = [role.name for role in self.roles]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"workload {self.name}: a role is named twice: {', '.join(twice)}")
        if all_but_last := [role.name for role in self.roles[:-1] if role.label is None]:
            raise ValueError(f"workload {self.name}: role {all_but_last[0]} needs a label; only the last may lack it")
        if all(role.later for role in self.roles):
            raise ValueError(f"workload {self.name}: one role at least must not be later")
        if self.suspend_path and not re.match(r"^[A-Za-z0-9]+(\.[A-Za-z0-9]+)*$", self.suspend_path):
            raise ValueError(f"workload {self.name}: suspendPath {self.suspend_path!r} is no path such as spec.suspend")

    @property
    def kind(self) -> Kind:
        """The kind (API group and kind) of the object that owns or groups the pods of the workload."""
        return Kind(group=self.owner_kind.group, kind=self.owner_kind.kind)


def read_table(table: Iterable[object]) -> tuple[WorkloadRule, ...]:
    """Return the entries of `scheduler.workloads`, checked.

    Raises:
        msgspec.ValidationError: an entry cannot be used; the text says which, and why.
        ValueError: two entries have the same name.
    """
    rules = msgspec.convert(list(table), tuple[WorkloadRule, ...])
    names = [rule.name for rule in rules]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"two workloads have the name {twice[0]}")
    return rules


def family(rule: WorkloadRule) -> Family:
    """Return the family (the functions that find and make gangs of one kind of workload) for an entry of
    `scheduler.workloads`.
    """

    def identify(pod: Pod, owners: Owners) -> GangId | None:
        return _identify(rule, pod, owners)

    def assemble(id: GangId, pods: Sequence[Pod], owners: Owners) -> Gang:
        return _assemble(rule, id, pods, owners)

    def refers(pod: Pod) -> tuple[Link, ...]:
        name = rule.named_by.of(pod) if rule.named_by else ""
        return (Link(kind=rule.kind, namespace=pod.metadata.namespace, name=name),) if name else ()

    return Family(
        name=rule.name,
        known_by=_KNOWN_BY,
        identify=identify,
        assemble=assemble,
        reads=(rule.kind,),
        refers=refers,
    )


def _identify(rule: WorkloadRule, pod: Pod, owners: Owners) -> GangId | None:
    if rule.named_by:
        name = rule.named_by.of(pod)
        return named_id(pod, str(rule.named_by), name) if name else None
    owner = next((each for each in controllers(pod, owners) if each.is_a == rule.kind), None)
    if owner is None:
        return None
    unit = rule.unit_by.of(pod) if rule.unit_by else ""
    if rule.unit_by and not unit:
        return None
    return GangId(namespace=pod.metadata.namespace, name=owner.name, uid=owner.uid, unit=distinct(unit))


def _owner(rule: WorkloadRule, pod: Pod, owners: Owners) -> Owner | None:
    if rule.named_by is None:
        return next((each for each in controllers(pod, owners) if each.is_a == rule.kind), None)
    key = (pod.metadata.namespace, rule.named_by.of(pod))
    return next((each for each in owners if each.is_a == rule.kind and each.key == key), None)


def _assemble(rule: WorkloadRule, id: GangId, pods: Sequence[Pod], owners: Owners) -> Gang:
    kind = f"{rule.owner_kind.kind} {id}"
    owner = _owner(rule, pods[0], owners)
    if owner is None:
        raise BadDeclaration(f"{kind}, named by {rule.named_by}, does not exist")
    with about(kind):
        roles = _roles(rule, owner, pods)
    options, problems = options_of(pods, owners)
    # Suspending an owner evicts all its gangs, so it is done only if it has one gang.
    path = tuple(rule.suspend_path.split(".")) if rule.suspend_path and not rule.unit_by else ()
    return Gang(
        id=id,
        roles=roles,
        options=options,
        problems=problems,
        kind=kind,
        suspension=Suspension(owner=owner, path=path) if path else None,
    )


def _roles(rule: WorkloadRule, owner: Owner, pods: Sequence[Pod]) -> tuple[Role, ...]:
    left = list(pods)
    roles = []
    for each in rule.roles:
        own = [pod for pod in left if each.takes(pod)]
        left = [pod for pod in left if not each.takes(pod)]
        seats = _seats(each, owner)
        first = 0 if each.later else seats
        roles.append(Role(name=each.name, seats=seats, first=first, members=_seated(each, own, seats)))
    if left:
        raise BadDeclaration(f"pod {left[0].name} has none of the roles {', '.join(each.name for each in rule.roles)}")
    size(sum(role.seats for role in roles))
    return tuple(roles)


def _seats(rule: RoleRule, owner: Owner) -> int:
    number = _number(owner, rule.count_path, rule.name)
    if not rule.min_path:
        return number
    return min(number, _number(owner, rule.min_path, rule.name))


def _seated(rule: RoleRule, pods: Sequence[Pod], seats: int) -> tuple[Member, ...]:
    key = rule.index
    if key is None:
        return by_seniority(pods, seats)
    numbers = {pod.uid: key.of(pod) for pod in pods}
    for pod in pods:
        if not (numbers[pod.uid].isascii() and numbers[pod.uid].isdigit() and len(numbers[pod.uid]) < 10):
            raise BadDeclaration(f"{key} of pod {pod.name} is {numbers[pod.uid][:40]!r}, not a number")
    return ranked((pod for pod in pods if int(numbers[pod.uid]) < seats), lambda pod: int(numbers[pod.uid]))


def _number(owner: Owner, path: str, role: str) -> int:
    """Return the number of pods of a role: `path` is this number itself, or the place in the owner where it stands. It
    may be 0.

    Raises:
        BadDeclaration: there is no number of pods at this place.
    """
    if path.isdigit():
        return int(path)
    found = _at(owner, path)
    if found is None:
        raise BadDeclaration(f"there is no {path}, which counts role {role}")
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        raise BadDeclaration(f"{path}, which counts role {role}, is {str(found)[:40]!r}, not a number of pods")
    return found


def _check_path(path: str) -> None:
    steps = _DOTS.split(path)
    is_path = steps[0] in ("spec", "status") and len(steps) > 1 and all(_STEP.match(step) for step in steps)
    if not is_path and not (path.isascii() and path.isdigit() and len(path) < 6):
        raise ValueError(f"{path!r} is no path such as spec.replicas or spec.groups[name=worker].count, nor a number")


def _at(owner: Owner, path: str) -> object:
    """Return the value at a path of the owner, such as `spec.groups[0].count`; None if the owner has nothing there. The
    path was checked before.
    """
    first, *steps = _DOTS.split(path)
    found: object = msgspec.json.decode(owner.spec if first == "spec" else owner.status)
    for step in steps:
        match = _STEP.match(step)
        if match is None or not isinstance(found, dict):
            return None
        found = found.get(match["field"])
        if match["index"]:
            found = _item(found, match["index"])
    return found


def _item(found: object, index: str) -> object:
    """Return one item of a list: by its number, if `index` is one, or the first with this value of a field, if `index`
    is like `name=worker`. None if there is no such item, or `found` is no list.
    """
    if not isinstance(found, list):
        return None
    if index.isdigit():
        return found[int(index)] if int(index) < len(found) else None
    field, _, value = index.partition("=")
    return next((item for item in found if isinstance(item, dict) and str(item.get(field)) == value), None)
