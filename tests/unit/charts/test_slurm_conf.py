"""Each key of slurm.conf is classed in one table, and what it refuses is refused by name, with the reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.unit.charts.rendering import CHARTS, ROOT, Refused, of_kind, render

TABLE: Final[Mapping[str, Mapping[str, Mapping[str, Any]]]] = yaml.safe_load(
    (CHARTS / "slurm/files/slurm-conf.yaml").read_text()
)
CLASSES: Final = ("ours", "taken", "needs", "refused")
KEYS: Final = {
    file.stem: yaml.safe_load(file.read_text()) for file in Path(__file__).parent.glob("slurm_conf_keys/*.yaml")
}
CONF: Final = "slurmConfig.conf"
PARTITIONS: Final = "partitions.<name>.conf"
POWER: Final = "a Slurm node is a pod: nothing of Slurm can power or reboot its machine. Drain the node in Kubernetes"
LOG: Final = "kubectl logs shows the log. In a file of the pod, nobody would see it or remove old lines"


def _classed(section: str) -> Counter[str]:
    return Counter(key for name in CLASSES for key in TABLE[section].get(name, {}))


@pytest.mark.parametrize("section", [CONF, PARTITIONS])
@pytest.mark.parametrize("release", ["24.11", "26.05"])
def test_no_key_of_a_release_is_unclassed(release: str, section: str):
    assert set(KEYS[release][section]) - set(_classed(section)) == set()


@pytest.mark.parametrize("section", [CONF, PARTITIONS])
def test_no_key_is_in_two_classes(section: str):
    assert [key for key, times in Counter(map(str.lower, _classed(section))).items() if times > 1] == []
    assert set(TABLE[section]) <= {*CLASSES, "values"}
    taken = {key for name in ("taken", "needs") for key in TABLE[section][name]}
    assert set(TABLE[section].get("values", {})) <= taken


def test_what_the_chart_writes_is_its_own():
    """What values could set, too, would stand there twice."""
    files = {CONF: "slurm-fixed.conf.tpl", "accounting.slurmdbd.conf": "slurmdbd-fixed.conf.tpl"}
    for section, name in files.items():
        written = set(re.findall(r"(?m)^([A-Za-z]+)=", (CHARTS / "slurm/files" / name).read_text()))
        assert written - set(TABLE[section]["ours"]) == set()


def test_what_values_set_by_default_is_taken():
    values = yaml.safe_load((CHARTS / "slurm/values.yaml").read_text())
    assert set(values["slurmConfig"]["conf"]) - {*TABLE[CONF]["taken"], *TABLE[CONF]["needs"]} == set()


def _refused(values: Mapping[str, object]) -> str:
    with pytest.raises(Refused) as refused:
        render("slurm", values)
    return str(refused.value)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("RebootProgram", "/usr/sbin/reboot", POWER),
        ("SuspendProgram", "/usr/sbin/poweroff", POWER),
        ("ResumeProgram", "/usr/sbin/poweron", POWER),
        ("suspendtime", 300, POWER),
        ("SlurmdLogFile", "/var/log/slurmd.log", LOG),
        ("SlurmctldLogFile", "/var/log/slurmctld.log", LOG),
        ("SlurmdSyslogDebug", "info", "there is no syslog in a pod"),
        ("FastSchedule", 1, "Slurm no longer knows it"),
        ("InactiveLimit", 60, "slurmctld would end the jobs of pods, which have no steps"),
        ("JobCompPass", "x", "everybody on a node can read slurm.conf"),
        ("PlugStackConfig", "/etc/plugstack.conf", "use the value slurmConfig.files, with the file plugstack.conf"),
        (
            "GresTypes",
            ["gpu", "nic"],
            "use the value nodeSets.<name>.gpu for GPUs, or nodeSets.<name>.gres for other things that Slurm",
        ),
        (
            "PrologEpilogTimeout",
            60,
            "use the value hooks.prologTimeoutSeconds and hooks.epilogTimeoutSeconds: Slurm's own",
        ),
        ("TLSType", "tls/s2n", "the parts of sunkpy speak to Slurm without TLS"),
        ("MpiDefault", "cray_shasta", "cray_shasta: it is for the launcher of Cray's own systems, and srun would fail"),
        ("PrivateData", ["usage", "nodes"], "nodes: user k8s, who asks Slurm for pods, would see no node"),
        ("PrivateData", "all", "all: user k8s, who asks Slurm for pods, would see no node"),
        ("TopologyPlugin", "topology/block", "a topology is missing: add topology.conf or topology.yaml to"),
        (
            "CliFilterPlugins",
            "cli_filter/lua",
            "lua needs a script, without which no srun, sbatch or salloc starts: add cli_filter.lua to slurmConfig.fi",
        ),
    ],
)
def test_what_would_do_nothing_or_harm_is_refused_by_name(key: str, value: object, says: str):
    assert f"slurmConfig.conf.{key}: {says}" in _refused({"slurmConfig": {"conf": {key: value}}})


@pytest.mark.parametrize(
    ("given", "sockets"),
    [
        ({}, None),
        ({"SlurmdParameters": "contain_spank"}, None),
        ({"SlurmdParameters": ["l3cache_as_socket"]}, "l3cache_as_socket"),
        ({"slurmdparameters": "contain_spank,numa_node_as_socket"}, "numa_node_as_socket"),
    ],
)
def test_what_counts_as_a_socket_is_asked_by_a_new_slurmd(given: dict[str, object], sockets: str | None):
    """It says of itself how many it has, once, when it starts."""
    objects = list(render("slurm", {"slurmConfig": {"conf": given}}))
    (nodeset,) = (each for each in objects if each["kind"] == "NodeSet")
    annotations = nodeset["spec"]["template"]["metadata"].get("annotations", {})
    assert annotations.get("checksum/sockets") == sockets


@pytest.mark.parametrize(
    ("cgroup", "given", "says"),
    [
        ("auto", {}, None),
        ("auto", {"TaskPluginParam": "Verbose"}, "Verbose"),
        ("disabled", {}, "SlurmdOffSpec"),
        ("disabled", {"TaskPluginParam": "Verbose"}, "Verbose,SlurmdOffSpec"),
    ],
)
def test_without_cgroups_jobs_do_not_inherit_the_cores_that_are_kept_for_slurmd(
    cgroup: str, given: dict[str, object], says: str | None
):
    """slurmd binds itself to these by its affinity, and its jobs have that of slurmd."""
    objects = render("slurm", {"slurmConfig": {"cgroup": cgroup, "conf": given}})
    (conf,) = (
        each["data"]["slurm.conf"]
        for each in objects
        if each["kind"] == "ConfigMap" and each["metadata"]["name"] == "demo-slurm-config"
    )
    lines = [line.partition("=")[2] for line in conf.splitlines() if line.startswith("TaskPluginParam=")]
    assert lines == ([says] if says else [])


def test_lines_around_tasks_are_a_prolog_that_slurmctld_sends():
    hooks = {"hooks": {"taskProlog": "echo export A=b\n", "taskEpilog": "rm -f /tmp/x\n"}}
    data = of_kind(render("slurm", hooks), "ConfigMap")["demo-slurm-config"]["data"]
    path = "/run/slurm/conf/task_hooks.sh"
    lines = [line for line in data["slurm.conf"].splitlines() if "rolog=" in line or "pilog=" in line]
    wanted = [
        "Prolog=prolog.sh",
        "Epilog=epilog.sh",
        "Prolog=task_hooks.sh",
        f"TaskEpilog={path}",
        f"TaskProlog={path}",
    ]
    assert lines == wanted
    assert data["task_hooks.sh"].splitlines()[:2] == [
        "#!/bin/bash",
        "[[ ${SLURM_SCRIPT_CONTEXT:-} == *_task ]] || exit 0",
    ]
    only = {"hooks": {"taskEpilog": "true"}}
    assert "TaskProlog=" not in of_kind(render("slurm", only), "ConfigMap")["demo-slurm-config"]["data"]["slurm.conf"]
    assert "task_hooks" not in str(of_kind(render("slurm"), "ConfigMap")["demo-slurm-config"])
    twice = {**hooks, "slurmConfig": {"conf": {"TaskProlog": "/opt/site/ours.sh"}}}
    assert "hooks.taskProlog: slurmConfig.conf.TaskProlog is set, too: leave out one of the two" in _refused(twice)


def test_jobs_may_be_hidden_beside_owners_of_pods():
    """The scheduler reads as who sees all."""
    hidden = {"slurmConfig": {"conf": {"PrivateData": ["usage", "jobs"]}}}
    users = {"scheduler": {"access": [{"namespaces": ["chem"], "users": ["ann", "bob"]}]}}
    render("slurm", hidden | users)


def test_a_filter_of_the_site_comes_with_its_script():
    script = "function slurm_cli_setup_defaults(options, early) return slurm.SUCCESS end\n"
    site = {"conf": {"CliFilterPlugins": "cli_filter/lua"}, "files": {"cli_filter.lua": script}}
    (data,) = (
        each["data"]
        for each in render("slurm", {"slurmConfig": site})
        if each["kind"] == "ConfigMap" and each["metadata"]["name"] == "demo-slurm-config"
    )
    assert data["cli_filter.lua"] == script
    assert "CliFilterPlugins=cli_filter/lua\n" in data["slurm.conf"]


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("SuspendTime", POWER),
        ("SelectTypeParameters", "Slurm has to count pods in cores and memory, in all partitions"),
    ],
)
def test_keys_of_a_partition_are_refused_as_well(key: str, says: str):
    assert f"partitions.low.conf.{key}: {says}" in _refused({"partitions": {"low": {"conf": {key: "x"}}}})


def test_the_page_has_every_key():
    page = (ROOT / "docs/reference/slurm-conf.md").read_text()
    assert [key for section in (CONF, PARTITIONS) for key in _classed(section) if f"| `{key}` |" not in page] == []
