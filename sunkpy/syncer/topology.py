"""Keeps Slurm's topology from labels in Kubernetes: the place of each node (26.05), and slurmctld's topology file.

In Slurm 26.05 the place of a single node can be set at once: `wish` returns it, and the mirror writes it. The file goes
into a ConfigMap, from which load_topology in slurmctld's pod tests and loads it: the whole tree for 24.11, the blocks
for 26.05, and a hand-written file again after other nodes have registered. `core.topology.pace` decides when the file
is written, and `core.topology.restart` which nodes the file of 26.05 has.

A block stays in the file as long as a node record names it: slurmctld 26.05 exits on a record whose unit is not in its
file.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from datetime import datetime
from typing import Final

import structlog

from sunkpy.core import names
from sunkpy.core.mirror.decide import STALE_AFTER_S
from sunkpy.core.model import hostlist
from sunkpy.core.model.states import SlurmNode
from sunkpy.core.model.times import parse_rfc3339, rfc3339, utc_now
from sunkpy.core.topology import files, pace, restart
from sunkpy.core.topology.places import BLOCK, FILE_LACKS_IT, TREE, Place, is_ours, tell, topology_str_of, units_of
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.errors import KubeError
from sunkpy.runtime.settings import TopologySettings
from sunkpy.slurm import NodeCache, Slurm
from sunkpy.slurm.errors import SlurmError
from sunkpy.syncer.places import Changed, ConfigMap, Places

_LOOK_EACH_S: Final = 1.0
_RELEASE_EACH_S: Final = 30.0
_SINGLE_FROM: Final = "v0.0.43"
"""The first version of slurmrestd's API that can set the place of a single node."""


