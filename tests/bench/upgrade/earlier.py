"""An earlier commit of sunkpy: its charts and images, installed by its own code."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from demo.report import Tell
from demo.stack import OPERATOR_NAMESPACE, ROOT, Stack
from devcluster.cluster import Cluster
from devcluster.shell import run
from tests.bench import report
from tests.e2e import workloads
from tests.e2e.agreement import wait_for_agreement

_BUILD_S: Final = 3600
_ROLLED_BACK_S: Final = 240.0
_INSTALL: Final = """\
import json, sys
from pathlib import Path
from demo.bring_up import install, slurm_values
from demo.stack import Stack
told = json.load(sys.stdin)
kubeconfig, bin_dir = map(Path, told["paths"])
stack = Stack(suite=told["suite"], kubeconfig=kubeconfig, bin_dir=bin_dir, images=told["images"])
install(stack, print, slurm={**slurm_values(stack), **told["values"]})
"""


class Earlier:
    """An earlier commit of sunkpy in a folder of its own, with its images for one version of Slurm."""

    def __init__(self, folder: Path, suite: str) -> None:
        self._folder, self._suite = folder, suite
        self._python = str(folder / ".venv/bin/python")
        run([str(folder / "tools/bootstrap"), "python3"], cwd=folder, timeout_s=_BUILD_S)
        build = ("slurm-images/build", "--suite", suite, "--only", "slurm", "mariadb", "sunkpy")
        run([self._python, *build], cwd=folder, timeout_s=_BUILD_S)
        built = json.loads((folder / "build/images/images.json").read_text())[suite]
        self.images = {name: image["ref"] for name, image in built.items()}
        self.archives = sorted({Path(image["archive"]) for image in built.values()})

    def install(self, cluster: Cluster, values: Mapping[str, object]) -> None:
        """Install both charts of the earlier commit; `values` are added to the demo's values of charts/slurm."""
        told = {
            "suite": self._suite, "paths": [str(cluster.kubeconfig), str(cluster.bin)],
            "images": self.images, "values": values,
        }  # fmt: skip
        run([self._python, "-c", _INSTALL], stdin=json.dumps(told), cwd=self._folder, timeout_s=900)


@contextlib.contextmanager
def checked_out(commit: str, suite: str, tell: Tell) -> Iterator[Earlier]:
    """Yield an earlier commit in a temporary folder, with its images, which take minutes to build."""
    with tempfile.TemporaryDirectory(prefix="earlier-") as temporary:
        folder = Path(temporary, "sunkpy")
        run(["git", "worktree", "add", "--detach", str(folder), commit], cwd=ROOT)
        try:
            tell(f"images of {commit}")
            yield Earlier(folder, suite)
        finally:
            run(["git", "worktree", "remove", "--force", str(folder)], cwd=ROOT)


def go_back(stack: Stack) -> report.Figure:
    """Roll both charts back to their first revision by `helm rollback`, while a job and a service run. Return a
    figure of what this ended.
    """
    pod = workloads.pod(
        "serves", image=stack.images["sunkpy"], scheduler=stack.scheduler_name, command=["sleep", "infinity"],
        restart_policy="Always",
    )  # fmt: skip
    stack.kubectl.apply(pod)
    service = workloads.wait_for_running(stack, "serves")
    job = stack.sbatch("--output=/dev/null", script="sleep 90")
    stack.wait_for_job(job, "RUNNING")
    for release, namespace in (("sunkpy", OPERATOR_NAMESPACE), (stack.release, stack.namespace)):
        stack.helm("rollback", release, "1", "-n", namespace, "--wait", "--timeout=5m")
    wrong = []
    if stack.wait_for_job(job, "COMPLETED", "FAILED", "NODE_FAIL", "PENDING", timeout_s=180)["JobState"] != "COMPLETED":
        wrong.append(f"job {job}")
    wait_for_agreement(stack, timeout_s=_ROLLED_BACK_S, after="a rollback")
    if workloads.wait_for_running(stack, "serves").uid != service.uid:
        wrong.append("the service")
    new = stack.sbatch("--output=/dev/null", script="true")
    stack.wait_for_job(new, "COMPLETED")
    return report.none("jobs and pods that a rollback of both charts ended", wrong, n=2)
