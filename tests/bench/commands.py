"""How long sunkpy's commands take as whole processes, at 1,000 nodes, 5,000 jobs and about as many pods.

The doubles of apiserver and slurmrestd send objects as large as real ones, and repeat their first answers, so that only
the command is measured. A real slurmrestd takes 0.6 ms more for each job of a list.
"""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from tests.bench import report
from tests.doubles.serving import answering, serving
from tests.page_ground import Pool

_ANSWER_S: Final = 1.0
_RUNS: Final = 5
_PODS_OF_A_JOB: Final = 4

_FIELDS: Final[dict[str, object]] = {f"f:sunkpy.example.com/{at}": {} for at in range(120)}
_IMAGES: Final = [{"names": [f"registry.example.com/{at}@sha256:{at:064}"], "sizeBytes": 2**30} for at in range(40)]
_NUMBERS: Final = {f"number_{at}": {"set": False, "infinite": False, "number": 0} for at in range(90)}


async def measure(*, nodes: int, jobs: int) -> list[report.Figure]:
    pool = Pool(nodes=nodes, jobs=jobs)
    waiting = [job for job in pool.slurm.jobs.values() if job["job_state"] == ["PENDING"] and job["user_name"] == "k8s"]
    for job in waiting:
        for at in range(_PODS_OF_A_JOB):
            message = f"Slurm job {job['job_id']} waits: {job['state_reason']}"
            pool.add_pod("team-0", f"{job['name']}-{at}", message=message)
    _make_heavy(pool)
    node, job, figures = pool.free[0], waiting[0], []
    commands = (
        ("status",), ("queue",), ("why-drained",), ("history", node), ("explain", "job", str(job["job_id"])),
        ("explain", "pod", f"{job['name']}-0", "-n", "team-0"), ("explain", "node", node),
        ("explain", "nodeset", "gpu", "-n", "slurm"), ("drain", node, "--reason", "fan", "--dry-run"),
        ("undrain", node, "--dry-run"), ("doctor", "-n", "slurm"),
    )  # fmt: skip
    async with _both_sides(pool) as sides:
        for words in (("--help",), *((*words, *sides) for words in commands)):
            took = [await _spent_s(words) for _ in range(_RUNS + 1)][1:]
            by_clock, busy = (report.median(each) for each in zip(*took, strict=True))
            name = " ".join(("sunkpy", *words[: 2 if words[0] == "explain" else 1]))
            what, why = f"{name}, {nodes} nodes, {jobs} jobs", f"it works for {busy:.2f} s"
            figures.append(report.at_most(what, by_clock, bound=_ANSWER_S, n=_RUNS, limited_by=why))
    return figures


def _make_heavy(pool: Pool) -> None:
    """Add fields that commands do not read, as real objects have: 4 KB to a pod, 9 KB to a node, 6 KB to a job."""
    for body in pool.api.objects.values():
        body["metadata"]["managedFields"] = [{"manager": "kubelet", "fieldsV1": _FIELDS}]
    for (collection, _, _), body in pool.api.objects.items():
        if collection == "nodes":
            body["status"]["images"] = _IMAGES
    for job in pool.slurm.jobs.values():
        job |= _NUMBERS


@asynccontextmanager
async def _both_sides(pool: Pool) -> AsyncIterator[Sequence[str]]:
    """Serve both doubles, and yield the options by which a command reaches them."""
    remembered, app = _remembering(), pool.slurm.app()
    app.middlewares.append(remembered)
    with TemporaryDirectory() as folder:
        key, settings = Path(folder) / "jwt.key", Path(folder) / "config.yaml"
        key.write_bytes(b"k" * 32)
        api = answering(lambda request: remembered(request, pool.api.handle), Path(folder))
        async with api as kubeconfig, serving(app) as port:
            slurm = f"{{url: 'http://127.0.0.1:{port}', user: k8s, jwtKeyFile: {key}}}"
            settings.write_text(f"{{cluster: c1, namespace: slurm, slurm: {slurm}}}")
            yield "--kubeconfig", str(kubeconfig), "--config", str(settings)


def _remembering() -> Middleware:
    known: dict[tuple[str, str], Any] = {}

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method != "GET":
            return await handler(request)
        asked = request.path_qs, request.headers.get("Accept", "")
        if asked not in known:
            known[asked] = await handler(request)
        return web.Response(status=known[asked].status, body=known[asked].body, content_type="application/json")

    return answer


async def _spent_s(words: Sequence[str]) -> tuple[float, float]:
    """Run a command. Return its seconds by the clock, and its processor seconds. Exit code 2 counts as an answer,
    because a check ends with it if something is wrong.

    Raises:
        RuntimeError: there was no answer.
    """
    environment = {name: value for name, value in os.environ.items() if name != "SSL_CERT_FILE"}
    program = Path(sys.executable).with_name("sunkpy")
    started_s, before_s = time.monotonic(), _busy_s()
    process = await asyncio.create_subprocess_exec(
        program, *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    said, problem = await process.communicate()
    took_s, busy_s = time.monotonic() - started_s, _busy_s() - before_s
    if process.returncode not in (0, 2) or problem or not said:
        raise RuntimeError(f"sunkpy {' '.join(words)}: {process.returncode}: {problem.decode()}")
    return took_s, busy_s


def _busy_s() -> float:
    """Return the processor seconds of all child processes that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime
