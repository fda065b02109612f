"""Volcano Jobs as Volcano's controller makes their pods; PodGroups of people and other operators."""

import json

import pytest

from sunkpy.core.gang.families import volcano
from tests.unit.core.gang.families.wanted import left_out, pod_size, size, wanted
from tests.unit.core.gang.families.workload import gang, gangs, manifest, owner, pod, seats, too_many

ALL = None


SAMPLES = [f"volcano/{name}.yaml" for name in ("job", "mpi", "tf-dist-mnist", "elastic", "depends-on")]
HALF, LAUNCHED, WITH_SERVER, _, CHAIN = SAMPLES


def volcano_job(path=HALF, **fields):
    (document,) = manifest(path)
    document["spec"].update(fields)
    return document


def pods_of(document, *, tasks=ALL, version=0, **status):
    """All pods of the Job, or those of the tasks that have come."""
    above = owner(document | {"status": status})
    made = []
    for task in document["spec"]["tasks"]:
        if tasks is ALL or task["name"] in tasks:
            made += [_pod(above, task, index, version) for index in range(task["replicas"])]
    return made, (above,)


def _pod(above, task, index, version):
    return pod(
        f"{above.name}-{task['name']}-{index}",
        owned_by=(above,),
        template=task["template"],
        annotations={
            "volcano.sh/task-spec": task["name"],
            "volcano.sh/task-index": str(index),
            "volcano.sh/job-version": str(version),
            "scheduling.k8s.io/group-name": f"{above.name}-{above.uid}",
        },
        uid=f"uid-of-{task['name']}-{index}-v{version}",
    )


def jobs_of(pods, owners):
    """The job of each gang, then one for each pod that has no place."""
    made = gangs(pods, owners)
    return [size(each) for each in made] + [pod_size(extra) for each in made for extra in left_out(pods, each)]


@pytest.mark.parametrize("name", SAMPLES)
def test_the_samples_become_the_jobs_that_are_wanted(name, manifests):
    pods, owners = pods_of(volcano_job(manifests / name))
    assert jobs_of(pods, owners) == wanted(manifests / name)


def test_the_first_replicas_by_index_have_the_places():
    pods, owners = pods_of(volcano_job())
    made = gang(list(reversed(pods)), owners)
    assert seats(made)["rank"] == (
        3,
        3,
        [("half-rank-0", 0), ("half-rank-1", 1), ("half-rank-2", 2)],
    )
    assert made.kind == "Volcano Job default/half"
    assert gang(pods[:2], owners).is_complete is False


BELOW_ONE = {"mode": "hard", "highestTierAllowed": 1}


def no_tiers(field):
    return [f"{field} is not read, because Slurm knows no tiers: ask for sunkpy.dev/switches: 1"]


@pytest.mark.parametrize(
    ("topology", "told"),
    [(None, []), ({"mode": "soft"}, no_tiers("spec.networkTopology")), (BELOW_ONE, no_tiers("spec.networkTopology"))],
)
def test_who_wants_to_be_below_one_hyper_node_is_told_what_to_ask_for(topology, told):
    made = gang(*pods_of(volcano_job(networkTopology=topology)))
    assert ([str(problem) for problem in made.problems], made.refused) == (told, "")


def test_so_is_who_wants_it_for_a_part_of_the_job():
    document = volcano_job()
    policy = {"totalPartitions": 3, "partitionSize": 1, "networkTopology": BELOW_ONE}
    document["spec"]["tasks"][0]["partitionPolicy"] = policy
    made = gang(*pods_of(document))
    assert [str(problem) for problem in made.problems] == no_tiers("spec.tasks[].partitionPolicy.networkTopology")


def test_tasks_that_depend_on_others_come_later_into_places_that_wait():
    document = volcano_job(CHAIN, minAvailable=11)
    document["spec"]["tasks"].reverse()
    pods, owners = pods_of(document, tasks=("one",))
    made = gang(pods, owners)
    assert [(role.name, role.seats, role.first) for role in made.roles] == [
        ("one", 1, 1),
        ("two", 5, 0),
        ("three", 5, 0),
    ]
    assert made.is_complete
    assert size(made) == (11, 11, 11 * 128)
    assert made.expects_more
    whole = gang(*pods_of(document))
    assert whole.id == made.id
    assert not whole.expects_more


