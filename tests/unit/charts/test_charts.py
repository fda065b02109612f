"""Both charts, rendered with several values: valid objects, valid settings, few rights, clear refusals."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml

from sunkpy.accounts.settings import AccountsSettings
from sunkpy.core import names
from sunkpy.core.gang.access import AccessRule
from sunkpy.core.gang.families import FAMILIES
from sunkpy.core.gang.owners import kinds_read
from sunkpy.operator.settings import OperatorSettings
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.scheduler.settings import HooksSettings, SchedulerSettings
from sunkpy.syncer.settings import SyncerSettings
from tests.unit.charts.rendering import (
    CHARTS,
    IMAGES,
    ROOT,
    Manifest,
    Refused,
    check_accepted,
    copy_charts,
    helm,
    of_kind,
    render,
    render_folder,
    run_helm,
    with_images,
)

FULL = {
    "clusterName": "sk",
    "imagePullSecrets": [{"name": "pull"}],
    "slurmConfig": {"conf": {"SchedulerParameters": {"bf_interval": 30, "defer": True}, "MaxJobCount": 50000}},
    "partitions": {"gpu": {"nodeSets": ["h100"], "default": True, "maxTime": "1-00:00:00"}, "low": None},
    "nodeSets": {
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
    "scheduler": {"name": "slurm-sk", "defaultPartition": "high", "podAnnotations": {"a": "b"}},
    "home": {"existingClaim": "homes"},
}


def _conf(key: str, value: object) -> dict[str, object]:
    return {"slurmConfig": {"conf": {key: value}}}


CLOSED = {
    "networkPolicies": {"jobEgress": [], "apiserver": {"cidrs": ["10.0.0.1/32"]}},
    "priorityClasses": {"create": False},
    "uninstall": {"waitForJobs": False},
    "login": {"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "researchers"}]},
}
OWN_KEYS = {
    "keys": {"existingSlurmSecret": "a", "existingJwtSecret": "b"},
    "accounting": {"database": {"existingSecret": "c"}},
    "login": {"enabled": False},
}
PLACED = {"nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}], "podAnnotations": {"a": "b"}}
OWN_LOGINS = {
    "users": {
        "people": {"ann": {"uid": 2001}, "b_b": {"uid": 2002}},
        "sssd": {"enabled": True, "existingSecret": "directory"},
    },
    "login": {
        "perUser": {
            "enabled": True,
            "everybody": True,
            "users": {"ann": {"idleMinutes": 0, "image": "registry/ann:1"}, "dora": {}},
            "defaults": {"resources": {"limits": {"memory": "1Gi"}}, "affinity": {"nodeAffinity": {}}, **PLACED},
            "process": {"logLevel": "debug", **PLACED},
        },
    },
}
NO_SCHEDULER = {"scheduler": {"enabled": False}, "nodeSets": {}, "accounting": {"enabled": False}}
SOLVER = {
    "name": "solver",
    "ownerKind": {"group": "sim.example.com", "kind": "Solver"},
    "roles": [{"name": "worker", "countPath": "spec.workers.replicas", "indexLabel": "sim.example.com/rank"}],
    "suspendPath": "spec.suspend",
}
TYPES = [{"type": "1g.5gb", "attributes": {"profile": "1g.5gb"}}, {"type": "a100"}]
SEVERAL_TYPES = {"nodeSets": {"mixed": {"gpu": {"driver": "gpu.nvidia.com", "types": TYPES}}}}
SLURM_VALUES = [{}, FULL, CLOSED, OWN_KEYS, NO_SCHEDULER, OWN_LOGINS, SEVERAL_TYPES]


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
            check_accepted(manifest)


@pytest.mark.parametrize("values", SLURM_VALUES)
def test_nodesets_fit_their_crd_and_their_pods_are_pods(values: dict[str, object]):
    schema = nodeset_schema()
    schema["properties"]["metadata"] = {"type": "object"}
    for name, nodeset in of_kind(render("slurm", values), "NodeSet").items():
        jsonschema.validate(nodeset, schema)
        pod = {"apiVersion": "v1", "kind": "Pod", **copy.deepcopy(nodeset["spec"]["template"])}
        pod["metadata"] = {"name": name, **pod["metadata"]}
        check_accepted(pod)


def test_every_object_of_the_operator_is_what_kubernetes_accepts():
    manifests = render("sunkpy", {"image": "registry/sunkpy:1"})
    assert of_kind(manifests, "CustomResourceDefinition").keys() == {"nodesets.sunkpy.dev"}
    for manifest in manifests:
        check_accepted(manifest)
    assert not of_kind(render("sunkpy", {"crds": {"install": False}}), "CustomResourceDefinition")


@pytest.mark.parametrize("values", [{}, FULL])
def test_the_processes_can_read_the_settings_written_for_them(values: dict[str, object]):
    maps = of_kind(render("slurm", values), "ConfigMap") | of_kind(render("sunkpy"), "ConfigMap")
    for name, type_ in (
        ("demo-syncer", SyncerSettings),
        ("demo-scheduler", SchedulerSettings),
        ("demo-accounts", AccountsSettings),
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
        ("slurm", {"slurmConfig": {"cgroup": "disabled", "privateTmp": True}}, "needs slurmConfig.cgroup: auto"),
        ("slurm", {"slurmConfig": {"privateTmp": False, "privatePids": True}}, "needs slurmConfig.privateTmp: auto"),
        ("slurm", {"slurmConfig": {"cgroup": "disabled", "privatePids": True}}, "and slurmConfig.cgroup: auto"),
        ("slurm", {"slurmConfig": {"privateTmp": "maybe"}}, "privateTmp"),
        (
            "slurm",
            _conf("NamespaceType", "namespace/linux"),
            "slurmConfig.conf.NamespaceType: use the value slurmConfig.privatePids",
        ),
        ("slurm", {"partitions": {"low": {"preemptMode": "SUSPEND"}}}, "SUSPEND and GANG start the next job while"),
        (
            "slurm",
            {"partitions": {"low": {"conf": {"preemptmode": "gang"}}}},
            "partitions.low.conf.preemptmode: use the value partitions.<name>.preemptMode",
        ),
        ("slurm", _conf("PreemptMode", ["SUSPEND", "GANG"]), "SUSPEND and GANG start the next job"),
        ("slurm", {"partitions": {"low": {"conf": {"OverSubscribe": "FORCE"}}}}, "cpus of a pod to other jobs"),
        ("slurm", {"partitions": {"low": {"conf": {"oversubscribe": "force:16"}}}}, "cpus of a pod to other jobs"),
        (
            "slurm",
            {"partitions": {"low": {"conf": {"Shared": "FORCE"}}}},
            "partitions.low.conf.Shared: use the key OverSubscribe",
        ),
        ("slurm", _conf("PartitionName", "x"), "slurmConfig.conf.PartitionName: use the value partitions"),
        ("slurm", _conf("ClusterName", "x"), "slurmConfig.conf.ClusterName: use the value clusterName"),
        (
            "slurm",
            _conf("PrologFlags", "Serial"),
            "slurmConfig.conf.PrologFlags: use the value slurmConfig.privateTmp, compute.ssh",
        ),
        ("slurm", _conf("AuthType", "auth/munge"), "slurmConfig.conf.AuthType: the chart sets it"),
        ("slurm", _conf("statesavelocation", "/x"), "slurmConfig.conf.statesavelocation: the chart sets it"),
        (
            "slurm",
            _conf("SelectTypeParameters", "CR_CPU_Memory"),
            "CR_CPU_Memory: the chart sets CR_Core_Memory",
        ),
        ("slurm", _conf("SlurmctldPort", 7000), "slurmConfig.conf.SlurmctldPort: the chart sets it"),
        ("slurm", {"partitions": {"low": {"conf": {"OverSubscribe": '"FORCE"'}}}}, "cpus of a pod to other jobs"),
        ("slurm", _conf("LaunchParameters", '"a # b"'), "/slurmConfig/conf/LaunchParameters"),
        ("slurm", _conf("killwait", 5), "KillWait and killwait are the same key for Slurm"),
        (
            "slurm",
            {"accounting": {"slurmdbd": {"conf": {"StorageHost": "x"}}}},
            "slurmdbd.conf.StorageHost: the chart sets",
        ),
        (
            "slurm",
            {"accounting": {"slurmdbd": {"conf": {"StoragePass": "x"}}}},
            "StoragePass: use the value accounting.database",
        ),
        ("slurm", {"partitions": {"gpu": {"nodeSets": ["h200"]}}}, "there is no NodeSet h200; nodeSets has compute"),
        (
            "slurm",
            {"scheduler": {"defaultPartition": "lwo"}},
            "scheduler.defaultPartition: there is no partition lwo; partitions has high, low",
        ),
        (
            "slurm",
            {"scheduler": {"access": [{"namespaces": ["a"]}, {"namespaces": ["b"], "partitions": ["*", "lwo"]}]}},
            r"scheduler.access\[1\].partitions: there is no partition lwo; partitions has high, low",
        ),
        (
            "slurm",
            {"partitions": {"near": {"nodeSets": ["compute"], "features": ["ib"]}}},
            "partitions.near: set features or nodeSets, not both. With both, a node that matches only one of them",
        ),
        (
            "slurm",
            {"partitions": {"gpulow": {"default": True}}},
            "gpulow and low are default, .*set partitions.gpulow.default",
        ),
        ("slurm", {"hooks": {"markersHostPath": "../tmp"}}, "markersHostPath"),
        ("slurm", {"hooks": {"jobMappingHostPath": "/"}}, "jobMappingHostPath"),
        ("slurm", {"hooks": {"epilogTimeoutSeconds": 9, "longestGraceSeconds": 10}}, "hooks.longestGraceSeconds"),
        ("slurm", {"partitions": {"low": {"conf": {"A": "1\nInclude /etc/shadow"}}}}, "/partitions/low/conf/A"),
        ("slurm", _conf("KillWait", "3 ClusterName=x"), "/slurmConfig/conf/KillWait"),
        ("slurm", _conf("Licenses", "a:1\\"), "/slurmConfig/conf/Licenses"),
        ("sunkpy", {"resyncSecond": 5}, "resyncSecond"),
        ("slurm", {"networkPolicies": {"apiserver": {"cidr": []}}}, "cidr"),
        ("slurm", {"login": {"subjects": [{"kind": "Group"}]}}, "name"),
        ("slurm", {"priorityClasses": {"slurmd": 2_000_000_000}}, "slurmd"),
        ("slurm", {"scheduler": {"name": "a/b"}}, "name"),
        ("slurm", {"scheduler": {"aliases": ["a/b"]}}, "aliases"),
        ("slurm", {"scheduler": {"name": "default-scheduler"}}, "Slurm's own pods"),
        ("slurm", {"scheduler": {"aliases": ["a", "default-scheduler"]}}, "Slurm's own pods"),
        ("slurm", {"scheduler": {"workloads": [SOLVER | {"rolls": []}]}}, "rolls"),
        ("sunkpy", {"image": "r/x y"}, "image"),
        *(
            (
                chart,
                values,
                rf"{key}: the image is of sunkpy 0\.2\.1, but chart {chart} is of 0\.1\.0\. Use an image and a chart "
                rf"of the",
            )
            for chart, key, values in (
                ("sunkpy", "image", {"image": "r.example.com:5000/sunkpy:0.2.1-1a2b"}),
                ("sunkpy", "image", {"image": "r.example.com:5000/sunkpy:0.2.1-1a2b@sha256:3c4d"}),
                ("slurm", "images.sunkpy", {"images": {"sunkpy": "r.example.com:5000/sunkpy:0.2.1"}}),
                ("openldap", "images.sunkpy", {"images": {"sunkpy": "sunkpy:0.2.1"}}),
            )
        ),
        ("sunkpy", {"lock": {"key": "a b"}}, "key"),
        ("sunkpy", {"health": {"sources": ["npd"]}}, "sources"),
        ("sunkpy", {"health": {"signals": {"gpu": {"condition": "GpuFell", "patience": 5}}}}, "patience"),
        ("sunkpy", {"health": {"signals": {"gpu": {"condition": "GpuFell", "cure": "hope"}}}}, "cure"),
        ("sunkpy", {"health": {"signals": {"gpu": {"patienceSeconds": 5}}}}, "gpu"),
        ("sunkpy", {"health": {"signals": {"gpu": {"condition": "GpuFell", "taint": "gpu"}}}}, "gpu"),
        (
            "sunkpy",
            {"health": {"signals": {"gpu": {"label": "gpu"}}}},
            r"health\.signals\.gpu\.bad: list the values of label gpu that mean that the Node is sick",
        ),
        (
            "sunkpy",
            {"health": {"signals": {"gpu": {"condition": "GpuFell", "remedy": "reboot"}}}},
            r"health\.signals\.gpu\.remedy: health\.remedies has no reboot",
        ),
        (
            "sunkpy",
            {
                "health": {
                    "signals": {"kill": {"slurmReason": "Kill", "remedy": "reboot"}},
                    "remedies": {"reboot": {"apiVersion": "v1", "resource": "pods", "manifest": {}}},
                }
            },
            r"health\.signals\.kill\.cure: set clear or reboot, which says how the operator knows that remedy reboot "
            r"has",
        ),
        ("sunkpy", {"health": {"remedies": {"reboot": {"apiVersion": "v1", "resource": "pods"}}}}, "manifest"),
        ("sunkpy", {"networkPolicy": {"enable": True}}, "enable"),
    ],
)
def test_a_wrong_value_is_refused_by_name(chart: str, values: dict[str, object], says: str):
    with pytest.raises(Refused, match=says):
        render(chart, values)


NO_IMAGE = (
    "set this to an image of yours. Only the chart of a release names images; the chart in the repository names none. "
    "`make images PUSH=registry.example.com/sunkpy` builds and pushes all images, and prints these lines for your "
    "values "
    "(docs/tasks/build-images.md)"
)


@pytest.mark.parametrize(
    ("chart", "values", "empty"),
    [
        (
            "slurm",
            {},
            "images.login, images.mariadb, images.slurmctld, images.slurmd, images.slurmdbd, images.slurmrestd, "
            "images.sunkpy",
        ),
        ("slurm", with_images("slurm", {"images": {"slurmd": ""}}), "images.slurmd"),
        ("sunkpy", {}, "image"),
        ("openldap", {}, "images.openldap, images.sunkpy"),
    ],
)
def test_no_image_is_named_for_the_admin(chart: str, values: dict[str, object], empty: str):
    """A name that is forgotten would run whatever its owner pushes there, privileged and with Slurm's key."""
    with pytest.raises(Refused, match=re.escape(f"{empty}: {NO_IMAGE}")):
        run_helm("template", "demo", str(CHARTS / chart), values=values)


