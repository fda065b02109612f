"""JobSets and TrainJobs: the gangs of the manifests, wave by wave, and the rules by table."""

from __future__ import annotations

import msgspec
import pytest

from sunkpy.core.gang import families
from sunkpy.core.gang.families import jobset
from sunkpy.core.gang.gang import Suspension
from sunkpy.core.gang.identity import GangId, parse_comment
from tests.manifests import OWN
from tests.unit.core.gang.families.expected import asked, problems, template_of, wanted
from tests.unit.core.gang.families.workload import gang, gangs, manifest, owner, pod, seats, too_many

LABEL = "jobset.sigs.k8s.io/"
TOPOLOGY = "topology.kubernetes.io/rack"


def jobset_of(replicated, *, annotations=None, status=None, owned_by=(), **spec):
    """A JobSet of `name: (replicas, parallelism)`, or of whole replicatedJobs."""
    jobs = [each if isinstance(each, dict) else replicated_job(*each) for each in replicated]
    document = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train", "annotations": annotations or {}, "ownerReferences": references(owned_by)},
        "spec": {"replicatedJobs": jobs, **spec},
        "status": status or {},
    }
    return owner(document)


def replicated_job(name, replicas=1, pods=1, *, depends_on=None, annotations=None, **spec):
    return {
        "name": name,
        "replicas": replicas,
        "dependsOn": [{"name": each, "status": status} for each, status in (depends_on or {}).items()],
        "template": {
            "metadata": {"annotations": annotations or {}, "creationTimestamp": None},
            "spec": {"parallelism": pods, "completions": pods, "template": {"spec": {"containers": [{}]}}, **spec},
        },
    }


def references(owners):
    return [
        {"apiVersion": each.api_version, "kind": each.kind, "name": each.name, "uid": each.uid, "controller": True}
        for each in owners
    ]


def expand(js, *names, attempt=0):
    """The pods of these replicatedJobs, of all without names, as JobSet and the Job controller make them, by name."""
    spec = msgspec.json.decode(js.spec)
    return {
        made.name: made
        for job in spec["replicatedJobs"]
        if job["name"] in names or not names
        for index in range(job.get("replicas", 1))
        for made in _pods_of_job(js, job, index, attempt)
    }


def _pods_of_job(js, job, index, attempt):
    child = job_of(js, f"{js.name}-{job['name']}-{index}", attempt)
    template = job["template"]
    keys = {
        LABEL + "jobset-name": js.name,
        LABEL + "jobset-uid": js.uid,
        LABEL + "replicatedjob-name": job["name"],
        LABEL + "job-index": str(index),
        LABEL + "restart-attempt": str(attempt),
    }
    annotations = js.annotations | (template.get("metadata", {}).get("annotations") or {})
    placement = {key: annotations[key] for key in (jobset.EXCLUSIVE, jobset.BY_NODE_SELECTOR) if key in annotations}
    count = min(template["spec"].get("parallelism", 1), template["spec"].get("completions", 10**6))
    for number in range(count):
        completion = {jobset.POD_INDEX: str(number)}
        yield pod(
            f"{child.name}-{number}",
            uid=f"uid-of-{child.name}-{number}-{attempt}",
            owned_by=[child],
            template=template_of(template["spec"]["template"]),
            labels=keys | completion,
            annotations=keys | placement | completion,
            namespace=js.metadata.namespace,
        )


def job_of(js, name, attempt=0):
    metadata = {"name": name, "uid": f"uid-of-{name}-{attempt}", "ownerReferences": references([js])}
    return owner({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}, namespace=js.metadata.namespace)


def above(js, pods, *more):
    """Owners as the scheduler sees them, of the first pod."""
    name = pods[0].metadata.owner_references[0].name
    return (job_of(js, name), js, *more)


def js_of(path):
    document = next(each for each in manifest(path) if each["kind"] == "JobSet")
    return owner(document, name=document["metadata"].get("name", "generated"))


def all_gangs(js, pods, *more):
    """As `gangs`, every pod with its own Job."""
    return gangs(list(pods), above(js, list(pods), *more))


@pytest.mark.parametrize(
    "name",
    [
        "jobset/coordinator.yaml",
        "jobset/pytorch-mnist.yaml",
        "jobset/exclusive-placement.yaml",
        "slurm-bridge/jobset-coordinator.yaml",
        "kueue/jobset.yaml",
    ],
)
def test_a_manifest_becomes_the_jobs_that_it_should(name, manifests):
    js = js_of(manifests / name)
    pods = expand(js).values()
    assert sorted(asked(each) for each in all_gangs(js, pods)) == wanted(manifests / name)


