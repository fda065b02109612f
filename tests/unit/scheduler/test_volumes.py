"""Pods with claims, on the whole scheduler: where their jobs may go, and what is written on their claims."""

import asyncio

import pytest

from sunkpy.core.gang.phases import GangState
from sunkpy.core.model.objects import ClaimSource, LabelSelector, Meta, Pod, PodSpec, PodStatus, PodVolume, Resources
from sunkpy.core.model.storage import (
    SELECTED_NODE,
    Claim,
    ClaimReference,
    ClaimSpec,
    FreeStorage,
    StorageClass,
    Volume,
    VolumeSpec,
)
from sunkpy.scheduler.nodes.volumes import Volumes
from tests.doubles.serving import Changes
from tests.unit.scheduler.counting import lines_of
from tests.unit.scheduler.world import World, leading

ZONE = "topology.kubernetes.io/zone"
MANY = 1_000
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def in_zone(zone):
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]}


@pytest.fixture
def world():
    """Two nodes, each in a zone of its own."""
    world = World()
    for number, zone in ((1, "east"), (2, "west")):
        world.add_node(number)
        world.api.change("nodes", "", f"node-{number}", {"metadata": {"labels": {ZONE: zone}}})
    return world


def add_volume(world, zone):
    spec = {"nodeAffinity": {"required": in_zone(zone)}} if zone else {}
    world.put("persistentvolumes", {"metadata": {"name": "pv"}, "spec": spec})


def selected(world):
    """For which node the volume of the claim is to be made."""
    claim = world.api.objects["persistentvolumeclaims", "default", "data"]
    return claim["metadata"].get("annotations", {}).get(SELECTED_NODE, "")


def volume_is_made(world, zone):
    """The provisioner has done it; with no zone it can be reached from everywhere."""
    bound = {"metadata": {"annotations": BOUND}, "spec": {"volumeName": "pv"}}
    world.api.change("persistentvolumeclaims", "default", "data", bound)
    add_volume(world, zone)


def add_claim(world, class_name="early", *, is_bound=False, modes=()):
    meta = {"name": "data", "namespace": "default", "annotations": BOUND if is_bound else {}}
    spec = {"storageClassName": class_name} | ({"volumeName": "pv"} if is_bound else {}) | {"accessModes": list(modes)}
    return world.put("persistentvolumeclaims", {"metadata": meta, "spec": spec})


def add_class(world, name, mode):
    made = {"metadata": {"name": name}, "provisioner": "csi.example.com", "volumeBindingMode": mode}
    world.put("storageclasses", made)


def add_pod(world, name="web", **fields):
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    return world.add_pod(name, volumes=volumes, **fields)


async def pod_gets_a_node(world):
    """Slurm gives node-2 to the job of a pod with a claim; that job."""
    add_pod(world)
    await world.until(lambda: world.submissions)
    (job,) = world.jobs
    world.set_job(job, "RUNNING", nodes="n2")
    return job


async def test_the_job_of_a_pod_goes_where_its_volume_is(world, tmp_path):
    add_volume(world, "west")
    add_claim(world, is_bound=True)
    async with leading(world, tmp_path):
        add_pod(world)
        await world.until(lambda: world.submissions)
    assert world.submissions[0]["excluded_nodes"] == ["n1"]


async def test_a_pod_waits_for_the_volume_of_its_claim_and_is_told_so(world, tmp_path):
    add_class(world, "early", "Immediate")
    add_claim(world)
    async with leading(world, tmp_path):
        add_pod(world)
        await world.until(lambda: world.notes("FailedScheduling"))
        assert world.notes("FailedScheduling") == ["claim data of pod web is not bound to a volume yet"]
        assert world.submissions == []
        add_volume(world, "east")
        add_claim(world, is_bound=True)
        await world.until(lambda: world.submissions)
    assert world.submissions[0]["excluded_nodes"] == ["n2"]


async def test_a_volume_that_waits_for_its_consumer_is_made_for_the_node_of_the_pod(world, tmp_path):
    add_class(world, "late", "WaitForFirstConsumer")
    add_claim(world, "late")
    async with leading(world, tmp_path):
        await pod_gets_a_node(world)
        says = "the volume of claim data is being made for node node-2"
        await world.until(lambda: says in world.notes("WaitingForSlurm"))
        assert (selected(world), world.bindings) == ("node-2", [])
        volume_is_made(world, "west")
        await world.until(lambda: world.bindings == [("web", "node-2")])
        assert (world.api.patched.count("data"), world.cancelled) == (1, [])


