"""slurm.key is replaced as docs/tasks/keys.md says, on a cluster with a person's jobs and a service."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Final

import pytest

from demo.stack import ROOT, Stack
from devcluster.shell import run
from devcluster.waiting import wait
from tests.e2e import workloads
from tests.e2e.agreement import live_jobs_by_pod_uid, wait_for_agreement

pytestmark = [pytest.mark.e2e, pytest.mark.long]

CHART: Final = str(ROOT / "charts" / "slurm")
NEW: Final = "replaced"


class Key:
    """The release and the Secret that it has its key from."""

    def __init__(self, stack: Stack) -> None:
        self.stack, self._of = stack, ("-n", stack.namespace)
        self.secret = f"{stack.release}-slurm-key"
        self.steps = [f"{NEW}-{step}" for step in (1, 2, 3)]
        self._forget()
        env = {"KUBECONFIG": str(stack.kubeconfig), "PATH": f"{stack.bin_dir}:{os.environ['PATH']}"}
        run([str(ROOT / "docs/examples/replace-slurm-key.sh"), stack.namespace, self.secret, NEW], env=env)

    def use(self, secret: str) -> None:
        """As the page says: the next step begins when no pod has the Secret before."""
        before, self.secret = self.secret, secret
        value = f"keys.existingSlurmSecret={secret}"
        assert self._have(before)
        self.stack.helm("upgrade", self.stack.release, CHART, *self._of, "--reuse-values", "--set", value, "--wait")
        wait(lambda: not self._have(before), timeout_s=240, what="all pods to follow")

    def _have(self, secret: str) -> bool:
        text = (ROOT / "docs/tasks/keys.md").read_text()
        (listed,) = re.findall(r"^    kubectl (get pods .*?) \|", text, re.MULTILINE)
        return f"ame:{secret}]" in self.stack.kubectl(*listed.split())

    def take_back(self, revision: int) -> None:
        """Roll back at once, because nothing runs. slurmds with the new key cannot be drained, and are deleted."""
        stack = self.stack
        stack.helm("rollback", stack.release, str(revision), *self._of)
        stack.kubectl("delete", "pods", *(pod.name for pod in stack.slurmd_pods()), *self._of, "--wait", timeout_s=120)
        wait(lambda: not self._have(self.secret), timeout_s=120, what="all pods to have the first key")
        wait_for_agreement(stack, timeout_s=120, after="the first key")
        self._forget()

    def _forget(self) -> None:
        self.stack.kubectl("delete", "secret", *self.steps, *self._of, "--ignore-not-found")


@pytest.fixture
def key(stack: Stack) -> Iterator[Key]:
    before: int = json.loads(stack.helm("status", stack.release, "-n", stack.namespace, "-o", "json"))["version"]
    key = Key(stack)
    yield key
    key.take_back(before)


def test_jobs_and_services_go_on_while_the_key_is_replaced(stack: Stack, key: Key) -> None:
    image, scheduler = stack.images["sunkpy"], stack.scheduler_name
    command = ["sleep", "infinity"]
    pod = workloads.pod("serves", image=image, scheduler=scheduler, command=command, restart_policy="Always")
    stack.kubectl.apply(pod)
    service = workloads.wait_for_running(stack, "serves")
    theirs = live_jobs_by_pod_uid(stack)[service.uid]
    for step in key.steps:
        job = stack.sbatch("--output=/dev/null", script="sleep 15")
        stack.wait_for_job(job, "RUNNING")
        key.use(step)
        assert stack.wait_for_job(job, "COMPLETED")["Restarts"] == "0"
        new = stack.sbatch("--output=/dev/null", script="true")
        stack.wait_for_job(new, "COMPLETED")
        assert workloads.wait_for_running(stack, "serves").uid == service.uid
        assert live_jobs_by_pod_uid(stack)[service.uid] == theirs
    wait_for_agreement(stack, timeout_s=60, after="a new slurm.key")
    stack.kubectl("delete", "pod", "serves", "-n", workloads.NAMESPACE)
