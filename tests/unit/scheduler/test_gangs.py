"""Gangs of several pods through the whole scheduler: only the families are new, the shell knows nothing of them."""

import asyncio

import pytest

from sunkpy.core import names
from sunkpy.core.gang.families import FAMILIES
from sunkpy.core.gang.gang import Family, Gang, ranked
from sunkpy.core.gang.gang import Role as RoleOf
from sunkpy.core.gang.identity import GangId
from sunkpy.scheduler import loop
from sunkpy.scheduler.hooks import gate
from sunkpy.scheduler.jobs import due as due_jobs
from sunkpy.scheduler.pods import index as members
from tests.unit.core.gang.trio import WITH_BAND, WITH_TRIO, band_labels, labels
from tests.unit.scheduler.test_scheduler import hook_client
from tests.unit.scheduler.world import World, leading

NODES = (1, 2, 3)


@pytest.fixture
def world():
    world = World()
    for number in NODES:
        world.add_node(number)
    return world


def add_member(world, role, number):
    return world.add_pod(f"{role}-{number}", labels=labels(role))


async def start(world, call):
    """A trio that is bound under its job; gives the job's id."""
    for role, number in (("worker", 1), ("leader", 1), ("worker", 2)):
        assert world.submissions == []
        add_member(world, role, number)
    await world.until(lambda: world.submissions)
    (job_id,) = world.jobs
    world.set_job(job_id, "RUNNING", "CONFIGURING", nodes="n[1-3]")
    bound = len(world.bindings)
    answers = await asyncio.gather(*(call("prolog", job_id, node=number) for number in NODES))
    assert answers == [(200, {"done": True})] * 3
    await world.until(lambda: len(world.bindings) == bound + 3)  # a prolog is answered when its binding was sent
    world.set_job(job_id, "RUNNING", nodes="n[1-3]")
    return job_id


async def preempt_trio(world, call, job_id):
    """Slurm takes the nodes of a bound trio: its pods leave, and then its epilogs may end."""
    world.set_job(job_id, "PREEMPTED", "COMPLETING")
    epilogs = [asyncio.ensure_future(call("epilog", job_id, node=number)) for number in NODES]
    trio = ("leader-1", "worker-1", "worker-2")
    await world.until(lambda: set(world.deleted) >= set(trio))
    for name in trio:
        world.pod_is_gone(name)
    assert await asyncio.gather(*epilogs) == [(200, {"done": True})] * 3


def take_node_1(world, cpu="4"):
    """A daemon of others takes `cpu` of node-1."""
    spec = {"nodeName": "node-1", "containers": [{"resources": {"requests": {"cpu": cpu}}}]}
    world.put("pods", {"metadata": {"name": "daemon", "namespace": "kube-system"}, "spec": spec, "status": {}})


async def test_a_gang_becomes_one_job_and_is_bound_whole_in_rank_order(world, tmp_path):
    async with leading(world, tmp_path, families=WITH_TRIO) as server, hook_client(server) as call:
        await start(world, call)
        (job,) = world.submissions
        assert (job["minimum_nodes"], job["comment"]) == (3, "k8s:default/band:uid-of-band +whole")
        assert dict(world.bindings) == {"leader-1": "node-1", "worker-1": "node-2", "worker-2": "node-3"}


async def test_ranks_go_switch_by_switch_where_a_label_of_the_nodes_says_which_is_which(world, tmp_path):
    for number, switch in ((1, "s1"), (2, "s2"), (3, "s1")):
        world.api.change("nodes", "", f"node-{number}", {"metadata": {"labels": {"leaf": switch}}})
    async with leading(world, tmp_path, families=WITH_TRIO, switch_label="leaf") as server, hook_client(server) as call:
        await start(world, call)
        assert dict(world.bindings) == {"leader-1": "node-1", "worker-1": "node-3", "worker-2": "node-2"}


