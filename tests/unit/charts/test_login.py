"""The login pod: people enter it, so nothing in their reach is root or holds a key."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.unit.charts.rendering import Manifest, Refused, of_kind, render

POD = "demo-login-0"


@pytest.fixture(scope="module")
def pod() -> Mapping[str, object]:
    return of_kind(render("slurm"), "StatefulSet")["demo-login"]["spec"]["template"]["spec"]


def _container(pod: Mapping[str, object], name: str) -> Mapping[str, object]:
    containers = [*pod["containers"], *pod["initContainers"]]
    return next(container for container in containers if container["name"] == name)


def _mounts(pod: Mapping[str, object], container: str) -> dict[str, Mapping[str, object]]:
    return {mount["name"]: mount for mount in _container(pod, container)["volumeMounts"]}


def _with_secret(pod: Mapping[str, object]) -> set[str]:
    return {volume["name"] for volume in pod["volumes"] if "secret" in volume or "projected" in volume}


def test_only_sackd_has_the_key(pod):
    having = [
        c["name"]
        for c in (*pod["containers"], *pod["initContainers"])
        if _with_secret(pod) & set(_mounts(pod, c["name"]))
    ]
    assert having == ["sackd"]
    assert pod["automountServiceAccountToken"] is False


def test_people_and_sackd_are_not_root_and_cannot_become_it(pod):
    for name in ("login", "sackd"):
        context = _container(pod, name)["securityContext"]
        assert context["runAsNonRoot"] is True
        assert context["runAsUser"] >= 1
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["readOnlyRootFilesystem"] is True


def test_what_is_root_has_ended_before_anybody_enters(pod):
    roots = [c["name"] for c in pod["initContainers"] if c["securityContext"]["runAsUser"] == 0]
    assert roots == ["make-homes"]
    assert "restartPolicy" not in _container(pod, "make-homes"), "a sidecar would live on"
    assert set(_mounts(pod, "make-homes")) == {"home"}


def test_the_socket_is_shared_and_people_cannot_replace_it(pod):
    assert _mounts(pod, "sackd")["slurm"]["mountPath"] == _mounts(pod, "login")["slurm"]["mountPath"] == "/run/slurm"
    assert _mounts(pod, "login")["slurm"]["readOnly"] is True
    assert set(_mounts(pod, "login")) == {"home", "slurm", "tmp"}


def test_nothing_changes_the_group_of_the_homes(pod):
    assert "fsGroup" not in pod["securityContext"]


def test_slurmctld_can_resolve_the_host_name_of_the_pod():
    service = of_kind(render("slurm"), "Service")[POD]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert of_kind(render("slurm"), "StatefulSet")["demo-login"]["spec"]["serviceName"] == POD


def test_the_right_to_enter_is_for_this_pod_alone():
    rules = of_kind(render("slurm"), "Role")["demo-login"]["rules"]
    assert all(rule["resourceNames"] == [POD] for rule in rules)
    assert {resource for rule in rules for resource in rule["resources"]} == {"pods", "pods/exec"}


def test_those_who_are_named_may_enter_and_by_default_nobody_is():
    group = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "researchers"}
    named = of_kind(render("slurm", {"login": {"subjects": [group]}}), "RoleBinding")["demo-login"]
    assert (named["roleRef"]["name"], named["subjects"]) == ("demo-login", [group])
    assert "demo-login" not in of_kind(render("slurm"), "RoleBinding")


def test_nobody_is_let_into_the_container_with_the_key():
    manifests = render("slurm")
    policy = of_kind(manifests, "ValidatingAdmissionPolicy")["research-demo-login"]["spec"]
    (rule,) = policy["matchConstraints"]["resourceRules"]
    assert (rule["operations"], rule["resourceNames"]) == (["CONNECT"], [POD])
    assert set(rule["resources"]) == {"pods/exec", "pods/attach"}
    assert policy["matchConstraints"]["namespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "research"}
    assert policy["failurePolicy"] == "Fail"
    binding = of_kind(manifests, "ValidatingAdmissionPolicyBinding")["research-demo-login"]["spec"]
    assert (binding["policyName"], binding["validationActions"]) == ("research-demo-login", ["Deny"])


def test_people_are_who_the_values_say_and_never_root():
    manifests = render("slurm", {"login": {"runAsUser": 2000, "runAsGroup": 2001}})
    spec = of_kind(manifests, "StatefulSet")["demo-login"]["spec"]["template"]["spec"]
    context = _container(spec, "login")["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"]) == (2000, 2001)
    with pytest.raises(Refused, match="runAsUser"):
        render("slurm", {"login": {"runAsUser": 0}})


def test_without_login_nothing_of_it_is_there():
    left: list[Manifest] = [
        m for m in render("slurm", {"login": {"enabled": False}}) if "demo-login" in m["metadata"]["name"]
    ]
    assert [m["kind"] for m in left] == ["NetworkPolicy"]
