"""Pods as Kubernetes' own controllers and a few others make them of a manifest, and the Slurm jobs wanted of it."""

from __future__ import annotations

from collections import Counter

import msgspec

from sunkpy.core.gang import families
from sunkpy.core.gang.gang import extra_unit
from sunkpy.core.model import matching, quantity
from sunkpy.core.placement.needs import MINIMUM_MEMORY_MIB, whole_cpus
from tests.unit.core.gang.families.workload import manifest, owner, pod, wanted_jobs

INDEX = "batch.kubernetes.io/job-completion-index"


def as_kept(spec):
    """A pod's spec as the apiserver keeps it: quantities are texts, nothing is null."""
    for container in (*spec.get("containers", ()), *(spec.get("initContainers") or ())):
        for amounts in (container.get("resources") or {}).values():
            amounts.update({name: str(amount) for name, amount in amounts.items()})
    return {key: value for key, value in spec.items() if value is not None}


def named(document, name):
    """A document of which only generateName is given."""
    return document | {"metadata": {"name": name, **document["metadata"]}}


def made_by(document, maker, **spec):
    """An object that another one makes, as the apiserver keeps it."""
    reference = {"apiVersion": maker.api_version, "kind": maker.kind, "name": maker.name, "uid": maker.uid}
    meta = {"namespace": maker.metadata.namespace, "ownerReferences": [reference | {"controller": True}]}
    return owner(document | {"metadata": meta | document["metadata"]} | ({"spec": spec} if spec else {}))


def pods_of(maker, template, names, **more):
    """Pods of a template, in the namespace of who makes them."""
    template = template | {"spec": as_kept(template["spec"])}
    return [
        pod(
            name,
            owned_by=(maker,),
            template=template,
            namespace=maker.metadata.namespace,
            creationTimestamp=f"2026-11-21T00:00:{number:02}Z",
            **more,
        )
        for number, name in enumerate(names)
    ]


def bare(document, number=0):
    """A pod that a person applied."""
    meta = {"namespace": "default", "uid": f"uid-of-{document['metadata']['name']}", **document["metadata"]}
    meta["creationTimestamp"] = f"2026-11-21T00:00:{number:02}Z"
    return msgspec.convert(document | {"metadata": meta, "spec": as_kept(document["spec"])}, families.Pod)


def replica_set(document, replicas=None):
    """A ReplicaSet and its pods, which have random names."""
    made = owner(document)
    count = replicas or document["spec"].get("replicas", 1)
    return [made], pods_of(made, document["spec"]["template"], [f"{made.name}-x{n}" for n in range(count)])


def deployment(document, replicas=None):
    """A Deployment, its ReplicaSet, its pods."""
    made = owner(document)
    between = made_by({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": f"{made.name}-7d4f"}}, made)
    count = replicas or document["spec"].get("replicas", 1)
    pods = pods_of(between, document["spec"]["template"], [f"{between.name}-x{n}" for n in range(count)])
    return [between, made], pods


def stateful_set(document, count=None):
    """A StatefulSet and its pods, numbered; `count` of them when it makes them in order."""
    made = owner(document)
    pods = []
    for number in range(document["spec"]["replicas"] if count is None else count):
        label = {"apps.kubernetes.io/pod-index": str(number)}
        pods += pods_of(made, document["spec"]["template"], [f"{made.name}-{number}"], labels=label)
    return [made], pods


def job(document, *, maker=None, indices=None, **status):
    """A Job and its pods: as many as run at once, or those with the given indices."""
    made = made_by(document, maker, **document["spec"]) if maker else owner(document)
    if status:
        made = msgspec.structs.replace(made, status=msgspec.Raw(msgspec.json.encode(status)))
    spec = document["spec"]
    at_once = min(spec.get("parallelism", 1), spec.get("completions", 1 << 30))
    if spec.get("completionMode") != "Indexed":
        pods = pods_of(made, spec["template"], [f"{made.name}-x{n}" for n in range(at_once)])
    else:
        pods = []
        for number in range(at_once) if indices is None else indices:
            labels = {INDEX: str(number)}
            pods += pods_of(made, spec["template"], [f"{made.name}-{number}-x"], labels=labels)
    return [made, *([maker] if maker else [])], pods


def jobs_of(pods, owners=(), *, known=families.FAMILIES):
    """All gangs as the shell has them: those of the pods, then one for each pod that found no place."""
    ids = dict.fromkeys(families.identify(each, owners, families=known) for each in pods)
    found = []
    for id in ids:
        own = [each for each in pods if families.identify(each, owners, families=known) == id]
        gang = families.assemble(id, own, owners, families=known)
        if gang.seats:
            found.append(gang)
        seated = {each.uid for each in gang.members}
        for each in own:
            if each.uid not in seated:
                extra = msgspec.structs.replace(id, unit=extra_unit(each))
                found.append(families.assemble(extra, [each], owners, families=known))
    return found


def sums(gang, *, gpu_resources=()):
    """What the job asks for in all, each pod rounded up alone: (pods, cpus, MiB) or (pods, cpus, MiB, gpus)."""
    total = Counter()
    for role in gang.roles:
        specs = [each.pod.spec for each in role.members if not each.pod.is_finished]
        yet_to_come = role.seats - len(specs)
        specs += [role.shape or specs[0]] * yet_to_come
        for needs in map(matching.pod_requests, specs):
            total["pods"] += 1
            total["cpus"] += whole_cpus(needs)
            total["mem_mib"] += max(MINIMUM_MEMORY_MIB, quantity.mib_up(needs.get("memory", 0)))
            total["gpus"] += sum(needs.get(resource, 0) for resource in gpu_resources)
    return tuple(total[key] for key in ("pods", "cpus", "mem_mib", "gpus"))


def seen(gangs, **more):
    """The jobs that come of gangs, as `wanted` lists them."""
    return Counter(sums(gang, **more) for gang in gangs)


def wanted(path):
    """The jobs that expected.yaml wants of a manifest."""
    return Counter(wanted_jobs(path))


def documents(path):
    """The documents of a manifest by kind; the last of each."""
    return {each["kind"]: each for each in manifest(path)}
