"""Two slurmctld on one state folder: one dies, freezes or ends, and the other goes on (real daemons)."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from devcluster.waiting import wait
from tests.integration.slurm.faults.saboteur import untold
from tests.integration.slurm.site import NODES, POD, VALUES, Site
from tests.integration.slurm.test_forgotten_jobs import SCRIPT, begin, state

pytestmark = [pytest.mark.integration, pytest.mark.long]
TWO: Final = {
    **VALUES,
    "slurmctld": {"replicas": 2, "persistence": {"accessModes": ["ReadWriteMany"]}},
    # Both are on this machine; in pods each has all addresses of its own.
    "slurmConfig": {
        **VALUES["slurmConfig"],
        "conf": {**VALUES["slurmConfig"]["conf"], "CommunicationParameters": "NoCtldInAddrAny"},
    },
}
ONE, _, _ = POD.replace(" start-slurmctld\n", " tini -- start-slurmctld\n").rpartition("keep unshare")
BOTH: Final = (
    ONE
    + """\
run() { # as a pod: its machine is away, or it gets a signal, as files say
  while :; do
    while [ -e "/var/tmp/away-$1" ]; do sleep 0.1; done
    unshare --mount --uts --propagation unchanged --pid --fork --kill-child bash -c "hostname $1; pod" >> "$2" 2>&1 &
    local pod=$!
    while kill -0 "$pod" 2> /dev/null; do
      if [ -e "/var/tmp/signal-$1" ]; then
        if grep -q TERM "/var/tmp/signal-$1"; then pkill -TERM -P "$pod"
        else pkill "-$(< "/var/tmp/signal-$1")" --ns "$(pgrep -P "$pod")" --nslist pid; fi
        rm "/var/tmp/signal-$1"
      fi
      sleep 0.1
    done
  done
}
run first /var/log/slurmctld.log &
run second /var/log/slurmctld-second.log &
"""
)
FIRST, SECOND = "first", "second"
TAKE_OVER_S: Final = 60
"""Longest after the last sign of the first: SlurmctldTimeout, which the chart sets to 30 s, and half of it."""


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    site = Site(tmp_path_factory.mktemp("two"), values=TWO, nodes=NODES[:2], slurmctld=BOTH)
    asyncio.run(site.settle())
    wait(lambda: is_up(site, SECOND), timeout_s=60, what="the second to stand by")
    yield site
    site.stop()


def is_up(site: Site, host: str) -> bool:
    """It answers, whichever has control."""
    return f"at {host} is UP" in site.slurm.run_as("slurm", "scontrol", "ping")[1]


def has_control(site: Site, host: str) -> bool:
    """It wrote last that it lives."""
    beat = site.slurm.root / "var/lib/slurm/state/heartbeat"
    try:
        return beat.read_bytes()[15:] == bytes([host == SECOND])
    except FileNotFoundError:  # while it is replaced
        return False


def signal(site: Site, host: str, name: str, *, away: bool = False) -> None:
    """Send a signal to one slurmctld. `away`: it is not started again."""
    if away:
        (site.slurm.root / f"var/tmp/away-{host}").touch()
    (site.slurm.root / f"var/tmp/signal-{host}").write_text(name)


def bring_back(site: Site, host: str) -> None:
    (site.slurm.root / f"var/tmp/away-{host}").unlink()


def submit(site: Site, script: str = "true", *, more: str = "") -> int:
    """Id of a job of ann's that may run on the second node."""
    where = f"--mem=10 --output=/dev/null --nodelist={NODES[1].name} {more}"
    code, said = site.shell("ann", f"cd; sbatch --parsable {where} --wrap '{script}'", timeout_s=90)
    assert code == 0, said + site.logs()
    return int(said)


def seconds(what: str, happens: Callable[[], object]) -> float:
    """How long it took; the log of the test says so, too."""
    began_s = time.monotonic()
    happens()
    took_s = time.monotonic() - began_s
    logging.getLogger(__name__).warning("%s after %.1f s", what, took_s)
    return took_s


def until_control(site: Site, host: str) -> Callable[[], object]:
    return lambda: wait(lambda: has_control(site, host), timeout_s=TAKE_OVER_S, what=f"{host} to have control")


def test_the_second_goes_on_when_the_first_is_killed(two: Site):
    runs = begin(two, SCRIPT)
    waits = submit(two, "sleep 1000")
    blocked = submit(two, more="--hold")
    time.sleep(12)  # it saves every five seconds, and the second looks every ten
    forgotten = max(submit(two, more="--hold") for _ in range(3))
    signal(two, FIRST, "KILL", away=True)
    took_s = seconds("second has control", until_control(two, SECOND))
    assert took_s < TAKE_OVER_S
    given = seconds("a job is taken", lambda: submit(two))
    assert given < TAKE_OVER_S
    assert (state(two, runs), state(two, str(waits)), state(two, str(blocked))) == ("RUNNING", "RUNNING", "PENDING")
    new = submit(two)
    assert new > forgotten + 4000, "what it took in its last seconds it may have forgotten"
    assert asyncio.run(read_jobs(two))[new]
    two.shell("ann", "cd; touch go")
    wait(lambda: state(two, runs) == "COMPLETED", timeout_s=60, what="the job of before to end")
    wait(lambda: state(two, str(new)) == "COMPLETED", timeout_s=60, what="a new job to run")
    wait(lambda: untold(two) == 0, timeout_s=150, what="slurmdbd to be told by the second")


async def read_jobs(site: Site) -> dict[int, object]:
    """As slurmrestd says."""
    client = site.connect("slurm")
    try:
        return dict(await client.jobs_state())
    finally:
        await client.close()


def test_the_first_takes_control_back_when_it_returns(two: Site):
    runs, before = submit(two, "sleep 1000"), submit(two)
    wait(lambda: state(two, str(runs)) == "RUNNING", timeout_s=60, what="the job to begin")
    bring_back(two, FIRST)
    seconds("first has control", until_control(two, FIRST))
    assert seconds("a job is taken", lambda: submit(two)) < 20
    assert submit(two) > before
    assert state(two, str(runs)) == "RUNNING"
    wait(lambda: is_up(two, SECOND), timeout_s=60, what="the second to stand by")


def test_a_restart_of_the_first_takes_seconds(two: Site):
    before = submit(two)
    signal(two, FIRST, "TERM")
    wait(lambda: not is_up(two, FIRST), timeout_s=20, every_s=0, what="the first to end")
    # A command that meets the second alone waits for half of SlurmctldTimeout.
    assert seconds("a job is taken", lambda: submit(two)) < TAKE_OVER_S / 2
    assert (submit(two) > before, has_control(two, FIRST)) == (True, True)


def test_the_second_takes_control_without_slurmdbd(two: Site):
    signal(two, FIRST, "KILL")  # its ids jump, and the second goes on behind them
    wait(lambda: not is_up(two, FIRST), timeout_s=20, every_s=0, what="the first to end")
    seconds("first has control", until_control(two, FIRST))
    last = submit(two)
    time.sleep(20)  # the second looks every ten
    wait(lambda: is_up(two, SECOND), timeout_s=60, what="the second to stand by")
    two.accounting.slurmdbd.kill()
    two.accounting.slurmdbd.wait()
    signal(two, FIRST, "KILL", away=True)
    assert seconds("second has control", until_control(two, SECOND)) < TAKE_OVER_S
    assert submit(two) > last + 4000
    two.accounting.start_slurmdbd()
    bring_back(two, FIRST)
    seconds("first has control", until_control(two, FIRST))
