"""What families (kinds of workloads) use to make a gang from the spec of an owner, or from annotations on its pods.

A spec is read as its operator reads it: null means absent, and a quantity may be a number, because a
CustomResourceDefinition does not convert it. If a number is impossible or an owner cannot be read, no job is submitted
for the gang, and an Event says why. Nothing is guessed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from sunkpy.core.gang.families.belonging import maker, nearest
from sunkpy.core.gang.gang import ANY_SEAT, Gang, Member, Owners, Role, Suspension, by_seniority, ranked
from sunkpy.core.gang.identity import GangId
from sunkpy.core.gang.job.options import Problem, read_options
from sunkpy.core.gang.owners import controller_of
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.objects import Condition, Kind, Owner, Pod, PodSpec, Wire

T = TypeVar("T")

LARGEST_GANG: Final = 4096
"""The most pods of one gang, unless the settings say otherwise: each decision about a gang takes time for each of its
seats.
"""

MOST_ROLES: Final = 64
_MOST_SPEC_BYTES: Final = 131_072
"""The largest spec of an owner in bytes, because the whole spec is read each time."""

_AMOUNTS: Final = ("resources", "overhead")
"""Fields of a pod template below which every number is a quantity."""

_INDEX_LABELS: Final = ("batch.kubernetes.io/job-completion-index", "apps.kubernetes.io/pod-index")


class BadDeclaration(ValueError):
    """An owner or an annotation declares a gang that is not possible, or cannot be read. The text is for the owner of
    the workload.

    `annotation`: the name of the annotation at fault; empty if the fault is elsewhere. `problem`: the same fault as a
    fatal `Problem` of a gang, which keeps the gang from being submitted.
    """

    def __init__(self, text: str, *, annotation: str = "") -> None:
        super().__init__(text)
        self.problem = Problem(annotation=annotation, text=text, fatal=True)


@contextlib.contextmanager
def about(whose: str = "", *, annotation: str = "") -> Iterator[None]:
    """In this `with` block, prefix the text of each BadDeclaration that is raised with `whose`, and name `annotation`
    as the one at fault.
    """
    try:
        yield
    except BadDeclaration as error:
        raise BadDeclaration(f"{whose}: {error}" if whose else str(error), annotation=annotation) from error


# ------------------------------------------------------------------ the owner


class Template(Wire, frozen=True, kw_only=True):
    """The spec of a pod template, as its author wrote it. The template's metadata is not read, because the pods have
    it.
    """

    spec: dict[str, object] = msgspec.field(default_factory=dict)

    @property
    def shape(self) -> PodSpec:
        """The spec that a pod made from this template has.

        Raises:
            msgspec.ValidationError: the template has no valid pod spec.
        """
        return msgspec.convert(_as_read(self.spec), PodSpec)


class Conditions(Wire, frozen=True, kw_only=True):
    """The conditions in the status of an object."""

    conditions: tuple[Condition, ...] = ()

    def has(self, types: Collection[str]) -> bool:
        """True if the object has a condition of one of these types with the status True."""
        return any(condition.type in types and condition.status == "True" for condition in self.conditions)


def required(owners: Owners, kind: Kind, *, called: str) -> Owner:
    """Return the owner of this kind, the only object that says how many pods belong together. `called`: its name for
    messages.

    Raises:
        BadDeclaration: the owner could not be read, or its spec is too large.
    """
    found = nearest(owners, kind)
    if found is None:
        raise BadDeclaration(f"{called} could not be read, and only it says how many pods there will be")
    return _bounded(found)


def _bounded(owner: Owner) -> Owner:
    if (size_bytes := memoryview(owner.spec).nbytes) > _MOST_SPEC_BYTES:
        text = f"its spec has {size_bytes} bytes, and may have at most {_MOST_SPEC_BYTES}: make several objects of it"
        raise BadDeclaration(f"{owner.kind} {'/'.join(owner.key)}: {text}")
    return owner


def declared(owner: Owner, type_: type[T]) -> T:
    """Return the owner's spec as the type `type_`, read as the owner's operator reads it: null means absent, and a
    quantity may be a number.

    Raises:
        BadDeclaration: the spec is too large.
        msgspec.ValidationError: the spec is not of this type.
    """
    return msgspec.convert(_as_read(msgspec.json.decode(_bounded(owner).spec)), type_)


def _as_read(value: object, *, is_amount: bool = False) -> object:
    if isinstance(value, dict):
        return {
            key: _as_read(each, is_amount=is_amount or key in _AMOUNTS)
            for key, each in value.items()
            if each is not None
        }
    if isinstance(value, list):
        return [_as_read(each, is_amount=is_amount) for each in value]
    return str(value) if is_amount and isinstance(value, int | float) else value


def is_alive(owner: Owner, over: Collection[str], *, suspended: bool) -> bool:
    """True if the owner still wants its pods: it is not being deleted, it is not suspended (`suspended`), and it has
    none of the conditions in `over`, which say that it has ended.
    """
    return not owner.is_deleting and not suspended and not owner.status_as(Conditions).has(over)


def suspension(owner: Owner, *path: str) -> Suspension | None:
    """Return how to suspend the owner: by setting its field at `path` to true. None if the owner has a controller,
    because this controller would resume the owner.
    """
    return Suspension(owner=owner, path=path) if controller_of(owner) is None else None


# -------------------------------------------------------------------- numbers


def count(owner: Owner, field: str, number: int, *, least: int = 0) -> int:
    """Return `number`, a number of pods from this field of the owner's spec, after checking it.

    Raises:
        BadDeclaration: it is smaller than `least`.
    """
    with about(f"{owner.kind} {'/'.join(owner.key)}"):
        return at_least(number, least, field=field)


def few(roles: Sequence[T], *, field: str) -> Sequence[T]:
    """Return the roles unchanged, after checking that there are at most `MOST_ROLES`. `field`: where they are, for the
    message.

    Raises:
        BadDeclaration: there are more.
    """
    if len(roles) > MOST_ROLES:
        raise BadDeclaration(f"{field} has {len(roles)} entries, and a gang at most {MOST_ROLES}: make several gangs")
    return roles


def at_least(number: int, least: int, *, field: str) -> int:
    """Return the number unchanged, after checking that it is not smaller than `least`. `field`: where it is, for the
    message.

    Raises:
        BadDeclaration: it is smaller than `least`.
    """
    if number < least:
        raise BadDeclaration(f"{field} is {number}, and must be at least {least}")
    return number


def size_in(text: str) -> int:
    """Return the number of pods of a gang from the text of a label or annotation.

    Raises:
        BadDeclaration: the text is not a number, or is 0.
    """
    digits = text.strip()
    if not digits.isascii() or not digits.isdigit():
        raise BadDeclaration(f"{text[:40]!r} is not a number of pods")
    return size(int(digits[:10]))


def size(number: int) -> int:
    """Return `number`, the number of pods of a gang, after checking that it is at least 1.

    Raises:
        BadDeclaration: it is smaller than 1.
    """
    if number < 1:
        raise BadDeclaration(f"{number} pods are no gang: at least 1")
    return number


def ordinal(text: str | None) -> int:
    """Return the number of a pod, from the text of a label or annotation; -1 (ANY_SEAT) if the text is missing or is
    not a number.
    """
    return int(text) if text and len(text) < 10 and text.isascii() and text.isdigit() else ANY_SEAT


# ---------------------------------------------------------- roles and members


def current(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods that neither have ended nor are being deleted: only their annotations count for the gang. If
    there are none, return all pods.
    """
    pods = list(pods)
    return [pod for pod in pods if not pod.is_finished and not pod.is_deleting] or pods