@pytest.mark.parametrize(
    "values",
    [
        {"users": {"sssd": {"enabled": True, "existingSecret": "sssd"}}},
        {
            "accounting": {"database": {"external": {"host": "db"}, "existingSecret": "password"}},
            "nodeSets": {"compute": {"image": "r.example.com/slurmd:1"}, "other": {}},
        },
        {
            "accounting": {"enabled": False},
            "login": {"enabled": False},
            "nodeSets": {"compute": {"image": "r.example.com/slurmd:1"}},
        },
    ],
)
def test_an_image_has_to_be_named_if_a_pod_has_it(values: dict[str, object]):
    for name, image in IMAGES["slurm"]["images"].items():
        used = f'"image": "{image}"' in json.dumps(render("slurm", values))
        without = {**values, "images": {name: ""}}
        if used:
            with pytest.raises(Refused, match=f"images.{name}: set this"):
                render("slurm", without)
        else:
            assert render("slurm", without)


@pytest.mark.parametrize(
    "image", ["sunkpy:0.1.7-1a2b", "sunkpy", "r.example.com:5000/sunkpy@sha256:0.2", "sunkpy:main"]
)
def test_an_image_of_the_version_of_the_chart_or_of_none_is_taken(image: str):
    assert render("sunkpy", {"image": image})


@pytest.mark.parametrize("sharing", ["YES", "FORCE:1", "YES:4"])
def test_partitions_may_share_nodes_where_no_pod_shares_its_cpus(sharing: str):
    assert render("slurm", {"partitions": {"low": {"conf": {"OverSubscribe": sharing}}}})


def _lines(values: Mapping[str, object]) -> list[str]:
    return of_kind(render("slurm", values), "ConfigMap")["demo-slurm-config"]["data"]["slurm.conf"].splitlines()


def test_keys_of_slurm_conf_are_merged_with_those_of_the_chart():
    conf = {
        "SchedulerParameters": {"bf_interval": 20, "bf_continue": None, "defer": True, "bf_max_time": False},
        "TopologyParam": {"TopoOptional": False},
        "DebugFlags": [],
        "SlurmctldParameters": ["conmgr_max_connections=2048"],
        "TaskPlugin": "task/affinity",
        "JobSubmitPlugins": ["require_timelimit"],
        "PriorityWeightAge": 2000000,
        "KillWait": None,
        "DisableRootJobs": True,
        "Licenses": {"matlab": 2},
        "LaunchParameters": '"slurmstepd_memlock"',
        "PreemptMode": False,
        "CommunicationParameters": [None, "NoAddrCache"],
    }
    lines = _lines({"slurmConfig": {"conf": conf}})
    assert {
        "SchedulerParameters=batch_sched_delay=0,bf_interval=20,bf_job_part_count_reserve=10,bf_max_job_test=10000,"
        "bf_max_job_user=300,bf_yield_interval=500000,default_queue_depth=1000,defer,max_script_size=1048576,nohold_on_prolog_fail",
        "SlurmctldParameters=conmgr_max_connections=2048,enable_configless",
        "GresTypes=gpu",
        "TaskPlugin=task/affinity,task/cgroup",
        "JobSubmitPlugins=require_timelimit,lua",
        "PriorityWeightAge=2000000",
        "DisableRootJobs=YES",
        "Licenses=matlab=2",
        'LaunchParameters="slurmstepd_memlock"',
        "PreemptMode=OFF",
        "CommunicationParameters=NoAddrCache",
    } <= set(lines)
    assert not [line for line in lines if line.startswith(("KillWait", "TopologyParam", "DebugFlags"))]


