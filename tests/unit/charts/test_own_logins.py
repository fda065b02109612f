"""Login pods of one's own: for people who are named, as locked as the shared ones, and no upgrade starts one."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest
import yaml

from sunkpy.core import names
from sunkpy.logins.settings import LoginsSettings
from tests.unit.charts.rendering import Manifest, Refused, of_kind, render
from tests.unit.charts.rights import OWN
from tests.unit.docs.rights_table import Right, rights_of_rules

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBGPPXOXcMTZaPZIqgVbxFGqbVLYLHjwZdSpIrVTSLxX"
PEOPLE = {"ann": {"uid": 2001, "sshKeys": [KEY]}, "bob": {"uid": 2002}, "c_d.": {"uid": 2003}}


def values(**per_user: object) -> dict[str, object]:
    return {"users": {"people": PEOPLE}, "login": {"perUser": {"enabled": True} | per_user}}


FOR_ANN = values(users={"ann": {}})
NAMES = ("login", "login-ann")
HOSTILE = ("../x", "a b", "-a", "A", "$(id)", "a/b", "a\nb", "x" * 33, "", "*", "ann,bob", "!ann")
TWICE = {"a_": {"uid": 7000}, "uid-7000": {"uid": 7001, "sshKeys": [KEY]}}


def own(manifests) -> dict[str, Manifest]:
    """The StatefulSets of personal login pods."""
    return {k: v for k, v in of_kind(manifests, "StatefulSet").items() if k.startswith("demo-login-")}


def pod_of(manifests, name: str) -> Mapping[str, object]:
    return of_kind(manifests, "StatefulSet")[name]["spec"]["template"]["spec"]


def containers(pod: Mapping[str, object]) -> dict[str, Mapping[str, object]]:
    return {each["name"]: each for each in (*pod.get("initContainers", ()), *pod["containers"])}


def env_of(container: Mapping[str, object]) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in container.get("env", ())}


def test_by_default_nobody_has_one_and_nothing_of_it_is_there():
    for wanted in ({}, {"users": {"people": PEOPLE}}, values(), {"login": {"perUser": {"enabled": True}}}):
        text = yaml.safe_dump_all(render("slurm", wanted))
        assert "own-login" not in text
        assert "demo-logins" not in text


def test_it_is_the_shared_pod_without_the_container_for_kubectl():
    manifests = render("slurm", FOR_ANN)
    shared, anns = (containers(pod_of(manifests, name)) for name in ("demo-login", "demo-login-ann"))
    assert set(anns) == {"sshd", "sackd"}
    assert set(shared) - set(anns) == {"login", "make-homes"}
    assert anns["sackd"] == shared["sackd"]
    said = [{"name": "SUNKPY_PERSON", "value": "ann"}, {"name": "SUNKPY_IDLE_S", "value": "7200"}]
    of_all = [entry for entry in shared["sshd"]["env"] if entry["name"] != "SUNKPY_PERSON_MEMORY_MIB"]
    assert anns["sshd"] == shared["sshd"] | {"env": [*of_all, *said]}
    rest = [{k: v for k, v in pod_of(manifests, f"demo-{name}").items() if "ontainers" not in k} for name in NAMES]
    assert rest[0] == rest[1]


def test_no_token_and_no_key_is_in_reach_of_its_person():
    pod = pod_of(render("slurm", FOR_ANN), "demo-login-ann")
    assert pod["automountServiceAccountToken"] is False
    assert "shareProcessNamespace" not in pod
    secret = {volume["name"] for volume in pod["volumes"] if "secret" in volume or "projected" in volume}
    having = {name: secret & {m["name"] for m in each["volumeMounts"]} for name, each in containers(pod).items()}
    assert having == {"sshd": {"host-keys", "ssh-ca"}, "sackd": {"keys"}}


def test_nobody_enters_it_with_kubectl():
    manifests = render("slurm", FOR_ANN)
    policy = of_kind(manifests, "ValidatingAdmissionPolicy")["research-demo-login"]["spec"]
    (rule,) = policy["matchConstraints"]["resourceRules"]
    assert rule["resourceNames"] == ["demo-login-0", "demo-login-ann-0"]
    assert "login" not in containers(pod_of(manifests, "demo-login-ann")), "the only one that the policy allows"
    role = of_kind(manifests, "Role")["demo-login"]["rules"]
    assert all(rule["resourceNames"] == ["demo-login-0"] for rule in role)


def test_the_shared_service_leads_to_none_of_them_and_each_has_its_own_name():
    manifests = render("slurm", FOR_ANN)
    anns = own(manifests)["demo-login-ann"]["spec"]
    labels = anns["template"]["metadata"]["labels"]
    services = of_kind(manifests, "Service")
    assert not services["demo-login"]["spec"]["selector"].items() <= labels.items()
    called_back = services["demo-login-ann-0"]["spec"]
    assert (called_back["clusterIP"], anns["serviceName"]) == ("None", "demo-login-ann-0")
    given = labels | {"statefulset.kubernetes.io/pod-name": "demo-login-ann-0"}
    assert called_back["selector"].items() <= given.items()


def test_each_selects_its_own_pod_alone():
    sets = own(render("slurm", values(everybody=True)))
    for name, each in sets.items():
        wanted = each["spec"]["selector"]["matchLabels"].items()
        selected = [k for k, v in sets.items() if wanted <= v["spec"]["template"]["metadata"]["labels"].items()]
        assert selected == [name] == [each["metadata"]["labels"][names.LABEL_LOGIN]]


def test_an_upgrade_neither_starts_nor_stops_nor_ends_one():
    manifests = own(render("slurm", values(users={"ann": {}, "bob": {"idleMinutes": 0}})))
    assert "replicas" not in manifests["demo-login-ann"]["spec"], "helm would set it back"
    assert manifests["demo-login-bob"]["spec"]["replicas"] == 1
    assert {each["spec"]["updateStrategy"]["type"] for each in manifests.values()} == {"OnDelete"}


def test_turning_it_on_changes_nothing_that_was_there_but_who_may_talk_to_whom_and_where_my_login_asks():
    """So no shared pod restarts, and without it all is as if there was no such thing."""
    before, after = (
        {(each["kind"], each["metadata"]["name"]): each for each in render("slurm", values)}
        for values in ({"users": {"people": PEOPLE}}, FOR_ANN)
    )
    talking = {("NetworkPolicy", f"demo-{part}") for part in ("compute", "login", "slurmctld", "slurmdbd")}
    entering = ("ValidatingAdmissionPolicy", "research-demo-login")
    people = ("ConfigMap", "demo-people")
    assert {key for key in before if before[key] != after[key]} == {*talking, entering, people}
    assert after[people]["data"] == before[people]["data"] | {"logins": "http://demo-logins:8000"}
    assert "logins" not in before[people]["data"]
    new = after.keys() - before.keys()
    assert all(name.startswith(("demo-login-ann", "demo-logins", "demo-own-login")) for _, name in new), new


def test_a_person_has_what_their_entry_says_and_the_defaults_else():
    big = {"requests": {"cpu": "2", "memory": "8Gi"}}
    wanted = values(
        everybody=True,
        defaults={"image": "registry/all:1", "nodeSelector": {"pool": "login"}, "idleMinutes": 30},
        users={"ann": {"resources": big, "image": "registry/ann:2", "idleMinutes": 0, "nodeSelector": {"disk": "ssd"}}},
    )
    manifests = render("slurm", wanted)
    assert set(own(manifests)) == {"demo-login-ann", "demo-login-bob", "demo-login-uid-2003"}
    ann, bob, odd = (containers(pod_of(manifests, f"demo-login-{name}")) for name in ("ann", "bob", "uid-2003"))
    assert (ann["sshd"]["resources"], ann["sshd"]["image"]) == (big, "registry/ann:2")
    assert (bob["sshd"]["image"], env_of(bob["sshd"])["SUNKPY_IDLE_S"]) == ("registry/all:1", "1800")
    assert env_of(ann["sshd"])["SUNKPY_IDLE_S"] == "0"
    assert env_of(odd["sshd"])["SUNKPY_PERSON"] == "c_d."
    assert not ann["sackd"]["image"].startswith("registry/"), "who has the key is no image of a person"
    assert pod_of(manifests, "demo-login-ann")["nodeSelector"] == {"disk": "ssd"}
    assert pod_of(manifests, "demo-login-bob")["nodeSelector"] == {"pool": "login"}


def test_the_process_knows_the_same_people():
    manifests = render("slurm", values(everybody=True, users={"bob": {"idleMinutes": 0}}))
    text = of_kind(manifests, "ConfigMap")["demo-logins"]["data"]["config.yaml"]
    settings = msgspec.yaml.decode(text, type=LoginsSettings)
    assert {name: (each.stateful_set, each.stops) for name, each in settings.people.items()} == {
        "ann": ("demo-login-ann", True), "bob": ("demo-login-bob", False), "c_d.": ("demo-login-uid-2003", True),
    }  # fmt: skip
    wanted = dict(term.split("=") for term in settings.selector.split(","))
    for each in own(manifests).values():
        assert wanted.items() <= each["metadata"]["labels"].items()
        assert wanted.items() <= each["spec"]["template"]["metadata"]["labels"].items()
    process = of_kind(manifests, "Deployment")["demo-logins"]["spec"]
    assert (process["replicas"], process["strategy"]) == (1, {"type": "Recreate"})
    assert "jwt" not in str(process), "it has no key of Slurm"


def test_its_rights_are_to_scale_these_and_to_delete_their_pods():
    rules = of_kind(render("slurm", values(users={"ann": {}, "bob": {}})), "Role")["demo-logins"]["rules"]
    rights = {right for right in rights_of_rules(OWN, rules) if "leases" not in right.resource}
    changing = {right for right in rights if right.verb not in ("get", "list", "watch")}
    assert changing == {
        *(Right(OWN, "statefulsets.apps/scale", f"demo-login-{name}", "patch") for name in ("ann", "bob")),
        *(Right(OWN, "pods", f"demo-login-{name}-0", "delete") for name in ("ann", "bob")),
    }


def test_a_hostile_name_is_refused():
    with pytest.raises(Refused) as refused:
        render("slurm", values(users={name: {} for name in HOSTILE}))
    assert str(refused.value).count("does not match pattern") == len(HOSTILE)


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (values(users={"ann": {}}) | {"users": {"people": {"ann": {"uid": 2001}}}}, "login.perUser needs ssh"),
        (values(users={"eve": {}}), "login.perUser.users.eve: users.people has no eve"),
        (values(users={"ann": {"command": ["sh"]}}), "additional properties 'command' not allowed"),
        (values(users={"ann": {"securityContext": {}}}), "additional properties 'securityContext' not allowed"),
        (values(users={"ann": {"idleMinutes": -1}}), "/login/perUser/users/ann/idleMinutes"),
        (values(users={"ann": {"image": "a b"}}), "/login/perUser/users/ann/image"),
        (
            values(everybody=True) | {"users": {"people": TWICE}},
            "login.perUser.users.uid-7000: the pod of a_ is also called demo-login-uid-7000-0",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_name(wanted: dict[str, object], told: str):
    with pytest.raises(Refused) as refused:
        render("slurm", wanted)
    assert told in str(refused.value)


def test_a_name_that_is_too_long_with_that_of_the_release_is_refused():
    long = "x" * 32
    wanted = values(users={long: {}}) | {"users": {"people": {long: {"uid": 7000, "sshKeys": [KEY]}}}}
    render("slurm", wanted)
    with pytest.raises(Refused, match="is too long for a StatefulSet"):
        render("slurm", wanted, release="a-release-of-slurm")


def test_people_of_a_directory_have_one_when_they_are_named():
    directory = {"users": {"people": PEOPLE, "sssd": {"enabled": True, "existingSecret": "s"}}}
    manifests = render("slurm", values(users={"dora": {}}) | directory)
    assert {"sshd", "sackd", "sssd"} == set(containers(pod_of(manifests, "demo-login-dora")))
    for name, told in (("root", "the system has a user"), ("d_a", "no pod can have this name")):
        with pytest.raises(Refused, match=told):
            render("slurm", values(users={name: {}}) | directory)
