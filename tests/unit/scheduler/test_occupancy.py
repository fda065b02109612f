"""What pods hold of the nodes that Slurm does not know: strangers, and those with a job of what it does not count."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.model.matching import pod_requests
from sunkpy.core.model.objects import Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, Pod, SelectorRequirement
from sunkpy.core.model.states import SlurmNode
from sunkpy.core.placement.eligibility import Candidate, full_nodes
from sunkpy.core.placement.needs import taken_uncounted, taken_without_job
from sunkpy.scheduler.collect import Collector
from sunkpy.scheduler.nodes import candidates
from sunkpy.scheduler.nodes.candidates import Held
from sunkpy.scheduler.nodes.others import pods_of_others
from tests.doubles.apiserver import matcher
from tests.unit.core.gang.pods import make_node, make_pod
from tests.unit.scheduler.test_scheduler import hook_client
from tests.unit.scheduler.world import World, connections, leading

OURS = ("slurm",)


@pytest.fixture
def world():
    return World()


def stranger(world, number, node, *, cpu="100m", **spec):
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}, "ports": [{"hostPort": 80}]}
    spec = {"nodeName": node, "schedulerName": "other", "containers": [container], **spec}
    meta = {"name": f"pod-{number}", "namespace": "default", "labels": {"app": "web"}}
    world.put("pods", {"metadata": meta, "spec": spec, "status": {"phase": "Running"}})


@contextlib.asynccontextmanager
async def watched(world, tmp_path):
    async with connections(world, tmp_path) as (kube, _, _):
        others = pods_of_others(kube, OURS, lambda *_: None)
        task = asyncio.ensure_future(others.run())
        try:
            await others.synced.wait()
            yield others
        finally:
            task.cancel()


async def test_of_strangers_those_are_known_that_are_on_nodes(world, tmp_path):
    stranger(world, 1, "node-1")
    stranger(world, 2, "")
    stranger(world, 3, "node-1", schedulerName="slurm")
    async with watched(world, tmp_path) as others:
        assert [pod.name for pod in others.values()] == ["pod-1"]
        stranger(world, 2, "node-2")
        await world.until(lambda: len(others) == 2)
        world.pod_ends("Succeeded", "pod-1")
        await world.until(lambda: [pod.name for pod in others.values()] == ["pod-2"])


async def test_of_a_stranger_that_stays_which_counts_and_alike_ones_share_it(world, tmp_path):
    proxy = {"name": "proxy", "restartPolicy": "Always", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "zone"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    for number in (1, 2):
        stranger(world, number, f"node-{number}", cpu="1500m", initContainers=[proxy], affinity=apart)
    async with watched(world, tmp_path) as others:
        one, two = others.values()
        whole = msgspec.convert(world.pod("pod-1"), Pod)
        assert pod_requests(one.spec) == pod_requests(whole.spec) == {"cpu": 3500, "memory": 2**30, "pods": 1}
        assert (one.spec.host_ports, one.spec.affinity) == (whole.spec.host_ports, whole.spec.affinity)
        assert (one.key, one.uid, one.labels) == (whole.key, whole.uid, whole.labels)
        assert one.labels is two.labels
        assert one.spec.containers is two.spec.containers
        assert one.spec.affinity is two.spec.affinity


async def test_jobs_that_wait_follow_strangers_who_are_listed_once(world, tmp_path):
    world.hasten(occupancy_each_s=0.05)
    for number in (1, 2):
        world.add_node(number)
    stranger(world, 1, "node-1", cpu="3")
    lists = []

    async def note(selector):
        lists.append(selector)

    world.api.before_list = note
    async with leading(world, tmp_path):
        world.add_pod(cpu="2")

        async def excluded(nodes):
            await world.until(lambda: [job["excluded_nodes"] for job in world.jobs.values()] == [nodes])

        await excluded("n1")
        world.remove("pods", "default", "pod-1")
        await excluded("")
        stranger(world, 2, "node-2", cpu="4")
        await excluded("n2")
    assert sum("spec.schedulerName!=slurm" in selector for selector in lists) == 1


async def test_strangers_that_come_and_go_change_a_job_that_waits_no_more_often_than_they_are_counted(world, tmp_path):
    world.hasten(occupancy_each_s=1.0, recheck_spread_s=0.0)
    for number in (1, 2):
        world.add_node(number)
    async with leading(world, tmp_path):
        world.add_pod(cpu="2")
        await world.until(lambda: world.jobs)
        (job_id,) = world.jobs
        began_s = asyncio.get_running_loop().time()
        for number in range(20):
            stranger(world, number, "node-2", cpu="4")
            await asyncio.sleep(0.02)
            world.remove("pods", "default", f"pod-{number}")
            await asyncio.sleep(0.02)
        stranger(world, 99, "node-2", cpu="4")
        await world.until(lambda: world.jobs[job_id]["excluded_nodes"] == "n2")
        lasted_s = asyncio.get_running_loop().time() - began_s
        assert world.slurm.requests.count(f"POST job/{job_id}") <= 2 + lasted_s


async def test_a_binding_reads_no_pods_that_have_ended_however_many_somebody_left_on_the_node(world, tmp_path):
    """A kubelet refuses a pod that names its node and does not fit; it stays there as Failed, and any size."""
    stranger(world, 1, "node-1")
    world.pod_ends("Failed", "pod-1")
    selectors = []

    async def note(selector):
        selectors.append(selector)

    world.add_node(1)
    world.api.before_list = note
    world.hasten(watch_settles_s=3600.0)  # so that it is asked
    async with leading(world, tmp_path):
        world.add_pod()
        await world.until(lambda: world.jobs)
        world.set_job(min(world.jobs), "RUNNING", nodes="n1")
        await world.until(lambda: world.bindings)
        (there,) = {selector for selector in selectors if selector.startswith("spec.nodeName=node-1")}
        is_read = matcher("", {"fieldSelector": there})
        assert [is_read(world.pod(name)) for name in ("web", "pod-1")] == [True, False]


RDMA = "rdma/hca"


def asking(**amounts):
    return [{"name": "c", "resources": {"requests": {"cpu": "1"} | amounts}}]


async def test_a_pod_waits_for_what_slurm_does_not_count_and_takes_no_node_meanwhile(tmp_path):
    """Slurm would start its job, perhaps preempt others for it, and the kubelet would refuse the pod."""
    world = World()
    world.hasten(other_pods_again_s=0.05)
    world.add_node(1, **{RDMA: "1"})
    world.add_node(2)
    async with leading(world, tmp_path):
        world.add_pod("first", node="node-1", running=True, containers=asking(**{RDMA: "1"}))
        world.add_pod("second", containers=asking(**{RDMA: "1"}))
        (why,) = await world.until(lambda: [n for n in world.notes("FailedScheduling") if RDMA in n])
        assert why == (
            "none of 2 Slurm nodes fits: 1 lacks rdma/hca: needs 1, has 0, "
            "1 lacks rdma/hca: needs 1, has 0 beside pods of other Slurm jobs (Slurm does not count this resource)"
        )
        assert [job["name"] for job in world.submissions] == ["first"]
        world.pod_ends("Succeeded", "first")
        await world.until(lambda: [job["name"] for job in world.submissions] == ["first", "second"])


async def test_pods_that_wait_for_it_cost_nothing_while_nothing_changes(tmp_path, monkeypatch):
    world, many = World(), 12
    world.hasten(other_pods_again_s=0.02, noted_after_s=3600.0)
    world.add_node(1, **{RDMA: "1"})
    world.add_node(2, **{RDMA: "1"})
    looks = []
    snapshot = Collector.snapshot

    def look(self, record):
        looks.append(record.id)
        return snapshot(self, record)

    async with leading(world, tmp_path, poll_seconds=0.1):
        world.add_pod("first", node="node-1", running=True, containers=asking(**{RDMA: "1"}))
        for number in range(many):
            world.add_pod(f"web-{number}", containers=asking(**{RDMA: "1"}))
        await world.until(lambda: len(world.submissions) == 1 + many)
        assert all(job["excluded_nodes"] == ["n1"] for job in world.submissions if job["name"] != "first")
        for _ in range(2):  # in the first of these what is new of the jobs is seen
            looks.clear()
            monkeypatch.setattr(Collector, "snapshot", look)
            polls = world.slurm.states_read
            await world.until(lambda polls=polls: world.slurm.states_read >= polls + 10)
        assert len(looks) <= 2 * many, "not each of them each 20 ms"
        world.pod_ends("Succeeded", "first")
        waiting = [job for job in world.jobs.values() if "PENDING" in job["job_state"]]
        await world.until(lambda: all(not job["excluded_nodes"] for job in waiting))


def test_of_nodes_only_those_are_looked_at_again_where_something_changed(monkeypatch):
    looked_at = []

    def count(needs, candidates, held):
        looked_at.extend(candidates)
        return full_nodes(needs, candidates, held)

    monkeypatch.setattr(candidates, "full_nodes", count)
    nodes = [
        Candidate(slurm_node=f"n{n}", node=make_node(f"k{n}", **{RDMA: "1"}), slurm=SlurmNode(name=f"n{n}"))
        for n in range(200)
    ]
    woken = []
    full = candidates.Fullness(lambda: nodes, counted=["nvidia.com/gpu"], on_change=lambda: woken.append(1))
    waiting = make_pod(requests={RDMA: "1"})
    answers = [full.of([waiting.spec]) for _ in range(300)]
    assert len(looked_at) == 200
    full.held.update(None, make_pod(uid="2", requests={RDMA: "1"}, node="k7"))
    assert woken == [1]
    assert not any(full.holds(answer) for (answer,) in answers)
    assert len(looked_at) == 201
    (answer,) = full.of([waiting.spec])
    assert answer.value == {
        "n7": "lacks rdma/hca: needs 1, has 0 beside pods of other Slurm jobs (Slurm does not count this resource)"
    }
    assert full.of([make_pod(requests={"cpu": "1"}).spec]) == (), "a pod that asks for nothing else"


async def test_a_node_that_refused_a_pod_for_there_are_too_many_is_given_to_it_when_one_is_gone(tmp_path):
    world = World()
    world.hasten(other_pods_again_s=0.05)
    world.add_node(1, pods="2")
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        world.add_pod("first", node="node-1", running=True)
        await world.until(lambda: len(world.submissions) == 1)
        world.add_pod("second")
        await world.until(lambda: len(world.submissions) == 2)
        job_id = max(world.jobs)
        world.set_job(job_id, "RUNNING", "CONFIGURING", nodes="n1")
        await call("prolog", job_id)
        await world.until(lambda: job_id in world.cancelled)
        await world.until(lambda: any(n.startswith("none of 1") for n in world.notes("FailedScheduling")))
        world.pod_ends("Succeeded", "first")
        await world.until(lambda: len(world.submissions) == 3)


def test_what_a_node_holds_follows_the_pods_on_it():
    held = Held(partial(taken_uncounted, gpu_resources=["nvidia.com/gpu"]))
    requests = {"cpu": "1", "nvidia.com/gpu": "1", "nvidia.com/mig-1g.10gb": "2", "hugepages-2Mi": "4Mi"}
    waits, runs = make_pod(requests=requests), make_pod(requests=requests, node="k1")
    held.update(None, waits)
    assert held.by_node == {}
    held.update(waits, runs)
    assert held.by_node == {"k1": {"nvidia.com/mig-1g.10gb": 2, "hugepages-2Mi": 4 * 2**20, "pods": 1}}
    held.update(None, make_pod(uid="2", node="k1"))
    held.update(runs, make_pod(requests=requests, node="k1", phase="Failed"))
    assert held.by_node == {"k1": {"pods": 1}}
    held.update(make_pod(uid="2", node="k1"), None)
    assert held.by_node == {}


def on_node(name):
    line = SelectorRequirement(key="metadata.name", operator="In", values=(name,))
    required = NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(line,)),))
    return Affinity(node_affinity=NodeAffinity(required=required))


def test_daemons_count_as_pods_of_others_and_who_holds_other_amounts_is_said_once():
    changed = []
    held = Held(partial(taken_uncounted, gpu_resources=[]))
    taken = Held(partial(taken_without_job, scheduler_names=OURS), changed.append)
    daemon = make_pod(node="k1", requests={"cpu": "1"}, affinity=on_node("k1"))
    with_job = make_pod(node="k1", affinity=on_node("k1"), annotations={names.ANNOTATION_JOB_ID: "7"})
    for old, new in ((None, daemon), (daemon, daemon), (daemon, with_job)):
        held.update(old, new)
        taken.update(old, new)
        if new is daemon:
            assert (held.by_node, taken.by_node, changed) == ({}, {"k1": {"cpu": 1000, "pods": 1}}, ["k1"])
    assert (held.by_node, taken.by_node, changed) == ({"k1": {"pods": 1}}, {}, ["k1", "k1"])
