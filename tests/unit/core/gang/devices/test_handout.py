"""Which GPUs a kubelet gets for a container that it cannot name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sunkpy.core import names
from sunkpy.core.gang.devices.handout import DeviceFile, HandoutRefused, devices_on, gpus_asked, hand_out, holds_up
from sunkpy.core.model.objects import Container, PodSpec, PodStatus, Resources
from tests.unit.core.gang.pods import make_pod

GPU = "nvidia.com/gpu"
GPUS = [DeviceFile(file=f"/dev/nvidia{at}", uuid=f"GPU-{at}") for at in (0, 1, 3)]


def asking(*counts):
    return tuple(
        Container(name=f"c{at}", resources=Resources(requests={GPU: str(count)} if count else {}))
        for at, count in enumerate(counts)
    )


def pod(name="a", noted="GPU-0", *, counts=(1,), job="7", admitted=False, phase="Pending", scheduler="slurm"):
    annotations = {names.ANNOTATION_JOB_ID: job} if job else {}
    if noted:
        annotations[names.ANNOTATION_DEVICES] = ",".join(f"node-1/{each}" for each in noted.split())
    found = make_pod(name, uid=f"uid-{name}", node="node-1", annotations=annotations, containers=asking(*counts))
    status = PodStatus(phase=phase, start_time="2026-11-23T00:00:00Z" if admitted else None)
    return replace(found, status=status, spec=replace(found.spec, scheduler_name=scheduler))


def handed(*pods, count=1, gpus=GPUS, served=()):
    found, devices = hand_out(pods, gpus, count=count, resource=GPU, schedulers=("slurm",), served=served)
    return found.name, [each.file for each in devices]


@pytest.mark.parametrize(
    ("pods", "count", "gets"),
    [
        pytest.param([pod()], 1, ("a", ["/dev/nvidia0"]), id="the only one that waits"),
        pytest.param([pod(noted="GPU-3 GPU-0", counts=(2,))], 2, ("a", ["/dev/nvidia0", "/dev/nvidia3"]), id="two"),
        pytest.param([pod(noted="nvidia3")], 1, ("a", ["/dev/nvidia3"]), id="the slurmd knew no uuid"),
        pytest.param([pod(counts=(0, 1))], 1, ("a", ["/dev/nvidia0"]), id="its other container asks for none"),
        pytest.param([pod("b", "GPU-1", admitted=True), pod()], 1, ("a", ["/dev/nvidia0"]), id="one runs beside it"),
        pytest.param(
            [pod("b", "GPU-0", phase="Succeeded"), pod()], 1, ("a", ["/dev/nvidia0"]), id="its last owner has ended"
        ),
        pytest.param([pod("b", "GPU-1"), pod()], 1, ("a", ["/dev/nvidia0"]), id="two of one job, in any order"),
        pytest.param(
            [pod("b", "GPU-1"), pod(counts=(2,), noted="GPU-0 GPU-3")],
            2,
            ("a", ["/dev/nvidia0", "/dev/nvidia3"]),
            id="two of one job that differ in number",
        ),
        pytest.param([pod("b", "", counts=(0,)), pod()], 1, ("a", ["/dev/nvidia0"]), id="others ask for none"),
        pytest.param(
            [pod("b", "GPU-0", counts=(0,), admitted=True), pod()],
            1,
            ("a", ["/dev/nvidia0"]),
            id="one that asks for none has written the device on itself",
        ),
        pytest.param(
            [pod("b", "GPU-0", admitted=True, scheduler="default-scheduler"), pod()],
            1,
            ("a", ["/dev/nvidia0"]),
            id="one of another scheduler has written the device on itself",
        ),
    ],
)
def test_a_pod_gets_what_slurm_gave_to_its_job(pods, count, gets):
    assert handed(*pods, count=count) == gets


@pytest.mark.parametrize(
    ("pods", "count", "why"),
    [
        ([], 1, f"no pod that waits here has one container that asks for 1 {GPU}"),
        ([pod(admitted=True)], 1, "no pod that waits here"),
        ([pod()], 2, f"no pod that waits here has one container that asks for 2 {GPU}"),
        ([pod(counts=(1, 1), noted="GPU-0 GPU-1")], 1, "no pod that waits here has one container"),
        ([pod(scheduler="default-scheduler")], 1, f"pod default/a asks for {GPU} and is not of scheduler slurm"),
        ([pod(), pod("b", scheduler="default-scheduler")], 1, "pod default/b asks for"),
        ([pod(), pod("b", "GPU-1", job="8")], 1, f"pods of several jobs wait for {GPU}: default/a, default/b"),
        ([pod(noted="")], 1, "sunkpy.dev/devices of pod default/a names 0 devices, and the pod asks for 1"),
        ([pod(noted="GPU-0 GPU-1")], 1, "sunkpy.dev/devices of pod default/a names 2 devices, and the pod asks for 1"),
        ([pod(noted="GPU-9")], 1, "pod default/a has node-1/GPU-9, and 0 of these are on this node"),
        (
            [pod("b", "GPU-0", admitted=True), pod()],
            1,
            "pod default/b still has node-1/GPU-0, which is noted on pod default/a",
        ),
    ],
)
def test_whatever_is_not_certain_is_refused(pods, count, why):
    with pytest.raises(HandoutRefused) as refused:
        handed(*pods, count=count)
    assert str(refused.value).startswith(why)


@pytest.mark.parametrize(
    ("requests", "limits", "count"), [({GPU: "1k"}, {}, 1000), ({}, {GPU: "2"}, 2), ({GPU: "0"}, {}, 0), ({}, {}, 0)]
)
def test_how_many_a_container_asks_for(requests, limits, count):
    spec = PodSpec(containers=(Container(name="c", resources=Resources(requests=requests, limits=limits)),))
    assert gpus_asked(spec, GPU) == ([count] if count else [])


def test_who_may_have_got_something_gets_nothing_more():
    with pytest.raises(HandoutRefused):
        handed(pod(), served={"uid-a"})
    assert handed(pod(), pod("b", "GPU-1"), served={"uid-a"}) == ("b", ["/dev/nvidia1"])


@pytest.mark.parametrize(
    ("waits", "holds"),
    [
        (pod(), True),
        (pod(admitted=True), False),
        (pod(phase="Failed"), False),
        (pod(counts=(0,)), False),
        (replace(pod(), spec=replace(pod().spec, node_name="")), False),
    ],
)
def test_pods_of_other_jobs_wait_until_the_kubelet_has_admitted_those_of_one(waits, holds):
    assert holds_up(waits, GPU) is holds


@given(
    st.lists(
        st.tuples(
            st.lists(st.sampled_from(["GPU-0", "GPU-1", "GPU-3", "GPU-9"]), max_size=3, unique=True),
            st.integers(0, 3),
            st.sampled_from("78"),
            st.booleans(),
            st.sampled_from(["slurm", "slurm", "default-scheduler"]),
        ),
        max_size=5,
    ),
    st.lists(st.integers(1, 3), max_size=8),
)
def test_nobody_gets_what_another_has_whatever_the_kubelet_asks(described, asked):
    """Each pod gets GPUs once, those that are noted on it, and no GPU has two owners."""
    pods = [
        pod(str(at), " ".join(noted), counts=(count,), job=job, admitted=admitted, scheduler=scheduler)
        for at, (noted, count, job, admitted, scheduler) in enumerate(described)
    ]
    ours = [each for each in pods if each.spec.scheduler_name == "slurm" and gpus_asked(each.spec, GPU)]
    owners = {each.name: devices_on(each) for each in ours if each.status.start_time}
    served = set()
    for count in asked:
        try:
            found, gpus = hand_out(pods, GPUS, count=count, resource=GPU, schedulers=("slurm",), served=served)
        except HandoutRefused:
            continue
        served.add(found.uid)
        given = {f"node-1/{gpu.uuid}" for gpu in gpus}
        assert len(given) == count
        assert given == devices_on(found)
        assert not any(given & has for name, has in owners.items())
        owners[found.name] = frozenset(given)