def test_the_places_of_exclusive_placement_are_there_with_the_leaders_alone(manifests):
    path = manifests / "jobset/exclusive-placement.yaml"
    js = js_of(path)
    leaders = [each for each in expand(js).values() if each.labels[jobset.POD_INDEX] == "0"]
    made = all_gangs(js, leaders)
    assert sorted(asked(each) for each in made) == wanted(path)
    jobs = [each.name.removesuffix("-0") for each in leaders]
    assert [each.id.unit for each in made] == [job.replace(js.name, "job") for job in jobs]
    assert all(each.is_complete and each.one_domain == TOPOLOGY for each in made)
    assert seats(made[1]) == {"leader": (1, 1, [(f"{jobs[1]}-0", 0)]), "follower": (2, 0, [])}
    assert made[0].final_because == ""


def test_followers_take_their_places_behind_the_leader():
    js = js_of("jobset/exclusive-placement.yaml")
    first, *_ = all_gangs(js, expand(js).values())
    assert first.id.unit == "job-slice-0"
    assert seats(first)["follower"][2] == [("racks-slice-0-1", 0), ("racks-slice-0-2", 1)]


@pytest.mark.parametrize("where", ["the JobSet", "the replicatedJob"])
def test_with_the_node_selector_strategy_nobody_waits_for_a_leader(where):
    keys = {jobset.EXCLUSIVE: TOPOLOGY, jobset.BY_NODE_SELECTOR: "true"}
    job = replicated_job("workers", 2, 3, annotations=keys if where == "the replicatedJob" else {})
    js = jobset_of([job], annotations=keys if where == "the JobSet" else {})
    (one,) = all_gangs(js, expand(js).values())
    assert (one.id.unit, one.seats, one.one_domain) == ("", 6, "")


def test_exclusive_placement_of_one_replicated_job_leaves_the_others_together():
    js = jobset_of([
        replicated_job("driver", 1, 1),
        replicated_job("workers", 2, 2, annotations={jobset.EXCLUSIVE: TOPOLOGY}),
    ])  # fmt: skip
    made = {each.id.unit: seats(each) for each in all_gangs(js, expand(js).values())}
    assert set(made) == {"", "job-workers-0", "job-workers-1"}
    assert made[""] == {"driver": (1, 1, [("train-driver-0-0", 0)])}


def test_a_restart_is_another_generation_of_the_same_owner(manifests):
    path = manifests / "jobset/failure-policy.yaml"
    js = js_of(path)
    old, new = (all_gangs(js, expand(js, attempt=attempt).values()) for attempt in (0, 1))
    assert [asked(each) for each in old] == wanted(path)[:1]
    assert [each.id.generation for each in (*old, *new)] == ["0", "1"]
    assert old[0].id.uid == new[0].id.uid
    assert parse_comment(old[0].id.comment()) == old[0].id


def test_in_order_holds_the_places_of_all_from_the_first_wave_on():
    js = js_of("jobset/startup-driver-ready.yaml")
    (first,) = all_gangs(js, expand(js, "lead").values())
    assert asked(first) == (5, 5, 640, 0)  # the two jobs of the manifest as one
    assert first.is_complete
    assert seats(first) == {"lead": (1, 1, [("in-order-lead-0-0", 0)]), "follow": (4, 0, [])}
    (both,) = all_gangs(js, expand(js).values())
    assert both.id == first.id
    assert [member.index for member in both.roles[1].members] == [0, 1, 2, 3]


def test_what_waits_for_complete_is_a_job_of_its_own_and_what_waits_for_ready_is_not():
    js = js_of("jobset/depends-on.yaml")
    made = []
    for wave in ("fetch", "lead"):
        (one,) = all_gangs(js, expand(js, wave).values())
        made.append(one)
        assert one.is_complete
    assert [each.id.unit for each in made] == ["stage-fetch", "stage-lead"]
    # The three jobs of the manifest: lead and follow run at the same time, so they are one.
    assert [asked(each) for each in made] == [(1, 1, 128, 0), (5, 5, 640, 0)]
    assert seats(made[1])["follow"] == (4, 0, [])
    assert made[1].kind == "JobSet default/staged, stage lead"


