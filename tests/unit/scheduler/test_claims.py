"""Pods with ResourceClaims, on the whole scheduler: what Slurm is asked for, what is written, and in which order."""

import contextlib

import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.gang.phases import GangState
from sunkpy.core.model.devices import PROTECTION, DeviceId, ResourceClaim
from sunkpy.core.model.objects import Node, Pod
from sunkpy.kube import paths
from sunkpy.kube.informer import Informer
from sunkpy.runtime.settings import SlurmSettings
from sunkpy.scheduler.devices.watch import Devices
from sunkpy.scheduler.settings import SchedulerSettings
from tests.unit.scheduler.world import SLURMD_STARTED_S, World
from tests.unit.scheduler.world import leading as leading_on

DRIVER = "gpu.example.com"
SLURM = SlurmSettings(url="http://127.0.0.1:1", token_file="unused")
V1 = "resource.k8s.io/v1"
CLAIMS = f"/apis/{V1}/resourceclaims"
UUIDS = [f"GPU-{at}" for at in range(4)]


@pytest.fixture
def world():
    """A node with four GPUs, whose driver names them in another order than Slurm."""
    world = World()
    for kind, plural in (("ResourceClaim", "resourceclaims"), ("ResourceClaimTemplate", "resourceclaimtemplates")):
        world.api.define(V1, kind, plural)
    for kind, plural in (("ResourceSlice", "resourceslices"), ("DeviceClass", "deviceclasses")):
        world.api.define(V1, kind, plural, namespaced=False)
    add_node(world, 1)
    world.put("deviceclasses", {"metadata": {"name": DRIVER}, "spec": {}})
    return world


