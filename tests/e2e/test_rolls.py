"""A NodeSet is rolled under services: they live on, and nobody waits for them; a batch job is waited for."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping

import pytest

from demo.stack import Stack
from devcluster.waiting import NotYet, wait
from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from tests.e2e import handover, workloads
from tests.e2e.agreement import live_jobs_by_pod_uid, wait_for_agreement
from tests.e2e.timeline import Sighting, watching

pytestmark = [pytest.mark.e2e, pytest.mark.long]

ROLLED_WITHIN_S = 240.0
"""Three slurmd pods one after the other: drained, proved, deleted, made, registered, opened again."""
HELD_S = 20.0
FOREVER = ["sleep", "infinity"]
NO_SLURMD = ["bash", "-c", "trap exit TERM; sleep infinity & wait"]
MARK = "example.com/rolled"


async def test_a_roll_does_not_wait_for_services_and_ends_none(stack: Stack, request: pytest.FixtureRequest) -> None:
    request.addfinalizer(lambda: _take_back(stack))
    before = _start_services(stack, request)
    jobs = _allocations_of(stack, before)
    slurmd = _slurmd_uids(stack)
    async with (
        await Kube.connect(stack.kubeconfig) as kube,
        watching(kube, paths.pods(workloads.NAMESPACE), Pod) as seen,
    ):
        _roll(stack)
        await asyncio.to_thread(_wait_until_rolled, stack, slurmd)
        await asyncio.to_thread(wait_for_agreement, stack, timeout_s=60, after="a roll under services")
        assert seen.deletions() == []
    _assert_untouched(stack, before, jobs)
    said = stack.events(stack.namespace, stack.nodeset)
    assert any("deleted (replaced)" in line for line in said), "the pods went from under their services"


async def test_a_slurmd_that_does_not_come_costs_one_node_its_slurmd(
    stack: Stack, request: pytest.FixtureRequest
) -> None:
    """Slurm believes for minutes that the one before is still there, so the pod alone would look well."""
    request.addfinalizer(lambda: _bring_back(stack, set()))
    before = _start_services(stack, request)
    jobs = _allocations_of(stack, before)
    slurmd = {pod.name: pod.uid for pod in stack.slurmd_pods()}
    async with (
        await Kube.connect(stack.kubeconfig) as kube,
        watching(kube, paths.pods(stack.namespace), Pod, label_selector=f"{names.LABEL_ROLE}=compute") as seen,
    ):
        _use_command(stack, NO_SLURMD)
        came = await seen.first(_is_up_beside(slurmd), what="the first pod without a slurmd", timeout_s=ROLLED_WITHIN_S)
        with pytest.raises(TimeoutError):
            await seen.first(
                lambda each: each.new is None and each.name != came.name, what="another one gone", timeout_s=HELD_S
            )
    held = stack.kubectl.get(Pod, "pod", came.name, "-n", stack.namespace)
    assert not held.is_condition_true(names.READINESS_GATE)
    assert "DRAIN" in stack.slurm_nodes()[came.name]["State"], "no job is sent to a slurmd that is not there"
    await asyncio.to_thread(_bring_back, stack, {held.uid})
    await asyncio.to_thread(wait_for_agreement, stack, timeout_s=60, after="a template that brought no slurmd")
    assert {pod.name: pod.uid for pod in stack.slurmd_pods() if pod.name != came.name} == {
        name: uid for name, uid in slurmd.items() if name != came.name
    }
    _assert_untouched(stack, before, jobs)


async def test_a_roll_waits_for_a_batch_job_beside_a_service(stack: Stack, request: pytest.FixtureRequest) -> None:
    request.addfinalizer(lambda: _take_back(stack))
    service = _start_service(stack, request, "service-beside", cpu="100m")
    slurm_node = service.annotations[names.ANNOTATION_PLACED_ON]
    job = stack.sbatch("-n1", "-c1", "--mem=16", "-w", slurm_node, "-o", "/dev/null", script="sleep 600")
    request.addfinalizer(lambda: stack.cancel_jobs([job]))
    stack.wait_for_job(job, "RUNNING")
    slurmd = _slurmd_uids(stack)
    _roll(stack)
    held = _wait_until_marked(stack, slurm_node)
    async with (
        await Kube.connect(stack.kubeconfig) as kube,
        watching(kube, paths.pods(stack.namespace), Pod, label_selector=f"{names.LABEL_ROLE}=compute") as seen,
    ):
        with pytest.raises(TimeoutError):
            await seen.gone(slurm_node, timeout_s=HELD_S)
        assert all(
            names.ANNOTATION_REPLACEABLE not in sighting.new.annotations
            for sighting in seen.sightings
            if sighting.new is not None and sighting.new.uid == held.uid
        )
    assert stack.job(job)["JobState"] == "RUNNING"
    stack.cancel_jobs([job])
    _wait_until_rolled(stack, slurmd)
    wait_for_agreement(stack, timeout_s=60, after="a roll under a service, once the job has ended")
    assert workloads.wait_for_running(stack, service.name).uid == service.uid


def _start_services(stack: Stack, request: pytest.FixtureRequest) -> list[Pod]:
    """One that takes all of its node, on each."""
    whole = handover.whole_node_cpu(stack)
    count = len(stack.slurmd_pods())
    pods = [_start_service(stack, request, f"service-{number}", cpu=whole) for number in range(count)]
    assert len({pod.spec.node_name for pod in pods}) == len(pods), "one on each node"
    return pods


def _assert_untouched(stack: Stack, before: list[Pod], jobs: Mapping[str, list[int]]) -> None:
    after = [workloads.wait_for_running(stack, pod.name) for pod in before]
    assert [(pod.uid, pod.spec.node_name) for pod in after] == [(pod.uid, pod.spec.node_name) for pod in before]
    assert _allocations_of(stack, after) == jobs


def _is_up_beside(before: Mapping[str, str]) -> Callable[[Sighting[Pod]], bool]:
    """A slurmd pod in the stead of one of these runs."""

    def is_it(seen: Sighting[Pod]) -> bool:
        pod = seen.new
        return pod is not None and before[pod.name] != pod.uid and pod.is_condition_true("ContainersReady")

    return is_it


def _start_service(stack: Stack, request: pytest.FixtureRequest, name: str, *, cpu: str) -> Pod:
    body = workloads.pod(
        name,
        image=stack.images["sunkpy"],
        scheduler=stack.scheduler_name,
        cpu=cpu,
        command=FOREVER,
        restart_policy="Always",
    )
    stack.kubectl.apply(body)
    where = ("-n", workloads.NAMESPACE, "--ignore-not-found", "--wait=true")
    request.addfinalizer(lambda: stack.kubectl("delete", "pod", name, *where))
    return workloads.wait_for_running(stack, name)


def _allocations_of(stack: Stack, pods: list[Pod]) -> Mapping[str, list[int]]:
    """The job of each pod by its uid: allocations all, or the roll would wait for them."""
    jobs = live_jobs_by_pod_uid(stack)
    found = {pod.uid: jobs[pod.uid] for pod in pods}
    batch = [id for ids in found.values() for id in ids if stack.job(id)["BatchFlag"] != "0"]
    assert batch == [], "Slurm had no room for them at once"
    return found


def _slurmd_uids(stack: Stack) -> set[str]:
    return {pod.uid for pod in stack.slurmd_pods()}


def _roll(stack: Stack) -> None:
    """Change the template in a way that Slurm does not see."""
    _annotate_template(stack, str(time.time()))


def _bring_back(stack: Stack, without: set[str]) -> None:
    _use_command(stack, None)
    _wait_until_rolled(stack, without)


def _use_command(stack: Stack, command: list[str] | None) -> None:
    """Run this instead of slurmd, on as many nodes at once as there are, or all as the chart has it."""
    nodeset = stack.kubectl.json("nodeset", stack.nodeset, "-n", stack.namespace)
    containers = nodeset["spec"]["template"]["spec"]["containers"]
    for container in containers:
        container.pop("command", None)
        container.update({"command": command} if command else {})
    limit = {"rollingUpdate": {"maxUnavailable": len(stack.slurmd_pods()) if command else None}}
    spec = {"template": {"spec": {"containers": containers}}, "updateStrategy": limit}
    stack.kubectl(
        "patch", "nodeset", stack.nodeset, "-n", stack.namespace, "--type=merge", "-p", json.dumps({"spec": spec})
    )


def _take_back(stack: Stack) -> None:
    """The template as it was found, which is another roll."""
    before = _slurmd_uids(stack)
    _annotate_template(stack, None)
    _wait_until_rolled(stack, before)
    wait_for_agreement(stack, timeout_s=90, after="the roll was taken back")


def _annotate_template(stack: Stack, value: str | None) -> None:
    patch = {"spec": {"template": {"metadata": {"annotations": {MARK: value}}}}}
    where = ("-n", stack.namespace, "--type=merge", "-p", json.dumps(patch))
    stack.kubectl("patch", "nodeset", stack.nodeset, *where)


def _wait_until_rolled(stack: Stack, before: set[str]) -> None:
    """Every slurmd pod is another one, and ready."""

    def is_rolled() -> bool:
        pods = stack.slurmd_pods()
        left = [pod.name for pod in pods if pod.uid in before or not pod.is_condition_true("Ready")]
        if left or len(pods) < len(before):
            told = {pod.name: pod.annotations.get(names.ANNOTATION_JOBS) for pod in pods if pod.name in left}
            raise NotYet(f"{len(pods)} pods, of which not rolled: {told}")
        return True

    wait(is_rolled, timeout_s=ROLLED_WITHIN_S, what="the NodeSet is rolled", every_s=0.5)


def _wait_until_marked(stack: Stack, name: str) -> Pod:
    """The slurmd pod, once the roll wants it gone; those that run no jobs go before it."""

    def marked() -> Pod:
        pod = stack.kubectl.get(Pod, "pod", name, "-n", stack.namespace)
        if names.ANNOTATION_JOBS not in pod.annotations:
            raise NotYet("not marked, or its jobs are not noted")
        return pod

    return wait(marked, timeout_s=ROLLED_WITHIN_S, what=f"{name} is to make room")