def test_limits_of_the_login_pod_stay_there_unless_a_site_wants_them_in_jobs():
    assert "PropagateResourceLimits=NONE" in _lines({})
    assert "PropagateResourceLimits=ALL" in _lines({"slurmConfig": {"conf": {"PropagateResourceLimits": "ALL"}}})
    but = {"PropagateResourceLimits": None, "PropagateResourceLimitsExcept": "MEMLOCK"}
    lines = _lines({"slurmConfig": {"conf": but}})
    assert [line for line in lines if line.startswith("Propagate")] == ["PropagateResourceLimitsExcept=MEMLOCK"]


def test_a_shell_of_salloc_is_on_its_node_unless_a_site_wants_it_in_the_login_pod():
    assert "LaunchParameters=use_interactive_step" in _lines({})
    with_more = {"LaunchParameters": {"slurmstepd_memlock": True}}
    merged = "LaunchParameters=slurmstepd_memlock,use_interactive_step"
    assert merged in _lines({"slurmConfig": {"conf": with_more}})
    without = _lines({"slurmConfig": {"conf": {"LaunchParameters": None}}})
    assert not [line for line in without if line.startswith("LaunchParameters")]


def test_processes_may_outlive_a_kill_for_minutes_and_then_say_where_they_wait():
    own = {"UnkillableStepTimeout": 1800, "UnkillableStepProgram": "/site/unkillable"}
    program = "UnkillableStepProgram=/usr/local/bin/report-unkillable"
    assert {"UnkillableStepTimeout=300", program} <= set(_lines({}))
    assert {f"{key}={value}" for key, value in own.items()} <= set(_lines({"slurmConfig": {"conf": own}}))


def test_slurm_gets_further_files_but_none_of_the_charts_own():
    files = {"topology.yaml": "a: b\n", "acct_gather.conf": "c=d\n"}
    data = of_kind(render("slurm", {"slurmConfig": {"files": files}}), "ConfigMap")["demo-slurm-config"]["data"]
    assert {name: data[name] for name in files} == files
    for name in ("slurm.conf", "slurmdbd.conf", *(set(data) - set(files) - {"job_submit.lua", "plugstack.conf"})):
        with pytest.raises(Refused, match=f"slurmConfig.files: the chart makes {name} itself"):
            render("slurm", {"slurmConfig": {"files": {name: "x"}}})
    for name in ("../passwd", "site_job_submit.lua", "slurm.key"):
        with pytest.raises(Refused, match=f"invalid propertyName '{name}'"):
            render("slurm", {"slurmConfig": {"files": {name: "x"}}})


@pytest.mark.parametrize("cgroup", ["auto", "disabled"])
@pytest.mark.parametrize("name", ["cgroup.conf", "gres.conf", "job_container.conf", "namespace.yaml"])
def test_a_file_that_another_value_decides_is_refused_also_while_the_chart_makes_none(cgroup: str, name: str):
    values = {"slurmConfig": {"cgroup": cgroup, "files": {name: "x"}}}
    with pytest.raises(Refused, match=f"slurmConfig.files: the chart makes {name} itself"):
        render("slurm", values)


def test_slurmctld_runs_a_prolog_of_the_site():
    """start-slurmctld brings what it finds there to /etc/slurm, and makes each script executable."""
    script = "#!/bin/bash\ntrue\n"
    conf = {"PrologSlurmctld": "/etc/slurm/prolog_slurmctld.sh"}
    made = render("slurm", {"slurmConfig": {"conf": conf, "files": {"prolog_slurmctld.sh": script}}})
    data = of_kind(made, "ConfigMap")["demo-slurm-config"]["data"]
    assert "PrologSlurmctld=/etc/slurm/prolog_slurmctld.sh" in data["slurm.conf"].splitlines()
    assert data["prolog_slurmctld.sh"] == script
    pod = of_kind(made, "StatefulSet")["demo-slurmctld"]["spec"]["template"]["spec"]
    (volume,) = [each["name"] for each in pod["volumes"] if each.get("configMap") == {"name": "demo-slurm-config"}]
    assert {"name": volume, "mountPath": "/config", "readOnly": True} in pod["containers"][0]["volumeMounts"]


def test_tasks_begin_with_a_prolog_of_the_site():
    scripts = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "site"},
        "data": {"task.sh": "#!/bin/bash"},
    }
    volume = {"name": "site", "configMap": {"name": "site", "defaultMode": 0o755}}
    mount = {"name": "site", "mountPath": "/site"}
    values = {
        "slurmConfig": {"conf": {"TaskProlog": "/site/task.sh"}},
        "compute": {"volumes": [volume], "volumeMounts": [mount]},
        "extraObjects": [scripts],
    }
    made = render("slurm", values)
    assert "TaskProlog=/site/task.sh" in _lines(values)
    pod = of_kind(made, "NodeSet")["compute"]["spec"]["template"]["spec"]
    assert volume in pod["volumes"]
    assert mount in pod["containers"][0]["volumeMounts"]
    assert of_kind(made, "ConfigMap")["site"]["data"] == scripts["data"]


def test_objects_of_the_site_go_with_the_release():
    one = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "{{ .Release.Name }}-site"},
        "data": {"a": "b"},
    }
    two = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "own"}, "spec": {"ports": [{"port": 1}]}}
    made = render("slurm", {"extraObjects": [one, two]})
    assert of_kind(made, "ConfigMap")["demo-site"]["data"] == {"a": "b"}
    assert of_kind(made, "Service")["own"]["spec"] == {"ports": [{"port": 1}]}


def test_a_partition_has_further_keys():
    conf = {
        "LLN": True,
        "AllowAccounts": ["chem", "phys"],
        "GraceTime": 60,
        "TRESBillingWeights": {"CPU": 1, "Mem": "0.25G"},
    }
    (line,) = [
        line for line in _lines({"partitions": {"high": {"conf": conf}}}) if line.startswith("PartitionName=high")
    ]
    assert line.endswith(" AllowAccounts=chem,phys GraceTime=60 LLN=YES TRESBillingWeights=CPU=1,Mem=0.25G")


def test_slurm_knows_each_gres_that_nodes_have():
    nic, fpga = {"name": "nic", "resource": "rdma/hca"}, {"name": "fpga", "count": 1}
    sets = {"a": {"gres": [nic, fpga]}, "b": {"gres": [nic]}, "c": None}
    assert "GresTypes=gpu,fpga,nic" in _lines({"nodeSets": sets})
    assert "GresTypes=gpu" in _lines({})


@pytest.mark.parametrize("name", ["gpu", "mps", "shard"])
def test_a_gres_that_is_slurms_own_is_refused_before_slurm_knows_it(name: str):
    says = f"nodeSets.a.gres: an entry is called {name}, but none may be called gpu, mps or shard. Describe GPUs in"
    with pytest.raises(Refused, match=re.escape(says)):
        render("slurm", {"nodeSets": {"a": {"gres": [{"name": name, "count": 1}]}}})


def test_a_partition_takes_nodes_by_their_features():
    partitions = {"near": {"features": ["k8s/zone=a", "ib"]}, "high": {"nodeSets": ["h100"]}}
    lines = _lines({"partitions": partitions, "nodeSets": {"h100": {"featureLabels": ["zone"], "weight": 3}}})
    assert [line for line in lines if line.startswith("NodeSet=")] == [
        "NodeSet=h100 Feature=h100",
        "NodeSet=feature_near_0 Feature=k8s/zone=a",
        "NodeSet=feature_near_1 Feature=ib",
    ]
    of = {line.split()[0]: line.split()[1] for line in lines if line.startswith("PartitionName=")}
    assert of["PartitionName=near"] == "Nodes=feature_near_0,feature_near_1"
    assert (of["PartitionName=high"], of["PartitionName=low"]) == ("Nodes=h100", "Nodes=ALL")


def test_the_default_nodeset_is_there_only_where_none_is_named():
    def named(sets: object) -> set[str]:
        return set(of_kind(render("slurm", {"nodeSets": sets}), "NodeSet"))

    assert named({}) == {"compute"}
    assert named({"h100": {}}) == {"h100"}
    assert named({"compute": None}) == set()


def test_no_template_forgets_the_default_nodeset():
    reads = {
        line.strip()
        for file in (CHARTS / "slurm" / "templates").iterdir()
        for line in file.read_text().splitlines()
        if ".Values.nodeSets" in line
    }
    assert reads == {'{{- range $name, $own := .Values.nodeSets | default (dict "compute" dict) }}'}, (
        "ask slurm.nodeSets instead"
    )


def test_markers_lie_on_the_machine_apart_for_each_cluster_and_node():
    spec = of_kind(render("slurm", FULL), "NodeSet")["h100"]["spec"]["template"]["spec"]
    (volume,) = [volume for volume in spec["volumes"] if volume["name"] == "markers"]
    assert volume["hostPath"] == {"path": "/var/lib/sunkpy/research-sk", "type": "DirectoryOrCreate"}
    (mount,) = [mount for mount in spec["containers"][0]["volumeMounts"] if mount["name"] == "markers"]
    assert mount["subPathExpr"] == "$(SUNKPY_KUBE_NODE)"


