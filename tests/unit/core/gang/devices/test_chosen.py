"""Which devices claims get."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.gang.devices.chosen import DeviceDemand, choose_devices, explain_loss, note_devices
from sunkpy.core.gang.devices.made import OWN_NAME
from sunkpy.core.model.devices import DeviceClass, ResourceClaim
from sunkpy.core.model.objects import ClaimRequestMapping, ExtendedClaimStatus, Meta, PodStatus
from sunkpy.core.names import ANNOTATION_DEVICES
from sunkpy.core.placement.admission import Verdict
from tests.unit.core.gang.devices.claims import CLASSES, DRIVER, claim, device, node_with, pod_with, request
from tests.unit.core.gang.pods import make_pod

NOBODY = {}.get
MAPPING = ClaimRequestMapping(container_name="c", resource_name="example.com/gpu", request_name="gpu")


def want(*claims, indices, on, uid="p"):
    pod = pod_with(*(each.name for each in claims), uid=uid)
    return DeviceDemand(pod=pod, on=on, indices=indices, claims={each.name: each for each in claims})


def names(chosen):
    return {each.claim.name: [(d.request, d.device) for d in each.devices] for each in chosen}


def test_each_request_gets_the_devices_behind_the_indices_of_its_job():
    """The index is a position in what the slurmd lists, whatever the driver calls the device."""
    on = node_with(["GPU-c", "GPU-a", "GPU-b"], offered=["GPU-a", "GPU-b", "GPU-c"])
    claims = claim("x", request("one"), request("two")), claim("y")
    chosen, refused = choose_devices([want(*claims, indices="0,1,2", on=on)], CLASSES, NOBODY)
    assert refused == {}
    assert names(chosen) == {"x": [("one", "gpu-2"), ("two", "gpu-0")], "y": [("gpu", "gpu-1")]}
    assert note_devices(chosen) == {"p": "node-1/gpu-2,node-1/gpu-0,node-1/gpu-1"}


@pytest.mark.parametrize(
    ("indices", "on", "verdict", "reason", "why"),
    [
        (
            "",
            node_with(["a"]),
            Verdict.WAIT,
            "indices",
            "Slurm has not said which gpu of node node-1 its job has for request gpu",
        ),
        ("nic:0", node_with(["a"]), Verdict.WAIT, "indices", "Slurm has not said which gpu of node node-1"),
        (
            "1",
            node_with(["a"]),
            Verdict.REFUSE,
            "unknown",
            "Slurm gave gpu 1 of node node-1, and its slurmd has not published which device that is",
        ),
        (
            "0",
            node_with(["a"], offered=["b"]),
            Verdict.REFUSE,
            "unknown",
            "no devices in the ResourceSlices of node node-1 are gpu 0 of node node-1 (nvidia0 a)",
        ),
        (
            "0",
            node_with(["a"], offered=["a", "a"]),
            Verdict.REFUSE,
            "unknown",
            "2 devices in the ResourceSlices of node node-1 are",
        ),
        (
            "0",
            node_with(["a"], offered=[]),
            Verdict.WAIT,
            "away",
            "no driver offers devices on node node-1: it has no complete pool of ResourceSlices",
        ),
        (
            "0",
            node_with(["a"], taints=[{"key": "sick", "effect": "NoSchedule"}]),
            Verdict.REFUSE,
            "tainted",
            "device node-1/gpu-0 (gpu 0 of node node-1) has taint sick:NoSchedule",
        ),
        (
            "0",
            node_with(["a"], bindingConditions=["Attached"]),
            Verdict.REFUSE,
            "late",
            "device node-1/gpu-0 (gpu 0 of node node-1) has binding conditions (Attached), which sunkpy does not await",
        ),
        (
            "0",
            node_with(["a"], shared="4Gi"),
            Verdict.WAIT,
            "taken",
            "device node-1/gpu-0 (gpu 0 of node node-1) shares memory of card with others, and they leave it too",
        ),
    ],
)
def test_what_does_not_agree_is_said(indices, on, verdict, reason, why):
    chosen, refused = choose_devices([want(claim(), indices=indices, on=on)], CLASSES, NOBODY)
    assert chosen == []
    assert (refused["p"].verdict, refused["p"].reason) == (verdict, reason)
    assert refused["p"].why.startswith(why)


@pytest.mark.parametrize("claims", [(), (claim(),), (claim("a"), claim("b"), claim("c"))])
def test_a_pod_that_would_run_with_other_claims_than_its_job_was_made_for_is_not_bound(claims):
    wanted = msgspec.structs.replace(want(*claims, indices="0,1,2", on=node_with(["a", "b", "c"])), counted=2)
    chosen, refused = choose_devices([wanted], CLASSES, NOBODY)
    assert chosen == []
    assert (refused["p"].verdict, refused["p"].reason) == (Verdict.WAIT, "claim")
    assert refused["p"].why == f"the claims of pod pod-p ask for {len(claims)} devices, and its job was asked for 2"


@pytest.mark.parametrize(
    ("tolerations", "bears"),
    [
        ([{"key": "sick", "operator": "Exists"}], True),
        ([{"operator": "Exists", "effect": "NoSchedule"}], True),
        ([{"key": "sick", "value": "very"}], False),
        ([{"key": "sick", "operator": "Exists", "effect": "NoExecute"}], False),
    ],
)
def test_a_claim_may_tolerate_the_taint_of_a_device(tolerations, bears):
    on = node_with(["a"], taints=[{"key": "sick", "effect": "NoSchedule"}])
    asks = claim("c", request(tolerations=tolerations))
    chosen, refused = choose_devices([want(asks, indices="0", on=on)], CLASSES, NOBODY)
    assert (len(chosen), len(refused)) == ((1, 0) if bears else (0, 1))
    if bears:  # as the controller needs it that evicts for taints
        (result,) = chosen[0].status({})["allocation"]["devices"]["results"]
        assert list(result["tolerations"]) == tolerations


@pytest.mark.parametrize(("shared", "fits"), [("12Gi", True), ("11Gi", False)])
def test_devices_that_share_something_are_given_as_far_as_it_lasts(shared, fits):
    on, other = node_with(["a", "b"], shared=shared), claim("other", user="q", devices=["gpu-1"])
    one, two = want(claim("x"), indices="0", on=on), want(claim("y"), indices="1", on=on, uid="q")
    chosen, _ = choose_devices([one], CLASSES, {device(1): other}.get)
    assert bool(chosen) is fits
    chosen, refused = choose_devices([one, two], CLASSES, NOBODY)  # both at once
    assert (len(chosen), len(refused)) == ((2, 0) if fits else (1, 1))


def test_a_device_of_another_claim_is_waited_for():
    on, other = node_with(["a", "b"]), claim("other", user="q", devices=["gpu-1"])
    wanted = [want(claim(), indices="1", on=on)]
    _, refused = choose_devices(wanted, CLASSES, {device(1): other}.get)
    assert (refused["p"].verdict, refused["p"].reason) == (Verdict.WAIT, "taken")
    assert refused["p"].why == "device node-1/gpu-1 (gpu 1 of node node-1) is allocated to claim default/other"
    metadata = msgspec.structs.replace(other.metadata, namespace="elsewhere")
    elsewhere = msgspec.structs.replace(other, metadata=metadata)
    _, refused = choose_devices(wanted, CLASSES, {device(1): elsewhere}.get)
    assert refused["p"].why.endswith(" is allocated to a claim of another namespace")


@pytest.mark.parametrize(
    ("has_become", "verdict", "why"),
    [
        (
            claim(user="other", devices=["gpu-1"]),
            Verdict.WAIT,
            "claim c of pod pod-p is allocated by somebody else, for pods pod-other: it can be used again when they "
            "have ended",
        ),
        (
            claim("c", request(allocationMode="All")),
            Verdict.REFUSE,
            "claim c of pod pod-p: request gpu has allocationMode All, and Slurm has to know how many: ask for a count",
        ),
    ],
)
def test_a_claim_that_became_another_while_the_job_waited_gets_nothing(has_become, verdict, why):
    """What is chosen for a claim is written in the place of what it has."""
    chosen, refused = choose_devices([want(has_become, indices="0", on=node_with(["a", "b"]))], CLASSES, NOBODY)
    assert chosen == []
    assert (refused["p"].verdict, refused["p"].reason, refused["p"].why) == (verdict, "claim", why)


def test_a_taint_that_is_for_information_keeps_nobody_from_a_device():
    on = node_with(["a"], taints=[{"key": "watched", "effect": "None"}])
    chosen, refused = choose_devices([want(claim(), indices="0", on=on)], CLASSES, NOBODY)
    assert (names(chosen), refused) == ({"c": [("gpu", "gpu-0")]}, {})


def test_a_claim_that_is_not_there_is_waited_for():
    wanted = DeviceDemand(pod=pod_with("c"), on=node_with(["a"]), indices="0")
    _, refused = choose_devices([wanted], CLASSES, NOBODY)
    assert (refused["p"].verdict, refused["p"].why) == (Verdict.WAIT, "ResourceClaim c of pod pod-p is not there")


def test_one_device_is_not_given_twice_though_the_slurmd_lists_it_twice():
    on = node_with(["a", "a"], offered=["a"])
    wanted = [want(claim(uid), indices=str(index), on=on, uid=uid) for index, uid in enumerate(("p", "q"))]
    chosen, refused = choose_devices(wanted, CLASSES, NOBODY)
    assert names(chosen) == {"p": [("gpu", "gpu-0")]}
    assert "stands behind two indices of Slurm" in refused["q"].why
    assert refused["q"].reason == "twice"


@pytest.mark.parametrize(
    ("user", "devices", "written"), [("p", ["gpu-1"], True), ("p", ["gpu-0"], False), ("", [], False)]
)
def test_what_an_interrupted_pass_has_written_is_not_written_again(user, devices, written):
    (chosen,), _ = choose_devices(
        [want(claim("c", user=user, devices=devices), indices="1", on=node_with(["a", "b"]))], CLASSES, NOBODY
    )
    assert chosen.is_written is written


@pytest.mark.parametrize(
    ("told", "written"),
    [
        pytest.param(None, False, id="interrupted between claim and pod"),
        pytest.param(
            ExtendedClaimStatus(resource_claim_name="older", request_mappings=(MAPPING,)), False, id="another"
        ),
        pytest.param(ExtendedClaimStatus(resource_claim_name="made", request_mappings=(MAPPING,)), True, id="both"),
    ],
)
def test_a_claim_that_is_made_for_a_pod_is_written_when_the_pod_says_so_too(told, written):
    """The kubelet finds it by the pod's status: without that the pod would run without its devices."""
    made, pod = claim("made", user="p", devices=["gpu-0"]), pod_with()
    pod = msgspec.structs.replace(pod, status=PodStatus(extended_resource_claim_status=told))
    wanted = DeviceDemand(pod=pod, on=node_with(["a"]), indices="0", claims={OWN_NAME: made}, mappings=(MAPPING,))
    (chosen,), _ = choose_devices([wanted], CLASSES, NOBODY)
    assert chosen.made_status == ExtendedClaimStatus(resource_claim_name="made", request_mappings=(MAPPING,))
    assert chosen.is_written is written


