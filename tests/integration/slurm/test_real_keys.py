"""Keys are replaced as docs/tasks/keys.md says, and each daemon takes them at another time: jobs go on."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from devcluster.waiting import wait, wait_until
from sunkpy.slurm.auth import MintedToken
from tests.integration.slurm.daemons import NODE, ROOT, RealSlurm, give
from tests.integration.slurm.faults.saboteur import signal_slurmctld
from tests.integration.slurm.site import NODES, POD, Site
from tests.integration.slurm.test_accounting_faults import recorded
from tests.integration.slurm.test_forgotten_jobs import SCRIPT, begin, state

pytestmark = [pytest.mark.integration, pytest.mark.long]

SUITE: Final = os.environ.get("SLURM_SUITE", "trixie")
FIRST, SECOND = (node.name for node in NODES[:2])
USER1: Final = 65520
MAKE: Final = """\
kubectl() { # -n slurm get secret …, or -n slurm create secret generic <name> --from-file=<key>=/dev/stdin
  if [ "$3" = get ]; then base64 -w 0 "$5/slurm.key"; return; fi
  local key=${7#--from-file=}
  mkdir "$6" && cat > "$6/${key%=/dev/stdin}"
}
export -f kubectl
"$1" slurm old slurm-key
"""


@pytest.fixture(scope="module")
def own_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    site = Site(tmp_path_factory.mktemp("keys"), nodes=NODES[:2], slurmctld=POD)
    asyncio.run(site.settle())
    yield site
    site.stop()


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealSlurm]:
    """A slurmd whose jobs outlive it, as they do on a machine outside Kubernetes."""
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    slurm = RealSlurm(tmp_path_factory.mktemp("outside"), SUITE)
    yield slurm
    slurm.stop()


def make_secrets(folder: Path, key: Path) -> tuple[Path, ...]:
    """A folder for the Secret of each step; the last is that of before."""
    (folder / "old").mkdir(parents=True)
    shutil.copyfile(key, folder / "old/slurm.key")
    script = ROOT / "docs/examples/replace-slurm-key.sh"
    subprocess.run(["bash", "-euc", MAKE, "-", script], cwd=folder, check=True)
    return (*(folder / f"slurm-key-{step}" for step in (1, 2, 3)), folder / "old")


def take(folder: Path, secret: Path) -> None:
    """Daemons that start have this Secret, as in a pod of theirs."""
    drop(folder)
    for file in secret.iterdir():
        give(folder / file.name, file.read_bytes(), 401)


def drop(folder: Path) -> None:
    for name in ("slurm.key", "slurm.jwks"):
        (folder / name).unlink(missing_ok=True)


def restart_slurmctld(slurm: RealSlurm) -> None:
    starts = slurm.starts("slurmctld")
    slurm.send("TERM", "slurmctld")
    answers = lambda: slurm.run_as("slurm", "scontrol", "ping")[0] == 0  # noqa: E731
    wait(lambda: slurm.starts("slurmctld") > starts and answers(), timeout_s=60, what="slurmctld to be back")


def restart_slurmd(slurm: RealSlurm, node: str, tell: Callable[[str], None]) -> None:
    before = slurmd_since(slurm, node)
    end_slurmd(tell, lambda: slurmd_since(slurm, node) not in ("", "None", before), what=f"{node} to register")


def end_slurmd(tell: Callable[[str], None], is_back: Callable[[], bool], *, what: str) -> None:
    """As a kubelet does it: slurmd 24.11 may hang for two minutes as it ends just after a step."""
    tell("TERM")
    if not wait_until(is_back, timeout_s=15):
        tell("KILL")
    wait(is_back, timeout_s=60, what=what)


def slurmd_since(slurm: RealSlurm, node: str) -> str:
    """When the slurmd started that registered last."""
    shown = slurm.run_as("slurm", "scontrol", "--oneliner", "show", "node", node)[1]
    return shown.partition("SlurmdStartTime=")[2].partition(" ")[0]


def run_step(site: Site) -> None:
    """Run a job step on both nodes, as somebody who has logged in."""
    code, said = site.shell("ann", f"srun --mem=10 --nodes=2 --nodelist={FIRST},{SECOND} hostname")
    assert (code, sorted(said.split())) == (0, [FIRST, SECOND]), said + site.logs()


def restart_slurmdbd(site: Site) -> None:
    """Restart slurmdbd, and sackd, which reads its files from the same folder here."""
    drop(site.slurm.root / "etc/slurm")
    site.accounting.slurmdbd.terminate()
    site.accounting.slurmdbd.wait()
    site.accounting.start_slurmdbd()
    socket = site.slurm.root / "run/slurm/sack.socket"
    before = socket.stat().st_mtime_ns
    site.slurm.send("TERM", "sackd")
    wait(lambda: socket.exists() and socket.stat().st_mtime_ns != before, timeout_s=20, what="sackd to start again")


def test_a_job_goes_on_while_jwt_key_is_replaced(own_site: Site):
    site, file = own_site, own_site.slurm.root / "keys/jwt.key"
    token = MintedToken(site.slurm.key_file, user="ann").token()
    job = begin(site, SCRIPT)
    ask = f"SLURM_JWT={token} squeue --noheader --format=%A --jobs={job}"
    assert site.shell("ann", ask) == (0, f"{job}\n")
    give(file, os.urandom(32), 401)
    restart_slurmdbd(site)
    signal_slurmctld(site, "TERM")
    assert state(site, job) == "RUNNING"
    assert site.shell("ann", ask)[0] != 0, "the old key is refused"
    site.shell("ann", "cd; touch go")
    wait(lambda: recorded(site, job).startswith("COMPLETED"), timeout_s=30, what="its record")


def test_jobs_go_on_while_one_daemon_after_the_other_takes_the_keys_of_the_next_step(own_site: Site, tmp_path: Path):
    site, keys = own_site, own_site.slurm.root / "keys"
    *steps, old = make_secrets(tmp_path / "secrets", keys / "slurm.key")
    for step in steps:
        job = begin(site, SCRIPT)
        take(keys, step)
        signal_slurmctld(site, "TERM")
        run_step(site)
        restart_slurmdbd(site)
        run_step(site)
        restart_slurmd(site.slurm, SECOND, lambda name: signal_slurmd(site, SECOND, name))
        run_step(site)
        site.shell("ann", "cd; touch go")  # its pod is drained
        wait(lambda: state(site, job) == "COMPLETED", timeout_s=30, what="the job to end")  # noqa: B023
        restart_slurmd(site.slurm, FIRST, lambda name: signal_slurmd(site, FIRST, name))
        run_step(site)
        wait(lambda: recorded(site, job).startswith("COMPLETED"), timeout_s=30, what="its record")  # noqa: B023
    take(keys, old)
    refusals = refused(site.slurm)
    is_refused = lambda: refused(site.slurm) > refusals  # noqa: E731
    end_slurmd(lambda name: signal_slurmd(site, SECOND, name), is_refused, what="slurmctld to refuse the old key")


def signal_slurmd(site: Site, node: str, name: str) -> None:
    site.signal_slurmd(node, signal.Signals[f"SIG{name}"])


def refused(slurm: RealSlurm) -> int:
    """How many tokens slurmctld has not believed."""
    return (slurm.root / "var/log/slurmctld.log").read_text().count("decode_jwt() failed")


def test_a_job_outlives_its_slurmd_whose_keys_are_replaced(outside: RealSlurm, tmp_path: Path):
    etc, slurm = outside.root / "etc/slurm", outside
    *steps, old = make_secrets(tmp_path / "secrets", etc / "slurm.key")
    wait(lambda: slurmd_since(slurm, NODE) not in ("", "None"), timeout_s=60, what="the node to register")
    script = "until [ -e /var/tmp/go ]; do sleep 0.1; done"
    job = slurm.as_user(USER1, "sbatch", "--parsable", "--mem=10", "--output=/dev/null", "--wrap", script)
    show = ("squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job}")
    for step in steps:
        take(etc, step)
        restart_slurmctld(slurm)
        slurm.as_user(USER1, "srun", "--mem=10", "true")
        restart_slurmd(slurm, NODE, lambda name: slurm.send(name, "slurmd"))
        slurm.as_user(USER1, "srun", "--mem=10", "true")
        assert slurm.as_user(USER1, *show) == "RUNNING"
    (slurm.root / "var/tmp/go").touch()
    wait(lambda: slurm.as_user(USER1, *show) == "COMPLETED", timeout_s=30, what="the job to end")
    take(etc, old)
    is_refused = lambda: refused(slurm) > 0  # noqa: E731
    end_slurmd(lambda name: slurm.send(name, "slurmd"), is_refused, what="slurmctld to refuse the old key")
    with pytest.raises(AssertionError, match="uthentication"):
        slurm.as_user(USER1, "squeue")