def _scratch_of(values: Mapping[str, object], nodeset: str = "compute") -> tuple[dict[str, Any], dict[str, str], str]:
    """The volume of a slurmd pod, what of it is mounted where, and the folders that slurmd's start may empty."""
    spec = of_kind(render("slurm", values), "NodeSet")[nodeset]["spec"]["template"]["spec"]
    (volume,) = [volume for volume in spec["volumes"] if volume["name"] == "sunkpy-scratch"]
    mounts = {
        each["mountPath"]: each["subPathExpr"]
        for each in spec["containers"][0]["volumeMounts"]
        if each["name"] == "sunkpy-scratch"
    }
    env = {each["name"]: each.get("value", "") for each in spec["containers"][0]["env"]}
    return {key: value for key, value in volume.items() if key != "name"}, mounts, env["SUNKPY_SCRATCH"]


def test_jobs_write_to_a_volume_that_each_nodeset_may_have_its_own_of():
    machine = {"hostPath": {"path": "/mnt/nvme/slurm", "type": "Directory"}}
    claim = {
        "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "x"}}}
    }
    values = {"clusterName": "sk", "compute": {"scratch": machine}, "nodeSets": {"cpu": {}, "gpu": {"scratch": claim}}}
    own = "research-sk/$(SUNKPY_KUBE_NODE)"
    mounts = {"/tmp": f"{own}/tmp", "/var/tmp": f"{own}/var-tmp", "/var/spool/slurmd": f"{own}/var-spool-slurmd"}
    assert _scratch_of(values, "cpu") == (machine, mounts, "/tmp /var/tmp")
    assert _scratch_of(values, "gpu") == (claim, mounts, "/tmp /var/tmp"), "in place of that of all, not merged with it"
    assert _scratch_of({})[0] == {"emptyDir": {}}, "no sizeLimit: the kubelet would end all jobs of the node"


def test_a_tmp_that_the_site_mounts_itself_stays_and_nothing_empties_it():
    mount = {"name": "site", "mountPath": "/tmp"}
    compute = {"volumes": [{"name": "site", "hostPath": {"path": "/mnt/tmp"}}], "volumeMounts": [mount]}
    _, mounts, emptied = _scratch_of({"compute": compute})
    assert (set(mounts), emptied) == ({"/var/tmp", "/var/spool/slurmd"}, "/var/tmp")


def test_the_jobs_of_gpus_lie_where_dcgm_exporter_reads_them_if_somebody_wants_that():
    def folders(values):
        spec = of_kind(render("slurm", values), "NodeSet")["compute"]["spec"]["template"]["spec"]
        mounts = {each["name"]: each["mountPath"] for each in spec["containers"][0]["volumeMounts"]}
        found = {volume["name"]: volume.get("hostPath") for volume in spec["volumes"]}
        return found.get("gpu-jobs"), mounts.get("gpu-jobs")

    folder = "/var/lib/dcgm-exporter/job-mapping"
    there = ({"path": folder, "type": "DirectoryOrCreate"}, "/var/lib/sunkpy/gpu-jobs")
    assert folders({"hooks": {"jobMappingHostPath": folder}}) == there
    assert folders({}) == (None, None)


def test_daemons_that_start_themselves_anew_are_called_by_their_full_path():
    scripts = ROOT / "slurm-images" / "bin"
    stay = {scripts / "start-mariadb", scripts / "start-openldap"}
    keeps = {scripts / "start-slurmd"}  # by keep-slurmd
    assert "slurmd=${SUNKPY_SLURMD:-/usr/sbin/slurmd}" in (scripts / "keep-slurmd").read_text()
    for script in set(scripts.glob("start-*")) - stay - keeps:
        daemon = script.name.removeprefix("start-")
        called = re.findall(rf"^(?!#).*?(\S*{daemon}) -", script.read_text(), re.MULTILINE)
        assert set(called) == {f"/usr/sbin/{daemon}"}, script


@pytest.mark.parametrize("chart", ["slurm", "sunkpy"])
def test_objects_have_the_label_by_which_doctor_and_support_bundles_find_them(chart: str):
    ours = [each for each in render(chart) if each["kind"] != "CustomResourceDefinition"]
    labels = {(each["kind"], each["metadata"]["name"]): each["metadata"].get("labels", {}) for each in ours}
    assert [key for key, of in labels.items() if of.get("app.kubernetes.io/part-of") != "sunkpy"] == []


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
    values = with_images("slurm", FULL)
    assert run_helm(*args, values=values) == run_helm(*args, values=values)


def test_only_slurmd_is_privileged_and_nothing_that_stays_is_root():
    for kind in ("Deployment", "StatefulSet", "Job"):
        for manifest in (*of_kind(render("slurm"), kind).values(), *of_kind(render("sunkpy"), kind).values()):
            spec = manifest["spec"]["template"]["spec"]
            for container in spec["containers"]:
                context = spec["securityContext"] | container["securityContext"]
                assert not context.get("privileged")
                assert context["runAsNonRoot"] is True
                assert context["readOnlyRootFilesystem"] is True
                assert context["allowPrivilegeEscalation"] is False


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


def _pod_templates(manifests: Sequence[Manifest]) -> dict[str, Mapping[str, object]]:
    """Pod templates of all workloads that stay, by kind and name."""
    kinds = ("Deployment", "StatefulSet", "NodeSet")
    found = [manifest for manifest in manifests if manifest["kind"] in kinds]
    return {f"{m['kind']}/{m['metadata']['name']}": m["spec"]["template"] for m in found}


@pytest.mark.parametrize("chart", ["slurm", "openldap"])
def test_the_version_of_a_commit_is_a_label_that_kubernetes_takes(chart: str, tmp_path: Path):
    # Flux takes charts from Git so; a label holds no plus.
    copy_charts(tmp_path / "charts", version="0.1.0+0123456789ab.1")
    manifests = render_folder(tmp_path / "charts" / chart, with_images(chart))
    assert {manifest["metadata"]["labels"]["helm.sh/chart"] for manifest in manifests} == {
        f"{chart}-0.1.0_0123456789ab.1"
    }


@pytest.mark.parametrize(
    ("values", "restarted"),
    [
        ({"partitions": {"night": {"priorityTier": 5}}}, {"slurmctld", "slurmrestd"}),
        ({"hooks": {"epilogTimeoutSeconds": 7}}, {"slurmctld", "slurmrestd", "scheduler"}),
        ({"syncer": {"pollSeconds": 7}}, {"syncer"}),
        ({"scheduler": {"pollSeconds": 7}}, {"scheduler"}),
    ],
)
def test_a_changed_value_restarts_those_who_read_it(values: dict[str, object], restarted: set[str]):
    before, after = _pod_templates(render("slurm")), _pod_templates(render("slurm", values))
    assert {name.rpartition("-")[2] for name in before if before[name] != after[name]} == restarted


CORDONED = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}
CONTROL_PLANE = ("slurmctld", "slurmrestd", "syncer", "scheduler", "operator")


def _control_plane(values: dict[str, object] | None = None) -> dict[str, Mapping[str, object]]:
    """Pod specs by part; the operator is of the other chart."""
    templates = _pod_templates(render("slurm", values)) | _pod_templates(render("sunkpy"))
    by_part = {name.rpartition("-")[2]: template["spec"] for name, template in templates.items()}
    return {part: by_part[part] for part in CONTROL_PLANE}


def _leaves_after_s(spec: Mapping[str, object], taint: str) -> list[int | None]:
    key = f"node.kubernetes.io/{taint}"
    return [entry.get("tolerationSeconds") for entry in spec["tolerations"] if entry.get("key") == key]


def test_when_every_node_is_cordoned_the_control_plane_still_finds_a_place():
    own = {"key": "dedicated", "operator": "Exists"}
    for values in ({}, {part: {"tolerations": [own]} for part in CONTROL_PLANE[:-1]}):
        for part, spec in _control_plane(values).items():
            assert CORDONED in spec["tolerations"], part
            assert part == "operator" or not values or own in spec["tolerations"]


@pytest.mark.parametrize("taint", ["not-ready", "unreachable"])
def test_all_but_slurmctld_leave_a_dead_node_soon_and_values_can_say_when(taint: str):
    seconds = {part: _leaves_after_s(spec, taint) for part, spec in _control_plane().items()}
    assert seconds == {part: [] if part == "slurmctld" else [60] for part in CONTROL_PLANE}
    longer = {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "tolerationSeconds": 900}
    assert _leaves_after_s(_control_plane({"syncer": {"tolerations": [longer]}})["syncer"], taint) == [900]


def test_slurmd_pods_are_the_last_to_give_way_and_take_nobodys_place():
    manifests = render("slurm")
    classes = of_kind(manifests, "PriorityClass") | of_kind(render("sunkpy"), "PriorityClass")
    slurmd = of_kind(manifests, "NodeSet")["compute"]["spec"]["template"]["spec"]["priorityClassName"]
    assert classes[slurmd]["preemptionPolicy"] == "Never"
    for part, spec in _control_plane().items():
        assert classes[spec["priorityClassName"]]["value"] > classes[slurmd]["value"] > 1_000_000, part


