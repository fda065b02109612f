"""What values make of a fast network: the slurmd pods of a NodeSet, and what is refused because it could not work."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.charts.rendering import CHARTS, ROOT, Refused, of_kind, render
from tests.unit.charts.test_compute_ssh import SSH

NETWORKS = "k8s.v1.cni.cncf.io/networks"
MACHINES = {"slurmdFrom": [{"ipBlock": {"cidr": "10.9.0.0/24"}}]}
PAGE = ROOT / "docs/tasks/rdma.md"
SCRIPT = CHARTS / "slurm/files/name-host.sh"
BY_SSH = {**SSH, "networkPolicies": MACHINES}


def _pod(values: Mapping[str, object], name: str = "compute") -> Mapping[str, Any]:
    template: Mapping[str, Any] = of_kind(render("slurm", values), "NodeSet")[name]["spec"]["template"]
    return template


def _slurmd(values: Mapping[str, object], name: str = "compute") -> Mapping[str, Any]:
    (container,) = [each for each in _pod(values, name)["spec"]["containers"] if each["name"] == "slurmd"]
    return container


def _on_machines(**more: object) -> dict[str, object]:
    return {"networkPolicies": MACHINES, "compute": {"fabric": {"hostNetwork": True, **more}}}


def test_a_slurmd_pod_takes_what_its_nodeset_says_beside_what_all_take():
    sets = {"ib": {"fabric": {"resources": {"rdma/hca": 1}}}, "efa": {"resources": {"limits": {"cpu": 8}}}, "cpu": {}}
    sets["efa"]["fabric"] = {"resources": {"vpc.amazonaws.com/efa": 32, "site/none": 0}}
    every = {"fabric": {"resources": {"site/nic": 2}}}
    taken = {name: _slurmd({"compute": every, "nodeSets": sets}, name)["resources"] for name in sets}
    assert {name: each["limits"] for name, each in taken.items()} == {
        "ib": {"site/nic": 2, "rdma/hca": 1},
        "efa": {"site/nic": 2, "vpc.amazonaws.com/efa": 32, "cpu": 8},
        "cpu": {"site/nic": 2},
    }
    assert {str(each["requests"]) for each in taken.values()} == {"{'cpu': '250m', 'memory': '256Mi'}"}
    for name, nodeset in of_kind(render("slurm", {"nodeSets": sets}), "NodeSet").items():
        assert "fabric" not in nodeset["spec"], name


def test_a_slurmd_pod_joins_the_networks_of_multus_beside_other_annotations():
    rails = ["rail@net1", "rail@net2", "storage/ib"]
    compute = {"podAnnotations": {"team": "x"}, "fabric": {"networks": rails}}
    assert _pod({"compute": compute})["metadata"]["annotations"] == {
        "team": "x",
        NETWORKS: "rail@net1, rail@net2, storage/ib",
    }


def _examples() -> list[dict[str, Any]]:
    return [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)]


def test_the_page_has_values_that_the_chart_takes():
    fabrics = {
        name: nodeset["spec"]["template"]
        for values in _examples()
        for name, nodeset in of_kind(render("slurm", values), "NodeSet").items()
    }
    assert fabrics.keys() == {"ib", "roce", "sriov", "efa", "cpu", "rack-1", "compute"}
    limits = fabrics["efa"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"vpc.amazonaws.com/efa": 32, "hugepages-2Mi": "5120Mi"}


def test_a_slurmd_pod_has_the_channels_of_a_compute_domain():
    """NVIDIA's DRA driver makes the template that the ComputeDomain and the pods name."""
    (values,) = [each for each in _examples() if "extraObjects" in each]
    made = render("slurm", values)
    channel = of_kind(made, "ComputeDomain")["rack-1"]["spec"]["channel"]
    spec = of_kind(made, "NodeSet")["rack-1"]["spec"]["template"]["spec"]
    template = channel["resourceClaimTemplate"]["name"]
    assert spec["resourceClaims"] == [{"name": "imex", "resourceClaimTemplateName": template}]
    assert spec["containers"][0]["resources"]["claims"] == [{"name": "imex"}]


@pytest.mark.parametrize(
    ("has_fabric", "set_by_user", "exported"),
    [
        (False, {}, set()),
        (True, {}, {"NCCL_IB_HCA=mlx5", "NCCL_SOCKET_IFNAME=eth0", "UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1"}),
        (True, {"NCCL_IB_HCA": "", "UCX_NET_DEVICES": "x"}, {"NCCL_SOCKET_IFNAME=eth0"}),
    ],
)
def test_tasks_are_told_of_the_fabric_unless_their_user_says_otherwise(
    has_fabric: bool, set_by_user: dict[str, str], exported: set[str], tmp_path: Path
):
    (values,) = [each for each in _examples() if "hooks" in each]
    script = of_kind(render("slurm", values), "ConfigMap")["demo-slurm-config"]["data"]["task_hooks.sh"]
    if has_fabric:
        (tmp_path / "infiniband").mkdir()
    script = script.replace("/sys/class/infiniband", str(tmp_path / "infiniband"))
    env = {"PATH": os.environ["PATH"], "SLURM_SCRIPT_CONTEXT": "prolog_task", **set_by_user}
    done = subprocess.run(["bash"], input=script, env=env, capture_output=True, text=True, check=True)
    assert set(done.stdout.splitlines()) == {f"export {each}" for each in exported}


