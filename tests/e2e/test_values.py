"""Values that cannot work: refused before anything changes, and healed by a rollback where nobody could know."""

from __future__ import annotations

import pytest

from demo.stack import ROOT, Stack
from devcluster.shell import CommandFailed
from devcluster.waiting import wait

pytestmark = pytest.mark.e2e

CHART = str(ROOT / "charts" / "slurm")


def _pod(stack: Stack, path: str) -> str:
    name = f"{stack.release}-slurmctld-0"
    return stack.kubectl("get", "pod", "-n", stack.namespace, name, "--ignore-not-found", "-o", f"jsonpath={{{path}}}")


def _revision(stack: Stack) -> str:
    return stack.helm("history", stack.release, "-n", stack.namespace, "--max=1").splitlines()[-1].split()[0]


def _upgrade(stack: Stack, *options: str) -> None:
    stack.helm("upgrade", stack.release, CHART, "-n", stack.namespace, "--reuse-values", *options)


def test_a_key_that_slurm_does_not_know_changes_nothing(stack: Stack, request: pytest.FixtureRequest) -> None:
    before, uid = _revision(stack), _pod(stack, ".metadata.uid")
    request.addfinalizer(lambda: stack.helm("rollback", stack.release, before, "-n", stack.namespace))
    with pytest.raises(CommandFailed) as refused:
        _upgrade(stack, "--set=slurmConfig.conf.KilWait=30", "--set=login.replicas=2")
    assert "slurmctld does not start on these values" in refused.value.output
    assert "unrecognized key: KilWait" in refused.value.output
    assert _pod(stack, ".metadata.uid") == uid
    sets = stack.kubectl("get", "statefulset", "-n", stack.namespace, "-o", "jsonpath={.items[*].spec.replicas}")
    assert set(sets.split()) == {"1"}


def test_another_domain_than_that_of_the_cluster_changes_nothing(stack: Stack, request: pytest.FixtureRequest) -> None:
    before = _revision(stack)
    request.addfinalizer(lambda: stack.helm("rollback", stack.release, before, "-n", stack.namespace))
    with pytest.raises(CommandFailed) as refused:
        _upgrade(stack, "--set=clusterDomain=k8s.example.com")
    assert (
        "clusterDomain: k8s.example.com, but the domain of this Kubernetes cluster is cluster.local"
        in refused.value.output
    )


def test_a_rollback_heals_an_image_that_is_not_there(stack: Stack, request: pytest.FixtureRequest) -> None:
    before = _revision(stack)
    back = ("rollback", stack.release, before, "-n", stack.namespace, "--wait", "--timeout", "5m")
    request.addfinalizer(lambda: stack.helm(*back))
    job = stack.sbatch(script="sleep 600")
    request.addfinalizer(lambda: stack.cancel_jobs([job]))
    stack.wait_for_job(job, "RUNNING")
    # The Job that checks the values would find it: without it, as of a site that runs no hooks.
    _upgrade(stack, "--no-hooks", "--set=images.slurmctld=localhost/nothere:1")
    wait(lambda: "nothere" in _pod(stack, ".spec.containers[0].image"), timeout_s=60, what="a pod without its image")
    stack.helm(*back)
    assert stack.wait_for_job(job, "RUNNING")["JobId"] == str(job)
