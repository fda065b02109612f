"""Explanations on the page of a cluster name nothing of namespaces whose pods the viewer may not see, though the page
itself reads all of them.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import aiohttp
import pytest

from tests.page_ground import Pool, page_of

HOSTNAME = "kubernetes.io/hostname"
A_POD = "a pod of another namespace"
SECRETS = ("secret", "team-b")


@pytest.fixture
def pool():
    """Ann may see the pods of team-a, Eve all pods. In team-b, `secret-train` runs on gpu-0001."""
    pool = Pool(nodes=2)
    for name in pool.free:
        pool.api.change("nodes", "", name, {"metadata": {"labels": {HOSTNAME: name}}})
    pool.add_pod("team-b", "secret-train", "gpu-0001")
    pool.api.change("pods", "team-b", "secret-train", {"metadata": {"labels": {"app": "x"}}})
    pool.api.people = {"of-ann": "ann", "of-eve": "eve"}
    pool.api.allowed = {(who, "nodesets", "slurm") for who in ("ann", "eve")}
    pool.api.allowed |= {("ann", "pods", "team-a"), ("eve", "pods", "")}
    return pool


@asynccontextmanager
async def asking(pool, folder):
    """A function that sends a viewer's question to the page, and returns the answer as text."""
    async with page_of(pool, folder, is_shared=True) as shown, aiohttp.ClientSession(shown.url) as session:

        async def ask(who, path):
            async with session.get(path, headers={"Authorization": f"Bearer of-{who}"}) as answer:
                assert answer.status == 200, await answer.text()
                return json.dumps(await answer.json(), ensure_ascii=False)

        await ask("ann", "/api/page")
        yield ask


def names_nothing(text):
    return not any(secret in text for secret in SECRETS)


def change(pool, namespace, name, **fields):
    pool.api.change("pods", namespace, name, fields)


def apart_from(label):
    term = {"labelSelector": {"matchExpressions": [{"key": label, "operator": "Exists"}]}, "namespaceSelector": {}}
    terms = [term | {"topologyKey": HOSTNAME}]
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def avoids(pool):
    """Ann's pod keeps away from all pods with a label."""
    pool.add_pod("team-a", "mine")
    change(pool, "team-a", "mine", spec=apart_from("app"))
    return "not gpu-0001: near {}, which its anti-affinity avoids"


def is_avoided(pool):
    """A pod of team-b keeps away from all pods with a label of Ann's."""
    pool.add_pod("team-a", "mine")
    change(pool, "team-a", "mine", metadata={"labels": {"team": "a"}})
    change(pool, "team-b", "secret-train", spec=apart_from("team"))
    return "not gpu-0001: near {}, whose anti-affinity keeps it away"


@pytest.mark.parametrize("road", [avoids, is_avoided])
@pytest.mark.parametrize("first", ["ann", "eve"])
async def test_a_pod_of_another_namespace_in_the_way_is_named_only_to_who_sees_all_pods(pool, tmp_path, road, first):
    says = road(pool)
    async with asking(pool, tmp_path) as ask:
        told = {who: await ask(who, "/api/explain/pod/team-a/mine") for who in (first, "ann", "eve")}
    assert says.format(A_POD) in told["ann"]
    assert names_nothing(told["ann"])
    assert says.format("pod team-b/secret-train") in told["eve"]


@pytest.mark.parametrize("first", ["ann", "eve"])
async def test_the_explanation_of_a_job_of_pods_names_them_no_more(pool, tmp_path, first):
    says = avoids(pool)
    comment = "k8s:team-a/mine:uid-mine"
    job = pool.slurm.add_job("PENDING", comment=comment, admin_comment=comment, state_reason="Priority")
    async with asking(pool, tmp_path) as ask:
        told = {who: await ask(who, f"/api/explain/job/{job}") for who in (first, "ann", "eve")}
    assert says.format(A_POD) in told["ann"]
    assert names_nothing(told["ann"])
    assert says.format("pod team-b/secret-train") in told["eve"]


@pytest.mark.parametrize("first", ["ann", "eve"])
async def test_where_else_a_name_exists_is_told_only_to_who_sees_all_pods(pool, tmp_path, first):
    pool.add_pod("team-a", "mine")
    async with asking(pool, tmp_path) as ask:
        told = {who: await ask(who, "/api/explain/pod/team-a/secret-train") for who in (first, "ann", "eve")}
        nobody = await ask("ann", "/api/explain/pod/team-a/nobody")
    assert told["ann"] == nobody.replace("nobody", "secret-train"), "whether it exists elsewhere makes no difference"
    assert "does not exist; namespace team-b has one of that name" in told["eve"]


async def test_no_explanation_names_a_pod_with_the_same_host_port(pool, tmp_path):
    pool.add_pod("team-a", "mine")
    for namespace, name in (("team-a", "mine"), ("team-b", "secret-train")):
        port = {"containerPort": 80, "hostPort": 80}
        change(pool, namespace, name, spec={"containers": [{"name": "c", "ports": [port]}]})
    async with asking(pool, tmp_path) as ask:
        told = await ask("ann", "/api/explain/pod/team-a/mine")
    assert "not gpu-0001: host port 80 is taken" in told
    assert names_nothing(told)


