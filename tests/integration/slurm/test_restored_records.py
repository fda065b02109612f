"""The database goes back to a backup under a slurmctld whose jobs go on: each job has its own record, or none."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from devcluster.waiting import NotYet, wait
from tests.integration.slurm.daemons import NODE, ONE_SLURMD, Machines, RealAccounting, RealSlurm

pytestmark = [pytest.mark.integration, pytest.mark.long]

SUITE = os.environ.get("SLURM_SUITE", "trixie")
KEEP_SLURMD = f"keep /usr/sbin/slurmd -D -Z -N {NODE} --conf 'CPUs=8 RealMemory=1000' >> /var/log/slurmd.log 2>&1 &\n"
MACHINES = Machines(conf=ONE_SLURMD.conf, start=KEEP_SLURMD, files=ONE_SLURMD.files)


class Site:
    """Jobs of the site run until a test ends them."""

    def __init__(self, folder: Path) -> None:
        self.accounting = RealAccounting(folder, SUITE)
        self.slurm = RealSlurm(folder, SUITE, self.accounting, machines=MACHINES)
        wait(lambda: self.accounting.sacctmgr("show", "cluster"), timeout_s=60, what="slurmctld's cluster")
        self.accounting.sacctmgr("add", "account", "team")
        self.accounting.sacctmgr("add", "user", "slurm", "account=team")

    def submit(self, name: str) -> None:
        script = f"until [ -e /var/tmp/end-{name} ]; do sleep 0.2; done"
        args = (f"--job-name={name}", "--output=/dev/null", "--chdir=/tmp", "--account=team", "--mem=10", "--ntasks=1")
        self.accounting.output("sbatch", *args, f"--wrap={script}")

    def begin(self, name: str) -> None:
        """A job of this name runs, and slurmdbd knows that."""
        self.submit(name)
        wait(lambda: (name, "RUNNING") in self.records(), timeout_s=90, what=f"{name} to be on record as running")

    def let_end(self, name: str) -> None:
        (self.slurm.root / f"var/tmp/end-{name}").touch()

    def end(self, name: str) -> None:
        """It ends, and slurmctld knows that."""
        self.let_end(name)
        ask = ("squeue", "--noheader", "--states=all", "--format=%T", f"--name={name}")
        wait(lambda: self.accounting.output(*ask).strip() == "COMPLETED", timeout_s=90, what=f"the end of {name}")

    def restart_slurmdbd(self) -> None:
        self.accounting.slurmdbd.terminate()
        self.accounting.slurmdbd.wait()
        self.accounting.start_slurmdbd()

    def records(self) -> list[tuple[str, str]]:
        """Name and state of each record, also of several for one job."""
        return self.accounting.records("jobname")

    def wait_for_records(self, *names: str, others: bool = False) -> None:
        """Each of these has ended and is on record once; `others` may be, too, but not twice."""

        def are_there() -> bool:
            found = [each for each in self.records() if not others or each[0] in names]
            if found != sorted((name, "COMPLETED") for name in names):
                raise NotYet(str(found))
            return True

        wait(are_there, timeout_s=90, what=f"{names} to be on record once each")
        recorded = [name for name, _ in self.records()]
        assert len(recorded) == len(set(recorded)), recorded

    @contextlib.contextmanager
    def coming_and_going(self) -> Iterator[list[str]]:
        """Short jobs, one after the other; their names, each once `sbatch` has taken it."""
        taken: list[str] = []
        over = threading.Event()

        def submit() -> None:
            while not over.is_set():
                name = f"load-{len(taken):03}"
                self.let_end(name)
                self.submit(name)
                taken.append(name)

        with ThreadPoolExecutor(1) as pool:
            submitting = pool.submit(submit)
            try:
                yield taken
            finally:
                over.set()
            submitting.result()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    site = Site(tmp_path_factory.mktemp("records"))
    yield site
    site.accounting.stop()
    site.slurm.stop()


def test_each_job_has_its_own_record_or_none(site: Site):
    """`between` began after the backup: its record is gone, and must not take that of `after`."""
    site.begin("before")
    site.accounting.in_database("backup-mariadb")
    site.begin("between")
    site.accounting.in_database("restore-mariadb")
    site.restart_slurmdbd()
    assert site.records() == [("before", "RUNNING")]
    site.begin("after")
    site.end("between")
    site.begin("last")
    assert site.records() == [("after", "RUNNING"), ("before", "RUNNING"), ("last", "RUNNING")]
    for name in ("before", "after", "last"):
        site.end(name)
    site.wait_for_records("after", "before", "last")


def test_no_record_is_lost_while_jobs_come_and_go(site: Site):
    """Except those of jobs that came between the backup and the moment in which slurmdbd is locked out."""
    site.begin("long")
    with site.coming_and_going() as taken:
        wait(lambda: len(taken) > 10, timeout_s=60, what="jobs before the backup")
        site.wait_for_records(*taken[:10], others=True)
        site.accounting.in_database("backup-mariadb")
        backed_up = taken[:10]
        site.accounting.in_database("restore-mariadb")
        is_back = len(taken)
        site.restart_slurmdbd()
        last = len(taken)
        wait(lambda: len(taken) > last + 5, timeout_s=60, what="jobs after the restart")
    site.end("long")
    site.wait_for_records("long", *backed_up, *taken[is_back + 1 :], others=True)
