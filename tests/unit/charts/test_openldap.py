"""The chart of a directory: what of people reaches LDIF, what is refused by name, and what its pods may do."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping

import pytest

from tests.unit.charts.rendering import CHARTS, Manifest, Refused, check_accepted, of_kind, render, run_helm

NAME = "demo-openldap"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBGPPXOXcMTZaPZIqgVbxFGqbVLYLHjwZdSpIrVTSLxX"
ANN = {"uid": 3001, "fullName": "Ann Exämple", "groups": ["physics"], "sshKeys": [KEY, f"{KEY} ann@laptop"]}
PEOPLE = {"people": {"ann": ANN}, "groups": {"physics": {"gid": 6001}}}
OWN = {"admin": {"existingSecret": "a"}, "tls": {"existingSecret": "t"}, "networkPolicy": {"namespaces": ["slurm"]}}


def _entries(values: Mapping[str, object]) -> list[list[str]]:
    """The lines of each entry, base64 as text."""
    text = of_kind(render("openldap", values), "ConfigMap")[NAME]["data"]["entries.ldif"]
    return [[_plain(line) for line in entry.splitlines()] for entry in text.strip().split("\n\n")]


def _plain(line: str) -> str:
    name, is_encoded, value = line.partition(":: ")
    return f"{name}: {b64decode(value).decode()}" if is_encoded else line


def _refusal(values: Mapping[str, object]) -> str:
    with pytest.raises(Refused) as refused:
        render("openldap", values)
    return str(refused.value)


def _stateful(values: Mapping[str, object]) -> Manifest:
    return of_kind(render("openldap", values), "StatefulSet")[NAME]


def test_helm_lint_has_nothing_to_say():
    run_helm("lint", "--strict", str(CHARTS / "openldap"))


@pytest.mark.parametrize("values", [{}, PEOPLE, OWN])
def test_every_object_is_what_kubernetes_accepts(values: Mapping[str, object]):
    for manifest in render("openldap", values):
        check_accepted(manifest)


def test_people_and_groups_are_entries():
    bob = {"uid": 3002, "group": "physics", "shell": "/bin/sh"}
    assert _entries(PEOPLE | {"people": {"ann": ANN, "bob": bob}}) == [
        [
            "dn: uid=ann,ou=people,dc=example,dc=com", "objectClass: inetOrgPerson", "objectClass: posixAccount",
            "objectClass: ldapPublicKey", "uid: ann", "cn: Ann Exämple", "sn: Exämple", "uidNumber: 3001",
            "gidNumber: 3001", "homeDirectory: /home/ann", "loginShell: /bin/bash", f"sshPublicKey: {KEY}",
            f"sshPublicKey: {KEY} ann@laptop",
        ],
        [
            "dn: uid=bob,ou=people,dc=example,dc=com", "objectClass: inetOrgPerson", "objectClass: posixAccount",
            "objectClass: ldapPublicKey", "uid: bob", "cn: bob", "sn: bob", "uidNumber: 3002", "gidNumber: 6001",
            "homeDirectory: /home/bob", "loginShell: /bin/sh",
        ],
        ["dn: cn=ann,ou=groups,dc=example,dc=com", "objectClass: posixGroup", "cn: ann", "gidNumber: 3001"],
        [
            "dn: cn=physics,ou=groups,dc=example,dc=com", "objectClass: posixGroup", "cn: physics", "gidNumber: 6001",
            "memberUid: ann",
        ],
    ]  # fmt: skip


HOSTILE_NAMES = (
    "", "../x", "a,ou=groups", "a=b", "a)(uid=*", "*", "a b", "a\nb", "$(id)", "-a", ".", "A", "ä", "0", "x" * 33,
    "root", "slurm", "k8s", "user1", "nobody",
)  # fmt: skip


@pytest.mark.parametrize(("kind", "number"), [("people", "uid"), ("groups", "gid")])
def test_a_hostile_name_is_refused(kind: str, number: str):
    said = _refusal({kind: {name: {number: 3001 + i} for i, name in enumerate(HOSTILE_NAMES)}})
    assert said.count("invalid propertyName") == len(HOSTILE_NAMES)


HOSTILE_PEOPLE = (
    {"uid": 0}, {"uid": 999}, {"uid": "3001"}, {"uid": 2**31}, {}, {"fullName": "x\nuidNumber: 0"}, {"shell": "sh"},
    {"fullName": "Ann:0"}, {"sshKeys": [f'command="id" {KEY}']}, {"sshKeys": [f"{KEY}\nuidNumber: 0"]}, {"home": "/"},
    {"group": "a,b"}, {"groups": ["*"]}, {"userPassword": "x"},
)  # fmt: skip


def test_what_would_be_another_line_is_refused():
    people = {f"p{i}": ({"uid": 3001 + i} if more else {}) | more for i, more in enumerate(HOSTILE_PEOPLE)}
    assert set(re.findall(r"/people/(p\d+)", _refusal({"people": people}))) == set(people)


@pytest.mark.parametrize("suffix", ["", "o=x", "dc=a b", "dc=a,", "dc=a\ndc=b", 'dc=a"', "dc=$(id)", "DC=A"])
def test_a_hostile_suffix_is_refused(suffix: str):
    assert "/suffix" in _refusal({"suffix": suffix})


@pytest.mark.parametrize(
    ("people", "groups", "why"),
    [
        ({"ann": {"uid": 3001}, "bob": {"uid": 3001}}, {}, "people.bob: uid 3001 is already used by ann"),
        ({"ann": {"uid": 3001}}, {"ann": {"gid": 6001}}, "people.ann: groups has a group ann, too: rename one of"),
        ({"ann": {"uid": 6001}}, {"chem": {"gid": 6001}}, "6001 is already used by chem"),
        ({}, {"chem": {"gid": 6001}, "gpu": {"gid": 6001}}, "groups.gpu: gid 6001 is already used by chem"),
        ({"ann": {"uid": 3001, "groups": ["gpu"]}}, {}, "people.ann.groups: groups has no gpu"),
        ({"ann": {"uid": 3001, "group": "gpu"}}, {}, "people.ann.group: groups has no gpu"),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_refused_by_name(people, groups, why: str):
    assert why in _refusal({"people": people, "groups": groups})


def test_an_unknown_key_is_refused():
    assert "peple" in _refusal({"peple": {}})


def test_another_person_makes_no_pod_anew():
    assert _stateful({}) == _stateful(PEOPLE)


def test_a_thousand_people_fit_and_too_many_are_refused_with_a_word_of_what_to_do():
    crowd = {f"p{number}": {"uid": 10000 + number, "group": "physics", "sshKeys": [KEY]} for number in range(1000)}
    assert len(_entries(PEOPLE | {"people": crowd})) == 1001
    for person in crowd.values():
        person["sshKeys"] = ["ssh-rsa AAAA" + "A" * 532]
    assert re.search(
        r"people: their entries have \d+ bytes, and their SSH keys 544000\. At most 1000000 bytes of entries fit "
        r"into a ConfigMap, and at most 400000 bytes of keys into what helm keeps of the release: use shorter keys "
        r"\(ed25519\), or make some of the people with LDAP's own tools",
        _refusal(PEOPLE | {"people": crowd}),
    )


def test_keys_are_made_in_the_cluster_but_for_those_that_somebody_brings():
    manifests = render("openldap")
    assert not of_kind(manifests, "Secret")
    job = of_kind(manifests, "Job")[f"{NAME}-keys"]["spec"]["template"]["spec"]
    assert [container["args"] for container in job["containers"]] == [
        ["keys", "--namespace=research", f"--password-secret={NAME}-admin"],
        [
            "certificate", "--namespace=research", f"--secret={NAME}-tls", f"{NAME}.research.svc",
            f"{NAME}.research.svc.cluster.local", NAME,
        ],
    ]  # fmt: skip
    assert of_kind(manifests, "Role")[f"{NAME}-keys"]["rules"] == [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]}
    ]
    assert not of_kind(render("openldap", OWN), "Job")
    one = render("openldap", {"tls": {"existingSecret": "t"}})
    assert [c["name"] for c in of_kind(one, "Job")[f"{NAME}-keys"]["spec"]["template"]["spec"]["containers"]] == [
        "password"
    ]
    volumes = {volume["name"]: volume for volume in _stateful(OWN)["spec"]["template"]["spec"]["volumes"]}
    assert [volumes[name]["secret"]["secretName"] for name in ("keys", "certificate")] == ["a", "t"]


def test_the_directory_has_no_rights():
    pod = _stateful({})["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    (container,) = pod["containers"]
    locked = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    assert container["securityContext"] == locked


def test_only_its_own_namespace_and_those_that_are_named_may_ask_it():
    policy = of_kind(render("openldap", OWN), "NetworkPolicy")[NAME]["spec"]
    assert policy["egress"] == []
    named = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "slurm"}}}
    (rule,) = policy["ingress"]
    assert rule == {"from": [{"podSelector": {}}, named], "ports": [{"port": 1636, "protocol": "TCP"}]}
    assert not of_kind(render("openldap", {"networkPolicy": {"enabled": False}}), "NetworkPolicy")


def test_what_it_tells_sssd_asks_its_service_by_a_name_of_its_certificate():
    conf = of_kind(render("openldap", {"suffix": "dc=lab,dc=org"}), "ConfigMap")[f"{NAME}-client"]["data"]["sssd.conf"]
    assert f"\nldap_uri = ldaps://{NAME}.research.svc:636\n" in conf
    assert "\nldap_search_base = dc=lab,dc=org\n" in conf
    assert "auth_provider = none" in conf
