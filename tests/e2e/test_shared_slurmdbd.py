"""A second Slurm cluster on the slurmdbd of the first one: both keep their records, and neither the other's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final

import pytest
import yaml

from demo.bring_up import describe_unready, slurm_values
from demo.stack import ROOT, USER, Stack
from devcluster.cluster import Cluster
from devcluster.shell import CommandFailed
from devcluster.waiting import wait, wait_until_equal
from tests.e2e.conftest import CLUSTER, NODES

pytestmark = [pytest.mark.e2e, pytest.mark.long]

GUEST: Final = "guest"
"""The second one's namespace, release and cluster."""
KEYS: Final = {"slurm-key": "slurm.key", "jwt-key": "jwt.key"}
ACCOUNTS: Final = {
    "accounts": {"default": {"description": "Of the guest", "shares": 7}, "lab": {"parent": "default"}},
    "users": {USER: {"accounts": {"default": {}, "lab": {}}, "defaultAccount": "lab"}},
    "pods": {"account": "lab"},
}


def peers(namespace: str) -> list[Mapping[str, object]]:
    return [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}]


class Guest:
    """The second release beside the first one, on one of its nodes, with NetworkPolicies enforced."""

    def __init__(self, host: Stack) -> None:
        self.host = host
        self.stack = host.with_images(host.images)
        self.stack.release = self.stack.namespace = self.stack.cluster = self.stack.scheduler_name = GUEST
        self.hosts_before: list[str] = []
        self._there = ("-n", host.namespace)
        self._before: int = json.loads(host.helm("status", host.release, *self._there, "-o", "json"))["version"]

    def bring_up(self) -> None:
        """Both releases as an administrator sets them up."""
        host = self.host
        self.hosts_before = of(host, host.cluster)
        Cluster(CLUSTER).up(policies=True)
        host.kubectl("scale", "nodesets", "--all", *self._there, f"--replicas={NODES - 1}")
        wait_until_equal(lambda: len(host.slurmd_pods()), NODES - 1, timeout_s=90, what="a free node")
        self._upgrade_host(f"networkPolicies.slurmdbdFrom={json.dumps(peers(GUEST))}")
        host.kubectl("create", "namespace", GUEST)
        for name, key in KEYS.items():
            data = host.kubectl.json("secret", f"{host.release}-{name}", *self._there)["data"][key]
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"shared-{name}", "namespace": GUEST}}
            host.kubectl.apply({**secret, "data": {key: data}})
        values = yaml.safe_dump(self._values())
        chart = str(ROOT / "charts" / "slurm")
        try:
            host.helm("install", GUEST, chart, "-n", GUEST, "--values=-", "--wait", "--timeout=5m", stdin=values)
        except CommandFailed as error:
            raise AssertionError(f"{error}\n{describe_unready(host, GUEST)}") from error
        wait(lambda: "idle" in self.stack.sinfo("--format=%T"), timeout_s=90, what="a node of the guest")

    def _values(self) -> Mapping[str, object]:
        host = self.host
        external = {"host": f"{host.release}-slurmdbd.{host.namespace}", "peers": peers(host.namespace)}
        return {
            **slurm_values(host),
            "clusterName": GUEST,
            "keys": {"existingSlurmSecret": "shared-slurm-key", "existingJwtSecret": "shared-jwt-key"},
            "accounting": {"slurmdbd": {"external": external}},
            "accounts": {"wanted": ACCOUNTS},
            "page": {"enabled": False},
            "scheduler": {"enabled": False},
        }

    def _upgrade_host(self, *chosen: str) -> None:
        chart = str(ROOT / "charts" / "slurm")
        words = [word for each in chosen for word in ("--set-json", each)]
        self.host.helm("upgrade", self.host.release, chart, *self._there, "--reuse-values", *words, "--wait")

    def uninstall(self) -> None:
        """Uninstall the release, and delete all that it had."""
        self.host.helm("uninstall", GUEST, "-n", GUEST, "--wait", "--timeout=3m")

    def take_down(self) -> None:
        """The first release as it was, and nothing of the second."""
        host = self.host
        if GUEST in host.helm("list", "-n", GUEST, "-q").split():
            self.uninstall()
        host.kubectl("delete", "namespace", GUEST, "--ignore-not-found", "--wait", timeout_s=180)
        host.helm("rollback", host.release, str(self._before), *self._there, "--wait")
        every = json.dumps({"spec": {"replicas": None}})
        host.kubectl("patch", "nodeset", host.nodeset, *self._there, "--type=merge", f"--patch={every}")
        wait_until_equal(lambda: len(host.slurmd_pods()), NODES, timeout_s=90, what="slurmd on each node")
        Cluster(CLUSTER).up(policies=False)


