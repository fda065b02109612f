"""Who has which device, from what each side says, and when one has two owners."""

from __future__ import annotations

import msgspec
import pytest

from sunkpy.core.model.devices import ResourceClaim
from tests.bench.chaos.record import Owner
from tests.bench.devices.observer import (
    Compared,
    Sample,
    both,
    devices_of,
    double_owners,
    held_by_claims,
    held_by_jobs,
    in_order,
    shared,
)

NAMES = ["gpu-0", "gpu-1", "gpu-2", "gpu-10"]
A, B = Owner("pod", "a"), Owner("job", "b")


def test_devices_are_counted_by_their_numbers():
    assert in_order(["gpu-10", "gpu-2", "gpu-0", "gpu-1"]) == NAMES


def test_a_process_has_what_its_environment_names():
    of_a_pod = {"CHAOS_POD": "a", "GPU_DEVICE_1": "gpu-1", "GPU_DEVICE_1_SHARING_STRATEGY": "TimeSlicing"}
    assert devices_of(of_a_pod, NAMES) == {"gpu-1"}
    assert devices_of({"CHAOS_POD": "a", "NVIDIA_VISIBLE_DEVICES": "gpu-0,gpu-2"}, NAMES) == {"gpu-0", "gpu-2"}
    assert devices_of({"SLURM_JOB_GPUS": "0,2-3"}, NAMES) == {"gpu-0", "gpu-2", "gpu-10"}
    assert devices_of({"HOME": "/"}, NAMES) == set()


def test_a_device_of_two_owners_is_told_once_with_both_and_since_when():
    held = {A: frozenset({"gpu-0", "gpu-1"}), B: frozenset({"gpu-1"})}
    assert shared(held) == {"gpu-1": {A, B}}
    samples = [Sample(at_s=at_s, side="processes", held=held) for at_s in (1.0, 2.0)]
    assert double_owners(samples) == ["gpu-1 by processes: job b and pod a, from 1.00"]
    assert double_owners([Sample(at_s=1.0, side="claims", held={A: held[A]})]) == []


def test_only_what_was_held_both_times_is_held():
    assert both({A: frozenset({"gpu-0", "gpu-1"}), B: frozenset()}, {A: frozenset({"gpu-1"})}) == {A: {"gpu-1"}}


def test_claims_are_of_the_pods_they_are_reserved_for():
    claim = {
        "status": {
            "allocation": {"devices": {"results": [{"request": "gpu", "device": "gpu-2"}]}},
            "reservedFor": [{"resource": "pods", "name": "a", "uid": "u"}],
        }
    }
    assert held_by_claims([msgspec.convert(each, ResourceClaim) for each in (claim, {}, {"status": {}})]) == {
        A: {"gpu-2"}
    }


def test_a_job_has_its_devices_until_it_has_ended():
    jobs = {
        1: {"JobName": "x", "JobState": "RUNNING", "GRES": "gpu:h100:1(IDX:3)"},
        2: {"JobName": "y", "JobState": "COMPLETED", "GRES": "gpu:h100:1(IDX:0)"},
        3: {"JobName": "z", "JobState": "COMPLETING", "GRES": "gpu:h100:1(IDX:1)", "Comment": "k8s:default/z:uid"},
    }
    assert held_by_jobs(jobs, NAMES) == {1: ("x", {"gpu-10"}), 3: ("", {"gpu-1"})}


@pytest.mark.parametrize(
    ("seen", "claimed", "given", "equal"),
    [("01", "01", "01", True), ("01", "01", "12", False), ("1", "01", "01", False), ("", "", "", False)],
)
def test_a_pod_is_right_when_all_three_sides_name_the_same(seen: str, claimed: str, given: str, equal: bool):
    pod = Compared(name="a", seen=frozenset(seen), claimed=frozenset(claimed), given=frozenset(given))
    assert pod.is_equal is equal


def test_a_wrong_pod_is_told_by_all_three_sides():
    pod = Compared(name="a", seen=frozenset({"gpu-1", "gpu-0"}), claimed=frozenset(), given=frozenset({"gpu-2"}))
    assert pod.text == "a: processes gpu-0 gpu-1, claims none, job gpu-2"
