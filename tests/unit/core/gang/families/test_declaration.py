"""Whatever stands in a declaration, a family gives a gang, a refusal, or the error of the decoder."""

from __future__ import annotations

import json

import msgspec
import pytest

from sunkpy.core.gang import families
from sunkpy.core.gang.families import declaration
from sunkpy.core.gang.gang import Gang
from sunkpy.core.model.objects import Wire
from tests.unit.core.gang.families import test_jobset as jobset
from tests.unit.core.gang.families import test_lws as lws
from tests.unit.core.gang.families import test_mpi_operator as mpi_operator
from tests.unit.core.gang.families import test_paddlecloud as paddlecloud
from tests.unit.core.gang.families import test_training_operator as training_operator
from tests.unit.core.gang.families.workload import owner, pod

INDEX = "batch.kubernetes.io/job-completion-index"
JUNK = (None, -1, 0, 1, 7, 10**30, 0.5, True, "x", "", [], {}, [None])


def _jobset():
    js = jobset.jobset_of(
        [("d", 1, 1), jobset.replicated_job("w", 2, 2, depends_on={"d": "Complete"}, backoffLimit=0)],
        coordinator={"replicatedJob": "w", "jobIndex": 1, "podIndex": 1},
        failurePolicy={
            "maxRestarts": 1,
            "rules": [{"name": "r", "action": "FailJobSet", "onJobFailureReasons": ["x"]}],
        },
    )
    pods = list(jobset.expand(js, "w").values())
    return js, pods, jobset.above(js, pods)


def _lws():
    workload = lws.set_of(3, startupPolicy="LeaderReady")
    pairs = lws.group(workload, 0)
    return workload, [pairs[0][0]], pairs[0][1]


def _training_operator():
    spec = training_operator.minimum(3) | {"elasticPolicy": {"minReplicas": 2, "maxReplicas": 3}}
    job = training_operator.job_of("PyTorchJob", {"Master": 1, "Worker": (3, "Never")}, **spec)
    return job, training_operator.expand(job), (job,)


def _mpi_operator():
    job = mpi_operator.job_of(2, launcherCreationPolicy="WaitForWorkersReady", runPolicy={"backoffLimit": 1})
    return job, mpi_operator.workers(job), (job,)


def _paddlecloud():
    job = paddlecloud.job_of(worker={"replicas": 3, "requests": 2}, ps=1, elastic=1)
    return job, paddlecloud.expand(job), (job,)


def _spoiled(value):
    """A declaration, each time with another of its parts replaced."""
    yield from (junk for junk in JUNK if junk != value or type(junk) is not type(value))
    if isinstance(value, dict):
        for key, part in value.items():
            yield from (value | {key: each} for each in _spoiled(part))
    if isinstance(value, list):
        for number, part in enumerate(value):
            yield from ([*value[:number], each, *value[number + 1 :]] for each in _spoiled(part))


@pytest.mark.parametrize("workload", [_jobset, _lws, _training_operator, _mpi_operator, _paddlecloud])
def test_no_declaration_stops_the_scheduler(workload):
    top, pods, owners = workload()
    told = set()
    for spec in _spoiled(msgspec.json.decode(top.spec)):
        spoiled = msgspec.structs.replace(top, spec=msgspec.Raw(json.dumps(spec).encode()))
        above = [spoiled if each is top else each for each in owners]
        made = _assembled(pods, above)
        told.add(made is None or bool(made.refused))
        assert made is None or 0 < made.places <= declaration.MOST_PLACES
    assert told == {True, False}


def _assembled(pods, owners) -> Gang | None:
    id = families.identify(pods[0], owners)
    try:
        return families.assemble(id, pods, owners)
    except msgspec.ValidationError:
        return None


class _Template(Wire, frozen=True, kw_only=True):
    template: declaration.Template = declaration.Template()
    requests: int = 0


def test_quantities_may_be_numbers_and_null_is_absent():
    container = {"resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": None}, "name": None}
    spec = {"requests": 2, "template": {"spec": {"containers": [container], "overhead": {"cpu": 0.25}}}}
    read = declaration.declared(owner({"kind": "X", "metadata": {}, "spec": spec}), _Template)
    assert read.requests == 2
    assert read.template.shape.overhead == {"cpu": "0.25"}
    assert read.template.shape.containers[0].resources.requests == {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("text", "index"), [("3", 3), ("0", 0), ("", -1), (None, -1), ("-1", -1), ("²", -1), ("9" * 12, -1), ("1 ", -1)]
)
def test_what_is_no_number_numbers_nothing(text, index):
    assert declaration.ordinal(text) == index


def indexed(name, index, maker, **more):
    return pod(name, owned_by=[maker], labels={INDEX: index}, **more)


def a_job(name):
    return owner({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}})


def test_ranks_of_one_owner_within_the_places_count():
    one = a_job("one")
    pods = [indexed("b", "1", one), indexed("a", "0", one), indexed("a2", "0", one, creationTimestamp="2026")]
    assert [(each.pod.name, each.index) for each in declaration.seated(pods, 2)] == [("a", 0), ("a2", 0), ("b", 1)]


@pytest.mark.parametrize(
    "pods",
    [
        [indexed("a", "0", a_job("one")), indexed("b", "0", a_job("two"))],
        [indexed("a", "0", a_job("one")), indexed("b", "2", a_job("one"))],
        [indexed("a", "0", a_job("one")), indexed("b", "x", a_job("one"))],
        [indexed("a", "0", a_job("one")), pod("b", owned_by=[a_job("one")])],
    ],
)
def test_otherwise_age_counts(pods):
    assert [each.index for each in declaration.seated(pods, 2)] == [-1, -1]


def test_options_of_the_oldest_pod_come_first_and_owners_last():
    pods = [
        pod("b", annotations={"sunkpy.dev/comment": "late"}, creationTimestamp="2027"),
        pod("a", annotations={"sunkpy.dev/comment": "early"}, creationTimestamp="2026"),
    ]
    said = {"sunkpy.dev/comment": "no", "sunkpy.dev/qos": "above"}
    above = owner({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x", "annotations": said}})
    options, problems = declaration.options_of(pods, [above])
    assert (options.comment, options.qos, problems) == ("early", "above", ())


def test_what_ends_now_has_no_say_in_the_options():
    old = pod("a", annotations={"sunkpy.dev/qos": "old"}, status={"phase": "Failed"}, creationTimestamp="2026")
    new = pod("b", annotations={"sunkpy.dev/qos": "new"}, creationTimestamp="2027")
    options, problems = declaration.options_of([old, new], ())
    assert (options.qos, problems) == ("new", ())
