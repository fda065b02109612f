from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devcluster.errors import DevclusterError
from devcluster.layout import MAX_MACHINES, MAX_NODES, MAX_ROOT_LENGTH, SLOTS, Layout, check_name, check_root


def layout(slot: int = 0, name: str = "x", root: str = "/r") -> Layout:
    return Layout(root=Path(root), name=name, slot=slot)


def test_clusters_side_by_side_share_no_address_and_no_name_of_a_kernel_object():
    all_of_them = [layout(slot) for slot in range(SLOTS)]
    for one in all_of_them:
        for other in all_of_them:
            if one.slot != other.slot:
                assert not one.network.overlaps(other.network)
                assert one.etcd_url != other.etcd_url
                assert one.bridge != other.bridge
                assert one.cgroup != other.cgroup
                assert not {one.node(n).veth for n in range(1, 65)} & {other.node(n).veth for n in range(1, 65)}


@given(slot=st.integers(0, SLOTS - 1), number=st.integers(1, MAX_NODES))
def test_every_part_of_a_cluster_lies_in_its_network(slot: int, number: int):
    here = layout(slot)
    node = here.node(number)
    assert node.ip in here.node_network
    assert node.ip != here.host_ip
    assert node.pod_network.subnet_of(here.pod_network)
    assert here.service_network.subnet_of(here.network)
    assert not node.pod_network.overlaps(here.service_network)
    assert len(node.veth) <= 15  # IFNAMSIZ


def test_pod_networks_of_nodes_are_disjoint():
    here = layout()
    nodes = [here.node(number) for number in range(1, MAX_NODES + 1)]
    nodes += [here.machine(number) for number in range(1, MAX_MACHINES + 1)]
    for found in ({each.pod_network for each in nodes}, {each.ip for each in nodes}, {each.name for each in nodes}):
        assert len(found) == MAX_NODES + MAX_MACHINES
    assert all(each.pod_network.subnet_of(here.pod_network) for each in nodes)


def test_the_longest_socket_fits_into_a_unix_address():
    home = layout(root="/" + "r" * (MAX_ROOT_LENGTH - 1), name="n" * 20).node(MAX_NODES).home
    assert len(str(home / "kubelet/pod-resources/kubelet.sock")) < 108
    assert len(str(home / "run/containerd.sock.ttrpc")) < 108


@pytest.mark.parametrize("name", ["", "-x", "a/b", "..", "a b", "x" * 21, "ä"])
def test_a_name_that_cannot_be_a_folder_is_refused(name: str):
    with pytest.raises(DevclusterError, match="cannot be used"):
        check_name(name)


@pytest.mark.parametrize("root", ["relative", "/" + "x" * 60])
def test_a_root_too_long_for_sockets_is_refused(root: str):
    with pytest.raises(DevclusterError, match="SUNKPY_DEVCLUSTER_HOME"):
        check_root(Path(root))
