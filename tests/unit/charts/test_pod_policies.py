"""The policies for pods, that none skips the queue by naming its node and none loses the note of its binding: whom they
are for, and where they are left out.
"""

import json
import re

import pytest

from sunkpy.core import names
from tests.unit.charts.rendering import of_kind, render

NODE_NAMES = "research-demo-node-names"
JOB_NOTES = "research-demo-job-notes"
BOTH = pytest.mark.parametrize("name", [NODE_NAMES, JOB_NOTES])


def policy(name, /, **scheduler):
    return of_kind(render("slurm", {"scheduler": scheduler}), "ValidatingAdmissionPolicy").get(name)


@BOTH
@pytest.mark.parametrize(
    ("scheduler", "expected"),
    [({}, ["demo"]), ({"name": "slurm-a", "aliases": ["slurm-b", "slurm-a"]}, ["slurm-a", "slurm-b"])],
)
def test_it_is_for_pods_that_name_this_scheduler_by_any_of_its_names(name, scheduler, expected):
    expression = policy(name, **scheduler)["spec"]["matchConditions"][0]["expression"]
    (listed,) = re.findall(r"in (\[.*?\])", expression)
    assert json.loads(listed) == expected


@pytest.mark.parametrize(
    ("name", "operations", "resources"),
    [(NODE_NAMES, ["CREATE"], ["pods"]), (JOB_NOTES, ["UPDATE"], ["pods", "pods/status"])],
)
def test_it_refuses_and_asks_for_a_right_that_kubernetes_has(name, operations, resources):
    spec = policy(name)["spec"]
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert (spec["failurePolicy"], rule["operations"], rule["resources"]) == ("Fail", operations, resources)
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
    ("name", "scheduler"),
    [
        (NODE_NAMES, {"enabled": False}),
        (JOB_NOTES, {"enabled": False}),
        (NODE_NAMES, {"protectNodeNames": False}),
        (JOB_NOTES, {"protectJobNotes": False}),
    ],
)
def test_without_a_scheduler_or_where_a_site_does_it_otherwise_it_is_left_out(name, scheduler):
    assert policy(name, **scheduler) is None
