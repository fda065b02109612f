"""docs/rights.md is complete and true: no right, key or token is in the charts that is not in its tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pytest

from tests.unit.charts.rendering import Manifest, of_kind, render
from tests.unit.docs.rights_table import CLUSTER, OWN, Right, holders_in_the_docs, rights_in_the_docs, rights_of_rules

RELEASE = "demo"
ALWAYS_BOUND = {
    "login": {
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "demo-login"}],
        "perUser": {"enabled": True, "users": {"ann": {}}},
    },
    "users": {"people": {"ann": {"uid": 2001, "sshKeys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5"]}}},
}


@pytest.fixture(scope="module")
def manifests() -> list[Manifest]:
    return [*render("slurm", ALWAYS_BOUND, release=RELEASE), *render("sunkpy", release=RELEASE)]


def test_the_rights_in_kubernetes_are_those_of_the_table(manifests: list[Manifest]):
    found: dict[str, set[Right]] = {}
    for scope, kind, role_kind in ((CLUSTER, "ClusterRoleBinding", "ClusterRole"), (OWN, "RoleBinding", "Role")):
        roles = of_kind(manifests, role_kind)
        for binding in of_kind(manifests, kind).values():
            rules = roles.pop(binding["roleRef"]["name"])["rules"]
            (subject,) = binding["subjects"]
            process = subject["name"].removeprefix(f"{RELEASE}-")
            found.setdefault(process, set()).update(rights_of_rules(scope, rules))
        assert not roles, "roles that are bound to nobody"
    assert found == rights_in_the_docs(release=RELEASE)


def test_who_does_not_wait_for_jobs_gives_the_uninstall_one_right_more():
    roles = of_kind(render("slurm", {"uninstall": {"waitForJobs": False}}, release=RELEASE), "Role")
    rights = set(rights_of_rules(OWN, roles[f"{RELEASE}-uninstall"]["rules"]))
    patch = Right(OWN, "nodesets.sunkpy.dev", "", "patch")
    assert rights - rights_in_the_docs(release=RELEASE)["uninstall"] == {patch}


def test_owners_are_changed_only_where_somebody_asked_for_it():
    def patched(values: dict[str, object]) -> set[str]:
        role = of_kind(render("slurm", values, release=RELEASE), "ClusterRole")[f"sunkpy:scheduler-name:{RELEASE}"]
        return {right.resource for right in rights_of_rules(CLUSTER, role["rules"]) if right.verb == "patch"}

    before, after = patched({}), patched({"scheduler": {"suspendOwners": True}})
    volcano = {"podgroups.scheduling.volcano.sh", "podgroups.scheduling.volcano.sh/status"}
    assert before == {"pods", "pods/status", "persistentvolumeclaims", *volcano}
    assert {"jobs.batch", "jobsets.jobset.x-k8s.io", "rayjobs.ray.io", "trainjobs.trainer.kubeflow.org"} < after


def test_keys_and_tokens_are_where_the_table_says(manifests: list[Manifest]):
    assert set(_holders(manifests)) == holders_in_the_docs()


def _holders(manifests: Sequence[Manifest]) -> Iterator[tuple[str, str, str]]:
    accounts = of_kind(manifests, "ServiceAccount")
    for manifest in manifests:
        if manifest["kind"] not in ("Deployment", "StatefulSet", "Job", "CronJob", "NodeSet"):
            continue
        name = manifest["metadata"]["name"].removeprefix(f"{RELEASE}-")
        process = "slurmd" if manifest["kind"] == "NodeSet" else name
        job = manifest["spec"].get("jobTemplate", manifest)
        pod = job["spec"]["template"]["spec"]
        has_token = pod.get(
            "automountServiceAccountToken",
            accounts[pod["serviceAccountName"]].get("automountServiceAccountToken", True),
        )
        for container in (*pod.get("initContainers", []), *pod["containers"]):
            ends = container in pod.get("initContainers", [])
            keys = [*_keys(pod, container), *(["token for the apiserver"] if has_token and not ends else [])]
            yield f"{process}: {container['name']}", _user(pod, container, ends=ends), ", ".join(keys) or "nothing"


def _user(pod: Mapping[str, object], container: Mapping[str, object], *, ends: bool) -> str:
    context = pod.get("securityContext", {}) | container.get("securityContext", {})
    if context.get("runAsUser") == 0:
        return "root, ends" if ends else "root, privileged" if context.get("privileged") else "root"
    assert context["runAsNonRoot"] is True
    return str(context.get("runAsUser", "of the image, not root"))


KEY_OF_SECRET = {
    f"{RELEASE}-slurm-key": "slurm.key",
    f"{RELEASE}-jwt-key": "jwt.key",
    f"{RELEASE}-database": "password of the database",
    f"{RELEASE}-ssh-host-key": "host key of sshd",
}


def _keys(pod: Mapping[str, object], container: Mapping[str, object]) -> Iterator[str]:
    mounted = {mount["name"] for mount in container.get("volumeMounts", [])}
    for volume in pod.get("volumes", []):
        if volume["name"] not in mounted:
            continue
        if "secret" in volume:
            yield KEY_OF_SECRET[volume["secret"]["secretName"]]
        for source in volume.get("projected", {}).get("sources", []):
            if "secret" in source:
                yield KEY_OF_SECRET[source["secret"]["name"]]
            if "serviceAccountToken" in source:
                assert source["serviceAccountToken"]["audience"] == "sunkpy-hooks"
                yield "token for the hooks"