def test_what_is_written_on_a_claim():
    config = {"config": [{"requests": ["gpu"], "opaque": {"driver": DRIVER, "parameters": {"x": 1}}}]}
    wanted = want(claim("c", **config), indices="1", on=node_with(["a", "b"]))
    (chosen,), _ = choose_devices([wanted], CLASSES, NOBODY)
    of_class = msgspec.convert(
        {"metadata": {"name": DRIVER}, "spec": {"config": [{"opaque": {"driver": DRIVER, "parameters": {}}}]}},
        DeviceClass,
    )
    assert chosen.status({DRIVER: of_class}) == {
        "allocation": {
            "devices": {
                "results": [{"request": "gpu", "driver": DRIVER, "pool": "node-1", "device": "gpu-1"}],
                "config": [
                    {"source": "FromClass", "requests": ["gpu"], "opaque": {"driver": DRIVER, "parameters": {}}},
                    {"source": "FromClaim", "requests": ["gpu"], "opaque": {"driver": DRIVER, "parameters": {"x": 1}}},
                ],
            },
            "nodeSelector": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
                ]
            },
        },
        "reservedFor": [{"resource": "pods", "name": "pod-p", "uid": "p"}],
    }


@pytest.mark.parametrize(
    ("noted", "claims", "others", "why"),
    [
        ("node-1/gpu-0", [claim("c", user="p", devices=["gpu-0"])], {}, ""),
        ("node-1/gpu-1,node-1/gpu-0", [claim("c", user="p", devices=["gpu-0", "gpu-1"])], {}, ""),
        # Somebody else has bound it.
        ("", [claim("c", user="p", devices=["gpu-0"])], {device(0): claim("other")}, ""),
        (
            "node-1/gpu-0",
            [claim("c", user="p", devices=["gpu-3"])],
            {},
            "the claims of this pod were changed: they have node-1/gpu-3, and the pod runs with node-1/gpu-0",
        ),
        (
            "node-1/gpu-0",
            [claim("c", user="p")],
            {},
            "the claims of this pod were changed: they have no devices, and the pod runs with node-1/gpu-0",
        ),
        ("node-1/gpu-0", [], {}, "the claims of this pod were changed: they have no devices, and"),
        (
            "node-1/gpu-0",
            [claim("c", user="p", devices=["gpu-0"])],
            {device(0): claim("other", devices=["gpu-0"])},
            "device node-1/gpu-0 of this pod was given to claim default/other as well",
        ),
        (
            "node-1/gpu-0",
            [claim("c", user="p", devices=["gpu-0"])],
            {device(0): ResourceClaim(metadata=Meta(name="other", namespace="team-b"))},
            "device node-1/gpu-0 of this pod was given to a claim of another namespace as well",
        ),
    ],
)
def test_a_pod_that_has_its_devices_no_longer_for_itself(noted, claims, others, why):
    pod = make_pod(node="node-1", running=True, annotations={ANNOTATION_DEVICES: noted} if noted else {})
    found = explain_loss(pod, claims, others.get)
    assert found.startswith(why) if why else found == ""


