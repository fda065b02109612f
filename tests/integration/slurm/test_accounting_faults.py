"""slurmctld, slurmdbd and MariaDB die under load; with `$SUNKPY_WHOLE` some thirty times in all, else a few."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator

import pytest

from devcluster.waiting import wait
from tests.integration.slurm.faults.judge import Excuse
from tests.integration.slurm.faults.run import carry_out
from tests.integration.slurm.faults.saboteur import QUICK, Sizes, saved_s, signal_slurmctld, untold
from tests.integration.slurm.site import NODES, POD, Site

pytestmark = [pytest.mark.integration, pytest.mark.long]

SIZES = Sizes() if "SUNKPY_WHOLE" in os.environ else QUICK


@pytest.fixture(scope="module")
def own_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """For this module alone: what it does to slurmctld, no other test should meet."""
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    site = Site(tmp_path_factory.mktemp("faults"), nodes=NODES[:2], slurmctld=POD)
    yield site
    site.stop()


async def test_no_job_and_no_record_is_lost_or_doubled_while_the_parts_die(own_site: Site) -> None:
    """Except those that slurmctld had not saved when it was killed (docs/surprises.md)."""
    told: list[str] = []
    outcome = await carry_out(own_site, seed=1, sizes=SIZES, tell=told.append)
    assert [each.text for each in outcome.findings if each.excuse is Excuse.NONE] == [], "\n".join(told)
    assert outcome.still_open == [], "after `sacctmgr show runawayjobs`"
    assert len(outcome.record.kills) == SIZES.alone + SIZES.with_both
    assert outcome.record.runs


def test_what_slurmctld_left_to_tell_is_told_once(own_site: Site) -> None:
    """A job waited when slurmctld ended with that to tell: the start of its run stays when the next one is killed."""
    asyncio.run(own_site.settle())
    own_site.accounting.slurmdbd.kill()
    own_site.accounting.slurmdbd.wait()
    job = hold_job(own_site)
    signal_slurmctld(own_site, "TERM")
    own_site.accounting.start_slurmdbd()
    wait(lambda: untold(own_site) == 0, timeout_s=60, what="slurmdbd to be told")
    own_site.slurm.run_as("slurm", "scontrol", "release", job)
    wait(lambda: recorded(own_site, job).startswith("COMPLETED"), timeout_s=60, what=f"job {job} to end")
    wait_until_saved(own_site)
    before = recorded(own_site, job)
    signal_slurmctld(own_site, "KILL")
    wait(lambda: untold(own_site) == 0, timeout_s=60, what="slurmdbd to be told")
    assert recorded(own_site, job) == before


def hold_job(site: Site) -> str:
    """Id of a job that waits until it is released."""
    code, said = site.shell("ann", "cd; sbatch --parsable --hold --mem=10 --output=/dev/null --wrap=true")
    assert code == 0, said
    return said.strip()


def recorded(site: Site, job: str) -> str:
    """State, start and end as slurmdbd has them."""
    how = ("--allocations", "--noheader", "--parsable2", "--format=state,start,end")
    return site.slurm.run_as("slurm", "sacct", *how, f"--jobs={job}")[1].strip()


def wait_until_saved(site: Site) -> None:
    """All that slurmctld knows by now of its jobs is in its state folder; it saves when there is something new."""
    now_s = time.time()
    hold_job(site)
    wait(lambda: saved_s(site) > now_s, timeout_s=60, what="slurmctld to save its jobs")
