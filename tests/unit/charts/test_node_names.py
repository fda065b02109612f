"""The policy that nobody skips the queue by naming a node: whom it is for, and where it is left out."""

import json
import re

import pytest

from tests.unit.charts.rendering import of_kind, render

NAME = "research-demo-node-names"


def policy(**scheduler):
    return of_kind(render("slurm", {"scheduler": scheduler}), "ValidatingAdmissionPolicy").get(NAME)


@pytest.mark.parametrize(
    ("scheduler", "names"),
    [({}, ["demo"]), ({"name": "slurm-a", "aliases": ["slurm-b", "slurm-a"]}, ["slurm-a", "slurm-b"])],
)
def test_it_is_for_pods_that_name_this_scheduler_by_any_of_its_names(scheduler, names):
    expression = policy(**scheduler)["spec"]["matchConditions"][0]["expression"]
    (listed,) = re.findall(r"\[.*?\]", expression)
    assert json.loads(listed) == names


def test_it_refuses_and_asks_for_a_right_that_kubernetes_has():
    spec = policy()["spec"]
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert (spec["failurePolicy"], rule["operations"], rule["resources"]) == ("Fail", ["CREATE"], ["pods"])
    assert "subresource('binding')" in spec["validations"][0]["expression"]
    binding = of_kind(render("slurm"), "ValidatingAdmissionPolicyBinding")[NAME]
    assert binding["spec"] == {"policyName": NAME, "validationActions": ["Deny"]}


@pytest.mark.parametrize("scheduler", [{"enabled": False}, {"protectNodeNames": False}])
def test_without_a_scheduler_or_where_a_site_does_it_otherwise_it_is_left_out(scheduler):
    assert policy(**scheduler) is None
