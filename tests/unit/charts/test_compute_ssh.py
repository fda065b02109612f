"""By ssh to the node of one's job: what values make of it, and that nothing of it is there without."""

from __future__ import annotations

import pytest

from tests.unit.charts.rendering import Manifest, Refused, of_kind, render

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBGPPXOXcMTZaPZIqgVbxFGqbVLYLHjwZdSpIrVTSLxX"
PEOPLE = {"users": {"people": {"ann": {"uid": 2001, "sshKeys": [KEY]}}}}
SSH = {**PEOPLE, "compute": {"ssh": {"enabled": True}}}


def _flags(manifests: list[Manifest]) -> str:
    conf = of_kind(manifests, "ConfigMap")["demo-slurm-config"]["data"]["slurm.conf"]
    return next(line for line in conf.splitlines() if line.startswith("PrologFlags="))


def _sshd(manifests: list[Manifest], name: str) -> dict[str, str]:
    conf = of_kind(manifests, "ConfigMap")[name]["data"]["sshd_config"]
    return dict(line.split(maxsplit=1) for line in conf.splitlines() if not line.startswith("#"))


def test_sshd_is_a_service_beside_slurmd_with_a_host_key_of_its_own():
    manifests = render("slurm", SSH)
    maps = of_kind(manifests, "ConfigMap")
    assert maps["demo-compute-services"]["data"]["services.list"] == "sshd longrun 60 10\n"
    assert _flags(manifests) == "PrologFlags=Alloc,Contain"
    pod = of_kind(manifests, "NodeSet")["compute"]["spec"]["template"]["spec"]
    mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    assert (mounts["sshd"], mounts["host-keys"]) == ("/etc/sunkpy/sshd/config", "/etc/sunkpy/sshd/keys")
    secret = {"secretName": "demo-compute-ssh-host-key", "defaultMode": 0o400}
    assert {"name": "host-keys", "secret": secret} in pod["volumes"]
    assert "--ssh-host-secret=demo-compute-ssh-host-key" in str(of_kind(manifests, "Job")["demo-keys"])


def test_a_host_key_that_a_site_brings_is_taken_and_none_made():
    manifests = render("slurm", {**SSH, "keys": {"existingComputeSshHostSecret": "ours"}})
    assert "ours" in str(of_kind(manifests, "NodeSet")["compute"]["spec"]["template"]["spec"]["volumes"])
    assert "demo-compute-ssh-host-key" not in str(of_kind(manifests, "Job")["demo-keys"])


@pytest.mark.parametrize(
    "values",
    [
        PEOPLE,
        {"compute": {"ssh": {"enabled": True}}},
        {**SSH, "login": {"ssh": {"enabled": False}}},
        {**SSH, "login": {"enabled": False}},
    ],
)
def test_nothing_of_it_is_there_where_nobody_could_come(values):
    manifests = render("slurm", {**values, "slurmConfig": {"privateTmp": False}})
    assert "demo-compute-sshd" not in of_kind(manifests, "ConfigMap")
    assert "sshd" not in str(of_kind(manifests, "NodeSet"))
    assert _flags(manifests) == "PrologFlags=Alloc"


def test_a_node_forwards_what_the_login_pods_do_and_has_nothing_of_their_own_lines():
    ssh = {"portForwarding": "local", "x11": True, "extra": "MaxSessions 3"}
    manifests = render("slurm", {**SSH, "login": {"ssh": ssh}})
    login, node = _sshd(manifests, "demo-login"), _sshd(manifests, "demo-compute-sshd")
    assert (login.pop("Port"), login.pop("MaxSessions"), node.pop("Port")) == ("2222", "3", "22")
    assert node == login
    assert (node["AllowTcpForwarding"], node["X11Forwarding"]) == ("local", "yes")


@pytest.mark.parametrize(("value", "word"), [("all", "yes"), ("local", "local"), ("none", "no")])
def test_a_site_says_which_ports_people_may_forward_through_login(value, word):
    conf = _sshd(render("slurm", {**PEOPLE, "login": {"ssh": {"portForwarding": value}}}), "demo-login")
    assert (conf["AllowTcpForwarding"], conf["AllowStreamLocalForwarding"], conf["GatewayPorts"]) == (word, word, "no")


def test_windows_are_opened_from_login_and_from_jobs_where_slurm_can():
    x11 = {**PEOPLE, "login": {"ssh": {"x11": True}}}
    assert _sshd(render("slurm", x11), "demo-login")["X11Forwarding"] == "yes"
    assert _flags(render("slurm", x11)) == "PrologFlags=Alloc,Contain,X11"
    without = {**x11, "slurmConfig": {"cgroup": "disabled"}}
    assert _flags(render("slurm", without)) == "PrologFlags=Alloc", "Slurm refuses X11 without cgroups"
    assert _sshd(render("slurm", PEOPLE), "demo-login")["X11Forwarding"] == "no"


@pytest.mark.parametrize("line", ["AllowTcpForwarding no", "MaxSessions 3\n  x11forwarding yes"])
def test_lines_that_would_not_hold_are_refused(line):
    with pytest.raises(Refused, match=r"login\.ssh\.portForwarding"):
        render("slurm", {**PEOPLE, "login": {"ssh": {"extra": line}}})
    for_some = f"Match Group chem\n{line}"
    maps = of_kind(render("slurm", {**PEOPLE, "login": {"ssh": {"extra": for_some}}}), "ConfigMap")
    assert for_some in maps["demo-login"]["data"]["sshd_config"]


def test_a_site_that_has_a_service_of_that_name_is_told():
    services = {"sshd": {"type": "longrun", "script": "#!/bin/bash\nsleep 1\n"}}
    with pytest.raises(Refused, match=r"services of NodeSet compute: with compute\.ssh the chart makes a service sshd"):
        render("slurm", {**SSH, "compute": {**SSH["compute"], "services": services}})


@pytest.mark.parametrize("value", ["yes", True, "remote"])
def test_other_words_for_forwarding_are_refused(value):
    with pytest.raises(Refused, match="portForwarding"):
        render("slurm", {**PEOPLE, "login": {"ssh": {"portForwarding": value}}})