class Topology:
    """Keeps slurmctld's topology file, and answers at which place in the network each Slurm node should be. `clock`:
    monotonic, in seconds.
    """

    def __init__(
        self,
        kube: Kube,
        slurm: Slurm,
        settings: TopologySettings,
        *,
        namespace: str,
        nodes: NodeCache,
        places: Places,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._kube = kube
        self._slurm = slurm
        self._settings = settings
        self._pace = settings.pace
        self._path = paths.config_map(namespace, settings.config_map)
        self._nodes = nodes
        self._places = places
        self._clock = clock
        self._now = now
        self._takes_single: bool | None = None
        self._release_at_s = float("-inf")
        self._refused: dict[str, tuple[frozenset[str], float]] = {}
        self._pending: pace.Pending | None = None
        self._written: dict[str, str] | None = None
        self._written_at: datetime | None = None
        self._kept: tuple[files.FileTopology, ...] = ()
        self._in_file: restart.Paths = {}
        self._made: tuple[dict[str, SlurmNode], tuple[object, ...], tuple[str, str]] | None = None
        self._log = structlog.get_logger("syncer")
        self._changed: Changed = lambda _: None
        self._layouts = self._read_file() if settings.file else ()

    def on_change(self, changed: Changed) -> None:
        """From now on, call this function with the Slurm nodes whose wanted place may have changed."""
        self._changed = changed

    def _read_file(self) -> tuple[files.FileTopology, ...]:
        """Read the topology file that a person has written. Return an empty tuple if sunkpy cannot read it: then
        slurmctld does not load the file again when nodes have registered.
        """
        try:
            return files.read(self._settings.file_name, self._settings.file)
        except files.BadTopology as error:
            self._log.warning(
                "slurmConfig.files: slurmctld does not load this topology file again when nodes have registered",
                why=str(error),
            )
            return ()

    # ------------------------------------------------------------------------------------------------- single nodes

    def wish(self, name: str, node: SlurmNode | None) -> tuple[str | None, str | None]:
        """Return the place in the network that a node should have, twice: as Slurm's topology string, and as a text for
        people. None: leave it as it is (`core.mirror.view.View`).
        """
        record = node.topology if node is not None else ""
        if not self._settings.source:
            return ("" if is_ours(record) else None), "/".join(files.path_in(self._layouts, name))
        place = self._places.of(name)
        if place is None:
            return None, None
        if not self._takes_single:
            return None, tell(self._with_last(name, place), "")
        wanted = topology_str_of(place, self._plugins, record)
        taken = self._not_refused(name, wanted)
        told = tell(place, wanted) if taken == wanted else f"{tell(place, wanted)} ({FILE_LACKS_IT})"
        return taken or None, told

    @property
    def of_a_new_node(self) -> str | None:
        """The topology string for a new node whose place is unknown, empty if Slurm takes none; None until Slurm's
        release is known.
        """
        if not self._settings.source:
            return ""
        if self._takes_single is None:
            return None
        return topology_str_of(Place(), self._plugins) if self._takes_single else ""

    def refused(self, name: str, topology: str) -> None:
        """Note that Slurm refuses this place of a node, because its topology file lacks the place. It is tried again
        later.
        """
        others, at_s = self._refused.get(name, (frozenset(), self._clock()))
        self._refused[name] = (others | {topology}, at_s)

    @property
    def _plugins(self) -> tuple[str, ...]:
        return () if self._settings.source == "slinky" else self._settings.plugins

    def _not_refused(self, name: str, wanted: str) -> str:
        """Return the wanted place of a node. If Slurm has refused it lately, return it without its block; if Slurm has
        refused that, too, an empty text.
        """
        refused, _ = self._refused.get(name, (frozenset(), 0.0))
        tree = units_of(wanted).get(TREE, "")
        tried = (wanted, f"{TREE}:{tree}") if tree else (wanted,)
        return next((each for each in tried if each not in refused), "")

    # ----------------------------------------------------------------------------------------------------- the file

    async def run(self) -> None:
        """Keep the topology file up to date until cancelled."""
        while True:
            try:
                await self._look()
            except (KubeError, SlurmError) as error:
                self._log.warning("the topology file could not be updated: tried again soon", why=str(error))
            await asyncio.sleep(_LOOK_EACH_S)

    async def _look(self) -> None:
        if not (self._settings.source or self._layouts):
            return
        await self._ask_release()
        if self._settings.source == "slinky":
            return  # with this source, users write the file
        if over := [name for name, (_, at_s) in self._refused.items() if self._clock() - at_s >= self._pace.again_s]:
            self._refused = {name: told for name, told in self._refused.items() if name not in over}
            self._changed(over)
        observation = self._nodes.observation
        if observation is None or self._nodes.age_s > STALE_AFTER_S + self._nodes.turn_s:
            return
        if self._written is None:
            await self._recall()
        name, wanted = self._file_for(observation.nodes)
        written = (self._written or {}).get(name, "")
        self._pending = pace.note(self._pending, wanted=wanted, written=written, now_s=self._clock())
        ago_s = (self._now() - self._written_at).total_seconds() if self._written_at and written else None
        if wanted and pace.is_due(self._pending, self._pace, written_ago_s=ago_s, now_s=self._clock()):
            await self._write(name, wanted)

    async def _ask_release(self) -> None:
        if self._clock() - self._release_at_s < _RELEASE_EACH_S:
            return
        takes_single, self._takes_single = self._takes_single, (await self._slurm.ping()).version >= _SINGLE_FROM
        self._release_at_s = self._clock()
        if takes_single != self._takes_single and (observation := self._nodes.observation) is not None:
            self._changed(observation.nodes)

    def _file_for(self, nodes: dict[str, SlurmNode]) -> tuple[str, str]:
        """Return what `_file` returns, from a cache as long as nothing changes: for 10,000 nodes it takes a while."""
        of = self._places.changes, self._takes_single, self._written_at
        if self._made is None or self._made[0] is not nodes or self._made[1] != of:
            self._made = nodes, of, self._file(nodes)
        return self._made[2]

    def _file(self, nodes: dict[str, SlurmNode]) -> tuple[str, str]:
        """Return name and text of the topology file for these Slurm nodes; the text is empty if there is none
        to write.
        """
        ours = {name: node.owner.uid for name, node in nodes.items() if node.owner is not None and node.is_registered}
        if self._layouts:
            named = files.nodes_in(self._layouts)
            records = [f"{name} {uid}" for name, uid in ours.items() if name in named]
            return self._settings.file_name, files.with_digest(self._settings.file, records) if records else ""
        if self._takes_single:
            blocks = {unit for node in nodes.values() if (unit := units_of(node.topology).get(BLOCK))}
            blocks |= {place.block for name in ours if (place := self._places.of(name)) is not None and place.block}
            return files.YAML, self._yaml(nodes, blocks)
        places = {name: self._with_last(name, self._places.of(name)) for name in ours}
        records = [f"{name} {uid}" for name, uid in ours.items()]
        return files.CONF, files.write_conf(places, records=records) if places else ""

    def _yaml(self, nodes: dict[str, SlurmNode], blocks: set[str]) -> str:
        """Return the topology file of Slurm 26.05. If it has to name nodes so that slurmctld starts fast, each new
        version of the file names all nodes.
        """
        sizes = self._settings.block_sizes
        records = restart.paths_of({name: node.topology for name, node in nodes.items()})
        enough_s = self._pace.start_s
        placed = restart.to_place(records, self._in_file, enough_s=enough_s) if TREE in self._plugins else {}
        text = files.write_yaml(self._plugins, blocks, sizes, paths=placed)
        if not placed or text == (self._written or {}).get(files.YAML):
            return text
        return files.write_yaml(self._plugins, blocks, sizes, paths=records)

    def _with_last(self, name: str, place: Place | None) -> Place:
        """Return the place itself if it has switches; else the node's place in the file that was written last."""
        if place is not None and place.switches:
            return place
        _, *last = files.path_in(self._kept, name) or ("",)
        return Place(switches=tuple(last), problem=place.problem if place is not None else "")

    async def _recall(self) -> None:
        """Read the topology file that was last written, perhaps by an earlier leader, from its ConfigMap."""
        found = await self._kube.get(self._path, ConfigMap)
        at = found.metadata.annotations.get(names.ANNOTATION_TOPOLOGY_AT, "")
        self._keep(found.data, parse_rfc3339(at) if at else None)

    async def _write(self, name: str, text: str) -> None:
        now = self._now()
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        why = self._why(name, text)
        notes = {names.ANNOTATION_TOPOLOGY_AT: rfc3339(now), names.ANNOTATION_TOPOLOGY_WHY: f"{digest}: {why}"}
        await self._kube.patch(self._path, {"metadata": {"annotations": notes}, "data": {name: text}})
        self._keep((self._written or {}) | {name: text}, now)
        self._pending = None
        self._log.info("topology file written, slurmctld's pod loads it", file=name, hash=digest, why=why)

    def _why(self, name: str, text: str) -> str:
        """Return in words for people how the new file differs from the one that was written before."""
        if self._layouts:
            return "nodes have registered"
        if name == files.YAML:
            placed = files.paths_in(files.read(name, text))
            if placed and placed != self._in_file:
                return f"slurmctld starts sooner with these nodes in it: {hostlist.describe(placed)}"
            return "the blocks have changed" if BLOCK in self._plugins else "the file has only the root of the tree"
        before, after = (
            {node: path for each in layouts for node, path in each.paths.items()}
            for layouts in (self._kept, files.read(name, text))
        )
        moved = {node for node in before.keys() | after.keys() if before.get(node) != after.get(node)}
        return f"nodes that came, went or moved: {hostlist.describe(moved)}" if moved else "nodes have registered anew"

    def _keep(self, data: dict[str, str], at: datetime | None) -> None:
        self._written, self._written_at = data, at
        if not self._layouts and files.CONF in data:
            self._kept = files.read(files.CONF, data[files.CONF])
        if not self._layouts and files.YAML in data:
            self._in_file = files.paths_in(files.read(files.YAML, data[files.YAML]))
