"""Who comes by ssh with a certificate: what values make of it, on login pods and on nodes alike."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.charts.rendering import Manifest, Refused, of_kind, render

CA = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBGPPXOXcMTZaPZIqgVbxFGqbVLYLHjwZdSpIrVTSLxX"


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
        }
    (volume,) = [each for each in _pods(manifests)[0]["volumes"] if each["name"] == "sshd"]
    paths = [item["path"] for item in volume["configMap"]["items"]]
    assert paths == ["principals", "revoked_keys", "sshd_config", "trusted_user_ca_keys"]


def test_a_secret_of_the_site_is_there_in_place_of_them():
    manifests = _render(existingCASecret="ours")
    for pod, folder in zip(_pods(manifests), ("/ca", "/etc/sunkpy/sshd/ca"), strict=True):
        (volume,) = [each["secret"] for each in pod["volumes"] if each["name"] == "ssh-ca"]
        items = [{"key": name, "path": name} for name in ("trusted_user_ca_keys", "revoked_keys")]
        assert volume == {"secretName": "ours", "items": items}
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
