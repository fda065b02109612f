"""`kubectl sunk explain` by a real kubectl, of pods whose jobs a real Slurm has: it says what Slurm says, in words.

The whole scheduler runs between that Slurm and the stand-in of an apiserver.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from devcluster import Cluster
from devcluster.binaries import KUBERNETES
from sunkpy.core import names
from sunkpy.core.explain.words import RELEASE
from sunkpy.core.gang.access import AccessRule
from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.states import JobId
from sunkpy.slurm import Slurm
from sunkpy.slurm.auth import MintedToken
from tests.integration.slurm.daemons import ROOT, RealSlurm
from tests.integration.slurm.gangs import CPUS, NODES
from tests.integration.slurm.site import Site
from tests.integration.slurm.whole import job_of, leading_on
from tests.polling import until
from tests.unit.scheduler.world import OPEN, World

pytestmark = pytest.mark.integration


class Person:
    """Somebody with a kubeconfig, kubectl, the plugin, and perhaps a token of Slurm's."""

    def __init__(self, kubeconfig: Path, url: str, folder: Path) -> None:
        programs = Cluster().binaries
        programs.ensure([KUBERNETES], progress=print)
        path = f"{ROOT / '.venv/bin'}:{programs.kubernetes}:/usr/bin:/bin"
        self._env = {"PATH": path, "KUBECONFIG": str(kubeconfig), "HOME": str(folder)}
        self._url, self._token = url, folder / "slurm-token"

    def has_token(self, text: str) -> None:
        """What they wrote into the file."""
        self._token.write_text(text)

    async def explains(self, kind: str, name: str, *, asks_slurm: bool = True) -> tuple[int, str]:
        """Exit code and output."""
        slurm = ("--slurmrestd", self._url, "--slurm-token-file", str(self._token)) if asks_slurm else ()
        argv = ("kubectl", "sunk", "explain", kind, name, *slurm)
        out = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.STDOUT}
        process = await asyncio.create_subprocess_exec(*argv, env=self._env, **out)  # type: ignore[arg-type]
        said, _ = await process.communicate()
        return process.returncode or 0, said.decode()


@contextlib.asynccontextmanager
async def scheduling(world: World, slurm: RealSlurm, folder: Path, rule: AccessRule = OPEN) -> AsyncIterator[Person]:
    """The scheduler leads; gives somebody who may read what it did."""
    async with leading_on(world, slurm, folder, access=(rule,)) as kubeconfig:
        person = Person(kubeconfig, slurm.url, folder)
        person.has_token(MintedToken(slurm.key_file, user="k8s").token())
        yield person


async def filled(slurm: Slurm) -> JobId:
    """A job that has all nodes for itself."""
    job = JobSpec(
        name="filled", script="#!/bin/bash\nsleep 300\n", comment="", required_nodes=NODES, minimum_nodes=len(NODES),
        maximum_nodes=len(NODES), tasks=len(NODES), cpus_per_task=CPUS, memory_mib_per_node=10,
    )  # fmt: skip
    id = (await slurm.submit_job(job)).job_id
    await becomes(slurm, id, lambda state: "RUNNING" in state)
    return id


async def becomes(slurm: Slurm, id: JobId, check: Callable[[frozenset[str]], bool]) -> None:
    async def is_so() -> bool:
        return check((await slurm.jobs_state([id])).get(id, frozenset()))

    await until(is_so, timeout_s=60, what=f"job {id}")


async def says(person: Person, name: str, *texts: str, code: int = 0) -> str:
    """What is said of a pod, once it has all these texts in it."""
    last = (0, "")

    async def is_said() -> bool:
        nonlocal last
        last = await person.explains("pod", name)
        return last[0] == code and all(text in last[1] for text in texts)

    try:
        await until(is_said, timeout_s=60, every_s=0.5, what=f"{texts}")
    except TimeoutError as error:
        raise AssertionError(f"{error}: {last}") from None
    return last[1]


async def waiting(world: World, slurm: Slurm, *pods: str) -> list[JobId]:
    """Pods whose jobs are in the queue behind one that has all nodes, in this order."""
    await filled(slurm)
    jobs = []
    for name in pods:
        world.add_pod(name)
        jobs.append(await job_of(world, name))
    return jobs