def test_stages_that_wait_for_the_same_are_one():
    js = jobset_of([
        replicated_job("data"), replicated_job("model"),
        replicated_job("node", depends_on={"data": "Complete", "model": "Complete"}),
        replicated_job("watch", depends_on={"node": "Ready"}),
        replicated_job("report", depends_on={"node": "Complete"}),
    ])  # fmt: skip
    made = {each.id.unit: seats(each) for each in all_gangs(js, expand(js).values())}
    assert {unit: list(roles) for unit, roles in made.items()} == {
        "stage-data": ["data", "model"],
        "stage-node": ["node", "watch"],
        "stage-report": ["report"],
    }
    assert {name: row[1] for name, row in made["stage-node"].items()} == {"node": 1, "watch": 0}


def test_the_coordinator_is_rank_0():
    js = js_of("jobset/coordinator.yaml")
    (one,) = all_gangs(js, expand(js).values())
    assert list(seats(one)) == ["lead", "rank"]
    turned = jobset_of([("w", 2, 2)], coordinator={"replicatedJob": "w", "jobIndex": 1, "podIndex": 0})
    (one,) = all_gangs(turned, expand(turned).values())
    assert [each.name for each in one.members] == ["train-w-1-0", "train-w-1-1", "train-w-0-0", "train-w-0-1"]


def test_more_completions_than_parallelism_take_places_by_seniority():
    js = jobset_of([replicated_job("w", 1, 2, completions=5)])
    third = msgspec.structs.replace(next(iter(expand(js).values())), metadata=_renamed(expand(js), "2"))
    done = [each for each in expand(js).values() if each.labels[jobset.POD_INDEX] == "1"]
    made = gang([third, *done], above(js, done))
    assert seats(made) == {"w": (2, 2, [("train-w-0-1", -1), ("train-w-0-2", -1)])}


def _renamed(pods, index):
    meta = next(iter(pods.values())).metadata
    labels = meta.labels | {jobset.POD_INDEX: index}
    return msgspec.structs.replace(meta, name=f"train-w-0-{index}", uid=f"uid-{index}", labels=labels)


def test_a_pod_whose_place_was_taken_away_is_no_member():
    js = jobset_of([("w", 1, 4)])
    pods = list(expand(js).values())
    smaller = jobset_of([("w", 1, 2)])
    made = families.assemble(families.identify(pods[0], above(js, pods)), pods, above(smaller, pods))
    assert [each.name for each in made.members] == ["train-w-0-0", "train-w-0-1"]


NO_RETRY = {"backoffLimit": 0}
DISRUPTED = [{"type": "DisruptionTarget"}]
NO_POLICY = "and the JobSet has no failurePolicy"
ALL_FAIL = "backoffLimit of w is 0, and its 4 evicted pods count as failed,"


def failure_rule(action):
    return {"podFailurePolicy": {"rules": [{"onPodConditions": DISRUPTED, "action": action}]}}


def policy(restarts, action="", **rule):
    return {"maxRestarts": restarts, "rules": [{"name": "r", "action": action, **rule}] if action else []}


@pytest.mark.parametrize(
    ("job", "policy", "restarts", "said"),
    [
        ({}, None, 0, ""),
        (NO_RETRY, None, 0, f"{ALL_FAIL} {NO_POLICY}"),
        ({"backoffLimit": 3}, None, 0, f"{ALL_FAIL.replace('is 0', 'is 3')} {NO_POLICY}"),
        ({"backoffLimitPerIndex": 0}, None, 0, f"backoffLimitPerIndex of w is 0, {NO_POLICY}"),
        ({"backoffLimitPerIndex": 1}, None, 0, ""),
        (NO_RETRY | failure_rule("Ignore"), None, 0, ""),
        (failure_rule("FailJob"), None, 0, f"podFailurePolicy of w fails it when a pod is evicted, {NO_POLICY}"),
        (NO_RETRY, policy(3), 0, ""),
        (NO_RETRY, policy(3), 3, f"{ALL_FAIL} and 3 of 3 restarts are used"),
        (NO_RETRY, {}, 0, f"{ALL_FAIL} and 0 of 0 restarts are used"),
        (NO_RETRY, policy(3, "FailJobSet"), 0, f"{ALL_FAIL} and a rule of its failurePolicy fails the JobSet"),
        (NO_RETRY, policy(3, "FailJobSet", targetReplicatedJobs=["x"]), 0, ""),
        (NO_RETRY, policy(0, "RestartJobSetAndIgnoreMaxRestarts"), 0, ""),
    ],
)
def test_it_is_told_whether_evicted_pods_come_back(job, policy, restarts, said):
    said_policy = {} if policy is None else {"failurePolicy": policy}
    status = {"restartsCountTowardsMax": restarts}
    js = jobset_of([replicated_job("w", 1, 4, **job)], status=status, **said_policy)
    (one,) = all_gangs(js, expand(js).values())
    assert one.final_because == said


