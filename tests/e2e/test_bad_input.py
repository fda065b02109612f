"""What a person can get wrong: the answer says what to change, and nothing is lost."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import jwt
import pytest

from demo.stack import ROOT, Stack
from devcluster.shell import CommandFailed
from devcluster.waiting import NotYet, wait
from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from tests.e2e import workloads
from tests.e2e.agreement import live_jobs_by_pod_uid, wait_for_agreement
from tests.e2e.outage import slurmrestd_down
from tests.e2e.slurm_access import jwt_key, rest_url
from tests.ports import free_ports

pytestmark = pytest.mark.e2e

SLEEP = ["sleep", "300"]


@contextlib.contextmanager
def _pod(stack: Stack, name: str, **wish: object) -> Iterator[str]:
    """A pod for Slurm to place; it is gone, and its job with it, at the end."""
    image, scheduler = stack.images["sunkpy"], stack.scheduler_name
    stack.kubectl.apply(workloads.pod(name, image=image, scheduler=scheduler, command=SLEEP, **wish))
    try:
        yield name
    finally:
        stack.kubectl("delete", "pod", name, "-n", workloads.NAMESPACE, "--ignore-not-found", "--wait=true")
        wait_for_agreement(stack, timeout_s=60, after=f"the end of {name}")


def _wait_for_event(stack: Stack, namespace: str, about: str, *words: str, kind: str = "pod") -> str:
    """About this object: an earlier run may have left Events about one of its name."""
    uid = stack.kubectl("get", kind, about, "-n", namespace, "-o", "jsonpath={.metadata.uid}")

    def said() -> str:
        events = stack.events(namespace, about, uid=uid)
        for event in events:
            if all(word in event for word in words):
                return event
        raise NotYet("\n".join(events) or "no Event")

    return wait(said, timeout_s=30, what=f"an Event about {about} with {words}")


def test_a_nodeset_that_fits_no_node_says_why(stack: Stack) -> None:
    nodeset = {
        "apiVersion": f"{names.API_GROUP}/{names.API_VERSION}",
        "kind": names.NODESET_KIND,
        "metadata": {"name": "nowhere", "namespace": stack.namespace},
        "spec": {
            "cluster": stack.cluster,
            "template": {
                "spec": {
                    "nodeSelector": {"example.com/pool": "nowhere"},
                    "containers": [{"name": names.SLURMD_CONTAINER, "image": stack.images["slurmd"]}],
                }
            },
        },
    }
    stack.kubectl.apply(nodeset)
    try:
        event = _wait_for_event(stack, stack.namespace, "nowhere", "nodeSelector", kind="nodeset")
        status = stack.kubectl.json("nodeset", "nowhere", "-n", stack.namespace)["status"]
        feasible = next(c for c in status["conditions"] if c["type"] == "Feasible")
        assert feasible["status"] == "False", event
        assert "do not match nodeSelector" in feasible["message"]
        assert status["numberFeasible"] == 0
    finally:
        stack.kubectl("delete", "nodeset", "nowhere", "-n", stack.namespace, "--timeout=30s")
    assert stack.slurmd_pods(), "the other NodeSet keeps its pods"


def test_an_unknown_partition_is_named_and_the_pod_runs_once_it_is_corrected(stack: Stack) -> None:
    partition = f"{names.PREFIX}partition"
    with _pod(stack, "bad-partition", annotations={partition: "nope"}) as name:
        _wait_for_event(stack, workloads.NAMESPACE, name, "FailedScheduling", "nope", "partition")
        pod = stack.kubectl.get(Pod, "pod", name, "-n", workloads.NAMESPACE)
        scheduled = pod.condition("PodScheduled")
        assert scheduled is not None
        assert (scheduled.status, "nope" in scheduled.message) == ("False", True), scheduled
        stack.kubectl("annotate", "pod", name, "-n", workloads.NAMESPACE, "--overwrite", f"{partition}=high")
        workloads.wait_for_running(stack, name)
        (job,) = live_jobs_by_pod_uid(stack)[pod.uid]
        assert stack.job(job)["Partition"] == "high"


def test_a_pod_that_is_too_big_for_every_node_says_so_and_holds_no_job(stack: Stack) -> None:
    with _pod(stack, "too-big", cpu="1000") as name:
        _wait_for_event(stack, workloads.NAMESPACE, name, "FailedScheduling", "cpu", "1000")
        uid = stack.kubectl.get(Pod, "pod", name, "-n", workloads.NAMESPACE).uid
        assert uid not in live_jobs_by_pod_uid(stack)


@pytest.mark.parametrize(
    ("chart", "setting", "key"),
    [
        ("slurm", "slurmctdl.replicas=1", "slurmctdl"),
        ("slurm", "partitions.low.priorityTeir=1", "priorityTeir"),
        ("sunkpy", "replica=2", "replica"),
    ],
)
def test_a_typo_in_the_values_is_refused_by_name(stack: Stack, chart: str, setting: str, key: str) -> None:
    before = stack.helm("list", "-A", "-o", "json")
    with pytest.raises(CommandFailed, match=key):
        stack.helm("upgrade", "--install", stack.release, f"charts/{chart}", "-n", stack.namespace, "--set", setting)
    assert stack.helm("list", "-A", "-o", "json") == before


def test_an_expired_token_is_named_with_its_file_and_its_end(stack: Stack, tmp_path: Path) -> None:
    token = tmp_path / "slurm.token"
    token.write_text(_signed(stack, expires_s=1_700_000_000))
    with _syncer(stack, tmp_path, token) as log:

        def said() -> str:
            lines = log.read_text().splitlines()
            line = next((line for line in lines if "expired" in line), "")
            if not line:
                raise NotYet("\n".join(lines[-5:]))
            return line

        line = wait(said, timeout_s=60, what="a log line that says what is wrong with the token")
    assert f"the token in {token} expired at 2023-11-14T22:13:20Z" in line


def test_a_pod_made_while_slurmrestd_is_down_is_told_and_runs_when_it_is_back(stack: Stack) -> None:
    with contextlib.ExitStack() as outage:
        outage.enter_context(slurmrestd_down(stack))
        with _pod(stack, "no-slurm") as name:
            _wait_for_event(stack, workloads.NAMESPACE, name, "slurmrestd")
            outage.close()
            workloads.wait_for_running(stack, name)


def _signed(stack: Stack, *, expires_s: int) -> str:
    """A token that was good until then, signed with the cluster's own key."""
    return jwt.encode({"iat": expires_s - 300, "exp": expires_s, "sun": "slurm"}, jwt_key(stack), algorithm="HS256")


@contextlib.contextmanager
def _syncer(stack: Stack, folder: Path, token: Path) -> Iterator[Path]:
    """A syncer that runs here with that token, and the file of its log; its namespace has no slurmd pods."""
    config, log = folder / "config.yaml", folder / "log"
    config.write_text(
        f"""
cluster: {stack.cluster}
namespace: {workloads.NAMESPACE}
slurm: {{url: "{rest_url(stack)}", user: slurm, tokenFile: "{token}"}}
leaderElection: {{enabled: false}}
http: {{port: {free_ports(1)[0]}}}
"""
    )
    command = [str(ROOT / ".venv/bin/sunkpy"), "syncer", "--config", str(config)]
    with log.open("wb") as out, subprocess.Popen(command, env=os.environ | stack.kubectl.env, stderr=out) as process:
        try:
            yield log
        finally:
            process.terminate()