async def test_ranks_go_along_the_path_that_the_syncer_has_noted_on_slurmd_pods(world, tmp_path):
    for number, place in ((1, "s1/l1"), (2, "s2/l1"), (3, "s1/l2 (no label x)")):
        note = {"metadata": {"annotations": {"sunkpy.dev/topology": place}}}
        world.api.change("pods", "slurm", f"slurmd-{number}", note)
    async with leading(world, tmp_path, families=WITH_TRIO) as server, hook_client(server) as call:
        await start(world, call)
        assert dict(world.bindings) == {"leader-1": "node-1", "worker-1": "node-3", "worker-2": "node-2"}


async def test_a_gang_is_handed_over_whole_and_each_node_waits_for_its_own_member(world, tmp_path):
    async with leading(world, tmp_path, families=WITH_TRIO) as server, hook_client(server) as call:
        job_id = await start(world, call)
        world.set_job(job_id, "PREEMPTED", "COMPLETING")
        epilogs = {number: asyncio.ensure_future(call("epilog", job_id, node=number)) for number in NODES}
        await world.until(lambda: sorted(world.deleted) == ["leader-1", "worker-1", "worker-2"])
        world.api.read.clear()
        world.pod_is_gone("leader-1")
        assert await epilogs[1] == (200, {"done": True})
        assert set(world.api.read) == {"leader-1"}  # of the others it is known that they are elsewhere
        assert not epilogs[2].done()
        world.pod_is_gone("worker-2")
        assert await epilogs[3] == (200, {"done": True})
        assert not epilogs[2].done()
        world.pod_is_gone("worker-1")
        assert await epilogs[2] == (200, {"done": True})


async def test_a_member_on_a_node_that_its_job_has_given_up_stays_under_a_job_of_its_own(world, tmp_path):
    """`scontrol update jobid=N numnodes=2` of a running job; Slurm runs the epilog on the node that goes."""
    async with leading(world, tmp_path, families=WITH_TRIO) as server, hook_client(server) as call:
        job_id = await start(world, call)
        world.pod_runs("worker-2")
        world.set_job(job_id, "RUNNING", nodes="n[1-2]")
        status, answer = await call("epilog", job_id, node=3)
        assert (status, answer["done"], answer["kept"]) == (200, True, True)
        await world.until(lambda: len(world.submissions) == 2)
        comment = f"k8s:default/band:uid-of-band/apart-{world.pod('worker-2')['metadata']['uid']} +whole"
        assert (world.submissions[1]["comment"], world.submissions[1]["required_nodes"]) == (comment, ["n3"])
        assert (world.deleted, world.cancelled) == ([], [])


async def test_the_gate_is_shut_on_a_node_that_a_running_job_has_given_up_though_no_epilog_told(
    world, tmp_path, monkeypatch
):
    monkeypatch.setattr(gate, "LONG_POLL_S", 0.1)
    async with leading(world, tmp_path, families=WITH_TRIO, poll_seconds=3600.0) as server, hook_client(server) as call:
        job_id = await start(world, call)
        world.pod_runs("worker-2")
        assert await call("gate", 4711, node=3, marked=[job_id]) == (200, {"done": True})
        world.set_job(job_id, "RUNNING", nodes="n[1-2]")
        status, answer = await call("gate", 4711, node=3, marked=[job_id])
        assert (status, answer["why"]) == (202, "pod default/worker-2 of an earlier job is not gone yet")
        await world.until(lambda: len(world.submissions) == 2)
        assert world.submissions[1]["required_nodes"] == ["n3"]


async def test_an_epilog_that_asks_again_leaves_the_mark_for_a_member_that_was_set_apart_meanwhile(world, tmp_path):
    async with leading(world, tmp_path, families=WITH_TRIO) as server, hook_client(server) as call:
        job_id = await start(world, call)
        world.pod_runs("worker-2")
        world.set_job(job_id, "RUNNING", nodes="n[1-2]")
        assert (await call("epilog", job_id, node=3))[0] == 200
        await world.until(lambda: len(world.submissions) == 2)
        world.set_job(job_id, "CANCELLED", nodes="n[1-2]")
        status, answer = await call("epilog", job_id, node=3)
        assert (status, answer["kept"]) == (200, True)


