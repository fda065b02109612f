"""Jobs and pods that share a node do not wait for each other's ends."""

from __future__ import annotations

from demo.stack import Stack
from demo.waiting import NotYet, wait
from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from tests.e2e import workloads

NAMESPACE = "default"
GRACE_S = 20


def test_a_pod_that_is_slow_to_end_does_not_hold_up_its_neighbours(stack: Stack) -> None:
    stack.apply(
        workloads.pod(
            "slow",
            image=stack.images["sunkpy"],
            scheduler=stack.scheduler_name,
            command=[
                "python3",
                "-c",
                "import signal; signal.signal(15, signal.SIG_IGN); [signal.pause() for _ in 'xx']",
            ],
            grace_s=GRACE_S,
        )
        | {"metadata": {"name": "slow", "namespace": NAMESPACE}}
    )
    try:
        placeholder = int(_wait_for_running(stack).annotations[names.ANNOTATION_JOB_ID])
        node = stack.job(placeholder)["NodeList"]
        beside = stack.sbatch(f"--nodelist={node}", "-n1", "--mem=16", "--output=/dev/null", script="sleep 3")
        stack.wait_for_job(beside, "RUNNING", timeout_s=20)
        stack.cancel_jobs([placeholder])
        stack.wait_for_job(beside, "COMPLETED", timeout_s=GRACE_S / 2)
        assert stack.get(Pod, "pod", "slow", "-n", NAMESPACE).is_deleting, "it still takes its time"
        assert stack.job(placeholder)["JobState"] == "COMPLETING"
    finally:
        stack.kubectl("delete", "pod", "slow", "-n", NAMESPACE, "--ignore-not-found", "--wait")


def _wait_for_running(stack: Stack) -> Pod:
    def running() -> Pod:
        pod = stack.get(Pod, "pod", "slow", "-n", NAMESPACE)
        if pod.status.phase != "Running":
            raise NotYet(pod.status.phase)
        return pod

    return wait(running, timeout_s=60, what="pod slow Running")
