"""A job that Slurm takes back from its nodes, because pods leave them just then, begins seconds after they have left.

Slurm itself would try it two minutes later. While pods are there nothing of it begins.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from devcluster.waiting import NeverSo, wait
from tests.integration.slurm.site import Site
from tests.roots import RELEASE

pytestmark = pytest.mark.integration

SOON_S = 60
"""How long it may take on a loaded machine: half of what Slurm waits."""
NODES = ("c1", "c2", "c3")
OLD_JOB = 9_999_999
PODS = """\
for node in c1 c2 c3; do
  sbatch --partition=low --nodelist=$node --exclusive --mem=100 --output=/dev/null --no-requeue --wrap 'exec sleep 300'
done
"""
LEAVE = """\
#!/bin/bash
if [ "$SLURM_JOB_PARTITION" = low ]; then while [ -e /var/tmp/pods ]; do sleep 0.1; done; fi
"""
HETEROGENEOUS = """\
cd; rm -f ran; cat > parts.sh <<'END'
#!/bin/bash
#SBATCH --partition=high --exclusive --mem=100 --output=/dev/null --nodelist={first}
#SBATCH hetjob
#SBATCH --partition=high --exclusive --mem=100 --output=/dev/null --nodelist={second}
srun --het-group=0,1 touch ran
END
sbatch --parsable parts.sh
"""
TWO_NODES = """\
cd; rm -f ran
sbatch --parsable --nodelist=c1,c2 --nodes=2 --mem=100 --output=/dev/null --wrap 'touch ran'
"""


class Gate:
    """A scheduler that knows one thing: whether pods are still there. `waits`: the nodes that have asked."""

    def __init__(self) -> None:
        self.waits: set[str] = set()
        self.is_open = threading.Event()
        gate = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                gate.waits.add(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["node"])
                done = gate.is_open.wait(1)
                body = json.dumps({"done": done}).encode()
                self.send_response(200 if done else 202)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                with contextlib.suppress(BrokenPipeError):  # who asked was killed
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def pods(site: Site) -> Iterator[Path]:
    """While this file is there, what runs in the lower partition does not leave its node."""
    scripts = [site.root_of(node) / "etc/sunkpy/site/epilog.d/60-leave" for node in NODES]
    for script in scripts:
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(LEAVE)
        script.chmod(0o755)
    pods = site.slurm.root / "var/tmp/pods"
    pods.touch()
    yield pods
    pods.unlink(missing_ok=True)
    asyncio.run(site.clear())
    for script in scripts:
        script.unlink()


@pytest.fixture
def gate(site: Site) -> Iterator[Gate]:
    """Where all nodes ask, as each has a mark of a job whose pods may be there."""
    gate = Gate()
    settings = {site.root_of(node) / "etc/sunkpy/hooks.env": "" for node in NODES}
    marks = [site.root_of(node) / f"var/lib/sunkpy/markers/{OLD_JOB}" for node in NODES]
    for env in settings:
        settings[env] = env.read_text()
        env.write_text(f"{settings[env]}SUNKPY_HOOKS_URL={gate.url}\ntoken_file=/etc/hostname\n")
    for mark in marks:
        mark.touch()
    yield gate
    gate.is_open.set()
    asyncio.run(site.clear())
    with contextlib.suppress(OSError):  # of a slurmd that was killed nothing is left
        for mark in marks:
            mark.unlink()
    for env, text in settings.items():
        with contextlib.suppress(OSError):
            env.write_text(text)
    gate.server.shutdown()
    gate.server.server_close()


@pytest.mark.parametrize(("first", "second"), [("c1", "c2"), ("c1,c2", "c3")])
def test_a_heterogeneous_job_begins_once_the_pods_have_left(site: Site, pods: Path, first: str, second: str) -> None:
    """Slurm starts its first part once the pods of that have left, and takes it back, as the other preempts as well."""
    shell(site, "bob", PODS)
    happens(site, lambda: states(site, "bob") == ["RUNNING"] * 3, "the nodes have pods")
    job = shell(site, "ann", HETEROGENEOUS.format(first=first, second=second))
    happens(site, lambda: "COMPLETING" in states(site, "bob"), "the job preempts")
    assert not has_run(site)
    pods.unlink()
    left_s = time.time()
    happens(site, lambda: has_run(site), "it has run")
    assert time.time() - left_s < SOON_S
    log = (site.slurm.root / "var/log/slurmctld.log").read_text()
    assert re.search(rf"setting begin to .* for JobId={job}\+0\({job}\)", log), "Slurm takes no part back any more"


def test_a_job_that_is_queued_again_at_its_gates_begins_once_all_let_it(site: Site, gate: Gate) -> None:
    """As `requeue-lost` does it. Until the Prologs have ended everywhere, there is no next start."""
    job = shell(site, "ann", TWO_NODES)
    happens(site, lambda: gate.waits == {"c1", "c2"}, "the job waits on both nodes")
    assert site.slurm.run_as("slurm", "scontrol", "requeue", job) == (0, "")
    with ThreadPoolExecutor() as threads:
        begun = threads.submit(site.slurm.run_as, "slurm", "begin-soon", job)
        back_s = time.time()
        # Longer than a start that is asked for at once would be put off.
        happens(site, lambda: time.time() - back_s > 15, "time has passed")
        assert (states(site, "ann"), has_run(site)) == (["COMPLETING"], False)
        gate.is_open.set()
        opened_s = time.time()
        assert begun.result(SOON_S) == (0, "")
    happens(site, lambda: has_run(site), "it has run")
    assert time.time() - opened_s < SOON_S


def test_a_job_at_the_gate_begins_soon_when_slurmd_runs_itself_again(site: Site, gate: Gate) -> None:
    """A slurmd of 24.11 forgets the Prolog, and the job is queued again; one of 26.05 waits for the Prolog."""
    job = shell(site, "ann", TWO_NODES)
    happens(site, lambda: gate.waits == {"c1", "c2"}, "the job waits on both nodes")
    site.slurm.run_as("slurm", "scontrol", "reconfigure")
    if RELEASE == "24.11":
        happens(site, lambda: field(site, job, "Restarts") == "1", "the job is queued again")
    assert not has_run(site)
    gate.is_open.set()
    opened_s = time.time()
    happens(site, lambda: has_run(site), "it has run")
    assert time.time() - opened_s < SOON_S


def happens(site: Site, check: Callable[[], bool], what: str) -> None:
    try:
        wait(check, timeout_s=160, what=what)
    except NeverSo as error:
        queue = site.slurm.run_as("slurm", "scontrol", "-o", "show", "job")
        raise AssertionError(f"{error}:\n{queue[1]}\n{site.logs()}") from None


def shell(site: Site, user: str, script: str) -> str:
    code, said = site.shell(user, script)
    assert code == 0, said
    return said.strip()


def states(site: Site, user: str) -> list[str]:
    return shell(site, user, f"squeue --noheader --user={user} --format=%T").split()


def field(site: Site, job: str, name: str) -> str:
    record = site.slurm.run_as("slurm", "scontrol", "-o", "show", "job", job)[1]
    return record.partition(f" {name}=")[2].partition(" ")[0]


def has_run(site: Site) -> bool:
    return (site.slurm.root / "home/ann/ran").exists()
