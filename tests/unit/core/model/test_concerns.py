"""What a pod is concerned with. Whoever binds a pod looks no further into a concern that it does not have."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.gang.devices.asked import Claimed, devices_counted, with_devices
from sunkpy.core.gang.devices.handout import gpus_asked
from sunkpy.core.gang.devices.made import asks_for_devices
from sunkpy.core.gang.gang import Gang, Member, Role
from sunkpy.core.gang.identity import GangId
from sunkpy.core.model.concerns import Concern, concerns_of
from sunkpy.core.model.devices import DeviceChoice, DeviceRequest, ResourceClaim, ResourceClaimSpec, WantedDevices
from sunkpy.core.model.objects import Pod, PodSpec

TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


def container(**fields):
    return {"name": "main", **fields}


def gpu(field="requests", resource="nvidia.com/gpu"):
    return {"resources": {field: {resource: "1"}}}


@pytest.mark.parametrize(
    ("spec", "concerns"),
    [
        ({"containers": [container(resources={"requests": {"cpu": "1", "hugepages-2Mi": "4Mi"}})]}, Concern.NONE),
        ({"volumes": [{"name": "tmp"}], "nodeSelector": {"a": "b"}, "tolerations": [{"key": "x"}]}, Concern.NONE),
        ({"topologySpreadConstraints": [SPREAD | {"whenUnsatisfiable": "ScheduleAnyway"}]}, Concern.NONE),
        ({"containers": [container(ports=[{"containerPort": 80}])]}, Concern.NONE),
        ({"resourceClaims": [{"name": "gpu"}]}, Concern.DEVICES),
        ({"containers": [container(**gpu())]}, Concern.DEVICES),
        ({"containers": [container(**gpu("limits"))]}, Concern.DEVICES),
        ({"containers": [container()], "initContainers": [container(**gpu())]}, Concern.DEVICES),
        ({"resources": {"requests": {"claimed.sunkpy.dev/gpus": "2"}}}, Concern.DEVICES),
        ({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}, Concern.VOLUMES),
        ({"volumes": [{"name": "scratch", "ephemeral": {}}]}, Concern.VOLUMES),
        ({"containers": [container(ports=[{"containerPort": 80, "hostPort": 80}])]}, Concern.NEIGHBOURS),
        ({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}}, Concern.NEIGHBOURS),
        (
            {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}},
            Concern.NEIGHBOURS,
        ),
        ({"topologySpreadConstraints": [SPREAD]}, Concern.NEIGHBOURS),
        (
            {"volumes": [{"name": "s", "ephemeral": {}}], "topologySpreadConstraints": [SPREAD]},
            Concern.VOLUMES | Concern.NEIGHBOURS,
        ),
    ],
)
def test_a_pod_is_concerned_with_what_it_asks_for(spec, concerns):
    assert concerns_of(msgspec.convert(spec, PodSpec)) == concerns


RESOURCES = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "deviceclass.resource.kubernetes.io/h100"]),
    st.sampled_from(["0", "1"]),
)
CONTAINERS = st.lists(
    st.fixed_dictionaries({"resources": st.fixed_dictionaries({"requests": RESOURCES, "limits": RESOURCES})}),
    max_size=2,
)
SPECS = st.fixed_dictionaries(
    {"containers": CONTAINERS, "initContainers": CONTAINERS},
    optional={"resourceClaims": st.just([{"name": "gpu"}])},
)


@given(SPECS, st.integers(0, 2))
def test_a_pod_that_could_get_a_device_in_any_way_is_concerned_with_devices(spec, claimed):
    """The ways are those of the scheduler's allocator: a claim of the pod's own, one made for it, the device plugin."""
    pod = msgspec.convert({"metadata": {"name": "a", "uid": "u"}, "spec": spec}, Pod)
    request = DeviceRequest(name="r", exactly=DeviceChoice(device_class_name="h100", count=claimed))
    claim = ResourceClaim(spec=ResourceClaimSpec(devices=WantedDevices(requests=(request,))))
    claims = {"u": {"gpu": claim}} if pod.spec.resource_claims or asks_for_devices(pod.spec) else {}
    role = Role(name="main", seats=1, first=1, members=(Member(pod=pod),))
    gang = Gang(id=GangId(namespace="d", name="a", uid="u"), roles=(role,))
    by_claim = {"deviceclass.resource.kubernetes.io/h100": "h100", "nvidia.com/gpu": "h100"}
    (as_bound,) = with_devices(gang, Claimed(claims=claims, by_claim=by_claim)).members
    if as_bound.spec.resource_claims or devices_counted(as_bound) or gpus_asked(as_bound.spec, "nvidia.com/gpu"):
        assert Concern.DEVICES in concerns_of(as_bound.spec)
    if Concern.DEVICES not in gang.concerns:
        assert as_bound == pod
        assert not asks_for_devices(pod.spec)


def test_a_gang_is_concerned_with_what_any_of_its_pods_asks_for_also_before_it_exists():
    def role(name, spec, shape=None):
        pod = Pod(spec=msgspec.convert(spec, PodSpec))
        shaped = msgspec.convert(shape, PodSpec) if shape is not None else None
        return Role(name=name, seats=2, first=2, members=(Member(pod=pod),), shape=shaped)

    id = GangId(namespace="d", name="a", uid="u")
    first = role("first", {"volumes": [{"name": "s", "ephemeral": {}}]})
    second = role("second", {}, {"containers": [container(**gpu())]})
    assert Gang(id=id, roles=()).concerns is Concern.NONE
    assert Gang(id=id, roles=(role("only", {}),)).concerns is Concern.NONE
    assert Gang(id=id, roles=(first, second)).concerns == Concern.VOLUMES | Concern.DEVICES
