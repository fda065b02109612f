"""`sunkpy explain` over HTTP, against the doubles of the apiserver and of slurmrestd."""

from __future__ import annotations

import asyncio
import contextlib
import json

import click.testing
import msgspec
import pytest
import yaml

from sunkpy.cli import kubectl, main
from sunkpy.cli.explain import Explainer, ExplainRequest, answer
from sunkpy.core.explain.explanation import render
from tests.doubles.serving import answering, serving
from tests.unit.scheduler.world import World, connections, leading

OPEN = {"namespaces": ["*"], "partitions": ["*"]}
REPLICA_SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d", "uid": "rs", "controller": True}


@pytest.fixture
def world():
    world = World()
    world.api.define("v1", "ConfigMap", "configmaps")
    world.api.define("apps/v1", "ReplicaSet", "replicasets")
    world.add_node(1)
    world.add_node(2, cpu="2")
    return world


def configure(world, **settings):
    """The ConfigMap of a scheduler, as the chart makes it."""
    body = {"cluster": "test", "namespace": "slurm", "slurm": {"url": "http://x", "jwtKeyFile": "/k"}, "access": [OPEN]}
    labels = {"app.kubernetes.io/name": "slurm", "app.kubernetes.io/component": "scheduler"}
    meta = {"name": "slurm-scheduler", "namespace": "slurm", "labels": labels}
    world.put("configmaps", {"metadata": meta, "data": {"config.yaml": yaml.safe_dump(body | settings)}})


def say(world, name, message, **annotations):
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    patch = {"status": {"conditions": [condition]}, "metadata": {"annotations": annotations}}
    world.api.change("pods", "default", name, patch)


@contextlib.asynccontextmanager
async def explainer(world, tmp_path, *, asks_slurm=False):
    async with connections(world, tmp_path) as (kube, slurm, _):
        yield Explainer(kube, "default", sees_all_pods=True, slurm=slurm if asks_slurm else None)


async def of_pod(world, tmp_path, name="web", **how):
    async with explainer(world, tmp_path, **how) as found:
        return render(await found.pod(name))


async def test_a_pod_in_the_queue_is_explained_from_what_was_written_on_it(world, tmp_path):
    configure(world)
    world.add_pod(cpu="3")
    say(world, "web", "Slurm job 7 waits: Priority", **{"sunkpy.dev/job-id": "7"})
    text = await of_pod(world, tmp_path)
    assert text.startswith("Pod default/web waits in the queue of Slurm\n")
    assert "Slurm job       7: PENDING, Priority; as the scheduler wrote it on the pods" in text
    assert "nodes           may use n1\n                not n2: lacks cpu: needs 3, has 2" in text
    assert text.endswith("Nothing: it starts in its turn; squeue --start -j 7 says when Slurm expects that.")


async def test_which_nodes_its_job_lacks_is_told(world, tmp_path):
    configure(world)
    world.add_pod(cpu="3")
    say(world, "web", "Slurm job 7 waits: Priority", **{"sunkpy.dev/job-id": "7"})
    growth = {"wantedNodes": 2, "requests": [{"job": "7", "nodes": 2}], "since": "2026-11-28T12:00:00Z"}
    world.api.put("nodesets", {"metadata": {"name": "cpu", "namespace": "slurm"}, "status": {"growth": growth}})
    text = await of_pod(world, tmp_path)
    assert "growth          2 nodes more of NodeSet slurm/cpu, wanted since 2026-11-28T12:00:00Z" in text


async def test_slurm_knows_better(world, tmp_path):
    configure(world)
    job = world.slurm.add_job("PENDING", comment="k8s:default/web:u", state_reason="JobHeldAdmin")
    world.add_pod()
    say(world, "web", f"Slurm job {job} waits: Priority", **{"sunkpy.dev/job-id": str(job)})
    text = await of_pod(world, tmp_path, asks_slurm=True)
    assert text.startswith("Pod default/web stays in the queue of Slurm until somebody changes something\n")
    assert f"the scheduler said last: Slurm job {job} waits: Priority" in text
    assert f"Slurm job       {job}: PENDING, JobHeldAdmin\n" in text


