"""Names of Slurm nodes, as Slurm gives them, resolve wherever jobs and people are."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.unit.charts.rendering import Manifest, Refused, check_accepted, of_kind, render

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBGPPXOXcMTZaPZIqgVbxFGqbVLYLHjwZdSpIrVTSLxX"
EVERYWHERE: Mapping[str, object] = {
    "users": {"people": {"ann": {"uid": 2001, "sshKeys": [KEY]}}},
    "login": {"perUser": {"enabled": True, "users": {"ann": {}}}, "sets": {"gpu": {}}},
    "nodeSets": {"a100": {"nodeSelector": {"gpu": "a100"}}, "cpu": {"nodeSelector": {"gpu": "none"}}},
}
"""Several NodeSets, and a login pod of each kind."""
OURS = "demo-compute.research.svc.cluster.local"
PODS = {"a100", "cpu", "demo-login", "demo-gpu-login", "demo-login-ann"}


def pods(manifests: Sequence[Manifest]) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Name of what makes them, and their spec, of all pods."""
    for kind in ("NodeSet", "StatefulSet", "Deployment", "DaemonSet", "Job"):
        for name, manifest in of_kind(manifests, kind).items():
            yield name, manifest["spec"]["template"]["spec"]


def searches(values: Mapping[str, object]) -> dict[str, Sequence[str]]:
    """The search domains of pods, by name; pods without any are left out."""
    found = ((name, spec.get("dnsConfig", {}).get("searches")) for name, spec in pods(render("slurm", values)))
    return {name: domains for name, domains in found if domains}


def test_jobs_and_people_look_for_a_name_among_the_nodes_of_all_nodesets() -> None:
    assert searches(EVERYWHERE) == {name: [OURS] for name in PODS}
    for manifest in render("slurm", EVERYWHERE):
        if manifest["kind"] == "StatefulSet":
            check_accepted(manifest)


def test_one_service_has_the_names_of_all_nodesets_also_of_pods_that_are_not_ready() -> None:
    manifests = render("slurm", EVERYWHERE)
    spec = of_kind(manifests, "Service")["demo-compute"]["spec"]
    assert (spec["clusterIP"], spec["publishNotReadyAddresses"]) == ("None", True)
    for nodeset in of_kind(manifests, "NodeSet").values():
        assert nodeset["spec"]["template"]["spec"]["subdomain"] == "demo-compute"
        ours = {"sunkpy.dev/cluster": nodeset["spec"]["cluster"], "sunkpy.dev/role": "compute"}
        assert spec["selector"] == ours, "labels that the operator sets on the pods of each NodeSet"


def test_they_are_in_the_domain_of_the_kubernetes_cluster() -> None:
    assert set(map(tuple, searches({"clusterDomain": "k8s.example.com"}).values())) == {
        ("demo-compute.research.svc.k8s.example.com",)
    }


@pytest.mark.parametrize("domain", ["", ".local", "cluster.local.", "Cluster.Local", "a b"])
def test_what_is_no_domain_is_refused(domain: str) -> None:
    with pytest.raises(Refused, match="clusterDomain"):
        render("slurm", {"clusterDomain": domain})


def test_what_a_site_sets_for_all_pods_counts_beside_it() -> None:
    site = {"searches": ["example.com"], "nameservers": ["192.0.2.1"], "options": [{"name": "ndots", "value": "2"}]}
    for name, spec in pods(render("slurm", {"common": {"podSpec": {"dnsConfig": site}}})):
        ours = [OURS] if name in ("compute", "demo-login") else []
        assert spec["dnsConfig"] == {**site, "searches": [*ours, "example.com"]}


RESOLV_CONF = "nameserver 10.96.0.10\nsearch {}\noptions ndots:5\n"


@pytest.mark.parametrize(
    ("resolv_conf", "code", "said"),
    [
        (RESOLV_CONF.format("research.svc.cluster.local svc.cluster.local cluster.local example.com"), 0, ""),
        (
            RESOLV_CONF.format("research.svc.k8s.example.com svc.k8s.example.com k8s.example.com"),
            3,
            "clusterDomain: cluster.local, but the domain of this Kubernetes cluster is k8s.example.com: no name of a "
            "Slurm node would resolve. Set clusterDomain: k8s.example.com\n",
        ),
        (RESOLV_CONF.format("example.com svc.example.com"), 0, ""),
        ("nameserver 192.0.2.1\n", 0, ""),
    ],
    ids=["the same", "another", "dnsPolicy Default", "none"],
)
def test_another_domain_than_that_of_the_cluster_is_refused_before_an_upgrade(
    tmp_path: Path, resolv_conf: str, code: int, said: str
) -> None:
    job = of_kind(render("slurm"), "Job")["demo-check"]
    check_accepted(job)
    (command,) = [c["command"] for c in job["spec"]["template"]["spec"]["containers"] if c["name"] == "domain"]
    file = tmp_path / "resolv.conf"
    file.write_text(resolv_conf)
    argv = [word.replace("/etc/resolv.conf", str(file)) for word in command]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (code, said)
    assert job["spec"]["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"] == [3]
