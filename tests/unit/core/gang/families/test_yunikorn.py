"""Task groups of YuniKorn."""

from __future__ import annotations

import json

import pytest

from sunkpy.core.gang.families import yunikorn
from tests.manifests import OWN
from tests.unit.core.gang.families.makers import bare, documents, job, jobs_of, seen, sums, wanted
from tests.unit.core.gang.families.workload import gang, manifest, pod, seats

DRIVER = "yunikorn/spark-10-driver.shape.yaml"


def spark(folder):
    """The driver, and the executors that come when it runs."""
    (driver,) = manifest(folder / DRIVER)
    executors = manifest(folder / "yunikorn/spark-20-executors.shape.yaml")
    return bare(driver), [bare(each, n + 1) for n, each in enumerate(executors)]


def test_a_job_whose_pods_declare_their_group(manifests):
    path = manifests / "yunikorn/gang-job.yaml"
    owners, pods = job(documents(path)["Job"])
    (made,) = jobs_of(pods, owners)
    assert seen([made]) == wanted(path)
    assert (made.kind, made.final_because) == (f"YuniKorn application default/{pods[0].labels['applicationId']}", "")


def test_the_driver_alone_has_places_for_its_executors(manifests):
    driver, executors = spark(manifests)
    made = gang([driver])
    assert seen([made]) == wanted(manifests / DRIVER)
    assert made.is_complete
    of_driver, of_executor = (each.annotations[yunikorn.GROUP] for each in (driver, executors[0]))
    assert seats(made) == {of_driver: (1, 1, [(driver.name, -1)]), of_executor: (2, 0, [])}
    (whole,) = jobs_of([*executors, driver])
    assert sums(whole) == sums(made)
    assert whole.members == (driver, *executors)


def test_executors_beyond_the_minimum_are_jobs_of_their_own():
    driver, executors = spark(OWN)
    more = pod("late", labels=executors[0].labels, annotations=executors[0].annotations, creationTimestamp="2027")
    gangs = jobs_of([driver, *executors, more])
    assert [(each.seats, each.id.unit) for each in gangs] == [(3, ""), (1, "extra-uid-of-late")]


def test_an_application_without_task_groups_is_no_gang():
    assert len(jobs_of([pod(f"p-{n}", labels={"applicationId": "a"}) for n in range(2)])) == 2


def declared(groups, **annotations):
    text = groups if isinstance(groups, str) else json.dumps(groups)
    said = {yunikorn.GROUPS: text, **{yunikorn.PREFIX + key.replace("_", "-"): v for key, v in annotations.items()}}
    return pod("first", labels={"applicationId": "a"}, annotations=said)


def test_a_first_pod_in_no_group_has_a_place_beside_them():
    made = gang([declared([{"name": "w", "minMember": 2}])])
    assert seats(made) == {"first pod": (1, 1, [("first", -1)]), "w": (2, 0, [])}


def test_the_annotation_names_the_application_before_the_label():
    one = declared([{"name": "w", "minMember": 2}], app_id="b")
    assert gang([one]).kind == "YuniKorn application default/b"


def test_places_have_the_shape_of_their_group():
    group = {"name": "w", "minMember": 1, "minResource": {"cpu": 2, "memory": "1Gi"}, "nodeSelector": {"a": "b"}}
    (_, role) = gang([declared([group])]).roles
    assert (role.shape.containers[0].resources.requests, role.shape.node_selector) == (
        {"cpu": "2", "memory": "1Gi"},
        {"a": "b"},
    )


def test_pods_that_nobody_declared_wait_for_the_first():
    made = gang([pod("e", labels={"applicationId": "a"}, annotations={yunikorn.GROUP: "w"})])
    assert made.refused == "none of the pods of application a declares yunikorn.apache.org/task-groups"


@pytest.mark.parametrize(
    ("groups", "text"),
    [
        ("[", "cannot be read: Input data was truncated"),
        ("{}", "cannot be read: Expected `array`, got `object`"),
        ([{"name": "w"}], "cannot be read: Object missing required field `minMember` - at `$[0]`"),
        ([{"name": "w", "minMember": "2"}], "cannot be read: Expected `int`, got `str` - at `$[0].minMember`"),
        ([{"name": "w", "minMember": 0}], "minMember of 'w': 0 pods are no gang: at least 1"),
        ([{"name": "w", "minMember": -1}], "minMember of 'w': -1 pods are no gang: at least 1"),
        (
            [{"name": f"w{number}", "minMember": 1} for number in range(65)],
            "it has 65 entries, and a gang at most 64: make several gangs",
        ),
        *(
            (
                [{"name": "w", "minMember": 1, "minResource": {"memory": amount}}],
                f"minResource of 'w': '{amount[:30]}' is no amount of memory",
            )
            for amount in ("1X", "-1", "1e99", "1e999999999", "9" * 5000)
        ),
        ("[" + '{"x":' * 100_000, "cannot be read: maximum recursion depth exceeded while deserializing an object"),
        ([{"name": "w", "minMember": 1}] * 2, "a task group is named twice: w, w"),
        ([], "0 pods are no gang: at least 1"),
        ([{"name": "v", "minMember": 1}], "there is no task group 'w' in it"),
    ],
)
def test_a_broken_declaration(groups, text):
    made = gang([declared(groups, task_group_name="w")])
    assert [(str(each), each.fatal) for each in made.problems] == [
        (f"annotation yunikorn.apache.org/task-groups: {text}", True)
    ]
    assert len(made.members) == 1
