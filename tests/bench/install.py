"""From nothing to people at work: a fresh install up to the first accounted job, and a thousand people more.

On a cluster of its own that is gone afterwards. Its nodes have the images; what is timed begins with `helm install`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import yaml

from demo import person
from demo.bring_up import GPUS_PER_NODE, ROOT, build_images, install, slurm_values
from demo.report import Tell
from demo.stack import Stack
from devcluster import Cluster, packages
from devcluster.waiting import NotYet, wait
from sunkpy.core.model.objects import Pod
from tests.bench import report
from tests.bench.people.crowd import Crowd
from tests.doubles.apiserver import merged

NODES: Final = 3
_FIRST_JOB_S: Final = 120.0
_UPGRADE_S: Final = 30.0
_LOGIN_S: Final = 1.0
_CORES: Final = "two shared cores run the whole cluster: apiserver, kubelets, containers, helm"


def measure(*, suite: str, name: str, people: int, logins: int, tell: Tell) -> list[report.Figure]:
    """Install; then so many people are added to the values, and one more."""
    images = build_images(suite, tell)
    packages.ensure(person.CLIENT, progress=tell)
    with _own_cluster(name, tell) as cluster:
        cluster.up(NODES, gpus=GPUS_PER_NODE)
        cluster.load(sorted({Path(image.archive) for image in images.values()}))
        refs = {key: image.ref for key, image in images.items()}
        stack = Stack(suite=suite, kubeconfig=cluster.kubeconfig, bin_dir=cluster.bin, images=refs)
        figures = [_first_job(stack, tell)]
        crowd = Crowd(people, person.key(), each=1)
        figures += _upgrade(stack, crowd, f"{people} people")
        figures += _upgrade(stack, Crowd(people + 1, person.key(), each=1), "one person more")
        return figures + _logins(stack, Crowd(people + 1, person.key(), each=1), logins)


@contextlib.contextmanager
def _own_cluster(name: str, tell: Tell) -> Iterator[Cluster]:
    cluster = Cluster(f"{name}-fresh", progress=tell)
    cluster.down()
    try:
        yield cluster
    finally:
        cluster.down()


def _first_job(stack: Stack, tell: Tell) -> report.Figure:
    """Both charts, a person who comes by ssh, her job, and its record."""
    began_s = time.monotonic()
    install(stack, tell)
    with person.logged_in(stack) as ann:
        job = ann(f"sbatch --parsable --account={person.ACCOUNT} --wrap hostname")
        asked = f"sacct -nXP -o user,account,state -j {job}"
        wanted = f"{person.NAME}|{person.ACCOUNT}|COMPLETED"
        wait(lambda: _says(ann, asked, wanted), timeout_s=120, what=f"job {job} COMPLETED in sacct")
    took_s = time.monotonic() - began_s
    return report.at_most(
        "helm install → first job over ssh is in sacct", took_s, unit="s", bound=_FIRST_JOB_S, n=1, limited_by=_CORES
    )


def _upgrade(stack: Stack, crowd: Crowd, what: str) -> list[report.Figure]:
    """`helm upgrade --wait` with the crowd; which pods it made anew; when the last of them can come and submit."""
    values = yaml.safe_dump(merged(dict(slurm_values(stack)), crowd.values()))
    before = _pods(stack)
    began_s = time.monotonic()
    stack.helm(
        "upgrade", stack.release, str(ROOT / "charts" / "slurm"), "--namespace", stack.namespace,
        "--values=-", "--wait", "--timeout", "5m", stdin=values,
    )  # fmt: skip
    upgraded_s = time.monotonic() - began_s
    with person.forwarded(stack) as port:
        newcomer = person.shell_of(crowd.last[-1], crowd.key, port)
        asked = "sbatch --parsable --wrap true >/dev/null && echo submitted"
        wait(lambda: _says(newcomer, asked, "submitted"), timeout_s=300, what=f"{crowd.last[-1]} has submitted")
    submitted_s = time.monotonic() - began_s
    anew = sorted(name for name, state in _pods(stack).items() if before.get(name) != state)
    return [
        report.at_most(
            f"helm upgrade, {what}", upgraded_s, unit="s", bound=_UPGRADE_S, n=1, limited_by=_CORES
        ),
        report.at_most(
            f"pods made anew or restarted by {what}: that of the accounts process", len(anew), unit="pods", bound=1,
            n=1, limited_by=", ".join(anew),
        ),
        report.observed(f"helm upgrade, {what} → the last of them has submitted a job", submitted_s, unit="s", n=1),
    ]  # fmt: skip


def _logins(stack: Stack, crowd: Crowd, times: int) -> list[report.Figure]:
    """Through the Service: by `kubectl port-forward`, which the figure includes."""
    with person.forwarded(stack) as port:
        say = person.shell_of(crowd.last[-1], crowd.key, port)
        wait(lambda: say("echo in") == "in", timeout_s=60, what="a way in")
        seconds = [_timed(lambda: say("true")) for _ in range(times)]
    what = f"ssh to the login pod, {crowd.size} people of values"
    return [
        report.at_most(f"{what}, {name}", value, unit="s", bound=_LOGIN_S, n=times, limited_by=_CORES)
        for name, value in (("median", report.median(seconds)), ("p95", report.p95(seconds)))
    ]


def _timed(action: Callable[[], object]) -> float:
    began_s = time.monotonic()
    action()
    return time.monotonic() - began_s


def _says(say: person.Say, command: str, wanted: str) -> bool:
    said = say(command)
    if said != wanted:
        raise NotYet(said)
    return True


def _pods(stack: Stack) -> Mapping[str, tuple[str, int]]:
    """Name -> uid and how often its containers were restarted."""
    pods = stack.kubectl.list(Pod, "pods", "-n", stack.namespace)
    return {
        pod.metadata.name: (pod.metadata.uid, sum(each.restart_count for each in pod.status.container_statuses))
        for pod in pods
        if pod.status.phase == "Running"
    }