@pytest.fixture(scope="module")
def guest(stack: Stack) -> Iterator[Guest]:
    guest = Guest(stack)
    try:
        guest.bring_up()
        yield guest
    finally:
        guest.take_down()


def of(stack: Stack, cluster: str) -> list[str]:
    """What slurmdbd keeps of the accounts of a cluster."""
    show = (
        "sacctmgr",
        "-nP",
        "show",
        "assoc",
        f"cluster={cluster}",
        "format=account,user,share,qos,defaultqos,comment",
    )
    return sorted(stack.admin(*show).splitlines())


def is_recorded(asked: Stack, ran: Stack, job: int, account: str) -> None:
    """sacct of one cluster has a job of another one, or its own."""

    def record() -> str:
        told = ("sacct", "-anXP", "-M", ran.cluster, "-j", str(job), "-o", "cluster,account,state")
        return asked.admin(*told).strip()

    wait_until_equal(record, f"{ran.cluster}|{account}|COMPLETED", timeout_s=90, what="the record of a job")


def submit(stack: Stack) -> int:
    job = stack.sbatch("--output=/dev/null", script="true")
    stack.wait_for_job(job, "COMPLETED")
    return job


def test_each_has_its_own_accounts(stack: Stack, guest: Guest) -> None:
    guests, hosts = of(stack, GUEST), of(stack, stack.cluster)
    assert {f"lab|{USER}|1|normal|normal|k8s: values", "default||7|normal|normal|k8s: values"} <= set(guests)
    assert not [line for line in hosts if line.startswith("lab|")]
    assert hosts == guest.hosts_before


def test_a_third_one_under_the_name_of_one_that_lives_would_not_start(stack: Stack, guest: Guest) -> None:
    script = (
        "sed s/^ClusterName=.*/ClusterName=$1/ /etc/slurm/slurm.conf > /tmp/other.conf; "
        "check-cluster-name /tmp/other.conf 2>&1 || echo ends with $?"
    )

    def check(name: str) -> str:
        return guest.stack.admin("bash", "-c", script, "-", name)

    assert check("third") == ""
    for taken in (stack.cluster, GUEST):
        assert f"slurmdbd hears a slurmctld of cluster {taken} at " in check(taken)


def test_jobs_of_both_are_on_record_for_both(stack: Stack, guest: Guest) -> None:
    other = guest.stack
    jobs = ((stack, submit(stack), "default"), (other, submit(other), "lab"))
    for asked in (stack, other):
        for ran, job, account in jobs:
            is_recorded(asked, ran, job, account)
    assert set(stack.admin("sacct", "-anXPL", "-o", "cluster").split()) == {stack.cluster, GUEST}


def test_slurmdbd_tells_the_slurmctld_of_the_second_one_what_is_changed(stack: Stack, guest: Guest) -> None:
    stack.admin("sacctmgr", "-i", "modify", "user", USER, "where", f"cluster={GUEST}", "set", "priority=9")
    look = ("show", "assoc_mgr", f"users={USER}", "flags=assoc")
    wait(lambda: "Priority=9" in guest.stack.scontrol(*look), timeout_s=30, what="the change in its slurmctld")
    assert of(stack, stack.cluster) == guest.hosts_before


def test_no_record_of_either_is_lost_while_slurmdbd_is_away(stack: Stack, guest: Guest) -> None:
    deploy = ("scale", f"deploy/{stack.release}-slurmdbd", "-n", stack.namespace)
    stack.kubectl(*deploy, "--replicas=0")
    try:
        jobs = ((stack, submit(stack), "default"), (guest.stack, submit(guest.stack), "lab"))
    finally:
        stack.kubectl(*deploy, "--replicas=1")
    for ran, job, account in jobs:
        is_recorded(stack, ran, job, account)


def test_the_second_one_goes_and_its_records_stay(stack: Stack, guest: Guest) -> None:
    job, guests = submit(guest.stack), of(stack, GUEST)
    is_recorded(stack, guest.stack, job, "lab")
    guest.uninstall()
    is_recorded(stack, guest.stack, job, "lab")
    assert (of(stack, GUEST), of(stack, stack.cluster)) == (guests, guest.hosts_before)
    is_recorded(stack, stack, submit(stack), "default")