async def test_what_a_pod_waits_for_is_told_in_slurms_word_and_in_plain_ones(
    pool: RealSlurm, keeper: Slurm, world: World, tmp_path: Path
) -> None:
    async with scheduling(world, pool, tmp_path) as person:
        first, second = await waiting(world, keeper, "first", "second")
        said = await says(person, "first", "PENDING, Resources")
        assert said.startswith("Pod default/first waits in the queue of Slurm\n")
        words = "Resources in partition low (the nodes that it may use are taken)"
        assert f"because         Slurm job {first} waits: {words}\n" in said
        assert f"Slurm job       {first}: PENDING, Resources\n" in said
        assert "nodes           may use n[1-5]\n" in said
        assert said.endswith(f"squeue --start -j {first} says when Slurm expects that.\n")
        said = await says(person, "second", "PENDING, Priority")
        assert f"because         Slurm job {second} waits: Priority in partition low (other jobs come first)\n" in said


@pytest.mark.parametrize(
    ("user", "reason", "what_to_do"),
    [
        (
            "slurm",
            "JobHeldAdmin",
            "Ask an administrator of Slurm why the job is held, and to release it: kubectl sunk jobs release {job}",
        ),
        ("k8s", "JobHeldUser", f"Release it: {RELEASE}"),
    ],
)
async def test_who_has_to_release_a_job_that_is_held_is_told(
    pool: RealSlurm, keeper: Slurm, world: World, tmp_path: Path, user: str, reason: str, what_to_do: str
) -> None:
    async with scheduling(world, pool, tmp_path) as person:
        (job,) = await waiting(world, keeper, "held")
        assert pool.run_as(user, "scontrol", "hold", str(job)) == (0, "")
        said = await says(person, "held", f"PENDING, {reason}")
        assert said.startswith("Pod default/held stays in the queue of Slurm until somebody changes something\n")
        assert said.endswith(f"what to do      {what_to_do.format(job=job)}\n")
        await world.until(lambda: [note for note in world.notes("FailedScheduling") if reason in note])


async def test_tasks_and_components_are_known_by_the_numbers_that_squeue_prints(
    pool: RealSlurm, keeper: Slurm, world: World, tmp_path: Path
) -> None:
    script = r"printf '#!/bin/sh\nsleep 100\n' | sbatch --parsable -p low -o /dev/null -J many"
    async with scheduling(world, pool, tmp_path) as person:
        await filled(keeper)
        _, array = pool.run_as("k8s", "sh", "-c", f"{script} --array=1-90%4")
        _, components = pool.run_as("k8s", "sh", "-c", f"{script} -N 1 : -J many -N 1")
        array, leader = array.strip(), components.strip()
        for number in (f"{array}_90", array, f"{leader}+1", f"{leader}+0", leader):
            code, said = await person.explains("job", number)
            assert (code, said.startswith(f"Job {number} (many, of k8s) waits in the queue\n")) == (0, True), said
        code, said = await person.explains("job", f"{array}_91")
        assert (code, said.startswith(f"Job {array}_91 is not known to Slurm\n")) == (1, True)
        assert pool.run_as("k8s", "scancel", array, leader)[0] == 0
        await becomes(keeper, JobId(int(leader)), lambda state: state == {"CANCELLED"})


@pytest.mark.parametrize(
    ("how", "script", "ended", "because"),
    [
        (
            "-o /nowhere/out",
            "true",
            "RaisedSignal:53",
            "its output, error or input file could not be opened on the node",
        ),
        ("-o /dev/null", "exit 3", "NonZeroExitCode, exit code 3:0", "its script ended with 3"),
        ("-o /dev/null", "no-such-program", "exit code 127:0", "the last command of its script was not found"),
        (
            "-o /dev/null",
            "kill -KILL $$",
            "RaisedSignal:9",
            "its script was killed (signal 9), mostly because it needed too much memory",
        ),
    ],
)
async def test_how_a_job_ended_is_told_in_words(
    pool: RealSlurm, keeper: Slurm, world: World, tmp_path: Path, how: str, script: str, ended: str, because: str
) -> None:
    async with scheduling(world, pool, tmp_path) as person:
        _, job = pool.run_as(
            "k8s", "sh", "-c", f"printf '#!/bin/sh\n{script}\n' | sbatch --parsable -p low -J odd {how}"
        )
        await becomes(keeper, JobId(int(job)), lambda state: state == {"FAILED"})
        code, said = await person.explains("job", job.strip())
    assert (code, said.startswith(f"Job {job.strip()} (odd, of k8s) has ended\n")) == (0, True)
    assert (ended in said, f"because         {because}\n" in said) == (True, True), said