def succeed(pods):
    """The pods, when their containers have ended well."""
    return [
        msgspec.structs.replace(each, status=msgspec.structs.replace(each.status, phase="Succeeded")) for each in pods
    ]


TRUE = "True"


@pytest.mark.parametrize(
    ("what", "expects"),
    [
        ({}, True),
        ({"spec": {"suspend": True}}, False),
        ({"status": {"conditions": [{"type": "Failed", "status": TRUE}]}}, False),
        ({"status": {"conditions": [{"type": "Completed", "status": TRUE}]}}, False),
        ({"status": {"conditions": [{"type": "Suspended", "status": TRUE}]}}, True),
        ({"status": {"restarts": 1}}, False),
        ({"status": {"replicatedJobsStatus": [{"name": "w", "succeeded": 2}]}}, False),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, False),
    ],
)
def test_it_expects_more_pods_while_its_owner_does(what, expects):
    js = jobset_of([("w", 2, 2)], status=what.get("status"), **what.get("spec", {}))
    if "deletionTimestamp" in what:
        js = msgspec.structs.replace(js, metadata=msgspec.structs.replace(js.metadata, deletion_timestamp="now"))
    (one,) = all_gangs(js, list(expand(js).values())[:1])
    assert one.expects_more is expects


def test_a_stage_whose_pods_have_all_succeeded_expects_no_more_though_the_jobset_goes_on():
    js = js_of("jobset/depends-on.yaml")
    (one,) = all_gangs(js, succeed(expand(js, "fetch").values()))
    assert not one.expects_more
    js = js_of("jobset/exclusive-placement.yaml")
    first, *_ = all_gangs(js, succeed(expand(js).values()))
    assert not first.expects_more


def test_the_roles_of_the_success_policy_decide():
    js = jobset_of(
        [("driver", 1, 1), ("w", 1, 2)], successPolicy={"operator": "All", "targetReplicatedJobs": ["driver"]}
    )
    (one,) = all_gangs(js, expand(js).values())
    assert {role.name: role.decides for role in one.roles} == {"driver": True, "w": False}


def test_of_a_stage_that_the_success_policy_does_not_name_all_decide():
    jobs = [replicated_job("data"), replicated_job("w", depends_on={"data": "Complete"})]
    js = jobset_of(jobs, successPolicy={"operator": "All", "targetReplicatedJobs": ["w"]})
    assert [role.decides for each in all_gangs(js, expand(js).values()) for role in each.roles] == [True, True]


def test_options_come_from_the_first_pod_of_each_role_and_from_all_owners():
    js = js_of("jobset/coordinator.yaml")
    js = msgspec.structs.replace(
        js, metadata=msgspec.structs.replace(js.metadata, annotations={"sunkpy.dev/account": "ml"})
    )
    (one,) = all_gangs(js, expand(js).values())
    assert one.options.account == "ml"


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ([("w", -1, 4)], ": spec.replicatedJobs[w].replicas is -1, and must be at least 0"),
        ([("w", 1, -4)], ": spec.replicatedJobs[w].template.spec.parallelism is -4, and must be at least 0"),
        ([("w", 0, 4)], " declares 0 pods, and a gang has at least 1"),
        ([("w", 60000, 60000)], too_many("", 3600000000)),
        (
            [(f"r{number}", 1, 1) for number in range(65)],
            ": spec.replicatedJobs has 65 entries, and a gang at most 64: make several gangs",
        ),
        ([("v", 1, 4)], " has no replicatedJob w, which pod train-w-0-0 names as its own"),
    ],
)
def test_a_broken_size_is_told_and_not_submitted(spec, said):
    good = jobset_of([("w", 1, 1)])
    pods = list(expand(good).values())
    made = gang(pods, above(jobset_of(spec), pods))
    assert problems(made) == [f"JobSet default/train{said}"]
    assert made.members == tuple(pods)


