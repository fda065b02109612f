"""A slurmd on a machine outside Kubernetes, with NetworkPolicies enforced: people's jobs run there, pods do not."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from demo.stack import ROOT, Stack
from devcluster.cluster import Cluster
from devcluster.waiting import wait, wait_until
from tests.e2e import outside, resolving, workloads
from tests.e2e.conftest import CLUSTER
from tests.e2e.outside import Machine
from tests.roots import unpack

pytestmark = [pytest.mark.e2e, pytest.mark.long]

CHART: Final = str(ROOT / "charts" / "slurm")


@pytest.fixture(scope="module")
def root(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The files of a machine with the same Slurm; policies are enforced as long."""
    root = tmp_path_factory.mktemp("outside") / "root"
    unpack(stack.suite, ("slurmd",), root)
    (root / "etc/slurm").mkdir(exist_ok=True)
    try:
        Cluster(CLUSTER).up(policies=True)
        yield root
    finally:
        Cluster(CLUSTER).up(policies=False)


@contextlib.contextmanager
def joined(stack: Stack, root: Path, machine: Machine) -> Iterator[None]:
    """The machine is a node of a Slurm cluster, whose values are those of the page."""
    ready = ("wait", f"pod/{stack.release}-slurmctld-0", "-n", stack.namespace, "--for=condition=Ready", "--timeout=3m")
    wait(lambda: stack.kubectl(*ready, timeout_s=190), timeout_s=180, what="slurmctld")
    address = outside.balance(stack, Cluster(CLUSTER))
    wait(lambda: machine.reaches(address, 6817), timeout_s=30, what="the Service of slurmctld to answer")
    with machine.running(*outside.slurmd(stack, root, address)):
        is_there = lambda: stack.slurm_nodes().get(outside.NODE, {}).get("State", "").startswith("IDLE")  # noqa: E731
        assert wait_until(is_there, timeout_s=60), machine.said()
        yield
    stack.scontrol("delete", f"nodename={outside.NODE}")


def page_values(stack: Stack, machine: Machine) -> dict[str, object]:
    text = outside.page(stack)[0].replace("10.9.0.0/24", f"{machine.address}/32").replace("10.9.0.7", machine.address)
    values: dict[str, object] = yaml.safe_load(text)
    return values


@pytest.fixture
def bare(stack: Stack, root: Path, tmp_path: Path) -> Iterator[str]:
    of = ("-n", stack.namespace)
    before: int = json.loads(stack.helm("status", stack.release, *of, "-o", "json"))["version"]
    with Machine(Cluster(CLUSTER), tmp_path, 1) as machine:
        values = tmp_path / "values.yaml"
        values.write_text(yaml.safe_dump(page_values(stack, machine)))
        try:
            stack.helm("upgrade", stack.release, CHART, *of, "--reuse-values", f"--values={values}")
            with joined(stack, root, machine):
                yield outside.NODE
        finally:
            stack.helm("rollback", stack.release, str(before), *of, "--wait")


def test_jobs_run_there_and_pods_wait_for_nodes_of_kubernetes(stack: Stack, bare: str) -> None:
    assert stack.login("srun --constraint=bare hostname").strip() == bare
    address, name = resolving.read(stack.login(resolving.looks_up([bare])).splitlines())[bare]
    assert (address, name) == (stack.slurm_nodes()[bare]["NodeAddr"], bare)
    job = stack.sbatch("--constraint=bare", "--output=/dev/null", script="hostname")
    assert stack.wait_for_job(job, "COMPLETED")["NodeList"] == bare

    own = sorted(set(stack.slurm_nodes()) - {bare})
    stack.scontrol("update", f"nodename={','.join(own)}", "state=drain", "reason=outside")
    try:
        pod = workloads.pod("inside", image=stack.images["sunkpy"], scheduler=stack.scheduler_name, command=["true"])
        stack.kubectl.apply(pod)

        def waits() -> list[dict[str, str]]:
            """Its job. One from before the scheduler knew the machine has no features, and may have begun there."""
            waiting = [each for each in stack.jobs().values() if each["JobState"] == "PENDING"]
            return [each for each in waiting if each["Features"] != "(null)"]

        queued = wait(waits, timeout_s=60, what="its job")[-1]
        reason = lambda: stack.job(int(queued["JobId"]))["Reason"] not in ("None", "Priority")  # noqa: E731
        # It looks at all once a minute.
        wait(reason, timeout_s=150, what="slurmctld has tried it")
        assert stack.job(int(queued["JobId"]))["JobState"] == "PENDING"
    finally:
        stack.scontrol("update", f"nodename={','.join(own)}", "state=resume")
    phase = ("get", "pod", "inside", "-n", workloads.NAMESPACE, "-o", "jsonpath={.status.phase}")
    wait(lambda: stack.kubectl(*phase) == "Succeeded", timeout_s=60, what="the pod to have run")
    stack.kubectl("delete", "pod", "inside", "-n", workloads.NAMESPACE)