async def test_a_volume_that_cannot_be_made_for_a_node_is_made_for_another(world, tmp_path):
    """The provisioner takes the node off the claim: nobody else would give the pod another one."""
    add_class(world, "late", "WaitForFirstConsumer")
    add_claim(world, "late")
    async with leading(world, tmp_path):
        job = await pod_gets_a_node(world)
        await world.until(lambda: selected(world) == "node-2")
        world.api.change(
            "persistentvolumeclaims", "default", "data", {"metadata": {"annotations": {SELECTED_NODE: None}}}
        )
        await world.until(lambda: world.cancelled == [job])
        says = "no volume is made on node node-2 for claim data: its provisioner has taken the choice back"
        await world.until(lambda: any(note.startswith(says) for note in world.notes("FailedScheduling")))
        world.set_job(job, "CANCELLED")
        await world.until(lambda: len(world.submissions) == 2)
        assert world.submissions[1]["excluded_nodes"] == ["n2"]
        world.set_job(max(world.jobs), "RUNNING", nodes="n1")
        await world.until(lambda: selected(world) == "node-1")
        volume_is_made(world, "east")
        await world.until(lambda: world.bindings == [("web", "node-1")])


def add_free(world, zone, capacity):
    world.put("csidrivers", {"metadata": {"name": "csi.example.com"}, "spec": {"storageCapacity": True}})
    told = {"storageClassName": "late", "capacity": capacity, "nodeTopology": {"matchLabels": {ZONE: zone}}}
    world.put("csistoragecapacities", {"metadata": {"name": f"free-{zone}", "namespace": "csi"}} | told)


async def test_no_node_is_taken_for_a_volume_that_cannot_be_made_there(world, tmp_path):
    add_class(world, "late", "WaitForFirstConsumer")
    asks = {"spec": {"resources": {"requests": {"storage": "10Gi"}}}}
    world.api.change("persistentvolumeclaims", "default", add_claim(world, "late")["metadata"]["name"], asks)
    add_free(world, "east", "5Gi")
    add_free(world, "west", "1Gi")
    async with leading(world, tmp_path):
        add_pod(world)
        says = "none of 2 Slurm nodes fits: 2 without 10Gi of free storage in class late (claim data)"
        await world.until(lambda: says in world.notes("FailedScheduling"))
        assert world.submissions == []
        add_free(world, "west", "10Gi")
        await world.until(lambda: world.submissions)
    assert world.submissions[0]["excluded_nodes"] == ["n1"]


async def test_where_a_partition_grows_a_job_waits_for_a_node_with_free_storage(world, tmp_path):
    """The NodeSet counts jobs that wait, and a node that there is not yet tells no free storage."""
    add_class(world, "late", "WaitForFirstConsumer")
    asks = {"spec": {"resources": {"requests": {"storage": "10Gi"}}}}
    world.api.change("persistentvolumeclaims", "default", add_claim(world, "late")["metadata"]["name"], asks)
    add_free(world, "east", "5Gi")
    add_free(world, "west", "1Gi")
    async with leading(world, tmp_path, growing_partitions=("grows",)):
        add_pod(world, annotations={"sunkpy.dev/partition": "grows"})
        await world.until(lambda: world.submissions)
        assert "excluded_nodes" not in world.submissions[0]
        (job,) = world.jobs
        add_free(world, "west", "10Gi")
        await world.until(lambda: world.jobs[job]["excluded_nodes"] == "n1")
        add_free(world, "west", "1Gi")
        world.set_job(job, "RUNNING", nodes="n2")
        await world.until(lambda: world.cancelled == [job])
        assert (world.bindings, selected(world)) == ([], ""), "nothing is bound where it is full"


async def test_a_volume_that_is_not_made_in_time_keeps_no_node(world, tmp_path):
    world.hasten(volume_patience_s=0.2, volume_again_s=0.05)
    add_class(world, "late", "WaitForFirstConsumer")
    add_claim(world, "late")
    async with leading(world, tmp_path):
        job = await pod_gets_a_node(world)
        await world.until(lambda: world.cancelled == [job])
        says = "the volume of claim data is being made for node node-2, and was not made within 0 s"
        await world.until(lambda: any(note.startswith(says) for note in world.notes("FailedScheduling")))


async def start_two(world):
    """A gang that shares a claim, whose job has both nodes; gives the job's id."""
    for name in ("a", "b"):
        add_pod(world, name, annotations={"sunkpy.dev/gang": "two", "sunkpy.dev/gang-size": "2"})
    await world.until(lambda: world.submissions)
    (job,) = world.jobs
    world.set_job(job, "RUNNING", nodes="n[1-2]", tasks={"set": True, "number": 2})
    await world.until(lambda: selected(world) == "node-1")
    return job


