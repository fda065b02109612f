"""Pods that want to be near others, away from them, or together, through the whole scheduler."""

import asyncio

import pytest

from sunkpy.core.gang.limits import avoid_nodes
from sunkpy.scheduler.nodes import cluster
from tests.unit.scheduler.test_scheduler import hook_client
from tests.unit.scheduler.world import World, leading

NEVER_S = 3600.0
HOST, RACK = "kubernetes.io/hostname", "example.com/rack"


@pytest.fixture
def world():
    world = World()
    world.hasten(other_pods_again_s=0.05)
    for number, rack in ((1, "a"), (2, "b"), (3, "b")):
        world.add_node(number)
        labels = {HOST: f"node-{number}", RACK: rack}
        world.put(
            "nodes",
            world.api.objects["nodes", "", f"node-{number}"]
            | {"metadata": {"name": f"node-{number}", "labels": labels}},
        )
    return world


def terms(kind, key, app):
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def stranger(world, *, node="node-2", app="db", **spec):
    meta = {"name": "stranger", "namespace": "default", "labels": {"app": app}}
    return world.put("pods", {"metadata": meta, "spec": {"nodeName": node, **spec}, "status": {"phase": "Running"}})


async def test_nodes_with_pods_of_its_anti_affinity_are_excluded_and_come_back(world, tmp_path):
    stranger(world)
    async with leading(world, tmp_path):
        world.add_pod(affinity=terms("podAntiAffinity", RACK, "db"))
        await world.until(lambda: world.submissions)
        assert world.submissions[0]["excluded_nodes"] == ["n2", "n3"]


async def test_pods_that_must_be_spread_are(world, tmp_path):
    even = {"maxSkew": 1, "topologyKey": RACK, "whenUnsatisfiable": "DoNotSchedule"}
    even |= {"labelSelector": {"matchLabels": {"app": "web"}}}
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        for name in ("one", "two"):
            world.add_pod(name, labels={"app": "web"}, topologySpreadConstraints=[even])
        await world.until(lambda: len(world.submissions) == 2)
        one, two = world.jobs
        for job_id in (one, two):  # Slurm starts both on one node
            world.set_job(job_id, "RUNNING", "CONFIGURING", nodes="n2")
        await asyncio.gather(call("prolog", one, node=2), call("prolog", two, node=2))
        await world.until(lambda: len(world.cancelled) == 1)
        (bound, _) = world.bindings[0]
        says = f"node node-2 must be avoided: 1 pods like it are in {RACK}=b and 0 elsewhere (maxSkew 1); "
        assert any(note.startswith(says) for note in world.notes("FailedScheduling"))
        world.set_job(world.cancelled[0], "CANCELLED")
        await world.until(lambda: len(world.submissions) == 3)
        assert (len(world.bindings), world.submissions[2]["excluded_nodes"]) == (1, ["n2", "n3"])
        world.pod_is_gone(bound)
        again = max(world.jobs)
        await world.until(lambda: world.jobs[again]["excluded_nodes"] in ("", "n2"))


async def test_a_port_of_a_sidecar_is_no_port_of_pods_that_are_alike_but_for_it(world, tmp_path):
    taken = {"containerPort": 80, "hostPort": 80}
    stranger(world, containers=[{"name": "c", "ports": [taken]}])
    proxy = {"name": "proxy", "restartPolicy": "Always", "ports": [taken]}
    apart = terms("podAntiAffinity", HOST, "web")
    async with leading(world, tmp_path):
        world.add_pod("with-proxy", initContainers=[proxy], affinity=apart)
        await world.until(lambda: world.submissions)
        world.add_pod("without", affinity=apart)
        await world.until(lambda: len(world.submissions) == 2)
        assert [job.get("excluded_nodes", []) for job in world.submissions] == [["n2"], []]


