"""`sunkpy doctor` over HTTP, against the doubles of the apiserver and of slurmrestd."""

from __future__ import annotations

import asyncio
import json
import os
import re

import msgspec
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from sunkpy.cli import kubectl
from sunkpy.cli.canary import COMPARE, Patience, run_job, run_pod
from sunkpy.cli.connected import Sides
from sunkpy.cli.installation_reader import InstallationReader, probe
from sunkpy.core.overview.installation import HooksFound, Seen
from sunkpy.scheduler.settings import SchedulerSettings
from sunkpy.volumes.metrics import VolumesCollector
from sunkpy.volumes.settings import VolumesSettings
from tests.doubles.serving import serving
from tests.unit.cli.installed import deployment, installed, our_pod, ready
from tests.unit.cli.test_overview import shown
from tests.unit.scheduler.world import connections

SOON = Patience(limit_s=5, every_s=0.01)
AT_ONCE = Patience(limit_s=0, every_s=0.01)
LEFT_BEHIND = {"metadata": {"name": "slurm-syncer", "namespace": "slurm"}, "spec": {"holderIdentity": ""}}


@pytest.fixture
def world():
    return installed()


async def test_what_works_is_found_to_work(world, tmp_path):
    code, text = await shown(world, tmp_path, "doctor", "-n", "slurm")
    assert (code, [line for line in text.splitlines() if not line.startswith("ok  ")]) == (0, [])
    assert "Kubernetes v1.35.0 answers" in text
    assert "slurmrestd: Slurm 26.05.5 (c1)" in text
    assert "keys: pods need 1 Secret, and none is missing" in text


async def test_nothing_is_written_and_of_secrets_only_metadata_is_asked_for(world, tmp_path):
    asked = []

    async def handle(request):
        asked.append((request.method, request.path, request.headers.get("Accept", "")))
        return await answer(request)

    answer, world.api.handle = world.api.handle, handle
    await shown(world, tmp_path, "doctor")
    assert {path for method, path, _ in asked if method != "GET"} == {
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    }
    (accept,) = {accept for _, path, accept in asked if path.endswith("/secrets")}
    assert "as=PartialObjectMetadataList" in accept
    assert {request.split()[0] for request in world.slurm.requests} == {"GET"}


async def test_what_is_seen_beside_slurmctld_is_asked_by_way_of_the_apiserver(world, tmp_path):
    pod = our_pod("slurmctld")
    pod["spec"]["containers"].append({"name": "volumes", "image": "registry/sunkpy:0.1.0"})
    world.put("pods", pod)
    code, text = await shown(world, tmp_path, "doctor")
    assert code == 1
    assert "skipped   volumes: GET /api/v1/namespaces/slurm/pods/slurm-slurmctld-0:8080/proxy/metrics: " in text
    state = tmp_path / "job_state"
    state.touch()
    settings = VolumesSettings(volumes={"state-slurm-slurmctld-0": str(tmp_path)}, job_state=str(state))
    registry = CollectorRegistry()
    registry.register(VolumesCollector(settings, began=0))
    world.api.proxied["slurm-slurmctld-0:8080"] = generate_latest(registry).decode()
    code, text = await shown(world, tmp_path, "doctor")
    assert re.search(r"volumes: (1 volume; |volume )state-slurm-slurmctld-0 is \d+% full\n", text), text
    os.utime(state, (0, 0))
    world.api.proxied["slurm-slurmctld-0:8080"] = generate_latest(registry).decode()
    code, text = await shown(world, tmp_path, "doctor")
    assert (code, "slurmctld has not saved its jobs for " in text) == (2, True)
    pod["spec"]["volumes"] = [{"name": "metrics", "secret": {"secretName": "seen", "optional": True}}]
    world.put("pods", pod)
    code, text = await shown(world, tmp_path, "doctor")
    assert (code, "volumes: only Prometheus may read how full they are" in text) == (0, True)


@pytest.mark.parametrize(
    "pod", ["slurmd-1", "slurm-login-0", "slurm-login-set-0", "slurm-own-login-0"], ids=lambda name: name
)
async def test_the_file_server_behind_the_claim_of_the_homes_is_named(world, tmp_path, pod):
    for component in ("login", "login-set", "own-login", "mariadb"):
        world.put("pods", our_pod(component))
    homes = {"name": "home", "persistentVolumeClaim": {"claimName": "homes"}}
    scratch = {"name": "scratch", "persistentVolumeClaim": {"claimName": "scratch"}}
    world.api.change("pods", "slurm", pod, {"spec": {"volumes": [homes, scratch]}})
    of_database = {"name": "home", "persistentVolumeClaim": {"claimName": "database"}}
    world.api.change("pods", "slurm", "slurm-mariadb-0", {"spec": {"volumes": [of_database]}})
    world.api.define("v1", "PersistentVolume", "persistentvolumes", namespaced=False)
    for claim, server in (("homes", "nas"), ("scratch", "fast"), ("database", "disk")):
        spec = {"claimRef": {"namespace": "slurm", "name": claim}, "nfs": {"server": server, "path": "/"}}
        world.put("persistentvolumes", {"metadata": {"name": f"pv-{claim}"}, "spec": spec})
    code, text = await shown(world, tmp_path, "doctor")
    assert (code, "warning   file servers: every pod may mount nas (PersistentVolume pv-homes)\n" in text) == (1, True)