def test_a_chain_of_tasks_is_put_in_order():
    chain = [task(f"t{number}", 1, dependsOn={"name": [f"t{number - 1}"]}) for number in range(1, 64)]
    document = volcano_job(CHAIN, minAvailable=64, tasks=[*reversed(chain), task("t0", 1)])
    pods, owners = pods_of(document, tasks=("t0",))
    roles = gang(pods, owners).roles
    assert [role.name for role in roles] == [f"t{number}" for number in range(64)]
    assert [role.first for role in roles] == [1] + [0] * 63


@pytest.mark.parametrize(("phase", "more"), [("Running", True), ("Completed", False), ("Failed", False)])
def test_a_job_that_is_over_makes_no_later_task(phase, more):
    document = volcano_job(CHAIN, minAvailable=11)
    pods, owners = pods_of(document, tasks=("one",), state={"phase": phase})
    assert gang(pods, owners).expects_more is more


def test_a_restart_is_a_generation():
    first, owners = pods_of(volcano_job())
    again, _ = pods_of(volcano_job(), version=1)
    ids = gang(first, owners).id, gang(again, owners).id
    assert [each.generation for each in ids] == ["0", "1"]
    assert len(gangs([*first, *again], owners)) == 2


@pytest.mark.parametrize(
    ("minimum", "tasks", "wanted_places"),
    [
        (3, [("worker", 9, None), ("master", 1, None)], {"worker": 3}),
        (3, [("worker", 9, 2), ("master", 1, 1)], {"worker": 2, "master": 1}),
        (5, [("worker", 9, 2), ("master", 1, 1)], {"worker": 4, "master": 1}),
        (2, [("worker", 9, 2), ("master", 1, 1)], {"worker": 2}),
        (0, [("worker", 9, 2), ("master", 1, None)], {"worker": 2, "master": 1}),
        (0, [("worker", 2, None), ("master", 1, None)], {"worker": 2, "master": 1}),
    ],
)
def test_minima_of_tasks_count_when_the_job_has_room_for_them(minimum, tasks, wanted_places):
    document = volcano_job(minAvailable=minimum, tasks=[task(*each) for each in tasks])
    made = gang(*pods_of(document))
    assert {role.name: role.seats for role in made.roles} == wanted_places


def task(name, replicas, least=None, **fields):
    own = {"name": name, "replicas": replicas, "template": {"spec": {"containers": [{"name": "c"}]}}, **fields}
    return own if least is None else own | {"minAvailable": least}


@pytest.mark.parametrize(("name", "deciders"), [(LAUNCHED, ["launcher"]), (WITH_SERVER, ["learner"])])
def test_the_task_that_completes_the_job_decides(name, deciders):
    made = gang(*pods_of(volcano_job(name)))
    assert [role.name for role in made.roles if role.decides] == deciders


