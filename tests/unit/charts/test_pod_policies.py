"""The policies for pods, that none skips the queue by naming its node, loses the note of its binding or leaves its
containers behind: whom they are for, and where they are left out.
"""

import json
import re

import pytest
import yaml

from sunkpy.core import names
from sunkpy.core.gang.job.ends import END_CONDITIONS
from sunkpy.scheduler.pods.writer import POD_SCHEDULED
from tests.unit.charts.rendering import Refused, of_kind, render

NODE_NAMES = "research-demo-node-names"
JOB_NOTES = "research-demo-job-notes"
FORCED = "research-demo-forced-deletion"
GRACE = "research-demo-grace"
TOKEN = "research-demo-scheduler-token"
EACH = pytest.mark.parametrize("name", [NODE_NAMES, JOB_NOTES, FORCED, GRACE])


def policy(name, /, **scheduler):
    return of_kind(render("slurm", {"scheduler": scheduler}), "ValidatingAdmissionPolicy").get(name)


@EACH
@pytest.mark.parametrize(
    ("scheduler", "expected"),
    [({}, ["demo"]), ({"name": "slurm-a", "aliases": ["slurm-b", "slurm-a"]}, ["slurm-a", "slurm-b"])],
)
def test_it_is_for_pods_that_name_this_scheduler_by_any_of_its_names(name, scheduler, expected):
    conditions = policy(name, **scheduler)["spec"]["matchConditions"]
    (of_pods,) = (each["expression"] for each in conditions if "schedulerName" in each["expression"])
    (listed,) = re.findall(r"schedulerName.orValue\(''\) in (\[.*?\])", of_pods)
    assert json.loads(listed) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (NODE_NAMES, {"CREATE pods", "UPDATE pods/resize"}),
        (JOB_NOTES, {"UPDATE pods", "UPDATE pods/status"}),
        (FORCED, {"DELETE pods", "CREATE pods/eviction"}),
        (GRACE, {"CREATE pods"}),
    ],
)
def test_it_refuses_and_asks_for_a_right_that_kubernetes_has(name, expected):
    spec = policy(name)["spec"]
    rules = spec["matchConstraints"]["resourceRules"]
    found = {f"{operation} {what}" for rule in rules for operation in rule["operations"] for what in rule["resources"]}
    assert (spec["failurePolicy"], found) == ("Fail", expected)
    assert "subresource('binding')" in spec["validations"][0]["expression"]
    binding = of_kind(render("slurm"), "ValidatingAdmissionPolicyBinding")[name]
    assert binding["spec"] == {"policyName": name, "validationActions": ["Deny"]}


def test_it_keeps_all_that_a_leader_reads_in_the_note_of_a_binding():
    spec = policy(JOB_NOTES)["spec"]
    expression = spec["matchConditions"][1]["expression"]
    of_each = (
        f"oldObject.metadata.?annotations[?'{name}'] != object.metadata.?annotations[?'{name}']"
        for name in names.BINDING_NOTE
    )
    assert " ".join(expression.split()) == " || ".join(of_each)
    said = spec["validations"][0]["message"]
    assert ", ".join(names.BINDING_NOTE).replace(", sunkpy.dev/", ", ") in said


@pytest.mark.parametrize(
    ("values", "most_s"),
    [
        ({}, 300),
        ({"hooks": {"longestGraceSeconds": 60}}, 60),
        ({"partitions": {"slow": {"longestGraceSeconds": 900}}}, 900),
        ({"scheduler": {"access": [{"namespaces": ["chem"], "longestGraceSeconds": 1200}]}}, 1200),
    ],
)
def test_a_pod_asks_for_no_more_time_than_any_eviction_gives(values, most_s):
    spec = of_kind(render("slurm", values), "ValidatingAdmissionPolicy")[GRACE]["spec"]
    expression = spec["matchConditions"][0]["expression"]
    assert f"terminationGracePeriodSeconds.orValue(30) > {most_s}" in expression
    assert "terminationGracePeriodSeconds.orValue(30) == 0" in expression
    assert f"that of the pod and of its probes may be at most {most_s}, because" in spec["validations"][0]["message"]


