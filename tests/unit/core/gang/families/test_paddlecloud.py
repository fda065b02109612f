"""PaddleJobs of PaddleCloud: one gang of all roles; elastic workers beyond the least are alone."""

from __future__ import annotations

import msgspec
import pytest

from sunkpy.core.gang.families import paddlecloud
from sunkpy.core.gang.gang import extra_unit
from tests.unit.core.gang.families.expected import asked, problems, template_of, wanted
from tests.unit.core.gang.families.workload import gang, manifest, owner, pod, seats

ROLES = ("ps", "worker", "heter")


def job_of(status=None, elastic=None, **roles):
    template = {"spec": {"containers": [{}]}}
    spec = {role: {"replicas": each, "template": template} if isinstance(each, int) else each | {"template": template}
            for role, each in roles.items()}  # fmt: skip
    document = {"apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob", "metadata": {"name": "fleet-1"}}
    return owner(document | {"spec": spec | ({} if elastic is None else {"elastic": elastic}), "status": status or {}})


def expand(job):
    spec = msgspec.json.decode(job.spec)
    return [
        pod(
            f"{job.name}-{role}-{index}",
            owned_by=[job],
            template=template_of(spec[role]["template"]),
            labels={"paddle-res-name": f"{job.name}-{role}-{index}", "paddle-res-type": role},
            annotations={"paddle-resource": role},
        )
        for role in ROLES
        if role in spec
        for index in range(spec[role]["replicas"])
    ]


@pytest.mark.parametrize(("name", "comes_back"), [("simple", False), ("ps-worker", False), ("resnet-elastic", True)])
def test_a_manifest_becomes_the_job_that_it_should(name, comes_back, manifests):
    path = manifests / f"paddle-operator/{name}.yaml"
    job = owner(manifest(path)[0])
    one = gang(expand(job), [job])
    assert [asked(one)] == wanted(path)
    assert one.is_complete
    assert not gang(expand(job)[:1], [job]).is_complete
    assert (one.final_because == "") is comes_back
    assert one.suspension is None


def test_members_stand_by_role_and_number_and_servers_do_not_decide():
    job = job_of(heter=1, worker=2, ps=1)
    one = gang(expand(job)[::-1], [job])
    assert seats(one) == {
        "ps": (1, 1, [("fleet-1-ps-0", 0)]),
        "worker": (2, 2, [("fleet-1-worker-0", 0), ("fleet-1-worker-1", 1)]),
        "heter": (1, 1, [("fleet-1-heter-0", 0)]),
    }
    assert [role.name for role in one.roles if role.decides] == ["worker", "heter"]


@pytest.mark.parametrize(("elastic", "held"), [(None, 3), (1, 2)])
def test_only_an_elastic_job_runs_with_fewer_workers(elastic, held):
    job = job_of(worker={"replicas": 3, "requests": 2}, elastic=elastic)
    pods = expand(job)
    assert gang(pods, [job]).seats == held
    units = [paddlecloud.FAMILY.identify(each, [job]).unit for each in pods]
    assert units == [*[""] * held, *(extra_unit(each) for each in pods[held:])]


@pytest.mark.parametrize(("phase", "expects"), [("", True), ("Running", True), ("Failed", False), ("Completed", False)])
def test_it_expects_more_pods_while_its_owner_does(phase, expects):
    job = job_of(worker=1, status={"phase": phase})
    assert gang(expand(job), [job]).expects_more is expects


def least(number):
    return {"worker": {"replicas": 2, "requests": number}, "elastic": 1}


@pytest.mark.parametrize(
    ("roles", "said"),
    [
        ({"worker": -1}, ": spec.worker.replicas is -1, and must be at least 0"),
        ({"worker": 0}, " declares 0 pods, and a gang has at least 1"),
        (least(0), ": spec.worker.requests is 0, and must be at least 1"),
        (least(3), ": spec.worker.requests is 3, more than the 2 workers"),
    ],
)
def test_a_broken_size_is_told_and_not_submitted(roles, said):
    one = gang(expand(job_of(worker=2)), [job_of(**roles)])
    assert problems(one) == [f"PaddleJob default/fleet-1{said}"]


def test_a_job_that_cannot_be_read_is_told_with_the_same_identity():
    job = job_of(worker=2)
    one = gang(expand(job), [])
    assert one.id == gang(expand(job), [job]).id
    assert problems(one) == [
        "PaddleJob default/fleet-1 could not be read, and only it says how many pods there will be"
    ]


def test_the_paddlejob_of_training_operator_is_another():
    job = msgspec.structs.replace(job_of(worker=1), api_version="kubeflow.org/v1")
    assert paddlecloud.FAMILY.identify(expand(job)[0], [job]) is None