async def test_a_job_that_slurm_does_not_know_is_lost(world, tmp_path):
    configure(world)
    world.add_pod(node="node-1", running=True, annotations={"sunkpy.dev/job-id": "9999"})
    text = await of_pod(world, tmp_path, asks_slurm=True)
    assert text.startswith("Pod default/web has its node, and Slurm has lost its job\n")
    assert "pod web: runs, node node-1 (Slurm node n1)" in text


async def test_where_a_member_stands_in_the_network_is_told(world, tmp_path):
    configure(world)
    world.api.change("pods", "slurm", "slurmd-1", {"metadata": {"annotations": {"sunkpy.dev/topology": "s1/l1"}}})
    world.add_pod(node="node-1", running=True, annotations={"sunkpy.dev/job-id": "9999"})
    text = await of_pod(world, tmp_path)
    assert "pod web: runs, node node-1 (Slurm node n1), at s1/l1" in text


def with_port(world, name, node="", **how):
    port = {"containerPort": 80, "hostPort": 80}
    world.add_pod(name, node=node, containers=[{"name": "a", "image": "x", "ports": [port]}], **how)


async def test_where_host_ports_decide_no_node_may_be_used_and_that_is_the_reason(world, tmp_path):
    configure(world)
    with_port(world, "first", "node-1", annotations={"sunkpy.dev/job-id": "7"})
    with_port(world, "second", "node-2", schedulerName="default-scheduler")
    with_port(world, "web")
    text = await of_pod(world, tmp_path)
    assert text.startswith("Pod default/web is not submitted: no node fits\n")
    assert "none of 2 Slurm nodes fits: 2 host port 80 is taken\n" in text
    assert "nodes           not n[1-2]: host port 80 is taken\n" in text
    assert ("may use" in text, "leads" in text) == (False, False)


async def test_where_anti_affinity_decides_the_pod_that_keeps_it_away_is_the_reason(world, tmp_path):
    configure(world)
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    for number in (1, 2):
        label = {"metadata": {"labels": {"kubernetes.io/hostname": f"node-{number}"}}}
        world.api.change("nodes", "", f"node-{number}", label)
        other = {"schedulerName": "default-scheduler"} if number == 2 else {"annotations": {"sunkpy.dev/job-id": "7"}}
        world.add_pod(f"db-{number}", node=f"node-{number}", labels={"app": "db"}, **other)
    world.add_pod(labels={"app": "db"}, affinity=apart)
    text = await of_pod(world, tmp_path)
    assert text.startswith("Pod default/web is not submitted: no node fits\n")
    for number in (1, 2):
        assert f"not n{number}: near pod default/db-{number}, which" in text, text
    assert ("may use" in text, "leads" in text) == (False, False)


async def test_a_person_who_may_see_all_pods_is_told_which_pod_of_another_namespace_is_in_the_way(world, tmp_path):
    configure(world)
    term = {
        "labelSelector": {"matchLabels": {"app": "db"}},
        "namespaceSelector": {},
        "topologyKey": "kubernetes.io/hostname",
    }
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    world.api.change("nodes", "", "node-1", {"metadata": {"labels": {"kubernetes.io/hostname": "node-1"}}})
    world.add_pod("db", namespace="stock", node="node-1", labels={"app": "db"}, schedulerName="default-scheduler")
    world.add_pod(labels={"app": "web"}, affinity=apart)
    assert "not n1: near pod stock/db, which its anti-affinity avoids" in await of_pod(world, tmp_path)


async def test_a_pod_whose_node_has_no_room_yet_waits_for_the_one_that_ends(world, tmp_path):
    configure(world)
    world.add_pod("old", cpu="4", node="node-1", running=True, annotations={"sunkpy.dev/job-id": "1"})
    world.api.change("pods", "default", "old", {"metadata": {"deletionTimestamp": "2026-11-21T00:00:00Z"}})
    job = world.slurm.add_job("RUNNING", comment="k8s:default/web:u", nodes="n1")
    world.add_pod(annotations={"sunkpy.dev/job-id": str(job)})
    text = await of_pod(world, tmp_path, asks_slurm=True)
    assert text.startswith("Pod default/web is not bound yet: another pod on its node is ending\n")
    assert "until pod default/old has ended" in text