def add_node(world, number):
    world.add_node(number)
    world.list_gpus(number, *(f"nvidia{at} {uuid} -" for at, uuid in enumerate(UUIDS)), gres="gpu:4", cpus=4)
    devices = [{"name": f"gpu-{at}", "attributes": {"uuid": {"string": u}}} for at, u in enumerate(reversed(UUIDS))]
    pool = {"name": f"node-{number}", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": f"node-{number}", "pool": pool, "devices": devices}
    world.put("resourceslices", {"metadata": {"name": f"node-{number}-gpus"}, "spec": spec})


def add_claim(world, name="gpus", count=1, cls=DRIVER, **status):
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": cls, "count": count}}]}}
    meta = {"name": name, "namespace": "default"}
    return world.put("resourceclaims", {"metadata": meta, "spec": spec, "status": status})


def allocated(*devices, pod="", uid="", pool="node-1"):
    results = [{"request": "gpu", "driver": DRIVER, "pool": pool, "device": device} for device in devices]
    users = [{"resource": "pods", "name": pod, "uid": uid}] if uid else []
    return {"allocation": {"devices": {"results": results}}, "reservedFor": users}


def add_pod(world, name="web", claim="gpus", **fields):
    return world.add_pod(name, resourceClaims=[{"name": "gpu", "resourceClaimName": claim}], **fields)


def status_of(world, name="gpus"):
    return world.api.objects["resourceclaims", "default", name]["status"]


def devices_of(world, name="gpus"):
    return [
        each["device"] for each in status_of(world, name).get("allocation", {}).get("devices", {}).get("results", [])
    ]


def counted(world, name, **labels):
    """The value of a counter of the scheduler."""
    return getattr(world.term._leader.metrics, name).labels(**labels)._value.get()


def gives(indices, node="n1", tasks=1):
    """What Slurm says of a job that has these GPUs of a node."""
    return {
        "nodes": node, "tasks": {"set": True, "number": tasks}, "cpus_per_task": {"set": True, "number": 1},
        "gres_detail": [f"gpu:{len(indices) // 2 + 1}(IDX:{indices})"],
        "job_resources": {"nodes": {"allocation": [{"name": node, "cpus": {"count": tasks}}]}},
    }  # fmt: skip


@contextlib.asynccontextmanager
async def leading(world, tmp_path, **changes):
    async with leading_on(world, tmp_path, device_classes={DRIVER: "gpu"}, **changes) as server:
        yield server


async def start(world, indices, **job):
    """Slurm starts the only job."""
    await world.until(lambda: world.submissions)
    (job_id,) = world.jobs
    world.set_job(job_id, "RUNNING", **gives(indices, **job))
    return job_id


async def test_a_claim_gets_the_devices_that_slurm_gave_to_the_job(world, tmp_path):
    claim, pod = add_claim(world, count=2), add_pod(world)
    async with leading(world, tmp_path):
        await world.until(lambda: world.submissions)
        assert world.submissions[0]["tres_per_node"] == "gres/gpu:2"
        await start(world, "1,3")
        await world.until(lambda: world.bindings == [("web", "node-1")])
        assert counted(world, "claims", result="allocated") == 1
    assert world.api.patched[:2] == ["gpus", "gpus/status"]
    kept = world.api.objects["resourceclaims", "default", "gpus"]
    assert kept["metadata"]["finalizers"] == [PROTECTION]
    assert kept["metadata"]["annotations"] == {names.ANNOTATION_ALLOCATED_BY: "slurm"}
    assert kept["metadata"]["uid"] == claim["metadata"]["uid"]
    assert devices_of(world) == ["gpu-2", "gpu-0"]
    assert status_of(world)["reservedFor"] == [{"resource": "pods", "name": "web", "uid": pod["metadata"]["uid"]}]
    noted = world.pod()["metadata"]["annotations"]
    assert noted[names.ANNOTATION_GPU_INDICES] == "1,3"
    assert noted[names.ANNOTATION_DEVICES] == "node-1/gpu-2,node-1/gpu-0"


async def test_a_pod_waits_until_the_claim_of_its_template_was_made(world, tmp_path):
    asked = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    async with leading(world, tmp_path):
        pod = world.add_pod(resourceClaims=asked)
        await world.until(lambda: "deviceclasses" in world.api.watched)
        add_claim(world, "web-gpu-x7")
        assert world.submissions == []
        statuses = [{"name": "gpu", "resourceClaimName": "web-gpu-x7"}]
        world.put("pods", {**pod, "status": {"phase": "Pending", "resourceClaimStatuses": statuses}})
        await start(world, "0")
        await world.until(lambda: world.bindings)
    assert devices_of(world, "web-gpu-x7") == ["gpu-3"]
    assert world.notes("FailedScheduling") == []


async def test_a_pod_whose_claim_does_not_come_is_told_so(world, tmp_path):
    world.hasten(other_pods_again_s=3.1)
    async with leading(world, tmp_path):
        add_pod(world)
        await world.until(lambda: world.notes("FailedScheduling"))
        assert world.notes("FailedScheduling") == ["waits for ResourceClaim gpus of pod web, which is not there"]
        assert world.submissions == []
        add_claim(world)
        await world.until(lambda: world.submissions)


async def test_devices_of_another_claim_are_waited_for(world, tmp_path):
    """Its pod has let go of the node, and Kubernetes has not taken the device back yet."""
    add_claim(world)
    add_claim(world, "others", **allocated("gpu-3", pod="other", uid="uid-of-other"))
    async with leading(world, tmp_path):
        add_pod(world)
        await start(world, "0")
        record = next(iter(world.term._ledger))
        await world.until(lambda: any(member.waits_since for member in record.members.values()))
        assert world.bindings == []
        world.api.change("resourceclaims", "default", "others", {"status": {"allocation": None, "reservedFor": None}})
        await world.until(lambda: world.bindings)
    assert devices_of(world) == ["gpu-3"]


async def test_a_job_with_devices_that_another_claim_keeps_is_given_back(world, tmp_path):
    world.hasten(admission_patience_s=0.1)
    add_claim(world)
    add_claim(world, "others", **allocated("gpu-3", pod="other", uid="uid-of-other"))
    async with leading(world, tmp_path):
        add_pod(world)
        job = await start(world, "0")
        await world.until(lambda: world.cancelled == [job])
        why = "device node-1/gpu-3 (gpu 0 of node node-1) is allocated to claim default/others"
        await world.until(lambda: any(note.startswith(why) for note in world.notes("FailedScheduling")))
        assert counted(world, "device_refusals", reason="taken") == 1
    assert world.bindings == []
    assert devices_of(world) == []


async def test_a_claim_that_somebody_allocated_while_the_job_waited_stays_theirs(world, tmp_path):
    world.hasten(admission_patience_s=0.1)
    add_claim(world)
    theirs = allocated("gpu-0", pod="other", uid="uid-of-other")
    async with leading(world, tmp_path):
        add_pod(world)
        await world.until(lambda: world.submissions)
        world.api.change("resourceclaims", "default", "gpus", {"status": theirs})
        job = await start(world, "0")
        await world.until(lambda: world.cancelled == [job])
        why = "claim gpus of pod web is allocated by somebody else, for pods other"
        await world.until(lambda: any(why in note for note in world.notes("FailedScheduling")))
    assert (world.bindings, status_of(world)) == ([], theirs)


async def test_a_pod_waits_for_the_class_of_its_devices(world, tmp_path):
    """What it says to the driver belongs to the allocation."""
    world.remove("deviceclasses", "", DRIVER)
    add_claim(world)
    async with leading(world, tmp_path):
        add_pod(world)
        await start(world, "0")
        record = next(iter(world.term._ledger))
        await world.until(lambda: any(member.waits_since for member in record.members.values()))
        assert devices_of(world) == []
        opaque = {"driver": DRIVER, "parameters": {"shared": False}}
        world.put("deviceclasses", {"metadata": {"name": DRIVER}, "spec": {"config": [{"opaque": opaque}]}})
        await world.until(lambda: world.bindings)
    (config,) = status_of(world)["allocation"]["devices"]["config"]
    assert config == {"source": "FromClass", "requests": ["gpu"], "opaque": opaque}


async def test_admin_access_keeps_no_device_from_a_pod(world, tmp_path):
    add_claim(world)
    watches = allocated("gpu-3", pod="monitor", uid="uid-of-monitor")
    watches["allocation"]["devices"]["results"][0]["adminAccess"] = True
    add_claim(world, "monitor", **watches)
    async with leading(world, tmp_path):
        add_pod(world)
        await start(world, "0")
        await world.until(lambda: world.bindings)


async def test_a_job_is_given_back_where_slurm_and_the_driver_do_not_agree(world, tmp_path):
    """As after a reboot with other devices: what was polled before does not count."""
    add_claim(world)
    async with leading(world, tmp_path):
        add_pod(world)
        await world.until(lambda: world.submissions)
        world.list_gpus(1, "nvidia0 GPU-9 -")
        job = await start(world, "0")
        await world.until(lambda: world.cancelled == [job])
        why = "no devices in the ResourceSlices of node node-1 are gpu 0 of node node-1 (nvidia0 GPU-9)"
        await world.until(lambda: any(note.startswith(why) for note in world.notes("FailedScheduling")))
    assert world.bindings == []


async def test_after_a_reboot_with_other_minors_an_index_is_another_device(world, tmp_path):
    """The list of this boot counts, though the poll of nodes has not shown it."""
    add_claim(world)
    async with leading(world, tmp_path):
        add_pod(world)
        await world.until(lambda: world.submissions)
        world.list_gpus(1, *(f"nvidia{at} {uuid} -" for at, uuid in enumerate(reversed(UUIDS))))
        await start(world, "0")
        await world.until(lambda: world.bindings)
    assert devices_of(world) == ["gpu-0"]


async def test_no_device_is_given_by_the_list_of_an_earlier_slurmd(world, tmp_path):
    """Slurm 26.05 keeps that of the slurmd before, and the driver may have put other devices behind the indices."""
    add_claim(world)
    lines = [f"nvidia{at} {uuid} -" for at, uuid in enumerate(UUIDS)]
    async with leading(world, tmp_path):
        add_pod(world)
        await world.until(lambda: world.submissions)
        world.list_gpus(1, *lines, made_s=SLURMD_STARTED_S - 1)
        await start(world, "0")
        record = next(iter(world.term._ledger))
        await world.until(lambda: any(member.waits_since for member in record.members.values()))
        assert (world.bindings, devices_of(world), world.cancelled) == ([], [], [])
        world.list_gpus(1, *lines)
        await world.until(lambda: world.bindings)
    assert devices_of(world) == ["gpu-3"]


async def test_nothing_is_bound_to_a_node_while_its_driver_is_away(world, tmp_path):
    """Its slices go with it. That it has no GPUs any more is not concluded."""
    add_claim(world)
    offer = world.api.objects["resourceslices", "", "node-1-gpus"]
    async with leading(world, tmp_path):
        add_pod(world)
        await world.until(lambda: world.submissions)
        world.remove("resourceslices", "", "node-1-gpus")
        await start(world, "0")
        record = next(iter(world.term._ledger))
        await world.until(lambda: any(member.waits_since for member in record.members.values()))
        assert (world.bindings, devices_of(world)) == ([], [])
        world.put("resourceslices", offer)
        await world.until(lambda: world.bindings)
    assert devices_of(world) == ["gpu-3"]


def gang_of(world):
    marks = {"sunkpy.dev/gang": "g", "sunkpy.dev/gang-size": "2"}
    for name in ("one", "two"):
        add_claim(world, name)
        add_pod(world, name, name, annotations=marks)


async def test_the_claims_of_a_gang_get_their_devices_before_any_pod_is_bound(world, tmp_path):
    gang_of(world)
    async with leading(world, tmp_path):
        await start(world, "2-3", tasks=2)
        await world.until(lambda: len(world.bindings) == 2)
    assert sorted(devices_of(world, "one") + devices_of(world, "two")) == ["gpu-0", "gpu-1"]


async def test_a_claim_gets_its_devices_also_if_the_first_pod_of_the_job_asks_for_none(world, tmp_path):
    marks = {"sunkpy.dev/gang": "g", "sunkpy.dev/gang-size": "2"}
    add_claim(world)
    world.add_pod("first", annotations=marks)
    add_pod(world, "second", annotations=marks)
    async with leading(world, tmp_path):
        await start(world, "0", tasks=2)
        await world.until(lambda: len(world.bindings) == 2)
    assert devices_of(world) == ["gpu-3"]


async def test_when_one_claim_of_a_gang_is_refused_none_keeps_devices(world, tmp_path):
    gang_of(world)
    world.api.refuse_patch["two/status"] = 422
    async with leading(world, tmp_path):
        job = await start(world, "2-3", tasks=2)
        await world.until(lambda: world.cancelled == [job])
        await world.until(lambda: world.api.patched.count("one/status") == 2)
        why = "the apiserver refuses the devices of claim two: by a webhook"
        await world.until(lambda: any(why in note for note in world.notes("FailedScheduling")))
    assert world.bindings == []
    assert (devices_of(world, "one"), status_of(world, "one").get("reservedFor")) == ([], None)


async def test_while_one_claim_of_a_gang_cannot_be_written_none_keeps_devices(world, tmp_path):
    """An apiserver that fails says nothing for good: the job stays, and its claims get their devices later."""
    gang_of(world)
    world.api.refuse_patch["two/status"] = 500
    async with leading(world, tmp_path):
        await start(world, "2-3", tasks=2)
        await world.until(lambda: world.api.patched.count("one/status") >= 2 and not devices_of(world, "one"))
        assert (world.bindings, world.cancelled) == ([], [])
        world.api.refuse_patch.clear()
        await world.until(lambda: len(world.bindings) == 2)


@pytest.mark.parametrize("refused", ["", "m40"])
async def test_a_gang_of_64_gets_all_its_devices_or_none(world, tmp_path, refused):
    members, nodes = [f"m{at}" for at in range(64)], [f"n{at}" for at in range(1, 17)]
    marks = {"sunkpy.dev/gang": "g", "sunkpy.dev/gang-size": "64"}
    for number in range(2, 17):
        add_node(world, number)
    for name in members:
        add_claim(world, name)
        add_pod(world, name, name, annotations=marks)
    if refused:
        world.api.refuse_patch[f"{refused}/status"] = 422
    async with leading(world, tmp_path):
        await world.until(lambda: world.submissions)
        (job,) = world.jobs
        given = gives("0-3", tasks=64) | {
            "nodes": ",".join(nodes),
            "gres_detail": ["gpu:4(IDX:0-3)"] * 16,
            "job_resources": {"nodes": {"allocation": [{"name": node, "cpus": {"count": 4}} for node in nodes]}},
        }
        world.set_job(job, "RUNNING", **given)
        if refused:
            await world.until(lambda: world.cancelled == [job])
            await world.until(lambda: not any(devices_of(world, name) for name in members))
        else:
            await world.until(lambda: len(world.bindings) == 64)
    node_of = dict(world.bindings)
    held = {(node_of.get(name, ""), device) for name in members for device in devices_of(world, name)}
    assert len(held) == (0 if refused else 64)
    assert len(node_of) == len(held)


async def start_beside_a_change(world, change):
    """The pod's job starts when somebody has just changed its claim, and no watch shows it yet."""
    add_pod(world)
    await world.until(lambda: world.submissions)
    world.api.watches_lag = True
    world.api.change("resourceclaims", "default", "gpus", change)
    await start(world, "0")
    await world.until(lambda: counted(world, "claims", result="failed") or world.bindings)


async def test_a_claim_that_somebody_has_changed_meanwhile_is_read_again(world, tmp_path):
    add_claim(world)
    async with leading(world, tmp_path):
        await start_beside_a_change(world, {"metadata": {"labels": {"team": "a"}}})
        assert (world.bindings, world.api.patched) == ([], [])
        world.api.watches_lag = False
        world.note_change()
        await world.until(lambda: world.bindings)
    assert devices_of(world) == ["gpu-3"]


async def test_what_another_scheduler_gave_to_a_claim_in_the_same_moment_is_not_overwritten(world, tmp_path):
    """No watch shows it yet: the apiserver compares the versions."""
    add_claim(world)
    async with leading(world, tmp_path):
        await start_beside_a_change(world, {"status": allocated("gpu-1", pod="other", uid="o")})
        assert (world.bindings, devices_of(world)) == ([], ["gpu-1"])


async def test_devices_of_a_pod_that_was_not_bound_after_all_are_free_again(world, tmp_path):
    add_claim(world)
    world.api.refuse_bindings = True
    async with leading(world, tmp_path):
        add_pod(world)
        job = await start(world, "0")
        await world.until(lambda: world.cancelled == [job])
        await world.until(lambda: devices_of(world) == [])
    assert world.api.patched.count("gpus/status") == 2


async def test_a_new_leader_frees_what_an_interrupted_one_has_allocated_and_nothing_else(world, tmp_path):
    pods = {name: add_pod(world, name, name) for name in ("waits", "foreign")}
    pods["runs"] = add_pod(world, "runs", "runs", node="node-1", running=True)
    owners = {"waits": "waits", "runs": "runs", "foreign": "runs"}
    for at, (name, owner) in enumerate(owners.items()):
        add_claim(world, name, **allocated(f"gpu-{at}", pod=owner, uid=pods[owner]["metadata"]["uid"]))
    async with leading(world, tmp_path):
        await world.until(lambda: devices_of(world, "waits") == [])
        says = (
            "claim foreign of pod foreign is allocated by somebody else, for pods runs: it can be used again when they "
            "have ended"
        )
        await world.until(lambda: says in world.notes("FailedScheduling"))
    assert (devices_of(world, "runs"), devices_of(world, "foreign")) == (["gpu-1"], ["gpu-2"])


async def test_of_a_pod_with_two_claims_only_that_is_freed_which_is_its_own(world, tmp_path):
    asked = [{"name": name, "resourceClaimName": name} for name in ("own", "theirs")]
    pod, other = world.add_pod(resourceClaims=asked), add_pod(world, "other", "theirs", node="node-1", running=True)
    for at, (name, owner) in enumerate((("own", pod), ("theirs", other))):
        meta = owner["metadata"]
        add_claim(world, name, **allocated(f"gpu-{at}", pod=meta["name"], uid=meta["uid"]))
    async with leading(world, tmp_path):
        await world.until(lambda: devices_of(world, "own") == [])
        await world.until(lambda: world.notes("FailedScheduling"))
    assert devices_of(world, "theirs") == ["gpu-1"]


async def test_a_new_leader_goes_on_where_an_interrupted_one_stopped(world, tmp_path):
    """The claim has its devices, and the pod was not bound yet."""
    pod = add_pod(world)
    add_claim(world, **allocated("gpu-3", pod="web", uid=pod["metadata"]["uid"]))
    world.add_job(pod, "RUNNING", **gives("0"))
    async with leading(world, tmp_path):
        await world.until(lambda: world.bindings)
    assert world.api.patched == []
    assert devices_of(world) == ["gpu-3"]


async def test_a_claim_that_is_allocated_for_another_node_is_allocated_anew(world, tmp_path):
    add_node(world, 2)
    pod = add_pod(world)
    add_claim(world, **allocated("gpu-3", pod="web", uid=pod["metadata"]["uid"]))
    world.add_job(pod, "RUNNING", **gives("1", node="n2"))
    async with leading(world, tmp_path):
        await world.until(lambda: world.bindings == [("web", "node-2")])
    assert world.api.patched == ["gpus/status", "gpus", "gpus/status"], "an allocation cannot be changed, only cleared"
    assert devices_of(world) == ["gpu-2"]
    assert status_of(world)["allocation"]["devices"]["results"][0]["pool"] == "node-2"


async def test_a_pod_whose_job_was_replaced_by_one_with_other_devices_is_evicted(world, tmp_path):
    """Slurm takes the devices of its claim for free."""
    pod = add_pod(world, annotations={names.ANNOTATION_GPU_INDICES: "0"}, node="node-1", running=True)
    add_claim(world, **allocated("gpu-3", pod="web", uid=pod["metadata"]["uid"]))
    job = world.add_job(pod, "RUNNING", **gives("2"))
    async with leading(world, tmp_path):
        await world.until(lambda: world.deleted == ["web"])
        conditions = {each["type"]: each for each in world.pod()["status"]["conditions"]}
    says = f"Slurm lost the job of this pod, and job {job} has other devices"
    assert conditions["DisruptionTarget"]["message"] == says


async def running(world):
    """A pod that runs with the devices of its claim."""
    await start(world, "0")
    await world.until(lambda: world.bindings)
    world.pod_runs()
    await world.until(lambda: next(iter(world.term._ledger)).state is GangState.RUNNING)


def edit_claim(world, name="gpus", **status):
    world.api.change("resourceclaims", "default", name, {"status": {"allocation": None, "reservedFor": None} | status})


@pytest.mark.parametrize(
    ("devices", "says"),
    [
        ((), "the claims of this pod were changed: they have no devices, and the pod runs with node-1/gpu-3"),
        (
            ("gpu-1",),
            "the claims of this pod were changed: they have node-1/gpu-1, and the pod runs with node-1/gpu-3",
        ),
    ],
)
async def test_a_pod_whose_claim_somebody_clears_or_rewrites_is_evicted(world, tmp_path, devices, says):
    """Others may get its device at once. Slurm keeps it until the pod is gone."""
    add_claim(world)
    pod = add_pod(world)
    async with leading(world, tmp_path):
        await running(world)
        edit_claim(world, **(allocated(*devices, pod="web", uid=pod["metadata"]["uid"]) if devices else {}))
        await world.until(lambda: world.deleted == ["web"])
        await world.until(lambda: world.notes("DevicesLost") == [f"{says}; the pod is evicted"])
        conditions = {each["type"]: each for each in world.pod()["status"]["conditions"]}
        assert (conditions["DisruptionTarget"]["reason"], world.cancelled) == ("DevicesLost", [])


async def test_a_pod_whose_device_somebody_gives_to_another_claim_too_is_evicted(world, tmp_path):
    """Neither apiserver nor kubelet refuses that."""
    add_claim(world)
    add_pod(world)
    async with leading(world, tmp_path):
        await running(world)
        add_claim(world, "others", **allocated("gpu-3", pod="other", uid="uid-of-other"))
        await world.until(lambda: world.deleted == ["web"])
        says = "device node-1/gpu-3 of this pod was given to claim default/others as well; the pod is evicted"
        await world.until(lambda: world.notes("DevicesLost") == [says])


async def test_of_two_pods_with_one_device_that_goes_whose_claim_was_changed(world, tmp_path):
    """The other runs with what it was given. Claims that are not in question are not read."""
    async with leading(world, tmp_path):
        for name, index in (("web", "0"), ("late", "1")):
            add_claim(world, f"of-{name}")
            add_pod(world, name, claim=f"of-{name}")
            await world.until(lambda name=name: len(world.submissions) == ("web", "late").index(name) + 1)
            world.set_job(max(world.jobs), "RUNNING", **gives(index))
            await world.until(lambda name=name: (name, "node-1") in world.bindings)
            world.pod_runs(name)
        await world.until(lambda: {each.state for each in world.term._ledger} == {GangState.RUNNING})
        lists = world.api.asked[CLAIMS]
        edit_claim(world, "of-late", **allocated("gpu-3", pod="late", uid=world.pod("late")["metadata"]["uid"]))
        await world.until(lambda: world.notes("DevicesLost"))
    assert world.deleted == ["late"]
    assert world.api.asked[CLAIMS] == lists > 0


async def test_a_claim_that_kubernetes_clears_because_its_pod_has_ended_evicts_nobody(world, tmp_path):
    """The watch of claims may show it before that of pods shows the end."""
    add_claim(world)
    add_pod(world)
    async with leading(world, tmp_path):
        await running(world)
        ended = {"phase": "Succeeded", "containerStatuses": [{"name": "c", "state": {"terminated": {}}}]}
        # No watch shows it yet.
        world.api.objects["pods", "default", "web"] = world.pod() | {"status": ended}
        reads = world.api.asked[path := "/api/v1/namespaces/default/pods/web"]
        edit_claim(world)
        await world.until(lambda: world.api.asked[path] > reads)
        world.pod_ends("Succeeded")
        await world.until(lambda: world.cancelled or world.signals)
    assert world.deleted == []
    assert world.notes("DevicesLost") == []


@pytest.mark.parametrize("grace_s", [0, 30])
async def test_nobody_of_its_job_gets_devices_beside_a_pod_that_was_deleted_by_force(world, tmp_path, grace_s):
    """Its claim is free at once, and its tasks may still run."""
    world.hasten(teardown_s=60.0, admission_patience_s=3600.0)
    for name in ("one", "two"):
        add_claim(world, name)
    marks = {"sunkpy.dev/gang": "g", "sunkpy.dev/gang-size": "1"}
    add_pod(world, "one", "one", annotations=marks, terminationGracePeriodSeconds=grace_s)
    async with leading(world, tmp_path):
        await start(world, "0")
        await world.until(lambda: world.bindings == [("one", "node-1")])
        world.pod_runs("one")
        world.pod_vanishes("one")
        world.api.change("resourceclaims", "default", "one", {"status": {"allocation": None, "reservedFor": None}})
        add_pod(world, "two", "two", annotations=marks)
        record = next(iter(world.term._ledger))
        await world.until(lambda: any(member.waits_since for member in record.members.values()))
        assert len(world.bindings) == 1
        assert devices_of(world, "two") == []
        assert counted(world, "device_refusals", reason="ending") == 1
        world.later_s += 61.0 + grace_s
        await world.until(lambda: len(world.bindings) == 2)


@pytest.mark.parametrize(("kinds", "classes"), [(False, {DRIVER: "gpu"}), (True, {})])
async def test_without_the_kinds_or_a_class_pods_with_claims_are_refused(tmp_path, world, kinds, classes):
    if not kinds:
        for plural in ("resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses"):
            world.api.undefine(plural)
    async with leading_on(world, tmp_path, device_classes=classes):
        add_pod(world)
        says = "pod web has resource claims (gpu): Slurm cannot allocate the devices of a claim"
        await world.until(lambda: world.notes("FailedScheduling") == [says])
        assert "resourceclaims" not in world.api.watched
    assert world.submissions == []


CEL = [{"cel": {"expression": "device.attributes['gpu.example.com'].index == 99"}}]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"deviceClassName": "tpu"}, "scheduler.deviceClasses names no GRES for class tpu, only for gpu.example.com"),
        ({"adminAccess": True}, "asks for adminAccess, which is not for workloads of Slurm"),
        ({"selectors": CEL}, "has selectors (CEL), which Slurm cannot evaluate: ask for a class of such devices"),
        ({"count": 9}, "lacks gpu: needs 9, has 4 for Slurm"),
    ],
)
async def test_a_claim_that_cannot_be_had_is_told_once_and_keeps_nobody_waiting(world, tmp_path, asked, says):
    bad = add_claim(world, "bad")
    request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER, "count": 1} | asked}
    world.put("resourceclaims", bad | {"spec": {"devices": {"requests": [request]}}})
    async with leading(world, tmp_path):
        add_pod(world, "wrong", "bad")
        await world.until(lambda: any(says in note for note in world.notes("FailedScheduling")))
        add_claim(world)
        add_pod(world)
        await start(world, "0")
        await world.until(lambda: world.bindings == [("web", "node-1")])
        world.pod_runs("web")
        await world.until(lambda: {each.state for each in world.term._ledger} > {GangState.RUNNING})
    assert len([note for note in world.notes("FailedScheduling") if says in note]) == 1
    assert len(world.submissions) == 1


