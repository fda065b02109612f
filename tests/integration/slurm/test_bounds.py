"""What one user can fill: slurmctld's volume, its queue and its time, bounded as the chart configures it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from sunkpy.core.model.job_spec import JobSpec
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.scheduler.settings import SchedulerSettings
from sunkpy.slurm import Slurm
from tests.integration.slurm.daemons import KEEP_SLURMCTLD
from tests.integration.slurm.site import PEOPLE, STATE, VALUES, Node, Site
from tests.polling import until
from tests.unit.charts.rendering import of_kind, render

pytestmark = pytest.mark.integration

BYTES = 1048576
SMALL = 64 << 20
TOO_MUCH = "on slurmctld's volume, which is half full: cancel jobs, and try again after five minutes"
FEW = {"rl_bucket_size": 40, "rl_refill_rate": 2}
FEW_CALLS = VALUES | {
    "slurmConfig": VALUES["slurmConfig"] | {"conf": VALUES["slurmConfig"]["conf"] | {"SlurmctldParameters": FEW}}
}


def script(size: int) -> str:
    """A script of bash that submits a job whose own script has `size` bytes."""
    begin = "#!/bin/bash\\ntrue #"
    padding = size - len(begin) + 1
    return f"cd; (printf '{begin}'; head -c {padding} /dev/zero | tr '\\0' x) > big; sbatch --hold big"


@pytest.fixture
async def small(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """slurmctld's volume has 64 MB."""
    volume = f"mount -t tmpfs -o size={SMALL},uid=401,gid=401,mode=755 tmpfs /{STATE}\n"
    site = Site(tmp_path_factory.mktemp("small"), nodes=(Node("c1"),), slurmctld=volume + KEEP_SLURMCTLD)
    try:
        await site.settle()
        yield site
    finally:
        site.stop()


ENVIRONMENT = """\
cd; ulimit -s unlimited; text=$(head -c 130000 /dev/zero | tr '\\0' x)
for number in {1..46}; do export "V$number=$text"; done
sbatch --hold --output=/dev/null --wrap=true
"""
"""A job with six megabytes of it, which is what the kernel lets a program have."""


def stored(site: Site) -> int:
    """Bytes of scripts and environments on slurmctld's volume."""
    (slurmctld,) = site.slurm.running("/usr/sbin/slurmctld .*")
    return sum(file.stat().st_size for file in Path(f"/proc/{slurmctld}/root/{STATE}").glob("hash.*/job.*/*"))


async def test_who_has_a_quarter_of_a_volume_that_is_half_full_submits_no_more(small: Site) -> None:
    async def is_refused() -> bool:
        code, said = small.shell("ann", ENVIRONMENT)
        assert (code == 0) is (TOO_MUCH not in said), said
        return code != 0

    await until(is_refused, timeout_s=180, every_s=2, what="ann is refused")
    assert SMALL / 2 < stored(small) < SMALL * 0.8
    code, said = small.shell("bob", "cd; sbatch --hold --output=/dev/null --wrap=true")
    assert code == 0, said
    code, said = small.shell("ann", "cd; srun --version && sbatch --hold --output=/dev/null --wrap=true")
    assert (code, TOO_MUCH in said) == (1, True), said


def test_a_script_of_over_a_megabyte_is_refused(site: Site, scheduler: Slurm) -> None:
    code, said = site.shell("ann", script(BYTES - 100))
    assert code == 0, said
    code, said = site.shell("ann", script(BYTES + 1))
    assert (code, "too long" in said) == (1, True), said


async def test_a_user_has_at_most_so_many_jobs_and_pods_go_on(site: Site, scheduler: Slurm) -> None:
    """Slurm counts each task of an array."""
    for _ in range(2):
        code, said = site.shell("ann", "cd; sbatch --hold --array=0-999 --output=/dev/null --wrap=true")
        assert code == 0, said
    code, said = site.shell("ann", "cd; sbatch --hold --output=/dev/null --wrap=true")
    assert (code, "AssocGrpSubmitJobsLimit" in said) == (1, True), said
    code, said = site.shell("bob", "cd; sbatch --hold --output=/dev/null --wrap=true")
    assert code == 0, said
    pods = JobSpec(name="pod", script="#!/bin/bash\n", memory_mib_per_node=10, hold=True, account="chem")
    limits = (await scheduler.accounting("it")).associations
    assert limits["chem", "ann"].limits.submitted == 2000
    assert limits["chem", "k8s"].limits.submitted is None
    await scheduler.cancel_job((await scheduler.submit_job(pods)).job_id)


@pytest.fixture
async def few(site: Site) -> AsyncIterator[Site]:
    """A user may call 40 times, and then twice a second."""
    await site.restart(FEW_CALLS)
    yield site
    await site.restart()


ASK = """\
for ask in {1..8}; do for _ in {1..10}; do echo show job; done | scontrol &> /dev/null & done; wait
"""
"""Twice as many calls as the bucket has, side by side: one program after the other would be slower than it fills."""


def limited(site: Site) -> set[int]:
    """The users whose requests slurmctld has limited."""
    log = (site.slurm.root / "var/log/slurmctld.log").read_text()
    return {int(uid) for uid in re.findall(r"RPC rate limit exceeded by uid (\d+)", log)}


def schedulers_settings() -> SlurmSettings:
    """How the chart has the scheduler ask slurmrestd."""
    text = of_kind(render("slurm", VALUES), "ConfigMap")["demo-scheduler"]["data"]["config.yaml"]
    return msgspec.yaml.decode(text, type=SchedulerSettings).slurm


async def test_who_asks_without_end_is_told_to_wait_and_what_the_scheduler_reads_is_not(few: Site) -> None:
    settings = msgspec.structs.replace(schedulers_settings(), url=few.slurm.url, jwt_key_file=str(few.slurm.key_file))
    client = Slurm.connect(settings)
    try:
        for _ in range(3 * FEW["rl_bucket_size"]):
            await client.jobs_state()
        assert limited(few) == set()
        few.shell("ann", ASK)

        async def is_told() -> bool:
            return limited(few) == {PEOPLE["ann"]}

        await until(is_told, timeout_s=30, what="slurmctld says whom it told to wait")
    finally:
        await client.close()


async def test_the_chart_lets_a_burst_of_thousands_of_pods_pass(site: Site) -> None:
    """A pod costs k8s up to three calls: its job is submitted, changed and cancelled."""
    said = site.slurm.run_as("slurm", "scontrol", "show", "config")[1]
    (line,) = [line for line in said.splitlines() if line.startswith("SlurmctldParameters")]
    assert {"rl_enable", "rl_bucket_size=20000", "rl_refill_rate=100", "enable_configless"} <= {
        *line.partition("= ")[2].split(",")
    }