@pytest.mark.parametrize(
    ("policies", "final"),
    [
        ([], ""),
        ([{"event": "PodEvicted", "action": "RestartJob"}], ""),
        (
            [{"event": "PodEvicted", "action": "TerminateJob"}],
            "Volcano Job default/half answers PodEvicted with TerminateJob",
        ),
        ([{"events": ["*"], "action": "AbortJob"}], "Volcano Job default/half answers * with AbortJob"),
        ([{"event": "TaskCompleted", "action": "CompleteJob"}], ""),
    ],
)
def test_an_eviction_is_final_where_a_policy_ends_the_job(policies, final):
    assert gang(*pods_of(volcano_job(policies=policies))).final_because == final


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"minAvailable": 7}, ": minAvailable 7 is above the 6 replicas of all tasks"),
        ({"minAvailable": -1}, ": minAvailable is -1, and must be at least 0"),
        ({"minAvailable": 0, "tasks": [task("a", 0)]}, ": minAvailable is 0, and must be at least 1"),
        ({"tasks": [task("a", -1)]}, ": task a: replicas is -1, and must be at least 0"),
        ({"tasks": [task("a", 3, 4)]}, ": task a: minAvailable 4 is above its 3 replicas"),
        ({"tasks": [task("a", 3), task("a", 3)]}, ": two tasks are called a"),
        (
            {"tasks": [task("a", 3, dependsOn={"name": ["b"]})]},
            ": task a: dependsOn names b, which is no task of the Job",
        ),
        (
            {"tasks": [task("a", 3, dependsOn={"name": ["b"]}), task("b", 3, dependsOn={"name": ["a"]})]},
            ": tasks depend on one another in a circle: a, b",
        ),
        ({"minAvailable": 70_000, "tasks": [task("a", 99_999)]}, too_many("", 70000)),
        (
            {"tasks": [task(f"t{number}", 1) for number in range(65)]},
            ": spec.tasks has 65 entries, and a gang at most 64: make several gangs",
        ),
    ],
)
def test_a_contradiction_is_refused_by_name(fields, why):
    pods, _ = pods_of(volcano_job())
    made = gang(pods, (owner(volcano_job(**fields)),))
    assert made.refused == f"Volcano Job default/half{why}"
    assert len(made.members) == 6


def test_without_its_job_the_size_is_not_known():
    pods, owners = pods_of(volcano_job())
    assert gang(pods).id == gang(pods, owners).id
    assert gang(pods).refused == (
        "Volcano Job default/half could not be read, and only it says how many pods there will be"
    )


def pod_group(name="training", *, owned_by=None, phase=None, **spec):
    references = [] if owned_by is None else [{"kind": owned_by.kind, "uid": owned_by.uid, "controller": True}]
    return owner(
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": name, "ownerReferences": references},
            "spec": spec,
            "status": {} if phase is None else {"phase": phase},
        }
    )


def grouped(name, group="training", *, of="", **fields):
    annotations = {"scheduling.k8s.io/group-name": group} | ({"volcano.sh/task-spec": of} if of else {})
    return pod(name, annotations=annotations, **fields)


def test_a_pod_group_has_min_member_places_for_the_eldest():
    pods = [grouped(f"p{number}", creationTimestamp=f"2026-01-01T00:00:0{number}Z") for number in (2, 0, 1)]
    made = gang(pods, (pod_group(minMember=2),))
    assert seats(made)["pod"] == (2, 2, [("p0", -1), ("p1", -1)])
    assert [each.name for each in left_out(pods, made)] == ["p2"]
    assert made.final_because == "nothing makes a bare pod again"
    assert volcano.POD_GROUP_FAMILY.refers(pods[0])[0].key == ("default", "training")


def test_a_pod_group_keeps_its_identity_when_it_is_made_anew():
    pods = [grouped("p0"), grouped("p1")]
    assert gang(pods, (pod_group(minMember=2),)).id == gang(pods).id
    assert gang(pods).refused == (
        "Volcano PodGroup default/training could not be read, and only it says how many pods there will be"
    )


def test_two_names_of_groups_are_never_one_identity():
    ids = {gang([grouped("p", group)]).id for group in ("a b", "a/b", "a-b", "x" * 80, "x" * 81)}
    assert len(ids) == 5


def test_so_is_who_wants_it_for_a_pod_group():
    fields = {"networkTopology": BELOW_ONE, "subGroupPolicy": [{"name": "a"}, {"networkTopology": BELOW_ONE}]}
    made = gang([grouped("p0")], (pod_group(minMember=1, **fields),))
    told = [*no_tiers("spec.networkTopology"), *no_tiers("spec.subGroupPolicy[].networkTopology")]
    assert [str(problem) for problem in made.problems] == told


def test_minima_of_the_tasks_of_a_pod_group_are_kept_apart():
    pods = [grouped(f"w{n}", of="worker") for n in range(3)] + [grouped("ps", of="ps"), grouped("other")]
    made = gang(pods, (pod_group(minMember=4, minTaskMember={"ps": 1, "worker": 2}),))
    assert {role.name: role.seats for role in made.roles} == {"ps": 1, "worker": 2, "pod": 1}
    ignored = gang(pods, (pod_group(minMember=2, minTaskMember={"ps": 1, "worker": 2}),))
    assert {role.name: role.seats for role in ignored.roles} == {"pod": 2}


