"""Whatever stands in a declaration, a family gives a gang, a refusal, or the error of the decoder."""

from __future__ import annotations

import json

import msgspec
import pytest

from sunkpy.core.gang import families
from sunkpy.core.gang.actions import Submit
from sunkpy.core.gang.decide import decide_gang
from sunkpy.core.gang.families import declaration, kueue, yunikorn
from sunkpy.core.gang.gang import Gang
from sunkpy.core.gang.job.request import Policy
from sunkpy.core.gang.limits import within_limits
from sunkpy.core.gang.snapshot import Snapshot
from sunkpy.core.model import matching
from sunkpy.core.model.objects import Wire
from sunkpy.core.placement.domains import HOSTNAME
from sunkpy.core.placement.eligibility import Eligibility
from tests.unit.core.gang.calls import counted
from tests.unit.core.gang.families import test_jobset as jobset
from tests.unit.core.gang.families import test_lws as lws
from tests.unit.core.gang.families import test_mpi_operator as mpi_operator
from tests.unit.core.gang.families import test_paddlecloud as paddlecloud
from tests.unit.core.gang.families import test_training_operator as training_operator
from tests.unit.core.gang.families.workload import gang, owner, pod

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
        assert made is None or 0 < made.seats <= declaration.LARGEST_GANG
    assert told == {True, False}


def _assembled(pods, owners) -> Gang | None:
    id = families.identify(pods[0], owners)
    try:
        return families.assemble(id, pods, owners)
    except msgspec.ValidationError:
        return None


def _planned(pods, owners):
    """The gang as it is taken in, and what is decided about it."""
    id = families.identify(pods[0], owners)
    gang = within_limits(families.assemble(id, pods, owners), gpu_resources={})
    snapshot = Snapshot(id=id, gang=gang, eligibility=Eligibility(eligible=("n1",)))
    return gang, decide_gang(snapshot, Policy(gpu_resources={}))


def _yunikorn(groups):
    said = {f"{yunikorn.PREFIX}app-id": "a", yunikorn.GROUP: "g0", yunikorn.GROUPS: json.dumps(groups)}
    return [pod("p", annotations=said)], ()


def _kueue(number):
    said = {kueue.TOTAL_COUNT: str(number), kueue.FAST_ADMISSION: "true"}
    return [pod("p", labels={kueue.GROUP_NAME: "g"}, annotations=said)], ()


def _annotated(roles):
    said = {"sunkpy.dev/gang": "g", "sunkpy.dev/gang-role": "r0", "sunkpy.dev/gang-roles": roles}
    return [pod("p", annotations=said)], ()


def _in_order(jobs):
    js = jobset.jobset_of(jobs, startupPolicy={"startupPolicyOrder": "InOrder"})
    pods = list(jobset.expand(jobset.jobset_of(jobs[:1])).values())
    return pods, jobset.above(js, pods)


def _spark(instances):
    spec = {"driver": {"cores": 1}, "executor": {"cores": 1, "instances": instances}}
    made = owner({"apiVersion": "sparkoperator.k8s.io/v1", "kind": "SparkApplication", "metadata": {}, "spec": spec})
    return [pod("d", owned_by=[made], labels={"spark-role": "driver", "spark-app-selector": "x"})], (made,)


def _ray(replicas, groups=1):
    more = [{"groupName": f"w{n}", "replicas": replicas, "maxReplicas": replicas} for n in range(groups)]
    made = owner({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {}, "spec": {"workerGroupSpecs": more}})
    return [pod("h", owned_by=[made], labels={"ray.io/node-type": "head"})], (made,)


MANY = 65_532
CHAIN = [jobset.replicated_job(f"w{n}", 1, 1, depends_on={f"w{n - 1}": "Complete"} if n else {}) for n in range(300)]


@pytest.mark.parametrize(
    ("workload", "refused"),
    [
        (_yunikorn([{"name": "g0", "minMember": 1}, {"name": "h", "minMember": MANY}]), "65533 pods"),
        (_yunikorn([{"name": f"g{n}", "minMember": 1} for n in range(6000)]), "6000 entries"),
        (_kueue(MANY), "65532 pods"),
        (_annotated(f"r0=1,b={MANY}"), "65533 pods"),
        (_annotated(",".join(f"r{n}=1" for n in range(20_000))), "20000 entries"),
        (_in_order([("w", 1, 1), ("v", MANY, 1)]), "65533 pods"),
        (_in_order(CHAIN), "300 entries"),
        (_in_order([("w", 1, 1)] * 2000), "may have at most"),
        (_spark(MANY), "65533 pods"),
        (_ray(MANY), "65533 pods"),
        (_ray(0, groups=500), "500 entries"),
    ],
)
def test_who_declares_too_much_is_refused_before_anything_is_planned(workload, refused):
    (gang, actions), calls = counted(_planned, *workload)
    (action,) = actions
    assert refused in action.message
    assert "make several" in action.message
    assert (gang.seats, len(gang.roles)) == (1, 1)
    assert calls < 25_000, "tens of milliseconds"


