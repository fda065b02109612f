"""Finds the namespaces that have an object with a given name, for a person who asked in the wrong namespace."""

from __future__ import annotations

from typing import Final

from sunkpy.cli.readable_cluster import or_not
from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.kube import paths
from sunkpy.kube.client import Kube

_OF_GANGS: Final = "spec.schedulerName!=default-scheduler"


async def namespaces_of(kube: Kube, kind: str, name: str) -> frozenset[str]:
    """Return the namespaces that have a Pod, Gang or NodeSet (`kind`) of this name; empty if there are none, or if the
    person may not list such objects in all namespaces.

    A gang (pods that start together) is found only by the name, gang annotation or direct owner of one of its pods.

    Raises:
        KubeError: the apiserver did not answer.
    """
    by_name = f"metadata.name={name}"
    match kind:
        case "NodeSet":
            listing = kube.list_objects(paths.nodesets(), NodeSet, field_selector=by_name, may_be_old=True)
            nodesets = await or_not("NodeSets of all namespaces", listing, [])
            return frozenset(each.metadata.namespace for each in nodesets or ())
        case "Pod":
            selector = by_name
        case _:
            selector = _OF_GANGS
    listed = kube.list_objects(paths.ALL_PODS, Pod, field_selector=selector, may_be_old=True)
    pods = await or_not("pods of all namespaces", listed, [])
    return frozenset(pod.metadata.namespace for pod in pods or () if kind == "Pod" or _is_of_gang(pod, name))


def _is_of_gang(pod: Pod, name: str) -> bool:
    owners = (owner.name for owner in pod.metadata.owner_references)
    return name in (pod.name, pod.annotations.get(names.ANNOTATION_GANG, ""), *owners)
