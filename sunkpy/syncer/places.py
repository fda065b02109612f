"""Reads the place of each node in the network topology: from Nodes, from Kueue's Topology, or from topograph's
ConfigMap.

If the source cannot be read, nodes keep their last places.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
import structlog

from sunkpy.core.model.objects import KubeObject, Meta, Node, Pod
from sunkpy.core.model.slurmd import is_slurmd, slurm_node_of
from sunkpy.core.topology import files, sources
from sunkpy.core.topology.places import BLOCK, Place, place_of, place_of_slinky
from sunkpy.core.topology.sources import SLINKY_ANNOTATION, Source
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.errors import KubeError
from sunkpy.kube.informer import Informer
from sunkpy.runtime.settings import BadSettings, TopologySettings

_READ_EACH_S: Final = 30.0

Changed = Callable[[Iterable[str]], None]
"""A function that is called with the Slurm nodes whose place may have changed. It must not block or raise."""


class ConfigMap(KubeObject, frozen=True, kw_only=True):
    """A Kubernetes ConfigMap. `data`: its texts by key."""

    data: dict[str, str] = msgspec.field(default_factory=dict)


class Places:
    """Knows the place of each Slurm node in the network topology. `layouts`: the topologies in topograph's file; empty
    if that is not the source.

    `changes`: a counter; while it stays the same, so do all places.
    """

    def __init__(self, kube: Kube, settings: TopologySettings, *, namespace: str, pods: Informer[Pod]) -> None:
        self._kube = kube
        self._settings = settings
        self._namespace = namespace
        self._pods = pods
        self._sources: tuple[Source, ...] = self.sources_of(settings)
        self._keys = frozenset[str]().union(*(source.keys for source in self._sources))
        self._nodes = Informer(kube, paths.NODES, Node, keep=self._trim)
        self._on: dict[str, str] = {}
        self._found: dict[str, tuple[Node, Place]] = {}
        self._changed: Changed = lambda _: None
        self._log = structlog.get_logger("syncer")
        self.layouts: tuple[files.FileTopology, ...] = ()
        self.changes = 0
        pods.add_handler(self._pod_changed)
        self._nodes.add_handler(self._node_changed)

    @property
    def is_on(self) -> bool:
        """True if the settings name a source of the topology."""
        return bool(self._settings.source)

    def on_change(self, changed: Changed) -> None:
        """From now on, call this function with the Slurm nodes whose place may have changed."""
        self._changed = changed

    def of(self, slurm_node: str) -> Place | None:
        """Return the place of a Slurm node in the network topology; None if it is not known, or if the settings name no
        source of places.
        """
        source = self._settings.source
        if source == "configMap":
            return files.place_in(self.layouts, slurm_node) if self.layouts else None
        pod = self._pods.get(self._namespace, slurm_node)
        node = self._nodes.get("", pod.spec.node_name) if pod is not None and pod.spec.node_name else None
        if node is None:
            return None
        if source == "slinky":
            return place_of_slinky(node.annotations.get(SLINKY_ANNOTATION, ""))
        if not self._sources:
            return None
        found = self._found.get(node.name)
        if found is None or found[0] is not node:
            place = place_of(node.labels, self._sources, wants_block=BLOCK in self._settings.plugins)
            found = self._found[node.name] = node, place
        return found[1]

    @staticmethod
    def sources_of(settings: TopologySettings) -> tuple[Source, ...]:
        """Return the sources that name the Node labels of a place, as far as the settings tell them; empty if places
        come from something other than labels, or, with Kueue, if the labels are read later.

        Raises:
            BadSettings: no source has the name in `topology.source`.
        """
        if settings.source in ("", "kueue", "configMap", "slinky"):
            return ()
        if settings.source == "labels":
            return (sources.of_keys(settings.levels, blocks=settings.block_labels),)
        if not (found := sources.known(settings.source)):
            raise BadSettings(f"topology.source: there is no source {settings.source!r}")
        return found

    async def run(self) -> None:
        """Follow the source of the topology until cancelled; return at once without a source."""
        if not self.is_on:
            return
        async with asyncio.TaskGroup() as group:
            if self._settings.source != "configMap":
                group.create_task(self._nodes.run())
            if self._settings.source in ("configMap", "kueue"):
                group.create_task(self._read_again())

    async def _read_again(self) -> None:
        while True:
            try:
                await (self._read_kueue() if self._settings.source == "kueue" else self._read_config_map())
            except (KubeError, files.BadTopology) as error:
                self._log.warning(
                    "the source of the topology cannot be read: the syncer goes on with what it read last",
                    why=str(error),
                )
            await asyncio.sleep(_READ_EACH_S)

    async def _read_kueue(self) -> None:
        topology = await self._kube.get(paths.kueue_topology(self._settings.name), sources.KueueTopology)
        source = sources.of_kueue(topology)
        if (source,) != self._sources:
            self._sources, self._keys = (source,), source.keys
            self._found.clear()
            self._tell([slurm_node_of(pod) for pod in self._pods.values()])

    async def _read_config_map(self) -> None:
        data = (await self._kube.get(paths.config_map(self._namespace, self._settings.name), ConfigMap)).data
        name = next((name for name in (files.YAML, files.CONF) if name in data), "")
        if not name:
            told = f"ConfigMap {self._settings.name} has neither {files.CONF} nor {files.YAML}"
            raise files.BadTopology(told)
        layouts = files.read(name, data[name])
        if layouts != self.layouts:
            self.layouts = layouts
            self._tell(files.nodes_in(layouts))

    def _trim(self, node: Node) -> Node:
        """Return the Node with only the labels and annotations that tell its place. With Kueue all labels stay, because
        the label keys are read later.
        """
        labels, notes = node.labels, node.annotations
        if self._settings.source != "kueue":
            labels = {key: text for key, text in labels.items() if key in self._keys}
        kept = {key: text for key, text in notes.items() if key == SLINKY_ANNOTATION}
        version = node.metadata.resource_version
        return Node(
            metadata=Meta(name=node.name, uid=node.uid, resource_version=version, labels=labels, annotations=kept)
        )

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and self._on.get(old.spec.node_name) == slurm_node_of(old):
            del self._on[old.spec.node_name]  # unless a pod of another name has come to the node meanwhile
        if new is not None and is_slurmd(new) and new.spec.node_name:
            self._on[new.spec.node_name] = slurm_node_of(new)
        if (old.spec.node_name if old is not None else "") != (new.spec.node_name if new is not None else ""):
            self.changes += 1

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        if new is None and old is not None:
            self._found.pop(old.name, None)
        if node is None or (old is not None and new is not None and _says(old) == _says(new)):
            return
        if (slurm_node := self._on.get(node.name)) is not None:
            self._tell([slurm_node])

    def _tell(self, slurm_nodes: Iterable[str]) -> None:
        self.changes += 1
        self._changed(slurm_nodes)


def _says(node: Node) -> tuple[dict[str, str], dict[str, str]]:
    return node.labels, node.annotations
