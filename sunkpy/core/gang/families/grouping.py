"""What families share that put pods together by a name: an identity made of it, places, options.

A name outlives the object behind it. That a PodGroup was deleted says nothing about its pods, which may be running:
so the identity of such a gang is made of the name alone, and is the same whether the object can be read or not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

from sunkpy.core.gang.gang import Gang, Member, Owners, Role, by_seniority, ranked
from sunkpy.core.gang.identity import GangId, token
from sunkpy.core.gang.options import JobOptions, Problem, read_options
from sunkpy.core.model.objects import Kind, Owner, Pod

MOST_PLACES: Final = 65_536
"""The most nodes that Slurm counts (slurm.h, MAX_SLURM_NODES)."""

_INDEX_LABELS: Final = ("batch.kubernetes.io/job-completion-index", "apps.kubernetes.io/pod-index")


class BadCount(ValueError):
    """A declared number of pods cannot be used; the text says why."""


def named_id(pod: Pod, by: str, name: str, *, unit: str = "") -> GangId:
    """Identity of the pods that carry `name` under the label, annotation or reference `by`, in one namespace."""
    uid = "by-" + _digest(f"{by}\0{name}")
    return GangId(namespace=pod.metadata.namespace, name=token(name), uid=uid, unit=unit)


def distinct(text: str) -> str:
    """A text as it may stand in an identity; two texts never become the same."""
    return text if token(text) == text else f"{token(text)[:40]}-{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def controllers(pod: Pod, owners: Owners) -> tuple[Owner, ...]:
    """Those of the owners that made the pod, nearest first; not those that it only refers to."""
    by_uid = {owner.uid: owner for owner in owners}
    found: list[Owner] = []
    references = pod.metadata.owner_references
    while owner := next((by_uid.pop(ref.uid) for ref in references if ref.controller and ref.uid in by_uid), None):
        found.append(owner)
        references = owner.metadata.owner_references
    return tuple(found)


def is_made_by(pod: Pod, kind: Kind) -> bool:
    """The pod's controller is of that kind, in whichever version; known before the controller was read."""
    references = (ref for ref in pod.metadata.owner_references if ref.controller)
    return any(Owner(api_version=ref.api_version, kind=ref.kind).is_a == kind for ref in references)


def maker(pod: Pod) -> str:
    """Uid of the pod's controller; empty for a bare pod."""
    return next((ref.uid for ref in pod.metadata.owner_references if ref.controller), "")


def top(pod: Pod, owners: Owners) -> str:
    """What people call the pod's workload: `Deployment default/web`, or empty for a bare pod."""
    above = controllers(pod, owners)
    if above:
        return f"{above[-1].kind} {'/'.join(above[-1].key)}"
    reference = next((ref for ref in pod.metadata.owner_references if ref.controller), None)
    return f"{reference.kind} {pod.metadata.namespace}/{reference.name}" if reference else ""


def options_of(pods: Iterable[Pod], owners: Owners) -> tuple[JobOptions, tuple[Problem, ...]]:
    """Options of a gang: of its pods, the oldest first, then of the owners."""
    elders = sorted(pods, key=lambda pod: (pod.metadata.creation_timestamp, pod.name))
    layers = (*(pod.annotations for pod in elders), *(owner.annotations for owner in owners))
    return read_options({frozenset(layer.items()): layer for layer in layers}.values())


def current(pods: Iterable[Pod]) -> list[Pod]:
    """The pods that are there to stay, or all when none is: what ends now has no say in what the others are."""
    pods = list(pods)
    return [pod for pod in pods if not pod.is_finished and not pod.is_deleting] or pods


def count(text: str) -> int:
    """A number of pods, at least one.

    Raises:
        BadCount: it is none.
    """
    digits = text.strip()
    if not digits.isascii() or not digits.isdigit():
        raise BadCount(f"{text[:40]!r} is not a number of pods")
    return checked(int(digits[:10]))


def checked(number: int) -> int:
    """The same number, if a job can have so many places.

    Raises:
        BadCount: it cannot.
    """
    if number < 1:
        raise BadCount(f"{number} pods are no gang: at least 1")
    if number > MOST_PLACES:
        raise BadCount(f"{number} pods are more than Slurm gives to one job: at most {MOST_PLACES}")
    return number


def role(name: str, pods: Iterable[Pod], places: int, *, first: int | None = None) -> Role:
    """A role of `places`, all of which must be taken before the job is submitted unless `first` says fewer."""
    return Role(name=name, places=places, first=places if first is None else first, members=seated(pods, places))


def seated(pods: Iterable[Pod], places: int) -> tuple[Member, ...]:
    """Pods that one owner numbers, from 0 and within the places, take these; all others by seniority."""
    pods = list(pods)
    indices = {pod.uid: number_of(pod) for pod in pods}
    if len({maker(pod) for pod in pods}) == 1 and all(0 <= index < places for index in indices.values()):
        return ranked(pods, lambda pod: indices[pod.uid])
    return by_seniority(pods, places)


def number_of(pod: Pod) -> int:
    """The number that an Indexed Job or a StatefulSet gave the pod, or -1."""
    text = next((pod.labels[label] for label in _INDEX_LABELS if label in pod.labels), "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1


def unsized(id: GangId, pods: Sequence[Pod], owners: Owners, *, kind: str, why: str) -> Gang:
    """A gang whose size cannot be read: it keeps the pods that it has, and is not submitted."""
    options, problems = options_of(pods, owners)
    living = sum(not pod.is_finished for pod in pods)
    held = Role(name="pod", places=living, first=living, members=by_seniority(pods, living))
    return Gang(id=id, roles=(held,), options=options, problems=problems, kind=kind, refused=why)