async def test_pods_of_a_gang_that_share_a_claim_are_told_to_take_one_each(world, tmp_path):
    marks = {"sunkpy.dev/gang": "g", "sunkpy.dev/gang-size": "2"}
    add_claim(world)
    for name in ("one", "two"):
        add_pod(world, name, annotations=marks)
    async with leading(world, tmp_path):
        says = "share claim gpus: give each one of its own, by a template"
        await world.until(lambda: any(says in note for note in world.notes("FailedScheduling")))
    assert world.submissions == []


def watched():
    """The devices, before anything of the apiserver is seen."""
    settings = SchedulerSettings(cluster="c", slurm=SLURM, device_classes={DRIVER: "gpu"})
    nodes = Informer(None, paths.NODES, Node)
    return Devices(None, settings, nodes, lambda *_: None, on_claim=lambda _: None, on_classes=lambda: None)


def claim_object(name="gpus", version="10", **status):
    meta = {"name": name, "namespace": "default", "uid": name, "resourceVersion": version}
    return msgspec.convert({"metadata": meta, "status": status}, ResourceClaim)


async def test_a_watch_that_is_behind_takes_no_device_from_the_claim_to_which_it_was_just_given():
    devices = watched()
    devices.take(claim_object(version="10", **allocated("gpu-1", pod="web", uid="w")))
    devices.take(claim_object(version="9"))
    assert devices.owner_but(())(DeviceId(DRIVER, "node-1", "gpu-1")) is not None
    devices.take(claim_object(version="11"))
    assert devices.owner_but(())(DeviceId(DRIVER, "node-1", "gpu-1")) is None


async def test_the_rivals_of_a_pod_are_its_claims_seen_or_not_and_all_that_have_a_device_of_theirs():
    devices = watched()
    devices.take(claim_object("own", **allocated("gpu-1", "gpu-2")))
    devices.take(claim_object("second", **allocated("gpu-2")))
    devices.take(claim_object("other", **allocated("gpu-3")))
    asked = [{"name": name, "resourceClaimName": name} for name in ("own", "unseen")]
    pod = msgspec.convert({"metadata": {"name": "web", "namespace": "default"}, "spec": {"resourceClaims": asked}}, Pod)
    assert devices.rivals(pod) == {("default", name) for name in ("own", "unseen", "second")}