@pytest.mark.parametrize(("longest_s", "given_s"), [(0, 300), (60, 60), (1200, 1200)])
def test_nobody_is_given_more_time_than_the_scheduler_would_give(longest_s, given_s):
    policies = of_kind(render("slurm", {"hooks": {"longestGraceSeconds": longest_s}}), "ValidatingAdmissionPolicy")
    (validation,) = policies[FORCED]["spec"]["validations"]
    assert f"with a grace period of more than {given_s} s" in validation["message"]


@pytest.mark.parametrize(
    ("name", "scheduler"),
    [
        (NODE_NAMES, {"enabled": False}),
        (JOB_NOTES, {"enabled": False}),
        (FORCED, {"enabled": False}),
        (FORCED, {"protectForcedDeletion": False}),
        (GRACE, {"enabled": False}),
        (GRACE, {"boundGrace": False}),
        (TOKEN, {"enabled": False}),
        (TOKEN, {"boundToken": False}),
        (NODE_NAMES, {"protectNodeNames": False}),
        (JOB_NOTES, {"protectJobNotes": False}),
    ],
)
def test_without_a_scheduler_or_where_a_site_does_it_otherwise_it_is_left_out(name, scheduler):
    assert policy(name, **scheduler) is None


def test_it_holds_the_account_that_the_scheduler_has():
    spec = of_kind(render("slurm"), "Deployment")["demo-scheduler"]["spec"]["template"]["spec"]
    account = f"system:serviceaccount:research:{spec['serviceAccountName']}"
    (condition,) = policy(TOKEN)["spec"]["matchConditions"]
    assert condition["expression"] == f"request.userInfo.username == '{account}'"


def test_it_covers_all_that_the_scheduler_may_write_but_what_harms_nobody():
    """Events and reviews of tokens; its Lease is another Role."""
    manifests = render("slurm", {"scheduler": {"deviceClasses": {"gpu.example.com": "gpu"}}})
    rules = of_kind(manifests, "ClusterRole")["sunkpy:scheduler-name:demo"]["rules"]
    # A right without an object.
    assert written(rules) - covered(policy(TOKEN)) == {"events", "tokenreviews", "resourceclaims/binding"}


def test_the_operators_token_is_held_as_well():
    manifests = render("sunkpy")
    spec = of_kind(manifests, "Deployment")["demo-operator"]["spec"]["template"]["spec"]
    bound = of_kind(manifests, "ValidatingAdmissionPolicy")["research-demo-operator-token"]
    (condition,) = bound["spec"]["matchConditions"]
    account = f"system:serviceaccount:research:{spec['serviceAccountName']}"
    assert condition["expression"] == f"request.userInfo.username == '{account}'"
    rules = of_kind(manifests, "ClusterRole")["research:demo-operator"]["rules"]
    assert written(rules) - covered(bound) == {"events", "nodesets/status", "nodesets/finalizers"}
    assert "nodeSetNamespaces" not in json.dumps(bound), "any namespace, unless some are named"
    policies = of_kind(render("sunkpy", {"boundToken": False}), "ValidatingAdmissionPolicy")
    assert set(policies) == {"research-demo-operator-slurmd-pods", "research-demo-operator-critical-pods"}


@pytest.mark.parametrize(
    ("values", "actions"),
    [
        ({}, ["Warn", "Audit"]),
        ({"nodeSetNamespaces": ["slurm"]}, ["Warn", "Audit"]),
        ({"criticalNamespaces": ["gpu-operator"]}, ["Deny"]),
        ({"restrictCriticalPods": True}, ["Deny"]),
        ({"restrictCriticalPods": "warn", "criticalNamespaces": ["gpu-operator"]}, ["Warn", "Audit"]),
        ({"restrictCriticalPods": False}, None),
    ],
)
def test_a_system_class_is_refused_only_where_an_admin_has_looked_at_who_has_one(values, actions):
    """Otherwise daemons of other operators would be refused months after the installation, when they are made again."""
    bindings = of_kind(render("sunkpy", values), "ValidatingAdmissionPolicyBinding")
    found = bindings.get("research-demo-operator-critical-pods", {}).get("spec", {}).get("validationActions")
    assert found == actions