async def test_what_does_not_work_and_what_may_not_be_read_is_said_with_an_exit_code(world, tmp_path):
    world.api.forbidden |= {"secrets", "nodes"}
    code, text = await shown(world, tmp_path, "doctor", "-o", "json", command=kubectl)
    levels = {check["name"]: check["level"] for check in json.loads(text)["checks"]}
    assert code == 1
    assert {name for name, level in levels.items() if level == "skipped"} == {"keys", "clocks"}
    assert levels["your rights"] == "warning"
    world.slurm.is_down = True
    world.remove("secrets", "slurm", "slurm-jwt-key")
    world.api.forbidden.clear()
    code, text = await shown(world, tmp_path, "doctor")
    assert code == 2
    assert "failed    keys: missing: slurm/slurm-jwt-key\n" in text
    assert "failed    slurmrestd: " in text


async def test_a_process_without_any_pod_is_missed(world, tmp_path):
    world.put("deployments", deployment("syncer", wanted=0, ready=0))
    world.remove("pods", "sunkpy-system", "slurm-operator-0")
    operator = deployment("operator", name="sunkpy", namespace="sunkpy-system", ready=0)
    world.put("deployments", operator)
    world.put("leases", LEFT_BEHIND)
    code, text = await shown(world, tmp_path, "doctor", "-n", "slurm")
    assert code == 2
    assert (
        "failed    replicas: scaled to 0: Deployment slurm/slurm-syncer; "
        "pods are missing or not ready: Deployment sunkpy-system/slurm-operator (0 of 1)\n"
    ) in text
    assert "failed    leaders: slurm/slurm-syncer has no holder\n" in text
    world.api.forbidden.add("deployments")
    code, text = await shown(world, tmp_path, "doctor", "-n", "slurm")
    assert (code, "skipped   replicas: GET /apis/apps/v1/deployments: deployments.apps is forbidden" in text) == (
        1,
        True,
    )


async def test_without_an_apiserver_that_is_what_is_said(world, tmp_path):
    async def handle(_):
        return web.Response(status=503)

    world.api.handle = handle
    code, text = await shown(world, tmp_path, "doctor", asks_slurm=False)
    assert (code, text.startswith("failed    apiserver: GET /version: ")) == (2, True)


async def test_in_a_pod_the_address_that_prologs_call_is_tried_without_any_right(world, tmp_path):
    world.api.forbidden |= {"services", "endpointslices"}
    async with connections(world, tmp_path) as (kube, slurm, _), serving(web.Application()) as port:
        url = f"http://127.0.0.1:{port}"
        found = await InstallationReader(kube, slurm, namespace="slurm", hooks_url=url).read()
        assert found.hooks == HooksFound(url=url)
        found = await InstallationReader(kube, slurm, namespace="slurm", hooks_url="http://127.0.0.1:1").read()
        assert found.hooks.error.startswith("GET http://127.0.0.1:1/hooks/v1/gate: ")


@pytest.mark.parametrize(
    ("namespace", "is_in_pod", "is_tried"), [("slurm", True, True), ("slurm", False, False), ("other", True, False)]
)
async def test_only_a_pod_of_the_cluster_tries_its_address(world, tmp_path, namespace, is_in_pod, is_tried):
    body = {"cluster": "c1", "namespace": "slurm", "access": [], "slurm": {"url": "http://x", "tokenFile": "/t"}}
    settings = msgspec.convert(body | {"hooks": {"url": "http://127.0.0.1:1"}}, SchedulerSettings)
    async with connections(world, tmp_path) as (kube, slurm, _):
        sides = Sides(kube=kube, slurm=slurm, settings=settings)
        found = await InstallationReader.over(sides, namespace=namespace, is_in_pod=is_in_pod).read()
    assert bool(found.hooks.url) == is_tried


