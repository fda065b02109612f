"""MPIJobs of mpi-operator: workers and launcher are one gang, whoever of them comes first."""

from __future__ import annotations

import msgspec
import pytest

from sunkpy.core.gang.families import mpi_operator
from sunkpy.core.gang.gang import Suspension
from tests.unit.core.gang.families.expected import asked, problems, template_of, wanted
from tests.unit.core.gang.families.workload import gang, manifest, owner, pod, seats, too_many

NOTHING = {"spec": {"containers": [{}]}}


def job_of(workers, *, status=None, worker=None, **spec):
    replicas = {"Launcher": {"replicas": 1, "template": NOTHING}}
    if workers is not None:
        replicas["Worker"] = {"replicas": workers, "template": NOTHING, **(worker or {})}
    document = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "pi"}}
    return owner(document | {"status": status or {}, "spec": {"mpiReplicaSpecs": replicas, **spec}})


def labels(job, role):
    return {
        "training.kubeflow.org/operator-name": "mpi-operator",
        "training.kubeflow.org/job-name": job.name,
        "training.kubeflow.org/job-role": role,
    }


def workers(job):
    spec = msgspec.json.decode(job.spec)["mpiReplicaSpecs"].get("Worker", {})
    return [
        pod(
            f"{job.name}-worker-{index}",
            owned_by=[job],
            template=template_of(spec["template"]),
            labels=labels(job, "worker") | {"training.kubeflow.org/replica-index": str(index)},
        )
        for index in range(spec.get("replicas") or 0)
    ]


def launcher_job(job):
    reference = {"apiVersion": job.api_version, "kind": job.kind, "name": job.name, "uid": job.uid, "controller": True}
    metadata = {"name": f"{job.name}-launcher", "ownerReferences": [reference]}
    return owner({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata})


def launcher(job, suffix="abcde"):
    spec = msgspec.json.decode(job.spec)["mpiReplicaSpecs"]["Launcher"]
    return pod(
        f"{job.name}-launcher-{suffix}",
        owned_by=[launcher_job(job)],
        template=template_of(spec["template"]),
        labels=labels(job, "launcher"),
    )


def assembled(job, pods):
    """The gang of pods that are found to belong together, each with its own owners."""
    owners = {each.uid: [job] if "worker" in each.name else [launcher_job(job), job] for each in pods}
    (id,) = {mpi_operator.FAMILY.identify(each, owners[each.uid]) for each in pods}
    return mpi_operator.FAMILY.assemble(id, pods, owners[pods[0].uid])


@pytest.mark.parametrize("name", ["pi", "pi-wait-for-workers", "horovod-tensorflow-mnist", "tensorflow-benchmarks-gpu"])
def test_a_manifest_becomes_the_job_that_it_should(name, manifests):
    path = manifests / f"mpi-operator/{name}.yaml"
    job = owner(manifest(path)[0])
    one = assembled(job, [*workers(job), launcher(job)])
    assert [asked(one)] == wanted(path)
    assert [each.name.removeprefix(job.name) for each in one.members] == ["-launcher-abcde", "-worker-0", "-worker-1"]
    assert [role.name for role in one.roles if role.decides] == ["launcher"]
    assert one.is_complete
    assert one.final_because == ""
    assert one.suspension == Suspension(owner=job, path=("spec", "runPolicy", "suspend"))
    waits = name == "pi-wait-for-workers"
    assert assembled(job, workers(job)).is_complete is waits


def test_the_place_of_a_launcher_that_waits_for_ready_workers_is_there_before_it_is(manifests):
    path = manifests / "mpi-operator/pi-wait-for-workers.yaml"
    job = owner(manifest(path)[0])
    one = assembled(job, workers(job))
    assert [asked(one)] == wanted(path)
    assert seats(one)["launcher"] == (1, 0, [])


@pytest.mark.parametrize("number", [0, None])
def test_a_launcher_without_workers_waits_for_nobody(number):
    job = job_of(number, launcherCreationPolicy="WaitForWorkersReady")
    one = assembled(job, [launcher(job)])
    assert (one.is_complete, one.seats, seats(one)["launcher"][1]) == (True, 1, 1)


def test_a_launcher_that_is_tried_again_takes_the_same_place():
    job = job_of(2)
    one = assembled(job, [*workers(job), launcher(job, "first"), launcher(job, "again")])
    assert seats(one)["launcher"] == (1, 1, [("pi-launcher-first", 0), ("pi-launcher-again", 0)])


def test_the_number_of_workers_may_be_edited():
    pods = workers(job_of(3))
    assert [len(assembled(job_of(number), pods).roles[1].members) for number in (2, 3, 4)] == [2, 3, 3]
    assert assembled(job_of(4), pods).seats == 5


def test_workers_beyond_the_least_have_no_place():
    job = job_of(4, runPolicy={"schedulingPolicy": {"minAvailable": 3}})
    one = assembled(job, [*workers(job), launcher(job)])
    assert {name: row[0] for name, row in seats(one).items()} == {"launcher": 1, "worker": 2}


@pytest.mark.parametrize(
    ("policy", "failed", "said"),
    [
        ({}, 0, ""),
        ({}, 6, "backoffLimit is 6 and the launcher has failed 6 times"),
        ({"backoffLimit": 0}, 0, "backoffLimit is 0 and the launcher has failed 0 times"),
        ({"backoffLimit": 1}, 0, ""),
    ],
)
def test_it_is_told_whether_the_launcher_comes_back(policy, failed, said):
    job = job_of(1, runPolicy=policy, status={"replicaStatuses": {"Launcher": {"failed": failed}, "Worker": {}}})
    assert assembled(job, workers(job)).final_because == (
        f"{said}: when it is evicted the MPIJob fails" if said else ""
    )


@pytest.mark.parametrize(
    ("status", "policy", "expects"),
    [
        ({}, {}, True),
        ({"conditions": [{"type": "Succeeded", "status": "True"}]}, {}, False),
        ({"conditions": [{"type": "Failed", "status": "True"}], "completionTime": "2026-01-01T00:00:00Z"}, {}, False),
        # Workers were evicted by a kubelet: noted as Failed, and goes on.
        ({"conditions": [{"type": "Failed", "status": "True"}]}, {}, True),
        ({}, {"suspend": True}, False),
    ],
)
def test_it_expects_more_pods_while_its_owner_does(status, policy, expects):
    job = job_of(1, status=status, runPolicy=policy)
    assert assembled(job, workers(job)).expects_more is expects


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (-2, ": replicas of worker is -2, and must be at least 0"),
        (4096, too_many("", 4097)),
    ],
)
def test_a_broken_size_is_told_and_not_submitted(number, said):
    one = gang(workers(job_of(2)), [job_of(number)])
    assert problems(one) == [f"MPIJob default/pi{said}"]


def test_a_job_that_cannot_be_read_is_told_with_the_same_identity():
    job = job_of(2)
    one = gang([launcher(job), *workers(job)], [launcher_job(job)])
    assert one.id == assembled(job, workers(job)).id
    assert len(one.members) == 3
    assert problems(one) == ["MPIJob default/pi could not be read, and only it says how many pods there will be"]


def test_an_mpijob_of_version_1_is_not_its_own():
    job = msgspec.structs.replace(job_of(1), api_version="kubeflow.org/v1")
    assert mpi_operator.FAMILY.identify(workers(job)[0], [job]) is None
    assert mpi_operator.FAMILY.identify(pod("bare"), []) is None