async def test_a_gang_of_which_one_prolog_alone_was_heard_is_bound_when_all_are_through(world, tmp_path, monkeypatch):
    monkeypatch.setattr(due_jobs, "_REASON_EACH_S", 0.05)
    async with leading(world, tmp_path, families=WITH_TRIO) as server, hook_client(server) as call:
        for role, number in (("worker", 1), ("leader", 1), ("worker", 2)):
            add_member(world, role, number)
        await world.until(lambda: world.submissions)
        (job_id,) = world.jobs
        world.set_job(job_id, "RUNNING", nodes="n[1-3]", state_reason="Prolog")
        prolog = asyncio.ensure_future(call("prolog", job_id, node=2))
        done, _ = await asyncio.wait({prolog}, timeout=0.2)
        assert (done, world.bindings) == (set(), [])
        world.set_job(job_id, "RUNNING", nodes="n[1-3]", state_reason="None")
        assert await prolog == (200, {"done": True})
        await world.until(lambda: len(world.bindings) == 3)


async def test_when_one_member_is_refused_the_others_are_not_bound_under_the_job_that_is_given_back(world, tmp_path):
    async with leading(world, tmp_path, families=WITH_TRIO, poll_seconds=3600.0) as server, hook_client(server) as call:
        for role, number in (("worker", 1), ("leader", 1), ("worker", 2)):
            add_member(world, role, number)
        await world.until(lambda: world.submissions)
        (job_id,) = world.jobs
        take_node_1(world)
        world.set_job(job_id, "RUNNING", "CONFIGURING", nodes="n[1-3]")
        answers = await asyncio.gather(*(call("prolog", job_id, node=number) for number in NODES))
        assert answers == [(200, {"done": True})] * 3
        assert world.cancelled == [job_id]
        assert world.bindings == []


async def test_who_was_displaced_once_is_forgotten_when_the_gang_is_bound_anew(world, tmp_path):
    world.hasten(displace_after_s=0.0)
    async with leading(world, tmp_path, families=WITH_TRIO) as server, hook_client(server) as call:
        lost = await start(world, call)
        world.set_job(lost, "NODE_FAIL", nodes="n[1-3]")
        await world.until(lambda: len(world.submissions) == 2)
        cover = max(world.jobs)
        successor = world.slurm.add_job("RUNNING", comment="", user="alice", nodes="n1")
        asking = asyncio.ensure_future(call("gate", successor))
        await world.until(lambda: len(world.deleted) == 3)
        for old, new in (("leader-1", "leader-2"), ("worker-1", "worker-3"), ("worker-2", "worker-4")):
            add_member(world, *new.split("-"))
            world.pod_is_gone(old)
        assert (await asking)[0] == 200
        world.set_job(cover, "RUNNING", nodes="n[1-3]")
        await world.until(lambda: len(world.bindings) == 6)
        world.set_job(cover, "NODE_FAIL", nodes="n[1-3]")
        await world.until(lambda: len(world.submissions) == 3)
        assert len(world.deleted) == 3


async def test_a_new_leader_finds_a_gang_under_its_job(world, tmp_path):
    async with leading(world, tmp_path, families=WITH_TRIO) as server, hook_client(server) as call:
        job_id = await start(world, call)
    async with leading(world, tmp_path, families=WITH_TRIO):
        for name in ("leader-1", "worker-1", "worker-2"):
            world.pod_ends("Succeeded", name)
        await world.until(lambda: world.signals == [(job_id, "USR1")])
    assert len(world.submissions) == 1
    assert world.deleted == []


