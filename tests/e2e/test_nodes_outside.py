"""A slurmd on a machine that is no node of Kubernetes: people's jobs run there, pods do not."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.stack import Stack
from devcluster.waiting import wait, wait_until
from sunkpy.core.model.objects import Pod
from tests.e2e import workloads
from tests.integration.slurm.daemons import unpack

pytestmark = [pytest.mark.e2e, pytest.mark.long]

NAME = "bare-1"
SLURMD = """\
hostname "$2"
for folder in dev sys; do mount --rbind "/$folder" "$1/$folder"; done
mount -t proc proc "$1/proc"
mount -t tmpfs tmpfs "$1/run"
exec chroot "$1" /usr/sbin/slurmd -D -Z -N "$2" --conf-server "$3" --conf "CPUs=2 RealMemory=4000 Feature=bare"
"""


@pytest.fixture
def bare(stack: Stack, tmp_path: Path) -> Iterator[str]:
    """The machine itself, which is outside of the pods' network as its router. As docs/tasks/nodes-outside.md says."""
    root = tmp_path / "root"
    unpack(stack.suite, ("slurmd",), root)
    server = f"{stack.release}-slurmctld"
    pods = {pod.name: pod.status.pod_ip for pod in stack.kubectl.list(Pod, "pods", "-n", stack.namespace)}
    (root / "etc/hosts").write_text(f"127.0.0.1 localhost {NAME}\n{pods[f'{server}-0']} {server}\n")
    secret = json.loads(
        stack.kubectl("get", "secret", f"{stack.release}-slurm-key", "-n", stack.namespace, "-o", "json")
    )
    (root / "etc/sunkpy").mkdir(exist_ok=True)
    (root / "etc/sunkpy/gres.conf").touch()
    key = root / "etc/slurm/slurm.key"
    key.parent.mkdir(exist_ok=True)
    key.write_bytes(base64.b64decode(secret["data"]["slurm.key"]))
    key.chmod(0o600)
    subprocess.run(["chroot", str(root), "chown", "slurm:slurm", "/etc/slurm/slurm.key"], check=True)
    argv = [
        "unshare",
        "--mount",
        "--uts",
        "--pid",
        "--fork",
        "--kill-child",
        "bash",
        "-ec",
        SLURMD,
        "-",
        str(root),
        NAME,
        server,
    ]
    with (tmp_path / "log").open("w") as log, subprocess.Popen(argv, stdout=log, stderr=log) as slurmd:
        try:
            is_there = lambda: stack.slurm_nodes().get(NAME, {}).get("State", "").startswith("IDLE")  # noqa: E731
            assert wait_until(is_there, timeout_s=60), (tmp_path / "log").read_text()[-3000:]
            yield NAME
        finally:
            slurmd.kill()
            slurmd.wait()
            stack.scontrol("delete", f"nodename={NAME}")


def test_jobs_run_there_and_pods_wait_for_nodes_of_kubernetes(stack: Stack, bare: str) -> None:
    assert stack.login("srun --constraint=bare hostname").strip() == bare
    job = stack.sbatch("--constraint=bare", "--output=/dev/null", script="hostname")
    assert stack.wait_for_job(job, "COMPLETED")["NodeList"] == bare

    own = sorted(set(stack.slurm_nodes()) - {bare})
    stack.scontrol("update", f"nodename={','.join(own)}", "state=drain", "reason=outside")
    try:
        pod = workloads.pod("inside", image=stack.images["sunkpy"], scheduler=stack.scheduler_name, command=["true"])
        stack.kubectl.apply(pod)
        waits = lambda: [each for each in stack.jobs().values() if each["JobState"] == "PENDING"]  # noqa: E731
        (queued,) = wait(waits, timeout_s=30, what="its job")
        reason = lambda: stack.job(int(queued["JobId"]))["Reason"] not in ("None", "Priority")  # noqa: E731
        wait(reason, timeout_s=60, what="slurmctld has tried it")
        assert stack.job(int(queued["JobId"]))["JobState"] == "PENDING"
    finally:
        stack.scontrol("update", f"nodename={','.join(own)}", "state=resume")
    phase = ("get", "pod", "inside", "-n", workloads.NAMESPACE, "-o", "jsonpath={.status.phase}")
    wait(lambda: stack.kubectl(*phase) == "Succeeded", timeout_s=60, what="the pod to have run")
    stack.kubectl("delete", "pod", "inside", "-n", workloads.NAMESPACE)