async def test_a_service_without_any_endpoint_has_none_that_is_ready(world, tmp_path):
    world.put("endpointslices", world.api.find("endpointslices", "slurm-hooks") | {"endpoints": None})
    code, text = await shown(world, tmp_path, "doctor")
    assert (code, "failed    hooks: no endpoint is ready behind slurm/slurm-hooks\n" in text) == (2, True)


async def test_any_answer_of_an_address_is_one():
    async with serving(web.Application()) as port:
        assert await probe(f"http://127.0.0.1:{port}/x") == ""
    assert "ClientConnectorError" in await probe(f"http://127.0.0.1:{port}/x")


# --------------------------------------------------------------------------------------------------- in another pod


@pytest.fixture
def kubectl_says(tmp_path, monkeypatch):
    """A kubectl that says this, and writes down what it was asked."""

    def says(out, err="", code=0):
        (tmp_path / "out").write_text(out)
        (tmp_path / "err").write_text(err)
        steps = (f"cd {tmp_path}", 'echo "$@" > asked', "cat err >&2", "cat out", f"exit {code}")
        (tmp_path / "kubectl").write_text("\n".join(("#!/bin/sh", *steps)))
        (tmp_path / "kubectl").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        return tmp_path / "asked"

    return says


async def test_what_cannot_be_seen_from_here_is_looked_at_in_the_schedulers_pod(world, tmp_path, kubectl_says):
    world.api.forbidden.add("secrets")
    inside = [{"name": "keys", "tried": "listed them", "found": "1 Secret"}]
    inside += [{"name": "hooks", "tried": "x", "level": "skipped"}, {"name": "CRD", "tried": "x", "level": "failed"}]
    asked = kubectl_says(json.dumps({"checks": inside}), err="command terminated with exit code 1", code=1)
    code, text = await shown(world, tmp_path, "doctor", "--exec")
    assert (code, "ok        keys: 1 Secret\n" in text, "failed" in text) == (0, True, False)
    words = "-n slurm exec slurm-scheduler-0 -c scheduler -- sunkpy doctor -o json -n slurm"
    assert asked.read_text() == f"--kubeconfig {tmp_path}/kubeconfig {words}\n"


async def test_who_may_not_enter_the_pod_is_told_so(world, tmp_path, kubectl_says):
    kubectl_says("", err="Error from server (Forbidden): pods is forbidden", code=1)
    code, text = await shown(world, tmp_path, "doctor", "--exec")
    assert (code, text.startswith("sunkpy: kubectl --kubeconfig "), "(Forbidden)" in text) == (1, True, True)
    world.remove("pods", "slurm", "slurm-scheduler-0")
    code, text = await shown(world, tmp_path, "doctor", "--exec")
    said = "sunkpy: run doctor in the scheduler's pod: there is no scheduler pod; "
    assert (code, text.startswith(said)) == (1, True)


async def test_of_several_clusters_the_one_to_look_from_has_to_be_named(world, tmp_path, kubectl_says):
    asked = kubectl_says('{"checks": []}')
    world.put("pods", our_pod("scheduler", namespace="other", conditions=ready(is_so=False)))
    code, text = await shown(world, tmp_path, "doctor", "--exec")
    assert (code, "scheduler pods in the namespaces other, slurm: name one of them with -n" in text) == (1, True)
    assert not asked.exists()
    await shown(world, tmp_path, "doctor", "--exec", "-n", "slurm")
    assert " -n slurm exec slurm-scheduler-0 " in asked.read_text()


# ------------------------------------------------------------------------------------------------------------- canary


async def test_a_canary_job_runs_and_stays_as_it_ended(world, tmp_path):
    async with connections(world, tmp_path) as (_, slurm, _):
        running = asyncio.ensure_future(run_job(slurm, SOON))
        await world.until(lambda: world.slurm.jobs)
        (job,) = world.slurm.jobs
        world.set_job(job, "COMPLETED", nodes="n1")
        canary = await running
    assert (canary.error, canary.is_accounted, world.slurm.cancelled) == ("", False, [])
    (submitted,) = world.slurm.submissions
    assert (submitted["name"], submitted["time_limit"]["number"]) == ("sunkpy-canary", 1)


@pytest.mark.parametrize(
    ("state", "patience", "error", "is_cancelled"),
    [
        ("FAILED", SOON, "job 100 is FAILED", False),
        ("PENDING", AT_ONCE, "job 100 has not ended within 0 s: Slurm has not looked at it yet", True),
    ],
)
async def test_a_canary_job_that_does_not_run_is_removed(world, tmp_path, state, patience, error, is_cancelled):
    async with connections(world, tmp_path) as (_, slurm, _):
        running = asyncio.ensure_future(run_job(slurm, patience))
        await world.until(lambda: world.slurm.jobs)
        world.set_job(100, state)
        canary = await running
    assert (canary.error, world.slurm.cancelled) == (error, [100] if is_cancelled else [])