async def test_no_member_is_bound_before_all_would_be_admitted(world, tmp_path):
    world.hasten(admission_patience_s=0.5)
    async with leading(world, tmp_path, families=WITH_TRIO) as server, hook_client(server) as call:
        for role, number in (("worker", 1), ("leader", 1), ("worker", 2)):
            add_member(world, role, number)
        await world.until(lambda: world.submissions)
        (job_id,) = world.jobs
        full = {"nodeName": "node-3", "containers": [{"resources": {"requests": {"cpu": "4"}}}]}
        meta = {"name": "ending", "namespace": "x", "deletionTimestamp": "2026-11-21T00:00:00Z", "finalizers": ["f"]}
        world.put("pods", {"metadata": meta, "spec": full, "status": {"phase": "Running"}})
        world.set_job(job_id, "RUNNING", "CONFIGURING", nodes="n[1-3]")
        await asyncio.gather(*(call("prolog", job_id, node=number) for number in NODES))
        await world.until(lambda: world.cancelled == [job_id])
        assert (world.bindings, world.deleted) == ([], [])
        await world.until(lambda: any("; Slurm job" in note for note in world.notes("FailedScheduling")))
        notes = [note.split("; ")[0] for note in world.notes("FailedScheduling")]
        lacks = "node node-3 lacks cpu: needs 1, has 0 until a pod of another namespace has ended"
        assert set(notes) == {lacks}


async def test_pods_of_armada_are_bound_to_the_nodes_that_it_chose(world, tmp_path):
    for number in NODES:
        name = f"node-{number}"
        labels = {"kubernetes.io/hostname": f"host-{number}"}
        world.put("nodes", world.api.objects["nodes", "", name] | {"metadata": {"name": name, "labels": labels}})
    said = {"armadaproject.io/gangId": "g", "armadaproject.io/gangCardinality": "3"}
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        for name, host in (("a", 3), ("b", 1), ("c", 3)):
            world.add_pod(name, annotations=said, nodeSelector={"kubernetes.io/hostname": f"host-{host}"})
        await world.until(lambda: world.submissions)
        ((job_id, _),) = world.jobs.items()
        (job,) = world.submissions
        assert (job["required_nodes"], job["tasks"], job["minimum_nodes"], job["cpus_per_task"]) == (
            ["n1", "n3"],
            2,
            2,
            2,
        )
        world.set_job(job_id, "RUNNING", "CONFIGURING", nodes="n[1,3]", tasks={"set": True, "number": 2})
        answers = await asyncio.gather(*(call("prolog", job_id, node=number) for number in (1, 3)))
        assert answers == [(200, {"done": True})] * 2
        await world.until(lambda: len(world.bindings) == 3)
        assert dict(world.bindings) == {"a": "node-3", "b": "node-1", "c": "node-3"}
        assert world.cancelled == []


# ------------------------------------------------------- a band: places, waves, several to a node


def add_band(world, role, index, name="", labels=None, **pod):
    return world.add_pod(name or f"{role}-{index}", labels=band_labels(role, index) | (labels or {}), **pod)


def runs_on(world, job_id, *nodes, state=("RUNNING",)):
    """The job of a band runs on these nodes, in this order, each given with its number of cpus."""
    allocation = [{"name": name, "cpus": {"count": cpus}} for name, cpus in nodes]
    number = {"set": True, "number": sum(cpus for _, cpus in nodes)}
    fields = {"tasks": number, "cpus_per_task": number | {"number": 1}}
    world.set_job(
        job_id,
        *state,
        nodes=",".join(name for name, _ in nodes),
        job_resources={"nodes": {"allocation": allocation}},
        **fields,
    )


async def start_band(world, call, *nodes):
    """A band whose leader runs under the job; gives the job's id."""
    add_band(world, "leader", 0)
    await world.until(lambda: world.submissions)
    (job_id,) = world.jobs
    runs_on(world, job_id, *nodes, state=("RUNNING", "CONFIGURING"))
    answers = await asyncio.gather(*(call("prolog", job_id, node=int(name[1:])) for name, _ in nodes))
    assert answers == [(200, {"done": True})] * len(nodes)
    await world.until(lambda: world.bindings)
    runs_on(world, job_id, *nodes)
    world.pod_runs("leader-0")
    return job_id


