"""A release, installed and upgraded on a cluster of its own by the commands of the pages, from its registry alone."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from demo.stack import ROOT
from devcluster import Cluster, packages
from devcluster.binaries import REGISTRY
from devcluster.kubectl import Kubectl
from devcluster.layout import SLOTS, Layout
from devcluster.shell import run
from devcluster.storage import STORAGE_CLASS
from devcluster.waiting import NotYet, wait
from tests.integration.registry import certificate_for, registry_in
from tests.integration.releases import prepare, prepared, release, version_of
from tools import oci

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(2400)]

NODES: Final = 3
CLUSTER: Final = os.environ.get("SUNKPY_CLUSTER", "sunkpy")
PROGRAMS: Final = ("helm ", "kubectl ", "sbatch ", "squeue ", "exit", "alias ", "slurm-admin ", "sunkpy ")
ROOTS: Final = Path("/etc/ssl/certs/ca-certificates.crt")
NEXT: Final = "0.1.1"
GANG: Final = """
apiVersion: batch/v1
kind: Job
metadata: {name: training, namespace: default}
spec:
  parallelism: 2
  completions: 2
  template:
    metadata: {annotations: {sunkpy.dev/gang: training, sunkpy.dev/gang-size: "2"}}
    spec:
      schedulerName: slurm
      restartPolicy: Never
      containers: [{name: worker, image: IMAGE, command: [sleep, "3600"], resources: {requests: {cpu: "1"}}}]