def test_on_the_network_of_the_machines_a_pod_still_knows_the_names_of_the_cluster():
    sets = {"ib": {"fabric": {"hostNetwork": True}}, "cpu": {}}
    values = {"networkPolicies": MACHINES, "nodeSets": sets}
    spec, other = _pod(values, "ib")["spec"], _pod(values, "cpu")["spec"]
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert not {"hostNetwork", "dnsPolicy"} & other.keys()
    assert _slurmd(values, "ib")["command"][:3] == ["/usr/bin/unshare", "--uts", "/bin/bash"], "a name of its own"
    assert _slurmd(values, "ib")["command"][-3:] == _slurmd(values, "cpu")["command"][-3:]
    env = {each["name"]: each for each in _slurmd(values, "ib")["env"]}
    assert env["SUNKPY_ADDRESS"]["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"
    assert env["SUNKPY_DOMAIN"]["value"] == "demo-compute.research.svc.cluster.local"


def test_slurmctld_and_login_pods_hear_the_machines_where_no_policy_can_name_pods():
    policies = of_kind(render("slurm", _on_machines()), "NetworkPolicy")
    for part, port in (("slurmctld", 6817), ("slurmdbd", 6819), ("scheduler", 8000), ("login", None)):
        (rule,) = [
            rule
            for rule in policies[f"demo-{part}"]["spec"]["ingress"]
            if MACHINES["slurmdFrom"][0] in rule.get("from", [])
        ]
        assert [each["port"] for each in rule.get("ports", [])] == ([port] if port else []), part


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (
            {"compute": {"fabric": {"hostNetwork": True}}},
            "fabric.hostNetwork of NodeSet compute: no NetworkPolicy can select pods on the machines' network, so "
            "the policy of slurmctld would shut out these slurmd pods. Name the addresses of the machines in "
            "networkPolicies.slurmdFrom, [{ipBlock: {cidr: …}}], or set networkPolicies.enabled: false. No policy "
            "limits what jobs on these nodes can reach, not even networkPolicies.jobEgress",
        ),
        (
            _on_machines(networks=["ib"]),
            "fabric.networks of NodeSet compute: with fabric.hostNetwork, the pods have all interfaces of the machine, "
            "and Multus adds none: leave out networks or hostNetwork",
        ),
        (
            {"compute": {"podAnnotations": {NETWORKS: "ib"}, "fabric": {"networks": ["ib"]}}},
            f"fabric.networks of NodeSet compute: podAnnotations has {NETWORKS}, too: leave out one of the two",
        ),
        (
            {"compute": {"resources": {"limits": {"rdma/hca": 1}}, "fabric": {"resources": {"rdma/hca": 1}}}},
            "fabric.resources of NodeSet compute: resources.limits has rdma/hca, too: leave it out of resources",
        ),
        (
            {**BY_SSH, "nodeSets": {"ib": {"fabric": {"hostNetwork": True}}}},
            "fabric.hostNetwork of NodeSet ib: the machine's own sshd uses port 22, so set fabric.sshPort to another"
            " port, for compute.ssh",
        ),
    ],
)
def test_what_could_not_work_is_refused(values: Mapping[str, object], words: str):
    with pytest.raises(Refused) as refused:
        render("slurm", values)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("fabric", "at"),
    [
        ({"resources": {"hca": 1}}, "'hca' does not match"),
        ({"resources": {"rdma/hca": "1"}}, "/compute/fabric/resources/rdma"),
        ({"networks": ["a b"]}, "/compute/fabric/networks/0"),
        ({"networks": ['[{"name": "x"}]']}, "/compute/fabric/networks/0"),
        ({"claims": {"Imex": "x"}}, "'Imex' does not match"),
        ({"sshPort": 70000}, "/compute/fabric/sshPort"),
        ({"hostnetwork": True}, "additional properties 'hostnetwork' not allowed"),
    ],
)
def test_what_kubernetes_would_not_take_is_no_value(fabric: Mapping[str, object], at: str):
    with pytest.raises(Refused) as refused:
        render("slurm", {"compute": {"fabric": fabric}})
    assert at in str(refused.value)


def test_on_the_network_of_the_machines_ssh_has_a_port_of_its_own():
    sets = {"ib": {"fabric": {"hostNetwork": True, "sshPort": 2022}}, "cpu": {}}
    made = of_kind(render("slurm", {**BY_SSH, "nodeSets": sets}), "ConfigMap")
    scripts = {name: made[f"demo-{name}-services"]["data"]["sshd"].splitlines()[1] for name in sets}
    assert scripts == {
        "ib": "SUNKPY_SSH_PORT=2022 exec /usr/local/bin/start-sshd /etc/sunkpy/sshd",
        "cpu": "exec /usr/local/bin/start-sshd /etc/sunkpy/sshd",
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")
def test_a_job_there_has_the_name_of_its_slurm_node_and_the_machine_keeps_its_own(tmp_path: Path):
    """In namespaces of this kernel, with an /etc/hosts as the kubelet copies it from the machine."""
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1\tlocalhost\n")
    env = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "SUNKPY_SLURM_NODE": "ib-012-001",
        "SUNKPY_ADDRESS": "10.9.12.1",
        "SUNKPY_DOMAIN": "demo-compute.research.svc.cluster.local",
    }
    before = socket.gethostname()
    look = "uname -n; getent hosts ib-012-001; hostname --fqdn; readlink /proc/self/ns/uts"
    mounted = ("unshare", "--mount", "bash", "-ec", 'mount --bind "$1" /etc/hosts; shift; exec "$@"', "-", str(hosts))
    command = ("unshare", "--uts", "/bin/bash", "-ec", SCRIPT.read_text(), "name-host", "bash", "-c", look)
    done = subprocess.run((*mounted, *command), env=env, capture_output=True, text=True, check=True)
    name, address, whole, namespace = done.stdout.splitlines()
    assert (name, whole) == ("ib-012-001", "ib-012-001.demo-compute.research.svc.cluster.local")
    assert address.split() == ["10.9.12.1", whole, name]
    assert namespace != str(Path("/proc/self/ns/uts").readlink())
    assert socket.gethostname() == before
