"""Owners that are suspended in the place of an eviction, and who may resume them."""

import msgspec
import pytest

from sunkpy.core.gang.gang import Suspension
from sunkpy.core.gang.suspending import Step, forget, next_step, path_noted, resume, suspend
from sunkpy.core.model.objects import Meta, Owner

NOTE = "sunkpy.dev/suspended-by"
PATH = ("spec", "runPolicy", "suspend")
OURS = "slurm:spec.runPolicy.suspend"


def owner(note="", suspended=True, **meta):
    annotations = {NOTE: note} if note else {}
    spec = msgspec.Raw(msgspec.json.encode({"runPolicy": {"suspend": suspended}}))
    meta = Meta(name="mnist", uid="u", resource_version="7", annotations=annotations, **meta)
    return Owner(api_version="kubeflow.org/v1", kind="TFJob", metadata=meta, spec=spec)


@pytest.mark.parametrize(
    ("found", "has_pods", "step"),
    [
        (owner(OURS), True, Step.NOTHING),
        (owner(OURS), False, Step.RESUME),
        (owner(), False, Step.NOTHING),
        (owner("other:spec.runPolicy.suspend"), False, Step.NOTHING),
        (owner("slurm"), False, Step.NOTHING),
        (owner(OURS, suspended=False), True, Step.FORGET),
        (owner("slurm:spec.replicas"), False, Step.FORGET),
        (owner(OURS, deletion_timestamp="2026-11-21T00:00:00Z"), False, Step.NOTHING),
    ],
)
def test_only_what_this_scheduler_has_suspended_is_resumed_when_its_pods_are_gone(found, has_pods, step):
    assert next_step(found, "slurm", has_pods=has_pods) is step


def test_the_patches_are_guarded_and_undo_each_other():
    guard = {"uid": "u", "resourceVersion": "7"}
    assert suspend(Suspension(owner=owner(), path=PATH), "slurm") == {
        "metadata": {**guard, "annotations": {NOTE: OURS}},
        "spec": {"runPolicy": {"suspend": True}},
    }
    assert path_noted(owner(OURS), "slurm") == PATH
    assert resume(owner(OURS), "slurm") == {
        "metadata": {**guard, "annotations": {NOTE: None}},
        "spec": {"runPolicy": {"suspend": False}},
    }
    assert forget(owner(OURS)) == {"metadata": {**guard, "annotations": {NOTE: None}}}
