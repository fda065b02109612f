"""The tables of docs/reference/rights.md, made from the rendered charts: which process has which right in Kubernetes,
and which container holds which key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tests.unit.charts.rendering import Manifest, of_kind, render

RELEASE, PERSON = "demo", "ann"
CLUSTER, OWN = "cluster", "own"
ALWAYS_BOUND = {
    "login": {
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "demo-login"}],
        "perUser": {"enabled": True, "users": {PERSON: {}}},
    },
    "page": {"enabled": True},
    "volumeMetrics": {"when": "always"},
    "users": {"people": {PERSON: {"uid": 2001, "sshKeys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5"]}}},
}
KEY_OF_SECRET = {
    f"{RELEASE}-slurm-key": "`slurm.key`",
    f"{RELEASE}-jwt-key": "`jwt.key`",
    f"{RELEASE}-database": "password of the database",
    f"{RELEASE}-ssh-host-key": "host key of sshd",
}
PUBLIC = f"{RELEASE}-ssh-ca"
"""A Secret with public keys alone."""

Row = tuple[str, ...]


def manifests() -> list[Manifest]:
    """Return the objects of both charts, with all values that bind a Role or give a key."""
    return [*render("sunkpy", release=RELEASE), *render("slurm", ALWAYS_BOUND, release=RELEASE)]


def rules(found: Sequence[Manifest]) -> Iterator[tuple[str, str, Mapping[str, Sequence[str]]]]:
    """Yield process, where (own or cluster) and rule, for each rule of a bound Role or ClusterRole.

    Raises:
        ValueError: a role is bound to nobody.
    """
    for where, kind, role_kind in ((CLUSTER, "ClusterRoleBinding", "ClusterRole"), (OWN, "RoleBinding", "Role")):
        roles = of_kind(found, role_kind)
        for binding in of_kind(found, kind).values():
            (subject,) = binding["subjects"]
            for rule in roles.pop(binding["roleRef"]["name"])["rules"]:
                yield subject["name"].removeprefix(f"{RELEASE}-"), where, rule
        if roles:
            raise ValueError(f"bound to nobody: {', '.join(roles)}")


def rights(found: Sequence[Manifest]) -> Iterator[Row]:
    """Yield the rows of the table of rights: process, where (own or cluster), resources, verbs."""
    for process, where, rule in sorted(rules(found), key=lambda row: row[0]):
        resources = ", ".join(
            f"`{full_name(group, kind)}`" for group in rule["apiGroups"] for kind in rule["resources"]
        )
        named = ", ".join(f"`{name.replace(RELEASE, '<release>', 1)}`" for name in rule.get("resourceNames", ()))
        yield process, where, f"{resources} named {named}" if named else resources, ", ".join(rule["verbs"])


def full_name(group: str, resource: str) -> str:
    """`nodesets/status` of `sunkpy.dev` → `nodesets.sunkpy.dev/status`."""
    kind, slash, sub = resource.partition("/")
    return f"{kind}.{group}{slash}{sub}" if group else resource


def holders(found: Sequence[Manifest]) -> Iterator[Row]:
    """Yield the rows of the table of keys: container, the user it runs as, its keys and tokens."""
    accounts = of_kind(found, "ServiceAccount")
    for manifest in found:
        if manifest["kind"] not in ("Deployment", "StatefulSet", "Job", "CronJob", "NodeSet"):
            continue
        name = manifest["metadata"]["name"].removeprefix(f"{RELEASE}-")
        process = "slurmd" if manifest["kind"] == "NodeSet" else name
        pod = manifest["spec"].get("jobTemplate", manifest)["spec"]["template"]["spec"]
        account = accounts.get(pod.get("serviceAccountName", "default"), {}).get("automountServiceAccountToken", True)
        has_token = pod.get("automountServiceAccountToken", account)
        for container in (*pod.get("initContainers", []), *pod["containers"]):
            ends = container in pod.get("initContainers", [])
            keys = [*_keys(pod, container), *(["token for the apiserver"] if has_token and not ends else [])]
            yield f"{process}: `{container['name']}`", _user(pod, container, ends=ends), ", ".join(keys) or "nothing"


def _user(pod: Mapping[str, object], container: Mapping[str, object], *, ends: bool) -> str:
    context = pod.get("securityContext", {}) | container.get("securityContext", {})
    if context.get("runAsUser") == 0:
        return "root, runs only at the start" if ends else "root, privileged" if context.get("privileged") else "root"
    assert context["runAsNonRoot"] is True
    return str(context.get("runAsUser", "of the image, not root"))


def _keys(pod: Mapping[str, object], container: Mapping[str, object]) -> Iterator[str]:
    mounted = {mount["name"] for mount in container.get("volumeMounts", [])}
    for volume in pod.get("volumes", []):
        if volume["name"] not in mounted:
            continue
        if "secret" in volume and volume["secret"]["secretName"] != PUBLIC:
            yield KEY_OF_SECRET[volume["secret"]["secretName"]]
        for source in volume.get("projected", {}).get("sources", []):
            if "secret" in source:
                yield KEY_OF_SECRET[source["secret"]["name"]]
            if "serviceAccountToken" in source:
                assert source["serviceAccountToken"]["audience"] == "sunkpy-hooks"
                yield "token for the hooks"
