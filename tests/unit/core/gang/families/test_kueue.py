"""Kueue's groups of plain pods, and the kinds that it only suspends."""

import copy

import pytest

from sunkpy.core.gang.families import kueue
from sunkpy.core.gang.gang import ANY_SEAT
from tests.unit.core.gang.families.wanted import left_out, pod_size, size, wanted
from tests.unit.core.gang.families.workload import gang, gangs, manifest, owner, pod, seats, too_many

GROUP = "kueue.x-k8s.io/pod-group-name"
COUNT = "kueue.x-k8s.io/pod-group-total-count"


def as_applied(document, name):
    """A pod of a manifest with text for amounts, as Kubernetes keeps it."""
    template = copy.deepcopy(document)
    for container in template["spec"]["containers"]:
        for amounts in container.get("resources", {}).values():
            amounts.update({key: str(amount) for key, amount in amounts.items()})
    return pod(name, template=template)


def test_the_group_of_the_sample_is_one_job_of_all_its_pods(manifests):
    path = manifests / "kueue/pod-group.yaml"
    leader, worker = (as_applied(each, each["metadata"]["generateName"] + "x") for each in manifest(path))
    (made,) = gangs([worker, leader])
    assert [size(made)] == wanted(path)
    assert made.is_complete
    assert not gang([leader]).is_complete
    assert made.kind == f"Kueue pod group default/{leader.labels[GROUP]}"
    assert made.final_because == "Kueue makes no pod of a group again"


def test_pods_of_a_job_that_kueue_lets_go_are_what_they_are(manifests):
    path = manifests / "kueue/job.yaml"
    (document,) = manifest(path)
    document["metadata"]["name"] = "sample-job"
    above = owner(document)
    template = document["spec"]["template"]
    pods = [pod(f"sample-job-{number}", owned_by=(above,), template=template) for number in range(3)]
    assert all(kueue.FAMILY.identify(each, (above,)) is None for each in pods)
    assert [pod_size(each) for each in pods] == wanted(path)


def test_pods_of_a_jobset_are_not_of_a_group():
    above = owner({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sleep-job-driver-0"}})
    made = pod("sleep-job-driver-0-0-x", owned_by=(above,), labels={"jobset.sigs.k8s.io/jobset-name": "sleep-job"})
    assert kueue.FAMILY.identify(made, (above,)) is None


def stateful_pods(path, **annotations):
    """Pods of the sample after Kueue's webhook has changed its template."""
    (document,) = manifest(path)
    above = owner(document)
    template = document["spec"]["template"]
    written = {COUNT: "3", kueue.FAST_ADMISSION: "true", "kueue.x-k8s.io/pod-group-serving": "true"} | annotations
    return [
        pod(
            f"{above.name}-{number}",
            owned_by=(above,),
            template=template,
            labels={GROUP: f"statefulset-{above.name}-0a1b2"},
            annotations=written,
        )
        for number in range(3)
    ], (above,)


@pytest.mark.parametrize("annotations", [{}, {kueue.SUSPENDING_PARENT: "statefulset"}])
def test_the_count_on_the_pods_of_a_stateful_set_is_not_waited_for(annotations, manifests):
    path = manifests / "kueue/statefulset.yaml"
    pods, owners = stateful_pods(path, **annotations)
    assert all(kueue.FAMILY.identify(each, owners) is None for each in pods)
    assert [size(each) for each in gangs(pods, owners)] == wanted(path)


def test_pods_whose_parent_kueue_suspends_are_of_their_parent():
    made = pod("x", labels={GROUP: "g"}, annotations={COUNT: "3", kueue.SUSPENDING_PARENT: "leaderworkerset"})
    assert kueue.FAMILY.identify(made, ()) is None


def members(count, *, total=None, **fields):
    return [
        pod(
            f"p{number}",
            labels={GROUP: "group"},
            annotations={COUNT: str(total or count)} | fields,
            creationTimestamp=f"2026-01-01T00:00:0{number}Z",
        )
        for number in range(count)
    ]


def test_fast_admission_needs_the_first_pod_only():
    (first,) = members(1, total=4, **{kueue.FAST_ADMISSION: "true"})
    made = gang([first])
    assert (made.seats, made.is_complete) == (4, True)


def test_a_pod_too_many_has_no_place():
    pods = members(3, total=2)
    assert [each.name for each in left_out(pods, gang(pods))] == ["p2"]


def test_numbered_pods_take_their_own_places():
    pods = [
        pod(f"p{index}", labels={GROUP: "group", kueue.POD_INDEX: str(index)}, annotations={COUNT: "3"})
        for index in (2, 0, 1)
    ]
    assert seats(gang(pods))["pod"] == (3, 3, [("p0", 0), ("p1", 1), ("p2", 2)])


@pytest.mark.parametrize("numbers", [("0", "2"), ("0", "x"), ("0", "")])
def test_a_number_that_is_no_place_of_the_group_makes_all_numbers_worthless(numbers):
    pods = [
        pod(f"p{at}", labels={GROUP: "group", kueue.POD_INDEX: number}, annotations={COUNT: "2"})
        for at, number in enumerate(numbers)
    ]
    assert seats(gang(pods))["pod"] == (2, 2, [("p0", ANY_SEAT), ("p1", ANY_SEAT)])


@pytest.mark.parametrize(
    ("counts", "why"),
    [
        (("2", "3"), f": annotation {COUNT} differs between its pods: '2' and '3'"),
        (("0", "0"), f": annotation {COUNT} is '0': write how many pods the group has"),
        (("-2", "-2"), f": annotation {COUNT} is '-2': write how many pods the group has"),
        (("two", "two"), f": annotation {COUNT} is 'two': write how many pods the group has"),
        (("", ""), f": annotation {COUNT} is '': write how many pods the group has"),
        (("70000", "70000"), too_many("", 70000)),
    ],
)
def test_a_contradiction_is_refused_by_name(counts, why):
    pods = [pod(f"p{n}", labels={GROUP: "group"}, annotations={COUNT: count}) for n, count in enumerate(counts)]
    assert gang(pods).refused == f"Kueue pod group default/group{why}"


def test_a_count_that_was_corrected_is_believed_when_the_old_pods_have_ended():
    old = pod("old", labels={GROUP: "group"}, annotations={COUNT: "9"}, status={"phase": "Failed"})
    assert gang([old, *members(2)]).seats == 2
