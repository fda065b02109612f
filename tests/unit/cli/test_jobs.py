"""`sunkpy jobs` over HTTP: Slurm's own command beside slurmctld, and what follows for pods."""

from __future__ import annotations

import json
import os

import pytest

from sunkpy.cli import kubectl
from tests.unit.cli.installed import our_pod, ready
from tests.unit.cli.test_explain import say
from tests.unit.cli.test_overview import shown
from tests.unit.cli.test_pod_exec import RELAYS, asked, world

__all__ = ["world"]

SLURM_SAYS = f'case "$*" in *slurm-relay) {RELAYS} ;; esac; echo "$said"; exit "${{code:-0}}"'


@pytest.fixture
def pool(world):
    """A job of a person, one of a waiting pod, one of a running one."""
    world.put("pods", our_pod("slurmctld"))
    mine = world.slurm.add_job("PENDING", comment="", user="ann", name="train", state_reason="Priority")
    found = [mine]
    for name, state in (("web", "PENDING"), ("run", "RUNNING")):
        job = world.slurm.add_job(state, comment=f"k8s:default/{name}:u", nodes="n1" if state == "RUNNING" else "")
        world.add_pod(name)
        say(world, name, "waits", **{"sunkpy.dev/job-id": str(job)})
        found.append(job)
    return world, found


async def act(world, tmp_path, *words, said="", code=0):
    script = f"said='{said}' code={code}\n{SLURM_SAYS}"
    exit_code, text, started = await asked(world, tmp_path, "jobs", *words, script=script)
    own = [line.partition(" -- ")[2] for line in started if "slurm-relay" not in line]
    return exit_code, text, own


async def test_jobs_of_people_get_slurms_own_command_all_at_once(pool, tmp_path):
    world, (mine, *_) = pool
    code, text, ran = await act(world, tmp_path, "hold", str(mine), f"{mine}_[3-9]", "77_3")
    assert (code, ran) == (0, [f"scontrol hold {mine},{mine}_[3-9],77_3"])
    assert f"{mine}         ann    train   -      hold\n" in text
    (tmp_path / "started").unlink()
    code, _, ran = await act(world, tmp_path, "cancel", str(mine), "77+1")
    assert (code, ran) == (0, [f"scancel {mine} 77+1"])


async def test_of_a_job_that_stands_for_pods_it_is_said_which_and_what_follows(pool, tmp_path):
    world, (_, waiting, running) = pool
    code, text, ran = await act(world, tmp_path, "cancel", str(running), str(waiting))
    assert (code, ran) == (1, [f"scancel {running}"])
    assert (
        "default/run   cancel; its pods leave their nodes; an owner that replaces them makes new ones, for a new job"
        in text
    )
    assert (
        "default/web   left alone: its pods would get another job; delete them, or scale their owner: "
        "kubectl -n default delete pod web"
    ) in text
    (tmp_path / "started").unlink()
    code, text, ran = await act(world, tmp_path, "requeue", str(running))
    assert (code, ran) == (1, [])
    assert (
        "left alone: a job of pods is never requeued: cancel it, and an owner that replaces its pods makes new ones"
        in text
    )
    code, text, _ = await act(world, tmp_path, "hold", str(waiting))
    assert (code, "hold; its pods wait with it, until it is released" in text) == (0, True)
    code, text, _ = await act(world, tmp_path, "release", str(waiting))
    assert (code, "release; its pods wait in the queue" in text) == (0, True)


async def test_what_slurm_says_is_passed_on_with_an_exit_code(pool, tmp_path):
    world, (mine, *_) = pool
    code, text, _ = await act(world, tmp_path, "requeue", str(mine), said="Job is pending execution", code=1)
    assert (code, text.endswith("Slurm says: Job is pending execution\n")) == (3, True)


async def test_a_trial_and_an_unknown_job_change_nothing(pool, tmp_path):
    world, (mine, *_) = pool
    code, text, ran = await act(world, tmp_path, "hold", str(mine), "--dry-run")
    assert (code, "would hold" in text, ran) == (0, True, [])
    code, text, ran = await act(world, tmp_path, "hold", "99", "-o", "json")
    (step,) = json.loads(text)["jobs"]
    assert (code, step["whyNot"], ran) == (1, "Slurm does not know this job", [])
    world.slurm.is_down = True
    code, text, ran = await act(world, tmp_path, "hold", str(mine))
    assert (code, text.startswith("Nothing was changed: the jobs cannot be read."), ran) == (3, True, [])


