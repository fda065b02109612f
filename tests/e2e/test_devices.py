"""Pods with claims when somebody edits claims, pods are deleted by force, and the parts that hand out devices are away.

On a cluster of its own: one node with two pretend GPUs of the DRA example driver. Who has a device is read from the
environment of processes, from claims, and from Slurm's jobs.
"""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import pytest

from demo.stack import Stack
from devcluster import Cluster, dra
from devcluster.shell import CommandFailed
from devcluster.waiting import NotYet, wait, wait_until, wait_until_equal
from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from tests.bench.chaos.record import Owner
from tests.bench.devices import measure
from tests.bench.devices.observer import CLAIMS, Held, Observer, double_owners
from tests.e2e import workloads
from tests.e2e.conftest import nothing_left
from tests.e2e.workloads import NAMESPACE

pytestmark = [pytest.mark.e2e, pytest.mark.long]

DEVICES: Final = 2
GRACE_S: Final = 5
SOON_S: Final = 15.0
"""What is a matter of seconds, on a machine that has much to do."""
PATIENCE_S: Final = 90.0
AWAY_S: Final = 40.0
"""How long a kubelet is away: longer than it needs to end a pod."""
LASTS_S: Final = 60.0
"""How long a node must offer something else before its slurmd pod is drained."""
Edit = Callable[["Claims", str, str], None]