async def test_the_patience_of_a_job_does_not_run_while_a_volume_is_made(world, tmp_path):
    """Else a pod that is replaced meanwhile would cost the job at once."""
    world.hasten(volume_again_s=0.05)
    add_class(world, "late", "WaitForFirstConsumer")
    add_claim(world, "late")
    async with leading(world, tmp_path):
        await start_two(world)
        (record,) = world.term._ledger
        await world.until(lambda: record.idle_since is not None)
        long_ago = record.idle_since - 1000
        record.idle_since = long_ago
        await world.until(lambda: record.idle_since > long_ago + 900)
        world.remove("pods", "default", "b")
        await world.until(lambda: len(record.recognised.pods) == 1)
        add_pod(world, "b", annotations={"sunkpy.dev/gang": "two", "sunkpy.dev/gang-size": "2"})
        await world.until(lambda: len(record.recognised.pods) == 2)
    assert world.cancelled == []


async def test_a_gang_that_shares_a_claim_is_not_bound_beyond_the_reach_of_its_volume(world, tmp_path):
    add_class(world, "late", "WaitForFirstConsumer")
    add_claim(world, "late")
    async with leading(world, tmp_path):
        job = await start_two(world)
        volume_is_made(world, "east")
        await world.until(lambda: world.cancelled == [job])
        assert world.bindings == []
        world.set_job(job, "CANCELLED")
        await world.until(lambda: len(world.submissions) == 2)
        assert world.submissions[1]["excluded_nodes"] == ["n2"]


async def test_of_pods_that_share_a_claim_one_says_where_it_is_made(world, tmp_path):
    add_class(world, "late", "WaitForFirstConsumer")
    add_claim(world, "late")
    async with leading(world, tmp_path):
        await start_two(world)
        volume_is_made(world, "")
        await world.until(lambda: sorted(world.bindings) == [("a", "node-1"), ("b", "node-2")])
        assert world.api.patched.count("data") == 1


async def test_a_job_on_a_node_out_of_reach_is_given_back(world, tmp_path):
    """The claim got its volume elsewhere after the job was submitted."""
    add_class(world, "late", "WaitForFirstConsumer")
    add_claim(world, "late")
    async with leading(world, tmp_path):
        add_pod(world)
        await world.until(lambda: world.submissions)
        (job,) = world.jobs
        add_volume(world, "east")
        add_claim(world, "late", is_bound=True)
        await world.until(lambda: "persistentvolumeclaims" in world.api.watched)
        world.set_job(job, "RUNNING", nodes="n2")
        await world.until(lambda: world.cancelled == [job])
        assert world.bindings == []


async def test_a_pod_waits_while_another_uses_a_claim_that_is_for_one_pod(world, tmp_path):
    """It would hold its job, and wait on its node without a container."""
    world.hasten(other_pods_again_s=0.05)
    add_volume(world, "west")
    add_claim(world, is_bound=True, modes=["ReadWriteOncePod"])
    async with leading(world, tmp_path):
        add_pod(world, "first", node="node-2", running=True)
        await world.until(lambda: len(world.submissions) == 1)
        add_pod(world, "second")
        says = "claim data of pod second is for one pod (ReadWriteOncePod), and pod first uses it"
        await world.until(lambda: says in world.notes("FailedScheduling"))
        assert len(world.submissions) == 1
        world.pod_ends("Succeeded", "first")
        await world.until(lambda: len(world.submissions) == 2)


def test_who_uses_a_claim_is_known_without_a_look_at_other_pods():
    """A cluster has tens of thousands, and many pods may wait for claims that are for one pod."""
    volumes = Volumes(
        None,
        on_claim=lambda _: None,
        on_free_storage=lambda _: None,
        on_change=lambda: None,
        on_unreadable=lambda *_: None,
    )

    def pod(name, claim, node="node-1", phase="Running"):
        source = PodVolume(name="v", persistent_volume_claim=ClaimSource(claim_name=claim))
        spec = PodSpec(node_name=node, volumes=(source,))
        return Pod(metadata=Meta(namespace="default", name=name, uid=name), spec=spec, status=PodStatus(phase=phase))

    def costs():
        return [lines_of(lambda: volumes.user_of(("default", claim), asks)) for claim in ("data", "mine")]  # noqa: B023

    asks, user, ended = pod("asks", "data", node=""), pod("user", "data"), pod("user", "data", phase="Succeeded")
    volumes.used.follow(None, asks)
    volumes.used.follow(None, user)
    before = costs()
    for number in range(MANY):
        volumes.used.follow(None, pod(str(number), f"data-{number}"))
    assert costs() == before
    assert volumes.user_of(("default", "data"), asks) == "user"
    assert volumes.user_of(("default", "mine"), asks) == ""
    assert volumes.user_of(("default", "data"), user) == ""
    volumes.used.follow(user, ended)
    assert volumes.user_of(("default", "data"), asks) == ""
    volumes.used.follow(ended, user)
    volumes.used.follow(user, None)
    assert volumes.user_of(("default", "data"), asks) == ""