async def test_a_job_that_slurm_refuses_is_said(world, tmp_path):
    world.slurm.reject_submit = 2000
    async with connections(world, tmp_path) as (_, slurm, _):
        assert "submit job sunkpy-canary" in (await run_job(slurm, SOON)).error


@pytest.mark.parametrize(("code", "state"), [(0, "COMPLETED"), (13, "FAILED")])
async def test_where_there_are_gpus_a_canary_job_asks_for_one_and_says_what_it_saw(world, tmp_path, code, state):
    ended = {"return_code": {"set": True, "number": code}}
    async with connections(world, tmp_path) as (_, slurm, _):
        running = asyncio.ensure_future(run_job(slurm, SOON, has_gpus=True))
        await world.until(lambda: world.slurm.jobs)
        world.set_job(100, state, nodes="n1", exit_code=ended)
        canary = await running
    (submitted,) = world.slurm.submissions
    assert (submitted["tres_per_node"], "CUDA_VISIBLE_DEVICES" in submitted["script"]) == ("gres/gpu:1", True)
    assert (canary.error, canary.job.exit_code, canary.no_gpu) == ("", code, "")


async def test_where_the_default_partition_has_no_gpu_a_canary_job_runs_without_and_that_is_said(world, tmp_path):
    world.slurm.reject_gres = 2014
    async with connections(world, tmp_path) as (_, slurm, _):
        running = asyncio.ensure_future(run_job(slurm, SOON, has_gpus=True))
        await world.until(lambda: world.slurm.jobs)
        world.set_job(100, "COMPLETED")
        canary = await running
    assert (canary.error, "(Slurm error 2014)" in canary.no_gpu) == ("", True)


async def test_slurmdbd_is_asked_until_it_knows_the_end_of_a_canary_job(world, tmp_path):
    world.slurm.records = {}
    async with connections(world, tmp_path) as (_, slurm, _):
        running = asyncio.ensure_future(run_job(slurm, SOON))
        await world.until(lambda: world.slurm.jobs)
        world.set_job(100, "COMPLETED", nodes="n1")
        await world.until(lambda: "GET job/100" in world.slurm.requests)
        world.slurm.records[100] = {"state": {"current": ["RUNNING"]}, "nodes": "n1"}
        await world.until(lambda: world.slurm.records_read > 1)
        world.slurm.records[100] = {"state": {"current": ["COMPLETED"]}, "nodes": "n1"}
        canary = await running
    assert (canary.record.state, canary.record.nodes, canary.no_record) == ({"COMPLETED"}, ("n1",), "")


async def of_script(tmp_path, opens, **environment):
    """How the script of a canary job ends on a node with two GPUs, of which it may open those."""
    listed = tmp_path / "gpus"
    files = [tmp_path / f"gpu{at}" for at in range(2)]
    listed.write_text("".join(f"- {file} GPU-x -\n" for file in files))
    for at in opens:
        files[at].touch()
    script = COMPARE.replace("/etc/sunkpy/gpus", str(listed))
    process = await asyncio.create_subprocess_exec("bash", "-c", script, env=environment)
    return Seen(await process.wait())


@pytest.mark.parametrize(
    ("opens", "given", "variable", "seen"),
    [
        ([1], "1", "0", Seen.ITS_OWN),
        ([0, 1], "1", "0", Seen.OTHERS_DEVICES),
        ([0], "1", "0", Seen.NOT_ITS_DEVICE),
        ([1], "1", "0,1", Seen.OTHER_VARIABLE),
        ([1], "0,1", "0", Seen.NOT_ONE_GPU),
    ],
)
async def test_the_script_of_a_canary_job_compares_what_it_sees(tmp_path, opens, given, variable, seen):
    assert await of_script(tmp_path, opens, SLURM_JOB_GPUS=given, CUDA_VISIBLE_DEVICES=variable) == seen


async def of_pod(world, tmp_path, patience, *phases):
    """What became of the canary, and its spec."""

    def canaries():
        return [name for name in world.api.names("pods") if "canary" in name]

    async with connections(world, tmp_path) as (kube, _, _):
        running = asyncio.ensure_future(
            run_pod(kube, namespace="default", scheduler="slurm", image="registry/sunkpy:0.1.0", patience=patience)
        )
        await world.until(lambda: canaries() or running.done())
        spec = world.api.find("pods", canaries()[0])["spec"] if canaries() else {}
        for phase in phases:
            world.api.change("pods", "default", canaries()[0], {"status": {"phase": phase}})
        return await running, spec