@given(
    listed=st.lists(st.sampled_from("abcdef"), max_size=8),
    offered=st.lists(st.sampled_from("abcdef"), max_size=8),
    indices=st.lists(st.lists(st.integers(0, 9), unique=True, max_size=4), max_size=4),
    counts=st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=2), min_size=4, max_size=4),
    taken=st.sets(st.integers(0, 7)),
)
def test_no_device_is_given_twice_and_each_request_gets_its_count(listed, offered, indices, counts, taken):
    """Whatever Slurm, slurmds, drivers and other claims say."""
    on, other = node_with(listed, offered=offered), claim("other", devices=["gpu-0"])
    wanted = [
        want(
            claim(str(at), *(request(f"r{n}", count) for n, count in enumerate(counts[at]))),
            indices=",".join(map(str, sorted(each))),
            on=on,
            uid=str(at),
        )
        for at, each in enumerate(indices)
    ]
    owners = {device(at): other for at in taken}
    chosen, refused = choose_devices(wanted, CLASSES, owners.get)
    given_ids = [each.id for claim in chosen for each in claim.devices]
    assert len(given_ids) == len(set(given_ids))
    assert not owners.keys() & set(given_ids)
    assert {each.pod.uid for each in chosen} | refused.keys() == {each.pod.uid for each in wanted}
    for each in chosen:
        got = [d.request for d in each.devices]
        for ask in each.claim.spec.devices.requests:
            assert got.count(ask.name) == ask.exactly.count
        # The device has the uuid that is listed at one of the pod's indices.
        own = {listed[index] for index in indices[int(each.pod.uid)] if index < len(listed)}
        assert {offered[int(d.device.removeprefix("gpu-"))] for d in each.devices} <= own


def test_each_class_gets_devices_of_its_type_whatever_the_order_of_requests():
    """Indices go on over the types, and each request takes those of its own."""
    classes = {"a100.example.com": "gpu:a100", "small.example.com": "gpu:1g.5gb"}
    on = node_with(["whole-a", "whole-b", "slice-a", "slice-b", "slice-c"])
    asks = claim("c", request("small", 2, "small.example.com"), request("large", 1, "a100.example.com"))
    wanted = [want(asks, indices="gpu:a100:1,gpu:1g.5gb:2,gpu:1g.5gb:4", on=on)]
    chosen, refused = choose_devices(wanted, classes, NOBODY)
    assert refused == {}
    assert names(chosen) == {"c": [("small", "gpu-2"), ("small", "gpu-4"), ("large", "gpu-1")]}
    _, refused = choose_devices([want(asks, indices="0,2,4", on=on)], classes, NOBODY)
    assert refused["p"].why.startswith("Slurm has not said which gpu:1g.5gb of node node-1 its job has")