async def test_who_may_not_enter_slurmctlds_pod_is_told_so(pool, tmp_path):
    world, (mine, *_) = pool
    world.remove("pods", "slurm", "slurm-slurmctld-0")
    code, text, ran = await act(world, tmp_path, "hold", str(mine))
    said = "there is no slurmctld pod in namespace slurm; give the namespace of the Slurm cluster: -n"
    assert (code, ran, text) == (1, [], f"sunkpy: run hold in slurmctld's pod: {said}\n")


async def test_a_job_of_one_cluster_is_never_cancelled_in_another_one(pool, tmp_path):
    world, (mine, *_) = pool
    world.put("pods", our_pod("slurmctld", namespace="other"))
    code, _, ran = await act(world, tmp_path, "cancel", str(mine))
    assert (code, ran) == (0, [f"scancel {mine}"])
    assert "-n slurm exec slurm-slurmctld-0 " in (tmp_path / "started").read_text().splitlines()[-1]
    (tmp_path / "started").unlink()
    world.api.change("pods", "slurm", "slurm-slurmctld-0", {"status": {"conditions": ready(is_so=False)}})
    code, text, ran = await act(world, tmp_path, "cancel", str(mine))
    assert (code, ran) == (1, [])
    assert "run cancel in slurmctld's pod: no slurmctld pod is ready in namespace slurm; see why: " in text
    (tmp_path / "started").unlink()
    world.put("pods", our_pod("scheduler", namespace="other"))
    world.api.change("pods", "slurm", "slurm-scheduler-0", {"status": {"conditions": ready(is_so=False)}})
    code, text, ran = await act(world, tmp_path, "cancel", str(mine))
    assert (code, ran) == (3, [])
    assert text.startswith("Nothing was changed: the jobs cannot be read.")


async def test_the_settings_say_in_which_namespace_slurmctld_is(pool, tmp_path):
    world, (mine, *_) = pool
    world.put("pods", our_pod("slurmctld", namespace="other"))
    config = ("--config", str(tmp_path / "kubectl.yaml"))
    code, _, ran = await act(world, tmp_path, "cancel", str(mine), *config)
    assert (code, ran) == (0, [f"scancel {mine}"])
    assert "-n slurm exec slurm-slurmctld-0 " in (tmp_path / "started").read_text()
    (tmp_path / "started").unlink()
    code, text, _ = await act(world, tmp_path, "cancel", str(mine), *config, "-n", "other")
    assert (code, (tmp_path / "started").exists()) == (1, False)
    assert "the settings of --config are those of namespace slurm, not of other; leave out -n, or give" in text


async def test_beside_an_address_of_slurmrestd_the_cluster_has_to_be_named(pool, tmp_path):
    world, (mine, *_) = pool
    started, program = tmp_path / "started", tmp_path / "kubectl"
    program.write_text(f'#!/bin/sh\necho "$@" >> {started}\n')
    program.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    words = ("jobs", "cancel", str(mine))
    code, text = await shown(world, tmp_path, *words, command=kubectl, env=env)
    why = "--slurmrestd does not say which Slurm cluster that is; give its namespace: -n"
    assert (code, text, started.exists()) == (1, f"sunkpy: run cancel in slurmctld's pod: {why}\n", False)
    code, _ = await shown(world, tmp_path, *words, "-n", "slurm", command=kubectl, env=env)
    assert (code, f"-n slurm exec slurm-slurmctld-0 -c slurmctld -- scancel {mine}\n" in started.read_text()) == (
        0, True,
    )  # fmt: skip


async def test_what_is_no_number_of_a_job_is_refused(world, tmp_path):
    code, text, ran = await act(world, tmp_path, "cancel", "7;reboot")
    assert (code, "'7;reboot' is not the number of a job" in text, ran) == (2, True, [])


async def test_a_pod_that_names_a_job_of_another_namespace_is_not_among_the_pods_of_that_job(pool, tmp_path):
    world, (_, waiting, _) = pool
    world.add_pod("db", namespace="evil", annotations={"sunkpy.dev/job-id": str(waiting)})
    _, text, _ = await act(world, tmp_path, "cancel", str(waiting))
    assert text.rstrip().endswith("kubectl -n default delete pod web")
    assert "evil" not in text
