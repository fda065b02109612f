"""Owners that are suspended in the place of an eviction, and who may resume them."""

import msgspec
import pytest

from sunkpy.core.gang.gang import Suspension
from sunkpy.core.gang.suspending import path_noted, release, suspend
from sunkpy.core.model.objects import Meta, Owner

NOTE = "sunkpy.dev/suspended-by"
PATH = ("spec", "runPolicy", "suspend")
OURS = "slurm:spec.runPolicy.suspend"

GUARD = {"uid": "u", "resourceVersion": "7"}
FORGOTTEN = {"metadata": {**GUARD, "annotations": {NOTE: None}}}
RESUMED = {**FORGOTTEN, "spec": {"runPolicy": {"suspend": False}}}


def owner(note="", suspended=True, **meta):
    annotations = {NOTE: note} if note else {}
    spec = msgspec.Raw(msgspec.json.encode({"runPolicy": {"suspend": suspended}}))
    meta = Meta(name="mnist", uid="u", resource_version="7", annotations=annotations, **meta)
    return Owner(api_version="kubeflow.org/v1", kind="TFJob", metadata=meta, spec=spec)


@pytest.mark.parametrize(
    ("found", "has_pods", "patch"),
    [
        (owner(OURS), True, None),
        (owner(OURS), False, RESUMED),
        (owner(), False, None),
        (owner("other:spec.runPolicy.suspend"), False, None),
        (owner("slurm"), False, None),
        (owner(OURS, suspended=False), True, FORGOTTEN),
        (owner("slurm:spec.replicas"), False, FORGOTTEN),
        (owner(OURS, deletion_timestamp="2026-11-21T00:00:00Z"), False, None),
    ],
)
def test_only_what_this_scheduler_has_suspended_is_resumed_when_its_pods_are_gone(found, has_pods, patch):
    assert release(found, "slurm", has_pods=has_pods) == patch


def test_the_note_says_by_which_field_the_owner_is_suspended():
    assert suspend(Suspension(owner=owner(), path=PATH), "slurm") == {
        "metadata": {**GUARD, "annotations": {NOTE: OURS}},
        "spec": {"runPolicy": {"suspend": True}},
    }
    assert path_noted(owner(OURS), "slurm") == PATH
