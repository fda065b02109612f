"""NetworkPolicies of the charts, enforced: each way that a part needs is open, and each other one is shut."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
import pytest
import yaml

from demo.stack import Stack
from devcluster.cluster import Cluster
from devcluster.waiting import wait
from sunkpy.core.model.objects import Pod
from tests.e2e import processes, workloads
from tests.e2e.conftest import CLUSTER

ANY: Final = 40000
"""A port that a kernel chose, where nobody listens: the answer "refused" has come through."""
FREE: Final = frozenset({"stranger", "neighbour", "compute", "login"})
"""Who may call whomever it likes: pods without a policy, and what people run."""
WAYS: Final[Mapping[tuple[str, int], frozenset[str]]] = {
    ("slurmctld", 6817): frozenset({"slurmrestd", "slurmdbd", "compute", "login"}),
    ("slurmctld", ANY): frozenset(),
    ("slurmrestd", 6820): frozenset({"syncer", "scheduler", "accounts", "page"}),
    ("slurmrestd", ANY): frozenset(),
    ("slurmdbd", 6819): frozenset({"slurmctld", "slurmrestd", "compute", "login"}),
    ("slurmdbd", ANY): frozenset(),
    ("mariadb", 3306): frozenset({"slurmdbd"}),
    ("mariadb", ANY): frozenset(),
    ("scheduler", 8000): frozenset({"compute"}),
    ("scheduler", 8080): FREE,
    ("scheduler", ANY): frozenset(),
    ("syncer", 8080): FREE,
    ("syncer", 8000): frozenset(),
    ("accounts", 8080): FREE,
    ("accounts", ANY): frozenset(),
    ("page", 8000): FREE,
    ("page", 8080): FREE,
    ("page", ANY): frozenset(),
    ("operator", 8080): FREE,
    ("operator", ANY): frozenset(),
    ("compute", 6818): frozenset({"slurmctld", "login"}),
    ("compute", ANY): frozenset({"slurmctld", "login"}),
    ("login", 2222): FREE | {"slurmctld"},
    ("login", ANY): frozenset({"slurmctld", "compute"}),
    ("stranger", ANY): FREE - {"stranger"},
    ("apiserver", 0): FREE | {"syncer", "scheduler", "accounts", "page", "operator"},
}
SOURCES: Final = tuple(sorted({target for target, _ in WAYS} - {"apiserver"} | {"neighbour"}))
PROGRAMS: Final = {
    "compute": "slurmd",
    "login": "sackd",
    "mariadb": "mariadbd",
    "stranger": "sleep",
    "neighbour": "sleep",
}
CONNECT: Final = """
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor

def is_open(target):
    try:
        socket.create_connection(target, timeout=2).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return True

targets = json.load(sys.stdin)
print(json.dumps(list(ThreadPoolExecutor(len(targets)).map(is_open, map(tuple, targets)))))
"""


class Ground(msgspec.Struct, frozen=True):
    """Pods by part, and where the apiserver listens."""

    pods: Mapping[str, Pod]
    apiserver: tuple[str, int]

    def address(self, target: str, port: int) -> tuple[str, int]:
        """The address of a part, and its port."""
        return self.apiserver if target == "apiserver" else (self.pods[target].status.pod_ip, port)


@pytest.fixture(scope="module")
def ground(stack: Stack) -> Iterator[Ground]:
    """The cluster with its policies enforced, and two pods of others: one elsewhere, one beside Slurm's own."""
    cluster = Cluster(CLUSTER)
    places = {"stranger": "default", "neighbour": stack.namespace}
    try:
        cluster.up(policies=True)
        for name, namespace in places.items():
            made = workloads.pod(
                name, image=stack.images["sunkpy"], scheduler="default-scheduler", command=["sleep", "9999"]
            )
            stack.kubectl.apply({**made, "metadata": {"name": name, "namespace": namespace}})
        server = yaml.safe_load(stack.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        where = urllib.parse.urlsplit(server)
        pods = wait(lambda: _pods(stack, places), timeout_s=90, what="pods of all parts")
        yield Ground(pods=pods, apiserver=(str(where.hostname), where.port or 443))
    finally:
        for name, namespace in places.items():
            stack.kubectl("delete", "pod", name, "-n", namespace, "--ignore-not-found", "--wait=false")
        cluster.up(policies=False)


def _pods(stack: Stack, places: Mapping[str, str]) -> dict[str, Pod] | None:
    found: dict[str, Pod] = {"compute": stack.slurmd_pods()[0]}
    for name, namespace in places.items():
        (found[name],) = stack.kubectl.list(Pod, "pods", "-n", namespace, f"--field-selector=metadata.name={name}")
    for part in SOURCES:
        found[part] = found.get(part) or processes.pods_of(stack, part)[0]
    return found if all(pod.status.pod_ip and _pids(part, pod) for part, pod in found.items()) else None


def _pids(part: str, pod: Pod) -> list[int]:
    return processes.pids_of(pod, program=PROGRAMS.get(part, part))


@pytest.mark.parametrize("source", SOURCES)
def test_what_a_pod_reaches(ground: Ground, source: str) -> None:
    targets = [way for way in WAYS if way[0] != source]
    pid = _pids(source, ground.pods[source])[0]
    argv = ["nsenter", f"--target={pid}", "--net", sys.executable, "-c", CONNECT]
    asked = json.dumps([ground.address(*way) for way in targets])
    answers = json.loads(subprocess.run(argv, input=asked, text=True, capture_output=True, check=True).stdout)
    reached = {way for way, is_open in zip(targets, answers, strict=True) if is_open}
    assert reached == {way for way in targets if source in WAYS[way]}


def test_both_doors_work_behind_them(stack: Stack, ground: Ground, request: pytest.FixtureRequest) -> None:
    request.addfinalizer(lambda: stack.kubectl("delete", "pod", "behind", "--ignore-not-found"))
    assert len(set(stack.login("srun --nodes=3 --ntasks=3 hostname").split())) == 3
    made = workloads.pod(
        "behind", image=stack.images["sunkpy"], scheduler=stack.scheduler_name, command=["sleep", "9999"]
    )
    stack.kubectl.apply(made)
    workloads.wait_for_running(stack, "behind")
    for part in ("slurmrestd", "scheduler", "syncer"):
        processes.kill(stack, part)
    stack.kubectl("delete", "pod", "behind")
    # The pod's job ends when a scheduler leads again, which was killed with its lease.
    said = stack.login("srun --nodes=3 --exclusive --ntasks=3 hostname", timeout_s=180)
    assert len(set(said.split())) == 3
    assert "COMPLETED" in stack.login("sacct --noheader --allocations --format=State")