async def test_what_may_not_be_read_is_named_and_the_rest_is_said(world, tmp_path):
    world.api.forbidden |= {"nodes", "configmaps"}
    world.add_pod()
    say(world, "web", "submit job web (partition low): Invalid account", **{"sunkpy.dev/job-id": "7"})
    text = await of_pod(world, tmp_path)
    assert text.startswith("Pod default/web is not submitted: Slurm did not take its job\n")
    assert "not read        settings of the scheduler (its names, access, workloads): configmaps is forbidden" in text
    assert "nodes: nodes is forbidden" in text


async def test_a_pod_whose_claim_has_no_volume_waits_for_it(world, tmp_path):
    configure(world)
    world.add_pod(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    text = await of_pod(world, tmp_path)
    assert "because         claim data of pod web is not there" in text
    assert text.endswith("See what its claims wait for: kubectl -n default describe pvc")
    local = {"required": {"nodeSelectorTerms": [{"matchFields": [_is_node("node-2")]}]}}
    world.put("persistentvolumes", {"metadata": {"name": "pv"}, "spec": {"nodeAffinity": local}})
    bound = {"name": "data", "namespace": "default", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    world.put("persistentvolumeclaims", {"metadata": bound, "spec": {"volumeName": "pv"}})
    text = await of_pod(world, tmp_path)
    assert "may use n2\n                not n1: out of reach of volume pv (claim data)" in text
    world.api.forbidden |= {"persistentvolumes"}
    text = await of_pod(world, tmp_path)
    assert "out of reach" not in text
    assert "volumes: persistentvolumes is forbidden" in text


def with_devices(world):
    """node-1 has three GPUs: of a pod, of a job of alice, and of nobody."""
    for kind, namespaced in (("ResourceClaim", True), ("ResourceSlice", False)):
        world.api.define("resource.k8s.io/v1", kind, f"{kind.lower()}s", namespaced=namespaced)
    job = world.slurm.add_job("RUNNING", comment="k8s:default/web:u", user="k8s", **_gives("0"))
    world.slurm.add_job("RUNNING", comment="", user="alice", **_gives("1"))
    listed = ", ".join(f'"nvidia{at} GPU-{at} -"' for at in range(3))
    world.slurm.put("n1", extra=f'{{"gpu": [{listed}]}}', gres="gpu:3")
    devices = [{"name": f"gpu-{at}", "attributes": {"uuid": {"string": f"GPU-{at}"}}} for at in range(3)]
    spec = {"driver": "gpu.example.com", "nodeName": "node-1", "pool": {"name": "node-1"}, "devices": devices}
    world.put("resourceslices", {"metadata": {"name": "node-1-gpus"}, "spec": spec})
    notes = {"sunkpy.dev/job-id": str(job), "sunkpy.dev/gpu-indices": "0", "sunkpy.dev/devices": "node-1/gpu-0"}
    asked = [{"name": "gpu", "resourceClaimName": "gpus"}]
    pod = world.add_pod(node="node-1", running=True, annotations=notes, resourceClaims=asked)
    results = [{"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": "gpu-0"}]
    users = [{"resource": "pods", "name": "web", "uid": pod["metadata"]["uid"]}]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": users}
    world.put("resourceclaims", {"metadata": {"name": "gpus", "namespace": "default"}, "status": status})
    return job


def _gives(index):
    where = {"nodes": {"allocation": [{"name": "n1", "cpus": {"count": 1}}]}}
    return {"nodes": "n1", "gres_detail": [f"gpu:1(IDX:{index})"], "job_resources": where}


@pytest.mark.parametrize("name", ["node-1", "n1"])
async def test_whose_the_devices_of_a_node_are_by_its_name_at_either_door(world, tmp_path, name):
    job = with_devices(world)
    async with explainer(world, tmp_path, asks_slurm=True) as found:
        text = render(await found.node(name))
    assert text.startswith("Node node-1 (Slurm node n1) has 3 devices, 1 free\n")
    assert f"gpu 0 (nvidia0 GPU-0, device node-1/gpu-0): pod default/web, claim gpus, Slurm job {job} of k8s\n" in text
    assert f"gpu 1 (nvidia1 GPU-1, device node-1/gpu-1): Slurm job {job + 1} of alice\n" in text
    assert "gpu 2 (nvidia2 GPU-2, device node-1/gpu-2): free\n" in text


async def test_a_pod_is_told_its_devices(world, tmp_path):
    configure(world)
    job = with_devices(world)
    whose = f"pod default/web, claim gpus, Slurm job {job}"
    text = await of_pod(world, tmp_path, asks_slurm=True)
    assert f"\ndevices         gpu 0 (nvidia0 GPU-0, device node-1/gpu-0): {whose} of k8s\n" in text
    assert "all jobs" not in world.slurm.asked
    assert f"\ndevices         device node-1/gpu-0 (GPU-0): {whose}\n" in await of_pod(world, tmp_path)
    world.api.forbidden |= {"resourceclaims", "resourceslices"}
    text = await of_pod(world, tmp_path)
    assert f"\ndevices         gpu 0: {whose}\n                node-1/gpu-0, as noted on the pod\n" in text
    assert "ResourceSlices: resourceslices.resource.k8s.io is forbidden" in text


async def test_what_of_a_node_may_not_be_read_is_named(world, tmp_path):
    with_devices(world)
    world.api.forbidden |= {"resourceclaims"}
    world.slurm.is_down = True
    async with explainer(world, tmp_path, asks_slurm=True) as found:
        text = render(await found.node("node-1"))
        assert found.slurms_silence
    assert "not read        ResourceClaims: resourceclaims.resource.k8s.io is forbidden" in text
    assert "Slurm's side: " in text


async def test_who_may_read_nothing_of_a_node_is_told_which_rights_are_missing(world, tmp_path):
    with_devices(world)
    world.api.forbidden |= {"pods", "nodes"}
    async with explainer(world, tmp_path) as found:
        told = render(await found.node("node-1"))
    assert told.startswith("Node node-1 could not be looked up\n")
    assert 'nodes: nodes is forbidden: User "ann" cannot list resource "nodes"' in told
    assert told.endswith(
        "Ask an admin for the right to list pods and nodes: "
        "kubectl create clusterrole sunk-reader --verb=list --resource=pods,nodes; "
        "kubectl create clusterrolebinding sunk-reader --clusterrole=sunk-reader --user=ann"
    )
    world.api.forbidden |= {"resourceclaims", "resourceslices"}
    world.api.forbidden -= {"nodes"}
    async with explainer(world, tmp_path) as found:
        told = render(await found.node("node-1"))
    assert told.startswith("Node node-1 has no devices that Slurm or a driver knows, as far as could be read\n")
    assert "--resource=pods,resourceslices.resource.k8s.io,resourceclaims.resource.k8s.io; " in told


async def test_a_node_that_is_not_there(world, tmp_path):
    async with explainer(world, tmp_path) as found:
        told = await found.node("node-9")
    assert (told.is_absent, render(told).startswith("Node node-9 does not exist\n")) == (True, True)


def _is_node(name):
    return {"key": "metadata.name", "operator": "In", "values": [name]}


async def test_what_the_namespace_may_not_ask_for_is_said(world, tmp_path):
    configure(world, access=[], defaultPartition="low")
    world.add_pod(annotations={"sunkpy.dev/partition": "high"})
    assert "namespace default may not use partition high: it may use low" in await of_pod(world, tmp_path)


async def test_what_a_namespace_may_ask_for_can_depend_on_its_labels(world, tmp_path):
    configure(world, access=[{"namespaceLabels": {"team": "a"}, "partitions": ["high"]}], defaultPartition="low")
    world.add_pod(annotations={"sunkpy.dev/partition": "high"})
    text = await of_pod(world, tmp_path)
    assert "labels and annotations of namespace default: " in text
    assert "may not use" not in text
    world.api.define("v1", "Namespace", "namespaces", namespaced=False)
    world.put("namespaces", {"metadata": {"name": "default", "labels": {"team": "b"}}})
    assert "namespace default may not use partition high" in await of_pod(world, tmp_path)
    world.put("namespaces", {"metadata": {"name": "default", "labels": {"team": "a"}}})
    assert "may not use" not in await of_pod(world, tmp_path)


async def test_a_pod_of_another_scheduler_is_not_for_slurm(world, tmp_path):
    configure(world, schedulerName="slurm", aliases=["sunk"])
    world.add_pod(schedulerName="volcano")
    text = await of_pod(world, tmp_path)
    assert text.startswith("Pod default/web is not for Slurm\n\nscheduler       volcano\n")
    assert "schedulerName: slurm or sunk" in text
    world.api.remove("configmaps", "slurm", "slurm-scheduler")
    world.add_pod("other", schedulerName="default-scheduler")
    assert "is not for Slurm" in await of_pod(world, tmp_path, "other")


def _said(world, name="web"):
    conditions = world.pod(name).get("status", {}).get("conditions", [])
    return next((each["message"] for each in conditions if each["type"] == "PodScheduled"), "")


@pytest.mark.parametrize("case", ["no node", "not taken", "queued", "bad annotation"])
async def test_it_says_what_the_scheduler_itself_has_said(world, tmp_path, case):
    configure(world)
    if case == "not taken":
        world.reject_submit = 2045
    annotations = {"sunkpy.dev/time-limit": "soon"} if case == "bad annotation" else {}
    async with leading(world, tmp_path):
        world.add_pod(cpu="64" if case == "no node" else "1", annotations=annotations)
        if case == "queued":
            await world.until(lambda: world.jobs)
            world.set_job(max(world.slurm.jobs), "PENDING", state_reason="Resources")
        await world.until(lambda: _said(world))
        text = await of_pod(world, tmp_path)
    assert f"because         {_said(world)}" in text


async def test_a_pod_that_is_not_there(world, tmp_path):
    assert (await of_pod(world, tmp_path, "nobody")).startswith("Pod default/nobody does not exist\n")


async def test_what_is_in_another_namespace_is_told_with_it(world, tmp_path):
    configure(world)
    world.add_pod(annotations={"sunkpy.dev/gang": "ring", "sunkpy.dev/gang-size": "2"})
    world.put("nodesets", {"metadata": {"name": "gpu", "namespace": "slurm"}, "spec": {}})
    for kind, name, there in (("pod", "web", "default"), ("gang", "ring", "default"), ("nodeset", "gpu", "slurm")):
        code, text = await exit_code_of(world, tmp_path, kind, name, "-n", "team")
        assert (code, f" team/{name} does not exist; namespace {there} has one of that name\n" in text) == (1, True)
        assert text.endswith(f"Ask there: kubectl sunk explain {kind} {name} -n {there}\n")
    world.put("nodesets", {"metadata": {"name": "gpu", "namespace": "other"}, "spec": {}})
    _, text = await exit_code_of(world, tmp_path, "nodeset", "gpu", "-n", "team")
    assert "does not exist; namespaces other, slurm have one of that name\n" in text
    world.api.forbidden |= {"nodesets"}
    code, text = await exit_code_of(world, tmp_path, "nodeset", "gpu", "-n", "team")
    assert (code, text.startswith("sunkpy: ")) == (1, True)


async def test_a_pod_whose_gang_cannot_be_told_waits_for_its_owner(world, tmp_path):
    configure(world)
    world.add_pod(labels={"scheduling.x-k8s.io/pod-group": "ring"})
    text = await of_pod(world, tmp_path)
    assert text.startswith("Pod default/web waits: its gang is not known\n")
    assert "the apiserver knows no kind PodGroup of scheduling.x-k8s.io: its CRD is not installed" in text
    async with explainer(world, tmp_path) as found:
        assert [render(each) for each in await found.gangs("ring")] == [text]


async def test_gangs_are_found_by_the_name_of_what_owns_them(world, tmp_path):
    configure(world)
    world.put(
        "replicasets",
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": "web-5d", "namespace": "default", "uid": "rs"},
        },
    )
    for name in ("web-a", "web-b"):
        world.add_pod(name)
        world.api.change("pods", "default", name, {"metadata": {"ownerReferences": [REPLICA_SET]}})
    async with explainer(world, tmp_path) as found:
        explanations = await found.gangs("web-5d")
        assert [each.subject for each in explanations] == [
            "ReplicaSet default/web-5d, pod web-a",
            "ReplicaSet default/web-5d, pod web-b",
        ]
        (none,) = await found.gangs("nobody")
        assert (none.subject, none.standing) == ("Gang default/nobody", "does not exist")


async def test_pods_that_name_the_scheduler_by_an_alias_are_of_the_same_gang(world, tmp_path):
    configure(world, aliases=["sunk"])
    marks = {"sunkpy.dev/gang": "ring", "sunkpy.dev/gang-size": "2"}
    world.add_pod("ring-0", annotations=marks)
    world.add_pod("ring-1", annotations=marks, schedulerName="sunk")
    async with explainer(world, tmp_path) as found:
        (gang,) = await found.gangs("ring")
    assert gang.standing == "is not submitted to Slurm yet"


async def test_settings_that_are_not_there_or_cannot_be_read_are_named(world, tmp_path):
    world.add_pod()
    assert "not read        settings of the scheduler: no ConfigMap has the labels" in await of_pod(world, tmp_path)
    configure(world, madeUp=True)
    text = await of_pod(world, tmp_path)
    assert "not read        settings of the scheduler in slurm/slurm-scheduler: " in text
    assert "madeUp" in text


async def test_a_gang_and_the_pod_beyond_its_places(world, tmp_path):
    configure(world)
    marks = {"sunkpy.dev/gang": "ring", "sunkpy.dev/gang-size": "2"}
    for number in range(3):
        world.add_pod(f"ring-{number}", annotations=marks)
    async with explainer(world, tmp_path) as found:
        (gang,) = await found.gangs("ring")
        assert (gang.subject, gang.standing) == ("Gang default/ring", "is not submitted to Slurm yet")
        assert "solo gangs      ring-2: each has a job of its own" in render(gang)
        text = render(await found.pod("ring-2"))
    assert "gang default/ring (family annotated gang) has no place for this pod, so it has a job of its own" in text
    assert "preemption      takes this pod, alone and before the others of its gang" in text


async def test_a_member_for_which_the_job_of_its_gang_has_no_room_waits_for_its_own(world, tmp_path):
    configure(world)
    marks = {"sunkpy.dev/gang": "ring", "sunkpy.dev/gang-size": "2"}
    world.add_pod("ring-0", annotations=marks | {"sunkpy.dev/job-id": "7"}, node="node-1", running=True)
    world.add_pod("ring-1", annotations=marks | {"sunkpy.dev/job-id": "8"}, cpu="3")
    say(world, "ring-1", "Slurm job 8 waits: Resources")
    text = await of_pod(world, tmp_path, "ring-1")
    assert text.startswith("Pod default/ring-1 waits in the queue of Slurm\n")
    assert (
        "the job of gang default/ring (family annotated gang) has no room for this pod, so it has a job of its own"
    ) in text
    assert "7" not in text.split("Slurm job       ")[1].splitlines()[0]


async def test_the_namespace_is_that_of_the_kubeconfig_unless_another_is_asked_for(world, tmp_path):
    async with answering(world.api.handle, tmp_path) as kubeconfig:
        question = ExplainRequest(kind="pod", name="nobody", kubeconfig=kubeconfig)
        assert (await answer(question)).text.startswith("Pod default/nobody ")
        kubeconfig.write_text(kubeconfig.read_text().replace('"user": "u"}', '"user": "u", "namespace": "team"}'))
        assert (await answer(question)).text.startswith("Pod team/nobody ")


async def test_in_the_pod_of_the_scheduler_its_own_settings_lead_to_slurm(world, tmp_path):
    world.api.forbidden.add("configmaps")
    job = world.slurm.add_job("PENDING", comment="k8s:default/web:u", state_reason="Resources")
    world.add_pod(annotations={"sunkpy.dev/job-id": str(job)})
    async with connections(world, tmp_path) as (_, _, settings):
        config = tmp_path / "config.yaml"
        config.write_bytes(msgspec.yaml.encode(settings))
        question = ExplainRequest(
            kind="pod", name="web", namespace="default", config=config, kubeconfig=tmp_path / "kubeconfig"
        )
        text = (await answer(question)).text
    assert f"Slurm job       {job}: PENDING, Resources\n" in text
    assert "not read" not in text


async def test_when_slurm_does_not_answer_what_the_scheduler_noted_is_told_and_that(world, tmp_path):
    configure(world)
    world.slurm.is_down = True
    world.add_pod()
    say(world, "web", "Slurm job 7 waits: Priority", **{"sunkpy.dev/job-id": "7"})
    text = await of_pod(world, tmp_path, asks_slurm=True)
    assert text.startswith("Pod default/web waits in the queue of Slurm\n")
    assert "7: PENDING, Priority; as the scheduler wrote it on the pods" in text
    assert "not read        Slurm's side: read job 7: " in text


async def exit_code_of(world, tmp_path, *words):
    """Exit code and output of the command."""
    async with answering(world.api.handle, tmp_path) as kubeconfig, serving(world.slurm.app()) as port:
        (tmp_path / "token").write_text("SLURM_JWT=t")
        slurm = ("--slurmrestd", f"http://127.0.0.1:{port}", "--slurm-token-file", str(tmp_path / "token"))
        asked = ["explain", *words, *slurm, "--kubeconfig", str(kubeconfig)]
        shown = await asyncio.to_thread(click.testing.CliRunner().invoke, kubectl, asked)
    return shown.exit_code, shown.output


async def test_the_exit_code_tells_whether_there_was_an_answer(world, tmp_path):
    configure(world)
    world.add_pod()
    say(world, "web", "Slurm job 7 waits: Priority", **{"sunkpy.dev/job-id": "7"})
    assert (await exit_code_of(world, tmp_path, "pod", "web"))[0] == 0
    assert await exit_code_of(world, tmp_path, "gang", "nobody") == (
        1,
        "Gang default/nobody does not exist\n\nwhat to do      See what there is: kubectl -n default get pods\n",
    )
    world.slurm.is_down = True
    code, shown = await exit_code_of(world, tmp_path, "pod", "web")
    assert (code, "not read        Slurm's side: " in shown) == (3, True)
    world.api.forbidden.add("pods")
    code, shown = await exit_code_of(world, tmp_path, "pod", "web")
    assert (code, shown.startswith("sunkpy: "), "pods is forbidden" in shown) == (1, True, True)


async def test_a_job_of_either_door_is_explained_by_its_number(world, tmp_path):
    configure(world, slurm={"url": "http://x", "jwtKeyFile": "/k", "user": "k8s"})
    world.slurm.configured = {"low": "n[1-2]"}
    of_ann = world.slurm.add_job("PENDING", comment="", user="ann", name="train", state_reason="Priority")
    code, text = await exit_code_of(world, tmp_path, "job", str(of_ann))
    assert (code, text.startswith(f"Job {of_ann} (train, of ann) waits in the queue\n")) == (0, True)
    assert "nodes           partition low: 2 nodes (2 ready)\n" in text
    of_pod = world.slurm.add_job("PENDING", comment="k8s:default/web:u", state_reason="Resources")
    world.add_pod(annotations={"sunkpy.dev/job-id": str(of_pod)})
    code, text = await exit_code_of(world, tmp_path, "job", str(of_pod))
    assert (code, text.startswith(f"Job {of_pod} (of pods: default/web) waits in the queue\n")) == (0, True)
    assert "\n\nPod default/web waits in the queue of Slurm\n" in text
    for job in (of_ann, of_pod):  # anybody may write the number of any job on a pod
        world.add_pod(f"a{job}", namespace="another", annotations={"sunkpy.dev/job-id": str(job)})
        assert "Pod another/" not in (await exit_code_of(world, tmp_path, "job", str(job)))[1]
    code, text = await exit_code_of(world, tmp_path, "job", "9999")
    assert (code, text.startswith("Job 9999 is not known to Slurm\n")) == (1, True)
    for odd in ("web", "7_[1-3]", "7;8", "7_"):
        assert (await exit_code_of(world, tmp_path, "job", odd))[0] == 2
    array = {"set": True, "infinite": False, "number": 500}
    known = {"array_job_id": array, "array_task_string": "2-900%4", "state_reason": "JobArrayTaskLimit"}
    world.slurm.add_job("PENDING", comment="", user="ann", name="many", **known)
    code, text = await exit_code_of(world, tmp_path, "job", "500_900")
    assert (code, text.startswith("Job 500_900 (many, of ann) waits in the queue\n")) == (0, True)
    assert "waits for       no more tasks of its array may run at a time" in text
    code, text = await exit_code_of(world, tmp_path, "job", "500_901")
    assert (code, text.startswith("Job 500_901 is not known to Slurm\n")) == (1, True)
    world.slurm.is_down = True
    code, text = await exit_code_of(world, tmp_path, "job", str(of_pod))
    assert (code, text.startswith("Pod default/web ")) == (3, True)


async def test_a_program_reads_an_explanation_by_its_parts(world, tmp_path):
    configure(world)
    world.add_pod(cpu="3")
    say(world, "web", "Slurm job 7 waits: Priority", **{"sunkpy.dev/job-id": "7"})
    code, text = await exit_code_of(world, tmp_path, "gang", "web", "-o", "json")
    (found,) = json.loads(text)["explanations"]
    assert (code, found["subject"], found["isAbsent"]) == (0, "Pod default/web", False)
    assert found["whatToDo"]
    assert {line["title"] for line in found["lines"] if line["texts"]} >= {"Slurm job", "nodes"}
    world.slurm.is_down = True
    code, text = await exit_code_of(world, tmp_path, "pod", "web", "-o", "yaml")
    assert (code, yaml.safe_load(text)["explanations"][0]["subject"]) == (3, "Pod default/web")


async def test_a_nodeset_is_explained_by_what_the_operator_decides(world, tmp_path):
    spec = {"gpu": {"driver": "gpu.example.com"}, "template": {"spec": {"containers": [{"name": "slurmd"}]}}}
    body = {"metadata": {"name": "gpu", "namespace": "slurm", "uid": "nodeset-1"}, "spec": spec}
    world.api.define("resource.k8s.io/v1", "ResourceSlice", "resourceslices", namespaced=False)
    world.put("nodesets", body)
    code, text = await exit_code_of(world, tmp_path, "nodeset", "gpu", "-n", "slurm")
    assert (code, text.startswith("NodeSet slurm/gpu fits no node\n")) == (0, True)
    assert "not feasible    node-[1-2]: lacks gpu.example.com: has no ResourceSlice, or not all" in text
    world.put("nodesets", body | {"spec": {"template": {"spec": {"containers": "none"}}}})
    code, text = await exit_code_of(world, tmp_path, "nodeset", "gpu", "-n", "slurm")
    assert (code, text.startswith("NodeSet slurm/gpu cannot be read, so the operator ")) == (0, True)
    refused = {"type": "Progressing", "status": "False", "reason": "CreateFailed", "message": "exceeded quota"}
    status = {"conditions": [refused]}
    world.put("nodesets", body | {"spec": {"template": spec["template"]}, "status": status})
    _, text = await exit_code_of(world, tmp_path, "nodeset", "gpu", "-n", "slurm")
    assert text.startswith("NodeSet slurm/gpu has a template whose pods the apiserver refuses")
    world.api.forbidden.add("nodes")
    code, text = await exit_code_of(world, tmp_path, "nodeset", "gpu", "-n", "slurm")
    assert (code, "not read        nodes: nodes is forbidden" in text) == (0, True)
    code, text = await exit_code_of(world, tmp_path, "nodeset", "cpu", "-n", "slurm")
    assert (code, "NodeSet slurm/cpu does not exist" in text, "-n slurm get nodesets" in text) == (1, True, True)


def test_both_commands_explain_and_a_half_given_slurm_is_refused():
    for command in (main, kubectl):
        shown = click.testing.CliRunner().invoke(command, ["explain", "pod", "x", "--slurmrestd", "http://x"])
        assert (shown.exit_code, "--slurmrestd and --slurm-token-file together" in shown.output) == (2, True)


@pytest.mark.parametrize("kubeconfig", ["{}", "", "- a", "a: [", "text", "users: 1\n"])
def test_without_an_apiserver_it_is_said_and_the_exit_code_is_1(tmp_path, monkeypatch, kubeconfig):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "config").write_text(kubeconfig)
    asked = ["explain", "pod", "x", "-n", "a", "--kubeconfig", str(tmp_path / "config")]
    shown = click.testing.CliRunner().invoke(main, asked)
    assert (shown.exit_code, shown.output.startswith("sunkpy: find the apiserver: ")) == (1, True)