def test_a_claim_and_its_volume_concern_only_the_pods_that_wait_for_them():
    """Whoever may make a claim may change it all day."""
    told, everybody = [], []
    volumes = Volumes(
        None,
        on_claim=lambda pod: told.append(pod.name),
        on_free_storage=lambda _: None,
        on_change=lambda: everybody.append(True),
        on_unreadable=lambda *_: None,
    )
    for each in (volumes._claims, volumes._volumes, volumes._classes):
        each.synced.set()
    for namespace, name in (("default", "mine"), ("default", "bound"), ("tenant", "other")):
        source = PodVolume(name="v", persistent_volume_claim=ClaimSource(claim_name="data"))
        spec = PodSpec(node_name="node-1" if name == "bound" else "", volumes=(source,))
        volumes.awaited.follow(None, Pod(metadata=Meta(namespace=namespace, name=name, uid=name), spec=spec))
    claim = Claim(metadata=Meta(namespace="tenant", name="data", uid="c"))
    volumes._changed(None, claim)
    made = VolumeSpec(claim_ref=ClaimReference(namespace="tenant", name="data"))
    volumes._changed(None, Volume(metadata=Meta(name="pv", uid="v"), spec=made))
    volumes._changed(claim, None)
    assert (told, everybody) == (["other"] * 3, [])
    volumes._changed(None, Volume(metadata=Meta(name="made before", uid="w")))
    volumes._changed(None, StorageClass(metadata=Meta(name="fast", uid="s")))
    assert (len(told), everybody) == (3, [True, True])


async def test_what_others_take_of_nodes_has_no_gang_with_a_volume_decided_anew(world, tmp_path):
    add_volume(world, "west")
    add_claim(world, is_bound=True)
    async with leading(world, tmp_path):
        add_pod(world)
        await world.until(lambda: world.submissions)
        (record,), cluster, collector = world.term._ledger, world.term._cluster, world.term._collector
        await world.until(lambda: record.state is GangState.SUBMITTED and not collector.is_concerned(record))
        cluster._doubt_nodes()
        assert not collector.is_concerned(record)
        world.api.change("nodes", "", "node-2", {"metadata": {"labels": {ZONE: "east"}}})
        world.api.change("nodes", "", "node-1", {"metadata": {"labels": {ZONE: "west"}}})
        await world.until(lambda: "n2" in world.jobs[100]["excluded_nodes"])
        before = cluster.reach
        add_class(world, "fast", "Immediate")
        await world.until(lambda: cluster.reach > before)


async def test_free_storage_is_compared_once_for_claims_that_ask_alike_and_wakes_who_waits_for_it(monkeypatch):
    """Drivers tell thousands of nodes each minute, and thousands of claims may wait."""
    told, looks = [], []
    volumes = Volumes(
        None,
        on_claim=lambda _: None,
        on_free_storage=lambda pod: told.append(pod.name),
        on_change=lambda: None,
        on_unreadable=lambda *_: None,
    )
    for each in (volumes._claims, volumes._volumes, volumes._classes, volumes._free):
        each.synced.set()
    for number in range(100):
        name, size = str(number), "10Gi" if number % 2 else "50Gi"
        spec = ClaimSpec(storage_class_name="late", resources=Resources(requests={"storage": size}))
        volumes._asking.follow(None, Claim(metadata=Meta(namespace="default", name=name, uid=name), spec=spec))
        source = PodVolume(name="v", persistent_volume_claim=ClaimSource(claim_name=name))
        pod = Pod(metadata=Meta(namespace="default", name=name, uid=name), spec=PodSpec(volumes=(source,)))
        volumes.awaited.follow(None, pod)
    holds = FreeStorage.holds
    monkeypatch.setattr(FreeStorage, "holds", lambda self, size: looks.append(size) or holds(self, size))
    less, more = (
        FreeStorage(
            metadata=Meta(name="f", uid="f"), storage_class_name="late", node_topology=LabelSelector(), capacity=much
        )
        for much in ("5Gi", "20Gi")
    )
    volumes._free_changed(less, less)
    volumes._free_changed(less, more)
    assert (len(looks), told) == (8, []), "each change is compared with two sizes, before and now"
    telling = asyncio.ensure_future(volumes._report_free_storage())
    await Changes().until(lambda: len(told) >= 50)
    telling.cancel()
    assert sorted(told, key=int) == [str(number) for number in range(100) if number % 2]
