"""Owners that are suspended when their gang is preempted, and resumed when its pods are gone.

The owner itself bears the note of it: which scheduler did it, and by which field. So only what this scheduler has
suspended is ever resumed, and a new leader goes on where the old one ended. A person who wants it to stay suspended
removes the note; a person who resumes it earlier may leave the note.
"""

from __future__ import annotations

import msgspec

from sunkpy.core import names
from sunkpy.core.gang.gang import Suspension
from sunkpy.core.model.objects import KubeObject, Owner


def path_noted(owner: KubeObject, scheduler: str) -> tuple[str, ...]:
    """The field by which this scheduler has suspended the owner; empty when it has not."""
    by, _, path = owner.annotations.get(names.ANNOTATION_SUSPENDED_BY, "").rpartition(":")
    return tuple(path.split(".")) if path and by == scheduler else ()


def is_suspended(owner: Owner, path: tuple[str, ...]) -> bool:
    """The field at `path` is true."""
    found: object = {"spec": msgspec.json.decode(owner.spec)}
    for part in path:
        found = found.get(part) if isinstance(found, dict) else None
    return found is True


def suspend(suspension: Suspension, scheduler: str) -> dict[str, object]:
    """The patch that suspends an owner, as it is in `suspension`."""
    note = f"{scheduler}:{'.'.join(suspension.path)}"
    return _note(suspension.owner, note) | _at(suspension.path, True)


def release(owner: Owner, scheduler: str, *, has_pods: bool) -> dict[str, object] | None:
    """The patch that resumes an owner without pods and takes our note away; None while it stays as it is.

    If somebody has resumed the owner, only the note goes. `has_pods`: some of its pods have not ended yet.
    """
    path = path_noted(owner, scheduler)
    if not path or owner.is_deleting:
        return None
    if not is_suspended(owner, path):
        return _note(owner, None)
    return None if has_pods else _note(owner, None) | _at(path, False)


def _note(owner: Owner, note: str | None) -> dict[str, object]:
    """The note alone, only if the owner is still as it was read."""
    guard = {"uid": owner.uid, "resourceVersion": owner.metadata.resource_version}
    return {"metadata": {**guard, "annotations": {names.ANNOTATION_SUSPENDED_BY: note}}}


def _at(path: tuple[str, ...], is_set: bool) -> dict[str, object]:
    nested: object = is_set
    for part in reversed(path):
        nested = {part: nested}
    assert isinstance(nested, dict)
    return nested