def test_a_class_can_be_chosen_for_a_part_or_none_made():
    chosen = {"compute": {"priorityClassName": "batch"}, "syncer": {"priorityClassName": "high"}}
    templates = _pod_templates(render("slurm", chosen))
    assert templates["NodeSet/compute"]["spec"]["priorityClassName"] == "batch"
    assert templates["Deployment/demo-syncer"]["spec"]["priorityClassName"] == "high"
    none = {"priorityClasses": {"create": False}}
    assert not of_kind(render("slurm", none), "PriorityClass")
    assert not [
        name for name, pod in _pod_templates(render("slurm", none)).items() if "priorityClassName" in pod["spec"]
    ]
    assert not of_kind(render("sunkpy", {"priorityClass": {"create": False}}), "PriorityClass")


def test_no_job_of_an_install_waits_for_a_class_that_is_not_there_yet():
    for name, job in of_kind(render("slurm"), "Job").items():
        assert "priorityClassName" not in job["spec"]["template"]["spec"], name


def _claim(release: str, values: dict[str, object] | None = None) -> set[str]:
    """Cluster-wide objects of a release that only one release can have because of the scheduler's name."""
    names = of_kind(render("slurm", values, release=release), "ClusterRole")
    return {name for name in names if "scheduler-name" in name}


def test_two_schedulers_of_one_name_claim_one_object_so_that_helm_refuses_the_second():
    assert _claim("alpha") == {"sunkpy:scheduler-name:alpha"}
    assert _claim("beta", {"scheduler": {"name": "alpha"}}) == _claim("alpha")
    assert _claim("beta") != _claim("alpha")
    assert _claim("alpha", {"scheduler": {"enabled": False}}) == set()


def test_an_alias_is_claimed_as_the_name_is_and_reaches_the_scheduler():
    values = {"scheduler": {"aliases": ["sunk-scheduler", "alpha"]}}
    assert _claim("alpha", values) == {"sunkpy:scheduler-name:alpha", "sunkpy:scheduler-name:sunk-scheduler"}
    assert _scheduler_settings(values).scheduler_names == ("demo", "sunk-scheduler", "alpha")


@pytest.mark.parametrize(("values", "is_tried"), [({}, True), ({"immediateAllocation": False}, False)])
def test_allocations_are_tried_unless_values_say_otherwise(values: dict[str, object], is_tried: bool):
    assert _scheduler_settings({"scheduler": values}).immediate_allocation is is_tried


@pytest.mark.parametrize(
    ("values", "growing"),
    [
        ({}, []),
        ({"nodeSets": {"gpu": {"growth": {"potential": 9, "ask": "auto"}}}}, ["all", "both", "gpu"]),
        ({"nodeSets": {"gpu": {"growth": {"potential": 9}}}}, []),
        ({"nodeSets": {"gpu": {"growth": {"potential": 9, "ask": "none"}}}}, []),
    ],
)
def test_the_scheduler_knows_the_partitions_for_which_autoscalers_are_asked(values: dict[str, Any], growing: list[str]):
    sets = {"all": {}, "cpu": {"nodeSets": ["cpu"]}, "gpu": {"nodeSets": ["gpu"]}, "both": {"nodeSets": ["cpu", "gpu"]}}
    nodesets = {"cpu": {}, "gpu": {}} | values.get("nodeSets", {})
    known = {"nodeSets": nodesets, "partitions": sets} | {key: each for key, each in values.items() if key == "syncer"}
    found = _scheduler_settings(known).growing_partitions
    assert [name for name in found if name in sets] == growing


@pytest.mark.parametrize(("values", "sharing"), [({}, "exclusive"), ({"gpuSharing": "count"}, "count")])
def test_gpus_are_shared_by_number_only_where_values_say_so(values: dict[str, object], sharing: str):
    assert _scheduler_settings({"scheduler": values}).gpu_sharing == sharing


