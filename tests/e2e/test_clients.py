"""Programs that people bring along and that bring jobs themselves, from the login pod of a real cluster.

They are installed in ann's home as she would with pip, but from outside: a login pod of these tests has no internet.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import httpx
import pytest

from demo import person
from demo.person import CLIENT, NAME, forwarded
from demo.stack import Stack
from devcluster import packages
from devcluster.waiting import NotYet, wait
from tests.integration.slurm.daemons import free_ports

pytestmark = [pytest.mark.e2e, pytest.mark.long]

LOCKS: Final = Path(__file__).with_name("clients")
DASK: Final = """\
import os, time
from dask_jobqueue import SLURMCluster
from distributed import Client

def work(n):
    time.sleep(0.5)
    return n * n, os.environ["SLURM_JOB_ID"]

if __name__ == "__main__":
    with SLURMCluster(queue="low", cores=1, memory="512MB", walltime="00:05:00") as cluster, Client(cluster) as client:
        cluster.scale(jobs=2)
        client.wait_for_workers(2, timeout=120)
        done = client.gather(client.map(work, range(8)))
        print([square for square, _ in done], len({job for _, job in done}))
"""
SNAKEFILE: Final = """\
rule all:
    input: "both"
rule both:
    input: expand("part-{n}", n=[1, 2])
    output: "both"
    shell: "cat {input} > {output}"
rule part:
    output: "part-{n}"
    shell: "echo {wildcards.n} $SLURM_JOB_USER > {output}"
"""
PORT: Final = 8888
TOKEN: Final = "of-this-notebook"


class Ann:
    """Who has logged in by ssh, in a folder of her own."""

    def __init__(self, stack: Stack, port: int) -> None:
        self._stack = stack
        self._argv = person.ssh(person.key(), "-p", str(port), f"{NAME}@127.0.0.1")

    def says(self, command: str, *, stdin: bytes = b"", timeout_s: float = 300) -> str:
        """What a command printed, of both kinds."""
        argv = [*self._argv, f"mkdir -p ~/clients; cd ~/clients; {command}"]
        done = subprocess.run(
            argv, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=timeout_s
        )
        text = done.stdout.decode()
        assert done.returncode == 0, text
        return text

    def installs(self, lock: str, folder: Path, *, built: Sequence[str] = ()) -> None:
        """Packages for the Python of the login pod; those that have no wheel are `built`, and hold Python alone."""
        version = self.says("python3 -c 'import sys; print(*sys.version_info[:2], sep=\".\")'").strip()
        only = ("--only-binary", ":all:", *(word for name in built for word in ("--no-binary", name)))
        where = ("--python-version", version, "--python-platform", "x86_64-manylinux_2_28", "--target", str(folder))
        uv = [sys.executable, "-m", "uv", "pip", "install", "--system-certs", "--quiet", *only, *where]
        subprocess.run([*uv, "-r", str(LOCKS / lock)], check=True)
        packed = subprocess.run(["tar", "-C", str(folder), "-c", "."], stdout=subprocess.PIPE, check=True).stdout
        self.says("rm -rf lib; mkdir lib; tar -x -C lib", stdin=packed)

    def tunnel(self, to: str) -> subprocess.Popen[bytes]:
        """`ssh -N -L <a port of this machine>:<to>`."""
        return subprocess.Popen([*self._argv[:-1], "-N", "-L", to, self._argv[-1]], stdin=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def ann(stack: Stack) -> Iterator[Ann]:
    packages.ensure(CLIENT, progress=print)
    with forwarded(stack) as port:
        ann = Ann(stack, port)

        def comes() -> bool:
            try:
                return ann.says("echo in", timeout_s=30) == "in\n"
            except AssertionError as error:
                raise NotYet(str(error)) from error

        wait(comes, timeout_s=120, what=f"{NAME} to come in by ssh")
        yield ann
        ann.says("rm -rf ~/clients")


def test_dask_computes_in_jobs_that_it_submits(ann: Ann, tmp_path: Path) -> None:
    ann.installs("dask-and-jupyter.txt", tmp_path)
    ann.says("cat > run.py", stdin=DASK.encode())
    said = ann.says("export PYTHONPATH=$PWD/lib; python3 run.py")
    assert said.splitlines()[-1] == "[0, 1, 4, 9, 16, 25, 36, 49] 2", said


def test_snakemake_runs_its_rules_as_jobs(stack: Stack, ann: Ann, tmp_path: Path) -> None:
    if stack.suite == "sid":
        pytest.skip("immutables, which Snakemake needs, has no wheel for Python 3.14")
    ann.installs("snakemake.txt", tmp_path, built=["connection-pool"])
    ann.says("cat > Snakefile", stdin=SNAKEFILE.encode())
    options = "--executor slurm --jobs 2 --default-resources slurm_partition=low runtime=5 mem_mb=100"
    ann.says(f"export PYTHONPATH=$PWD/lib; python3 -m snakemake {options} --latency-wait 30")
    assert ann.says("cat both") == f"1 {NAME}\n2 {NAME}\n"


def test_a_notebook_in_a_job_is_reached_through_the_login_pod(stack: Stack, ann: Ann, tmp_path: Path) -> None:
    ann.installs("dask-and-jupyter.txt", tmp_path)
    serve = f"python3 -m jupyter_server --ip=0.0.0.0 --port={PORT} --no-browser --IdentityProvider.token={TOKEN}"
    job = int(ann.says(f"export PYTHONPATH=$PWD/lib; sbatch --parsable -p low -t 10 --wrap '{serve}'"))
    node = stack.wait_for_job(job, "RUNNING")["NodeList"]
    (port,) = free_ports(1)
    with ann.tunnel(f"{port}:{node}:{PORT}") as tunnel:
        try:
            status = wait(lambda: _answer(port, token=TOKEN), timeout_s=120, what="an answer of the notebook")
            assert (status, _answer(port, token="wrong")) == (200, 403)
        finally:
            tunnel.terminate()
            stack.cancel_jobs([job])


def _answer(port: int, *, token: str) -> int:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/api/status", headers={"Authorization": f"token {token}"}).status_code
    except httpx.HTTPError as error:
        raise NotYet(str(error)) from error
