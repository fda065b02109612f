"""The login pod, by trying: a researcher enters as nobody special, and finds no key and no way to one."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import yaml

from demo.stack import ROOT, USER, Stack
from devcluster.shell import CommandFailed
from devcluster.waiting import wait
from tests.e2e.processes import PROC, kill, pids_of, pods_of

pytestmark = pytest.mark.e2e

RESEARCHER = "e2e-researcher"


@pytest.fixture
def researcher(stack: Stack) -> Iterator[str]:
    """Somebody who has the chart's Role for the login pod."""
    role = f"{stack.release}-login"
    stack.kubectl("create", "rolebinding", RESEARCHER, "-n", stack.namespace, f"--role={role}", f"--user={RESEARCHER}")
    try:
        wait(lambda: _enter(stack, "login", "true") == "", timeout_s=30, what="the binding to count")
        yield RESEARCHER
    finally:
        stack.kubectl("delete", "rolebinding", RESEARCHER, "-n", stack.namespace)


def _enter(stack: Stack, container: str, script: str) -> str:
    """Output of a shell command that a researcher runs in a container of the login pod."""
    exec_ = ("exec", f"--as={RESEARCHER}", "-n", stack.namespace, f"{stack.release}-login-0", "-c", container, "--")
    return stack.kubectl(*exec_, "bash", "-c", script)


def test_a_researcher_enters_as_a_user_and_uses_slurm(stack: Stack, researcher: str) -> None:
    assert _enter(stack, "login", "id -un").strip() == USER
    assert _enter(stack, "login", "squeue --noheader --me; sinfo --noheader --format=%P").split()
    assert _enter(stack, "login", "srun --time=1 id -un").strip() == USER


def test_a_researcher_finds_no_key_and_cannot_become_root(stack: Stack, researcher: str) -> None:
    found = _enter(
        stack, "login", "find / -xdev \\( -name '*.key' -o -name token \\) -not -path '/etc/ssl/*' 2>/dev/null; true"
    )
    assert [line for line in found.splitlines() if not line.startswith(("/usr/", "/proc/"))] == []
    assert _enter(stack, "login", "ls /keys /var/run/secrets 2>/dev/null; true") == ""
    assert _enter(stack, "login", "grep NoNewPrivs /proc/self/status").split()[1] == "1"
    assert _enter(stack, "login", "touch /run/slurm/x 2>/dev/null || echo refused").strip() == "refused"


@pytest.mark.parametrize("container", ["sackd", "make-homes"])
def test_nobody_is_let_into_another_container_of_the_login_pod(stack: Stack, researcher: str, container: str) -> None:
    with pytest.raises(CommandFailed, match='only the container "login"'):
        _enter(stack, container, "true")
    pod = f"{stack.release}-login-0"
    with pytest.raises(CommandFailed, match='only the container "login"'):
        stack.kubectl("exec", "-n", stack.namespace, pod, "-c", container, "--", "true")


def test_a_researcher_enters_no_other_pod(stack: Stack, researcher: str) -> None:
    for pod in (f"{stack.release}-slurmctld-0", stack.slurmd_pods()[0].name):
        with pytest.raises(CommandFailed, match=r"cannot (get|create) resource"):
            stack.kubectl("exec", f"--as={researcher}", "-n", stack.namespace, pod, "--", "true")


def _sackd_logs(stack: Stack) -> str:
    return stack.kubectl("logs", f"{stack.release}-login-0", "-n", stack.namespace, "-c", "sackd")


def _starts(stack: Stack) -> int:
    """How often sackd has said so: "sackd: running" is what 24.11 writes, "running" 26.05."""
    return sum(line.endswith((": running", "] running")) for line in _sackd_logs(stack).splitlines())


def _configured_at(stack: Stack) -> float:
    """When sackd of the login pod wrote the configuration that it has, in seconds of the machine's clock; 0 while it
    writes one.
    """
    (pod,) = (pod for pod in pods_of(stack, "login") if pod.name == f"{stack.release}-login-0")
    pids = pids_of(pod, program="start-sackd")
    if not pids:
        pytest.skip(f"no process of {pod.name} on this machine: the cluster is elsewhere")
    try:
        return (PROC / str(pids[0]) / "root/run/slurm/conf/slurm.conf").stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _reconfigure(stack: Stack) -> None:
    """``scontrol reconfigure``; returns when sackd of the login pod has got the files, and runs again.

    slurmctld sends the files once. If sackd is just starting again, it fetches them when it has seen the new slurmctld.
    """
    starts, begun_s = _starts(stack), time.time()
    stack.scontrol("reconfigure")
    wait(lambda: _configured_at(stack) > begun_s, timeout_s=30, what="sackd to have the files")
    wait(lambda: _starts(stack) > starts, timeout_s=30, what="sackd to run with the new configuration")


def _login_containers(stack: Stack) -> list[tuple[str, int]]:
    statuses = stack.kubectl.json("pod", f"{stack.release}-login-0", "-n", stack.namespace)["status"]
    return [(status["containerID"], status["restartCount"]) for status in statuses["containerStatuses"]]


def test_a_reconfigure_of_slurm_ends_no_session(stack: Stack) -> None:
    before, told = _login_containers(stack), _sackd_logs(stack).count("reconfigure requested")
    _reconfigure(stack)
    assert _sackd_logs(stack).count("reconfigure requested") > told, "slurmctld did not send the files"
    wait(lambda: stack.login("sinfo --noheader"), timeout_s=20, what="Slurm to answer in the login pod")
    assert _login_containers(stack) == before


def test_a_slurmctld_that_was_killed_knows_the_login_pod_again(stack: Stack) -> None:
    """slurmctld is killed right after it sent a change to sackd, so the change cannot come from the next slurmctld."""
    before = _login_containers(stack)
    wait(lambda: stack.login("sinfo --noheader"), timeout_s=20, what="Slurm to answer in the login pod")
    _reconfigure(stack)
    starts = _starts(stack)
    kill(stack, "slurmctld")
    wait(lambda: _starts(stack) > starts, timeout_s=90, what="sackd to register again")
    wait(lambda: stack.login("sinfo --noheader"), timeout_s=20, what="Slurm to answer in the login pod")
    _reconfigure(stack)
    assert _login_containers(stack) == before


def test_a_second_cluster_may_not_take_the_name_of_the_scheduler(stack: Stack) -> None:
    manifest = stack.helm("get", "manifest", stack.release, "-n", stack.namespace)
    assert f"sunkpy:scheduler-name:{stack.scheduler_name}" in manifest
    values = yaml.safe_load(stack.helm("get", "values", stack.release, "-n", stack.namespace, "--output", "yaml"))
    images = yaml.safe_dump({"images": values["images"]})
    with pytest.raises(CommandFailed, match=r"sunkpy:scheduler-name.*exists and cannot be imported"):
        stack.helm(
            "install", "thief", str(ROOT / "charts" / "slurm"), "-n", "default", "--no-hooks", "--dry-run=server",
            "--set", f"scheduler.name={stack.scheduler_name}", "--values=-", stdin=images,
        )  # fmt: skip