def test_claims_are_read_and_written_only_where_values_map_their_classes():
    values: dict[str, object] = {"scheduler": {"deviceClasses": {"gpu.example.com": "gpu"}}}
    rights = {
        (resource, verb)
        for rule in of_kind(render("slurm", values), "ClusterRole")["sunkpy:scheduler-name:demo"]["rules"]
        if rule["apiGroups"] == ["resource.k8s.io"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    kinds = ("resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses")
    writes = {("resourceclaims", "patch"), ("resourceclaims/status", "patch"), ("resourceclaims/binding", "patch")}
    assert rights == {(kind, verb) for kind in kinds for verb in ("list", "watch")} | writes | {
        ("resourceclaims/binding", "update"),
        ("resourceclaims", "create"),
        ("resourceclaims", "get"),
    }
    assert _scheduler_settings(values).device_classes == {"gpu.example.com": "gpu"}
    assert _scheduler_settings({}).device_classes == {}
    assert "resource.k8s.io" not in str(of_kind(render("slurm"), "ClusterRole"))


def test_kubelets_are_asked_for_their_gates_with_a_token_that_opens_nothing_else():
    manifests = render("slurm", {"scheduler": {"deviceClasses": {"gpu.example.com": "gpu"}}})
    account, role = "demo-kubelets", "sunkpy:research-demo-kubelets"
    assert of_kind(manifests, "ClusterRole")[role]["rules"] == [
        {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]}
    ]
    assert of_kind(manifests, "ClusterRoleBinding")[role]["subjects"] == [
        {"kind": "ServiceAccount", "name": account, "namespace": "research"}
    ]
    own = {"apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": [account], "verbs": ["create"]}
    assert own in of_kind(manifests, "Role")["demo-scheduler"]["rules"]
    assert account in of_kind(manifests, "ServiceAccount")
    assert account not in of_kind(render("slurm"), "ServiceAccount")


def test_the_label_that_means_one_switch_reaches_the_scheduler():
    label = "topology.example.com/leaf"
    assert _scheduler_settings({"scheduler": {"switchLabel": label}}).switch_label == label


def test_how_large_a_gang_may_be_and_where_daemons_need_no_job():
    assert _scheduler_settings({}).daemon_set_namespaces == ("kube-system",)
    settings = _scheduler_settings({"scheduler": {"largestGang": 9, "daemonSetNamespaces": []}})
    assert (settings.largest_gang, settings.daemon_set_namespaces) == (9, ())


@pytest.mark.parametrize(
    ("values", "most"),
    [
        ({}, 5000),
        ({"slurmConfig": {"conf": {"MaxJobCount": 200000}}}, 100000),
        ({"slurmConfig": {"conf": {"MaxJobCount": None}}, "scheduler": {"namespaceShare": 20}}, 2000),
        ({"scheduler": {"namespaceShare": 100}}, 0),
    ],
)
def test_how_many_of_slurms_jobs_one_namespace_may_make(values, most):
    assert _scheduler_settings(values).jobs_per_namespace == most


def _scheduler_settings(values: dict[str, object]) -> SchedulerSettings:
    text = of_kind(render("slurm", values), "ConfigMap")["demo-scheduler"]["data"]["config.yaml"]
    return msgspec.yaml.decode(text, type=SchedulerSettings)


def test_every_kind_that_a_family_reads_may_be_read():
    rules = of_kind(render("slurm"), "ClusterRole")["sunkpy:scheduler-name:demo"]["rules"]
    readable = {(group, name) for rule in rules for group in rule["apiGroups"] for name in rule["resources"]}
    needed = {(kind.group, f"{kind.kind.lower()}s") for kind in kinds_read(FAMILIES)}
    assert needed <= readable


def test_a_kind_that_an_administrator_describes_reaches_the_scheduler_and_may_be_read():
    rule = {"apiGroups": ["sim.example.com"], "resources": ["solvers"], "verbs": ["get", "list", "watch"]}
    values = {"scheduler": {"workloads": [SOLVER], "extraRules": [rule]}}
    assert [each.name for each in _scheduler_settings(values).workloads] == ["solver"]
    assert rule in of_kind(render("slurm", values), "ClusterRole")["sunkpy:scheduler-name:demo"]["rules"]


def test_a_rollback_is_checked_as_an_upgrade_is_and_asks_the_slurmctld_that_runs():
    manifests = render("slurm")
    job = of_kind(manifests, "Job")["demo-check"]
    slurmd = of_kind(manifests, "Job")["demo-check-compute"]
    given = [of_kind(manifests, "ConfigMap")[f"demo-check-{daemon}"] for daemon in ("slurmctld", "slurmdbd")]
    hooks = [each["metadata"]["annotations"]["helm.sh/hook"] for each in (job, slurmd, *given)]
    assert hooks == ["pre-install,pre-upgrade,pre-rollback"] * 4
    containers = job["spec"]["template"]["spec"]["containers"]
    mounts = {each["name"]: {mount["mountPath"] for mount in each["volumeMounts"]} for each in containers}
    with_key = [name for name, paths in mounts.items() if "/keys" in paths]
    assert with_key == ["slurmctld"]


ALL = ("slurmctld", "slurmdbd", "slurmrestd", "slurmd", "login")
ASKED = {"slurmdbd": ["slurmdbd"], "slurmctld": ["slurmctld"], "login": ["login", "images.login", "/home"]}
"""The arguments of each daemon when it reads its files."""
ORDER = {"slurmdbd": ["slurmdbd", ""]} | {
    name: [name, "slurmdbd" if name == "slurmctld" else "slurmctld"] for name in ALL if name != "slurmdbd"
}
"""Which is not later than which."""


def _checks(values: Mapping[str, object]) -> dict[str, Mapping[str, Any]]:
    """The pods that check, by Job."""
    jobs = of_kind(render("slurm", values), "Job").items()
    return {name: job["spec"]["template"]["spec"] for name, job in jobs if name.startswith("demo-check")}


def _split(command: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words before the script that makes a daemon read its files, and the script's arguments."""
    words = [word for word in command if "\n" not in word]
    if "/config/check-config" not in words:
        return words, []
    at = words.index("/config/check-config")
    assert words[at - 1] == "bash"
    return words[: at - 1], words[at + 1 :]


@pytest.mark.parametrize(
    ("login", "suites", "ordered"),
    [
        (True, {}, []),
        (False, {"login": "sid"}, []),
        (True, {"slurmd": "sid-1a2b"}, ALL),
        (True, dict.fromkeys(ALL, "sid-1a2b@sha256:abc") | {"slurmd": "sid-1a2b"}, []),
        (False, {"slurmd": "sid-1a2b"}, [name for name in ALL if name != "login"]),
        (True, dict.fromkeys(ALL, "trixie-1a2b@sha256:abc") | {"slurmd": "sid-1a2b@sha256:abc"}, ALL),
    ],
)
def test_images_of_several_suites_that_are_used_say_of_what_release_they_are(login, suites, ordered):
    images = {name: f"r.example.com:5000/sunkpy/{name}:{suite}" for name, suite in suites.items()}
    pods = _checks({"images": images, "login": {"enabled": login}})
    containers = [each for each in pods["demo-check"]["containers"] if each["name"] != "domain"]
    asked = {each["name"]: _split(each["command"]) for each in containers}
    of_bash = ["bash", "-euc", "check-order"]
    assert {name: words for name, (words, _) in asked.items() if words} == {
        name: [*of_bash, *ORDER[name]] for name in ordered
    }
    assert {name: told for name, (_, told) in asked.items() if told} == {
        name: told for name, told in ASKED.items() if login or name != "login"
    }


def test_each_image_of_slurmd_reads_the_new_files_once_where_its_nodes_are():
    values = {
        "images": {"slurmd": "r.example.com/slurmd:1"},
        "nodeSets": {
            "cpu": {},
            "more": {"nodeSelector": {"pool": "more"}},
            "gpu": {
                "image": "r.example.com/cuda:1",
                "nodeSelector": {"kubernetes.io/arch": "arm64", "pool": "gpu"},
                "tolerations": [{"key": "gpu", "operator": "Exists"}],
                "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
                "volumeMounts": [{"name": "opt", "mountPath": "/opt/site"}],
            },
        },
        "sharedFolders": {"/scratch": {"nfs": {"server": "nas", "path": "/s"}}},
    }
    pods = _checks(values)
    assert set(pods) == {"demo-check", "demo-check-cpu", "demo-check-gpu"}
    (cpu,), (gpu,) = (pods[f"demo-check-{name}"]["containers"] for name in ("cpu", "gpu"))
    assert (cpu["image"], gpu["image"]) == ("r.example.com/slurmd:1", "r.example.com/cuda:1")
    assert _split(cpu["command"]) == ([], ["slurmd", "images.slurmd", "/home", "/scratch"])
    assert _split(gpu["command"]) == ([], ["slurmd", "nodeSets.gpu.image", "/home", "/opt/site", "/scratch"])
    assert gpu["env"] == [{"name": "A", "value": "1"}], "what it may lack before an install is not asked for"
    pod = pods["demo-check-gpu"]
    assert pod["nodeSelector"] == {"kubernetes.io/arch": "arm64"}, "it runs, wherever there is room"
    assert {"key": "gpu", "operator": "Exists"} in pod["tolerations"]
    ((preferred,),) = [
        pod["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"],
    ]
    assert {each["key"]: each["values"] for each in preferred["preference"]["matchExpressions"]} == {
        "kubernetes.io/arch": ["arm64"],
        "pool": ["gpu"],
    }
    assert {volume["name"] for volume in pod["volumes"]} == {"slurmctld", "scratch"}, "it has no key"


def test_scripts_around_jobs_are_checked_as_they_will_be():
    """Those that the release makes, the new ones; others as they are, if they are there before an install."""
    made = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "{{ .Release.Name }}-site"},
        "data": {"1": "x"},
    }
    values = {"hooks": {"prologConfigMap": "demo-site", "epilogConfigMap": "own"}, "extraObjects": [made]}
    pod = _checks(values)["demo-check-compute"]
    given = {each["name"]: each["configMap"] for each in pod["volumes"] if each["name"] in ("prolog", "epilog")}
    assert given == {
        "prolog": {"name": "demo-check-prolog", "optional": True},
        "epilog": {"name": "own", "optional": True},
    }
    mounts = {each["name"]: each["mountPath"] for each in pod["containers"][0]["volumeMounts"]}
    assert {name: mounts[name] for name in given} == {name: f"/etc/sunkpy/site/{name}.d" for name in given}
    new = of_kind(render("slurm", values), "ConfigMap")["demo-check-prolog"]
    assert (new["data"], "helm.sh/hook" in new["metadata"]["annotations"]) == ({"1": "x"}, True)


def test_images_of_other_login_pods_are_asked_too():
    pods = _checks({"login": {"sets": {"viz": {"image": "r.example.com/viz:1"}, "plain": {}}}})
    asked = {each["name"]: (each["image"], _split(each["command"])[1]) for each in pods["demo-check"]["containers"]}
    assert asked["login-viz"] == ("r.example.com/viz:1", ["login", "login.sets.viz.image", "/home"])
    assert set(asked) == {"slurmctld", "slurmdbd", "login", "login-viz", "domain"}


@pytest.mark.parametrize(("kinds", "told"), [((), True), (("helm.toolkit.fluxcd.io/v2",), False)])
def test_helm_tells_what_slurm_says_but_flux_is_not_asked_to_and_would_crash(kinds, told):
    args = ("template", "demo", str(CHARTS / "slurm"), "--show-only", "templates/check.yaml")
    text = run_helm(*args, *(f"--api-versions={kind}" for kind in kinds), values=IMAGES["slurm"])
    assert ("helm.sh/hook-output-log-policy: hook-failed" in text) == told


def test_two_descriptions_of_one_name_are_refused():
    with pytest.raises(msgspec.ValidationError, match="two have the name solver"):
        _scheduler_settings({"scheduler": {"workloads": [SOLVER, SOLVER]}})


@pytest.mark.parametrize(
    ("keys", "password", "made"),
    [
        ({}, "", {"--slurm-secret=demo-slurm-key", "--jwt-secret=demo-jwt-key", "--database-secret=demo-database"}),
        ({"existingSlurmSecret": "mine"}, "mine", {"--jwt-secret=demo-jwt-key"}),
        ({"existingJwtSecret": "mine"}, "mine", {"--slurm-secret=demo-slurm-key"}),
        ({"existingSlurmSecret": "a", "existingJwtSecret": "b"}, "", {"--database-secret=demo-database"}),
    ],
)
def test_a_key_that_somebody_brings_is_never_made(keys: dict[str, str], password: str, made: set[str]):
    values = {"keys": keys, "accounting": {"database": {"existingSecret": password}}}
    (container,) = of_kind(render("slurm", values), "Job")["demo-keys"]["spec"]["template"]["spec"]["containers"]
    assert {arg for arg in container["args"] if "secret" in arg} == made


def test_each_daemon_and_the_check_have_all_keys_of_the_secret_that_somebody_brings():
    """slurm.key, or slurm.jwks while it is replaced."""
    manifests = render("slurm", {"keys": {"existingSlurmSecret": "ours"}})
    having = {}
    for each in manifests:
        for volume in each.get("spec", {}).get("template", {}).get("spec", {}).get("volumes", []):
            sources = volume.get("projected", {}).get("sources", [volume])
            for secret in (source.get("secret", {}) for source in sources):
                if "ours" in (secret.get("secretName"), secret.get("name")):
                    having[each["metadata"]["name"]] = secret.get("items")
    daemons = ("compute", "demo-slurmctld", "demo-slurmdbd", "demo-login", "demo-check")
    assert having == dict.fromkeys(daemons), "whole"


def test_who_brings_all_keys_needs_no_job_for_them():
    assert "demo-keys" not in of_kind(render("slurm", OWN_KEYS), "Job")


@pytest.mark.parametrize("waits", [True, False])
def test_an_uninstall_always_takes_the_nodesets_away_first(waits: bool):
    manifests = render("slurm", {"uninstall": {"waitForJobs": waits}})
    job = of_kind(manifests, "Job")["demo-uninstall"]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-delete"
    assert ("--end-jobs" in job["spec"]["template"]["spec"]["containers"][0]["args"]) is not waits
    verbs = {verb for rule in of_kind(manifests, "Role")["demo-uninstall"]["rules"] for verb in rule["verbs"]}
    assert ("patch" in verbs) is not waits


