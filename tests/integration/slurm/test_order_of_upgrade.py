"""From Slurm 24.11 to 26.05, one part after the other as Slurm wants it, and back where it can, while a job runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from devcluster.shell import run
from devcluster.waiting import wait
from sunkpy.slurm import NodesSnapshot, errors
from tests.integration.slurm.asking import connect, happens
from tests.integration.slurm.daemons import NODE, ONE_SLURMD, Machines, RealAccounting, RealSlurm
from tests.roots import unpack

pytestmark = [pytest.mark.integration, pytest.mark.long]

OLD: Final = "24.11"
NEW: Final = "26.05"
USERS: Final = {"slurmctld": "slurm", "slurmrestd": "slurmrestd", "slurmd": "root"}
"""Each daemon except slurmdbd, with its user. `/of/USER` names the root in which its next start finds its programs."""

_EACH_FROM_ITS_ROOT: Final = f"""\
cp -a /etc/hosts /new/etc/ && cp -a /etc/slurm /new/etc/
for folder in proc sys dev tmp run var; do mount --rbind /$folder /new/$folder; done
as() {{ chroot --userspec="$1:$1" "$(< /of/$1)" "${{@:2}}"; }}
keep as slurm /usr/sbin/slurmctld -D >> /var/log/slurmctld.log 2>&1 &
on_node() {{ rm -rf /run/slurm; as root "$@"; }} # a slurmd of 26.05 refuses what one of 24.11 gave to SlurmUser
size='CPUs=2 RealMemory=1000 Feature=gpu'
keep on_node /usr/sbin/slurmd -D -Z -N {NODE} --conf "$size" >> /var/log/slurmd.log 2>&1 &
"""


class BothReleases(RealAccounting):
    """`root` is that of one release, for slurmdbd and clients; the later one is in a folder of the earlier one's."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "trixie")
        self.roots = {OLD: self.root, NEW: self.root / "new"}
        unpack("sid", ("slurmctld", "slurmdbd", "slurmrestd", "slurmd"), self.roots[NEW])
        run(["cp", "-a", f"{self.root}/keys", f"{self.root}/config", str(self.roots[NEW])])
        (self.root / "of").mkdir()
        for user in USERS.values():
            (self.root / "of" / user).write_text("/")

    def move(self, release: str) -> None:
        self.slurmdbd.terminate()
        self.slurmdbd.wait()
        self.root = self.roots[release]
        self.start_slurmdbd()


class Moving:
    """The site. `long` is the job that runs from first to last, `ended` those that ended before."""

    def __init__(self, folder: Path) -> None:
        self.accounting = BothReleases(folder)
        machines = Machines(conf=ONE_SLURMD.conf, slurmctld=_EACH_FROM_ITS_ROOT, files=ONE_SLURMD.files)
        self.slurm = RealSlurm(folder, "trixie", self.accounting, machines=machines)
        self.ended: list[str] = []
        wait(lambda: self.accounting.sacctmgr("show", "cluster"), timeout_s=60, what="slurmctld's cluster")
        self.accounting.sacctmgr("add", "account", "team")
        self.accounting.sacctmgr("add", "user", "slurm", "account=team")
        self.long = self.submit("until [ -e /var/tmp/end ]; do sleep 0.2; done", OLD)

    def move(self, daemon: str, release: str) -> None:
        (self.slurm.root / "of" / USERS[daemon]).write_text("/new" if release == NEW else "/")
        self.slurm.send("TERM", daemon)

    def move_slurmd(self, release: str) -> None:
        log, line = self.slurm.root / "var/log/slurmd.log", f"slurmd version {release}."
        starts = log.read_text().count(line)
        self.move("slurmd", release)
        wait(lambda: log.read_text().count(line) > starts, timeout_s=60, what=line)

    def client(self, release: str, *command: str) -> str:
        self.accounting.root = self.accounting.roots[release]
        return self.accounting.output(*command).strip()

    def submit(self, what: str, release: str) -> str:
        args = ("--parsable", "--output=/dev/null", "--chdir=/tmp", "--account=team", "--mem=10", f"--wrap={what}")
        return self.client(release, "sbatch", *args)

    def wait_for(self, job: str, state: str, release: str) -> None:
        ask = ("squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job}")
        wait(lambda: self.client(release, *ask) == state, timeout_s=90, what=f"job {job} to be {state}")

    def runs_a_job(self, release: str) -> None:
        job = self.submit("true", release)
        self.wait_for(job, "COMPLETED", release)
        self.wait_for(self.long, "RUNNING", release)
        self.ended.append(job)

    def refusals(self) -> int:
        """How often slurmctld and another daemon did not understand each other."""
        log = self.slurm.root / "var/log/slurmctld.log"
        return log.read_text().count("Incompatible versions of client and server code")

    def recorded(self, release: str) -> list[tuple[str, str]]:
        self.accounting.root = self.accounting.roots[release]
        return self.accounting.records()

    def wait_for_records(self, release: str, long: str = "RUNNING") -> None:
        all_jobs = sorted([*((job, "COMPLETED") for job in self.ended), (self.long, long)])
        wait(lambda: self.recorded(release) == all_jobs, timeout_s=90, what=f"{all_jobs} to be on record")

    def wait_for_slurmctld(self, release: str) -> None:
        def answers() -> bool:
            try:
                return f"= {release}." in self.client(OLD, "scontrol", "show", "config")
            except AssertionError:
                return False

        wait(answers, timeout_s=60, what=f"slurmctld {release}")

    async def wait_for_slurmrestd(self, release: str) -> None:
        client = connect(self.slurm, "slurm")

        async def tells() -> bool:
            try:
                told = (await client.ping()).release
                nodes, jobs = await client.nodes(), await client.jobs()
            except errors.SlurmError:
                return False
            assert isinstance(nodes, NodesSnapshot)
            return told.startswith(release) and set(nodes.nodes) == {NODE} and len(jobs) == len(self.ended) + 1

        await happens(self.slurm, tells)
        await client.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moving]:
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    site = Moving(tmp_path_factory.mktemp("site"))
    try:
        site.wait_for(site.long, "RUNNING", OLD)
        site.runs_a_job(OLD)
        site.wait_for_records(OLD)
        yield site
    finally:
        site.accounting.stop()
        site.slurm.stop()


