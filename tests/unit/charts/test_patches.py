"""What an admin may lay over the objects of a release: labels for all, patches for one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.charts.rendering import CHARTS, Manifest, Refused, check_accepted, of_kind, render

SECOND = {"name": "scratch", "hostPath": {"path": "/scratch"}}
WHOLE = ("slurm", "sunkpy", "openldap")


def login_pod(patch: object) -> dict[str, object]:
    values = {"patches": {"StatefulSet/login": {"spec": {"template": {"spec": patch}}}}}
    found: dict[str, object] = of_kind(render("slurm", values), "StatefulSet")["demo-login"]["spec"]["template"]["spec"]
    return found


def named(things: list[dict[str, object]], name: str) -> dict[str, object]:
    (found,) = [each for each in things if each["name"] == name]
    return found


def pod_of(manifest: Manifest) -> dict[str, object] | None:
    spec = manifest.get("spec") or {}
    if manifest["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    template: dict[str, object] | None = spec.get("template")
    return template


@pytest.mark.parametrize("chart", WHOLE)
def test_every_file_is_one_that_can_be_patched(chart: str) -> None:
    listed = (CHARTS / chart / "templates" / "patches.yaml").read_text()
    for file in (CHARTS / chart / "templates").glob("*.yaml"):
        if file.stem in ("patches", "crds"):
            continue
        of = f"{chart}.objects.{file.stem}"
        assert f'"{file.stem}"' in listed, file
        assert f'define "{of}"' in file.read_text()
        assert f'"of" "{of}")' in file.read_text()


@pytest.mark.parametrize("chart", WHOLE)
def test_a_patch_of_nothing_changes_nothing(chart: str) -> None:
    plain = render(chart)
    first = next(each for each in plain if each["kind"] == "ConfigMap")
    name = f"ConfigMap/{first['metadata']['name'].removeprefix('demo-')}"
    assert render(chart, {"patches": {name: {"metadata": {}}}}) == plain


@pytest.mark.parametrize("chart", WHOLE)
def test_all_objects_and_pods_have_the_common_labels(chart: str) -> None:
    common = {"labels": {"team": "x", "app.kubernetes.io/name": "theirs"}, "annotations": {"a": "b"}}
    plain = {(each["kind"], each["metadata"]["name"]): each for each in render(chart)}
    for manifest in render(chart, {"common": common}):
        before = plain[manifest["kind"], manifest["metadata"]["name"]]
        if manifest["kind"] == "CustomResourceDefinition":
            continue
        for now, was in ((manifest, before), (pod_of(manifest), pod_of(before))):
            if now is None:
                continue
            assert now["metadata"]["labels"] == common["labels"] | (was["metadata"].get("labels") or {})
            assert now["metadata"]["annotations"] == common["annotations"] | (was["metadata"].get("annotations") or {})
        if manifest["kind"] in ("Deployment", "StatefulSet", "DaemonSet"):
            assert manifest["spec"]["selector"] == before["spec"]["selector"]
            assert manifest["spec"].get("volumeClaimTemplates") == before["spec"].get("volumeClaimTemplates")


@pytest.mark.parametrize("chart", WHOLE)
def test_all_pods_and_containers_have_what_is_common_but_for_what_they_say_themselves(chart: str) -> None:
    toleration, proxy = {"key": "a", "operator": "Exists"}, {"name": "HTTPS_PROXY", "value": "http://proxy"}
    values = {
        "common": {"podSpec": {"tolerations": [toleration], "dnsPolicy": "Default"}, "container": {"env": [proxy]}}
    }
    pods = [(pod_of(was), pod_of(now)) for was, now in zip(render(chart), render(chart, values), strict=True)]
    specs = [(was["spec"], now["spec"]) for was, now in pods if was and now]
    assert specs
    for manifest in render(chart, values):
        if manifest["kind"] in ("Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob"):
            check_accepted(manifest)
    for was, now in specs:
        assert now["tolerations"] == [*was.get("tolerations", []), toleration]
        assert now["dnsPolicy"] == was.get("dnsPolicy", "Default")
        for kind in ("initContainers", "containers"):
            wanted = [each | {"env": [proxy, *each.get("env", [])]} for each in was.get(kind, [])]
            assert now.get(kind, []) == wanted


def tolerations(chart: str, name: str, values: dict[str, object]) -> list[dict[str, object]]:
    found = of_kind(render(chart, values), "Deployment")[name]["spec"]["template"]["spec"]["tolerations"]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize(
    ("chart", "name", "own"),
    [
        ("slurm", "demo-scheduler", lambda mine: {"scheduler": {"tolerations": mine}}),
        ("sunkpy", "demo-operator", lambda mine: {"tolerations": mine}),
    ],
)
def test_common_tolerations_add_up_with_those_of_a_part(
    chart: str, name: str, own: Callable[[object], dict[str, object]]
) -> None:
    one, both = {"key": "one", "operator": "Exists"}, {"key": "both", "operator": "Exists"}
    common = {"common": {"podSpec": {"tolerations": [both, one]}}}
    by_chart = tolerations(chart, name, {})
    assert by_chart
    assert tolerations(chart, name, own([both]) | common) == [*by_chart, both, one]
    longer = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "tolerationSeconds": 900}
    said = tolerations(chart, name, {"common": {"podSpec": {"tolerations": [longer]}}})
    assert [each for each in said if each["key"] == longer["key"]] == [longer], "the shortest time would count"


@pytest.mark.parametrize("chart", WHOLE)
@pytest.mark.parametrize(
    "common",
    [
        {"container": {"securityContext": {"runAsNonRoot": True}}},
        {"podSpec": {"containers": [{"name": "beside", "image": "i"}]}},
        {"podSpec": {"nodeSelector": {"a": "b"}}},
    ],
)
def test_what_would_harm_some_of_all_pods_is_not_common(chart: str, common: dict[str, object]) -> None:
    with pytest.raises(Refused, match="common"):
        render(chart, {"common": common})


def test_things_with_a_name_are_merged_and_others_added() -> None:
    plain = login_pod({})
    patched = login_pod(
        {
            "dnsPolicy": "Default",
            "volumes": [{"name": "site", "hostPath": {"path": "/data"}}],
            "containers": [
                {
                    "name": "login",
                    "env": [{"name": "SITE", "value": "x"}],
                    "volumeMounts": [
                        {"name": "site", "mountPath": "/data"},
                        {"mountPath": "/home", "name": "home", "readOnly": True},
                    ],
                    "readinessProbe": {"periodSeconds": 60},
                },
                {"name": "beside", "image": "registry/beside:1"},
            ],
        }
    )
    assert patched["dnsPolicy"] == "Default"
    assert patched["volumes"] == [*plain["volumes"], {"name": "site", "hostPath": {"path": "/data"}}]
    assert [each["name"] for each in patched["containers"]] == ["login", "sackd", "beside"]
    ours, theirs = named(plain["containers"], "login"), named(patched["containers"], "login")
    assert theirs["env"] == [{"name": "SITE", "value": "x"}]
    assert theirs["image"] == ours["image"]
    assert theirs["readinessProbe"] == ours["readinessProbe"] | {"periodSeconds": 60}
    home, *others = ours["volumeMounts"]
    assert theirs["volumeMounts"] == [
        home | {"readOnly": True},
        *others,
        {"name": "site", "mountPath": "/data"},
    ]
    assert named(patched["containers"], "sackd") == named(plain["containers"], "sackd")


def test_other_lists_are_replaced_and_null_takes_away() -> None:
    patched = login_pod(
        {
            "terminationGracePeriodSeconds": None,
            "containers": [{"name": "sackd", "args": ["sleep"], "securityContext": {"runAsNonRoot": None}}],
        }
    )
    assert "terminationGracePeriodSeconds" not in patched
    sackd = named(patched["containers"], "sackd")
    assert sackd["args"] == ["sleep"]
    assert "runAsNonRoot" not in sackd["securityContext"]


@pytest.mark.parametrize(
    ("name", "patch"),
    [
        ("ServiceAccount/slurmd", {"metadata": {"annotations": {"eks.amazonaws.com/role-arn": "a"}}}),
        ("NodeSet/compute", {"spec": {"template": {"spec": {"hostAliases": []}}}}),
        ("CronJob/backup", {"spec": {"suspend": True}}),
        ("Service/slurmrestd", {"spec": {"type": "NodePort"}}),
        ("ValidatingAdmissionPolicy/login", {"metadata": {"annotations": {"a": "b"}}}),
        ("Job/keys", {"spec": {"backoffLimit": 9}}),
    ],
)
def test_any_object_can_be_patched(name: str, patch: dict[str, dict[str, object]]) -> None:
    plain, patched = render("slurm"), render("slurm", {"patches": {name: patch}})
    changed = [(was, now) for was, now in zip(plain, patched, strict=True) if was != now]
    ((was, now),) = changed
    assert name == f"{now['kind']}/{now['metadata']['name'].removeprefix('research-').removeprefix('demo-')}"
    if now["kind"] != "NodeSet":
        check_accepted(now)
    assert was["metadata"]["name"] == now["metadata"]["name"]


POD = ("spec", "template", "spec")
STATE = {"name": "state", "persistentVolumeClaim": {"claimName": "ours"}}
LOOKED_FOR = {
    "topologySpreadConstraints": ("Deployment/scheduler", (*POD, "topologySpreadConstraints"), [{"maxSkew": 1}]),
    "podSecurityContext": ("Deployment/syncer", (*POD, "securityContext", "runAsUser"), 1000660000),
    "initContainers": ("NodeSet/compute", (*POD, "initContainers"), [{"name": "driver", "image": "r/x:1"}]),
    "hostAliases": ("StatefulSet/slurmctld", (*POD, "hostAliases"), [{"ip": "192.0.2.1", "hostnames": ["nas"]}]),
    "dnsConfig": ("Deployment/scheduler", (*POD, "dnsConfig"), {"options": [{"name": "ndots", "value": "1"}]}),
    "runtimeClassName": ("StatefulSet/login", (*POD, "runtimeClassName"), "gvisor"),
    "updateStrategy": ("Deployment/scheduler", ("spec", "strategy"), {"type": "Recreate"}),
    "serviceAccount.annotations": ("ServiceAccount/slurm", ("metadata", "annotations", "azure.example/id"), "x"),
    "existingClaim": ("StatefulSet/slurmctld", ("spec", "volumeClaimTemplates"), None),
    "accessModes": ("PersistentVolumeClaim/home", ("spec", "accessModes"), ["ReadWriteOnce"]),
    "service.loadBalancerClass": ("Service/slurmrestd", ("spec", "loadBalancerClass"), "example.com/internal"),
}
"""Keys of other charts, which this one has not → the object that is patched, where, and with what."""


def _at(path: tuple[str, ...], value: object) -> object:
    return _at(path[:-1], {path[-1]: value}) if path else value


@pytest.mark.parametrize("key", LOOKED_FOR)
def test_what_other_charts_have_a_key_for_is_reached(key: str) -> None:
    name, path, value = LOOKED_FOR[key]
    kind, _, short = name.partition("/")
    objects = of_kind(render("slurm", {"patches": {name: _at(path, value)}}), kind)
    found: object = objects.get(f"demo-{short}") or objects[short]
    for part in path:
        found = found.get(part)
    assert found == value


def test_a_claim_of_the_site_holds_the_state_of_slurmctld() -> None:
    patch = {"spec": {"volumeClaimTemplates": None, "template": {"spec": {"volumes": [STATE]}}}}
    manifest = of_kind(render("slurm", {"patches": {"StatefulSet/slurmctld": patch}}), "StatefulSet")["demo-slurmctld"]
    assert "volumeClaimTemplates" not in manifest["spec"]
    spec = manifest["spec"]["template"]["spec"]
    assert named(spec["volumes"], "state") == STATE
    assert "state" in {each["name"] for each in spec["containers"][0]["volumeMounts"]}
    check_accepted(manifest)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"patches": {"StatefulSet/logn": {}}}, "patches.StatefulSet/logn: the release has no such object. It has"),
        ({"patches": {"StatefulSet/login": {"kind": "Pod"}}}, "a patch cannot change kind or name"),
        ({"patches": {"StatefulSet/login": {"metadata": {"name": "x"}}}}, "a patch cannot change kind or name"),
        (
            {"patches": {"StatefulSet/login": {"spec": {"template": {"spec": {"volumes": [SECOND]}}}}}},
            "volume scratch has several sources: emptyDir, hostPath",
        ),
        (
            {"common": {"podSpec": {"volumes": [{"name": "config", "hostPath": {"path": "/x"}}]}}},
            "common.podSpec.volumes: config has several sources: configMap, hostPath",
        ),
        (
            {"extraObjects": [{"a": "b"}], "common": {"labels": {"a": "b"}}},
            'this has no kind, so it is not an object of Kubernetes: {"a":"b"}',
        ),
        (
            {"home": {"existingClaim": "a", "volume": {"hostPath": {"path": "/home"}}}},
            "home: set only one of",
        ),
    ],
)
def test_what_fits_nothing_is_refused(values: dict[str, object], words: str) -> None:
    with pytest.raises(Refused, match=words):
        render("slurm", values)


def test_homes_are_on_any_volume() -> None:
    nfs = {"nfs": {"server": "nas.example.com", "path": "/home"}}
    manifests = render("slurm", {"home": {"volume": nfs}})
    assert "demo-home" not in of_kind(manifests, "PersistentVolumeClaim")
    login = of_kind(manifests, "StatefulSet")["demo-login"]["spec"]["template"]["spec"]
    slurmd = of_kind(manifests, "NodeSet")["compute"]["spec"]["template"]["spec"]
    for pod in (login, slurmd):
        assert named(pod["volumes"], "home") == {"name": "home", **nfs}