def test_a_group_that_volcano_made_by_itself_declares_nothing():
    deployed = owner({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"}})
    named = {"scheduling.k8s.io/group-name": "podgroup-uid-of-web"}
    assert volcano.POD_GROUP_FAMILY.identify(pod("web-1", owned_by=(deployed,), annotations=named), ()) is None
    bare = pod("web-2", annotations={"scheduling.k8s.io/group-name": "podgroup-uid-of-web-2"})
    assert volcano.POD_GROUP_FAMILY.identify(bare, ()) is None


@pytest.mark.parametrize("least", [0, -3])
def test_a_pod_group_of_nobody_is_refused(least):
    made = gang([grouped("p0")], (pod_group(minMember=least),))
    assert made.refused == f"Volcano PodGroup default/training: minMember is {least}, and must be at least 1"


@pytest.mark.parametrize(
    ("phase", "bound", "then"),
    [
        (None, 0, "Inqueue"),
        ("Pending", 0, "Inqueue"),
        ("Pending", 1, "Inqueue"),
        ("Pending", 2, "Running"),
        ("Inqueue", 0, None),
        ("Inqueue", 1, None),
        ("Inqueue", 2, "Running"),
        ("Unknown", 1, None),
        ("Unknown", 2, "Running"),
        ("Running", 0, None),
        ("Running", 2, None),
        ("Completed", 0, None),
    ],
)
def test_the_phase_goes_on_as_pods_are_wanted_and_bound(phase, bound, then):
    assert volcano.phase_wanted(pod_group(minMember=2, phase=phase), bound=bound) == then


def test_a_group_without_a_minimum_runs_with_its_first_pod():
    assert volcano.phase_wanted(pod_group(), bound=0) == "Inqueue"
    assert volcano.phase_wanted(pod_group(minMember=0), bound=0) == "Inqueue"
    assert volcano.phase_wanted(pod_group(minMember=0), bound=1) == "Running"


def test_a_group_that_nobody_can_read_is_left_alone():
    assert volcano.phase_wanted(pod_group(minMember="two"), bound=0) is None


@pytest.mark.parametrize("name", SAMPLES)
def test_jobs_that_name_our_scheduler_are_ours(name, manifests):
    made = owner(volcano_job(manifests / name))
    assert volcano.names_scheduler(made, {"slurm"})
    assert not volcano.names_scheduler(made, {"volcano"})


@pytest.mark.parametrize(
    ("spec", "schedulers", "ours"),
    [
        ({"tasks": [{"template": {"spec": {"schedulerName": "slurm"}}}]}, {"slurm"}, True),
        ({"schedulerName": "volcano", "tasks": [{"template": {"spec": {"schedulerName": "slurm"}}}]}, {"slurm"}, True),
        ({"pytorchReplicaSpecs": {"Worker": {"template": {"spec": {"schedulerName": "slurm"}}}}}, {"slurm"}, True),
        ({"worker": {"template": {"spec": {"schedulerName": "other"}}}}, {"slurm", "volcano"}, False),
        ({"worker": {"template": {"spec": {}}}}, {"slurm"}, False),
        ({"worker": {"template": {"spec": {"schedulerName": ""}}}}, {"slurm", "volcano"}, True),
        ({"schedulerName": 7, "other": None}, {"slurm"}, False),
    ],
)
def test_any_template_can_name_our_scheduler_and_silence_means_volcano(spec, schedulers, ours):
    above = owner({"apiVersion": "x/v1", "kind": "It", "metadata": {"name": "it"}, "spec": spec})
    assert volcano.names_scheduler(above, schedulers) is ours


def test_a_deep_spec_is_walked_without_recursion():
    deep = json.loads('{"a":' * 400 + '{"schedulerName":"slurm"}' + "}" * 400)
    above = owner({"apiVersion": "x/v1", "kind": "It", "metadata": {"name": "it"}, "spec": deep})
    assert volcano.names_scheduler(above, {"slurm"})