async def test_a_canary_pod_is_one_for_slurm_and_is_removed(world, tmp_path):
    canary, spec = await of_pod(world, tmp_path, SOON, "Succeeded")
    assert (canary.error, spec["schedulerName"], spec["containers"][0]["image"]) == (
        "",
        "slurm",
        "registry/sunkpy:0.1.0",
    )
    assert [name.startswith("sunkpy-canary-") for name in world.api.deleted] == [True]


@pytest.mark.parametrize(("phases", "patience", "error"), [(["Failed"], SOON, " failed"), ([], AT_ONCE, "within 0 s")])
async def test_a_canary_pod_that_does_not_run_is_removed_too(world, tmp_path, phases, patience, error):
    canary, _ = await of_pod(world, tmp_path, patience, *phases)
    assert error in canary.error
    assert len(world.api.deleted) == 1


async def test_a_pod_that_the_apiserver_refuses_is_said(world, tmp_path):
    world.api.refuse_pods = "quota"
    canary, _ = await of_pod(world, tmp_path, SOON)
    assert "quota" in canary.error


@pytest.mark.parametrize(("phase", "error"), [("Succeeded", ""), ("Failed", " failed")])
async def test_a_canary_pod_that_cannot_be_removed_is_in_the_report(world, tmp_path, phase, error):
    answer = world.api.handle

    async def handle(request):
        if request.method == "DELETE":
            return web.json_response({"kind": "Status", "reason": "Forbidden", "message": "no right"}, status=403)
        return await answer(request)

    world.api.handle = handle
    canary, _ = await of_pod(world, tmp_path, SOON, phase)
    assert (error in canary.error, bool(canary.error)) == (True, bool(error))
    assert re.fullmatch(r"DELETE /api/v1/namespaces/default/pods/sunkpy-canary-\w+: no right \(HTTP 403\)", canary.left)


async def test_a_canary_job_that_cannot_be_cancelled_is_in_the_report(world, tmp_path):
    async with connections(world, tmp_path) as (_, slurm, _):
        running = asyncio.ensure_future(run_job(slurm, SOON))
        await world.until(lambda: world.slurm.jobs)
        world.slurm.is_down = True
        canary = await running
    assert ("HTTP 502" in canary.error, "job 100" in canary.left, "HTTP 502" in canary.left) == (True, True, True)


def know_schedulers(world, **name_in):
    """Put the settings of schedulers into the world; `name_in`: namespace -> scheduler name."""
    labels = {"app.kubernetes.io/name": "slurm", "app.kubernetes.io/component": "scheduler"}
    for namespace, name in name_in.items():
        settings = {"cluster": "c1", "namespace": namespace, "schedulerName": name}
        settings["slurm"] = {"url": "http://x", "jwtKeyFile": "/k"}
        meta = {"name": "slurm-scheduler", "namespace": namespace, "labels": labels}
        world.put("configmaps", {"metadata": meta, "data": {"config.yaml": json.dumps(settings)}})


async def test_the_command_runs_both_and_says_so(world, tmp_path):
    know_schedulers(world, slurm="slurm")
    code, text = await shown(world, tmp_path, "doctor", "-n", "slurm", "--canary", "--limit", "0")
    assert code == 2
    assert "job 100 has not ended within 0 s" in text
    assert "pod slurm/sunkpy-canary-" in text
    assert (world.slurm.cancelled, len(world.api.deleted)) == ([100], 1)


async def test_a_canary_pod_names_the_scheduler_of_the_cluster_that_is_asked(world, tmp_path):
    know_schedulers(world, other="slurm", slurm="slurm-two")
    named = []

    async def handle(request):
        if request.method == "POST" and request.path.endswith("/pods"):
            named.append((await request.json())["spec"]["schedulerName"])
        return await answer(request)

    answer, world.api.handle = world.api.handle, handle
    await shown(world, tmp_path, "doctor", "-n", "slurm", "--canary", "--limit", "0")
    assert named == ["slurm-two"]


async def test_where_no_scheduler_says_its_name_no_canary_pod_is_made(world, tmp_path):
    code, text = await shown(world, tmp_path, "doctor", "-n", "slurm", "--canary", "--limit", "0")
    assert code == 2
    assert "no pod was run, because the scheduler's name is not known: settings of the scheduler: no ConfigMap" in text
    know_schedulers(world, other="slurm")
    code, text = await shown(world, tmp_path, "doctor", "-n", "slurm", "--canary", "--limit", "0")
    assert code == 2
    assert "settings of the scheduler: there are none for namespace slurm" in text
    assert not world.api.deleted