@pytest.mark.parametrize(
    "workload",
    [
        _yunikorn([{"name": "g0", "minMember": 1}, {"name": "h", "minMember": 4095}]),
        _yunikorn([{"name": f"g{n}", "minMember": 64, "minResource": {"cpu": n + 1}} for n in range(64)]),
        _kueue(4096),
        _in_order([("w", 1, 1), ("v", 4095, 1)]),
        _spark(4095),
    ],
)
def test_the_largest_gang_is_planned_by_its_roles(workload):
    (gang, (action,)), calls = counted(_planned, *workload)
    assert gang.seats == 4096
    assert isinstance(action, Submit)
    assert calls < 100_000


LONG: dict[str, dict[str, object]] = {
    "containers": {"containers": [{"name": "c"}] * 5000},
    "resources": {"containers": [{"resources": {"limits": {f"example.com/{n}": "1" for n in range(5000)}}}]},
    "ports": {"containers": [{"ports": [{"hostPort": n} for n in range(1, 5001)]}]},
    "claims for devices": {"resourceClaims": [{"name": f"k{n}"} for n in range(5000)]},
    "volumes with claims": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}] * 5000},
    "tolerations": {"tolerations": [{"key": f"k{n}", "operator": "Exists"} for n in range(5000)]},
    "labels in its nodeSelector": {"nodeSelector": {f"k{n}": "v" for n in range(5000)}},
    "lines of node affinity": {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Exists"}] * 5000}]
                }
            }
        }
    },
    "values in its affinity": {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "k", "namespaces": [f"n{n}" for n in range(5000)]}
                ]
            }
        }
    },
    "topologySpreadConstraints": {"topologySpreadConstraints": [{"topologyKey": "k"}] * 5000},
    "terms of affinity to pods": {
        "affinity": {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "k"}] * 5000}
        }
    },
    "lines of affinity to pods": {
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {f"k{n}": "v" for n in range(5000)}}}
                ]
            }
        }
    },
}


@pytest.mark.parametrize(("what", "spec"), LONG.items(), ids=LONG)
def test_a_pod_with_a_list_that_is_too_long_is_refused(what, spec):
    (gang, (action,)), calls = counted(_planned, [pod("p", spec=spec)], ())
    most = 16 if "to pods" in what or "Constraints" in what else 2000 if "values" in what else 100
    assert action.message == f"pod p has 5000 {what}, and may have at most {most}"
    assert calls < 75_000
    assert not gang.is_sized


def unlike(number):
    """The parts of a spec in which pod `number` of a gang may differ from all others."""
    affinity = [{"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {f"k{n}": str(number)}}} for n in range(16)]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": affinity}
    spread = [{"topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule", "maxSkew": number + 1}]
    return {
        "terms of affinity to pods and topologySpreadConstraints": [
            {"affinity": {"podAffinity": required}},
            {"affinity": {"podAntiAffinity": required}},
            {"topologySpreadConstraints": [each | {"labelSelector": {"matchLabels": {"k": "v"}}} for each in spread]},
        ],
        "combinations of requests, nodeSelector, affinity and tolerations": [
            {"nodeSelector": {"rack": str(number)}},
            {"tolerations": [{"key": str(number), "operator": "Exists"}]},
        ],
    }


@pytest.mark.parametrize(("what", "at"), [(what, at) for what, specs in unlike(0).items() for at in range(len(specs))])
def test_a_gang_of_hundreds_of_pods_that_all_differ_is_refused(what, at):
    annotations = {"sunkpy.dev/gang": "g", "sunkpy.dev/gang-size": "300"}
    # More than 64 templates are refused as such, whatever their rules.
    count = 300 if "combinations" in what or at == 2 else 60
    pods = [pod(f"p{n}", annotations=annotations, spec=unlike(n)[what][at]) for n in range(count)]
    (made, actions), calls = counted(_planned, pods, ())
    assert {action.message for action in actions} == {
        f"gang default/g: its pods have more than 64 different {what}: make several gangs"
    }
    assert calls < 75_000
    assert not made.is_sized


@pytest.mark.parametrize(
    ("nodes", "most"), [(1, 64), (2, 64), (24, 96), (25, None)], ids=["one", "two", "more", "four on each"]
)
def test_a_gang_may_differ_as_much_as_it_names_nodes(nodes, most):
    annotations = {"sunkpy.dev/gang": "g", "sunkpy.dev/gang-size": "100"}
    own = [{"containers": [{"resources": {"requests": {"cpu": f"{n + 1}m"}}}]} for n in range(100)]
    named = [{"nodeSelector": {HOSTNAME: f"n{n % nodes}"}} for n in range(100)]
    pods = [pod(f"p{n}", annotations=annotations, spec=own[n] | named[n]) for n in range(100)]
    what = "combinations of requests, nodeSelector, affinity and tolerations: make several gangs"
    assert gang(pods).refused == (f"gang default/g: its pods have more than {most} different {what}" if most else "")


def test_a_sum_of_thousands_of_containers_takes_time_by_their_number():
    """Pods of others are added up too, however many containers and resources they have."""
    many = {"resources": {"limits": {f"example.com/{n}": "1" for n in range(1000)}}}
    spec = pod("p", spec={"initContainers": [many, *[{"name": "i"}] * 1000], "containers": [many, *[{}] * 1000]}).spec
    needs, calls = counted(matching.pod_requests, spec)
    assert needs["example.com/0"] == 1
    assert calls < 30_000


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
