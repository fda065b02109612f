"""Slurm is asked through the scheduler's pod: a real relay behind a kubectl that runs it on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path

import click.testing
import pytest
import yaml

from sunkpy.cli import kubectl
from tests.doubles.serving import answering, serving
from tests.unit.cli.installed import installed, our_pod, ready
from tests.unit.cli.test_explain import configure, say

SUNKPY = Path(sys.executable).with_name("sunkpy")
RELAYS = f'exec {SUNKPY} slurm-relay --config "$0.yaml"'


@pytest.fixture
def world():
    world = installed()
    configure(world, slurm={"url": "http://x", "jwtKeyFile": "/k", "user": "k8s"})
    world.slurm.put("n1", "MIXED", gres="gpu:4")
    return world


@contextlib.asynccontextmanager
async def by_kubectl(world, tmp_path, script=RELAYS):
    """A kubeconfig, beside a kubectl that runs this in place of the command in a pod, and notes how it was started."""
    settings = {"cluster": "c1", "namespace": "slurm", "access": []}
    async with answering(world.api.handle, tmp_path) as kubeconfig, serving(world.slurm.app()) as port:
        (tmp_path / "token").write_text("t")
        settings["slurm"] = {"url": f"http://127.0.0.1:{port}", "tokenFile": str(tmp_path / "token")}
        (tmp_path / "kubectl.yaml").write_text(yaml.safe_dump(settings))
        (tmp_path / "kubectl").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/started\n{script}\n')
        (tmp_path / "kubectl").chmod(0o755)
        yield kubeconfig


async def asked(world, tmp_path, *words, script=RELAYS):
    """Exit code and output of a command without an address of Slurm, and the words that kubectl was started with."""
    async with by_kubectl(world, tmp_path, script) as kubeconfig:
        runner = click.testing.CliRunner(env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
        result = await asyncio.to_thread(runner.invoke, kubectl, [*words, "--kubeconfig", str(kubeconfig)])
    started = tmp_path / "started"
    return result.exit_code, result.output, started.read_text().splitlines() if started.exists() else []


async def test_each_command_sees_both_sides_by_the_right_to_enter_the_schedulers_pod(world, tmp_path):
    world.slurm.add_job("PENDING", comment="", user="ann", state_reason="Resources")
    code, text, started = await asked(world, tmp_path, "status", "-o", "wide")
    assert (code, "not asked" in text, "MIXED" in text) == (0, False, True)
    assert "Slurm      1      the nodes that it may use are taken" in text
    relay = "-n slurm exec -i slurm-scheduler-0 -c scheduler -- sunkpy slurm-relay"
    assert started == [f"--kubeconfig {tmp_path}/kubeconfig {relay}"]


async def test_what_is_about_a_pod_is_asked_of_the_only_slurm_whatever_its_namespace(world, tmp_path):
    job = world.slurm.add_job("PENDING", comment="", state_reason="PartitionTimeLimit")
    world.add_pod()
    say(world, "web", "waits", **{"sunkpy.dev/job-id": str(job)})
    code, text, _ = await asked(world, tmp_path, "explain", "pod", "web", "-n", "default")
    assert (code, f"{job}: PENDING, PartitionTimeLimit" in text) == (0, True)


async def test_what_is_changed_in_kubernetes_is_changed_as_the_person_and_in_slurm_as_the_scheduler(world, tmp_path):
    code, text, _ = await asked(world, tmp_path, "drain", "n1", "--reason", "fan", "--slurm")
    assert (code, "drain the Slurm node for 'fan'" in text) == (0, True)
    assert world.slurm.nodes["n1"]["reason"] == "fan"


async def test_an_answer_of_slurm_that_says_no_arrives_as_it_is(world, tmp_path):
    world.slurm.is_down = True
    code, text, _ = await asked(world, tmp_path, "queue")
    assert (code, "HTTP 502" in text) == (3, True)


async def test_who_may_not_enter_the_pod_gets_the_half_that_they_may_read(world, tmp_path):
    world.api.forbidden.add("pods/exec")
    code, text, started = await asked(world, tmp_path, "status")
    words = " ".join(text.split())
    assert (code, started) == (3, [])
    assert (
        "not read: Slurm's side: not asked: you may not create pods/exec in namespace slurm, where the "
        "scheduler's pod is; see --slurmrestd"
    ) in words


@pytest.mark.parametrize("not_ready", ["", "slurm", "other"])
async def test_a_slurm_cluster_that_is_not_named_is_not_guessed(world, tmp_path, not_ready):
    world.put("pods", our_pod("scheduler", namespace="other"))
    if not_ready:
        world.api.change("pods", not_ready, "slurm-scheduler-0", {"status": {"conditions": ready(is_so=False)}})
    _, text, started = await asked(world, tmp_path, "queue")
    assert "not asked: there are scheduler pods in the namespaces other, slurm: name one of them with -n" in " ".join(
        text.split()
    )
    assert started == []
    well = "other" if not_ready == "slurm" else "slurm"
    code, text, started = await asked(world, tmp_path, "queue", "-n", well)
    assert (code, text.startswith("Nothing waits"), len(started)) == (0, True, 1)


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
async def test_pods_that_have_ended_make_no_slurm_cluster(world, tmp_path, phase):
    world.put("pods", our_pod("scheduler", namespace="removed", phase=phase, conditions=ready(is_so=False)))
    code, text, started = await asked(world, tmp_path, "queue")
    assert (code, text, len(started)) == (0, "Nothing waits.\n", 1)


@pytest.mark.parametrize("options", [(), ("-n", "slurm")])
async def test_without_a_ready_scheduler_that_is_said(world, tmp_path, options):
    world.api.change("pods", "slurm", "slurm-scheduler-0", {"status": {"conditions": ready(is_so=False)}})
    code, text, _ = await asked(world, tmp_path, "queue", *options)
    said = (
        "not asked: no scheduler pod is ready in namespace slurm; see why: kubectl -n slurm describe pods "
        "-l app.kubernetes.io/name=slurm,app.kubernetes.io/component=scheduler"
    )
    assert (code, said in " ".join(text.split())) == (3, True)


async def test_without_a_scheduler_that_is_said(world, tmp_path):
    code, text, _ = await asked(world, tmp_path, "queue", "-n", "here")
    words = " ".join(text.split())
    assert (code, "not asked: there is no scheduler pod in namespace here; give the namespace of" in words) == (3, True)


async def test_a_pod_that_goes_away_is_not_blamed_on_slurmrestd_and_another_one_is_asked(world, tmp_path):
    second = our_pod("scheduler")
    second["metadata"]["name"] = "slurm-scheduler-1"
    world.put("pods", second)
    going = "case \"$*\" in *slurm-scheduler-0*) echo 'error: container not found' >&2; exit 1; esac"
    code, text, started = await asked(world, tmp_path, "queue", script=f"{going}\n{RELAYS}")
    assert (code, text) == (0, "Nothing waits.\n")
    assert [each.split()[6] for each in started] == ["slurm-scheduler-0", "slurm-scheduler-1"]
    _, text, started = await asked(world, tmp_path, "queue", script="echo 'error: container not found' >&2; exit 1")
    words = " ".join(text.split())
    assert ("slurmrestd running" in words, "ask again when a scheduler's pod is ready: kubectl -n slurm " in words) == (
        False, True,
    )  # fmt: skip


async def test_a_pod_of_a_release_without_a_relay_is_named_with_what_it_said(world, tmp_path):
    script = "echo \"Error: No such command 'slurm-relay'.\" >&2; exit 2"
    code, text, _ = await asked(world, tmp_path, "queue", script=script)
    words = " ".join(text.split())
    assert code == 3
    assert "Slurm's side: " in words
    assert "-- sunkpy slurm-relay: Error: No such command 'slurm-relay'." in words


async def test_doctor_asks_slurm_the_same_way(world, tmp_path):
    _, text, _ = await asked(world, tmp_path, "doctor", "-o", "json")
    checks = {check["name"]: check for check in json.loads(text)["checks"]}
    assert checks["slurmrestd"]["level"] == "ok"
    assert checks["slurmrestd"]["found"] == "Slurm 26.05.5 (c1), API v0.0.45, 2 nodes"