def test_slurm_conf_says_what_the_values_say():
    conf = of_kind(render("slurm", FULL), "ConfigMap")["demo-slurm-config"]["data"]["slurm.conf"].splitlines()
    assert {
        "ClusterName=sk",
        "SlurmctldHost=demo-slurmctld-0(demo-slurmctld)",
        "NodeSet=h100 Feature=h100",
        "PartitionName=gpu Nodes=h100 PriorityTier=1 Default=YES MaxTime=1-00:00:00",
        "SchedulerParameters=batch_sched_delay=0,bf_continue,bf_interval=30,bf_job_part_count_reserve=10,"
        "bf_max_job_test=10000,bf_max_job_user=300,bf_max_time=300,bf_yield_interval=500000,default_queue_depth=1000,"
        "defer,max_script_size=1048576,nohold_on_prolog_fail",
        "ProctrackType=proctrack/cgroup",
        "MaxJobCount=50000",
    } <= set(conf)


def test_jobs_are_held_to_what_slurm_gave_them_unless_the_values_say_otherwise():
    def config(values):
        data = of_kind(render("slurm", values), "ConfigMap")["demo-slurm-config"]["data"]
        plugins = ("ProctrackType=", "TaskPlugin=", "JobAcctGatherType=")
        lines = dict(line.split("=", 1) for line in data["slurm.conf"].splitlines() if line.startswith(plugins))
        return [lines[name.rstrip("=")] for name in plugins], data["cgroup.conf"].splitlines()

    plugins, cgroup = config({})
    assert plugins == ["proctrack/cgroup", "task/cgroup", "jobacct_gather/cgroup"]
    limits = ("ConstrainCores=yes", "ConstrainRAMSpace=yes", "ConstrainDevices=yes")
    assert cgroup == ["CgroupPlugin=autodetect", "IgnoreSystemd=yes", *limits]
    wanted = {"cgroup": "disabled", "conf": {"TaskPlugin": "task/affinity"}}
    assert config({"slurmConfig": wanted})[0][1] == "task/affinity"
    plugins, cgroup = config({"slurmConfig": {"cgroup": "disabled"}})
    assert plugins == ["proctrack/linuxproc", "task/none", "jobacct_gather/linux"]
    assert cgroup == ["CgroupPlugin=disabled"]


