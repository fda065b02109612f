"""Backups that the CronJobs make, and a Slurm cluster made from them: as docs/tasks/backup-and-restore.md says it."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Final

import pytest
import yaml

from demo import story
from demo.bring_up import describe_unready
from demo.stack import ROOT, USER, Stack
from devcluster.cluster import Cluster
from devcluster.shell import CommandFailed
from devcluster.waiting import NotYet, wait, wait_until_equal
from tests.bucket import KEY, SECRET, Bucket
from tests.e2e.conftest import CLUSTER, NODES

pytestmark = [pytest.mark.e2e, pytest.mark.long]

NEW: Final = "new"
"""The namespace of the restored one."""
CHART: Final = str(ROOT / "charts" / "slurm")
BUCKET: Final = "bucket"
"""The Secret with the key of the bucket."""


class Restored:
    """The first release with a bucket, and a second one made from its backups, which has one of its nodes."""

    def __init__(self, first: Stack, bucket: Bucket) -> None:
        self.first = first
        self.stack = first.with_images(first.images)
        self.stack.namespace = NEW
        self.bucket = bucket
        self.held = self.ended = 0
        self.configured: Sequence[str] = ()
        self.said: Sequence[str] = ()
        self._before: int = json.loads(first.helm("status", first.release, *of(first), "-o", "json"))["version"]

    def bring_up(self) -> None:
        """As the page says, with NetworkPolicies enforced until both are there."""
        first = self.first
        Cluster(CLUSTER).up(policies=True)
        self._give_bucket(first)
        s3 = {"endpoint": self.bucket.endpoint, "bucket": self.bucket.folder.name, "existingSecret": BUCKET}
        upgrade(first, "--set-json", f"s3={json.dumps(s3)}")
        self.held = hold(first)
        self.ended = first.sbatch("--output=/dev/null", script="true")
        wait_until_equal(lambda: record(first, self.ended), "COMPLETED", timeout_s=90, what="the record of a job")
        self.said = [back_up(first, part) for part in ("backup", "state-backup")]
        first.admin("scancel", str(self.held))
        first.kubectl("scale", "nodesets", "--all", *of(first), f"--replicas={NODES - 1}")
        wait_until_equal(lambda: len(first.slurmd_pods()), NODES - 1, timeout_s=120, what="a free node")
        self.configured = self.configurations()
        first.kubectl("create", "namespace", NEW)
        self._give_bucket(self.stack)
        self._copy(f"{first.release}-ssh-host-key")
        self._install()
        Cluster(CLUSTER).up(policies=False)
        wait(lambda: self.stack.nodeset_status().number_ready, timeout_s=180, what="a node of the new one")

    def configurations(self) -> Sequence[str]:
        """When each slurmd of the first cluster last got its configuration."""
        when = ("--", "stat", "-c", "%n %z", "/run/slurm/conf/slurm.conf")
        return [self.first.kubectl("exec", pod.name, *of(self.first), *when) for pod in self.first.slurmd_pods()]

    def _give_bucket(self, stack: Stack) -> None:
        literals = (f"--from-literal=access-key-id={KEY}", f"--from-literal=secret-access-key={SECRET}")
        stack.kubectl("create", "secret", "generic", BUCKET, *of(stack), *literals)

    def _copy(self, secret: str) -> None:
        found = self.first.kubectl.json("secret", secret, *of(self.first))
        metadata = {"name": secret, "namespace": NEW}
        self.first.kubectl.apply({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": found["data"]})

    def _install(self) -> None:
        """Install a second cluster with the values of the first one, whose scheduler lives on."""
        first = self.first
        values = yaml.safe_load(first.helm("get", "values", first.release, *of(first), "-o", "yaml"))
        values |= {"clusterName": first.cluster, "scheduler": {"enabled": False}}
        restore = f"restore.from=s3,restore.prefix={first.namespace}/{first.release}/"
        args = (CHART, "--values=-", "--set", restore, "--wait", "--timeout=5m")
        try:
            first.helm("-n", NEW, "install", first.release, *args, stdin=yaml.safe_dump(values))
        except CommandFailed as error:
            raise AssertionError(f"{error}\n{describe_unready(first, NEW)}") from error

    def take_down(self) -> None:
        """The first release as it was, and nothing of the second."""
        first = self.first
        if first.release in first.helm("list", "-n", NEW, "-q").split():
            with contextlib.suppress(CommandFailed):  # its slurmctld may be what has failed
                self.stack.admin("scancel", f"--user={USER}")
            first.helm("uninstall", first.release, "-n", NEW, "--wait", "--timeout=3m")
        first.kubectl("delete", "namespace", NEW, "--ignore-not-found", "--wait", timeout_s=180)
        first.helm("rollback", first.release, str(self._before), *of(first), "--wait")
        first.kubectl("delete", "secret", BUCKET, *of(first), "--ignore-not-found")
        every = json.dumps({"spec": {"replicas": None}})
        first.kubectl("patch", "nodeset", first.nodeset, *of(first), "--type=merge", f"--patch={every}")
        wait_until_equal(lambda: len(first.slurmd_pods()), NODES, timeout_s=120, what="slurmd on each node")
        Cluster(CLUSTER).up(policies=False)


def of(stack: Stack) -> tuple[str, str]:
    return ("-n", stack.namespace)


def upgrade(stack: Stack, *args: str) -> None:
    stack.helm("upgrade", stack.release, CHART, *of(stack), "--reuse-values", *args, "--wait", "--timeout=5m")


def hold(stack: Stack) -> int:
    """A held job that slurmctld has saved."""
    comment = f"held in {stack.namespace}"
    job = stack.sbatch("--hold", f"--comment={comment}", "--output=/dev/null", script="true")
    saved = ("grep", "-c", comment, "/var/lib/slurm/state/job_state")
    wait(lambda: stack.admin(*saved), timeout_s=60, what=f"job {job} on disk")
    return job


def back_up(stack: Stack, part: str) -> str:
    """What a backup of now says."""
    job = f"job/{part}-now"
    stack.kubectl("create", "job", f"--from=cronjob/{stack.release}-{part}", f"{part}-now", *of(stack))

    def ended() -> bool:
        status = stack.kubectl.json(job, *of(stack))["status"]
        if not status.get("succeeded"):
            raise NotYet(f"{status}")
        return True

    try:
        wait(ended, timeout_s=180, what=f"a backup by {job}")
        return stack.kubectl("logs", job, *of(stack))
    finally:
        stack.kubectl("delete", job, *of(stack))


def record(stack: Stack, job: int) -> str:
    """The state of a job as slurmdbd has it."""
    return stack.admin("sacct", "-anXP", "-j", str(job), "-o", "state").strip()


@pytest.fixture(scope="module")
def restored(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restored]:
    bucket = Bucket(tmp_path_factory.mktemp("objects"), host=str(Cluster(CLUSTER).layout.host_ip))
    restored = Restored(stack, bucket)
    try:
        restored.bring_up()
        yield restored
    finally:
        restored.take_down()
        bucket.stop()


def test_a_cronjob_backs_up_when_told_to_also_into_the_bucket(restored: Restored) -> None:
    first, folder = restored.first, restored.bucket.folder
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*.gz")}
    for said, name in zip(restored.said, ("slurm_acct_db", "state"), strict=True):
        made = re.findall(rf": /backup/({name}-\S+\.gz), \d+ bytes", said)
        assert len(made) == 1
        assert f"{first.namespace}/{first.release}/{made[0]}" in there


def test_the_queue_and_the_records_are_there_in_the_new_namespace(restored: Restored) -> None:
    second = restored.stack
    assert second.squeue("--format=%i %T %r").splitlines() == [f"{restored.held} PENDING JobHeldUser"]
    assert second.job(restored.held)["Comment"] == f"held in {restored.first.namespace}"
    assert record(second, restored.ended) == "COMPLETED"


def test_nodes_of_the_first_one_obey_it_alone(restored: Restored) -> None:
    first, second = restored.first, restored.stack
    theirs, own = ({pod.name for pod in stack.slurmd_pods()} for stack in (first, second))
    assert not own & theirs
    second.scontrol("reconfigure")  # asks all nodes, and would tell them its configuration

    def idle() -> set[str]:
        return {name for name, node in second.slurm_nodes().items() if story.is_idle(node)}

    wait_until_equal(idle, own, timeout_s=90, what="only its own nodes idle")
    job = first.sbatch(f"--nodes={len(theirs)}", "--output=/dev/null", script="true")
    first.wait_for_job(job, "COMPLETED")
    assert record(second, job) == ""
    assert restored.configurations() == restored.configured
    second.scontrol("delete", f"nodename={','.join(sorted(set(second.slurm_nodes()) - own))}")  # as the page says


def test_what_was_held_runs_in_the_new_namespace_and_is_recorded_there_alone(restored: Restored) -> None:
    first, second = restored.first, restored.stack
    second.scontrol("release", str(restored.held))
    second.wait_for_job(restored.held, "COMPLETED")
    wait_until_equal(lambda: record(second, restored.held), "COMPLETED", timeout_s=90, what="the record of a job")
    assert record(first, restored.held).startswith("CANCELLED")


def test_the_queue_goes_back_in_place(restored: Restored) -> None:
    second = restored.stack
    pod, held = f"{second.release}-slurmctld-0", hold(second)
    back_up(second, "state-backup")
    second.admin("scancel", str(held))
    upgrade(second, "--set=restore.from=volume,restore.prefix=")
    assert str(held) not in second.squeue("--format=%i").split()
    second.kubectl("delete", "--wait=false", f"pvc/state-{pod}", f"pod/{pod}", *of(second))
    wait(lambda: second.squeue("--format=%i %r").split() == [str(held), "JobHeldUser"], timeout_s=180, what="the queue")
    second.admin("scancel", str(held))
    job = second.sbatch("--output=/dev/null", script="true")
    second.wait_for_job(job, "COMPLETED", timeout_s=120)


def test_the_database_goes_back_in_place(restored: Restored) -> None:
    second = restored.stack
    assert "/backup/slurm_acct_db-" in back_up(second, "backup")
    second.admin("sacctmgr", "-i", "add", "account", "later")
    second.kubectl("exec", f"{second.release}-mariadb-0", *of(second), "--", "restore-mariadb", timeout_s=180)
    second.kubectl("rollout", "restart", f"deploy/{second.release}-slurmdbd", *of(second))
    accounts = ("sacctmgr", "-nP", "show", "account", "format=account")
    wait(lambda: "later" not in second.admin(*accounts).split(), timeout_s=180, what="the accounts of the backup")
    assert record(second, restored.ended) == "COMPLETED"
