"""The jobs of training-operator v1: sizes, ranks, who decides, who is elastic."""

from __future__ import annotations

import msgspec
import pytest

from sunkpy.core.gang.families import training_operator
from sunkpy.core.gang.gang import Suspension, extra_unit
from tests.unit.core.gang.families.expected import asked, problems, template_of, wanted
from tests.unit.core.gang.families.workload import gang, manifest, owner, pod, seats, too_many

FIELDS = {
    "PyTorchJob": "pytorchReplicaSpecs",
    "TFJob": "tfReplicaSpecs",
    "XGBoostJob": "xgbReplicaSpecs",
    "PaddleJob": "paddleReplicaSpecs",
    "JAXJob": "jaxReplicaSpecs",
    "MXJob": "mxReplicaSpecs",
    "MPIJob": "mpiReplicaSpecs",
}


def job_of(kind, roles, *, status=None, **spec):
    """A job of `role: replicas`, or `role: (replicas, restartPolicy)`."""
    replicas = {role: each if isinstance(each, tuple) else (each, None) for role, each in roles.items()}
    specs = {
        role: {"replicas": number, "restartPolicy": policy, "template": {"spec": {"containers": [{}]}}}
        for role, (number, policy) in replicas.items()
    }
    document = {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": "fit"}, "status": status or {}}
    return owner(document | {"spec": {FIELDS[kind]: specs, **spec}})


def expand(job):
    """All pods of a job: training-operator makes them in one pass, in any order of the roles."""
    specs = msgspec.json.decode(job.spec)[FIELDS[job.kind]]
    return [
        _pod(job, role, each, index)
        for role, each in specs.items()
        for index in range(1 if each.get("replicas") is None else each["replicas"])
    ]


def _pod(job, role, spec, index):
    is_launcher = role == "Launcher"
    name = f"{job.name}-launcher" if is_launcher else f"{job.name}-{role.lower()}-{index}"
    labels = {
        "training.kubeflow.org/operator-name": f"{job.kind.lower()}-controller",
        "training.kubeflow.org/job-name": job.name,
        "training.kubeflow.org/replica-type": role.lower(),
    }
    if not is_launcher:
        labels[INDEX] = str(index)
    namespace = job.metadata.namespace
    return pod(name, owned_by=[job], template=template_of(spec["template"]), labels=labels, namespace=namespace)


INDEX = "training.kubeflow.org/replica-index"
MIN = "spec.runPolicy.schedulingPolicy.minAvailable"


def minimum(number):
    return {"runPolicy": {"schedulingPolicy": {"minAvailable": number}}}


@pytest.mark.parametrize(
    ("name", "ranks"),
    [
        ("pytorchjob-simple", ["master", "worker"]),
        ("tfjob-ps-worker", ["worker 0", "worker", "ps"]),
        ("mpijob-v1-horovod", ["launcher", "worker"]),
        ("xgboostjob", ["master", "worker"]),
        ("paddlejob-cpu", ["worker"]),
        ("mxjob", ["scheduler", "server", "worker"]),
    ],
)
def test_a_manifest_becomes_the_job_that_it_should(name, ranks, manifests):
    path = manifests / f"training-operator/{name}.yaml"
    job = owner(manifest(path)[0])
    pods = expand(job)
    one = gang(pods, [job])
    assert [asked(one)] == wanted(path)
    assert [role.name for role in one.roles] == ranks
    assert one.is_complete
    assert not gang(pods[1:], [job]).is_complete
    assert (one.id.unit, one.id.generation) == ("", "")
    assert one.suspension == Suspension(owner=job, path=("spec", "runPolicy", "suspend"))


def test_workers_beyond_the_minimum_are_jobs_of_their_own(manifests):
    path = manifests / "training-operator/pytorchjob-elastic.yaml"
    job = owner(manifest(path)[0])
    first, second = expand(job)
    assert [asked(gang([first, second], [job]))] == wanted(path)[:1]
    identities = [training_operator.FAMILY.identify(each, [job]) for each in (first, second)]
    assert [each.unit for each in identities] == ["", extra_unit(second)]
    assert identities[0].uid == identities[1].uid


@pytest.mark.parametrize(
    ("roles", "spec", "sizes"),
    [
        ({"Master": 1, "Worker": 3}, {}, {"master": 1, "worker": 3}),
        ({"Worker": None}, {}, {"worker": 1}),
        ({"worker": 2, "MASTER": 1}, {}, {"master": 1, "worker": 2}),
        ({"Worker": 4}, {"elasticPolicy": {"minReplicas": 2, "maxReplicas": 8}}, {"worker": 2}),
        ({"Worker": 4}, {"elasticPolicy": {"maxReplicas": 8}}, {"worker": 4}),
        ({"Worker": 4}, {"elasticPolicy": {"maxReplicas": 3}}, {"worker": 3}),
        ({"Worker": 4}, {"elasticPolicy": {}}, {"worker": 4}),
        ({"Master": 1, "Worker": 4}, minimum(3), {"master": 1, "worker": 2}),
        ({"Master": 1, "Worker": 4}, minimum(5), {"master": 1, "worker": 4}),
    ],
)  # fmt: skip
def test_how_many_places_a_role_has(roles, spec, sizes):
    job = job_of("PyTorchJob", roles, **spec)
    one = gang(expand(job), [job])
    assert {name: row[0] for name, row in seats(one).items()} == sizes
    assert one.is_complete


@pytest.mark.parametrize(
    ("kind", "roles", "spec", "deciding"),
    [
        ("PyTorchJob", {"Master": 1, "Worker": 2}, {}, ["master"]),
        ("PyTorchJob", {"Worker": 2}, {}, ["worker"]),
        ("TFJob", {"Chief": 1, "PS": 1, "Worker": 2, "Evaluator": 1}, {}, ["chief"]),
        ("TFJob", {"PS": 1, "Worker": 2}, {}, ["worker 0"]),
        ("TFJob", {"PS": 1, "Worker": 2}, {"successPolicy": "AllWorkers"}, ["worker"]),
        ("XGBoostJob", {"Master": 1, "Worker": 2}, {}, ["master"]),
        ("MXJob", {"Scheduler": 1, "Server": 1, "Worker": 1}, {}, ["scheduler"]),
        ("MPIJob", {"Launcher": 1, "Worker": 2}, {}, ["launcher"]),
        ("JAXJob", {"Worker": 2}, {}, ["worker"]),
    ],
)
def test_who_decides(kind, roles, spec, deciding):
    job = job_of(kind, roles, **spec)
    one = gang(expand(job), [job])
    assert [role.name for role in one.roles if role.decides] == deciding


def test_members_stand_in_rank_order_whatever_order_they_come_in():
    job = job_of("TFJob", {"PS": 1, "Worker": 3, "Evaluator": 1})
    one = gang(expand(job)[::-1], [job])
    assert [each.name for each in one.members] == [
        "fit-worker-0", "fit-worker-1", "fit-worker-2", "fit-evaluator-0", "fit-ps-0",
    ]  # fmt: skip
    assert seats(one)["worker"] == (2, 2, [("fit-worker-1", 0), ("fit-worker-2", 1)])


COUNTS = "an evicted pod counts as failed, and the"


@pytest.mark.parametrize(
    ("kind", "roles", "policy", "said"),
    [
        ("PyTorchJob", {"Master": 1, "Worker": 1}, {}, ""),
        ("PyTorchJob", {"Master": 1}, {"backoffLimit": 0}, f"backoffLimit is 0: {COUNTS} PyTorchJob with it"),
        ("TFJob", {"PS": 1, "Worker": 1}, {}, f"restartPolicy of worker, ps is Never: {COUNTS} TFJob with it"),
        ("TFJob", {"Worker": (1, "ExitCode")}, {}, ""),
        (
            "XGBoostJob",
            {"Master": (1, "Never"), "Worker": (1, "ExitCode")},
            {},
            f"restartPolicy of master is Never: {COUNTS} XGBoostJob with it",
        ),
        ("PaddleJob", {"Worker": 1}, {}, ""),
        ("JAXJob", {"Worker": (1, "OnFailure")}, {"backoffLimit": 3}, ""),
    ],
)
def test_it_is_told_whether_evicted_pods_come_back(kind, roles, policy, said):
    job = job_of(kind, roles, runPolicy=policy)
    assert gang(expand(job), [job]).final_because == said


@pytest.mark.parametrize(
    ("status", "policy", "expects"),
    [
        ({}, {}, True),
        ({"conditions": [{"type": "Running", "status": "True"}]}, {}, True),
        ({"conditions": [{"type": "Failed", "status": "True"}]}, {}, False),
        ({"conditions": [{"type": "Succeeded", "status": "True"}]}, {}, False),
        ({"conditions": [{"type": "Succeeded", "status": "False"}]}, {}, True),
        ({}, {"suspend": True}, False),
    ],
)
def test_it_expects_more_pods_while_its_owner_does(status, policy, expects):
    job = job_of("PyTorchJob", {"Worker": 1}, status=status, runPolicy=policy)
    assert gang(expand(job), [job]).expects_more is expects


@pytest.mark.parametrize(
    ("workers", "spec", "said"),
    [
        (-1, {}, ": replicas of worker is -1, and must be at least 0"),
        (10**12, {}, too_many("", 10**12)),
        (0, {}, " declares 0 pods, and a gang has at least 1"),
        (2, minimum(0), f": {MIN} is 0, and must be at least 1"),
        (2, minimum(3), f": {MIN} is 3, more than the 2 pods"),
        (2, {"elasticPolicy": {"minReplicas": 0}}, ": spec.elasticPolicy.minReplicas is 0, and must be at least 1"),
        (2, {"elasticPolicy": {"minReplicas": 3}}, ": spec.elasticPolicy.minReplicas is 3, more than the 2 workers"),
    ],
)
def test_a_broken_size_is_told_and_not_submitted(workers, spec, said):
    pods = expand(job_of("PyTorchJob", {"Worker": 2}))
    one = gang(pods, [job_of("PyTorchJob", {"Worker": workers}, **spec)])
    assert problems(one) == [f"PyTorchJob default/fit{said}"]
    assert len(one.members) == 2


def test_a_job_that_cannot_be_read_is_told_with_the_same_identity():
    job = job_of("PaddleJob", {"Worker": 2})
    pods = expand(job)
    one = gang(pods, [])
    assert one.id == gang(pods, [job]).id
    assert problems(one) == ["PaddleJob default/fit could not be read, and only it says how many pods there will be"]


def test_an_mpijob_of_another_version_is_not_its_own():
    job = msgspec.structs.replace(job_of("MPIJob", {"Launcher": 1}), api_version="kubeflow.org/v2beta1")
    assert training_operator.FAMILY.identify(expand(job)[0], [job]) is None
    assert training_operator.FAMILY.identify(pod("bare"), []) is None


def test_a_worker_that_is_left_over_after_scaling_down_is_no_elastic_one():
    pods = expand(job_of("PyTorchJob", {"Worker": 3}))
    smaller = job_of("PyTorchJob", {"Worker": 2})
    assert {training_operator.FAMILY.identify(each, [smaller]).unit for each in pods} == {""}
    assert gang(pods, [smaller]).members == tuple(pods[:2])


def test_a_label_that_is_no_number_has_no_place():
    job = job_of("PyTorchJob", {"Worker": 2})
    pods = [pod(f"fit-{n}", owned_by=[job], labels=dict(expand(job)[0].labels) | {INDEX: n}) for n in ("x", "-1", "²")]
    assert gang([*expand(job), *pods], [job]).members == tuple(expand(job))
