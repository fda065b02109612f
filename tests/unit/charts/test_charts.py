"""Both charts, rendered with several values: valid objects, valid settings, few rights, clear refusals."""

from __future__ import annotations

import copy
import subprocess
import sys
import warnings
from pathlib import Path

import jsonschema
import msgspec
import pytest
import yaml

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import kubernetes_validate

from sunkpy.operator.settings import OperatorSettings
from sunkpy.scheduler.settings import SchedulerSettings
from sunkpy.syncer.settings import SyncerSettings
from tests.unit.charts.rendering import CHARTS, ROOT, Refused, of_kind, render, run_helm

KUBERNETES = "1.35"
FULL = {
    "clusterName": "sk",
    "imagePullSecrets": [{"name": "pull"}],
    "slurmConfig": {"cgroup": "auto", "schedulerParameters": ["bf_continue", "defer"], "extra": "MaxJobCount=50000\n"},
    "partitions": {"gpu": {"nodeSets": ["h100"], "default": True, "maxTime": "1-00:00:00"}, "low": None},
    "nodeSets": {
        "compute": None,
        "h100": {
            "replicas": 3,
            "gpu": {"resource": "nvidia.com/gpu", "type": "h100"},
            "features": ["h100", "ib"],
            "reserved": {"cpu": "2", "memory": "8Gi"},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%"}},
            "drainTimeoutSeconds": 600,
            "drainTimeoutPolicy": "Force",
            "fakeGpus": True,
            "runtimeClassName": "nvidia",
            "nodeSelector": {"gpu": "h100"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "env": [{"name": "X", "value": "1"}],
            "volumes": [{"name": "data", "hostPath": {"path": "/data"}}],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            "podAnnotations": {"a": "b"},
            "podLabels": {"team": "x"},
        },
    },
    "networkPolicies": {"enabled": True},
    "scheduler": {"name": "slurm-sk", "defaultPartition": "low", "podAnnotations": {"a": "b"}},
    "home": {"existingClaim": "homes"},
}
OWN_KEYS = {"keys": {"existingSlurmSecret": "a", "existingJwtSecret": "b"}, "login": {"enabled": False}}
NO_SCHEDULER = {"scheduler": {"enabled": False}, "nodeSets": {}}
SLURM_VALUES = [{}, FULL, OWN_KEYS, NO_SCHEDULER]


def nodeset_schema() -> dict[str, object]:
    (crd,) = yaml.safe_load_all((ROOT / "crds" / "sunkpy.dev_nodesets.yaml").read_text())
    return _strict(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def _strict(schema: object) -> object:
    """The apiserver prunes unknown keys in silence; a chart must not write any."""
    if isinstance(schema, list):
        return [_strict(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {key: _strict(value) for key, value in schema.items()}
    open_ended = {"additionalProperties", "x-kubernetes-preserve-unknown-fields"} & strict.keys()
    if isinstance(strict.get("properties"), dict) and strict.get("type") == "object" and not open_ended:
        strict["additionalProperties"] = False
    return strict


@pytest.mark.parametrize("chart", ["slurm", "sunkpy"])
def test_helm_lint_has_nothing_to_say(chart: str):
    run_helm("lint", "--strict", str(CHARTS / chart))


@pytest.mark.parametrize("values", SLURM_VALUES)
def test_every_object_of_a_slurm_cluster_is_what_kubernetes_accepts(values: dict[str, object]):
    for manifest in render("slurm", values):
        if manifest["kind"] != "NodeSet":
            kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


@pytest.mark.parametrize("values", SLURM_VALUES)
def test_nodesets_fit_their_crd_and_their_pods_are_pods(values: dict[str, object]):
    schema = nodeset_schema()
    schema["properties"]["metadata"] = {"type": "object"}
    for name, nodeset in of_kind(render("slurm", values), "NodeSet").items():
        jsonschema.validate(nodeset, schema)
        pod = {"apiVersion": "v1", "kind": "Pod", **copy.deepcopy(nodeset["spec"]["template"])}
        pod["metadata"] = {"name": name, **pod["metadata"]}
        kubernetes_validate.validate(pod, KUBERNETES, strict=True)


def test_every_object_of_the_operator_is_what_kubernetes_accepts():
    manifests = render("sunkpy", {"image": "registry/sunkpy:1"})
    assert of_kind(manifests, "CustomResourceDefinition").keys() == {"nodesets.sunkpy.dev"}
    for manifest in manifests:
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


@pytest.mark.parametrize("values", [{}, FULL])
def test_the_processes_can_read_the_settings_written_for_them(values: dict[str, object]):
    maps = of_kind(render("slurm", values), "ConfigMap") | of_kind(render("sunkpy"), "ConfigMap")
    for name, type_ in (
        ("demo-syncer", SyncerSettings),
        ("demo-scheduler", SchedulerSettings),
        ("demo-operator", OperatorSettings),
    ):
        settings = msgspec.yaml.decode(maps[name]["data"]["config.yaml"], type=type_)
        assert settings.namespace == "research"


def test_names_come_from_the_release_unless_values_say_otherwise():
    plain = of_kind(render("slurm", release="alpha"), "ConfigMap")["alpha-scheduler"]["data"]["config.yaml"]
    named = of_kind(render("slurm", FULL, release="alpha"), "ConfigMap")["alpha-scheduler"]["data"]["config.yaml"]
    read = [msgspec.yaml.decode(text, type=SchedulerSettings) for text in (plain, named)]
    assert [(settings.cluster, settings.scheduler_name) for settings in read] == [
        ("alpha", "alpha"),
        ("sk", "slurm-sk"),
    ]


@pytest.mark.parametrize(
    ("chart", "values", "says"),
    [
        ("slurm", {"slurmctdl": {"replicas": 1}}, "slurmctdl"),
        ("slurm", {"partitions": {"low": {"priorityTeir": 1}}}, "priorityTeir"),
        ("slurm", {"nodeSets": {"h100": {"replica": 1}}}, "replica"),
        ("slurm", {"nodeSets": {"H100": {}}}, "H100"),
        ("slurm", {"nodeSets": {"a": {"reserved": {"memory": "8 GB"}}}}, "memory"),
        ("slurm", {"slurmConfig": {"cgroup": "v3"}}, "cgroup"),
        ("slurm", {"partitions": {"low": {"preemptMode": "SUSPEND"}}}, "SUSPEND and GANG start the next job beside"),
        ("slurm", {"partitions": {"low": {"extra": "preemptmode=gang"}}}, "SUSPEND and GANG start the next job beside"),
        ("slurm", {"slurmConfig": {"extra": "PreemptMode = SUSPEND,GANG"}}, "SUSPEND and GANG start the next job"),
        ("slurm", {"hooks": {"markersHostPath": "../tmp"}}, "markersHostPath"),
        ("slurm", {"partitions": {"low": {"extra": "A=1\nInclude /etc/shadow"}}}, "extra"),
        ("sunkpy", {"resyncSecond": 5}, "resyncSecond"),
        ("sunkpy", {"image": ""}, "image"),
    ],
)
def test_a_wrong_value_is_refused_by_name(chart: str, values: dict[str, object], says: str):
    with pytest.raises(Refused, match=says):
        render(chart, values)


def test_markers_lie_on_the_machine_apart_for_each_cluster_and_node():
    spec = of_kind(render("slurm", FULL), "NodeSet")["h100"]["spec"]["template"]["spec"]
    (volume,) = [volume for volume in spec["volumes"] if volume["name"] == "markers"]
    assert volume["hostPath"] == {"path": "/var/lib/sunkpy/research-sk", "type": "DirectoryOrCreate"}
    (mount,) = [mount for mount in spec["containers"][0]["volumeMounts"] if mount["name"] == "markers"]
    assert mount["subPathExpr"] == "$(SUNKPY_KUBE_NODE)"


def test_daemons_that_start_themselves_anew_are_called_by_their_full_path():
    for script in (ROOT / "slurm-images" / "bin").glob("start-*"):
        (start,) = [line for line in script.read_text().splitlines() if line.startswith("exec ")]
        assert "/usr/sbin/" in start, script


def test_only_the_operator_may_write_nodes():
    for chart, may in (("slurm", set()), ("sunkpy", {"patch"})):
        roles = [role for kind in ("Role", "ClusterRole") for role in of_kind(render(chart), kind).values()]
        verbs = {
            verb
            for role in roles
            for rule in role["rules"]
            if {"nodes", "nodes/status", "*"} & set(rule["resources"])
            for verb in rule["verbs"]
        }
        assert verbs - {"get", "list", "watch"} == may


def test_no_rule_has_a_wildcard_and_nobody_reads_secrets():
    for manifest in (*render("slurm"), *render("sunkpy")):
        for rule in manifest.get("rules", []):
            assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]]
            assert "secrets" not in rule["resources"] or rule["verbs"] == ["create"]


def test_the_account_of_slurmd_pods_is_bound_to_nothing_and_its_token_is_for_the_hooks():
    manifests = render("slurm")
    bound = {
        subject["name"]
        for kind in ("RoleBinding", "ClusterRoleBinding")
        for binding in of_kind(manifests, kind).values()
        for subject in binding["subjects"]
    }
    spec = of_kind(manifests, "NodeSet")["compute"]["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] not in bound
    assert spec["automountServiceAccountToken"] is False
    (token,) = [volume["projected"] for volume in spec["volumes"] if "projected" in volume]
    assert token["defaultMode"] == 0o400
    assert [source["serviceAccountToken"]["audience"] for source in token["sources"]] == ["sunkpy-hooks"]


def test_no_manifest_holds_a_key_and_rendering_twice_gives_the_same():
    assert not of_kind(render("slurm"), "Secret")
    args = ("template", "demo", str(CHARTS / "slurm"))
    assert run_helm(*args, values=FULL) == run_helm(*args, values=FULL)


def test_only_slurmd_is_privileged_and_all_but_slurmd_and_login_run_as_somebody_else_than_root():
    for kind in ("Deployment", "StatefulSet", "Job"):
        for name, manifest in of_kind(render("slurm"), kind).items():
            spec = manifest["spec"]["template"]["spec"]
            contexts = [container.get("securityContext", {}) for container in spec["containers"]]
            assert not any(context.get("privileged") for context in contexts)
            if name != "demo-login":
                assert spec["securityContext"]["runAsNonRoot"] is True
                assert all(context["readOnlyRootFilesystem"] for context in contexts)


def test_a_changed_partition_restarts_slurmctld_and_leaves_syncer_and_slurmd_alone():
    before, after = render("slurm"), render("slurm", {"partitions": {"night": {"priorityTier": 5}}})

    def template(manifests: object, kind: str, name: str) -> object:
        return of_kind(manifests, kind)[name]["spec"]["template"]

    for kind, name, same in (
        ("StatefulSet", "demo-slurmctld", False),
        ("Deployment", "demo-syncer", True),
        ("Deployment", "demo-scheduler", True),
        ("NodeSet", "compute", True),
    ):
        assert (template(before, kind, name) == template(after, kind, name)) is same, name


def test_slurm_conf_says_what_the_values_say():
    conf = of_kind(render("slurm", FULL), "ConfigMap")["demo-slurm-config"]["data"]["slurm.conf"].splitlines()
    assert {
        "ClusterName=sk",
        "SlurmctldHost=demo-slurmctld-0(demo-slurmctld)",
        "NodeSet=h100 Feature=h100",
        "PartitionName=gpu Nodes=h100 PriorityTier=1 Default=YES MaxTime=1-00:00:00",
        "SchedulerParameters=bf_continue,defer",
        "ProctrackType=proctrack/cgroup",
        "MaxJobCount=50000",
    } <= set(conf)


@pytest.mark.parametrize("name", ["prolog.sh", "epilog.sh"])
def test_the_hook_scripts_are_clean(name: str, tmp_path: Path):
    script = tmp_path / name
    script.write_text(of_kind(render("slurm"), "ConfigMap")["demo-slurm-config"]["data"][name])
    _shellcheck(script)


def test_the_entry_points_are_clean():
    _shellcheck(*sorted((ROOT / "slurm-images" / "bin").iterdir()), ROOT / "tools" / "bootstrap", ROOT / ".ci" / "run")


def _shellcheck(*scripts: Path) -> None:
    program = Path(sys.executable).with_name("shellcheck")
    done = subprocess.run([program, *scripts], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
