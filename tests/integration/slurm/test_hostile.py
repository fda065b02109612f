"""Hostile names and input at a real Slurm as the chart configures it: nothing is run, nobody makes a job of pods."""

from __future__ import annotations

import json
import re

import pytest

from sunkpy.core.gang.identity import GangId, gang_of
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.states import JobId
from sunkpy.slurm import Slurm, errors
from tests.integration.slurm.site import Site
from tests.polling import until

pytestmark = pytest.mark.integration

GANG = GangId(namespace="chem", name="web", uid="u")
FORGED = GANG.comment()
OWNED = "touch /home/owned"  # where nobody but root may write
HOSTILE = (
    f"$({OWNED})",
    f"`{OWNED}`",
    f"x;{OWNED}",
    f"x|{OWNED}",
    f"'\n{OWNED}\n'",
    '"; x',
    "../../etc/passwd",
    "-x",
    "ä%s%n",
)


def pods_job(**changes: object) -> JobSpec:
    fields = {"name": "web", "script": "#!/bin/bash\nsleep 60\n", "comment": FORGED, "memory_mib_per_node": 10}
    return JobSpec(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize(
    "field", ["partition", "account", "qos", "reservation", "constraint", "licenses", "dependency"]
)
async def test_a_hostile_value_is_refused_by_slurm_and_run_by_nobody(
    site: Site, scheduler: Slurm, field: str, value: str
) -> None:
    with pytest.raises((errors.Rejected, errors.NotFound)):
        await scheduler.submit_job(pods_job(hold=True, **{field: value}), user="ann")
    assert not (site.slurm.root / "home/owned").exists()


async def test_no_job_runs_as_root_unless_an_administrator_lifts_it(site: Site) -> None:
    """No way to submit a job gives a job of root. slurmd pods are privileged."""
    client, admin = site.connect("root"), site.slurm.run_as
    lift = ("scontrol", "update", "partition=low")
    job = JobSpec(name="r", script="#!/bin/bash\n", memory_mib_per_node=10, hold=True)
    says = "Invalid user id"
    try:
        with pytest.raises(errors.Rejected, match=f"submit job r: {says}"):
            await client.submit_job(job)
        said = site.slurm.as_user(0, "bash", "-c", "sbatch --hold --mem=10 --wrap=true 2>&1 || true")
        assert said == f"sbatch: error: Batch job submission failed: {says}"
        assert admin("slurm", *lift, "DisableRootJobs=no") == (0, "")
        await client.cancel_job((await client.submit_job(job)).job_id)
    finally:
        assert admin("slurm", *lift, "DisableRootJobs=yes") == (0, "")
        await client.close()


async def test_hostile_names_and_comments_are_texts_to_the_hooks_as_well(site: Site, scheduler: Slurm) -> None:
    texts: dict[JobId, str] = {}
    for value in HOSTILE:
        text = value.replace("\n", " ")
        done = pods_job(name=text, comment=GANG.comment(text), script="#!/bin/bash\nexit 0\n")
        texts[(await scheduler.submit_job(done, user="ann")).job_id] = text

    async def have_ended() -> bool:
        return set((await scheduler.jobs_state(texts)).values()) == {frozenset({"COMPLETED"})}

    await until(have_ended, timeout_s=60, what="the jobs, their prologs and epilogs to end")
    for job_id, text in texts.items():
        job = await scheduler.job(job_id)
        assert (job.name, job.comment) == (text, GANG.comment(text))
        assert gang_of(job, scheduler="k8s") == GANG
    assert not (site.slurm.root / "home/owned").exists()


FORGERIES = {
    "the script": f"printf '#!/bin/bash\\n#SBATCH --comment={FORGED}\\n' > s; sbatch s",
    "an array": f"sbatch --array=0-1 --comment={FORGED} --wrap=true",
    "a part of a hetjob": "printf '#!/bin/bash\\n#SBATCH -n1\\n#SBATCH hetjob\\n"
    f"#SBATCH --comment={FORGED}\\n' > s; sbatch s",
    "srun": f"srun --comment={FORGED} true",
    "a task of an array, later": "j=$(sbatch --parsable --hold --array=0-1 --output=/dev/null --wrap=true); "
    f"scontrol update jobid=${{j}}_1 comment={FORGED}",
    "a job by its name, later": "sbatch --hold --job-name=mine --output=/dev/null --wrap=true > /dev/null; "
    f"scontrol update jobname=mine comment={FORGED}",
}


@pytest.mark.parametrize("way", FORGERIES)
def test_nobody_makes_a_job_of_pods_by(site: Site, way: str) -> None:
    code, said = site.shell("ann", f"cd; {FORGERIES[way]}")
    assert "says that a job stands for Kubernetes pods" in said
    assert code != 0


ASKED = {"script": "#!/bin/bash\n", "current_working_directory": "/tmp", "environment": ["A=1"], "hold": True}


@pytest.mark.parametrize(
    "fields",
    [
        {"comment": FORGED}, {"admin_comment": FORGED}, {"comment": "mine", "admin_comment": FORGED},
        {"comment": FORGED, "extra": "guess"},
    ],
)  # fmt: skip
@pytest.mark.parametrize("what", ["submit", "allocate"])
async def test_nobody_makes_a_job_of_pods_with_a_token_of_their_own(
    site: Site, scheduler: Slurm, what: str, fields: dict[str, str]
) -> None:
    """They may ask slurmctld for a token, and reach slurmrestd where no network policy keeps them away."""
    job = {**ASKED, **fields} if what == "submit" else {**ASKED, **fields, "script": None}
    body = json.dumps({"job": {name: value for name, value in job.items() if value is not None}})
    asked = f"-H 'Content-Type: application/json' -d '{body}' {site.slurm.url}/slurm/v0.0.42/job/{what}"
    _, said = site.shell("ann", f'curl -s -H "X-SLURM-USER-TOKEN: $(scontrol token | cut -d= -f2)" {asked}')
    assert re.search(r'"error_number": ?2002', said), said
    made = [job for job in await scheduler.jobs() if not job.is_ended and gang_of(job, scheduler="k8s")]
    assert made == []


async def test_a_job_of_pods_is_kept_from_its_owner_by_each_of_its_names(site: Site, scheduler: Slurm) -> None:
    job_id = (await scheduler.submit_job(pods_job(name="ours", hold=True), user="ann")).job_id
    before = await scheduler.job(job_id)
    for way in ("jobname=ours comment=mine", f"jobid={job_id} dependency=singleton", f"jobid={job_id} partition=high"):
        code, said = site.shell("ann", f"scontrol update {way}")
        assert (code, "cannot be changed here" in said) == (1, True), said
    assert await scheduler.job(job_id) == before


async def test_who_suspends_the_job_of_their_pods_is_seen_to_have_done_so(site: Site, scheduler: Slurm) -> None:
    """Slurm 24.11 refuses, 26.05 lets its owner: then the pods have to go, as from any job that has lost its nodes."""
    job_id: JobId = (await scheduler.submit_job(pods_job(), user="ann")).job_id

    async def is_running() -> bool:
        return (await scheduler.job(job_id)).is_running

    await until(is_running, timeout_s=60, what="the job to run")
    code, _ = site.shell("ann", f"scontrol suspend {job_id}")
    job = await scheduler.job(job_id)
    assert (job.is_running, "SUSPENDED" in job.state) == ((True, False) if code else (False, True))