class Claims:
    """Named claims, as an administrator makes and edits them."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def make(self, name: str, count: int = 1) -> None:
        exactly = {"deviceClassName": dra.DRIVER, "allocationMode": "ExactCount", "count": count}
        self._stack.kubectl.apply(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
            }
        )

    def status(self, name: str) -> Any:
        return self._stack.kubectl.json("resourceclaim", name, "-n", NAMESPACE).get("status", {})

    def devices(self, name: str) -> set[str]:
        results = (self.status(name).get("allocation") or {}).get("devices", {}).get("results", [])
        return {result["device"] for result in results}

    def write(self, name: str, status: Mapping[str, object]) -> None:
        how = ("-n", NAMESPACE, "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}))
        self._stack.kubectl("patch", "resourceclaim", name, *how)

    def clear(self, name: str) -> None:
        self.write(name, {"allocation": None, "reservedFor": None})

    def remove(self, *claims: str) -> None:
        self._stack.kubectl("delete", "resourceclaims", "-n", NAMESPACE, *(claims or ("--all",)), "--ignore-not-found")


@pytest.fixture(scope="module")
def ground() -> Iterator[tuple[Stack, Cluster]]:
    with measure.ground(devices=DEVICES) as found:
        yield found


@pytest.fixture(scope="module")
def stack(ground: tuple[Stack, Cluster]) -> Stack:
    return ground[0]


@pytest.fixture
def cluster(ground: tuple[Stack, Cluster]) -> Cluster:
    return ground[1]


@pytest.fixture
def claims(stack: Stack) -> Iterator[Claims]:
    """None are there afterwards, nor pods with them."""
    claims = Claims(stack)
    yield claims
    stack.kubectl("delete", "pods", "-n", NAMESPACE, "--all", "--wait")
    claims.remove()


@contextlib.contextmanager
def observed(stack: Stack, cluster: Cluster) -> Iterator[Observer]:
    """Meanwhile no device has two owners at a sampled moment; of claims that are edited this is not asked."""
    observer = Observer(stack, cluster)
    observer.start()
    try:
        yield observer
    finally:
        observer.stop()
    assert double_owners([sample for sample in observer.samples if sample.side != CLAIMS]) == []


def start(stack: Stack, name: str, *, owner: str = "") -> None:
    """A pod with the claim of its name; its processes are those of `owner`."""
    command = ["env", f"CHAOS_POD={owner or name}", "sleep", "3600"]
    body: Any = workloads.pod(
        name, image=stack.images["sunkpy"], scheduler=stack.scheduler_name, command=command, grace_s=GRACE_S
    )
    body["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
    body["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    stack.kubectl.apply(body)


def find(stack: Stack, name: str) -> Pod | None:
    found = stack.kubectl.list(Pod, "pods", "-n", NAMESPACE, f"--field-selector=metadata.name={name}")
    return found[0] if found else None


def wait_for_running(stack: Stack, *pods: str) -> None:
    def running() -> bool:
        phases = {name: pod.status.phase if (pod := find(stack, name)) else "gone" for name in pods}
        if set(phases.values()) != {"Running"}:
            raise NotYet(str(phases))
        return True

    wait(running, timeout_s=PATIENCE_S, what="pods run")


def wait_for_gone(stack: Stack, name: str, *, uid: str, timeout_s: float) -> None:
    def gone() -> bool:
        found = find(stack, name)
        return found is None or found.uid != uid

    wait(gone, timeout_s=timeout_s, what=f"pod {name} gone")


def has(held: Held, pod: str) -> set[str]:
    return set(held.get(Owner("pod", pod), ()))


# ------------------------------------------------------------- edited claims


def cleared(claims: Claims, name: str, other: str) -> None:
    claims.clear(name)


def rewritten(claims: Claims, name: str, other: str) -> None:
    status = claims.status(name)
    status["allocation"]["devices"]["results"][0]["device"] = other
    claims.clear(name)
    claims.write(name, status)


def doubled(claims: Claims, name: str, other: str) -> None:
    claims.make("thief")
    claims.write("thief", {"allocation": claims.status(name)["allocation"]})


@pytest.mark.parametrize("edit", [cleared, rewritten, doubled])
def test_a_pod_whose_claim_an_administrator_edits_goes_and_the_next_have_their_devices_alone(
    stack: Stack, cluster: Cluster, claims: Claims, edit: Edit
) -> None:
    for name in ("edited", "next", "last"):
        claims.make(name)
    with observed(stack, cluster) as observer:
        start(stack, "edited")
        wait_for_running(stack, "edited")
        pod = find(stack, "edited")
        assert pod is not None
        (mine,) = claims.devices("edited")
        (other,) = set(observer.names) - {mine}
        edit(claims, "edited", other)
        start(stack, "next")
        start(stack, "last")
        wait(lambda: any(said.startswith("DevicesLost: ") for said in stack.events(NAMESPACE, "edited", uid=pod.uid)),
             timeout_s=SOON_S, what="Event DevicesLost")  # fmt: skip
        wait_for_gone(stack, "edited", uid=pod.uid, timeout_s=SOON_S + GRACE_S)
        if edit is doubled:
            wait_for_running(stack, "next")
            assert wait_until(lambda: claims.devices("last"), timeout_s=5, every_s=0.5) is None
            assert claims.devices("next") == {other}
            claims.remove("thief")
        wait_for_running(stack, "next", "last")
        processes, held = observer.processes(), observer.claims()
        assert has(processes, "next") == has(held, "next") != has(processes, "last") == has(held, "last")


def test_the_devices_of_a_claim_cannot_be_changed_in_place(stack: Stack, claims: Claims) -> None:
    claims.make("fixed")
    start(stack, "fixed")
    wait_for_running(stack, "fixed")
    status = claims.status("fixed")
    (result,) = status["allocation"]["devices"]["results"]
    result["device"] = "gpu-0" if result["device"] == "gpu-1" else "gpu-1"
    with pytest.raises(CommandFailed, match=r"immutable|cannot be modified once set"):
        claims.write("fixed", status)
    with pytest.raises(CommandFailed, match="reservedFor"):
        claims.write("fixed", {"allocation": None})


# --------------------------------------------------------- parts that are away


@contextlib.contextmanager
def deleted_by_force(stack: Stack, cluster: Cluster, pod: str) -> Iterator[None]:
    """The pod is, while its kubelet is away."""
    (node,) = cluster.nodes()
    cluster.fault.kubelet_stop(node.name)
    try:
        stack.kubectl("delete", "pod", pod, "-n", NAMESPACE, "--grace-period=0", "--force")
        yield
    finally:
        cluster.fault.kubelet_start(node.name)


def test_a_pod_made_again_after_a_deletion_by_force_has_no_container_before_the_first_has_ended(
    stack: Stack, cluster: Cluster, claims: Claims
) -> None:
    claims.make("again", DEVICES)
    with observed(stack, cluster) as observer:
        start(stack, "again", owner="first")
        wait_for_running(stack, "again")
        with deleted_by_force(stack, cluster, "again"):
            claims.remove("again")
            claims.make("again", DEVICES)
            start(stack, "again", owner="second")
            assert has(observer.processes(), "first") == set(observer.names)
        wait_for_running(stack, "again")
        assert has(observer.processes(), "first") == set()
        assert has(observer.processes(), "second") == set(observer.names)


def test_a_job_gets_no_devices_of_a_pod_that_was_deleted_by_force_while_its_kubelet_is_away(
    stack: Stack, cluster: Cluster, claims: Claims
) -> None:
    """Nobody ends its containers, so no time is enough for them."""
    claims.make("left", DEVICES)
    with observed(stack, cluster) as observer:
        start(stack, "left")
        wait_for_running(stack, "left")
        options = ("-n1", "-c1", "--mem=32", f"--gres=gpu:{DEVICES}", "-o", "/dev/null", "--export=ALL,CHAOS_JOB=next")
        job = stack.sbatch(*options, script="sleep 600")
        with deleted_by_force(stack, cluster, "left"):
            began = wait_until(lambda: Owner("job", "next") in observer.processes(), timeout_s=AWAY_S, every_s=0.5)
            assert has(observer.processes(), "left") == set(observer.names)
            assert not began
        stack.wait_for_job(job, "RUNNING", timeout_s=PATIENCE_S)
        assert has(observer.processes(), "left") == set()
        stack.cancel_jobs([job])


def test_a_pod_that_ends_while_its_driver_is_away_keeps_its_devices_from_others_until_it_is_back(
    stack: Stack, cluster: Cluster, claims: Claims
) -> None:
    (node,) = cluster.nodes()
    claims.make("ending", DEVICES)
    claims.make("waiting")
    with observed(stack, cluster) as observer:
        start(stack, "ending")
        wait_for_running(stack, "ending")
        pod = find(stack, "ending")
        assert pod is not None
        cluster.fault.driver_stop(node.name)
        try:
            stack.kubectl("delete", "pod", "ending", "-n", NAMESPACE, "--wait=false")
            start(stack, "waiting")
            wait_until_equal(
                lambda: has(observer.processes(), "ending"), set(), timeout_s=SOON_S + GRACE_S, what="tasks"
            )
            assert wait_until(lambda: changes(stack, claims, observer), timeout_s=8, every_s=0.5) is None
        finally:
            cluster.fault.driver_start(node.name)
        wait_for_gone(stack, "ending", uid=pod.uid, timeout_s=SOON_S)
        wait_for_running(stack, "waiting")
        assert claims.devices("ending") == set()
        assert has(observer.processes(), "waiting") == claims.devices("waiting")


def changes(stack: Stack, claims: Claims, observer: Observer) -> Sequence[str]:
    """What is not as it must be while the driver is away."""
    found = []
    if claims.devices("ending") != set(observer.names):
        found.append("the claim of the pod that ends was cleared")
    if claims.devices("waiting") or has(observer.processes(), "waiting"):
        found.append("the next pod has devices")
    if find(stack, "ending") is None:
        found.append("the pod is gone")
    return found


# ------------------------------------------------------------------ sick devices


@contextlib.contextmanager
def driver_looks_away(stack: Stack, cluster: Cluster) -> Iterator[None]:
    """It would restore its slice within half a minute. Afterwards slurmd has what it restores."""
    (node,) = cluster.nodes()
    cluster.daemons.kill(node.daemon(dra.PROGRAM), signal.SIGSTOP)
    try:
        yield
    finally:
        cluster.fault.driver_stop(node.name)
        cluster.fault.driver_start(node.name)
        stack.kubectl("delete", "pods", "-n", stack.namespace, "-l", f"{names.LABEL_ROLE}={names.ROLE_COMPUTE}")


def exchange(stack: Stack) -> Mapping[str, str]:
    """In one write the second device is tainted and a third is there; the uuids of all."""
    (found,) = (each for each in _items(stack, "resourceslices") if each["spec"]["driver"] == dra.DRIVER)
    devices = found["spec"]["devices"]
    sick = next(each for each in devices if each["name"] == "gpu-1")
    healed = json.loads(json.dumps(sick)) | {"name": "gpu-2"}
    healed["attributes"]["uuid"]["string"] = sick["attributes"]["uuid"]["string"][:-4] + "beef"
    sick["taints"] = [{"key": "example.com/unhealthy", "value": "xid-79", "effect": "NoExecute"}]
    patch = json.dumps({"spec": {"devices": [*devices, healed]}})
    stack.kubectl("patch", "resourceslice", found["metadata"]["name"], "--type=merge", "-p", patch)
    return {each["name"]: each["attributes"]["uuid"]["string"] for each in (*devices, healed)}


def _items(stack: Stack, kind: str) -> Sequence[Any]:
    found: Any = stack.kubectl.json(kind)["items"]
    return found


def test_a_node_with_a_sick_gpu_beside_a_healed_one_is_drained_by_name_and_comes_back_with_the_other(
    stack: Stack, cluster: Cluster
) -> None:
    (before,) = stack.slurmd_pods()
    job = stack.sbatch("-n1", "-c1", "--mem=16", "-o", "/dev/null", script="sleep 600")
    stack.wait_for_job(job, "RUNNING")
    with driver_looks_away(stack, cluster):
        uuids = exchange(stack)
        why = f"rollout: its node offers devices={uuids['gpu-2']} in place of {uuids['gpu-1']}"
        wait(lambda: why in stack.scontrol("show", "node"), timeout_s=LASTS_S + PATIENCE_S, what=f"drain for {why}")
        assert stack.job(job)["JobState"] == "RUNNING"
        stack.cancel_jobs([job])
        wait(lambda: before.uid not in {pod.uid for pod in stack.slurmd_pods()}, timeout_s=PATIENCE_S, what="a new pod")
        wait(lambda: nothing_left(stack), timeout_s=PATIENCE_S, what="the Slurm node is back")
        node = stack.scontrol("show", "node")
    assert f"Gres=gpu:h100:{DEVICES}" in node
    assert [uuid in node for uuid in uuids.values()] == [True, False, True]
