"""Who comes by ssh with a certificate: what values make of it, on login pods and on nodes alike."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.unit.charts.rendering import ROOT, Manifest, Refused, of_kind, render

CA = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBGPPXOXcMTZaPZIqgVbxFGqbVLYLHjwZdSpIrVTSLxX"
OF_PAM = {
    "sshd.pam": (ROOT / "charts/slurm/files/sshd.pam").read_text(),
    "second_factor": "auth required pam_deny.so\n",
}
"""Files of login pods alone."""


def _render(**ssh: object) -> list[Manifest]:
    people = {"users": {"people": {"ann": {"uid": 2001}}}}
    return render("slurm", {**people, "login": {"ssh": ssh}, "compute": {"ssh": {"enabled": True}}})


def _files(manifests: list[Manifest], name: str) -> dict[str, str]:
    return {key: text for key, text in of_kind(manifests, "ConfigMap")[name]["data"].items() if key != "motd"}


def _pods(manifests: list[Manifest]) -> list[Any]:
    login = of_kind(manifests, "StatefulSet")["demo-login"]["spec"]["template"]["spec"]
    return [login, of_kind(manifests, "NodeSet")["compute"]["spec"]["template"]["spec"]]


def test_an_authority_opens_ssh_where_nobody_has_a_key():
    manifests = _render(trustedUserCAKeys=[CA], principals={"ann": ["ann@example.com", "a.n.n"]}, revokedKeys=[CA])
    for name, folder in (("demo-login", ""), ("demo-compute-sshd", "/etc/sunkpy/sshd")):
        files = _files(manifests, name)
        conf = files.pop("sshd_config")
        assert f"\nTrustedUserCAKeys {folder}/config/trusted_user_ca_keys\n" in conf
        assert f"\nRevokedKeys {folder}/config/revoked_keys\n" in conf
        assert f" %u {folder}/config/principals\n" in conf
        assert files == {
            "trusted_user_ca_keys": f"{CA}\n",
            "revoked_keys": f"{CA}\n",
            "principals": "ann ann@example.com\nann a.n.n\n",
        } | ({} if folder else OF_PAM)


@pytest.mark.parametrize(
    "ssh",
    [
        {"trustedUserCAKeys": [CA]},
        {"trustedUserCAKeys": [CA], "revokedKeys": [CA]},
        {"trustedUserCAKeys": [CA], "principals": {"ann": ["ann@example.com"]}},
        {"secondFactor": "auth required pam_x.so"},
        {"existingCASecret": "demo-ssh-ca"},
    ],
)
def test_the_pods_are_the_same_with_and_without_so_a_change_ends_no_session(ssh: dict[str, object]):
    own = {"enabled": True, "everybody": True}
    key = {"users": {"people": {"ann": {"uid": 2001, "sshKeys": [CA]}}}, "compute": {"ssh": {"enabled": True}}}
    before, after = (render("slurm", {**key, "login": {"ssh": each, "perUser": own}}) for each in ({}, ssh))
    for kind, name in (("StatefulSet", "demo-login"), ("StatefulSet", "demo-login-ann"), ("NodeSet", "compute")):
        pods = [of_kind(each, kind)[name]["spec"]["template"] for each in (before, after)]
        assert pods[0] == pods[1], name
        (volume,) = [each["configMap"] for each in pods[1]["spec"]["volumes"] if each["name"] == "sshd"]
        assert "items" not in volume, "a running pod gets each file that a later configuration names"
    for name, folder in (("demo-login", ""), ("demo-compute-sshd", "/etc/sunkpy/sshd")):
        files = _files(after, name)
        named = re.findall(rf"(?m) {folder}/config/(\S+)$", files["sshd_config"])
        assert set(named) <= {file for file, text in files.items() if text}, "sshd reads no file that is empty"


@pytest.mark.parametrize("ssh", [{}, {"trustedUserCAKeys": [CA]}])
def test_a_file_that_a_configuration_named_before_is_there_and_empty(ssh: dict[str, object]):
    """Until sshd has read the new configuration, it reads the files of the one before."""
    people = {"users": {"people": {"ann": {"uid": 2001, "sshKeys": [CA]}}}, "compute": {"ssh": {"enabled": True}}}
    manifests = render("slurm", {**people, "login": {"ssh": ssh}})
    for name in ("demo-login", "demo-compute-sshd"):
        files = _files(manifests, name)
        assert (files["revoked_keys"], files["principals"]) == ("", "")
        assert files["trusted_user_ca_keys"] == (f"{CA}\n" if ssh else "")


def test_a_secret_of_the_site_is_there_in_place_of_them():
    manifests = _render(existingCASecret="ours")
    for name in ("demo-login", "demo-compute-sshd"):
        assert not _files(manifests, name).keys() & {"trusted_user_ca_keys", "revoked_keys"}
    for pod, folder in zip(_pods(manifests), ("/ca", "/etc/sunkpy/sshd/ca"), strict=True):
        (volume,) = [each["secret"] for each in pod["volumes"] if each["name"] == "ssh-ca"]
        items = [{"key": name, "path": name} for name in ("trusted_user_ca_keys", "revoked_keys")]
        assert volume == {"secretName": "ours", "optional": True, "items": items}
        having = {
            container["name"]: mount["mountPath"]
            for container in pod["containers"]
            for mount in container["volumeMounts"]
            if mount["name"] == "ssh-ca"
        }
        assert having == ({"sshd": folder} if folder == "/ca" else {"slurmd": folder})
    assert "\nRevokedKeys /ca/revoked_keys\n" in _files(manifests, "demo-login")["sshd_config"]


def test_without_an_authority_no_certificate_counts():
    manifests = render("slurm", {"users": {"people": {"ann": {"uid": 2001, "sshKeys": [CA]}}}})
    conf = _files(manifests, "demo-login")["sshd_config"]
    assert "\nTrustedUserCAKeys none\n" in conf
    assert not any(word in conf for word in ("Principals", "RevokedKeys", "DenyUsers"))


@pytest.mark.parametrize(
    ("ssh", "said"),
    [
        (
            {"onlyCertificates": True},
            "login.ssh.onlyCertificates: nobody could log in, because the values name no authority that signs "
            "certificates: set login.ssh.trustedUserCAKeys or login.ssh.existingCASecret",
        ),
        (
            {"onlyCertificates": True, "trustedUserCAKeys": [CA], "ownKeys": True},
            "login.ssh.onlyCertificates: login.ssh.ownKeys would let people in by keys of their own: set only one of "
            "the two",
        ),
        (
            {"principals": {"ann": ["a"]}},
            "login.ssh.principals: only certificates have principals, and the values name no authority that signs "
            "certificates: set login.ssh.trustedUserCAKeys or login.ssh.existingCASecret",
        ),
        (
            {"existingCASecret": "ours", "revokedKeys": [CA]},
            "login.ssh.existingCASecret: the files of this Secret take the place of login.ssh.trustedUserCAKeys and "
            "login.ssh.revokedKeys: leave these two values empty, and put their lines into the Secret",
        ),
        ({"trustedUserCAKeys": [f'cert-authority,principals="root" {CA}']}, "trustedUserCAKeys"),
        ({"trustedUserCAKeys": [CA], "principals": {"ann": ['command="id" ann']}}, "principals"),
        ({"trustedUserCAKeys": [CA], "principals": {"ann": []}}, "principals"),
        ({"trustedUserCAKeys": [CA], "principals": {"a b": ["ann"]}}, "invalid propertyName .a b."),
    ],
)
def test_what_contradicts_itself_or_would_be_more_than_a_name_is_refused(ssh: dict[str, object], said: str):
    people = {"users": {"people": {"ann": {"uid": 2001, "sshKeys": [CA]}}}}
    with pytest.raises(Refused, match=said.replace("(", r"\(")):
        render("slurm", {**people, "login": {"ssh": ssh}})
