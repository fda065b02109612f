"""Jobs and pods that share a node do not wait for each other's ends."""

from __future__ import annotations

from demo.stack import Stack
from devcluster.waiting import wait
from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from tests.e2e import workloads

GRACE_S = 60
UNTIL_TOLD = "until [ -e finish-neighbour ]; do sleep 0.2; done"


def test_a_pod_that_is_slow_to_end_does_not_hold_up_its_neighbours(stack: Stack) -> None:
    stack.login("rm -f finish-neighbour")
    stack.kubectl.apply(
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
    )
    try:
        placeholder = int(workloads.wait_for_running(stack, "slow").annotations[names.ANNOTATION_JOB_ID])
        node = stack.job(placeholder)["NodeList"]
        beside = stack.sbatch(f"--nodelist={node}", "-n1", "--mem=16", "--output=/dev/null", script=UNTIL_TOLD)
        stack.wait_for_job(beside, "RUNNING")
        # One whose Prolog has not passed the gate when the pod loses its job waits for the pod, and rightly.
        wait(lambda: stack.job(beside)["Reason"] != "Prolog", timeout_s=60, what=f"job {beside} has begun")
        stack.cancel_jobs([placeholder])
        wait(lambda: _is_ending(stack), timeout_s=60, what="the pod to be told to go")
        stack.login("touch finish-neighbour")
        stack.wait_for_job(beside, "COMPLETED", timeout_s=GRACE_S / 2)
        assert _is_ending(stack), "it still takes its time"
        assert stack.job(placeholder)["JobState"] == "COMPLETING"
    finally:
        how = ("--ignore-not-found", "--wait", "--grace-period=1")
        stack.kubectl("delete", "pod", "slow", "-n", workloads.NAMESPACE, *how)
        stack.login("rm -f finish-neighbour")


def _is_ending(stack: Stack) -> bool:
    return stack.kubectl.get(Pod, "pod", "slow", "-n", workloads.NAMESPACE).is_deleting