async def test_places_are_held_before_their_pods_are_there_and_taken_in_the_order_of_the_job(world, tmp_path):
    async with leading(world, tmp_path, families=WITH_BAND) as server, hook_client(server) as call:
        await start_band(world, call, ("n2", 2), ("n1", 1))
        (job,) = world.submissions
        assert (job["tasks"], job["minimum_nodes"], job["maximum_nodes"]) == (3, 1, 3)
        assert "memory_per_node" not in job
        add_band(world, "worker", 1)
        add_band(world, "worker", 0)
        await world.until(lambda: len(world.bindings) == 3)
        assert dict(world.bindings) == {"leader-0": "node-2", "worker-0": "node-2", "worker-1": "node-1"}
        assert world.pod("worker-1")["metadata"]["annotations"][names.ANNOTATION_PLACE] == "worker/1"
        assert world.notes("PreemptionIsFinal") == [
            "if Slurm takes the nodes back, nobody makes new pods in place of these: nobody restarts a band"
        ]
        assert world.submissions == [job]


async def test_who_declares_more_than_the_admin_allows_is_refused(world, tmp_path):
    declared = {names.ANNOTATION_GANG: "band", names.ANNOTATION_GANG_SIZE: "3"}
    async with leading(world, tmp_path, largest_gang=2):
        world.add_pod(annotations=declared)
        (note,) = await world.until(lambda: world.notes("FailedScheduling"))
        assert "declares 3 pods, and a gang has at most 2" in note


async def test_pods_that_are_made_anew_again_and_again_are_not_remembered_for_ever(world, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "_MOST_UNSEEN", 3)
    async with leading(world, tmp_path, families=WITH_BAND) as server, hook_client(server) as call:
        job_id = await start_band(world, call, ("n2", 2), ("n1", 1))
        for number in range(10):
            add_band(world, "worker", 1, f"worker-1-{number}")
            await world.until(lambda number=number: len(world.bindings) == number + 2)
            world.pod_is_gone(f"worker-1-{number}")
        record = server.hooks._ledger.by_job(job_id)
        await world.until(lambda: len(record.members) <= 4)
        assert (world.cancelled, len(world.submissions)) == ([], 1)


async def test_a_replacement_takes_the_place_again_once_the_pod_before_it_is_gone(world, tmp_path):
    async with leading(world, tmp_path, families=WITH_BAND) as server, hook_client(server) as call:
        await start_band(world, call, ("n2", 2), ("n1", 1))
        add_band(world, "worker", 1)
        await world.until(lambda: len(world.bindings) == 2)
        world.pod_runs("worker-1")
        old = world.pod("worker-1")
        world.put("pods", old | {"metadata": old["metadata"] | {"deletionTimestamp": "2026-11-21T00:00:00Z"}})
        add_band(world, "worker", 1, "worker-1-again")
        await world.until(lambda: world.notes("WaitingForSlurm"))
        assert "has no free place for this pod" in world.notes("WaitingForSlurm")[-1]
        assert len(world.bindings) == 2
        world.pod_is_gone("worker-1")
        await world.until(lambda: world.bindings[-1] == ("worker-1-again", "node-1"))
        assert world.cancelled == []


