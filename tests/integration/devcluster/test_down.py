"""Taking a cluster down leaves nothing behind, in whatever state it was."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from devcluster import Cluster, DevclusterError
from devcluster.shell import CommandFailed
from devcluster.state import Spec, save_spec
from devcluster.waiting import wait
from sunkpy.core.model.objects import Pod
from tests.e2e.processes import pids_of
from tests.integration.devcluster.pods import PROBE, ROOT, kubectl_of, probe_pod
from tests.integration.devcluster.traces import shared_traces, traces

pytestmark = pytest.mark.integration

MARKS = Path("/var/lib/sunkpy/slurm-it")


@contextmanager
def with_a_pod(name: str, probe: Path) -> Iterator[Cluster]:
    """One node with a DRA driver, and a running pod that has an emptyDir in memory, and a folder of the node."""
    cluster = Cluster(name, root=ROOT, progress=print)
    cluster.down()
    try:
        start(cluster, probe)
        yield cluster
    finally:
        cluster.down()


def start(cluster: Cluster, probe: Path) -> None:
    cluster.up(1, dra_gpus=1)
    cluster.load([probe])
    kubectl = kubectl_of(cluster)
    pod = pod_with_marks("a")
    pod["spec"]["volumes"].append({"name": "m", "emptyDir": {"medium": "Memory"}})
    pod["spec"]["containers"][0]["volumeMounts"].append({"name": "m", "mountPath": "/m"})
    kubectl.apply(pod)
    kubectl("wait", "--for=condition=Ready", "pod/a", "--timeout=60s")
    kubectl("exec", "a", "--", "/probe", "write", "/marks/mark", cluster.name)


def pod_with_marks(name: str) -> dict[str, Any]:
    """A pod of node-1 that has a folder of its node by hostPath, and in it one of its own, as slurmd pods have."""
    pod = probe_pod(name, node="node-1")
    pod["spec"]["volumes"] = [{"name": "marks", "hostPath": {"path": str(MARKS), "type": "DirectoryOrCreate"}}]
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "marks", "mountPath": "/marks", "subPath": "node-1"}]
    return pod


@pytest.fixture
def fresh(probe: Path) -> Iterator[Cluster]:
    """A cluster to take down."""
    with with_a_pod("gone", probe) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def standing(probe: Path) -> Iterator[Cluster]:
    """A cluster that other ones must leave alone."""
    with with_a_pod("stays", probe) as cluster:
        yield cluster


def kill(cluster: Cluster, *names: str) -> None:
    for name, pid in cluster.processes().items():
        if pid and (not names or name in names):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("state", ["whole", "apiserver dead", "everything killed", "record lost"])
def test_down_leaves_nothing_behind(fresh: Cluster, state: str):
    home, bridge = fresh.layout.home, fresh.layout.bridge
    before = shared_traces()
    kinds = {trace.split()[0] for trace in traces(home, bridge)}
    assert {"process", "mount", "link", "route", "rule", "cgroup", "folder"} <= kinds
    if state == "apiserver dead":
        kill(fresh, "kube-apiserver", "etcd")
    if state == "everything killed":
        kill(fresh)
    if state == "record lost":
        for record in (home / "proc").iterdir():
            record.unlink()
    fresh.down()
    assert traces(home, bridge) == set()
    assert shared_traces() <= before
    fresh.down()
    with pytest.raises(DevclusterError, match="there is no cluster"):
        _ = fresh.spec


@pytest.mark.parametrize("moment", ["settled", "mounted", "etcd", "containerd", "kubelet"])
def test_down_after_up_was_killed_half_way(moment: str):
    cluster = Cluster("half", root=ROOT)
    cluster.down()
    home = ROOT / "half"
    sign = {
        "settled": home / "cluster.json",
        "mounted": home / "pki",
        "etcd": home / "proc" / "etcd",
        "containerd": home / "proc" / "node-1-containerd",
        "kubelet": home / "proc" / "node-1-kubelet",
    }[moment]
    up = subprocess.Popen(
        [sys.executable, "-m", "devcluster", "up", "--name", "half", "--nodes", "1"],
        env={**os.environ, "SUNKPY_DEVCLUSTER_HOME": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait(sign.exists, timeout_s=300, what=f"{sign} is there", every_s=0.05)
    up.kill()
    up.wait()
    bridge = cluster.layout.bridge
    cluster.down()
    assert traces(home, bridge) == set()


def test_up_finishes_what_a_killed_up_began(probe: Path):
    cluster = Cluster("half", root=ROOT)
    up = subprocess.Popen(
        [sys.executable, "-m", "devcluster", "up", "--name", "half", "--nodes", "1"],
        env={**os.environ, "SUNKPY_DEVCLUSTER_HOME": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait((ROOT / "half" / "proc" / "etcd").exists, timeout_s=300, what="etcd is started", every_s=0.05)
    up.kill()
    up.wait()
    try:
        cluster.up()
        assert all(cluster.processes().values())
    finally:
        cluster.down()


def test_the_slot_is_given_back_when_nothing_in_its_name_is_left(fresh: Cluster):
    """A cluster that took the slot once the bridge is gone would lose cgroups and rules to the rest of the removal."""
    home, bridge = fresh.layout.home, fresh.layout.bridge
    with ThreadPoolExecutor() as pool:
        down = pool.submit(fresh.down)
        wait(lambda: not Path("/sys/class/net", bridge).exists(), timeout_s=300, what="the bridge goes", every_s=0.001)
        left = {trace.split()[0] for trace in traces(home, bridge)}
        down.result()
    assert left <= {"folder"}


def test_two_clusters_side_by_side_do_not_see_each_other(standing: Cluster, probe: Path):
    other = Cluster("other", root=ROOT, progress=print)
    try:
        other.up(1)
        assert other.spec.slot != standing.spec.slot
        assert not kubectl_of(other).json("pods")["items"]
        other.load([probe])
        kubectl_of(other).apply(pod_with_marks("a"))
        kubectl_of(other)("wait", "--for=condition=Ready", "pod/a", "--timeout=60s")
        with pytest.raises(CommandFailed, match="no such file"):
            kubectl_of(other)("exec", "a", "--", "/probe", "read", "/marks/mark")
        ours, theirs = (pids_of(kubectl_of(each).get(Pod, "pod", "a"), program="probe") for each in (standing, other))
        assert ours
        assert theirs
        assert not set(ours) & set(theirs)
    finally:
        other.down()
    # taking one down leaves the other as it was
    assert all(standing.processes().values())
    assert kubectl_of(standing)("exec", "a", "--", "/probe", "get", "http://127.0.0.1:8080") == "a"
    assert kubectl_of(standing)("exec", "a", "--", "/probe", "read", "/marks/mark") == "stays"
    assert not MARKS.exists()
    assert PROBE in kubectl_of(standing)("get", "pod", "a", "-o", "jsonpath={.spec.containers[0].image}")


def test_a_cluster_whose_slot_was_taken_meanwhile_keeps_its_hands_off(standing: Cluster):
    """After a reboot a cluster of another folder may have the slot first."""
    stale = Cluster("stale", root=ROOT)
    save_spec(ROOT, Spec(name="stale", slot=standing.spec.slot, nodes=1))
    with pytest.raises(DevclusterError, match=r"are in use by the one in .*/stays: run `down` for stale, then `up`"):
        stale.up()
    stale.down()
    assert not (ROOT / "stale").exists()
    assert all(standing.processes().values())
    assert kubectl_of(standing)("exec", "a", "--", "/probe", "get", "http://127.0.0.1:8080") == "a"


def test_simulated_nodes_come_and_go(standing: Cluster):
    standing.up(kwok_nodes=3)
    kubectl = kubectl_of(standing)
    try:
        kubectl("wait", "--for=condition=Ready", "node", "-l", "kwok.x-k8s.io/node=fake", "--timeout=60s")
    except CommandFailed as failed:
        failed.add_note((standing.layout.logs / "kwok.log").read_text()[-4000:])
        raise
    assert len(kubectl.json("nodes")["items"]) == 4
    standing.up(kwok_nodes=0)
    assert len(kubectl.json("nodes")["items"]) == 1
    assert standing.processes().keys().isdisjoint({"kwok"})
