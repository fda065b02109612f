import subprocess

import pytest

from sunkpy.core.gang.identity import GangId, parse_comment
from sunkpy.core.gang.job.request import PLACEHOLDER_SCRIPT, GpuSharing, Policy, plan_for_nodes, plan_job
from sunkpy.core.model.objects import Container, Resources
from tests.unit.core.gang.pods import make_gang

GPUS = {
    "nvidia.com/gpu": "gpu",
    "amd.com/gpu": "gpu",
    "example.com/a100": "gpu:a100",
    "nvidia.com/mig-1g.5gb": "gpu:1g.5gb",
}


def plan(**pod):
    return plan_job(make_gang(**pod), Policy(gpu_resources=GPUS))


def asking(**requests):
    return Resources(requests={k.replace("__", "."): v for k, v in requests.items()})


@pytest.mark.parametrize(
    ("requests", "cpus", "memory_mib"),
    [
        ({}, 1, 128),
        ({"cpu": "100m", "memory": "1Ki"}, 1, 128),
        ({"cpu": "1001m", "memory": "1Gi"}, 2, 1024),
        ({"cpu": "4", "memory": "1025Mi"}, 4, 1025),
        ({"cpu": "2", "memory": "1500000000"}, 2, 1431),
    ],
)
def test_requests_are_rounded_up_to_what_slurm_counts(requests, cpus, memory_mib):
    job = plan(requests=requests)
    assert (job.cpus_per_task, job.memory_mib_per_node) == (cpus, memory_mib)


def test_an_init_container_counts_only_when_it_needs_more():
    job = plan(
        containers=(Container(resources=asking(cpu="1", memory="1Gi")),),
        init_containers=(Container(resources=asking(cpu="3", memory="512Mi")),),
    )
    assert (job.cpus_per_task, job.memory_mib_per_node) == (3, 1024)


def test_sidecars_and_overhead_come_on_top():
    job = plan(
        containers=(Container(resources=asking(cpu="1")),),
        init_containers=(Container(resources=asking(cpu="1"), restart_policy="Always"),),
        overhead={"cpu": "250m"},
    )
    assert job.cpus_per_task == 3


@pytest.mark.parametrize(
    ("requests", "annotations", "gres"),
    [
        ({}, {}, ""),
        ({"nvidia.com/gpu": "2"}, {}, "gres/gpu:2"),
        ({"nvidia.com/gpu": "2"}, {"sunkpy.dev/gpu-type": "h100"}, "gres/gpu:h100:2"),
        ({"nvidia.com/gpu": "0"}, {}, ""),
        ({"example.com/fpga": "1"}, {}, ""),
        ({"nvidia.com/mig-1g.5gb": "2"}, {}, "gres/gpu:1g.5gb:2"),
        ({"nvidia.com/mig-1g.5gb": "2", "example.com/a100": "1"}, {}, "gres/gpu:1g.5gb:2,gres/gpu:a100:1"),
        ({"nvidia.com/gpu": "1", "amd.com/gpu": "1"}, {"sunkpy.dev/gpu-type": "x"}, "gres/gpu:x:2"),
    ],
)
def test_gpus_become_gres(requests, annotations, gres):
    assert plan(requests=requests, annotations=annotations).gres_per_node == gres


@pytest.mark.parametrize(
    ("sharing", "gpus", "exclusive", "whole"),
    [
        (GpuSharing.EXCLUSIVE, "1", "", True),
        (GpuSharing.EXCLUSIVE, "1", "false", True),
        (GpuSharing.EXCLUSIVE, "1", "user", True),
        (GpuSharing.EXCLUSIVE, "0", "", False),
        (GpuSharing.COUNT, "1", "", False),
        (GpuSharing.COUNT, "1", "true", True),
        (GpuSharing.COUNT, "1", "user", False),
        (GpuSharing.PLUGIN, "1", "", False),
    ],
)
def test_who_asks_for_gpus_by_number_gets_whole_nodes_unless_they_are_shared_by_count(sharing, gpus, exclusive, whole):
    made = make_gang(requests={"nvidia.com/gpu": gpus}, annotations={"sunkpy.dev/exclusive": exclusive})
    policy = Policy(gpu_resources=GPUS, gpu_sharing=sharing)
    assert plan_job(made, policy).whole_nodes is whole
    assert plan_for_nodes(made, policy, {"uid-1": "n1"}).whole_nodes is whole


def test_devices_that_slurm_does_not_count_may_share_a_node():
    assert not plan(requests={"example.com/fpga": "1"}).whole_nodes


@pytest.mark.parametrize(
    ("annotations", "deadline_s", "minutes"),
    [
        ({}, None, None),
        ({}, 90, 3),
        ({"sunkpy.dev/time-limit": "2h"}, 90, 120),
        ({"sunkpy.dev/time-limit": "UNLIMITED"}, 90, 0),
    ],
)
def test_the_time_limit_is_that_of_the_annotation_or_just_above_the_deadline(annotations, deadline_s, minutes):
    assert plan(annotations=annotations, active_deadline_seconds=deadline_s).time_limit_min == minutes


def test_the_default_partition_holds_only_when_none_is_named():
    gang, named = make_gang(), make_gang(annotations={"sunkpy.dev/partition": "high"})
    policy = Policy(gpu_resources={}, default_partition="low")
    assert plan_job(gang, policy).partition == "low"
    assert plan_job(named, policy).partition == "high"


@pytest.mark.parametrize(
    ("restart_policy", "is_wished", "at_once"),
    [("Always", True, True), ("Always", False, False), ("OnFailure", True, False), ("Never", True, False)],
)
def test_a_service_is_asked_for_at_once(restart_policy, is_wished, at_once):
    gang, policy = make_gang(restart_policy=restart_policy), Policy(gpu_resources={}, immediate_allocation=is_wished)
    assert plan_job(gang, policy).at_once is at_once
    assert plan_for_nodes(gang, policy, {"uid-1": "n1"}).at_once is at_once


def test_what_waits_for_another_job_is_queued():
    gang = make_gang(restart_policy="Always", annotations={"sunkpy.dev/dependency": "afterok:12"})
    job = plan_job(gang, Policy(gpu_resources={}))
    assert (job.at_once, job.dependency) == (False, "afterok:12")


def test_the_comment_leads_back_to_the_pod():
    comment = plan(annotations={"sunkpy.dev/comment": "nightly: run 3"}).comment
    assert comment == "k8s:default/web-1:uid-1 nightly: run 3"
    assert parse_comment(comment) == GangId(namespace="default", name="web-1", uid="uid-1")


@pytest.mark.parametrize("comment", ["", "k8s", "k8s:", "k8s:default/web", "my k8s:default/web-1:uid", "k8s:a/b:c$d"])
def test_other_comments_lead_nowhere(comment):
    assert parse_comment(comment) is None


@pytest.mark.parametrize(("signal", "code"), [("USR1", 0), ("USR2", 1), ("TERM", 143)])
def test_the_placeholder_ends_at_once_when_it_is_told(signal, code):
    # One word more in the script tells when the traps are set, so that the test need not wait.
    script = PLACEHOLDER_SCRIPT.replace("held=$!", "held=$!; echo ready", 1)
    process = subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    subprocess.run(["bash", "-c", f"kill -{signal} {process.pid}"], check=True)
    assert process.wait(timeout=5) == code
    process.stdout.close()
