"""What others take of the nodes, as it is read once a minute."""

from __future__ import annotations

import asyncio

from sunkpy.core import names
from sunkpy.core.model.objects import Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, SelectorRequirement
from sunkpy.scheduler.nodes.held import Held
from sunkpy.scheduler.nodes.occupancy import Occupancy
from sunkpy.scheduler.pods.neighbours import Neighbours
from tests.unit.core.gang.pods import make_pod
from tests.unit.scheduler.test_scheduler import hook_client
from tests.unit.scheduler.world import World, connections, leading

OURS = ("slurm",)


def stranger(world, number, node, **labels):
    container = {"name": "c", "resources": {"requests": {"cpu": "100m"}}, "ports": [{"hostPort": 80}]}
    spec = {"nodeName": node, "schedulerName": "other", "containers": [container]}
    meta = {"name": f"pod-{number}", "namespace": "default", "labels": labels}
    world.put("pods", {"metadata": meta, "spec": spec, "status": {"phase": "Running"}})


async def test_pods_of_others_that_have_gone_since_the_last_list_count_no_more(tmp_path):
    world, changes = World(), []
    neighbours = Neighbours(own=lambda: (), scheduler_names=OURS)
    async with connections(world, tmp_path) as (kube, _, _):
        occupancy = Occupancy(
            kube,
            scheduler_names=OURS,
            own=lambda: (),
            neighbours=neighbours,
            on_change=lambda: changes.append(1),
        )
        for number, node in ((1, "node-1"), (2, "node-1"), (3, "node-2")):
            stranger(world, number, node)
        await occupancy.refresh()
        assert (occupancy.taken("node-1")["cpu"], occupancy.taken("node-2")["cpu"]) == (200, 100)
        for name in ("pod-1", "pod-3"):
            world.remove("pods", "default", name)
        await occupancy.refresh()
        around = neighbours.around({})
        assert [pod.name for pod in around.everyone()] == ["pod-2"]
        assert [pod.name for pod in around.keeping_away] == ["pod-2"]
        assert (occupancy.taken("node-1")["cpu"], occupancy.taken("node-2")) == (100, {})
        assert len(changes) == 2


async def test_what_is_known_of_others_is_never_empty_while_it_is_read_anew(tmp_path):
    world = World()
    neighbours = Neighbours(own=lambda: (), scheduler_names=OURS)
    async with connections(world, tmp_path) as (kube, _, _):
        occupancy = Occupancy(kube, scheduler_names=OURS, own=lambda: (), neighbours=neighbours, on_change=lambda: None)
        for number in range(450):
            stranger(world, number, f"node-{number}")
        await occupancy.refresh()
        refresh = asyncio.ensure_future(occupancy.refresh())
        seen = set()
        while not refresh.done():
            seen.add((len(list(neighbours.around({}).everyone())), len(neighbours.around({}).keeping_away)))
            await asyncio.sleep(0)
        assert seen == {(450, 450)}


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
            "1 lacks rdma/hca: needs 1, has 0 beside pods of other Slurm jobs, and Slurm does not count it"
        )
        assert [job["name"] for job in world.submissions] == ["first"]
        world.pod_ends("Succeeded", "first")
        await world.until(lambda: [job["name"] for job in world.submissions] == ["first", "second"])


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
    held = Held(gpu_resources=["nvidia.com/gpu"])
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


def test_daemons_count_as_pods_of_others():
    held = Held(gpu_resources=[])
    daemon = make_pod(node="k1", affinity=on_node("k1"))
    held.update(None, daemon)
    assert held.by_node == {}
    held.update(None, make_pod(node="k1", affinity=on_node("k1"), annotations={names.ANNOTATION_JOB_ID: "7"}))
    assert held.by_node == {"k1": {"pods": 1}}
