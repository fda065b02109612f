"""Workloads as an apiserver would show them: owners from manifests, pods as the operators make them."""

from __future__ import annotations

import json

import msgspec
import pytest

from sunkpy.core.gang import families
from sunkpy.core.model.objects import Owner, Pod
from tests.manifests import FURTHER, OWN, documents, expected


def too_many(kind, number):
    """The message about a gang that declares `number` pods."""
    text = f"{kind} declares {number} pods, and a gang has at most 4096: make several gangs, or"
    return f"{text} ask an administrator to raise scheduler.largestGang of the Slurm cluster"


def manifest(path):
    """The documents of a manifest: of the project's by its name, of the further folder by its whole path."""
    file = OWN / path
    if FURTHER is not None and file.is_relative_to(FURTHER) and not file.exists():
        pytest.skip(f"there is no {file}")
    return documents(file)


def wanted_jobs(path):
    """(pods, cpus, MiB, GPUs) of each Slurm job that a manifest becomes, in the order of `expected.yaml`."""
    file = OWN / path
    (entry,) = (each for each in expected(file.parents[1]) if file.parents[1] / each.manifest == file)
    return [(job.pods, job.cpus, job.mem_mib, job.gpus) for job in entry.jobs for _ in range(job.count)]


def owner(document, **metadata):
    """A document as the apiserver keeps it: with namespace and uid."""
    meta = {"namespace": "default", "uid": f"uid-of-{document['metadata'].get('name', 'it')}", **document["metadata"]}
    return msgspec.json.decode(json.dumps(document | {"metadata": meta | metadata}, default=str), type=Owner)


def pod(name, *, owned_by=(), template=None, labels=None, annotations=None, spec=None, status=None, **metadata):
    """A pod made by its first owner from a template of it."""
    template = template or {}
    meta = template.get("metadata") or {}
    references = [
        {
            "apiVersion": each.api_version,
            "kind": each.kind,
            "name": each.name,
            "uid": each.uid,
            "controller": number == 0,
        }
        for number, each in enumerate(owned_by[:1])
    ]
    body = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-of-{name}",
            "labels": (meta.get("labels") or {}) | (labels or {}),
            "annotations": (meta.get("annotations") or {}) | (annotations or {}),
            "ownerReferences": references,
            **metadata,
        },
        "spec": (template.get("spec") or {}) | (spec or {}),
        "status": status or {"phase": "Pending"},
    }
    return msgspec.json.decode(json.dumps(body, default=str), type=Pod)


def gang(pods, owners=(), *, known=families.FAMILIES):
    """The gang of the first pod, made of those of `pods` that belong to it."""
    id = families.identify(pods[0], owners, families=known)
    own = [each for each in pods if families.identify(each, owners, families=known) == id]
    return families.assemble(id, own, owners, families=known)


def gangs(pods, owners=(), *, known=families.FAMILIES):
    """All gangs of the pods, in the order of their first pod."""
    ids = dict.fromkeys(families.identify(each, owners, families=known) for each in pods)
    return [
        families.assemble(id, [p for p in pods if families.identify(p, owners, families=known) == id], owners)
        for id in ids
    ]


def seats(gang):
    """Role → (seats, first, names of the members in rank order)."""
    return {role.name: (role.seats, role.first, [(m.pod.name, m.index) for m in role.members]) for role in gang.roles}