def test_slurmdbd_goes_on_and_back_with_all_records(site: Moving) -> None:
    """The earlier one drops what only the later one keeps, and says so."""
    site.accounting.move(NEW)
    site.wait_for_records(NEW)
    site.accounting.move(OLD)
    said = (site.accounting.root / "var/log/start-slurmdbd.log").read_text()
    assert 'dropping column std_out from table "it_step_table"' in said
    site.runs_a_job(OLD)
    site.wait_for_records(OLD)
    site.accounting.move(NEW)
    site.wait_for_records(NEW)


def test_a_slurmd_before_its_slurmctld_is_refused_and_loses_nothing(site: Moving) -> None:
    refused = site.refusals()
    site.move_slurmd(NEW)
    wait(lambda: site.refusals() > refused, timeout_s=60, what="slurmctld to refuse a later slurmd")
    site.move_slurmd(OLD)
    site.runs_a_job(OLD)
    site.wait_for_records(NEW)


async def test_slurmctld_goes_on_and_an_earlier_one_changes_nothing(site: Moving) -> None:
    site.move("slurmctld", NEW)
    site.wait_for_slurmctld(NEW)
    site.runs_a_job(OLD)
    await site.wait_for_slurmrestd(OLD)
    log, state = (site.slurm.root / "var" / file for file in ("log/slurmctld.log", "lib/slurm/job_state"))
    site.move("slurmctld", OLD)
    wait(lambda: "incompatible version" in log.read_text(), timeout_s=60, what="slurmctld to refuse its state")
    saved, refusals = state.read_bytes(), log.read_text().count("incompatible version")
    wait(lambda: log.read_text().count("incompatible version") > refusals, timeout_s=60, what="the next refusal")
    assert state.read_bytes() == saved
    site.move("slurmctld", NEW)
    site.wait_for_slurmctld(NEW)
    site.runs_a_job(OLD)
    site.wait_for_records(NEW)


def test_what_an_earlier_slurmdbd_cannot_be_told_the_later_one_is(site: Moving) -> None:
    site.accounting.move(OLD)
    known, refused = site.recorded(OLD), site.refusals()
    wait(lambda: site.refusals() > refused, timeout_s=60, what="slurmctld to get no answer from an earlier slurmdbd")
    site.runs_a_job(OLD)
    assert site.recorded(OLD) == known
    site.accounting.move(NEW)
    site.wait_for_records(NEW)


async def test_slurmrestd_and_clients_go_on_and_back(site: Moving) -> None:
    for release in (NEW, OLD, NEW):
        site.move("slurmrestd", release)
        await site.wait_for_slurmrestd(release)
        site.runs_a_job(release)


def test_slurmd_goes_on_and_back_under_a_job(site: Moving) -> None:
    for release in (NEW, OLD, NEW):
        site.move_slurmd(release)
        site.runs_a_job(NEW)
        site.wait_for_records(NEW)


def test_the_job_ends_and_all_is_on_record_once(site: Moving) -> None:
    (site.slurm.root / "var/tmp/end").touch()
    site.wait_for_records(NEW, long="COMPLETED")
