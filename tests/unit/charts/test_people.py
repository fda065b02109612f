"""Whose the pods of a namespace are: what slurmctld gets for it, and that no namespace claims it by itself."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.gang.access import AccessRule
from sunkpy.scheduler.settings import SchedulerSettings
from tests.unit.charts.rendering import Manifest, Refused, of_kind, render
from tests.unit.docs.source import ROOT

PEOPLE = {"scheduler": {"access": [{"namespaces": ["chem"], "users": ["ann", "b.o-b@corp"]}]}}
ANNOTATED = {"scheduler": {"annotatedAccess": True}}
LABELLED = {"scheduler": {"access": [{"namespaceLabels": {"team": "ml", "kubernetes.io/metadata.name": "x"}}]}}
WHERE_IT_STANDS = ["namespaces", "namespaces/status", "namespaces/finalize"]
POLICY = "research-demo-namespace-access"


def config(values: Mapping[str, object]) -> Mapping[str, str]:
    return of_kind(render("slurm", values), "ConfigMap")["demo-slurm-config"]["data"]


def policy(values: Mapping[str, object]) -> Manifest | None:
    return of_kind(render("slurm", values), "ValidatingAdmissionPolicy").get(POLICY)


def guarded(values: Mapping[str, object]) -> dict[str, list[str]]:
    found = policy(values)
    assert found is not None
    variables = {each["name"]: each["expression"] for each in found["spec"]["variables"]}
    return {name: json.loads(variables[name]) for name in ("annotations", "labels", "names")}


@pytest.mark.parametrize("values", [{}, {"scheduler": {"enabled": False}}])
def test_slurmctld_asks_the_script_so_that_nobody_makes_a_job_that_looks_like_one_of_pods(values):
    """Its node would wait for the scheduler. Without one, jobs with GPUs still get their share by it."""
    data = config(values)
    assert "\nJobSubmitPlugins=lua\n" in data["slurm.conf"]
    assert data["job_submit.lua"].strip() == (ROOT / "charts/slurm/files/job_submit.lua").read_text().strip()


@pytest.mark.parametrize("wanted", ["require_timelimit", ["require_timelimit", "lua"]])
def test_plugins_of_the_site_stand_beside_it(wanted):
    conf = config({"slurmConfig": {"conf": {"JobSubmitPlugins": wanted}}})["slurm.conf"]
    assert re.findall("(?im)^jobsubmitplugins.*", conf) == ["JobSubmitPlugins=require_timelimit,lua"]


def test_the_scheduler_gets_the_map():
    text = of_kind(render("slurm", PEOPLE), "ConfigMap")["demo-scheduler"]["data"]["config.yaml"]
    settings = msgspec.yaml.decode(text, type=SchedulerSettings)
    assert settings.access == (AccessRule(namespaces=("chem",), users=("ann", "b.o-b@corp")),)
    assert (settings.submits_as_people, settings.reads_namespaces) == (True, False)


@pytest.mark.parametrize(
    "name", ["root", "slurm", "nobody", "slurmrestd", "0", "1001", "a b", "$(id)", "", "-x", "a\n", "a,b"]
)
def test_who_is_no_person_is_refused(name):
    with pytest.raises(Refused, match="users"):
        render("slurm", {"scheduler": {"access": [{"namespaces": ["x"], "users": [name]}]}})


def test_what_decides_of_a_namespace_is_set_by_whom_an_administrator_trusts():
    assert policy({}) is None
    ours = [names.PREFIX + kind for kind in ("users", "partitions", "accounts", "qos", "reservations", "licenses")]
    assert guarded(PEOPLE) == {"annotations": [], "labels": [], "names": ["chem"]}
    assert guarded(ANNOTATED) == {"annotations": ours, "labels": [], "names": []}
    # The apiserver itself gives each namespace the label with its name.
    assert guarded(LABELLED) == {"annotations": [], "labels": ["team"], "names": []}
    assert guarded({"scheduler": {"access": [{"namespaces": ["*"]}]}})["names"] == []
    found = policy(PEOPLE)
    assert found is not None
    assert found["spec"]["failurePolicy"] == "Fail"
    (rule,) = found["spec"]["matchConstraints"]["resourceRules"]
    assert (rule["operations"], rule["resources"]) == (["CREATE", "UPDATE"], WHERE_IT_STANDS)
    binding = of_kind(render("slurm", PEOPLE), "ValidatingAdmissionPolicyBinding")[POLICY]
    assert binding["spec"] == {"policyName": POLICY, "validationActions": ["Deny"]}


def test_a_site_that_holds_its_namespaces_otherwise_leaves_the_policy_out():
    assert policy({"scheduler": ANNOTATED["scheduler"] | {"protectNamespaces": False}}) is None


@pytest.mark.parametrize(("values", "may"), [({}, False), (PEOPLE, False), (ANNOTATED, True), (LABELLED, True)])
def test_namespaces_are_read_only_where_they_say_something(values, may):
    rules = of_kind(render("slurm", values), "ClusterRole")["sunkpy:scheduler-name:demo"]["rules"]
    verbs = [rule["verbs"] for rule in rules if rule["resources"] == ["namespaces"]]
    assert verbs == ([["list", "watch"]] if may else [])
