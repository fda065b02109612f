"""Devices as Kubernetes and Slurm tell of them."""

from datetime import UTC, datetime

import msgspec
import pytest

from sunkpy.core.model.devices import (
    Device,
    ResourceClaim,
    ResourceSlice,
    SlurmDevice,
    current_devices,
    read_extra,
    why_unproved,
)
from sunkpy.core.model.objects import Pod


def a_slice(*devices, pool="node-1", generation=1, count=1, driver="gpu.example.com"):
    spec = {
        "driver": driver,
        "nodeName": "node-1",
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
        "devices": [{"name": name} for name in devices],
    }
    return msgspec.convert({"spec": spec}, ResourceSlice)


@pytest.mark.parametrize(
    ("slices", "names"),
    [
        ([a_slice("gpu-0", "gpu-1")], {"gpu-0", "gpu-1"}),
        ([a_slice("gpu-0", generation=1), a_slice("gpu-1", generation=2)], {"gpu-1"}),
        ([a_slice("gpu-0", count=2), a_slice("gpu-1", count=2)], {"gpu-0", "gpu-1"}),
        # One slice of the pool is not there yet, and the older generation is over.
        ([a_slice("gpu-0", generation=1), a_slice("gpu-1", generation=2, count=2)], set()),
        ([a_slice("gpu-0", count=2), a_slice("nic-0", driver="nic.example.com")], {"nic-0"}),
        ([], set()),
    ],
)
def test_devices_count_when_their_pool_is_complete_and_the_newest(slices, names):
    assert {id.device for id in current_devices(slices)} == names


@pytest.mark.parametrize(
    ("extra", "known"),
    [
        (
            '{"gpu": ["nvidia0 GPU-5c 0000:3b:00.0", "nvidia1 - -"]}',
            {"gpu": (SlurmDevice("nvidia0", "GPU-5c", "0000:3b:00.0"), SlurmDevice("nvidia1"))},
        ),
        ('{"gpu": ["nvidia0 GPU-5c"], "nic": []}', {"gpu": (SlurmDevice("nvidia0", "GPU-5c"),), "nic": ()}),
        ('{"gpu": ["nvidia0 - -"], "made": ["uid", "7"]}', {"gpu": (SlurmDevice("nvidia0"),)}),
        ('{"gpu": ["", "a b c d"]}', {"gpu": (SlurmDevice(""), SlurmDevice("a", "b", "c"))}),
        ("", {}),
        ("rack 7", {}),
        ('["gpu"]', {}),
        ('{"gpu": "nvidia0"}', {}),
        ('{"gpu": [1]}', {}),
    ],
)
def test_what_stands_behind_an_index(extra, known):
    assert read_extra(extra) == known


STARTED, STARTED_S = "2026-11-21T00:00:00Z", 1795219200


def slurmd(uid="uid-1", started=STARTED):
    state = {"running": {"startedAt": started}} if started else {"waiting": {"reason": "CrashLoopBackOff"}}
    statuses = [{"name": "services", "state": {}}, {"name": "slurmd", "state": state}]
    return msgspec.convert({"metadata": {"name": "g1", "uid": uid}, "status": {"containerStatuses": statuses}}, Pod)


OF_ANOTHER = (
    "Slurm's list of devices is not from the slurmd in pod g1, which writes one at its start; if this lasts, drain "
    "the node, and delete that pod once no job runs there"
)


@pytest.mark.parametrize(
    ("made", "pod", "why"),
    [
        pytest.param(["uid-1", str(STARTED_S)], slurmd(), "", id="of this container, in the second of its start"),
        pytest.param(["uid-1", str(STARTED_S + 60)], slurmd(), "", id="of this container"),
        pytest.param(["uid-1", str(STARTED_S - 1)], slurmd(), OF_ANOTHER, id="of the container before"),
        pytest.param(["uid-0", str(STARTED_S + 60)], slurmd(), OF_ANOTHER, id="of the pod before, by another clock"),
        pytest.param(["uid-1", str(STARTED_S + 9000)], slurmd(), OF_ANOTHER, id="of one before, by a clock ahead"),
        pytest.param(["", str(STARTED_S)], slurmd(), OF_ANOTHER, id="of no pod"),
        pytest.param(["uid-1"], slurmd(), OF_ANOTHER, id="without a time"),
        pytest.param(["uid-1", "soon"], slurmd(), OF_ANOTHER, id="with none that is a number"),
        pytest.param(None, slurmd(), OF_ANOTHER, id="of an image that does not say"),
        pytest.param(["uid-1", str(STARTED_S)], slurmd(started=None), "slurmd does not run in pod g1", id="ended"),
        pytest.param(["uid-1", str(STARTED_S)], None, "its slurmd pod is gone", id="no pod"),
    ],
)
def test_a_list_is_proved_by_the_container_that_runs(made, pod, why):
    extra = {"gpu": ["nvidia0 GPU-5c -"]} | ({"made": made} if made is not None else {})
    now = datetime.fromtimestamp(STARTED_S + 120, UTC)
    assert why_unproved(msgspec.json.encode(extra).decode(), pod, now) == why


def device(**attributes):
    found = {name.replace("__", "/"): {"string": value} for name, value in attributes.items()}
    return msgspec.convert({"name": "gpu-0", "attributes": found}, Device)


PCI = {"resource.kubernetes.io__pciBusID": "0000:3b:00.0"}


@pytest.mark.parametrize(
    ("line", "attributes", "agrees"),
    [
        ("nvidia0 GPU-5c -", {"uuid": "gpu-5C"}, True),
        ("nvidia0 GPU-5c -", {"gpu.example.com__uuid": "GPU-5c"}, True),
        ("nvidia0 GPU-5c -", {"uuid": "GPU-66"}, False),
        ("nvidia0 - 0000:3B:00.0", PCI, True),
        ("nvidia0 GPU-5c 0000:3b:00.0", PCI, True),
        # One of both is wrong: it is none of the two.
        ("nvidia0 GPU-5c 0000:3b:00.0", PCI | {"uuid": "GPU-66"}, False),
        ("nvidia0 - -", {"uuid": "GPU-5c"} | PCI, False),
        ("nvidia0 GPU-5c 0000:3b:00.0", {}, False),
    ],
)
def test_a_device_is_the_same_when_all_that_both_know_of_it_agrees(line, attributes, agrees):
    (known,) = read_extra(msgspec.json.encode({"gpu": [line]}).decode())["gpu"]
    assert known.agrees_with(device(**attributes), "gpu.example.com") is agrees


def test_devices_to_which_a_claim_has_admin_access_are_not_its_own():
    results = [
        {"request": "a", "driver": "d", "pool": "p", "device": "gpu-0"},
        {"request": "b", "driver": "d", "pool": "p", "device": "gpu-1", "adminAccess": True},
    ]
    claim = msgspec.convert({"status": {"allocation": {"devices": {"results": results}}}}, ResourceClaim)
    assert claim.held == (("d", "p", "gpu-0"),)
    assert ResourceClaim().held == ()