@pytest.mark.parametrize("ssh", [True, False])
@pytest.mark.parametrize(
    ("values", "why_not"),
    [
        ({}, None),
        ({"privateTmp": True}, None),
        ({"privateTmp": False}, "slurmConfig.privateTmp: false"),
        ({"cgroup": "disabled"}, "slurmConfig.cgroup: disabled"),
        ({"cgroup": "disabled", "privateTmp": False}, "slurmConfig.cgroup: disabled"),
    ],
)
def test_jobs_have_a_tmp_of_their_own_where_slurm_can_and_values_do_not_say_otherwise(values, why_not, ssh):
    is_private = why_not is None
    people = {"ann": {"uid": 2001, "sshKeys": ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKey ann"]}}
    values = {"slurmConfig": values, "users": {"people": people}, "compute": {"ssh": {"enabled": ssh}}}
    made = render("slurm", values)
    data = of_kind(made, "ConfigMap")["demo-slurm-config"]["data"]
    lines = data["slurm.conf"].splitlines()
    assert ("JobContainerType=job_container/tmpfs" in lines) is is_private
    assert ("PrologFlags=Alloc,Contain" in lines) is (is_private or ssh)
    # What a pod began with stays: it says for itself, and not what slurmctld sends meanwhile.
    assert (data.get("job_container.conf", "").strip() == "Include /etc/slurm/private.conf") is is_private
    assert ("private.conf" in data) is is_private
    for nodeset in of_kind(made, "NodeSet").values():
        (slurmd,) = nodeset["spec"]["template"]["spec"]["containers"]
        assert ({"name": "SUNKPY_PRIVATE_TMP", "value": "1"} in slurmd["env"]) is is_private
        assert ("/usr/local/bin/hold-namespaces" in slurmd.get("command", ())) is is_private
        assert nodeset["metadata"].get("annotations", {}).get(names.ANNOTATION_SHARED_TMP) == why_not


@pytest.mark.parametrize(
    ("values", "why_not"),
    [
        ({}, "slurmConfig.privatePids: false"),
        ({"privateTmp": False}, "slurmConfig.privatePids: false"),
        ({"cgroup": "disabled"}, "slurmConfig.cgroup: disabled"),
        ({"privatePids": True}, None),
    ],
)
def test_nodesets_know_why_their_jobs_share_process_ids(values: dict[str, object], why_not: str | None):
    for nodeset in of_kind(render("slurm", {"slurmConfig": values}), "NodeSet").values():
        assert nodeset["metadata"].get("annotations", {}).get(names.ANNOTATION_SHARED_PIDS) == why_not


def test_jobs_have_process_ids_of_their_own_where_the_values_say_so():
    data = of_kind(render("slurm", {"slurmConfig": {"privatePids": True}}), "ConfigMap")["demo-slurm-config"]["data"]
    assert {"NamespaceType=namespace/linux", "PrologFlags=Alloc,Contain"} <= set(data["slurm.conf"].splitlines())
    namespaces = yaml.safe_load(data["namespace.yaml"])["defaults"]
    assert namespaces["base_path"] == "/var/spool/slurmd/private"
    assert namespaces["clone_ns_flags"] == ["CLONE_NEWPID"]
    assert namespaces["clone_ns_script"] == "/etc/sunkpy/size-shm", "start-slurmd writes it: compute.shm"
    assert "JobContainerType" not in data["slurm.conf"]
    assert "job_container.conf" not in data


def test_people_see_no_processes_of_others_unless_values_say_otherwise():
    sets = {"cpu": {}, "debug": {"hideProcesses": False}}
    made = of_kind(render("slurm", {"nodeSets": sets}), "NodeSet")
    found = {}
    for name, nodeset in made.items():
        assert "hideProcesses" not in nodeset["spec"]
        env = nodeset["spec"]["template"]["spec"]["containers"][0]["env"]
        found[name] = any(each["name"] == "SUNKPY_HIDE_PROCESSES" for each in env)
    assert found == {"cpu": True, "debug": False}


def test_shared_memory_is_half_of_the_memory_unless_values_say_otherwise():
    sets = {"cpu": {}, "gpu": {"shm": "90%"}, "small": {"shm": "2g"}}
    made = of_kind(render("slurm", {"nodeSets": sets}), "NodeSet")
    found = {}
    for name, nodeset in made.items():
        assert "shm" not in nodeset["spec"]
        env = nodeset["spec"]["template"]["spec"]["containers"][0]["env"]
        found[name] = next(each["value"] for each in env if each["name"] == "SUNKPY_SHM")
    assert found == {"cpu": "50%", "gpu": "90%", "small": "2g"}
    for wrong in ("0%", "101%", "50 %", "2GiB", "50%,mode=0", ""):
        with pytest.raises(Refused, match="shm"):
            render("slurm", {"compute": {"shm": wrong}})


def test_slurm_is_told_of_its_size():
    size = {"MaxNodeCount": 10000, "MaxJobCount": 100000, "TreeWidth": 250, "MessageTimeout": 60}
    manifests = render("slurm", {"slurmConfig": {"conf": size}, "slurmrestd": {"threads": 40, "maxConnections": 200}})
    conf = of_kind(manifests, "ConfigMap")["demo-slurm-config"]["data"]["slurm.conf"].splitlines()
    assert {"MaxNodeCount=10000", "MaxJobCount=100000", "TreeWidth=250", "MessageTimeout=60"} <= set(conf)
    slurmrestd = of_kind(manifests, "Deployment")["demo-slurmrestd"]["spec"]["template"]["spec"]["containers"][0]
    assert slurmrestd["args"] == ["-t", "40", "--max-connections", "200"]
    assert {"name": "MALLOC_ARENA_MAX", "value": "2"} in slurmrestd["env"]


def test_a_batch_job_can_be_launched_after_the_longest_prolog():
    hooks = {"epilogTimeoutSeconds": 1000, "prologTimeoutSeconds": 100}
    data = of_kind(render("slurm", {"hooks": hooks}), "ConfigMap")["demo-slurm-config"]["data"]
    assert "AuthInfo=use_client_ids,ttl=1160" in data["slurm.conf"].splitlines()


def test_the_scheduler_knows_the_address_that_the_hooks_call():
    made = render("slurm")
    config = of_kind(made, "ConfigMap")["demo-scheduler"]["data"]["config.yaml"]
    (nodeset,) = of_kind(made, "NodeSet").values()
    (slurmd, *_) = nodeset["spec"]["template"]["spec"]["containers"]
    called = {each["name"]: each.get("value") for each in slurmd["env"]}["SUNKPY_HOOKS_URL"]
    assert msgspec.yaml.decode(config, type=SchedulerSettings).hooks.url == called == "http://demo-hooks:8000"


def test_no_pod_is_given_longer_to_end_than_an_epilog_waits():
    hooks = {"epilogTimeoutSeconds": 100, "longestGraceSeconds": 50}
    config = of_kind(render("slurm", {"hooks": hooks}), "ConfigMap")["demo-scheduler"]["data"]["config.yaml"]
    assert msgspec.yaml.decode(config, type=SchedulerSettings).hooks.longest_grace_s == 50


@pytest.mark.parametrize(("epilog_s", "most_s"), [(3600, 3570), (61, 31), (60, 30), (59, 29), (9, 4), (2, 1)])
def test_the_longest_grace_leaves_the_kubelet_time_before_the_epilog_gives_up(epilog_s: int, most_s: int):
    says = f"hooks.longestGraceSeconds: {most_s + 1} is too long.*Set at most {most_s}, or .*to at least {most_s + 31}"
    with pytest.raises(Refused, match=says):
        render("slurm", {"hooks": {"epilogTimeoutSeconds": epilog_s, "longestGraceSeconds": most_s + 1}})
    with pytest.raises(ValueError, match=says.removeprefix("hooks.")):
        HooksSettings(epilog_timeout_seconds=epilog_s, longest_grace_seconds=most_s + 1)
    hooks = {"epilogTimeoutSeconds": epilog_s, "longestGraceSeconds": most_s}
    config = of_kind(render("slurm", {"hooks": hooks}), "ConfigMap")["demo-scheduler"]["data"]["config.yaml"]
    assert msgspec.yaml.decode(config, type=SchedulerSettings).hooks.longest_grace_s == most_s


@pytest.mark.parametrize(("epilog_s", "given_s"), [(3600, 300), (300, 270), (100, 70), (9, 4), (2, 1)])
def test_a_grace_that_nobody_set_is_minutes_and_leaves_the_kubelet_time_as_well(epilog_s: int, given_s: int):
    assert HooksSettings(epilog_timeout_seconds=epilog_s).longest_grace_s == given_s
    config = of_kind(render("slurm", {"hooks": {"epilogTimeoutSeconds": epilog_s}}), "ConfigMap")["demo-scheduler"]
    given = msgspec.yaml.decode(config["data"]["config.yaml"], type=SchedulerSettings).hooks
    assert given.longest_grace_s == given_s


def test_neither_map_nor_partition_gives_longer_than_an_epilog_waits():
    access = [{"namespaces": ["a"]}, {"namespaces": ["b"], "longestGraceSeconds": 3571}]
    says = r"scheduler.access\[1\].longestGraceSeconds: 3571 is too long.*Set at most 3570, or .*to at least 3601"
    with pytest.raises(Refused, match=says):
        render("slurm", {"scheduler": {"access": access}})
    slurm = SlurmSettings(url="http://x", jwt_key_file="k")
    with pytest.raises(ValueError, match="longestGraceSeconds: 3571 is too long"):
        SchedulerSettings(cluster="c", slurm=slurm, access=(AccessRule(longest_grace_seconds=3571),))
    low = {"low": {"longestGraceSeconds": 3571}}
    with pytest.raises(Refused, match=r"partitions.low.longestGraceSeconds: 3571 is too long"):
        render("slurm", {"partitions": low})
    with pytest.raises(ValueError, match="longestGraceSeconds: 3571 is too long"):
        HooksSettings(longest_grace_seconds_in={"low": 3571})
    low["low"]["longestGraceSeconds"] = 60
    config = of_kind(render("slurm", {"partitions": low}), "ConfigMap")["demo-scheduler"]["data"]["config.yaml"]
    hooks = msgspec.yaml.decode(config, type=SchedulerSettings).hooks
    assert hooks.longest_grace_seconds_in == {"low": 60}
    access[1]["longestGraceSeconds"] = 3570
    config = of_kind(render("slurm", {"scheduler": {"access": access}}), "ConfigMap")["demo-scheduler"]
    _, rule = msgspec.yaml.decode(config["data"]["config.yaml"], type=SchedulerSettings).access
    assert rule.longest_grace_seconds == 3570


def test_an_epilog_that_waits_for_nothing_is_refused():
    with pytest.raises(Refused, match="epilogTimeoutSeconds"):
        render("slurm", {"hooks": {"epilogTimeoutSeconds": 1}})
    with pytest.raises(ValueError, match="epilogTimeoutSeconds: no pod ends within 1 s: set 2 at least"):
        HooksSettings(epilog_timeout_seconds=1)


@pytest.mark.parametrize("name", ["prolog.sh", "epilog.sh"])
def test_the_hook_scripts_are_clean(name: str, tmp_path: Path):
    script = tmp_path / name
    script.write_text(of_kind(render("slurm"), "ConfigMap")["demo-slurm-config"]["data"][name])
    _shellcheck(script)


def test_the_entry_points_are_clean():
    scripts = sorted((ROOT / "slurm-images" / "bin").iterdir())
    of_bash = [script for script in scripts if not script.read_text().startswith("#!/usr/bin/perl\n")]
    _shellcheck("--shell=bash", CHARTS / "slurm/files/check-order.sh", CHARTS / "slurm/files/check-config.sh")
    _shellcheck("--shell=bash", CHARTS / "slurm/files/load_topology.sh", CHARTS / "slurm/files/name-host.sh")
    _shellcheck("--shell=bash", CHARTS / "slurm/files/keep_potential.sh")
    _shellcheck(
        *of_bash, ROOT / "tools" / "bootstrap", ROOT / ".ci" / "run", *(ROOT / "docs" / "examples").glob("*.sh")
    )


def _shellcheck(*scripts: Path | str) -> None:
    program = Path(sys.executable).with_name("shellcheck")
    done = subprocess.run([program, *scripts], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_pods_get_the_default_partition_and_what_the_admins_map_opens():
    rule = {"namespaces": ["chem"], "namespaceLabels": {"team": "chem"}, "partitions": ["low"]}
    config = _scheduler_settings({"scheduler": {"access": [rule]}})
    assert config.default_partition == "low"
    assert config.access == (AccessRule(namespaces=("chem",), namespace_labels={"team": "chem"}, partitions=("low",)),)
    assert _scheduler_settings({}).access == ()


def _scheduler_settings(values: dict[str, object]) -> SchedulerSettings:
    text = of_kind(render("slurm", values), "ConfigMap")["demo-scheduler"]["data"]["config.yaml"]
    return msgspec.yaml.decode(text, type=SchedulerSettings)


def test_partitions_and_sets_of_nodes_change_nothing_that_start_slurmctld_tells_nodes_of():
    def read(values: Mapping[str, object]) -> set[str]:
        data = of_kind(render("slurm", values), "ConfigMap")["demo-slurm-config"]["data"]
        return {line for name, text in data.items() if name.endswith((".conf", ".sh")) for line in text.splitlines()}

    low = {"nodeSets": ["h100"], "maxTime": 60, "preemptMode": "REQUEUE", "longestGraceSeconds": 60}
    changed = read({"nodeSets": {"h100": {"replicas": 3}}, "partitions": {"low": low, "new": None}}) ^ read({})
    assert {line.partition("=")[0] for line in changed} == {"NodeSet", "PartitionName"}


def test_a_partition_without_values_has_those_that_are_given_to_all():
    data = of_kind(render("slurm", {"partitions": {"new": None}}), "ConfigMap")["demo-slurm-config"]["data"]
    assert "PartitionName=new Nodes=ALL PriorityTier=1" in data["slurm.conf"].splitlines()


def test_what_holds_data_is_neither_uninstalled_nor_pruned():
    """Argo CD heeds helm's `keep` when an Application is removed, and not when its values drop an object."""
    kept = {
        "helm.sh/resource-policy": "keep",
        "argocd.argoproj.io/sync-options": "Prune=false",
    }
    crd = of_kind(render("sunkpy"), "CustomResourceDefinition")["nodesets.sunkpy.dev"]
    claims = of_kind(render("slurm"), "PersistentVolumeClaim")
    assert claims.keys() == {"demo-home", "demo-backup", "demo-state-backup"}
    for each in (crd, *claims.values()):
        assert kept.items() <= each["metadata"]["annotations"].items()


@pytest.mark.parametrize("chart", ["sunkpy", "slurm", "openldap"])
def test_a_packaged_chart_renders_as_its_folder(chart: str, tmp_path: Path):
    """As it comes from a registry: links of the folder have become files."""
    subprocess.run([helm(), "package", str(CHARTS / chart), "-d", str(tmp_path)], check=True, capture_output=True)
    (package,) = tmp_path.iterdir()
    given = with_images(chart, {"networkPolicy": {"namespaces": ["slurm"]}} if chart == "openldap" else {})
    packaged = run_helm("template", "demo", str(package), values=given)
    assert "kind: " in packaged
    assert packaged == run_helm("template", "demo", str(CHARTS / chart), values=given)


@pytest.mark.parametrize("part", ["slurmctld", "mariadb"])
def test_a_second_pod_of_what_there_can_only_be_one_of_answers_nobody(part: str):
    """`kubectl scale --replicas=2`: it has a volume of its own, and would be asked each second time."""
    services = of_kind(render("slurm"), "Service")
    assert services[f"demo-{part}"]["spec"]["selector"]["statefulset.kubernetes.io/pod-name"] == f"demo-{part}-0"
