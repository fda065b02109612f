"""Jobs and CronJobs: each pod is a job of its own; what an eviction costs follows from the Job."""

from __future__ import annotations

import pytest

from tests.unit.core.gang.families.makers import documents, job, jobs_of, seen, wanted
from tests.unit.core.gang.families.workload import manifest, owner


def cron_job(document):
    maker = owner(document)
    made = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": f"{maker.name}-29"}}
    return job(made | {"spec": document["spec"]["jobTemplate"]["spec"]}, maker=maker)


ONE_EACH = [
    "native/job.yaml",
    "slurm-bridge/job-single.yaml",
    "cromwell/tesk-10-taskmaster.shape.yaml",
    "cromwell/tesk-20-inputs-filer.shape.yaml",
    "cromwell/tesk-30-executor.shape.yaml",
    "cromwell/tesk-40-outputs-filer.shape.yaml",
]


@pytest.mark.parametrize("name", ONE_EACH)
def test_a_job_of_one(name, manifests):
    owners, pods = job(documents(manifests / name)["Job"])
    (gang,) = jobs_of(pods, owners)
    assert seen([gang]) == wanted(manifests / name)
    assert gang.final_because == ""
    assert gang.suspension is not None
    assert gang.suspension.owner == owners[0]


def test_annotations_on_the_job_count():
    document = documents("slurm-bridge/job-single.yaml")["Job"]
    document["metadata"]["annotations"]["slurmjob.slinky.slurm.net/partition"] = "low"
    owners, pods = job(document)
    (gang,) = jobs_of(pods, owners)
    assert gang.options.partition == "low"


def test_an_indexed_job_is_no_gang_and_its_pods_come_in_two_waves(manifests):
    path = manifests / "native/job-indexed.yaml"
    document = documents(path)["Job"]
    owners, first = job(document)
    assert len(first) == 3
    _, second = job(document, indices=(3, 4))
    gangs = jobs_of([*first, *second], owners)
    assert seen(gangs) == wanted(path)
    name = owners[0].name
    assert gangs[0].kind == f"Job default/{name}, pod {name}-0-x"
    assert {gang.suspension for gang in gangs} == {None}, "suspending the Job would take the other pods too"


def test_parallelism_equal_to_completions_declares_no_gang():
    document = documents("native/job.yaml")["Job"]
    document["spec"] |= {"parallelism": 4, "completions": 4}
    owners, pods = job(document)
    assert [gang.seats for gang in jobs_of(pods, owners)] == [1, 1, 1, 1]


def test_a_cron_job(manifests):
    path = manifests / "native/cronjob.yaml"
    document = documents(path)["CronJob"]
    owners, pods = cron_job(document)
    (gang,) = jobs_of(pods, owners)
    assert seen([gang]) == wanted(path)
    name = document["metadata"]["name"]
    assert gang.kind == f"CronJob default/{name}, pod {name}-29-x0"
    assert gang.suspension is not None
    assert gang.suspension.owner.name == f"{name}-29", "the Job, not the schedule"


def ignoring(action):
    return {"podFailurePolicy": {"rules": [
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
        {"action": action, "onPodConditions": [{"type": "DisruptionTarget"}]},
    ]}}  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "status", "because"),
    [
        ({}, {}, ""),
        ({}, {"failed": 6}, "an evicted pod counts as failed, and backoffLimit 6 is used up"),
        ({"backoffLimit": 0}, {}, "an evicted pod counts as failed, and backoffLimit 0 is used up"),
        ({"backoffLimit": 2}, {"failed": 1}, ""),
        ({"backoffLimit": 2}, {"failed": 2}, "an evicted pod counts as failed, and backoffLimit 2 is used up"),
        ({"backoffLimit": 0, **ignoring("Ignore")}, {}, ""),
        ({"parallelism": 50, **ignoring("Ignore")}, {}, ""),
        ({"parallelism": 6}, {}, ""),
        (
            {"parallelism": 50},
            {},
            "more than backoffLimit 6 of its 50 pods may be evicted at once, and the Job fails; "
            "a podFailurePolicy can ignore DisruptionTarget",
        ),
        (
            {"backoffLimit": 0, **ignoring("Count")},
            {},
            "an evicted pod counts as failed, and backoffLimit 0 is used up",
        ),
        (ignoring("FailJob"), {}, "its podFailurePolicy fails the Job when a pod is disrupted"),
        (ignoring("FailIndex"), {}, "its podFailurePolicy fails the index when its pod is disrupted"),
        ({"backoffLimitPerIndex": 0}, {}, "an evicted pod counts as failed, and backoffLimitPerIndex is 0"),
        ({"backoffLimitPerIndex": 1}, {"failed": 9}, ""),
    ],
)
def test_whether_the_job_brings_an_evicted_pod_back(spec, status, because):
    document = documents("native/job.yaml")["Job"]
    document["spec"].pop("backoffLimit")
    document["spec"] |= spec
    owners, pods = job(document, **status)
    assert {gang.final_because for gang in jobs_of(pods, owners)} == {because}


def test_a_job_that_somebody_else_owns_is_not_ours_to_suspend():
    maker = owner({"apiVersion": "example.com/v1", "kind": "Pipeline", "metadata": {"name": "p"}})
    owners, pods = job(documents("native/job.yaml")["Job"], maker=maker)
    (gang,) = jobs_of(pods, owners)
    assert (gang.kind, gang.suspension) == ("Pipeline default/p, pod sum-x0", None)


def test_a_job_that_was_not_read_says_nothing():
    _, pods = job(documents("native/job.yaml")["Job"])
    (gang,) = jobs_of(pods)
    assert (gang.kind, gang.final_because, gang.suspension) == ("Job default/sum, pod sum-x0", "", None)


def test_a_job_that_does_not_look_like_one_is_refused_and_keeps_its_pod():
    document = manifest("native/job.yaml")[0]
    document["spec"]["parallelism"] = "many"
    made = owner(document)
    _, pods = job(manifest("native/job.yaml")[0])
    (gang,) = jobs_of(pods, [made])
    assert gang.refused == "Job default/sum cannot be read: Expected `int`, got `str` - at `$.parallelism`"
    assert gang.members == tuple(pods)