@pytest.mark.parametrize(
    ("lock", "key", "values"),
    [
        ({"allowedNamespaces": ["monitoring"]}, "", None),
        ({"enabled": True}, "sunkpy.dev/lock", None),
        (
            {"enabled": True, "key": "example.com/busy", "allowedNamespaces": ["monitoring"]},
            "example.com/busy",
            ["kube-system", "monitoring", "research", "slurm"],
        ),
    ],
)
def test_a_lock_is_off_by_default_and_tolerated_by_the_namespaces_that_are_listed(lock, key, values):
    manifests = render("sunkpy", {"lock": lock, "nodeSetNamespaces": ["slurm"]})
    config = yaml.safe_load(of_kind(manifests, "ConfigMap")["demo-operator"]["data"]["config.yaml"])
    assert config["lock"] == {"key": key, "dryRun": False}
    found = of_kind(manifests, "ValidatingAdmissionPolicy").get("research-demo-operator-lock")
    assert (found is None) is (values is None)
    if found is not None:
        (outside,) = found["spec"]["matchConstraints"]["namespaceSelector"]["matchExpressions"]
        assert (outside["operator"], outside["values"]) == ("NotIn", values)
        assert f"!= '{key}'" in found["spec"]["validations"][0]["expression"]


def test_the_namespaces_of_chart_slurm_are_named_where_few_may_tolerate_the_lock():
    says = "lock.allowedNamespaces needs nodeSetNamespaces: name the namespaces of chart slurm there"
    with pytest.raises(Refused, match=says):
        render("sunkpy", {"lock": {"enabled": True, "allowedNamespaces": ["monitoring"]}})


def written(rules):
    """Resources that a role may write."""
    verbs = {"create", "update", "patch", "delete", "deletecollection"}
    return {what for rule in rules if verbs & set(rule["verbs"]) for what in rule["resources"]}


def covered(bound):
    """Resources that a policy looks at."""
    return {what for rule in bound["spec"]["matchConstraints"]["resourceRules"] for what in rule["resources"]}


def test_the_tokens_may_write_the_conditions_that_are_written():
    of_nodes = of_kind(render("sunkpy"), "ValidatingAdmissionPolicy")["research-demo-operator-token"]
    assert conditions_of(of_nodes) == set(names.SLURM_CONDITIONS)
    assert conditions_of(policy(TOKEN)) == {POD_SCHEDULED, *END_CONDITIONS}


def conditions_of(bound):
    """Types of conditions that a policy lets its account write."""
    (listed,) = re.findall(r"condition.type in (\[.*?\])", json.dumps(bound["spec"]["validations"]))
    return set(re.findall(r"'([\w./]+)'", listed))


HOMES = "research-demo-homes"
NAS = {"nfs": {"server": "nas.example.com", "path": "/home"}}


BY_DRIVER = {"csi": {"driver": "nfs.csi.k8s.io", "volumeAttributes": {"server": "NAS", "share": "/data"}}}
NAMED = {"protect": {"servers": ["10.0.0.9"]}}


@pytest.mark.parametrize(
    ("home", "folders", "servers"),
    [
        ({}, {}, None),
        ({"existingClaim": "home"}, {}, None),
        ({"volume": {"hostPath": {"path": "/home"}}}, {}, None),
        ({"volume": NAS}, {}, ["nas.example.com"]),
        ({"volume": NAS, "protect": {"enabled": False}}, {}, None),
        ({"existingClaim": "home", **NAMED}, {}, ["10.0.0.9"]),
        ({"storageClass": "nfs", **NAMED}, {}, ["10.0.0.9"]),
        ({"existingClaim": "home"}, {"/data": NAS, "/scratch": {"hostPath": {"path": "/s"}}}, ["nas.example.com"]),
        ({"volume": NAS, **NAMED}, {"/data": NAS, "/s": BY_DRIVER}, ["10.0.0.9", "nas", "nas.example.com"]),
        ({"protect": {"servers": ["*"]}}, {"/data": NAS}, ["nas.example.com"]),
    ],
)
def test_the_servers_of_homes_and_shared_folders_are_protected_as_far_as_values_name_them(home, folders, servers):
    manifests = render("slurm", {"home": home, "sharedFolders": folders})
    assert (HOMES in of_kind(manifests, "ValidatingAdmissionPolicyBinding")) is (servers is not None)
    found = of_kind(manifests, "ValidatingAdmissionPolicy").get(HOMES)
    if servers is None:
        assert found is None
        return
    variables = {each["name"]: each["expression"] for each in found["spec"]["variables"]}
    assert json.loads(variables["servers"]) == servers
    assert variables["every"] == str("*" in home.get("protect", {}).get("servers", [])).lower()
