"""Preemptions that leave a PodDisruptionBudget with too few healthy pods."""

import pytest

from tests.unit.scheduler.test_scheduler import bound_pod, hook_client
from tests.unit.scheduler.world import World, leading


@pytest.fixture
def world():
    world = World()
    world.hasten(budgets_after_s=0.05)
    world.add_node(1)
    return world


@pytest.fixture
def budget(world):
    """A budget of two pods, of which one is gone and one is not Ready."""
    spec = {"selector": {"matchLabels": {"app": "web"}}}
    status = {"currentHealthy": 1, "desiredHealthy": 2}
    metadata = {"name": "web", "namespace": "default"}
    return world.put("poddisruptionbudgets", {"metadata": metadata, "spec": spec, "status": status})


@pytest.mark.usefixtures("budget")
async def test_a_preempted_pod_says_whose_budget_it_was_and_what_to_do(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        job_id = await bound_pod(world, call, labels={"app": "web"})
        world.set_job(job_id, "PREEMPTED", "COMPLETING", nodes="n1")
        (note,) = await world.until(lambda: world.notes("BudgetViolated"))
        assert note == (
            "its PodDisruptionBudget web wants 2 healthy pods and has 1: Slurm chooses whom it preempts, and knows no "
            "budgets. Spread the pods by required anti-affinity (kubernetes.io/hostname), or ask for LLN=YES in their "
            "partition"
        )
        assert world.deleted == ["web"]


@pytest.mark.usefixtures("budget")
async def test_a_pod_whose_job_somebody_cancelled_has_not_been_chosen(world, tmp_path):
    async with leading(world, tmp_path) as server, hook_client(server) as call:
        cancelled = await bound_pod(world, call, labels={"app": "web"})
        first = world.pod()["metadata"]["uid"]
        world.set_job(cancelled, "CANCELLED", nodes="n1")
        await world.until(lambda: world.notes("SlurmJobCancelled"))
        world.pod_is_gone()
        world.jobs.clear()
        world.submissions.clear()
        preempted = await bound_pod(world, call, labels={"app": "web"})
        world.set_job(preempted, "PREEMPTED", "COMPLETING", nodes="n1")
        await world.until(lambda: world.notes("BudgetViolated"))
        (event,) = [event for event in world.events if event["reason"] == "BudgetViolated"]
        assert event["regarding"]["uid"] != first