async def test_a_replacement_that_asks_for_more_than_its_place_holds_gets_a_job_of_its_own(world, tmp_path):
    async with leading(world, tmp_path, families=WITH_BAND) as server, hook_client(server) as call:
        await start_band(world, call, ("n2", 2), ("n1", 1))
        add_band(world, "worker", 1)
        await world.until(lambda: len(world.bindings) == 2)
        world.pod_is_gone("worker-1")
        larger = add_band(world, "worker", 1, "worker-1-again", cpu="2")
        await world.until(lambda: len(world.submissions) == 2)
        comment = f"k8s:default/band:uid-of-band/apart-{larger['metadata']['uid']}"
        assert (world.submissions[1]["comment"], world.submissions[1]["cpus_per_task"]) == (comment, 2)
        (told,) = await world.until(lambda: world.notes("AsksForMore"))
        assert told.endswith("lacks cpu: needs 2, has 1. The pod gets a job of its own")
        add_band(world, "worker", 0)
        await world.until(lambda: world.bindings[-1] == ("worker-0", "node-2"))
        assert (len(world.bindings), world.cancelled, world.deleted) == (3, [], [])


async def test_a_job_that_starts_for_pods_that_were_made_larger_meanwhile_is_given_back_and_another_is_submitted(
    world, tmp_path
):
    async with leading(world, tmp_path, families=WITH_BAND):
        add_band(world, "leader", 0)
        await world.until(lambda: world.submissions)
        (small,) = world.jobs
        add_band(world, "leader", 0, "leader-0-again", cpu="3")
        world.pod_vanishes("leader-0")
        runs_on(world, small, ("n2", 2), ("n1", 1))
        await world.until(lambda: len(world.submissions) == 2)
        assert (world.cancelled, world.bindings) == ([small], [])
        (before, now) = ((job["tasks"], job["cpus_per_task"]) for job in world.submissions)
        assert (before, now) == ((3, 1), (3, 3))


async def test_when_slurm_forgot_the_job_those_that_run_are_covered_and_those_that_come_get_jobs_of_their_own(
    world, tmp_path
):
    async with leading(world, tmp_path, families=WITH_BAND) as server, hook_client(server) as call:
        lost = await start_band(world, call, ("n2", 2), ("n1", 1))
        add_band(world, "worker", 0)
        await world.until(lambda: len(world.bindings) == 2)
        world.pod_runs("worker-0")
        del world.jobs[lost]
        await world.until(lambda: len(world.submissions) == 2)
        cover = max(world.jobs)
        assert (world.submissions[1]["required_nodes"], world.submissions[1]["tasks"]) == (["n2"], 1)
        late = add_band(world, "worker", 1)
        one = {"set": True, "number": 1}
        world.set_job(cover, "RUNNING", nodes="n2", required_nodes="n2", tasks=one)
        await world.until(lambda: len(world.submissions) == 3)
        comment = f"k8s:default/band:uid-of-band/apart-{late['metadata']['uid']}"
        assert (world.submissions[2]["comment"], world.submissions[2]["tasks"]) == (comment, 1)
    async with leading(world, tmp_path, families=WITH_BAND) as server, hook_client(server) as call:
        own = max(world.jobs)
        world.set_job(own, "RUNNING", "CONFIGURING", nodes="n3")
        assert await call("prolog", own, node=3) == (200, {"done": True})
        await world.until(lambda: world.bindings[-1] == ("worker-1", "node-3"))
        assert (len(world.submissions), world.cancelled, world.deleted) == (3, [], [])


async def test_a_new_leader_knows_who_sits_where(world, tmp_path):
    async with leading(world, tmp_path, families=WITH_BAND) as server, hook_client(server) as call:
        await start_band(world, call, ("n3", 1), ("n1", 2))
        add_band(world, "worker", 0)
        await world.until(lambda: len(world.bindings) == 2)
    add_band(world, "worker", 1)
    async with leading(world, tmp_path, families=WITH_BAND):
        await world.until(lambda: len(world.bindings) == 3)
    assert dict(world.bindings) == {"leader-0": "node-3", "worker-0": "node-1", "worker-1": "node-1"}
    assert len(world.submissions) == 1


