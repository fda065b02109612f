"""Who labels Nodes with the network, and how: label sets as the documentation of each has them."""

import msgspec
import pytest

from sunkpy.core.topology.places import place_of
from sunkpy.core.topology.sources import SOURCES, KueueTopology, known, of_keys, of_kueue

EKS = {
    "topology.k8s.aws/network-node-layer-1": "nn-e50490a237cb0f01a",
    "topology.k8s.aws/network-node-layer-2": "nn-5f5a3f0c1a4e2f95d",
    "topology.k8s.aws/network-node-layer-3": "nn-0f6a7d1c5c4a3b2e1",
}
GKE = {
    "cloud.google.com/gce-topology-block": "a3f1c9d2e4b5",
    "cloud.google.com/gce-topology-subblock": "77bb00112233",
    "cloud.google.com/gce-topology-host": "0f9e8d7c6b5a",
}
OKE = {
    "oci.oraclecloud.com/rdma.hpc_island_id": "4nd7mthfmca",
    "oci.oraclecloud.com/rdma.network_block_id": "7xmzl4p4wba",
    "oci.oraclecloud.com/rdma.local_block_id": "5tjxbt5s6ua",
    "oci.oraclecloud.com/rdma.host_id": "ab3zs7y7v7q",
}
COREWEAVE = {
    "backend.coreweave.cloud/flavor": "infiniband",
    "backend.coreweave.cloud/fabric": "las1-f1",
    "backend.coreweave.cloud/superpod": "2",
    "backend.coreweave.cloud/leafgroup": "14",
    "ds.coreweave.com/nvlink.domain": "dh1-r101-us-las1",
}
NEBIUS = {
    "topology.nebius.com/tier-3": "b3c1",
    "topology.nebius.com/tier-2": "9d4e",
    "topology.nebius.com/tier-1": "51aa",
    "topology.nebius.com/tier-0": "nvl72-7",
}
TOPOGRAPH = {
    "fabric.topograph.run/tier-2": "core-1",
    "fabric.topograph.run/tier-1": "spine-3",
    "fabric.topograph.run/tier-0": "x8f1d0c4a7b2e9356",
    "accelerator.topograph.run/domain": "nvl-2",
}
TOPOGRAPH_05 = {
    "network.topology.nvidia.com/core": "core-1",
    "network.topology.nvidia.com/spine": "spine-3",
    "network.topology.nvidia.com/leaf": "leaf-9",
    "network.topology.nvidia.com/accelerator": "nvl-2",
}
CLIQUE = {"nvidia.com/gpu.clique": "7b968a6d-c8aa-45e1-9e07-e1e51be99c31.3"}


@pytest.mark.parametrize(
    ("labels", "leaf", "block"),
    [
        (EKS, "nn-e50490a237cb0f01a/nn-5f5a3f0c1a4e2f95d/nn-0f6a7d1c5c4a3b2e1/-", ""),
        (
            EKS | {"topology.k8s.aws/network-node-layer-4": "nn-4", "topology.k8s.aws/ultraserver-id": "us-1"},
            "nn-e50490a237cb0f01a/nn-5f5a3f0c1a4e2f95d/nn-0f6a7d1c5c4a3b2e1/nn-4",
            "us-1",
        ),
        (GKE, "a3f1c9d2e4b5/77bb00112233", "77bb00112233"),
        (OKE, "4nd7mthfmca/7xmzl4p4wba/5tjxbt5s6ua", "5tjxbt5s6ua"),
        (COREWEAVE, "las1-f1/2/14", "dh1-r101-us-las1"),
        (NEBIUS, "b3c1/9d4e/51aa", "nvl72-7"),
        (TOPOGRAPH, "core-1/spine-3/x8f1d0c4a7b2e9356", "nvl-2"),
        (TOPOGRAPH_05, "core-1/spine-3/leaf-9", "nvl-2"),
        (CLIQUE, "7b968a6d-c8aa-45e1-9e07-e1e51be99c31.3", "7b968a6d-c8aa-45e1-9e07-e1e51be99c31.3"),
        (CLIQUE | COREWEAVE, "las1-f1/2/14", "dh1-r101-us-las1"),
        (CLIQUE | GKE, "a3f1c9d2e4b5/77bb00112233", "7b968a6d-c8aa-45e1-9e07-e1e51be99c31.3"),
        (
            {f"oci.oraclecloud.com/host.{level}_id": level for level in ("network_block", "rack")},
            "network_block/rack",
            "",
        ),
        (
            {f"network.topology.nvidia.com/{level}": level for level in ("datacenter", "spine", "block")},
            "datacenter/spine/block",
            "",
        ),
        (
            {f"ib.coreweave.cloud/{level}": level for level in ("fabric", "superpod", "leafgroup")},
            "fabric/superpod/leafgroup",
            "",
        ),
    ],
)
def test_labels_of_a_provider_are_understood_without_a_word_of_configuration(labels, leaf, block):
    place = place_of(labels | {"kubernetes.io/hostname": "n1"}, known("auto"))
    assert (place.path, place.block, place.problem) == (leaf, block, "")
    # A path of four names of EKS is longer than Slurm takes.
    assert place.leaf.rpartition("/")[2] == leaf.rpartition("/")[2]
    assert len(place.leaf) <= 63
    if len(leaf) <= 63:
        assert place.leaf == leaf


def test_a_name_is_that_of_all_generations_of_a_source():
    assert [source.name for source in known("topograph")] == ["topograph", "topograph-0.5", "topograph-0.1"]
    assert [source.name for source in known("oke-host")] == ["oke-host"]
    assert known("auto") == SOURCES
    assert known("nobody") == ()


def test_a_topology_of_kueue_names_the_keys_but_for_the_node_itself():
    levels = [{"nodeLabel": key} for key in ("cloud.provider.com/topology-block", "rack", "kubernetes.io/hostname")]
    body = {"metadata": {"name": "default"}, "spec": {"levels": levels}}
    source = of_kueue(msgspec.convert(body, KueueTopology))
    assert (source.name, source.levels) == ("Topology default", ("cloud.provider.com/topology-block", "rack"))
    assert place_of({"cloud.provider.com/topology-block": "b1", "rack": "r2"}, [source]).leaf == "b1/r2"


def test_of_levels_in_values_all_have_to_be_there():
    source = of_keys(["zone", "rack"], blocks=["nvl"])
    assert place_of({"zone": "z", "rack": "r", "nvl": "d"}, [source]).switches == ("z/", "z/r")
    assert place_of({"rack": "r"}, [source]).problem == "no label zone"
    assert place_of({}, [source]).problem == "no label zone and no label rack"
