"""What slurmd reads and slurmctld does not: a slurmd that cannot start on it goes on beside its jobs."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from devcluster.waiting import wait
from tests.integration.slurm.site import VALUES, Site, slurm_conf

pytestmark = pytest.mark.integration

NODE: Final = "c1"
IN_JOB: Final = f"cd /tmp && srun --nodelist={NODE} echo it-runs"
GOES_ON: Final = "slurmd does not start on what slurmctld has sent, and goes on with the files that it had: jobs go on"
NEW: Final = {
    "a plugin of SPANK": (
        "plugstack.conf",
        "required /nowhere/spank_own.so\n",
        "Failed to load plugin /nowhere/spank_own.so",
    ),
    "a plugin of Slurm": ("slurm.conf", "TaskPlugin=task/nothing\n", "cannot create task context for task/nothing"),
}


class Pod:
    """A slurmd pod with a job."""

    def __init__(self, site: Site) -> None:
        self._site = site
        # Which stays while slurmd ends and starts.
        self._spool = os.open(site.root_of(NODE) / "var/spool/slurmd", os.O_PATH)
        self._begun = containers(site)
        submit = f"sbatch --parsable --output=/dev/null --nodelist={NODE} --wrap='touch begun-$SLURM_JOB_ID; sleep 600'"
        code, said = site.shell("ann", f"cd && {submit}")
        assert code == 0, said
        self._job = said.strip()
        # Slurm says so earlier. A step that has yet to load its plugins fails on new files, and drains the node.
        begun = site.slurm.root / f"home/ann/begun-{self._job}"
        wait(lambda: begun.exists() and self.has_its_job(), timeout_s=120, what="the job runs")

    def has_its_job(self) -> bool:
        """True if the container is the same as before and the job runs on."""
        state = self._site.slurm.run_as("slurm", "squeue", "--noheader", "--format=%T", f"--jobs={self._job}")[1]
        return state.strip() == "RUNNING" and containers(self._site) == self._begun

    def runs_more(self) -> bool:
        """A step of another job runs there."""
        return self._site.shell("ann", IN_JOB) == (0, "it-runs\n")

    def says(self) -> str:
        """What slurmd and start-slurmd have said."""
        return log_of(self._site)

    def has(self, name: str, *, of: str = "conf-cache") -> str:
        """A file of Slurm, as slurmd has it; of `conf-good`, as keep-slurmd has it of slurmd's last start."""
        return text_of(Path(f"/proc/self/fd/{self._spool}/{of}/{name}"))

    def close(self) -> None:
        os.close(self._spool)


def log_of(site: Site) -> str:
    return (site.slurm.root / f"var/log/slurmd-{NODE}.log").read_text()


def containers(site: Site) -> int:
    """How many there have been."""
    return log_of(site).count(f"start-slurmd: {NODE}: CPUs=")


def text_of(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def tell(site: Site) -> None:
    """As start-slurmctld tells all nodes."""
    wait(
        lambda: site.slurm.run_as("slurm", "scontrol", "reconfigure")[0] == 0,
        timeout_s=120,
        what="slurmctld reads its files",
    )


@pytest.fixture
def pod(site: Site) -> Iterator[Pod]:
    pod = Pod(site)
    yield pod
    pod.close()
    site.slurm.run_as("slurm", "scancel", "--user=ann")
    wait(
        lambda: not site.slurm.run_as("slurm", "squeue", "--noheader")[1].strip(), timeout_s=120, what="no job is left"
    )


@pytest.mark.parametrize("what", NEW)
def test_a_slurmd_that_cannot_start_on_new_files_goes_on_with_those_that_it_had(site: Site, pod: Pod, what: str):
    name, line, words = NEW[what]
    file = site.slurm.root / "etc/slurm" / name
    before, already = text_of(file), pod.says().count(GOES_ON)
    kept = lambda: pod.has("slurm.conf", of="conf-good") != "" and pod.has(name, of="conf-good") == before  # noqa: E731
    wait(lambda: pod.has(name) == before and kept(), timeout_s=120, what="slurmd has the file, and keep-slurmd too")
    file.write_text(before + line)
    try:
        tell(site)
        wait(lambda: pod.says().count(GOES_ON) == already + 1, timeout_s=120, what="slurmd goes on")
        assert words in pod.says()
        wait(lambda: pod.has(name) == before, timeout_s=60, what="slurmd has the file that it had")
    finally:
        if before:
            file.write_text(before)
        else:
            file.unlink()
    # Who submits here reads what slurmctld reads, and that is whole again.
    wait(pod.runs_more, timeout_s=120, what="the node runs jobs")
    assert pod.has_its_job()
    starts = pod.says().count("slurmd started on")
    tell(site)
    wait(lambda: pod.says().count("slurmd started on") > starts, timeout_s=120, what="it starts on what comes next")
    wait(pod.runs_more, timeout_s=120, what="the node runs jobs")
    assert pod.has_its_job()
    assert pod.says().count(GOES_ON) == already + 1


def test_new_files_that_slurmd_can_read_reach_it(site: Site, pod: Pod):
    site.slurm.configure(slurm_conf(VALUES) + "KillOnBadExit=1\n")
    try:
        tell(site)
        wait(lambda: "KillOnBadExit=1" in pod.has("slurm.conf"), timeout_s=120, what="slurmd has the new file")
        wait(pod.runs_more, timeout_s=120, what="the node runs jobs")
        assert pod.has_its_job()
    finally:
        site.slurm.configure(slurm_conf(VALUES))
        tell(site)
    wait(lambda: "KillOnBadExit=1" not in pod.has("slurm.conf"), timeout_s=120, what="slurmd has the file as it was")


def test_a_plugin_of_srun_that_a_node_lacks_fails_steps_of_jobs_that_run(site: Site, pod: Pod):
    """As docs/tasks/upgrade.md says of an image and a key that names a plugin in it, in one upgrade."""
    steps = "while sleep 0.3; do srun true && echo well; done > ~/steps 2>&1"
    code, said = site.shell("ann", f"cd && sbatch --output=/dev/null --nodelist={NODE} --wrap='{steps}'")
    assert code == 0, said
    told = site.slurm.root / "home/ann/steps"
    wait(lambda: text_of(told).endswith("well\n"), timeout_s=120, what="a step of the job")
    site.slurm.configure(slurm_conf(VALUES) + "CliFilterPlugins=cli_filter/own\n")
    try:
        tell(site)
        why = "cannot create cli_filter context for cli_filter/own"
        wait(lambda: why in text_of(told), timeout_s=120, what="a step that does not start")
        assert pod.has_its_job()
    finally:
        site.slurm.configure(slurm_conf(VALUES))
        tell(site)
    wait(lambda: text_of(told).endswith("well\n"), timeout_s=120, what="steps as before")


def test_a_slurmd_that_dies_starts_again_beside_its_jobs(site: Site, pod: Pod):
    site.signal_slurmd(NODE, signal.SIGKILL)
    says = "slurmd has ended with 137 and starts again: jobs go on"
    wait(lambda: says in pod.says(), timeout_s=120, what="it starts again")
    wait(pod.runs_more, timeout_s=120, what="the node runs jobs")
    assert pod.has_its_job()


def test_a_slurmd_that_is_told_to_end_ends_with_its_container(site: Site):
    begun = containers(site)
    site.signal_slurmd(NODE, signal.SIGTERM)
    wait(lambda: containers(site) == begun + 1, timeout_s=120, what="another container")