async def test_a_member_that_comes_late_and_is_refused_costs_the_others_nothing(world, tmp_path):
    world.hasten(again_s=0.05)
    async with leading(world, tmp_path, families=WITH_BAND) as server, hook_client(server) as call:
        await start_band(world, call, ("n2", 2), ("n1", 1))
        take_node_1(world)
        add_band(world, "worker", 1)
        await world.until(lambda: world.notes("FailedScheduling"))
        assert world.notes("FailedScheduling") == ["node node-1 lacks cpu: needs 1, has 0"]
        assert (world.cancelled, world.deleted) == ([], [])
        world.remove("pods", "kube-system", "daemon")
        await world.until(lambda: len(world.bindings) == 2)


def trio_with(**fields):
    """The trio, but its members may share nodes."""

    def assemble(id, pods, owners):
        def role(name, places):
            own = (pod for pod in pods if pod.labels["example.com/role"] == name)
            members = ranked(own, lambda pod: int(pod.name[-1]))
            return RoleOf(name=name, seats=places, first=places, members=members)

        return Gang(id=id, roles=(role("leader", 1), role("worker", 2)), **fields)

    def identify(pod, owners):
        name = pod.labels.get("example.com/band")
        generation = pod.labels.get("example.com/generation", "")
        return GangId(namespace="default", name=name, uid="uid", generation=generation) if name else None

    return (Family(name="duo", known_by="label example.com/band", identify=identify, assemble=assemble), *FAMILIES)


async def test_members_of_one_node_are_admitted_together(world, tmp_path):
    world.hasten(admission_patience_s=0.3)
    async with leading(world, tmp_path, families=trio_with()) as server, hook_client(server) as call:
        for role, index in (("leader", 0), ("worker", 0), ("worker", 1)):
            add_band(world, role, index)
        await world.until(lambda: world.submissions)
        (job_id,) = world.jobs
        take_node_1(world, cpu="2")
        runs_on(world, job_id, ("n1", 3))
        await call("prolog", job_id, node=1)
        await world.until(lambda: world.cancelled == [job_id])
        assert world.bindings == []
        await world.until(lambda: "node node-1 lacks cpu: needs 1, has 0" in str(world.notes("FailedScheduling")))


async def test_a_later_generation_waits_until_the_one_before_it_is_gone(world, tmp_path):
    def add(generation):
        for role, index in (("leader", 0), ("worker", 0), ("worker", 1)):
            labels = {"example.com/generation": str(generation)}
            add_band(world, role, index, f"g{generation}-{role}-{index}", labels)

    families = trio_with()
    async with leading(world, tmp_path, families=families) as server, hook_client(server) as call:
        add(1)
        await world.until(lambda: world.submissions)
        (first,) = world.jobs
        runs_on(world, first, ("n1", 3))
        assert await call("prolog", first) == (200, {"done": True})
        add(2)
        waits = f"waits for generation 1 of default/band to end: Slurm job {first} is not over"
        await world.until(lambda: waits in world.notes("WaitingForSlurm"))
        for role, index in (("leader", 0), ("worker", 0), ("worker", 1)):
            world.pod_is_gone(f"g1-{role}-{index}")
        await world.until(lambda: world.cancelled == [first])
        await world.until(lambda: len(world.submissions) == 2)
        assert world.submissions[1]["comment"] == "k8s:default/band:uid@2 +whole"


async def test_a_pod_that_never_queues_goes_straight_to_its_node_and_counts_there(world, tmp_path):
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-2"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}
    async with leading(world, tmp_path, families=trio_with(never_queues=True)):
        add_band(world, "leader", 0, cpu="3", affinity=affinity)
        await world.until(lambda: world.bindings == [("leader-0", "node-2")])
        world.add_pod("large", cpu="2")
        await world.until(lambda: [job["excluded_nodes"] for job in world.jobs.values()] == ["n2"])