def test_a_jobset_that_cannot_be_read_is_told_with_the_same_identity():
    js = jobset_of([("w", 1, 2)])
    pods = list(expand(js).values())
    for owners in ((), (job_of(js, "train-w-0"),)):
        made = gang(pods, owners)
        assert made.id == GangId(namespace="default", name="train", uid="uid-of-train", generation="0")
        assert problems(made) == [
            "JobSet default/train could not be read, and only it says how many pods there will be"
        ]


def test_labels_alone_make_no_member():
    js = jobset_of([("w", 1, 1)])
    (member,) = expand(js).values()
    bare = msgspec.structs.replace(member, metadata=msgspec.structs.replace(member.metadata, owner_references=()))
    lone_job = owner({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train-w-0"}})
    assert jobset.FAMILY.identify(bare, ()) is None
    assert jobset.FAMILY.identify(member, (lone_job,)) is None


def test_numbers_as_quantities_and_nulls_are_read_as_the_apiserver_keeps_them():
    container = {"resources": {"limits": {"cpu": 2, "memory": "1Gi"}, "requests": {"cpu": 0.5}}}
    job = replicated_job("w", 1, 3, depends_on={"d": "Ready"}, completionMode=None)
    job["template"]["spec"]["template"]["spec"] = {"containers": [container], "nodeSelector": None}
    js = jobset_of([("d", 1, 1), job])
    (one,) = all_gangs(js, expand(js, "d").values())
    assert one.roles[1].shape.containers[0].resources.requests == {"cpu": "0.5"}
    assert asked(one) == (4, 4, 128 + 3 * 1024, 0)


# --------------------------------------------------------------------------------------------------- Trainer v2


def train_jobset(path):
    """The JobSet that Trainer makes of a TrainJob and its runtime, which may stand in another file."""
    documents = [*manifest(path), *manifest(path.with_name("runtime-torch.yaml"))]
    train = next(each for each in documents if each["kind"] == "TrainJob")
    runtime = next(each for each in documents if each["metadata"]["name"] == train["spec"]["runtimeRef"]["name"])
    nodes = train["spec"]["trainer"]["numNodes"]
    if (runtime["spec"]["mlPolicy"].get("mpi") or {}).get("runLauncherAsNode"):
        nodes -= 1
    jobs = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    for job in jobs:
        count = nodes if job["name"] == "node" else 1
        job["template"]["spec"] |= {"parallelism": count, "completions": count}
        if job["name"] == "node" and (each := train["spec"]["trainer"].get("resourcesPerNode")):
            job["template"]["spec"]["template"]["spec"]["containers"][0]["resources"] = each
    train = owner(train)
    document = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {"replicatedJobs": jobs}}
    metadata = {"name": train.name, "ownerReferences": references([train])}
    return owner(document | {"metadata": metadata}), train


@pytest.mark.parametrize(
    ("name", "waves"),
    [
        ("trainer/trainjob-multi-node.yaml", [["node"]]),
        ("trainer/trainjob-multi-step.yaml", [["dataset-initializer"], ["node"]]),
        ("trainer/trainjob-mpi-two-waves.yaml", [["node"]]),
    ],
)
def test_a_trainjob_becomes_the_jobs_that_it_should(name, waves, manifests):
    js, train = train_jobset(manifests / name)
    made = [one for wave in waves for one in all_gangs(js, expand(js, *wave).values(), train)]
    assert sorted(asked(each) for each in made) == wanted(manifests / name)
    assert all(each.is_complete and each.final_because == "" for each in made)
    assert made[0].kind.startswith(f"TrainJob default/{train.name}")


def test_the_launcher_of_a_trainjob_has_its_place_before_it_exists():
    js, train = train_jobset(OWN / "trainer/trainjob-mpi-two-waves.yaml")
    (first,) = all_gangs(js, expand(js, "node").values(), train)
    assert {name: row[:2] for name, row in seats(first).items()} == {"node": (2, 2), "launcher": (1, 0)}


def test_who_is_suspended():
    js, train = train_jobset(OWN / "trainer/trainjob-multi-node.yaml")
    pods = list(expand(js).values())
    assert gang(pods, above(js, pods, train)).suspension == Suspension(owner=train)
    # The TrainJob cannot be read: it would resume the JobSet at once.
    assert gang(pods, above(js, pods)).suspension is None
    free = jobset_of([("w", 1, 1)])
    pods = list(expand(free).values())
    assert gang(pods, above(free, pods)).suspension == Suspension(owner=free)
