"""The login pod: people enter it, so nothing in their reach is root or holds a key."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.unit.charts.rendering import ROOT, Manifest, Refused, of_kind, render

POD = "demo-login-0"
ANN = {"uid": 2001, "sshKeys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBGPPXOXcMTZaPZIqgVbxFGqbVLYLHjwZdSpIrVTSLxX"]}
BY_SSH = {"users": {"people": {"ann": ANN}}}


@pytest.fixture(scope="module")
def pod() -> Mapping[str, object]:
    return of_kind(render("slurm"), "StatefulSet")["demo-login"]["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def pod_with_ssh() -> Mapping[str, object]:
    return of_kind(render("slurm", BY_SSH), "StatefulSet")["demo-login"]["spec"]["template"]["spec"]


def _container(pod: Mapping[str, object], name: str) -> Mapping[str, object]:
    containers = [*pod["containers"], *pod.get("initContainers", ())]
    return next(container for container in containers if container["name"] == name)


def _mounts(pod: Mapping[str, object], container: str) -> dict[str, Mapping[str, object]]:
    return {mount["name"]: mount for mount in _container(pod, container)["volumeMounts"]}


def _with_secret(pod: Mapping[str, object]) -> set[str]:
    return {volume["name"] for volume in pod["volumes"] if "secret" in volume or "projected" in volume}


def _env(pod: Mapping[str, object]) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in _container(pod, "sshd").get("env", ())}


def test_one_person_is_bound_in_memory_processes_and_disk(pod_with_ssh):
    bounds = {name: value for name, value in _env(pod_with_ssh).items() if name.startswith("SUNKPY_PERSON_")}
    assert bounds == {"SUNKPY_PERSON_MEMORY_MIB": "4096", "SUNKPY_PERSON_PROCESSES": "2000"}
    (tmp,) = (volume["emptyDir"] for volume in pod_with_ssh["volumes"] if volume["name"] == "tmp")
    assert tmp == {"medium": "Memory", "sizeLimit": "4Gi"}, "a full disk would end the pod"
    assert {_container(pod_with_ssh, name)["resources"]["limits"]["memory"] for name in ("login", "sshd")} == {"16Gi"}


def test_bounds_are_values():
    login = {"perPerson": {"memoryMiB": 0, "processes": 0}, "tmp": {"medium": "", "sizeLimit": "50Gi"}}
    values = BY_SSH | {"login": login | {"ssh": {"endSessions": False}}}
    free = of_kind(render("slurm", values), "StatefulSet")["demo-login"]["spec"]["template"]["spec"]
    assert "env" not in _container(free, "sshd")
    (tmp,) = (volume["emptyDir"] for volume in free["volumes"] if volume["name"] == "tmp")
    assert tmp == {"medium": "", "sizeLimit": "50Gi"}


@pytest.mark.parametrize("enabled", [True, False])
def test_sshd_knows_whether_it_has_to_wait_for_a_directory_that_does_not_answer(enabled: bool):
    users = BY_SSH["users"] | {"sssd": {"enabled": enabled, "config": "[sssd]\n"}}
    values = {"users": users, "login": {"perUser": {"enabled": True, "users": {"ann": {}}}}}
    sets = of_kind(render("slurm", values), "StatefulSet")
    for name in ("demo-login", "demo-login-ann"):
        assert _env(sets[name]["spec"]["template"]["spec"]).get("SUNKPY_SSSD") == ("1" if enabled else None)


def test_without_bounds_the_other_settings_are_there():
    values = BY_SSH | {"login": {"perPerson": None}}
    assert _env(of_kind(render("slurm", values), "StatefulSet")["demo-login"]["spec"]["template"]["spec"])


def test_the_memory_of_a_pod_of_ones_own_is_bound_by_its_container():
    own = {"perUser": {"enabled": True, "users": {"ann": {}}}}
    pod = of_kind(render("slurm", BY_SSH | {"login": own}), "StatefulSet")["demo-login-ann"]["spec"]["template"]["spec"]
    assert "SUNKPY_PERSON_MEMORY_MIB" not in _env(pod)
    assert _env(pod)["SUNKPY_PERSON_PROCESSES"] == "2000"
    assert _container(pod, "sshd")["resources"]["limits"] == {"memory": "16Gi"}


def test_only_sackd_has_the_key(pod):
    having = [
        c["name"]
        for c in (*pod["containers"], *pod["initContainers"])
        if _with_secret(pod) & set(_mounts(pod, c["name"]))
    ]
    assert having == ["sackd"]
    assert pod["automountServiceAccountToken"] is False


def test_sshd_has_its_host_key_and_no_other(pod_with_ssh):
    having = {
        c["name"]: sorted(_with_secret(pod_with_ssh) & set(_mounts(pod_with_ssh, c["name"])))
        for c in (*pod_with_ssh["containers"], *pod_with_ssh["initContainers"])
    }
    assert having == {"sackd": ["keys"], "sshd": ["host-keys", "ssh-ca"], "login": [], "make-homes": []}
    (secret,) = (volume["secret"] for volume in pod_with_ssh["volumes"] if volume["name"] == "host-keys")
    assert secret == {"secretName": "demo-ssh-host-key", "defaultMode": 0o400}


def test_sshd_is_root_to_become_others_and_for_nothing_else(pod_with_ssh):
    context = _container(pod_with_ssh, "sshd")["securityContext"]
    assert context["allowPrivilegeEscalation"] is False
    assert context["readOnlyRootFilesystem"] is True
    assert context["capabilities"] == {
        "drop": ["ALL"],
        "add": ["AUDIT_WRITE", "CHOWN", "SETGID", "SETUID", "SYS_CHROOT"],
    }
    assert "shareProcessNamespace" not in pod_with_ssh, "root of sshd would read the key of sackd in /proc"
    writable = {name for name, mount in _mounts(pod_with_ssh, "sshd").items() if not mount.get("readOnly")}
    assert writable == {"home", "run", "tmp"}


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"users": {"people": {"ann": {"uid": 2001}}}},
        BY_SSH | {"login": {"ssh": {"enabled": False}}},
        BY_SSH | {"login": {"enabled": False}},
    ],
)
def test_while_nobody_could_come_by_ssh_nothing_of_it_is_there(values):
    manifests = render("slurm", values)
    assert "demo-login" not in of_kind(manifests, "Service")
    assert "sshd" not in {c["name"] for pod in _login_pods(manifests) for c in pod["containers"]}
    assert "ssh-host" not in str(of_kind(manifests, "Job"))
    policy = of_kind(manifests, "NetworkPolicy")["demo-login"]
    assert "2222" not in str(policy)


def _login_pods(manifests) -> list[Mapping[str, object]]:
    return [
        pod["spec"]["template"]["spec"]
        for name, pod in of_kind(manifests, "StatefulSet").items()
        if name == "demo-login"
    ]


def test_people_with_a_key_find_sshd_behind_a_service():
    manifests = render("slurm", BY_SSH | {"login": {"ssh": {"service": {"type": "LoadBalancer", "port": 2022}}}})
    service = of_kind(manifests, "Service")["demo-login"]["spec"]
    assert (service["type"], service["ports"]) == ("LoadBalancer", [{"name": "ssh", "port": 2022, "targetPort": "ssh"}])
    ingress = of_kind(manifests, "NetworkPolicy")["demo-login"]["spec"]["ingress"]
    assert {"ports": [{"port": 2222, "protocol": "TCP"}]} in ingress


def test_a_second_factor_stands_behind_the_key_in_login_pods_and_not_on_nodes():
    line = "auth required pam_google_authenticator.so"
    values = BY_SSH | {"login": {"ssh": {"secondFactor": f"{line}\n"}}, "compute": {"ssh": {"enabled": True}}}
    manifests = render("slurm", values)
    data = of_kind(manifests, "ConfigMap")["demo-login"]["data"]
    assert "\nAuthenticationMethods publickey,keyboard-interactive:pam\n" in data["sshd_config"]
    assert "\nPasswordAuthentication no\nKbdInteractiveAuthentication yes\n" in data["sshd_config"]
    assert data["second_factor"] == f"{line}\n"
    (pod,) = _login_pods(manifests)
    mounts = [mount for mount in _container(pod, "sshd")["volumeMounts"] if mount["mountPath"] == "/etc/pam.d/sshd"]
    assert mounts == [{"name": "sshd", "mountPath": "/etc/pam.d/sshd", "subPath": "sshd.pam", "readOnly": True}]
    node = of_kind(manifests, "ConfigMap")["demo-compute-sshd"]["data"]
    assert not node.keys() & {"sshd.pam", "second_factor"}
    assert "\nAuthenticationMethods publickey\n" in node["sshd_config"]
    without = of_kind(render("slurm", BY_SSH), "ConfigMap")["demo-login"]["data"]
    assert without["second_factor"] == "auth required pam_deny.so\n"
    assert "\nAuthenticationMethods publickey\n" in without["sshd_config"]


def test_but_for_what_it_asks_it_is_the_pam_of_the_image():
    ours, images = (
        [line for line in (ROOT / file).read_text().splitlines() if not line.startswith(("#", "auth"))]
        for file in ("charts/slurm/files/sshd.pam", "slurm-images/etc/sshd.pam")
    )
    assert ours == images


@pytest.mark.parametrize("lines", ["account sufficient pam_permit.so", "auth required x.so\nsession optional y.so"])
def test_a_second_factor_is_lines_of_auth_alone(lines):
    with pytest.raises(Refused, match="secondFactor"):
        render("slurm", BY_SSH | {"login": {"ssh": {"secondFactor": lines}}})


def test_the_host_key_is_made_unless_somebody_brings_it():
    args = of_kind(render("slurm", BY_SSH), "Job")["demo-keys"]["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--ssh-host-secret=demo-ssh-host-key" in args
    brought = render("slurm", BY_SSH | {"keys": {"existingSshHostSecret": "ours"}})
    assert "--ssh-host-secret" not in str(of_kind(brought, "Job")["demo-keys"])
    (pod,) = _login_pods(brought)
    assert {"name": "host-keys", "secret": {"secretName": "ours", "defaultMode": 0o400}} in pod["volumes"]


def test_several_login_pods_are_each_called_back_and_entered_by_name():
    manifests = render("slurm", {"login": {"replicas": 2}})
    pods = ["demo-login-0", "demo-login-1"]
    services = of_kind(manifests, "Service")
    for pod in pods:
        assert services[pod]["spec"]["selector"]["statefulset.kubernetes.io/pod-name"] == pod
    assert all(rule["resourceNames"] == pods for rule in of_kind(manifests, "Role")["demo-login"]["rules"])
    policy = of_kind(manifests, "ValidatingAdmissionPolicy")["research-demo-login"]["spec"]
    assert policy["matchConstraints"]["resourceRules"][0]["resourceNames"] == pods


GPU = {
    "image": "registry/login-cuda:1",
    "replicas": 2,
    "nodeSelector": {"gpu": "true"},
    "service": {"type": "LoadBalancer"},
    "subjects": [{"kind": "Group", "name": "gpu", "apiGroup": "rbac.authorization.k8s.io"}],
}


def test_a_further_set_is_login_but_for_the_keys_it_has():
    login = {"sets": {"gpu": GPU}, "ssh": {"service": {"port": 2022}}, "podAnnotations": {"a": "b"}}
    manifests = render("slurm", BY_SSH | {"login": login})
    assert of_kind(manifests, "Service")["demo-gpu-login"]["spec"]["ports"][0]["port"] == 2022
    sets = of_kind(manifests, "StatefulSet")
    own, gpu = sets["demo-login"]["spec"], sets["demo-gpu-login"]["spec"]
    assert (own["replicas"], gpu["replicas"]) == (1, 2)
    pods = own["template"]["spec"], gpu["template"]["spec"]
    assert pods[1].pop("nodeSelector") == {"gpu": "true"}
    images = {each["name"]: each.pop("image") for each in pods[1]["containers"]}
    ours = {each["name"]: each.pop("image") for each in pods[0]["containers"]}
    assert images == ours | {"login": "registry/login-cuda:1", "sshd": "registry/login-cuda:1"}
    assert pods[0] == pods[1]
    assert own["template"]["metadata"]["annotations"] == gpu["template"]["metadata"]["annotations"]


def test_each_set_is_reached_and_entered_by_itself():
    manifests = render("slurm", BY_SSH | {"login": {"sets": {"gpu": GPU}}})
    services, sets = of_kind(manifests, "Service"), of_kind(manifests, "StatefulSet")
    for name in ("demo-login", "demo-gpu-login"):
        others = [each for each in sets if each != name and each.endswith("login")]
        selector = services[name]["spec"]["selector"]
        assert selector == sets[name]["spec"]["selector"]["matchLabels"]
        assert selector.items() <= sets[name]["spec"]["template"]["metadata"]["labels"].items()
        assert not any(
            selector.items() <= sets[each]["spec"]["template"]["metadata"]["labels"].items() for each in others
        )
    assert services["demo-gpu-login"]["spec"]["type"] == "LoadBalancer"
    pods = ["demo-gpu-login-0", "demo-gpu-login-1"]
    assert set(pods) <= set(services)
    assert all(rule["resourceNames"] == pods for rule in of_kind(manifests, "Role")["demo-gpu-login"]["rules"])
    assert of_kind(manifests, "RoleBinding")["demo-gpu-login"]["subjects"] == GPU["subjects"]
    (budget,) = [each for name, each in of_kind(manifests, "PodDisruptionBudget").items() if "login" in name]
    assert budget["spec"]["selector"]["matchLabels"] == services["demo-gpu-login"]["spec"]["selector"]
    assert "demo-login" not in of_kind(manifests, "RoleBinding")
    policy = of_kind(manifests, "ValidatingAdmissionPolicy")["research-demo-login"]["spec"]
    assert policy["matchConstraints"]["resourceRules"][0]["resourceNames"] == ["demo-login-0", *pods]


def test_a_further_set_may_talk_to_whom_login_may():
    policies = of_kind(render("slurm", BY_SSH | {"login": {"sets": {"gpu": {}}}}), "NetworkPolicy")
    parts = {name: _flows(each["spec"]) for name, each in policies.items()}
    assert parts["demo-login"] == parts["demo-login-set"]
    for flows in parts.values():
        for ends in flows.values():
            assert ("login" in ends) == ("login-set" in ends)


def _flows(spec: Mapping[str, object]) -> dict[str, set[str]]:
    """Direction → the parts at the other end."""
    return {
        way: {
            peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"]
            for rule in spec[way] or ()
            for peer in rule.get(end, ())
            if "podSelector" in peer and "matchLabels" in peer["podSelector"]
        }
        for way, end in (("ingress", "from"), ("egress", "to"))
    }


@pytest.mark.parametrize("name", ["GPU", "a.b", "-a", "x" * 21])
def test_the_name_of_a_set_is_part_of_that_of_its_pods(name: str):
    with pytest.raises(Refused):
        render("slurm", {"login": {"sets": {name: {}}}})


def test_a_shared_folder_is_wherever_people_and_their_jobs_are():
    nfs = {"nfs": {"server": "nas.example.com", "path": "/scratch"}}
    claim = {"persistentVolumeClaim": {"claimName": "data", "readOnly": True}}
    login = {"sets": {"gpu": {}}, "perUser": {"enabled": True, "everybody": True}}
    values = BY_SSH | {"sharedFolders": {"/scratch": nfs, "/data/ro": claim}, "login": login}
    manifests = render("slurm", values)
    sets = of_kind(manifests, "StatefulSet")
    pods = [sets[name]["spec"]["template"]["spec"] for name in ("demo-login", "demo-gpu-login", "demo-login-ann")]
    pods.append(of_kind(manifests, "NodeSet")["compute"]["spec"]["template"]["spec"])
    for pod in pods:
        volumes = {each["name"]: {key: each[key] for key in each if key != "name"} for each in pod["volumes"]}
        for container in pod["containers"]:
            mounts = {each["mountPath"]: volumes[each["name"]] for each in container["volumeMounts"]}
            found = {path: mounts.get(path) for path in ("/scratch", "/data/ro")}
            wanted = {"/scratch": nfs, "/data/ro": claim} if container["name"] != "sackd" else dict.fromkeys(found)
            assert found == wanted, container["name"]
    oci = of_kind(manifests, "ConfigMap")["demo-slurm-config"]["data"]["oci.conf"]
    assert "run-container --mount /data/ro --mount /scratch '%b'" in oci


@pytest.mark.parametrize("path", ["/", "scratch", "/home", "/home/x", "/etc/x", "/run", "/tmp", "/a/../etc", "/a b"])
def test_a_shared_folder_hides_nothing_of_the_image(path: str):
    with pytest.raises(Refused, match=f"invalid propertyName {path!r}"):
        render("slurm", {"sharedFolders": {path: {"hostPath": {"path": "/x"}}}})


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
    assert set(_mounts(pod, "make-homes")) == {"home", "people"}


def test_the_socket_is_shared_and_people_cannot_replace_it(pod):
    assert _mounts(pod, "sackd")["slurm"]["mountPath"] == _mounts(pod, "login")["slurm"]["mountPath"] == "/run/slurm"
    assert _mounts(pod, "login")["slurm"]["readOnly"] is True
    assert set(_mounts(pod, "login")) == {"home", "slurm", "tmp", "words", "people"}


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


@pytest.mark.parametrize(("motd", "file"), [("", ""), ("Welcome", "Welcome\n"), ("Welcome\n\n", "Welcome\n\n")])
def test_the_nodes_stand_below_the_text_of_the_site(motd: str, file: str):
    maps = of_kind(render("slurm", {"login": {"motd": motd}}), "ConfigMap")
    assert maps["demo-login"]["data"]["motd"] == file