async def test_what_ended_a_gang_is_asked_once_and_all_its_pods_go(world, tmp_path):
    async with leading(world, tmp_path, families=WITH_TRIO) as server, hook_client(server) as call:
        job_id = await start(world, call)
        world.slurm.asked.clear()
        preemptor = world.slurm.add_job(
            "PENDING", comment="", user="alice", partition="high", node_count={"set": True, "number": 3}
        )
        world.set_job(job_id, "PREEMPTED", "COMPLETING")
        await world.until(lambda: len(world.notes("PreemptionByScheduler")) == len(world.deleted) == 3)
        notes = world.notes("PreemptionByScheduler")
        assert all(f"preempted by Slurm job {preemptor}" in note for note in notes)
        assert world.slurm.asked.count("partitions") == 1


async def test_each_member_is_told_which_gpus_of_its_node_are_its_own(tmp_path):
    world = World()
    world.add_node(1, **{"nvidia.com/gpu": "4"})
    gang = {"sunkpy.dev/gang": "g", "sunkpy.dev/gang-size": "2"}
    resources = {"requests": {"cpu": "1", "nvidia.com/gpu": "2"}}
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        for name in ("one", "two"):
            world.add_pod(name, annotations=gang, containers=[{"name": "c", "resources": resources}])
        await world.until(lambda: world.submissions)
        (job_id,) = world.jobs
        has = {
            "nodes": "n1", "tasks": {"set": True, "number": 2}, "cpus_per_task": {"set": True, "number": 1},
            "tres_per_task": "gres/gpu:2", "gres_detail": ["gpu:h100:4(IDX:0-3)"],
            "job_resources": {"nodes": {"allocation": [{"name": "n1", "cpus": {"count": 2}}]}},
        }  # fmt: skip
        world.set_job(job_id, "RUNNING", "CONFIGURING", **has)
        assert await call("prolog", job_id) == (200, {"done": True})

        def told():
            pods = [world.pod(name) for name in ("one", "two")]
            return [pod["metadata"]["annotations"].get(names.ANNOTATION_GPU_INDICES, "") for pod in pods]

        # A prolog is answered when the bindings were sent.
        await world.until(lambda: sorted(told()) == ["0,1", "2,3"])
        assert len(world.bindings) == 2


async def test_gpus_that_the_job_of_a_running_pod_does_not_have_are_noted_anew(tmp_path):
    """As after a job was lost, and another one covers the pod with other devices."""
    world = World()
    world.add_node(1, **{"nvidia.com/gpu": "4"})
    resources = {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}}
    containers = [{"name": "c", "resources": resources}]
    noted = {names.ANNOTATION_GPU_INDICES: "0"}
    pod = world.add_pod("one", annotations=noted, containers=containers, node="node-1", running=True)
    has = {"nodes": "n1", "tasks": {"set": True, "number": 1}, "cpus_per_task": {"set": True, "number": 1}}
    taken = {
        "gres_detail": ["gpu:h100:1(IDX:3)"],
        "job_resources": {"nodes": {"allocation": [{"name": "n1", "cpus": {"count": 1}}]}},
    }
    world.add_job(pod, "RUNNING", **has, **taken)

    def now_noted():
        return world.pod("one")["metadata"]["annotations"].get(names.ANNOTATION_GPU_INDICES)

    async with leading(world, tmp_path):
        await world.until(lambda: now_noted() == "3")
    assert (world.cancelled, world.deleted) == ([], [])


async def test_under_the_policy_basic_each_pod_is_a_job(tmp_path, monkeypatch):
    monkeypatch.setattr(members, "LEFT_OUT_S", 0.05)
    world = World()
    world.add_node(1)
    world.api.define("scheduling.k8s.io/v1alpha2", "PodGroup", "podgroups")
    group = {"metadata": {"name": "pg", "namespace": "default"}, "spec": {"schedulingPolicy": {"basic": {}}}}
    world.put("podgroups", group)
    async with leading(world, tmp_path):
        for name in ("one", "two"):
            world.add_pod(name, schedulingGroup={"podGroupName": "pg"})
        await world.until(lambda: len(world.submissions) == 2)
    assert [job["tasks"] for job in world.submissions] == [1, 1]
