"""Many pods at once: who does not wait for them, and what is asked once for all."""

import asyncio

import pytest

from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.states import SlurmJob
from sunkpy.kube import events as recording
from sunkpy.scheduler.collect import Collector
from sunkpy.scheduler.jobs import due as due_jobs
from sunkpy.scheduler.jobs.poll import JobPoller
from tests.doubles.leading import make_leader
from tests.unit.scheduler.test_scheduler import bound_pod, hook_client
from tests.unit.scheduler.world import World, connections, leading

MANY = 60
WORKERS = 16
URGENT_WORKERS = 8


@pytest.fixture
def world():
    world = World()
    for number in (1, 2, 3, 4):
        world.add_node(number)
    return world


async def test_an_eviction_and_a_binding_do_not_wait_for_submits(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        preempted = await bound_pod(world, call)
        world.add_pod("next")
        await world.until(lambda: len(world.jobs) == 2)
        started = max(world.jobs)
        world.slurm.takes_jobs.clear()
        for number in range(MANY):
            world.add_pod(f"burst-{number}")
        await world.until(lambda: world.slurm.waiting_submits >= 10)
        world.set_job(preempted, "PREEMPTED", "COMPLETING", nodes="n1")
        world.set_job(started, "RUNNING", nodes="n2")
        await world.until(lambda: world.deleted == ["web"])
        await world.until(lambda: ("next", "node-2") in world.bindings)
        assert world.slurm.waiting_submits == 10, "slurmctld takes no more per second from more"
        world.slurm.takes_jobs.set()
        await world.until(lambda: len(world.submissions) == MANY + 2)


async def test_a_service_waits_for_a_turn_of_its_namespace_and_not_for_all_pods_of_another(world, tmp_path):
    many = 150
    async with leading(world, tmp_path):
        world.slurm.room = "n1"
        world.slurm.takes_jobs.clear()
        for number in range(many):
            world.add_pod(f"burst-{number}")
        ledger = world.term._ledger
        await world.until(lambda: len(ledger) == many and len(ledger.queue) == many - WORKERS)
        world.add_pod("service", namespace="other", restartPolicy="Always")
        await world.until(lambda: len(ledger.queue) == many + 1 - WORKERS)
        world.slurm.takes_jobs.set()
        await world.until(lambda: world.allocations)
        assert len(world.submissions) <= 2 * WORKERS, len(world.submissions)


async def test_pods_of_a_namespace_are_submitted_while_those_of_another_are_bound(world, tmp_path):
    """Those that wait for a binding go before others of their own namespace alone."""
    async with leading(world, tmp_path, poll_seconds=0.2):
        for number in range(MANY):
            world.add_pod(f"burst-{number}", cpu="10m")
        await world.until(lambda: len(world.jobs) == MANY)
        world.api.takes_bindings.clear()
        for number, job in enumerate(tuple(world.jobs)):
            world.set_job(job, "RUNNING", nodes=f"n{number % 4 + 1}")
        ledger = world.term._ledger
        await world.until(lambda: len(ledger.queue) == MANY - WORKERS - URGENT_WORKERS)
        world.add_pod("next", namespace="other")
        await world.until(lambda: len(ledger) == MANY + 1 and len(ledger.queue) == MANY + 1 - WORKERS - URGENT_WORKERS)
        world.api.takes_bindings.set()
        await world.until(lambda: len(world.submissions) == MANY + 1)
        assert len(world.bindings) <= WORKERS + URGENT_WORKERS, len(world.bindings)


async def test_a_new_pod_and_one_that_goes_do_not_wait_for_updates_of_jobs_that_queue(world, tmp_path, monkeypatch):
    monkeypatch.setattr(due_jobs, "_FIRST_REASON_S", 3600.0)
    world.hasten(noted_after_s=3600.0, recheck_spread_s=0.01)
    async with leading(world, tmp_path, poll_seconds=0.2):
        for number in range(MANY):
            world.add_pod(f"queued-{number}")
        await world.until(lambda: len(world.jobs) == MANY)
        ledger, queue = world.term._ledger, world.term._ledger.queue
        await world.until(
            lambda: all(job.state for record in ledger for job in record.jobs.values()) and not len(queue)
        )
        world.slurm.may_update = asyncio.Semaphore(0)
        node = world.api.objects["nodes", "", "node-4"]
        world.put("nodes", node | {"spec": {"taints": [{"key": "broken", "effect": "NoSchedule"}]}})
        await world.until(lambda: world.slurm.waiting_updates == 10 and len(queue) == MANY - WORKERS)
        world.add_pod("new")
        world.pod_vanishes(f"queued-{MANY - 1}")
        await world.until(lambda: len(ledger) == MANY + 1)
        for _ in range(WORKERS):  # those that were sent before; the others wait for ever
            world.slurm.may_update.release()
        await world.until(lambda: len(world.submissions) == MANY + 1 and world.cancelled)


async def test_services_have_no_way_past_the_ten_either(world, tmp_path):
    async with leading(world, tmp_path):
        world.slurm.takes_jobs.clear()
        for number in range(MANY):
            world.add_pod(f"service-{number}", restartPolicy="Always" if number % 2 else "Never")
        await world.until(lambda: world.slurm.waiting_submits >= 10)
        world.slurm.room = "n1"
        world.slurm.takes_jobs.set()
        await world.until(lambda: len(world.jobs) == MANY)
        assert world.slurm.most_waiting == 10


async def test_a_pod_is_told_to_go_before_it_is_known_which_job_takes_its_place(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        preempted = await bound_pod(world, call)
        preemptor = world.slurm.add_job("PENDING", comment="", user="alice", partition="high")
        world.slurm.asked.clear()
        told: list[str] = []
        world.api.before_delete = lambda: told.extend(world.slurm.asked)
        world.set_job(preempted, "PREEMPTED", "COMPLETING", nodes="n1")
        await world.until(lambda: world.deleted == ["web"])
        assert f"job {preemptor}" not in told
        await world.until(lambda: world.notes("PreemptionByScheduler"))
        (note,) = world.notes("PreemptionByScheduler")
        assert f"preempted by Slurm job {preemptor} (user alice, partition high); the pod is evicted" in note


async def test_bindings_and_evictions_go_on_while_events_cannot_be_written(world, tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "_UNWRITTEN_LIMIT", 2)
    world.api.takes_events.clear()
    async with leading(world, tmp_path):
        jobs = []
        for number in range(12):
            world.add_pod(f"web-{number}")
            await world.until(lambda number=number: len(world.submissions) == number + 1)
            jobs.append(max(world.jobs))
            world.set_job(jobs[-1], "RUNNING", nodes=f"n{number % 4 + 1}")
        await world.until(lambda: len(world.bindings) == 12)
        world.set_job(jobs[0], "PREEMPTED", "COMPLETING", nodes="n1")
        await world.until(lambda: world.deleted == ["web-0"])
        assert world.events == []
        world.api.takes_events.set()


async def test_a_job_that_preempts_many_is_looked_for_once(world, tmp_path):
    async with leading(world, tmp_path):
        jobs = {}
        for number in (1, 2, 3, 4):
            world.add_pod(f"web-{number}", cpu="4")
            await world.until(lambda number=number: len(world.submissions) == number)
            jobs[max(world.jobs)] = f"n{number}"
        for job, node in jobs.items():
            world.set_job(job, "RUNNING", nodes=node)
        await world.until(lambda: len(world.bindings) == 4)
        preemptor = world.slurm.add_job(
            "PENDING", comment="", user="alice", partition="high", node_count={"number": 4, "set": True}
        )
        world.slurm.asked.clear()
        for job, node in jobs.items():
            world.set_job(job, "PREEMPTED", nodes=node)
        await world.until(lambda: len(world.notes("PreemptionByScheduler")) == 4)
        assert all(f"by Slurm job {preemptor}" in note for note in world.notes("PreemptionByScheduler"))
        assert world.slurm.asked.count(f"job {preemptor}") <= 2


async def test_only_gangs_to_which_a_change_of_a_node_matters_are_looked_at(world, tmp_path, monkeypatch):
    looked_at: list[str] = []
    collect = Collector.snapshot

    def snapshot(self, record):
        looked_at.append(record.id.name)
        return collect(self, record)

    monkeypatch.setattr(Collector, "snapshot", snapshot)
    async with leading(world, tmp_path):
        for number in range(10):
            world.add_pod(f"never-{number}", nodeSelector={"color": "red"})
        world.add_pod("picky", nodeSelector={"pool": "blue"})
        await world.until(lambda: len(world.notes("FailedScheduling")) == 11)
        looked_at.clear()
        node = world.api.objects["nodes", "", "node-3"]
        world.put("nodes", node | {"metadata": node["metadata"] | {"labels": {"pool": "blue"}}})
        await world.until(lambda: len(world.submissions) == 1)
        assert set(looked_at) == {"picky"}, looked_at


async def test_a_change_of_a_node_while_all_are_looked_at_is_seen_too(world, tmp_path):
    world.hasten(recheck_turn_s=0.0)  # one at a time
    async with leading(world, tmp_path):
        for number in range(40):
            world.add_pod(f"never-{number}", nodeSelector={"color": f"red-{number}"})
        for number in (1, 2, 3):
            world.add_pod(f"picky-{number}", nodeSelector={"pool": f"blue-{number}"})
        await world.until(lambda: len(world.notes("FailedScheduling")) == 43)
        for number in (1, 2, 3):
            node = world.api.objects["nodes", "", f"node-{number}"]
            world.put("nodes", node | {"metadata": node["metadata"] | {"labels": {"pool": f"blue-{number}"}}})
        await world.until(lambda: len(world.submissions) == 3)


async def test_a_look_at_who_waits_that_fails_does_not_end_all_others(world, tmp_path):
    world.hasten(recheck_turn_s=0.0)  # one at a time
    failures: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context["message"]))
    async with leading(world, tmp_path) as server:
        for number in range(3):
            world.add_pod(f"picky-{number}", nodeSelector={"pool": f"blue-{number}"})
        await world.until(lambda: len(world.notes("FailedScheduling")) == 3)
        node = world.api.objects["nodes", "", "node-3"]
        labels = {"metadata": node["metadata"] | {"labels": {"pool": "blue-1"}}}
        world.put("nodes", node | labels | {"status": {"allocatable": {"cpu": "plenty"}}})
        metrics = server._metrics
        await world.until(lambda: failures or metrics.failed_looks._value.get())
        world.put("nodes", node | labels)
        await world.until(lambda: len(world.submissions) == 1)
        assert failures == []


