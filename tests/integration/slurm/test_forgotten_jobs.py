"""slurmctld is killed before it has saved, or reads its files again: jobs that it has forgotten are ended.

The test runs start-slurmctld with real daemons.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Final

import pytest

from devcluster.waiting import wait
from tests.integration.slurm.faults.saboteur import signal_slurmctld
from tests.integration.slurm.site import NODES, POD, VALUES, Site, slurm_conf
from tests.integration.slurm.test_accounting_faults import wait_until_saved
from tests.roots import RELEASE

pytestmark = [pytest.mark.integration, pytest.mark.long]
SCRIPT: Final = "touch on; until [ -e go ]; do sleep 0.1; done"
ORPHAN: Final = "touch on; exec sleep 4246"
SLOW: Final = "#!/bin/bash\nexec sleep 42.47\n"
"""A script of the site that a reconfigured slurmd 24.11 does not wait for."""


@pytest.fixture(scope="module")
def own_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    site = Site(tmp_path_factory.mktemp("forgotten"), nodes=NODES[:2], slurmctld=POD)
    asyncio.run(site.settle())
    yield site
    site.stop()


def begin(site: Site, script: str) -> str:
    """Id of a job of this script on the first node, once it runs."""
    script = f"sbatch --parsable --mem=10 --output=/dev/null --nodelist={NODES[0].name} --wrap '{script}'"
    code, said = site.shell("ann", f"cd; rm -f on go; {script}; until [ -e on ]; do sleep 0.1; done")
    assert code == 0, said + site.logs()
    return said.strip()


def state(site: Site, job: str) -> str:
    return site.slurm.run_as("slurm", "squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={job}")[1].strip()


def test_a_job_whose_end_was_forgotten_does_not_hold_its_node_and_a_drained_node_stays_drained(own_site: Site):
    drained = NODES[1].name
    own_site.slurm.run_as("slurm", "scontrol", "update", f"nodename={drained}", "state=DRAIN", "reason=a person")
    job = begin(own_site, SCRIPT)
    wait_until_saved(own_site)
    own_site.shell("ann", "cd; touch go")
    wait(lambda: state(own_site, job) == "COMPLETED", timeout_s=20, what="the job to end")
    signal_slurmctld(own_site, "KILL")
    wait(lambda: state(own_site, job) != "RUNNING", timeout_s=100, what="Slurm to see that the job has ended")
    assert " Restarts=1 " in own_site.slurm.run_as("slurm", "scontrol", "-o", "show", "job", job)[1], "it was saved"
    _, said = own_site.slurm.run_as("slurm", "scontrol", "-o", "show", "node", drained)
    assert ("DRAIN" in said, "Reason=a person" in said) == (True, True), said


def test_a_job_whose_start_was_forgotten_does_not_run_on_unseen(own_site: Site):
    wait_until_saved(own_site)
    job = begin(own_site, ORPHAN)
    signal_slurmctld(own_site, "KILL")
    assert state(own_site, job) != "RUNNING", "it was saved"
    wait(lambda: not own_site.slurm.running("sleep 4246"), timeout_s=20, what="the job that Slurm has forgotten to end")


def begin_slow_prolog(site: Site) -> str:
    """Id of a job whose Prolog takes long on the first node, while slurmctld and slurmd read their files anew."""
    scripts = site.root_of(NODES[0].name) / "etc/sunkpy/site/prolog.d"
    scripts.mkdir(parents=True)
    (scripts / "50-slow").write_text(SLOW)
    (scripts / "50-slow").chmod(0o755)
    submit = f"sbatch --parsable --mem=10 --output=/dev/null --nodelist={NODES[0].name} --no-requeue --wrap true"
    code, said = site.shell("ann", f"cd; {submit}")
    assert code == 0, said + site.logs()
    wait(lambda: site.slurm.running("sleep 42.47"), timeout_s=30, what="its Prolog runs")
    site.slurm.configure(slurm_conf(VALUES).replace("KillWait=3", "KillWait=4"))
    signal_slurmctld(site, "TERM")
    return said.strip()


@pytest.mark.skipif(RELEASE != "24.11", reason="slurmd 26.05 waits for Prologs")
def test_a_job_whose_prolog_was_forgotten_as_files_were_read_anew_does_not_hold_its_node(own_site: Site):
    job = begin_slow_prolog(own_site)
    wait(lambda: state(own_site, job) == "PENDING", timeout_s=150, what="Slurm to try the job again")
    assert f"job {job} waited in a Prolog that Slurm forgot, and is requeued" in own_site.logs()
    assert " Requeue=0 " in own_site.slurm.run_as("slurm", "scontrol", "-o", "show", "job", job)[1]


@pytest.mark.skipif(RELEASE == "24.11", reason="slurmd 24.11 forgets Prologs")
def test_a_prolog_is_waited_for_while_files_are_read_anew(own_site: Site):
    job = begin_slow_prolog(own_site)
    wait(lambda: state(own_site, job) == "COMPLETED", timeout_s=150, what="the job to run after its Prolog")
    assert " Restarts=0 " in own_site.slurm.run_as("slurm", "scontrol", "-o", "show", "job", job)[1]