async def test_a_pod_that_came_meanwhile_is_found_before_the_binding(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        world.add_pod(affinity=terms("podAntiAffinity", HOST, "db"))
        await world.until(lambda: world.submissions)
        (job_id,) = world.jobs
        stranger(world, node="node-1")
        world.set_job(job_id, "RUNNING", "CONFIGURING", nodes="n1")
        await call("prolog", job_id)
        await world.until(lambda: world.cancelled == [job_id])
        assert world.bindings == []
        (note,) = await world.until(
            lambda: [note for note in world.notes("FailedScheduling") if "must be avoided" in note]
        )
        assert note.startswith(
            "node node-1 must be avoided: near pod default/stranger, which its anti-affinity avoids; "
        )
        await world.until(lambda: len(world.submissions) == 2)
        assert world.submissions[1]["excluded_nodes"] == ["n1"]


async def test_an_own_pod_keeps_others_away_as_soon_as_it_is_bound(world, tmp_path):
    async with leading(world, tmp_path):
        world.add_pod("first", node="node-1", labels={"app": "web"}, affinity=terms("podAntiAffinity", HOST, "web"))
        world.add_pod("second", labels={"app": "web"})
        wanted = lambda: [job for job in world.submissions if job["name"] == "second"]  # noqa: E731
        await world.until(wanted)
        await world.until(lambda: any("n1" in job.get("excluded_nodes", "") for job in world.jobs.values()))


async def test_the_first_pod_of_all_that_keeps_others_away_is_seen_by_those_that_wait(world, tmp_path):
    async with leading(world, tmp_path, poll_seconds=0.2):
        world.add_pod("waits", labels={"app": "web"})
        await world.until(lambda: world.submissions)
        (job,) = world.jobs
        await asyncio.sleep(0.5)  # until it is not looked at for another reason
        assert not world.jobs[job]["excluded_nodes"]
        world.add_pod("first", node="node-1", affinity=terms("podAntiAffinity", HOST, "web"))
        await world.until(lambda: world.jobs[job]["excluded_nodes"] == "n1", within_s=3.0)


async def test_a_replica_that_waits_may_go_where_another_one_was_when_that_has_left(world, tmp_path):
    apart = terms("podAntiAffinity", HOST, "web")
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        world.add_pod("first", labels={"app": "web"}, affinity=apart)
        await world.until(lambda: world.submissions)
        world.add_pod("second", labels={"app": "web"}, affinity=apart)
        await world.until(lambda: len(world.submissions) == 2)
        first, second = sorted(world.jobs)
        assert not world.jobs[second]["excluded_nodes"]
        world.set_job(first, "RUNNING", "CONFIGURING", nodes="n1")
        await call("prolog", first)
        await world.until(lambda: world.bindings == [("first", "node-1")])
        await world.until(lambda: world.jobs[second]["excluded_nodes"] == "n1")
        world.pod_runs("first")
        world.pod_ends("Succeeded", "first")
        await world.until(lambda: not world.jobs[second]["excluded_nodes"])


async def test_where_replicas_may_go_is_worked_out_for_all_of_them_together(world, tmp_path, monkeypatch):
    """For each by itself it would hold the loop as long as they wait."""
    worked_out = []

    def count(pods, around):
        worked_out.append(len(pods))
        return avoid_nodes(pods, around)

    monkeypatch.setattr(cluster, "avoid_nodes", count)
    apart, replicas = terms("podAntiAffinity", HOST, "web"), 30
    async with leading(world, tmp_path):
        for number in range(replicas):
            own = {"statefulset.kubernetes.io/pod-name": f"web-{number}"}
            world.add_pod(f"web-{number}", labels={"app": "web", **own}, affinity=apart)
        await world.until(lambda: len(world.submissions) == replicas)
        world.add_pod("bound", node="node-1", running=True, labels={"app": "web"}, affinity=apart)
        await world.until(lambda: [job["excluded_nodes"] for job in world.jobs.values()].count("n1") == replicas)
        assert len(worked_out) <= 6, "when they came, and when another was bound"


async def test_a_gang_that_must_be_together_gets_one_rack(world, tmp_path):
    gang = {"sunkpy.dev/gang": "g", "sunkpy.dev/gang-size": "2"}
    async with leading(world, tmp_path):
        for name in ("one", "two"):
            near = terms("podAffinity", RACK, "web")
            world.add_pod(name, annotations=gang, labels={"app": "web"}, affinity=near)
        await world.until(lambda: world.submissions)
        assert world.submissions[0]["excluded_nodes"] == ["n1"]


async def test_a_gang_that_must_be_on_one_node_asks_for_one(world, tmp_path):
    gang = {"sunkpy.dev/gang": "g", "sunkpy.dev/gang-size": "2"}
    async with leading(world, tmp_path):
        for name in ("one", "two"):
            near = terms("podAffinity", HOST, "web")
            world.add_pod(name, annotations=gang, labels={"app": "web"}, affinity=near)
        await world.until(lambda: world.submissions)
        job = world.submissions[0]
        assert (job["maximum_nodes"], job["tasks"], job.get("excluded_nodes")) == (1, 2, None)


async def test_what_slurm_cannot_hold_is_told_by_name(world, tmp_path):
    async with leading(world, tmp_path):
        world.add_pod(resourceClaims=[{"name": "gpu"}])
        await world.until(lambda: world.notes("FailedScheduling"))
        assert world.notes("FailedScheduling") == [
            "pod web has resource claims (gpu): Slurm cannot allocate the devices of a claim"
        ]
        assert world.submissions == []
