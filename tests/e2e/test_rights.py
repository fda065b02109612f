"""The table of docs/reference/rights.md is what the apiserver answers: nobody has a right more or less."""

from __future__ import annotations

import json

import pytest

from demo.stack import OPERATOR_NAMESPACE, Stack
from tests.e2e.workloads import NAMESPACE as WORKLOADS
from tests.unit.charts.rights import CLUSTER, OWN
from tests.unit.docs.rights_table import Right, rights_in_the_docs, rights_of_rules

pytestmark = pytest.mark.e2e


def _answered(stack: Stack, user: str, namespace: str) -> set[Right]:
    """What the apiserver says that a user may do in a namespace."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }
    out = stack.kubectl("create", "--validate=false", f"--as={user}", "-f", "-", "-o", "json", stdin=json.dumps(review))
    return set(rights_of_rules(OWN, json.loads(out)["status"]["resourceRules"]))


def _account(namespace: str, name: str) -> str:
    return f"system:serviceaccount:{namespace}:{name}"


def _everybody(stack: Stack, namespace: str) -> set[Right]:
    """What every account of the cluster may do: ask about itself."""
    return _answered(stack, _account(WORKLOADS, "nobody-in-particular"), namespace)


@pytest.mark.parametrize("part", ["operator", "syncer", "scheduler", "page"])
def test_a_process_has_the_rights_of_the_table(stack: Stack, part: str) -> None:
    release, home = ("sunkpy", OPERATOR_NAMESPACE) if part == "operator" else (stack.release, stack.namespace)
    told = rights_in_the_docs(release=release)[part]
    for namespace, scopes in ((home, {CLUSTER, OWN}), (WORKLOADS, {CLUSTER})):
        wanted = {Right(OWN, right.resource, right.name, right.verb) for right in told if right.where in scopes}
        answered = _answered(stack, _account(home, f"{release}-{part}"), namespace)
        assert answered - _everybody(stack, namespace) == wanted


@pytest.mark.parametrize("account", ["slurm", "slurmd"])
def test_slurms_own_daemons_have_no_right(stack: Stack, account: str) -> None:
    answered = _answered(stack, _account(stack.namespace, f"{stack.release}-{account}"), stack.namespace)
    assert answered == _everybody(stack, stack.namespace)