async def test_no_explanation_names_a_pod_that_has_to_end_first(pool, tmp_path):
    asks = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "40"}}}]}
    change(pool, "team-b", "secret-train", spec=asks, metadata={"deletionTimestamp": "2026-11-21T00:00:00Z"})
    job = pool.run_job("mine", "k8s", "gpu-0001", comment="k8s:team-a/mine:uid-mine")
    pool.add_pod("team-a", "mine", job=job)
    change(pool, "team-a", "mine", spec=asks)
    async with asking(pool, tmp_path) as ask:
        told = await ask("ann", "/api/explain/pod/team-a/mine")
    assert f"until {A_POD} has ended" in told
    assert names_nothing(told)


async def test_no_explanation_names_the_user_of_a_claim_of_that_name_elsewhere(pool, tmp_path):
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOncePod"]}}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    pool.add_pod("team-a", "mine")
    for namespace, name in (("team-a", "mine"), ("team-b", "secret-train")):
        pool.api.put("persistentvolumeclaims", {**claim, "metadata": {"name": "data", "namespace": namespace}})
        change(pool, namespace, name, spec={"volumes": volumes})
    async with asking(pool, tmp_path) as ask:
        told = await ask("ann", "/api/explain/pod/team-a/mine")
    assert "claim data of pod mine" in told
    assert names_nothing(told)


def with_one_device_each(pool):
    """Ann's pod on gpu-0001, and the one device there that it has: by Slurm's index 0, and by a claim."""
    for kind, namespaced in (("ResourceClaim", True), ("ResourceSlice", False)):
        pool.api.define("resource.k8s.io/v1", kind, f"{kind.lower()}s", namespaced=namespaced)
    device = {"name": "gpu-0", "attributes": {"uuid": {"string": "GPU-0"}}}
    spec = {"driver": "gpu.example.com", "nodeName": "gpu-0001", "pool": {"name": "gpu-0001"}, "devices": [device]}
    pool.api.put("resourceslices", {"metadata": {"name": "gpu-0001"}, "spec": spec})
    pool.run_pod("team-a", "mine", "gpu-0001")
    pool.slurm.put("gpu-0001", extra='{"gpu": ["nvidia0 GPU-0 -"]}', gres="gpu:1")
    note(pool, "team-a", "mine")
    give(pool, "team-a", "mine-claim", "mine")


def note(pool, namespace, name):
    notes = {"sunkpy.dev/gpu-indices": "0", "sunkpy.dev/devices": "gpu-0001/gpu-0"}
    change(pool, namespace, name, metadata={"annotations": notes})


def give(pool, namespace, claim, pod):
    """The device is allocated to a claim too, which is reserved for a pod."""
    results = [{"request": "gpu", "driver": "gpu.example.com", "pool": "gpu-0001", "device": "gpu-0"}]
    reserved = [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"}]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
    pool.api.put("resourceclaims", {"metadata": {"name": claim, "namespace": namespace}, "status": status})


@pytest.mark.parametrize(
    ("share", "named", "unnamed"),
    [
        (lambda pool: note(pool, "team-b", "secret-train"), "AND pod team-b/secret-train", f"AND {A_POD}"),
        (
            lambda pool: give(pool, "team-b", "secret-claim", "secret-train"),
            "AND pod team-b/secret-train",
            f"AND {A_POD}",
        ),
        (
            lambda pool: give(pool, "team-b", "secret-claim", "secret-other"),
            "AND claim team-b/secret-claim of secret-other",
            "AND a claim of another namespace",
        ),
    ],
)
async def test_whoever_else_has_a_device_of_a_pod_is_named_only_to_who_sees_all_pods(
    pool, tmp_path, share, named, unnamed
):
    with_one_device_each(pool)
    share(pool)
    async with asking(pool, tmp_path) as ask:
        told = {who: await ask(who, "/api/explain/pod/team-a/mine") for who in ("eve", "ann")}
    assert ": pod team-a/mine, " in told["ann"]
    assert unnamed in told["ann"]
    assert names_nothing(told["ann"])
    assert named in told["eve"]


@pytest.mark.parametrize("first", ["ann", "eve"])
async def test_what_other_programs_say_of_a_node_is_told_only_to_who_sees_all_pods(pool, tmp_path, first):
    about = {"kind": "Node", "name": "gpu-0001"}
    for by, reason, message in (
        ("karpenter", "DisruptionBlocked", "Pod has a do-not-disrupt annotation (Pod=team-b/secret-train)"),
        ("sunkpy.dev/operator", "HealthReturned", "the check passed"),
    ):
        body = {"involvedObject": about, "reason": reason, "message": message, "reportingComponent": by}
        meta = {"name": f"gpu-0001.{reason.lower()}", "namespace": "default"}
        pool.api.put("events", body | {"metadata": meta, "eventTime": pool.ago(5)})
    async with asking(pool, tmp_path) as ask:
        told = {who: await ask(who, "/api/explain/node/gpu-0001") for who in (first, "ann", "eve")}
    assert "Event DisruptionBlocked" in told["ann"]
    assert "Node gpu-0001: not shown" in told["ann"]
    assert "Node gpu-0001: the check passed" in told["ann"]
    assert names_nothing(told["ann"])
    assert "Pod=team-b/secret-train" in told["eve"]