def role(name: str, pods: Iterable[Pod], seats: int, *, first: int | None = None) -> Role:
    """Return a role of a gang with room for `seats` pods. Before the job is submitted, `first` of them must exist; if
    `first` is None, all of them.
    """
    return Role(name=name, seats=seats, first=seats if first is None else first, members=seated(pods, seats))


def seated(pods: Iterable[Pod], seats: int) -> tuple[Member, ...]:
    """Return the pods that have a seat in a role. If all pods have the same controller and it has numbered them from 0,
    below `seats`, these numbers are their seats. If not, the pods have no numbers: bound pods, then the oldest get the
    seats.
    """
    pods = list(pods)
    indices = {pod.uid: _number_of(pod) for pod in pods}
    if len({maker(pod) for pod in pods}) == 1 and all(0 <= index < seats for index in indices.values()):
        return ranked(pods, lambda pod: indices[pod.uid])
    return by_seniority(pods, seats)


def _number_of(pod: Pod) -> int:
    """Return the number that an Indexed Job or a StatefulSet gave the pod, from its label; -1 if there is none."""
    return ordinal(next((pod.labels[label] for label in _INDEX_LABELS if label in pod.labels), ""))


def numbered(pods: Iterable[Pod], index_of: Callable[[Pod], int], seats: int) -> tuple[Member, ...]:
    """Return the pods as members of a role whose seats are numbered, the lowest number first. `index_of` returns the
    number of a pod; pods whose number is not below `seats` are left out.
    """
    return tuple(member for member in ranked(pods, index_of) if 0 <= member.index < seats)


def waiting_role(role: Role, template: Template) -> Role:
    """Return the role with the pod spec of this template for the pods that do not exist yet, if some of its pods may be
    made after the job was submitted. If not, return the role unchanged.
    """
    return msgspec.structs.replace(role, shape=template.shape) if role.first < role.seats else role


# ------------------------------------------------------------------- the gang


def make(gang: Gang, owners: Owners) -> Gang:
    """Return the gang with the options for its job, and the problems, that the annotations of its pods and their owners
    give. If pods differ, those of the first role count first.

    Raises:
        BadDeclaration: the gang has no seats: its owner declares 0 pods.
    """
    if not gang.seats:
        raise BadDeclaration(f"{gang.kind} declares 0 pods, and a gang has at least 1")
    options, problems = _options(current(gang.members), owners)
    return msgspec.structs.replace(gang, options=options, problems=(*gang.problems, *problems))


def options_of(pods: Iterable[Pod], owners: Owners) -> tuple[JobSpec, tuple[Problem, ...]]:
    """Return the options for a gang's job that annotations ask for, and the problems found in these annotations: first
    those of the pods, oldest first, then those of the owners.
    """
    return _options(sorted(current(pods), key=lambda pod: (pod.metadata.creation_timestamp, pod.name)), owners)


def _options(pods: Iterable[Pod], owners: Owners) -> tuple[JobSpec, tuple[Problem, ...]]:
    return read_options(((pod.name, pod.annotations) for pod in pods), [owner.annotations for owner in owners])


def unsized(id: GangId, pods: Sequence[Pod], owners: Owners, *, kind: str, problem: Problem) -> Gang:
    """Return a gang whose size is unknown because of this problem. It has the pods that exist, and no job is submitted
    for it. `kind`: its name in messages.
    """
    options, problems = options_of(pods, owners)
    living = sum(not pod.is_finished for pod in pods)
    held = Role(name="pod", seats=living, first=living, members=by_seniority(pods, living))
    problems = (*problems, problem)
    return Gang(id=id, roles=(held,), options=options, problems=problems, kind=kind, is_sized=False)
