import base64
import re
from pathlib import Path

import yaml

from devcluster import controlplane, dra, kwok, node, pki
from devcluster.binaries import Binaries
from devcluster.layout import Layout
from devcluster.mounts import parse_mounts_below

ROOT = Path(__file__).resolve().parents[3]
LAYOUT = Layout(root=Path("/r"), name="x", slot=1)
BINARIES = Binaries(cache=Path("/c"))


def test_every_client_has_a_token_and_the_kubelets_speak_as_their_nodes():
    users = pki.all_users(LAYOUT)
    lines = [pki.token_line(f"t{i}", client, *user) for i, (client, user) in enumerate(users.items())]
    assert set(pki.read_tokens("\n".join(lines))) == set(users)
    assert users["kubelet-node-3"] == ("system:node:node-3", "system:nodes")
    assert users["kubelet-vm-1"] == ("system:node:vm-1", "system:nodes")


def test_a_kubeconfig_carries_the_ca_and_does_not_skip_verification():
    text = pki.render_kubeconfig(cluster="x", server="https://h:6443", ca="PEM", user="admin", token="secret")
    config = yaml.safe_load(text)
    assert base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]) == b"PEM"
    assert "insecure" not in text
    assert config["current-context"] == "x"


def test_a_full_disk_never_makes_a_node_evict():
    eviction = node.kubelet_config(LAYOUT, LAYOUT.node(1))["evictionHard"]
    assert {key: value for key, value in eviction.items() if "fs" in key} == {
        "nodefs.available": "0%",
        "nodefs.inodesFree": "0%",
        "imagefs.available": "0%",
        "imagefs.inodesFree": "0%",
    }


def test_nodes_share_no_path():
    one, two = (node.kubelet_config(LAYOUT, LAYOUT.node(n)) for n in (1, 2))
    for key in ("cgroupRoot", "containerRuntimeEndpoint", "podLogsDir", "volumePluginDir"):
        assert one[key] != two[key]
    first, second = (set(re.findall(r"/r/x/[^\s\"]+", containerd_text(n))) for n in (1, 2))
    assert f"{LAYOUT.node(1).cdi}" in first
    assert not first & second


def containerd_text(number: int) -> str:
    each = LAYOUT.node(number)
    return "\n".join([node.containerd_config(each), *dra.driver(LAYOUT, each, BINARIES, devices=2).argv])


def test_containerd_finds_its_own_shim_before_that_of_the_machine():
    daemon = node.containerd(LAYOUT.node(1), BINARIES)
    assert daemon.env["PATH"].split(":")[0] == str(Path(daemon.argv[0]).parent)


def test_simulated_nodes_have_addresses_of_their_own():
    statuses = [kwok.node_status(LAYOUT, n, gpus=8)["status"] for n in range(1, 3000)]
    addresses = {status["addresses"][0]["address"] for status in statuses}
    assert len(addresses) == 2999
    assert statuses[0]["allocatable"]["nvidia.com/gpu"] == "8"
    assert not kwok.node_network(LAYOUT).overlaps(kwok.pod_network(LAYOUT))


def test_dns_asks_as_a_user_who_may_only_read():
    assert "coredns.conf" in controlplane.corefile(LAYOUT)
    verbs = {
        verb
        for path, body in controlplane.rbac()
        if "coredns" in path
        for rule in body.get("rules", [])
        for verb in rule["verbs"]
    }
    assert verbs == {"get", "list", "watch"}


def test_mounts_below_a_folder_are_found_in_order_and_unescaped():
    mountinfo = """\
1 0 8:1 / / rw - ext4 /dev/vda rw
2 1 8:1 /r/x /r/x rw shared:1 - ext4 /dev/vda rw
3 2 0:5 / /r/x/a\\040b rw - tmpfs tmpfs rw
4 1 8:1 /r/xy /r/xy rw - ext4 /dev/vda rw
"""
    assert parse_mounts_below(mountinfo, Path("/r/x")) == [Path("/r/x"), Path("/r/x/a b")]


def test_what_has_a_fixed_name_on_a_machine_each_node_has_for_itself_and_below_its_own_folder():
    other = Layout(root=Path("/r"), name="y", slot=2)
    nodes = [LAYOUT.node(1), LAYOUT.node(2), other.node(1)]
    for path in LAYOUT.node(1).own:
        instead = {each.own[path] for each in nodes}
        assert len(instead) == len(nodes)
        assert all(each.own[path].is_relative_to(each.home) for each in nodes)


def test_a_node_and_its_pods_see_the_same_in_the_place_of_those():
    here = LAYOUT.node(1)
    for daemon in (node.containerd(here, BINARIES), node.kubelet(LAYOUT, here, BINARIES)):
        assert here.own.items() <= daemon.binds.items()


def test_the_defaults_of_the_charts_are_among_those():
    values = yaml.safe_load((ROOT / "charts/slurm/values.yaml").read_text())
    defaults = {values["hooks"]["markersHostPath"], values["scheduler"]["devicePlugin"]["kubeletFolder"]}
    assert set(map(Path, defaults)) <= set(LAYOUT.node(1).own)
