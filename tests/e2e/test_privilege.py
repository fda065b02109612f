"""Least privilege, by trying: nobody may do what his part does not need."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from demo.stack import Stack
from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from tests.e2e import workloads
from tests.e2e.callers import Apiserver, call_hook, in_slurmd, service_account_of, slurmd_token, token_of
from tests.e2e.processes import pods_of

pytestmark = pytest.mark.e2e

NO_SUCH_JOB = 2_000_000_000
CORDON = {"spec": {"unschedulable": True}}


@pytest.fixture
def slurmd_pod(stack: Stack) -> Pod:
    return sorted(stack.slurmd_pods(), key=lambda pod: pod.name)[0]


@pytest.fixture
def impostor(stack: Stack) -> Iterator[str]:
    """A pod of another namespace that wears the labels of a slurmd pod."""
    victim = sorted(stack.slurmd_pods(), key=lambda pod: pod.name)[0]
    labels = {key: value for key, value in victim.labels.items() if key != names.LABEL_NODESET}
    image, scheduler, command = stack.images["sunkpy"], "default-scheduler", ["sleep", "600"]
    stack.kubectl.apply(workloads.pod("impostor", image=image, scheduler=scheduler, command=command, labels=labels))
    yield "impostor"
    stack.kubectl("delete", "pod", "impostor", "-n", workloads.NAMESPACE, "--wait=true")


@pytest.mark.parametrize("part", ["syncer", "scheduler"])
def test_per_cluster_processes_may_not_write_nodes(stack: Stack, part: str) -> None:
    account = service_account_of(stack, pods_of(stack, part)[0].name)
    api = Apiserver(stack, token_of(stack, account))
    node = stack.nodes()[0].name
    tried = {
        "cordon": api.status("PATCH", f"/api/v1/nodes/{node}", CORDON),
        "replace": api.status("PUT", f"/api/v1/nodes/{node}", {"metadata": {"name": node}}),
        "status": api.status("PATCH", f"/api/v1/nodes/{node}/status", {"status": {}}),
        "delete": api.status("DELETE", "/api/v1/nodes/no-such-node"),
        "create": api.status("POST", "/api/v1/nodes", {"metadata": {"name": "no-such-node"}}),
    }
    assert tried == dict.fromkeys(tried, 403)
    assert not stack.nodes()[0].spec.unschedulable


@pytest.mark.parametrize("part", ["syncer", "scheduler"])
def test_per_cluster_processes_may_not_read_secrets_or_start_anything(stack: Stack, part: str) -> None:
    account = service_account_of(stack, pods_of(stack, part)[0].name)
    api = Apiserver(stack, token_of(stack, account))
    pod = {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "x", "image": "x"}]}}
    tried = {
        "secrets": api.status("GET", f"/api/v1/namespaces/{stack.namespace}/secrets"),
        "secrets elsewhere": api.status("GET", "/api/v1/namespaces/kube-system/secrets"),
        "create pod": api.status("POST", f"/api/v1/namespaces/{stack.namespace}/pods?dryRun=All", pod),
        "roles": api.status("POST", f"/apis/rbac.authorization.k8s.io/v1/namespaces/{stack.namespace}/roles", {}),
    }
    assert tried == dict.fromkeys(tried, 403)


def test_the_rights_of_the_syncer_end_at_its_namespace(stack: Stack) -> None:
    account = service_account_of(stack, pods_of(stack, "syncer")[0].name)
    who = f"system:serviceaccount:{stack.namespace}:{account}"
    listed = stack.kubectl("auth", "can-i", "--list", f"--as={who}", "-n", workloads.NAMESPACE)
    rights = [line for line in listed.splitlines()[1:] if line.strip() and "selfsubject" not in line]
    assert not [line for line in rights if line.split()[0].startswith(("pods", "nodes", "nodesets", "leases"))], listed


def test_the_token_of_a_slurmd_pod_is_worth_nothing_at_the_apiserver(stack: Stack, slurmd_pod: Pod) -> None:
    api = Apiserver(stack, slurmd_token(stack, slurmd_pod.name))
    namespace = f"/api/v1/namespaces/{stack.namespace}"
    tried = {
        path: api.status("GET", path)
        for path in (
            f"{namespace}/pods",
            f"{namespace}/pods/{slurmd_pod.name}",
            f"{namespace}/secrets",
            f"{namespace}/configmaps",
            "/api/v1/nodes",
            "/api/v1/pods",
            f"/apis/{names.API_GROUP}/{names.API_VERSION}/nodesets",
        )
    }
    tried["patch own pod"] = api.status("PATCH", f"{namespace}/pods/{slurmd_pod.name}", {"metadata": {"labels": {}}})
    tried["cordon own node"] = api.status("PATCH", f"/api/v1/nodes/{slurmd_pod.spec.node_name}", CORDON)
    assert set(tried.values()) <= {401, 403}, tried


def test_a_slurmd_pod_holds_no_other_token(stack: Stack, slurmd_pod: Pod) -> None:
    found = in_slurmd(stack, slurmd_pod.name, "cd /var/run/secrets && find . -name token -type l")
    assert found.split() == ["./sunkpy/token"]


def test_the_account_of_slurmd_pods_has_no_right_at_all(stack: Stack, slurmd_pod: Pod) -> None:
    api = Apiserver(stack, token_of(stack, service_account_of(stack, slurmd_pod.name)))
    namespace = f"/api/v1/namespaces/{stack.namespace}"
    tried = [api.status("GET", path) for path in (f"{namespace}/pods", f"{namespace}/secrets", "/api/v1/nodes")]
    assert set(tried) == {403}


def test_a_slurmd_pod_may_call_the_hooks_for_its_own_node(stack: Stack, slurmd_pod: Pod) -> None:
    own = slurmd_pod.labels[names.LABEL_SLURM_NODE]
    status, body = call_hook(
        stack, slurmd_pod.name, token=slurmd_token(stack, slurmd_pod.name), node=own, job=NO_SUCH_JOB, hook="epilog"
    )
    assert status in (200, 202), body
    assert "done" in json.loads(body)


@pytest.mark.parametrize("hook", ["prolog", "epilog"])
def test_a_slurmd_pod_may_not_call_the_hooks_for_another_node(stack: Stack, slurmd_pod: Pod, hook: str) -> None:
    other = next(pod for pod in stack.slurmd_pods() if pod.name != slurmd_pod.name)
    status, body = call_hook(
        stack,
        slurmd_pod.name,
        token=slurmd_token(stack, slurmd_pod.name),
        node=other.labels[names.LABEL_SLURM_NODE],
        job=NO_SUCH_JOB,
        hook=hook,
    )
    assert status == 403, body


@pytest.mark.parametrize("token", [None, "nonsense"])
def test_without_a_valid_token_the_hooks_do_nothing(stack: Stack, slurmd_pod: Pod, token: str | None) -> None:
    own = slurmd_pod.labels[names.LABEL_SLURM_NODE]
    status, body = call_hook(stack, slurmd_pod.name, token=token, node=own, job=NO_SUCH_JOB)
    assert status == 401, body


def test_a_token_for_another_audience_is_no_token(stack: Stack, slurmd_pod: Pod) -> None:
    token = token_of(stack, service_account_of(stack, slurmd_pod.name))
    own = slurmd_pod.labels[names.LABEL_SLURM_NODE]
    status, body = call_hook(stack, slurmd_pod.name, token=token, node=own, job=NO_SUCH_JOB)
    assert status == 401, body


def test_a_token_of_no_pod_is_refused(stack: Stack, slurmd_pod: Pod) -> None:
    account = service_account_of(stack, slurmd_pod.name)
    token = stack.kubectl("create", "token", account, "-n", stack.namespace, f"--audience={names.HOOKS_AUDIENCE}")
    own = slurmd_pod.labels[names.LABEL_SLURM_NODE]
    status, body = call_hook(stack, slurmd_pod.name, token=token.strip(), node=own, job=NO_SUCH_JOB)
    assert status == 403, body


def test_a_pod_that_wears_the_labels_of_a_slurmd_pod_is_refused(stack: Stack, slurmd_pod: Pod, impostor: str) -> None:
    token = stack.kubectl(
        "create", "token", "default", "-n", workloads.NAMESPACE, f"--audience={names.HOOKS_AUDIENCE}",
        "--bound-object-kind=Pod", f"--bound-object-name={impostor}",
    )  # fmt: skip
    own = slurmd_pod.labels[names.LABEL_SLURM_NODE]
    status, body = call_hook(stack, slurmd_pod.name, token=token.strip(), node=own, job=NO_SUCH_JOB)
    assert status == 403, body
