"""Lists the programs that write a Node's place in the network into its labels, and the label keys that each of them
uses.

The keys are facts of other projects, as of November 2026: topograph (pkg/topology, docs/reference), GKE ("Plan GPU
capacity" and its Topology for Kueue), Amazon EKS ("network topology labels"), Oracle's oci-hpc-oke, CoreWeave
("InfiniBand and RoCE labels"), Nebius (soperator), NVIDIA's GPU feature discovery, Kueue (Topology), Slinky.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from sunkpy.core.model.objects import KubeObject, Wire

HOSTNAME: Final = "kubernetes.io/hostname"
SLINKY_ANNOTATION: Final = "topology.slinky.slurm.net/spec"
"""Annotation of a Node, by Slinky's users and topograph: its place as Slurm takes it, `NAME:unit,NAME:unit`."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """The Node label keys in which one program writes the network: `levels` for the switches, widest first, and
    `blocks`, such as nodes behind one NVLink.

    The last `least` of `levels` must be on a Node; wider ones may be missing, the widest first. `longer` is the key of
    a level below the last one, which only some machines have. Of several keys in `blocks` the first that the Node has
    counts.
    """

    name: str
    levels: tuple[str, ...]
    least: int = 1
    longer: str = ""
    blocks: tuple[str, ...] = ()

    @property
    def keys(self) -> frozenset[str]:
        """All label keys that the source reads from a Node."""
        return frozenset({*self.levels, self.longer, *self.blocks} - {""})


def _tiers(key: str, widest: int, nearest: int) -> tuple[str, ...]:
    return tuple(f"{key}{tier}" for tier in range(widest, nearest - 1, -1))


_CLIQUE: Final = "nvidia.com/gpu.clique"

SOURCES: Final = (
    Source(
        name="topograph",
        levels=_tiers("fabric.topograph.run/tier-", 7, 0),
        blocks=("accelerator.topograph.run/domain", _CLIQUE),
    ),
    Source(
        name="topograph-0.5",
        levels=tuple(f"network.topology.nvidia.com/{level}" for level in ("core", "spine", "leaf")),
        blocks=("network.topology.nvidia.com/accelerator", _CLIQUE),
    ),
    Source(
        name="topograph-0.1",
        levels=tuple(f"network.topology.nvidia.com/{level}" for level in ("datacenter", "spine", "block")),
        blocks=("network.topology.nvidia.com/accelerator", _CLIQUE),
    ),
    Source(
        name="gke",
        levels=tuple(f"cloud.google.com/gce-topology-{level}" for level in ("block", "subblock")),
        least=2,
        blocks=(_CLIQUE, "cloud.google.com/gce-topology-subblock"),
    ),
    Source(
        name="eks",
        levels=tuple(f"topology.k8s.aws/network-node-layer-{layer}" for layer in (1, 2, 3)),
        least=3,
        longer="topology.k8s.aws/network-node-layer-4",
        blocks=(_CLIQUE, "topology.k8s.aws/ultraserver-id", "topology.k8s.aws/capacity-block-id"),
    ),
    Source(
        name="oke",
        levels=tuple(
            f"oci.oraclecloud.com/rdma.{level}_id" for level in ("hpc_island", "network_block", "local_block")
        ),
        least=3,
        blocks=(_CLIQUE, "oci.oraclecloud.com/rdma.local_block_id"),
    ),
    Source(
        name="oke-host",
        levels=tuple(f"oci.oraclecloud.com/host.{level}_id" for level in ("network_block", "rack")),
        least=2,
    ),
    Source(
        name="coreweave",
        levels=tuple(f"backend.coreweave.cloud/{level}" for level in ("fabric", "superpod", "leafgroup")),
        blocks=("ds.coreweave.com/nvlink.domain", _CLIQUE),
    ),
    Source(
        name="coreweave-ib",
        levels=tuple(f"ib.coreweave.cloud/{level}" for level in ("fabric", "superpod", "leafgroup")),
        blocks=("ds.coreweave.com/nvlink.domain", _CLIQUE),
    ),
    Source(
        name="nebius",
        levels=_tiers("topology.nebius.com/tier-", 7, 1),
        blocks=("topology.nebius.com/tier-0", "topology.nebius.com/nvl-instance-group-id", _CLIQUE),
    ),
    Source(name="gpu-clique", levels=(_CLIQUE,), blocks=(_CLIQUE,)),
)
"""The known sources, in the order in which `auto` tries them on a Node. The hostname is not a level, because each node
would be a leaf of its own.
"""


class _Level(Wire, frozen=True, kw_only=True):
    node_label: str = ""


class _Levels(Wire, frozen=True, kw_only=True):
    levels: tuple[_Level, ...] = ()


class KueueTopology(KubeObject, frozen=True, kw_only=True):
    """A cluster-wide Topology object of Kueue (kueue.x-k8s.io), whose spec has the label keys of the levels, widest
    first.
    """

    spec: _Levels = _Levels()


def of_kueue(topology: KueueTopology) -> Source:
    """Return a source with the label keys of Kueue's Topology as its levels. The level of single nodes (the hostname)
    is left out.
    """
    return of_keys([level.node_label for level in topology.spec.levels], name=f"Topology {topology.name}")


def of_keys(keys: Iterable[str], *, blocks: Iterable[str] = (), name: str = "labels") -> Source:
    """Return a source with label keys that a person has configured, widest first. A Node must have all of them."""
    levels = tuple(key for key in keys if key and key != HOSTNAME)
    return Source(name=name, levels=levels, least=len(levels), blocks=tuple(blocks))


def known(name: str) -> tuple[Source, ...]:
    """Return the known label sources with this name, in the order in which they are tried on a Node; empty if there is
    none.

    `auto` means all sources, and a name means all its generations: `topograph` is `topograph-0.5`, too.
    """
    if name == "auto":
        return SOURCES
    return tuple(source for source in SOURCES if name in (source.name, source.name.partition("-")[0]))