async def test_the_course_of_a_pod_is_told_to_its_end(
    pool: RealSlurm, keeper: Slurm, world: World, tmp_path: Path
) -> None:
    async with scheduling(world, pool, tmp_path) as person:
        world.add_pod("whole")
        job = await job_of(world, "whole")
        await world.until(lambda: world.pod("whole")["spec"].get("nodeName"))
        said = await says(person, "whole", f"{job}: RUNNING on n")
        assert said.startswith("Pod default/whole is bound, and no container runs yet\n")
        world.pod_runs("whole")
        assert (await says(person, "whole", "RUNNING")).startswith("Pod default/whole runs\n")
        world.pod_ends("Succeeded", "whole")
        await becomes(keeper, job, lambda state: state == {"COMPLETED"})
        said = await says(person, "whole", "is over")
        assert "because         Succeeded\n" in said


async def test_a_partition_that_does_not_exist_is_told_by_name(
    pool: RealSlurm, keeper: Slurm, world: World, tmp_path: Path
) -> None:
    async with scheduling(world, pool, tmp_path) as person:
        world.add_pod("lost", annotations={"sunkpy.dev/partition": "nope"})
        said = await says(person, "lost", "submit job lost (partition nope)")
    assert said.startswith("Pod default/lost is not submitted: Slurm did not take its job\n")
    assert "name a partition that `sinfo` lists" in said


async def test_without_slurm_the_scheduler_has_said_it_on_the_pod(
    pool: RealSlurm, keeper: Slurm, world: World, tmp_path: Path
) -> None:
    async with scheduling(world, pool, tmp_path) as person:
        (job,) = await waiting(world, keeper, "web")
        await world.until(lambda: "Resources" in str(world.pod("web")["status"].get("conditions")))
        code, said = await person.explains("pod", "web", asks_slurm=False)
        assert (code, f"{job}: PENDING, Resources; as the scheduler wrote it on the pods\n" in said) == (0, True)
        person.has_token("SLURM_JWT=nonsense")
        code, said = await person.explains("pod", "web")
        assert (code, f"{job}: PENDING, Resources; as the scheduler wrote it on the pods\n" in said) == (3, True)
        assert f"not read        Slurm's side: read job {job}: " in said
        assert "is not one of this cluster: write a fresh one there (scontrol token)" in said


async def test_a_token_as_scontrol_prints_it_will_do(
    pool: RealSlurm, keeper: Slurm, world: World, tmp_path: Path
) -> None:
    async with scheduling(world, pool, tmp_path) as person:
        (job,) = await waiting(world, keeper, "web")
        token = pool.as_user(401, "scontrol", "token", "lifespan=600")
        assert token.startswith("SLURM_JWT=")
        person.has_token(f"{token}\n")
        await says(person, "web", f"{job}: PENDING, Resources\n")


async def test_what_cannot_be_explained_is_told_with_an_exit_code(
    pool: RealSlurm, keeper: Slurm, world: World, tmp_path: Path
) -> None:
    async with scheduling(world, pool, tmp_path) as person:
        assert await person.explains("pod", "nobody") == (
            1,
            "Pod default/nobody does not exist\n\nwhat to do      See what there is: kubectl -n default get pods\n",
        )
        world.api.forbidden.add("pods")
        code, said = await person.explains("gang", "nobody")
        assert (code, said.startswith("sunkpy: "), "pods is forbidden: " in said) == (1, True, True)


async def test_an_account_that_slurm_does_not_let_its_user_have_is_told_by_name(
    site: Site, scheduler: Slurm, world: World, tmp_path: Path
) -> None:
    for number, name in enumerate(("c1", "c2", "c3"), 1):
        patch = {"metadata": {"labels": {names.LABEL_SLURM_NODE: name}}}
        world.api.change("pods", "slurm", f"slurmd-{number}", patch)
    rule = AccessRule(namespaces=("default",), users=("ann",), partitions=("*",), accounts=("*",))
    async with scheduling(world, site.slurm, tmp_path, rule) as person:
        world.add_pod("broke", annotations={"sunkpy.dev/account": "phys"})
        said = await says(person, "broke", "account phys")
    assert said.startswith("Pod default/broke is not submitted: Slurm did not take its job\n")
    assert "submit job broke as ann (partition low, account phys)" in said
    assert "name an account the user is associated with" in said