"""


def commands(page: str, title: str) -> list[str]:
    """Return the commands in the blocks of a section of a page, without the output that stands below them."""
    text = (ROOT / page).read_text()
    (section,) = re.findall(rf"^##? {title}.*?\n(.*?)(?=^##? |\Z)", text, flags=re.MULTILINE | re.DOTALL)
    blocks = "\n".join(line[4:] for line in section.splitlines() if line.startswith("    "))
    lines = re.sub(r"\\\n *", "", blocks).splitlines()
    return [re.sub(r"  +#.*", "", line) for line in lines if line.startswith(PROGRAMS)]


class Admin:
    """Somebody at a shell with helm, kubectl and sunkpy, who has written down REGISTRY and VERSION."""

    def __init__(self, cluster: Cluster, home: Path, registry: str) -> None:
        path = f"{cluster.bin}:{ROOT / '.venv/bin'}:/usr/bin:/bin"
        self._env = {"KUBECONFIG": str(cluster.kubeconfig), "PATH": path, "REGISTRY": registry, "VERSION": ""}
        self._home = home
        self.kubectl = Kubectl(cluster.kubeconfig, cluster.bin)

    def takes(self, version: str) -> None:
        self._env["VERSION"] = version

    def types(self, *lines: str, stdin: str = "") -> str:
        """Run lines in one shell, which ends at the first that fails; return the output."""
        script = "\n".join(["set -eu; shopt -s expand_aliases", *lines]).replace("exec -it", "exec -i")
        return run(["bash", "-c", script], stdin=stdin, env=self._env, cwd=self._home, timeout_s=900)

    def sees(self, line: str, text: str, *, timeout_s: float = 60) -> str:
        """Repeat a command until its output has the text."""

        def look() -> str:
            said = self.types(line)
            if text not in said:
                raise NotYet(said)
            return said

        return wait(look, timeout_s=timeout_s, what=f"{line}: {text}")


@pytest.fixture
def admin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Admin]:
    """An admin with a cluster that has no image of ours, and a registry with TLS that the nodes trust."""
    cluster = Cluster(f"{CLUSTER}-release", progress=print)
    of_any_slot = [str(Layout(root=cluster.root, name=cluster.name, slot=slot).host_ip) for slot in range(SLOTS)]
    certificate = certificate_for(of_any_slot, tmp_path)
    trusted = tmp_path / "trusted.crt"
    trusted.write_text(ROOTS.read_text() + certificate.file.read_text())
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    packages.ensure(oci.PROGRAMS, progress=print)
    try:
        cluster.up(NODES)
        cluster.binaries.ensure([REGISTRY], progress=print)
        host = str(cluster.layout.host_ip)
        with registry_in(tmp_path, cluster.binaries, host=host, certificate=certificate) as address:
            yield Admin(cluster, tmp_path, f"{address}/sunkpy")
    finally:
        cluster.down()


def _published(clone: Path, admin: Admin, version: str) -> None:
    if version != version_of(clone):
        prepare(clone, version)
    registry = admin.types("echo $REGISTRY").strip()
    release(clone, "--registry", registry, "--suite", "trixie", "--skip-checks", "--unsigned")
    admin.takes(version)


def _pods(admin: Admin, namespace: str, *which: str) -> dict[str, str]:
    """Return the uid and the restarts of each pod by name."""
    said = admin.kubectl(
        "get", "pods", "-n", namespace, *which, "-o",
        "jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.status.containerStatuses[*].restartCount}"
        r'{"\n"}{end}',
    )  # fmt: skip
    return dict(line.split(" ", 1) for line in said.splitlines())


def test_the_pages_install_a_release_and_upgrade_it_under_running_jobs(admin: Admin, tmp_path: Path) -> None:
    start, upgrade = "docs/start.md", "docs/tasks/upgrade.md"
    clone = prepared(tmp_path / "clone")
    _published(clone, admin, version_of(clone))
    _install(admin, start)
    _first_job_pod_and_drain(admin, start)

    image = admin.types("echo $REGISTRY/sunkpy:$VERSION").strip()
    admin.types("kubectl apply -f -", stdin=GANG.replace("IMAGE", image))
    job = admin.types(
        "kubectl -n slurm exec slurm-login-0 -- bash -lc 'sbatch --parsable --wrap \"sleep 3600\"'"
    ).strip()
    admin.sees(f"kubectl -n slurm exec slurm-login-0 -- squeue --noheader --format=%T --jobs {job}", "RUNNING")
    admin.types("kubectl wait --for=jsonpath={.status.ready}=2 job/training --timeout=120s")
    started = admin.types(f"kubectl -n slurm exec slurm-login-0 -- squeue --noheader --format=%S --jobs {job}")
    workers = _pods(admin, "default", "-l", "job-name=training")
    slurm = {name: pod for name, pod in _pods(admin, "slurm").items() if "compute" in name or "slurmctld" in name}

    _published(clone, admin, NEXT)
    operator, plan, chart = (
        line.replace("REGISTRY/", "$REGISTRY/").replace(" VERSION ", " $VERSION ").replace(" -f operator.yaml", "")
        for line in commands(upgrade, "Upgrade")[:3]
    )
    admin.types(operator)
    planned = admin.types(plan)
    admin.types(chart)
    admin.sees("kubectl -n slurm get deployment slurm-scheduler -o yaml", f"/sunkpy:{NEXT}@sha256:")
    admin.types("kubectl -n slurm rollout status deployment/slurm-scheduler --timeout=120s")
    assert _pods(admin, "default", "-l", "job-name=training") == workers
    assert {name: pod for name, pod in _pods(admin, "slurm").items() if name in slurm} == slurm, planned
    running = admin.types(f"kubectl -n slurm exec slurm-login-0 -- squeue --noheader --format=%S --jobs {job}")
    assert running == started
    admin.types("kubectl -n slurm exec slurm-login-0 -- srun --immediate=60 hostname")

    admin.types(*commands(upgrade, "Go back"))
    assert _pods(admin, "default", "-l", "job-name=training") == workers
    assert {name: pod for name, pod in _pods(admin, "slurm").items() if name in slurm} == slurm


def _install(admin: Admin, page: str) -> None:
    admin.types("helm show chart oci://$REGISTRY/charts/slurm --version $VERSION")
    (values,) = re.findall(r"enough for a first look; .*?\n\n    (.*?)\n", (ROOT / page).read_text(), flags=re.DOTALL)
    admin.types("cat > values.yaml", stdin=values.replace("nfs", STORAGE_CLASS))
    for title in ("4\\. ", "5\\. "):
        admin.types(commands(page, title)[0])
    (nodesets, doctor) = commands(page, "6\\. ")
    admin.types(f"{nodesets} -o name")
    admin.types("kubectl -n slurm wait nodeset/compute --for=jsonpath={.status.numberReady}=3 --timeout=300s")
    admin.types(doctor)


def _first_job_pod_and_drain(admin: Admin, page: str) -> None:
    (enter, *_) = commands(page, "7\\. ")
    said = admin.types(enter, stdin="\n".join(commands(page, "8\\. ")) + "\n")
    assert "Submitted batch job 1" in said
    admin.sees("kubectl -n slurm exec slurm-login-0 -- bash -lc 'cat slurm-1.out'", "compute-")

    make, explain, *_ = commands(page, "9\\. ")
    admin.types(make)
    admin.types("kubectl wait pod/hello --for=jsonpath={.status.phase}=Running --timeout=120s")
    assert "RUNNING on compute-" in admin.types(explain)
    admin.types("kubectl delete pod hello --wait=false")

    cordon, reasons, uncordon, admins, drain, nodes, resume = commands(page, "10\\. ")
    admin.types(cordon)
    admin.sees(reasons, "k8s: cordon")
    admin.types(uncordon)
    own = admin.types("kubectl -n slurm exec slurm-login-0 -- sinfo --noheader -N --format=%N").split()[0]
    admin.types(admins, drain.replace("compute-000-011", own))
    admin.sees(nodes, "SchedulingDisabled")
    admin.types(admins, resume.replace("compute-000-011", own))
