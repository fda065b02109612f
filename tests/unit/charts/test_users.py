"""People as values: what of them reaches passwd, group and sshd, and what is refused by name."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from tests.unit.charts.rendering import CHARTS, ROOT, Refused, of_kind, render

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBGPPXOXcMTZaPZIqgVbxFGqbVLYLHjwZdSpIrVTSLxX"
MOUNT = {"name": "people", "mountPath": "/var/lib/extrausers", "readOnly": True}


def _values(people: Mapping[str, object], groups: Mapping[str, object] | None = None) -> dict[str, object]:
    return {"users": {"people": people, "groups": groups or {}}}


def _maps(values: Mapping[str, object]) -> dict[str, Mapping[str, str]]:
    return {name: config.get("data") or {} for name, config in of_kind(render("slurm", values), "ConfigMap").items()}


def test_people_and_groups_are_lines_of_passwd_and_group():
    people = {
        "ann": {
            "uid": 2001,
            "fullName": "Ann Example",
            "groups": ["chem", "gpu"],
            "sshKeys": [KEY, f"{KEY} ann@laptop"],
        },
        "bob.b": {"uid": 100002, "group": "chem", "shell": "/bin/sh"},
    }
    maps = _maps(_values(people, {"chem": {"gid": 5001}, "gpu": {"gid": 2000000000}}))
    assert maps["demo-people"] == {
        "passwd": "ann:*:2001:2001:Ann Example:/home/ann:/bin/bash\nbob.b:*:100002:5001::/home/bob.b:/bin/sh\n",
        "group": "ann:*:2001:\nchem:*:5001:ann\ngpu:*:2000000000:ann\n",
    }
    assert maps["demo-ssh-keys"] == {"ann": f"{KEY}\n{KEY} ann@laptop\n"}


def test_the_user_of_the_images_may_be_given_keys_and_groups():
    maps = _maps(_values({"user1": {"uid": 65520, "groups": ["chem"], "sshKeys": [KEY]}}, {"chem": {"gid": 5001}}))
    assert maps["demo-people"] == {"passwd": "", "group": "chem:*:5001:user1\n"}
    assert set(maps["demo-ssh-keys"]) == {"user1"}


def _pods() -> dict[str, Mapping[str, object]]:
    manifests = render("slurm")
    kinds = ("StatefulSet", "Deployment", "NodeSet")
    return {
        name: of_kind(manifests, kind)[name]["spec"]["template"] for kind in kinds for name in of_kind(manifests, kind)
    }


def test_who_people_are_is_the_same_wherever_slurm_says_it_from_the_first_install_on():
    """The files are mounted even if no user is listed, so that the first user does not replace pods."""
    having = {
        f"{name}/{container['name']}"
        for name, pod in _pods().items()
        for container in pod["spec"]["containers"]
        if MOUNT in container.get("volumeMounts", ())
    }
    assert having == {
        "demo-slurmctld/slurmctld", "demo-slurmdbd/slurmdbd", "demo-slurmrestd/slurmrestd", "compute/slurmd",
        "demo-login/login", "demo-login/sackd",
    }  # fmt: skip


def _templates(values: Mapping[str, object]) -> dict[str, object]:
    """Every pod that a release makes, whatever makes it."""
    found = {}
    for manifest in render("slurm", values):
        spec = manifest.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if isinstance(spec.get("template"), dict):
            found[f"{manifest['kind']} {manifest['metadata']['name']}"] = spec["template"]
    return found


def test_another_user_makes_no_pod_anew_but_the_one_that_keeps_accounts():
    ann = {"uid": 2001, "sshKeys": [KEY]}
    accounts = {"wanted": {"users": {"bob": {"accounts": {"default": {}}}}}}
    before = _templates(_values({"ann": ann}))
    assert len(before) == 15
    more = _values({"ann": ann | {"shell": "/bin/sh"}, "bob": {"uid": 2002, "sshKeys": [KEY]}})
    assert _templates(more) == before
    after = _templates(more | {"accounts": accounts})
    assert {name for name in before if after[name] != before[name]} == {"Deployment demo-accounts"}


def test_who_is_taken_out_makes_no_pod_anew_either():
    both = {"ann": {"uid": 2001, "sshKeys": [KEY]}, "bob": {"uid": 2002, "sshKeys": [KEY]}}
    assert _templates(_values(both)) == _templates(_values({"ann": both["ann"]}))


HOSTILE_NAMES = (
    "", "../x", "a/b", "a:b", "a b", "a\nroot", "$(id)", "`id`", "a;id", "-a", "+", ".", "..", "A", "ä", "a@b", "a*",
    "0", "1001", "x" * 33,
)  # fmt: skip


def _refusal(values: Mapping[str, object]) -> str:
    """All that helm has to say against the values, at once."""
    with pytest.raises(Refused) as refused:
        render("slurm", values)
    return str(refused.value)


@pytest.mark.parametrize(("kind", "number"), [("people", "uid"), ("groups", "gid")])
def test_a_hostile_name_is_refused(kind: str, number: str):
    said = _refusal({"users": {kind: {name: {number: 2001 + i} for i, name in enumerate(HOSTILE_NAMES)}}})
    told = [line for line in said.splitlines() if "does not match pattern '^[a-z_][a-z0-9_.-]{0,31}$'" in line]
    assert len(told) == len(HOSTILE_NAMES)


@pytest.mark.parametrize("name", ["root", "slurm", "k8s", "sudo"])
def test_a_name_of_the_system_is_refused(name: str):
    assert f"users.people.{name}: the system has a user of that name" in _refusal(_values({name: {"uid": 2001}}))
    assert f"users.groups.{name}: the system has a group of that name" in _refusal(_values({}, {name: {"gid": 5001}}))


def test_every_name_of_the_images_is_reserved():
    text = (CHARTS / "slurm" / "templates" / "_users.tpl").read_text()
    reserved = set(text.split("{{- `")[1].split("` |")[0].split())
    made = re.findall(r"groupadd -g \d+ (\S+)", (ROOT / "slurm-images" / "Dockerfile").read_text())
    assert set(made) - {"user1"} <= reserved


NUMBERS = (0, -1, 401, 402, 403, 404, 999, 65534, 65535, 2**31, 4294967295, "0", "2001", 2001.5, None)


def test_a_number_of_the_system_is_refused():
    people = {f"p{i}": {"uid": number} for i, number in enumerate(NUMBERS)}
    groups = {f"g{i}": {"gid": number} for i, number in enumerate(NUMBERS)}
    said = _refusal(_values(people, groups))
    assert set(re.findall(r"/(?:people|groups)/([pg]\d+)/[ug]id", said)) == {*people, *groups}


@pytest.mark.parametrize(
    ("people", "groups", "why"),
    [
        ({"ann": {"uid": 2001}, "bob": {"uid": 2001}}, {}, "users.people.bob: uid 2001 is already used by ann"),
        ({"ann": {"uid": 65520}}, {}, "uid 65520 belongs to user1, who is in the images of Slurm. Only user1 may"),
        ({"user1": {"uid": 2001}}, {}, "and user1 may have no other"),
        ({}, {"chem": {"gid": 65520}}, "users.groups.chem: gid 65520 belongs to user1, who is in the images of Slurm"),
        ({"ann": {"uid": 2001}}, {"ann": {"gid": 5001}}, "users.people.ann: users.groups has a group ann, too:"),
        ({"ann": {"uid": 5001}}, {"chem": {"gid": 5001}}, "5001 is already used by chem"),
        ({}, {"chem": {"gid": 5001}, "gpu": {"gid": 5001}}, "users.groups.gpu: gid 5001 is already used by chem"),
        ({"ann": {"uid": 2001, "groups": ["gpu"]}}, {}, "users.people.ann.groups: users.groups has no gpu"),
        ({"ann": {"uid": 2001, "group": "gpu"}}, {}, "users.people.ann.group: users.groups has no gpu"),
        ({"ann": {"uid": 2001, "groups": ["sudo"]}}, {}, "users.groups has no sudo"),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_refused_by_name(people, groups, why: str):
    assert why in _refusal(_values(people, groups))


HOSTILE_KEYS = (
    f'command="id" {KEY}', f'from="10.0.0.0/8" {KEY}', f"no-pty {KEY}", f"cert-authority {KEY}", f" {KEY}", f"#{KEY}",
    f"{KEY}\n{KEY}", f"{KEY} x\nssh-ed25519 AAAA", f"{KEY}\r", f"{KEY}\n", "ssh-dss AAAAB3NzaC1kc3MAAACBAJ",
    "ssh-ed25519", "ssh-ed25519 AAAA$(id)", "-----BEGIN OPENSSH PRIVATE KEY-----", "", "ssh-rsa AAAA" + "A" * 5000,
    "ssh-ed25519-cert-v01@openssh.com AAAA",
)  # fmt: skip


def test_a_key_with_options_or_more_than_a_key_is_refused():
    people = {f"p{i}": {"uid": 2001 + i, "sshKeys": [key]} for i, key in enumerate(HOSTILE_KEYS)}
    said = _refusal(_values(people))
    assert set(re.findall(r"/people/(p\d+)/sshKeys/0", said)) == set(people)


HOSTILE_FIELDS = (
    {"fullName": "Ann:0:0"}, {"fullName": "Ann\nroot::0:0:::"}, {"shell": "/bin/sh:x"}, {"shell": "/bin/sh\n"},
    {"shell": "sh"}, {"shell": "/home/ann/sh"}, {"shell": "/bin/../home/x"}, {"group": "a:b"}, {"groups": ["a:b"]},
    {"home": "/"}, {"password": "x"},
)  # fmt: skip


def test_what_would_end_a_field_of_passwd_is_refused():
    people = {f"p{i}": {"uid": 2001 + i} | more for i, more in enumerate(HOSTILE_FIELDS)}
    said = _refusal(_values(people))
    assert set(re.findall(r"/people/(p\d+)", said)) == set(people)


def test_a_thousand_people_fit_and_too_many_keys_are_refused_with_a_word_of_what_to_do():
    crowd = {f"p{number}": {"uid": 10000 + number, "groups": ["chem"], "sshKeys": [KEY]} for number in range(1000)}
    maps = _maps(_values(crowd, {"chem": {"gid": 5001}}))
    assert len(maps["demo-ssh-keys"]) == len(maps["demo-people"]["passwd"].splitlines()) == 1000
    for person in crowd.values():
        person["sshKeys"] = ["ssh-rsa AAAA" + "A" * 532]
    with pytest.raises(Refused, match="the SSH keys have 548890 bytes, and helm can keep at most 450000 of them:"):
        render("slurm", _values(crowd, {"chem": {"gid": 5001}}))


def test_more_people_than_fit_are_refused_with_a_word_of_what_to_do():
    groups = {f"g{number}": {"gid": 5001 + number} for number in range(20)}
    crowd = {f"{'p' * 27}{number}": {"uid": 10000 + number, "groups": list(groups)} for number in range(1400)}
    words = r"users: people and groups have \d+ bytes, and a ConfigMap takes at most a million: use a directory"
    with pytest.raises(Refused, match=words):
        render("slurm", _values(crowd, groups))


def test_more_accounts_than_fit_are_refused_with_a_word_of_what_to_do():
    wanted = {"users": {f"p{number}": {"accounts": {"default": {}}} for number in range(28000)}}
    with pytest.raises(Refused, match=r"accounts.wanted has \d+ bytes, and a ConfigMap takes at most a million:"):
        render("slurm", {"accounts": {"wanted": wanted}})


SSSD = {"users": {"sssd": {"enabled": True, "config": "[sssd]\n", "ca": "PEM"}}}


def test_a_directory_is_asked_in_every_pod_where_slurm_makes_names_of_numbers_before_anything_starts():
    manifests = render("slurm", SSSD)
    kinds = ("StatefulSet", "Deployment", "NodeSet")
    having = {}
    for manifest in manifests:
        if manifest["kind"] in kinds:
            spec = manifest["spec"]["template"]["spec"]
            having[manifest["metadata"]["name"]] = [c for c in spec.get("initContainers", ()) if c["name"] == "sssd"]
            if having[manifest["metadata"]["name"]]:
                assert spec["initContainers"][0]["name"] == "sssd"
    asking = {"demo-slurmctld", "demo-slurmdbd", "demo-slurmrestd", "compute", "demo-login"}
    assert {name for name, found in having.items() if found} == asking
    policies = of_kind(manifests, "NetworkPolicy")
    for name in asking - {"compute"} | {"demo-compute"}:
        ports = [port["port"] for rule in policies[name]["spec"]["egress"] for port in rule.get("ports", ())]
        assert 636 in ports, name
    (sssd,) = having["demo-login"]
    assert sssd["restartPolicy"] == "Always"
    assert sssd["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert sssd["securityContext"]["allowPrivilegeEscalation"] is False
    assert of_kind(manifests, "Secret")["demo-sssd"]["stringData"] == {"sssd.conf": "[sssd]\n", "ca.crt": "PEM"}


def test_the_password_of_the_directory_is_for_sssd_alone():
    spec = of_kind(render("slurm", SSSD), "StatefulSet")["demo-login"]["spec"]["template"]["spec"]
    (volume,) = (each["name"] for each in spec["volumes"] if each.get("secret", {}).get("secretName") == "demo-sssd")
    containers = (*spec["initContainers"], *spec["containers"])
    assert [c["name"] for c in containers if volume in {mount["name"] for mount in c["volumeMounts"]}] == ["sssd"]
    for container in spec["containers"]:
        shared = [mount for mount in container["volumeMounts"] if mount["name"] == "directory"]
        assert {(mount["subPath"], mount["readOnly"]) for mount in shared} == {("pipes", True), ("mc", True)}


def test_people_of_a_directory_come_by_ssh_and_their_secret_may_be_the_sites_own():
    manifests = render("slurm", {"users": {"sssd": {"enabled": True, "existingSecret": "ours"}}})
    assert "demo-login" in of_kind(manifests, "Service")
    assert not of_kind(manifests, "Secret")
    assert "'secretName': 'ours'" in str(of_kind(manifests, "NodeSet"))


@pytest.mark.parametrize("more", [{}, {"existingSecret": "a", "config": "b"}])
def test_a_directory_without_a_configuration_or_with_two_is_refused(more: Mapping[str, str]):
    assert "users.sssd needs either existingSecret" in _refusal({"users": {"sssd": {"enabled": True} | more}})
