"""The syncer against an apiserver and a slurmrestd, both small and over HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.mirror import DeleteSlurmNode, DrainNode, LiftDrain, UndrainNode
from sunkpy.core.model.objects import Pod
from sunkpy.kube.client import Kube
from sunkpy.runtime.process import Process
from sunkpy.runtime.settings import HttpSettings, SlurmSettings
from sunkpy.slurm import NodeCache, Slurm
from sunkpy.slurm.cluster import WrongCluster
from sunkpy.slurm.errors import SlurmError
from sunkpy.syncer.execute import Executor
from sunkpy.syncer.metrics import NodeCollector, SyncerMetrics
from sunkpy.syncer.settings import FigureSettings, SyncerSettings
from sunkpy.syncer.term import Term
from tests.doubles.apiserver import Apiserver
from tests.doubles.serving import Changes, answering, serving
from tests.doubles.slurmrestd import Slurmrestd

NAME = "gpu-000-001"
COMMENT = '{"node":"n","namespace":"slurm","pod":"gpu-000-001","uid":"u"}'
NODESET_REFERENCE = {
    "apiVersion": "sunkpy.dev/v1alpha1", "kind": "NodeSet", "name": "gpu", "uid": "nodeset-1", "controller": True,
}  # fmt: skip
TOKEN = "2026-11-21T00:00:00Z/scale-down"
ROLL = "2026-11-21T00:00:00Z/rollout"
SERVICE: dict[str, Any] = {
    "comment": "k8s:default/web-0:uid",
    "batch_flag": False,
    "state_reason": "None",
    "job_resources": {"nodes": {"allocation": [{"name": NAME, "cpus": {"count": 2}, "memory": {"allocated": 20}}]}},
}
"""On the node, with 2 cpus and 20 MiB of it."""
LONG_AGO, LATELY = "2026-11-01T00:00:00Z", "2026-11-21T00:00:00Z"
THEN, NOW = ({"set": True, "number": number} for number in (1_793_500_000, 1_795_300_000))
"""When pods started, and soon after each its slurmd."""


class World:
    """Both sides, and the syncer between them."""

    def __init__(self, changes: Changes) -> None:
        self.changes = changes
        self.api = Apiserver(changes)
        self.slurm = Slurmrestd(changes)
        self.kube: Kube
        self.client: Slurm
        self.nodes: NodeCache
        self.settings = SyncerSettings(
            cluster="c1",
            namespace="slurm",
            slurm=SlurmSettings(url="http://slurmrestd", jwt_key_file="jwt.key"),
            http=HttpSettings(port=0),
        )
        self.process = Process("syncer", self.settings)
        self.key_file = ""
        self.later_s = 0.0
        """By how many seconds the syncer's clock is set forward, except the clock for Slurm's answers."""
        self.metrics = SyncerMetrics(self.process.registry)

    def add_pod(self, name: str = NAME, *, start_time: str | None = None, **annotations: str) -> None:
        body = {
            "metadata": {
                "name": name,
                "namespace": "slurm",
                "labels": {
                    names.LABEL_ROLE: names.ROLE_COMPUTE,
                    names.LABEL_CLUSTER: "c1",
                    names.LABEL_SLURM_NODE: name,
                    names.LABEL_NODESET: "gpu",
                },
                "annotations": annotations,
                "ownerReferences": [NODESET_REFERENCE],
            },
            "spec": {"nodeName": "node-1"},
            "status": {
                "phase": "Running",
                "startTime": start_time,
                "conditions": [{"type": "ContainersReady", "status": "True"}],
            },
        }
        self.api.put("pods", body)

    def annotate(self, name: str = NAME, **annotations: str | None) -> None:
        notes = {names.PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}
        self.api.change("pods", "slurm", name, {"metadata": {"annotations": notes}})

    def delete_pod(self, name: str = NAME) -> None:
        self.api.remove("pods", "slurm", name)

    def annotation(self, key: str, name: str = NAME) -> str | None:
        found = self.api.find("pods", name)
        return found["metadata"].get("annotations", {}).get(key) if found else None

    def condition(self, type_: str, name: str = NAME) -> str | None:
        found = self.api.find("pods", name) or {}
        return next((c["status"] for c in found["status"]["conditions"] if c["type"] == type_), None)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for either side to reach a state."""
        await self.changes.until(holds, within_s=20)

    async def some_answers(self) -> None:
        """Wait until Slurm has been read a few times more: whatever was to be done has been done."""
        seen = self.nodes.observation
        assert seen is not None
        await self.until(lambda: self.nodes.observation is not None and self.nodes.observation.number > seen.number + 3)

    def term(self) -> Term:
        return Term(
            kube=self.kube,
            slurm=self.client,
            nodes=self.nodes,
            settings=self.settings,
            process=self.process,
            metrics=self.metrics,
            clock=lambda: time.monotonic() + self.later_s,
        )

    def executor(self) -> Executor:
        return Executor(kube=self.kube, slurm=self.client, events=_NoEvents(), metrics=self.metrics, namespace="slurm")

    @contextlib.asynccontextmanager
    async def syncing(self) -> AsyncIterator[None]:
        task = asyncio.ensure_future(self.term().run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def world(tmp_path) -> AsyncIterator[World]:
    key = tmp_path / "jwt.key"
    key.write_bytes(b"k" * 32)
    world = World(Changes())
    world.key_file = str(key)
    async with (
        answering(world.api.handle, tmp_path) as kubeconfig,
        serving(world.slurm.app()) as port,
        await Kube.connect(kubeconfig) as world.kube,
    ):
        url = f"http://127.0.0.1:{port}"
        world.client = Slurm.connect(SlurmSettings(url=url, version="v0.0.45", jwt_key_file=str(key)))
        world.nodes = NodeCache(world.client, poll_s=0.05)
        yield world
        await world.client.close()


async def test_a_registered_node_is_told_to_its_pod_and_gets_its_comment(world: World) -> None:
    world.add_pod()
    world.slurm.put(NAME)
    async with world.syncing():
        await world.until(lambda: world.condition(names.READINESS_GATE) == "True")
        await world.until(lambda: '"pod":"gpu-000-001"' in world.slurm.nodes[NAME]["comment"])
    assert world.annotation(names.ANNOTATION_SLURM_STATE) == "IDLE"


async def test_a_node_whose_machine_was_booted_unannounced_comes_back_by_itself(world: World) -> None:
    world.add_pod()
    world.slurm.put(NAME, "DOWN", reason="Node unexpectedly rebooted")
    async with world.syncing():
        await world.until(lambda: world.slurm.state(NAME) == "IDLE")
        await world.until(lambda: "SlurmNodeResumed" in [event["reason"] for event in world.api.events()])
    assert world.slurm.nodes[NAME]["reason"] == "", "24.11 keeps one that is not taken away"
    (note,) = [event["note"] for event in world.api.events() if event["reason"] == "SlurmNodeResumed"]
    why = "Slurm had set node gpu-000-001 DOWN (Node unexpectedly rebooted)"
    assert note == f"{why}; its slurmd has registered again, so it takes jobs again"


async def test_a_node_that_a_person_has_set_down_stays_so(world: World) -> None:
    world.add_pod()
    world.slurm.put(NAME, "DOWN", reason="bad fan")
    async with world.syncing():
        await world.until(lambda: world.condition(names.CONDITION_CORDON) == "True")
        await world.some_answers()
    assert (world.slurm.state(NAME), world.slurm.nodes[NAME]["reason"]) == ("DOWN", "bad fan")


async def test_a_cordon_becomes_a_drain_and_is_lifted_with_it(world: World) -> None:
    world.add_pod()
    world.slurm.put(NAME)
    async with world.syncing():
        world.annotate(cordon="disk")
        await world.until(lambda: world.slurm.nodes[NAME]["reason"] == "k8s: cordon: disk")
        await world.until(lambda: world.condition(names.CONDITION_DRAIN) == "True")
        assert world.condition(names.CONDITION_CORDON) == "False"
        world.annotate(cordon=None)
        await world.until(lambda: world.slurm.state(NAME) == "IDLE")
        await world.until(lambda: {"SlurmNodeDrained", "SlurmNodeUndrained"} <= set(world.api.reasons()))


async def test_a_sick_node_is_drained_and_opened_with_what_its_pod_says(world: World) -> None:
    world.add_pod()
    world.slurm.put(NAME)
    async with world.syncing():
        world.annotate(health_drain="gpu: condition GpuFell=True")
        await world.until(lambda: world.slurm.nodes[NAME]["reason"] == "k8s: health: gpu: condition GpuFell=True")
        world.annotate(health_drain=None)
        await world.until(lambda: world.slurm.state(NAME) == "IDLE")


async def test_a_drain_of_others_is_lifted_only_with_leave_for_its_very_words(world: World) -> None:
    reason = "Kill task failed: job 7"
    world.add_pod()
    world.slurm.put(NAME, "IDLE", "DRAIN", reason=reason)
    async with world.syncing():
        await world.until(lambda: world.condition(names.CONDITION_CORDON) == "True")
        world.annotate(health_lift="Kill task failed: job 8")
        await world.some_answers()
        assert world.slurm.nodes[NAME]["reason"] == reason
        world.annotate(health_lift=reason)
        await world.until(lambda: world.slurm.state(NAME) == "IDLE")
        await world.until(lambda: "SlurmDrainLifted" in world.api.reasons())


async def test_a_drain_in_slurm_is_told_and_left_alone(world: World) -> None:
    world.add_pod()
    world.slurm.put(NAME)
    async with world.syncing():
        await world.until(lambda: world.condition(names.READINESS_GATE) == "True")
        world.slurm.put(NAME, "IDLE", "DRAIN", reason="bad gpu")
        await world.until(lambda: world.condition(names.CONDITION_CORDON) == "True")
        assert world.annotation(names.ANNOTATION_DRAIN) == "bad gpu"
        world.slurm.put(NAME, "IDLE", reason="")
        await world.until(lambda: world.condition(names.CONDITION_CORDON) == "False")
    assert not [write for write in world.slurm.writes if "DRAIN" in write]


async def test_where_unkillable_processes_wait_is_told_to_the_nodeset(world: World) -> None:
    world.add_pod()
    world.slurm.put(NAME, "IDLE", "DRAIN", reason="Kill task failed")
    why = "Kill task failed: job 12 step 0; cp (pid 345) in rpc_wait_bit_killable<__wait_on_bit"
    async with world.syncing():
        await world.until(lambda: world.annotation(names.ANNOTATION_DRAIN) == "Kill task failed")
        assert "KillTaskFailed" not in world.api.reasons()
        world.slurm.put(NAME, "IDLE", "DRAIN", reason=why)
        await world.until(lambda: "KillTaskFailed" in world.api.reasons())
    (event,) = [event for event in world.api.events() if event["reason"] == "KillTaskFailed"]
    assert (event["type"], event["note"]) == ("Warning", f"Slurm node {NAME}: {why}")
    assert event["regarding"]["kind"] == "NodeSet"


async def test_jobs_that_wait_while_a_node_is_drained_are_told_to_its_nodeset(world: World) -> None:
    world.add_pod()
    world.slurm.put(NAME, "IDLE", "DRAIN", reason="bad gpu")
    world.slurm.configured["low"] = NAME
    for _ in range(10):
        world.slurm.add_job("PENDING", comment="", user="ann", state_reason="Resources")
    world.api.put("nodesets", {"metadata": {"name": "gpu", "namespace": "slurm"}})
    world.settings = msgspec.structs.replace(world.settings, metrics=FigureSettings(seconds=0.05))
    async with world.syncing():
        await world.until(lambda: world.slurm.asked.count("partitions") > 1)
        assert "JobsWaiting" not in world.api.reasons()
        world.later_s = 600.0
        await world.until(lambda: "JobsWaiting" in world.api.reasons())


async def test_how_long_a_node_has_been_drained_is_shown_with_its_nodeset(world: World) -> None:
    world.add_pod()
    world.slurm.put(NAME, "IDLE", "DRAIN", reason="bad gpu")
    world.settings = msgspec.structs.replace(world.settings, metrics=FigureSettings(seconds=0.05))
    runner = await world.process.serve()
    port = next(address[1] for address in runner.addresses if len(address) == 2)
    async with world.syncing(), aiohttp.ClientSession() as session:
        await world.until(lambda: world.annotation(names.ANNOTATION_DRAIN) == "bad gpu")
        asked = world.slurm.asked.count("partitions")
        await world.until(lambda: world.slurm.asked.count("partitions") > asked + 2)
        async with session.get(f"http://127.0.0.1:{port}/metrics") as answer:
            text = await answer.text()
    await runner.cleanup()
    assert f'sunkpy_node_drain_seconds_total{{node="{NAME}",nodeset="gpu",state="drained"}}' in text


async def test_a_job_finishes_before_its_pod_may_go_and_the_node_goes_last(world: World) -> None:
    world.add_pod()
    world.slurm.put(NAME, "ALLOCATED")
    async with world.syncing():
        world.annotate(pending_deletion=TOKEN)
        await world.until(lambda: world.slurm.state(NAME) == "ALLOCATED+DRAIN")
        await world.until(lambda: world.condition(names.CONDITION_RUNNING) == "True")
        assert world.annotation(names.ANNOTATION_DRAINED) is None
        world.slurm.put(NAME, "IDLE", "DRAIN")
        await world.until(lambda: world.annotation(names.ANNOTATION_DRAINED) == TOKEN)
        assert world.annotation(names.ANNOTATION_DRAINED_AT)
        world.delete_pod()
        await world.until(lambda: NAME not in world.slurm.nodes)
        assert world.nodes.observation is not None
        await world.until(lambda: world.nodes.observation is not None and not world.nodes.observation.nodes)
    assert sum(write.startswith("DELETE") for write in world.slurm.writes) == 1


async def test_no_receipt_is_written_by_an_answer_that_slurm_takes_for_the_newest_since_its_clock_was_set_back(
    world: World,
) -> None:
    world.add_pod()
    world.slurm.put(NAME, "IDLE", "DRAIN", reason="bad gpu")
    async with world.syncing():
        await world.until(lambda: world.condition(names.CONDITION_CORDON) == "True")
        await world.until(lambda: bool(world.slurm.nodes[NAME]["comment"]))
        await world.some_answers()
        world.slurm.set_clock_back()
        world.slurm.put(NAME, "ALLOCATED", reason="")
        world.annotate(pending_deletion=TOKEN)
        receipt = names.ANNOTATION_DRAINED
        await world.until(lambda: world.annotation(receipt) or world.slurm.state(NAME) == "ALLOCATED+DRAIN")
        assert world.annotation(receipt) is None
        world.slurm.put(NAME, "IDLE", "DRAIN")
        await world.until(lambda: world.annotation(names.ANNOTATION_DRAINED) == TOKEN)


async def test_a_roll_is_told_that_only_services_are_on_a_node(world: World) -> None:
    web = world.slurm.add_job("RUNNING", **SERVICE)
    world.add_pod(start_time=LONG_AGO, **{names.ANNOTATION_JOBS: str(web)})
    world.slurm.put(NAME, "MIXED", alloc_cpus=2, alloc_memory=20, slurmd_start_time=THEN)
    async with world.syncing():
        world.annotate(pending_deletion=ROLL)
        await world.until(lambda: world.annotation(names.ANNOTATION_REPLACEABLE) == ROLL)
        assert world.annotation(names.ANNOTATION_REPLACEABLE_AT)
        assert world.annotation(names.ANNOTATION_DRAINED) is None
        assert world.condition(names.CONDITION_RUNNING) == "True"
        world.delete_pod()
        await world.some_answers()
        world.add_pod(start_time=LATELY)
        await world.until(lambda: world.condition(names.READINESS_GATE) == "False")
        await world.some_answers()
        assert "DRAIN" in world.slurm.nodes[NAME]["state"], "Slurm has heard of the first slurmd alone"
        world.slurm.put(NAME, slurmd_start_time=NOW)
        await world.until(lambda: world.slurm.state(NAME) == "MIXED")
        await world.until(lambda: world.condition(names.READINESS_GATE) == "True")
    assert not [write for write in world.slurm.writes if write.startswith("DELETE")], "a node with jobs on it stays"


async def test_a_roll_is_told_nothing_while_somebody_else_is_on_the_node(world: World) -> None:
    web = world.slurm.add_job("RUNNING", **SERVICE)
    world.add_pod(start_time=LONG_AGO, **{names.ANNOTATION_JOBS: str(web), names.ANNOTATION_PENDING_DELETION: ROLL})
    world.slurm.put(NAME, "MIXED", alloc_cpus=2, alloc_memory=30, slurmd_start_time=THEN)
    async with world.syncing():
        await world.until(lambda: f"job {web}" in world.slurm.asked)
        world.slurm.put(NAME, alloc_cpus=0, alloc_memory=0)
        world.slurm.put(NAME, "IDLE", "DRAIN")
        await world.until(lambda: world.annotation(names.ANNOTATION_DRAINED) == ROLL)
        assert world.annotation(names.ANNOTATION_REPLACEABLE) is None
    assert world.slurm.asked.count(f"job {web}") == 1, "what was no stays so for a while"


async def test_an_answer_about_jobs_that_does_not_come_holds_nothing_up(world: World) -> None:
    world.settings = msgspec.structs.replace(world.settings, service_check_seconds=0.2)
    web = world.slurm.add_job("RUNNING", **SERVICE)
    world.slurm.unreadable.add(web)
    world.add_pod(start_time=LONG_AGO, **{names.ANNOTATION_JOBS: str(web), names.ANNOTATION_PENDING_DELETION: ROLL})
    world.slurm.put(NAME, "MIXED", alloc_cpus=2, alloc_memory=20, slurmd_start_time=THEN)
    async with world.syncing():
        await world.until(lambda: world.slurm.reading > 0)
        world.slurm.put(NAME, "IDLE", "DRAIN", alloc_cpus=0, alloc_memory=0)
        await world.until(lambda: world.annotation(names.ANNOTATION_DRAINED) == ROLL)
        assert world.annotation(names.ANNOTATION_REPLACEABLE) is None
        world.slurm.unreadable.clear()
        world.changes.note()


async def test_a_new_leader_adopts_what_it_finds(world: World) -> None:
    world.add_pod(**{names.ANNOTATION_PENDING_DELETION: TOKEN})
    world.slurm.put(NAME, "IDLE", "DRAIN", reason="k8s: pod pending deletion: scale-down")
    world.slurm.put("gpu-000-009", comment='{"node":"n","namespace":"slurm","pod":"gpu-000-009","uid":"u"}')
    async with world.syncing():
        await world.until(lambda: world.annotation(names.ANNOTATION_DRAINED) == TOKEN)
        await world.until(lambda: "gpu-000-009" not in world.slurm.nodes)


async def test_nothing_is_written_while_slurmctld_has_lost_its_state(world: World) -> None:
    nodes = [f"gpu-000-{number:03}" for number in range(3)]
    for name in nodes:
        world.add_pod(name)
        world.slurm.put(name)
    async with world.syncing():
        for name in nodes:
            await world.until(lambda name=name: world.condition(names.READINESS_GATE, name) == "True")
        await world.until(lambda: all(node["comment"] for node in world.slurm.nodes.values()))
        written = len(world.slurm.writes)
        world.slurm.lose_state()
        await world.until(lambda: world.api.reasons().count("SlurmNotBelieved") == 1)
        for name in nodes:
            world.annotate(name, pending_deletion=TOKEN)
        seen = world.nodes.observation
        assert seen is not None
        await world.until(
            lambda: world.nodes.observation is not None and world.nodes.observation.number > seen.number + 3
        )
        for name in nodes:
            assert world.annotation(names.ANNOTATION_DRAINED, name) is None
            assert world.condition(names.READINESS_GATE, name) == "True"
            assert world.condition(names.CONDITION_DRAIN, name) == "False", "as it was last known"
    assert len(world.slurm.writes) == written
    assert world.process.registry.get_sample_value("sunkpy_syncer_slurm_believed") == 0


async def test_an_unreadable_slurm_changes_nothing_and_work_goes_on_afterwards(world: World) -> None:
    world.add_pod()
    world.slurm.put(NAME)
    async with world.syncing():
        await world.until(lambda: world.condition(names.READINESS_GATE) == "True")
        world.slurm.is_down = True
        world.annotate(cordon="disk")
        await world.slurm.refused.wait()
        world.slurm.is_down = False
        await world.until(lambda: "DRAIN" in world.slurm.state(NAME))


async def test_a_slurm_of_another_name_is_refused(world: World) -> None:
    world.slurm.cluster = "c2"
    with pytest.raises(WrongCluster, match="'c2'"):
        await world.term().run()


class _NoEvents:
    async def normal(self, *_: object, **__: object) -> None: ...


@pytest.mark.parametrize(
    ("pod", "action"),
    [
        pytest.param({}, "delete", id="delete: the pod is back"),
        pytest.param({}, "drain", id="pod gone: it is not"),
        pytest.param({names.ANNOTATION_CORDON: "x"}, "undrain", id="undrain: cordoned meanwhile"),
        pytest.param({names.ANNOTATION_PENDING_DELETION: TOKEN}, "undrain", id="undrain: to be deleted meanwhile"),
        pytest.param({names.ANNOTATION_HEALTH_DRAIN: "x"}, "undrain", id="undrain: sick meanwhile"),
        pytest.param({}, "lift", id="lift: leave withdrawn meanwhile"),
    ],
)
async def test_the_apiserver_has_the_last_word(world: World, pod: dict[str, str], action: str) -> None:
    """The watch may lag behind: what it did not see yet must not be undone."""
    world.add_pod(**pod)
    world.slurm.put(NAME, "IDLE", "DRAIN", reason="k8s: cordon: y")
    seen = Pod(
        metadata=msgspec.convert({"name": NAME, "uid": world.api.find("pods", NAME)["metadata"]["uid"]}, _meta())
    )
    actions: dict[str, Any] = {
        "delete": DeleteSlurmNode(name=NAME, reason="k8s: cordon: y", is_announced=True),
        "drain": DrainNode(name=NAME, reason="k8s: pod gone", is_announced=False),
        "undrain": UndrainNode(name=NAME, pod=seen),
        "lift": LiftDrain(name=NAME, reason="bad gpu", pod=seen),
    }
    executor = world.executor()
    assert await executor.run(actions[action], seen if action in ("undrain", "lift") else None) is False
    assert world.slurm.writes == []


@pytest.mark.parametrize(
    "action",
    [
        DrainNode(name=NAME, reason="k8s: cordon: y", is_announced=True),
        DeleteSlurmNode(name=NAME, reason="k8s: pod gone", is_announced=False),
    ],
    ids=["drain", "delete"],
)
async def test_a_drain_set_between_poll_and_write_is_not_overwritten(
    world: World, action: DrainNode | DeleteSlurmNode
) -> None:
    world.slurm.put(NAME, "IDLE", "DRAIN", reason="bad gpu", comment=COMMENT)
    executor = world.executor()
    assert await executor.run(action, Pod() if isinstance(action, DrainNode) else None), "to be read again"
    assert world.slurm.writes == []
    assert world.slurm.nodes[NAME]["reason"] == "bad gpu"


async def test_refused_deletions_use_up_no_budget(world: World) -> None:
    """A reserved node cannot be deleted: Slurm says so each time, and others must get their turn."""
    world.slurm.put(NAME, "IDLE", "DRAIN", reason="k8s: pod gone", comment=COMMENT)
    world.slurm.refuse = "Nodes busy"
    action = DeleteSlurmNode(name=NAME, reason="k8s: pod gone", is_announced=False)
    executor = world.executor()
    for _ in range(20):
        assert await executor.spend_budget(action, None, nodes=3)
        with pytest.raises(SlurmError):
            await executor.run(action, None)
    world.slurm.refuse = ""
    assert await executor.spend_budget(action, None, nodes=3)
    assert await executor.run(action, None)
    assert NAME not in world.slurm.nodes


async def test_a_drain_that_slurm_lost_with_its_record_is_put_back(world: World) -> None:
    world.add_pod()
    world.add_pod("gpu-000-002")
    world.slurm.put(NAME, "IDLE", "DRAIN", reason="bad gpu")
    world.slurm.put("gpu-000-002")
    async with world.syncing():
        await world.until(lambda: world.condition(names.CONDITION_CORDON) == "True")
        await world.until(lambda: bool(world.slurm.nodes[NAME]["comment"]))
        world.slurm.forget(NAME)
        await world.until(lambda: world.condition(names.CONDITION_DRAIN) == "False")
        assert world.condition(names.CONDITION_CORDON) == "True"
        world.slurm.put(NAME)
        await world.until(lambda: world.slurm.nodes[NAME]["reason"] == "bad gpu")
        await world.until(lambda: bool(world.slurm.nodes[NAME]["comment"]))
        assert world.condition(names.CONDITION_CORDON) == "True"
        await world.until(lambda: "SlurmDrainRestored" in world.api.reasons())


def _meta() -> Any:
    return type(Pod().metadata)


async def test_node_gauges_are_those_of_the_last_answer(world: World) -> None:
    world.slurm.put("a", "IDLE", "DRAIN")
    world.slurm.put("b", "ALLOCATED")
    registry = world.process.registry
    registry.register(NodeCollector(world.nodes))
    assert registry.get_sample_value("slurm_nodes_total") is None
    await world.nodes.refresh()
    values = {name: registry.get_sample_value(f"slurm_nodes_{name}") for name in ("total", "drain", "alloc", "down")}
    assert values == {"total": 2, "drain": 1, "alloc": 1, "down": 0}
