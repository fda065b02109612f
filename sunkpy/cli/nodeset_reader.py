"""Reads once, with the rights of the person, all that sunkpy's operator bases its decisions about a NodeSet on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from sunkpy.cli.readable_cluster import or_not
from sunkpy.core.explain.nodeset import NodeSetFacts
from sunkpy.core.model.devices import ResourceSlice
from sunkpy.core.model.objects import Node, Pod
from sunkpy.core.model.quantity import BadQuantity
from sunkpy.core.model.times import utc_now
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.core.nodeset.survey import make_survey
from sunkpy.core.nodeset.verdict import NodeView
from sunkpy.core.nodeset.wanted import Wanted
from sunkpy.core.nodeset.world import World
from sunkpy.kube import errors, paths
from sunkpy.kube.client import Kube
from sunkpy.operator.node_devices import NodeDevices
from sunkpy.operator.pod_index import PodIndex


async def read_nodeset(kube: Kube, namespace: str, name: str) -> NodeSetFacts | None:
    """Read a NodeSet with all that is needed to explain it; None if there is no such NodeSet.

    Two things are only in the operator's memory. Whether the apiserver refused a pod of the template is taken from the
    NodeSet's status instead. A change of what a node offers to Slurm counts here as new, however long it has lasted.

    Raises:
        KubeError: the apiserver did not answer, or the person may not read the NodeSet.
    """
    try:
        nodeset = await kube.get(paths.nodeset(namespace, name), NodeSet)
    except errors.NotFound:
        return None
    unread: list[str] = []
    nodes = await or_not("nodes", kube.list_objects(paths.NODES, Node), unread)
    pods = await or_not("pods of all namespaces", kube.list_objects(paths.ALL_PODS, Pod), unread)
    nodesets = await or_not("other NodeSets", kube.list_objects(paths.nodesets(), NodeSet), unread)
    devices = await _devices(kube, nodeset, unread)
    found = NodeSetFacts(nodeset=nodeset, unread=tuple(unread))
    if nodes is None or pods is None:
        return found
    index = PodIndex()
    for known in (nodeset, *(nodesets or ())):
        index.know(known)
    for pod in pods:
        index.update(None, pod)
    views = tuple(_views({node.name: devices.add_to(node) for node in nodes}, index))
    try:
        survey = make_survey(Wanted.read(nodeset), views)
    except (msgspec.ValidationError, BadQuantity) as error:
        return msgspec.structs.replace(found, problem=str(error))
    world = World(nodeset=nodeset, survey=survey, create_error=_refusal(nodeset), now=utc_now())
    return msgspec.structs.replace(found, world=world, views=views)


async def _devices(kube: Kube, nodeset: NodeSet, unread: list[str]) -> NodeDevices:
    devices = NodeDevices()
    if nodeset.spec.gpu is not None and nodeset.spec.gpu.driver:
        slices = kube.list_objects(paths.RESOURCE_SLICES, ResourceSlice)
        for each in await or_not("ResourceSlices", slices, unread) or ():
            devices.slice_changed(None, each)
    return devices


def _views(nodes: Mapping[str, Node], index: PodIndex) -> Iterator[NodeView]:
    for name in sorted({*nodes, *index.nodes()} - {""}):
        pods, occupants = index.slurmd_pods(name), tuple(index.on_node(name))
        yield NodeView(name=name, node=nodes.get(name), slurmd_pods=pods, occupants=occupants)


def _refusal(nodeset: NodeSet) -> str:
    """Return why the apiserver refused a pod of the NodeSet's template; empty if it did not, or if the NodeSet has
    changed since.
    """
    progress = nodeset.status.condition("Progressing")
    is_seen = nodeset.status.observed_generation == nodeset.metadata.generation
    return progress.message if progress is not None and progress.reason == "CreateFailed" and is_seen else ""
