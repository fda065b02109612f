"""Names of Slurm nodes, as Slurm gives them, resolve in jobs, in their containers and where people log in."""

from __future__ import annotations

import contextlib
import shlex
import signal
from collections.abc import Iterator

import pytest

from demo import story
from demo.stack import Stack
from devcluster.cluster import Cluster
from devcluster.waiting import NotYet, wait
from tests.e2e import resolving
from tests.e2e.conftest import CLUSTER

pytestmark = pytest.mark.e2e

CONTROLLERS = "kube-controller-manager"
OF_A_JOB = 'names=$(scontrol show hostnames "$SLURM_JOB_NODELIST")'
"""As it stands in the scripts of PyTorch, DeepSpeed, Ray …, which take the first."""
BUNDLE = """\
rm -rf names; mkdir -p names/rootfs/{etc,bin,proc,sys,dev,tmp,home}
for program in bash getent uname; do
  cp "$(command -v $program)" names/rootfs/bin/
  for library in $(ldd "$(command -v $program)" | grep -o '/[^ ]*'); do
    mkdir -p "names/rootfs${library%/*}"; cp "$library" "names/rootfs$library"
  done
done
echo '{}' > names/config.json
"""
"""A container with a libc of its own, and nothing of it that says where names are looked up."""


@pytest.fixture
def bundle(stack: Stack) -> Iterator[str]:
    stack.login(BUNDLE)
    yield "$HOME/names"
    stack.login("rm -rf names")


def _in_a_job(stack: Stack, flags: str = "") -> dict[str, list[str]]:
    """What one task on each node said, by the node's name in Slurm: its host name, and what it knows of all nodes."""
    nodes = len(stack.slurm_nodes())
    lookups = resolving.looks_up(["$names"])
    task = f'while read -r line; do echo "$SLURMD_NODENAME $line"; done < <(uname -n\n{lookups})'
    script = f"{OF_A_JOB}\nexport names\nsrun --ntasks-per-node=1 {flags} bash -c {shlex.quote(task)}"
    job = stack.sbatch(f"--nodes={nodes}", "--output=names.out", script=script)
    state = stack.wait_for_job(job, "COMPLETED", "FAILED")["JobState"]
    said = stack.login("cat names.out; rm names.out")
    assert state == "COMPLETED", said
    tasks: dict[str, list[str]] = {}
    for line in said.splitlines():
        node, _, rest = line.partition(" ")
        tasks.setdefault(node, []).append(rest)
    return tasks


def _all_know_all(stack: Stack, tasks: dict[str, list[str]]) -> None:
    truth = resolving.wanted(stack)
    assert set(tasks) == set(truth)
    for node, (host, *answers) in tasks.items():
        assert (host, resolving.read(answers)) == (node, truth)


def test_each_node_of_a_job_knows_each_forward_and_back(stack: Stack) -> None:
    assert len(stack.slurm_nodes()) > 1
    _all_know_all(stack, _in_a_job(stack))


@pytest.mark.parametrize("flag", ["--container", "--container-image"])
def test_so_does_a_container_of_a_job(stack: Stack, bundle: str, flag: str) -> None:
    _all_know_all(stack, _in_a_job(stack, f"{flag}={bundle}"))


def test_the_login_pod_knows_all_forward_and_back(stack: Stack) -> None:
    truth = resolving.wanted(stack)
    assert resolving.read(stack.login(resolving.looks_up(truth)).splitlines()) == truth


def test_a_node_that_joins_is_known_to_the_others_as_its_first_job_begins(
    stack: Stack, request: pytest.FixtureRequest
) -> None:
    """Also where it takes a while until it has a name. The others ask once: a "no" would be kept."""
    wide = len(stack.slurm_nodes())
    request.addfinalizer(lambda: story.restore(stack))
    request.addfinalizer(lambda: stack.login("rm -f first seen.*"))
    _scale(stack, wide - 1)
    before = wait(lambda: _are(stack, wide - 1), timeout_s=60, what="a node less")

    lookups = resolving.looks_up(['"$(cat first)"'])
    task = f"until [ -e first ]; do sleep 0.02; done\n{{ {lookups} }} > seen.$SLURMD_NODENAME"
    script = f"srun --ntasks-per-node=1 bash -c {shlex.quote(task)}"
    others = stack.sbatch(f"--nodes={wide - 1}", "--output=/dev/null", script=script)
    request.addfinalizer(lambda: stack.cancel_jobs([others]))
    stack.wait_for_job(others, "RUNNING")
    tells = 'echo "$SLURMD_NODENAME" > first.new; mv first.new first'
    first = stack.sbatch("--nodes=1", "--exclusive", "--output=/dev/null", script=tells)
    request.addfinalizer(lambda: stack.cancel_jobs([first]))
    with _nobody_gets_a_name():
        _scale(stack, wide)
        new = wait(lambda: _newcomer(stack, before), timeout_s=60, what="a slurmd pod more")
        said = lambda: stack.kubectl("logs", "-n", stack.namespace, new, "-c", "slurmd")  # noqa: E731
        wait(lambda: "DNS does not know" in said(), timeout_s=60, what="it to wait for its name", every_s=0.1)
        assert set(stack.slurm_nodes()) == before

    stack.wait_for_job(first, "COMPLETED", timeout_s=120)
    stack.wait_for_job(others, "COMPLETED")
    truth = {new: resolving.wanted(stack)[new]}
    answers = {node: resolving.read(stack.login(f"cat seen.{node}").splitlines()) for node in sorted(before)}
    assert answers == dict.fromkeys(before, truth)


def _scale(stack: Stack, nodes: int) -> None:
    stack.kubectl("scale", "nodeset", stack.nodeset, "-n", stack.namespace, f"--replicas={nodes}")


def _are(stack: Stack, count: int) -> set[str]:
    nodes, pods = set(stack.slurm_nodes()), {pod.name for pod in stack.slurmd_pods()}
    if nodes != pods or len(nodes) != count:
        raise NotYet(f"Slurm: {sorted(nodes)}, pods: {sorted(pods)}")
    return nodes


def _newcomer(stack: Stack, before: set[str]) -> str:
    return next((pod.name for pod in stack.slurmd_pods() if pod.name not in before), "")


@contextlib.contextmanager
def _nobody_gets_a_name() -> Iterator[None]:
    """What makes EndpointSlices stands still."""
    daemons = Cluster(CLUSTER).daemons
    if daemons.pid(CONTROLLERS) is None:
        pytest.skip("the controllers of the cluster are elsewhere")
    daemons.kill(CONTROLLERS, signal.SIGSTOP)
    try:
        yield
    finally:
        daemons.kill(CONTROLLERS, signal.SIGCONT)