async def test_one_poll_tells_where_all_jobs_run_that_have_started(world, tmp_path):
    async with connections(world, tmp_path) as (_, slurm, _):
        leader = make_leader(slurm)
        ledger = leader.ledger
        for number in range(2 * MANY):
            gang = GangId(namespace="default", name=f"web-{number}", uid=f"uid-{number}")
            job = world.slurm.add_job("RUNNING", comment=gang.comment(), nodes="n1")
            ledger.add_job(ledger.ensure(gang), SlurmJob(id=job, user="k8s"))
        await JobPoller(leader).poll()
        assert all(job.nodes == ("n1",) for record in ledger for job in record.jobs.values())
        assert len(ledger.queue) == 2 * MANY


async def test_pods_that_are_being_bound_count_though_the_apiserver_does_not_list_them_yet(world, tmp_path):
    world.api.lags = True
    async with leading(world, tmp_path):
        for name in ("a", "b", "c"):
            world.add_pod(name, cpu="2")
        await world.until(lambda: len(world.submissions) == 3)
        for job in tuple(world.jobs):
            world.set_job(job, "RUNNING", nodes="n1")
        await world.until(lambda: world.cancelled)
        assert len(world.bindings) == 2, "a node of four cpus has room for two"
        assert len(world.cancelled) == 1


async def test_a_pod_is_bound_though_no_cache_of_the_apiserver_comes_to_the_version_that_was_listed(world, tmp_path):
    """As etcd lists pods, after changes of other kinds, and no pod changes until this one is bound."""
    world.api.is_behind = True
    async with leading(world, tmp_path):
        world.add_pod("web")
        await world.until(lambda: world.submissions)
        (job,) = world.jobs
        world.set_job(job, "RUNNING", nodes="n1")
        await world.until(lambda: world.bindings)
