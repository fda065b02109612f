"""SparkApplications as the operator submits them, and pods as `spark-submit` makes them."""

import pytest

from sunkpy.core.gang.families import spark
from sunkpy.core.gang.gang import Suspension
from tests.unit.core.gang.families.wanted import left_out, pod_size, size, wanted
from tests.unit.core.gang.families.workload import gang, gangs, manifest, owner, pod, seats

PODS = {"requests": {"cpu": "1", "memory": "896Mi"}}
"""What Spark asks for 512m: 512 MiB and 384 MiB of overhead."""


PI = "spark-operator/spark-pi.yaml"
BY_LOAD = "spark-operator/spark-pi-dynamic-allocation.yaml"


def application(path=PI, **fields):
    (document,) = manifest(path)
    document["spec"].update(fields)
    return document


def labels(role, document, submission="one"):
    return {
        "spark-role": role,
        "spark-app-selector": f"spark-{submission}",
        "sparkoperator.k8s.io/app-name": document["metadata"]["name"],
        "sparkoperator.k8s.io/submission-id": submission,
    }


def pods_of(document, *, executors=0, submission="one"):
    """The driver that the operator submits, and `executors` executors that the driver made."""
    above = owner(document)
    template = {"spec": {"containers": [{"name": "spark", "resources": PODS}]}}
    name = document["metadata"]["name"]
    driver = pod(f"{name}-driver", owned_by=(above,), template=template, labels=labels("driver", document, submission))
    made = [
        pod(
            f"{name}-exec-{number}",
            template=template,
            labels=labels("executor", document, submission),
            creationTimestamp=f"2026-01-01T00:00:{number:02}Z",
            ownerReferences=[
                {"apiVersion": above.api_version, "kind": above.kind, "name": above.name, "uid": above.uid},
                {"apiVersion": "v1", "kind": "Pod", "name": driver.name, "uid": driver.uid, "controller": True},
            ],
        )
        for number in range(1, executors + 1)
    ]
    return [driver, *made], (above,)


@pytest.mark.parametrize(("name", "executors"), [(PI, 1), (BY_LOAD, 2), ("spark-operator/spark-pi-volcano.yaml", 2)])
def test_driver_and_first_executors_are_one_job_in_two_waves(name, executors, manifests):
    path = manifests / name
    first, owners = pods_of(application(path))
    (made,) = gangs(first, owners)
    assert [size(made)] == wanted(path)
    assert made.is_complete
    later, owners = pods_of(application(path), executors=executors)
    (whole,) = gangs(later, owners)
    assert whole.id == made.id
    assert [size(whole)] == wanted(path)
    assert [(role.name, role.first, role.decides) for role in whole.roles] == [
        ("driver", 1, True),
        ("executor", 0, False),
    ]


def test_each_pod_of_spark_submit_is_a_job(manifests):
    path = manifests / "spark-native/10-driver.shape.yaml"
    (driver,) = manifest_pods(path)
    (made,) = gangs([driver])
    assert [size(made)] == wanted(path)
    assert made.kind == f"Spark driver default/{driver.name}"
    assert made.final_because == "spark-submit makes no driver again"
    path = manifests / "spark-native/20-executors.shape.yaml"
    executors = gangs(manifest_pods(path))
    assert [each.seats for each in executors] == [1, 1, 1]
    assert [executors[0].final_because, executors[0].suspension] == ["", None]
    sums = [sum(column) for column in zip(*(size(each) for each in executors), strict=True)]
    assert [tuple(sums)] == wanted(path)


def manifest_pods(path):
    return [
        pod(each["metadata"]["name"], spec=each["spec"], labels=each["metadata"]["labels"]) for each in manifest(path)
    ]


def test_an_executor_beyond_the_first_has_no_place_until_one_ends():
    document = application(BY_LOAD)
    pods, owners = pods_of(document, executors=3)
    made = gang(pods, owners)
    (extra,) = left_out(pods, made)
    assert (extra.name, pod_size(extra)) == ("count-by-load-exec-3", (1, 1, 896))
    lost = [pods[0], *pods[2:]]
    assert seats(gang(lost, owners))["executor"][2] == [
        ("count-by-load-exec-2", -1),
        ("count-by-load-exec-3", -1),
    ]


def test_each_submission_is_a_generation():
    first, owners = pods_of(application())
    second, _ = pods_of(application(), submission="two")
    ids = gang(first, owners).id, gang(second, owners).id
    assert [each.generation for each in ids] == ["one", "two"]
    assert ids[0].uid == ids[1].uid == "uid-of-count"


def test_executors_of_an_older_operator_find_the_application_by_its_name():
    pods, owners = pods_of(application(), executors=1)
    bare = pod("exec", labels=labels("executor", application()))
    assert gang([bare], owners).id == gang(pods, owners).id
    assert spark.FAMILY.refers(bare)[0].key == ("default", "count")
    assert spark.FAMILY.refers(pod("web", labels={"sparkoperator.k8s.io/app-name": "count"})) == ()


def test_in_client_mode_the_executors_are_all_there_is():
    pods, owners = pods_of(application(mode="client"), executors=1)
    made = gang(pods[1:], owners)
    assert [(role.name, role.seats, role.first, role.decides) for role in made.roles] == [("executor", 1, 1, True)]


def test_in_client_mode_the_job_begins_with_the_first_executor_though_none_is_declared():
    by_load = application(mode="client", dynamicAllocation={"enabled": True}, executor={})
    pods, owners = pods_of(by_load, executors=2)
    made = gang(pods[1:], owners)
    assert (made.seats, len(made.members), made.refused) == (1, 1, "")


@pytest.mark.parametrize(
    ("fields", "executors"),
    [
        ({"executor": {}}, 2),
        ({"executor": {"instances": 4}}, 4),
        ({"executor": {}, "sparkConf": {"spark.executor.instances": "5"}}, 5),
        ({"executor": {"instances": 4}, "sparkConf": {"spark.executor.instances": "5"}}, 4),
        ({"executor": {}, "dynamicAllocation": {"enabled": True}}, 0),
        ({"executor": {"instances": 1}, "dynamicAllocation": {"enabled": True, "minExecutors": 3}}, 3),
        ({"executor": {"instances": 4}, "dynamicAllocation": {"enabled": True, "initialExecutors": 3}}, 4),
        ({"executor": {}, "dynamicAllocation": {"enabled": False, "minExecutors": 3}}, 2),
        (
            {
                "executor": {},
                "sparkConf": {
                    "spark.dynamicAllocation.enabled": "true",
                    "spark.dynamicAllocation.minExecutors": "6",
                },
            },
            6,
        ),
    ],
)
def test_the_driver_starts_with_as_many_executors_as_spark_says(fields, executors):
    pods, owners = pods_of(application(**fields))
    assert seats(gang(pods, owners))["executor"][0] == executors


@pytest.mark.parametrize(
    ("executor", "fields", "mib"),
    [
        ({"memory": "512m"}, {}, 512 + 384),
        ({"memory": "512M"}, {}, 512 + 384),
        ({"memory": "512"}, {}, 512 + 384),
        ({"memory": "524288k"}, {}, 512 + 384),
        ({}, {}, 1024 + 384),
        ({"memory": "8g"}, {}, 8192 + 819),
        ({"memory": "8gb", "memoryOverhead": "1g"}, {}, 8192 + 1024),
        ({"memory": "8g"}, {"type": "Python"}, 8192 + 3276),
        ({"memory": "8g"}, {"type": "Python", "memoryOverheadFactor": "0.2"}, 8192 + 1638),
        ({"memory": "8g"}, {"sparkConf": {"spark.executor.memoryOverheadFactor": "0.5"}}, 8192 + 4096),
        ({}, {"sparkConf": {"spark.executor.memory": "2g"}}, 2048 + 384),
        (
            {"memory": "1g"},
            {"sparkConf": {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "1073741824"}},
            1024 + 384 + 1024,
        ),
        (
            {"memory": "1g"},
            {"type": "Python", "sparkConf": {"spark.executor.pyspark.memory": "256m"}},
            1024 + 409 + 256,
        ),
    ],
)
def test_sizes_are_read_as_java_writes_them(executor, fields, mib):
    pods, owners = pods_of(application(executor={"instances": 1} | executor, **fields))
    (_, executors) = gang(pods, owners).roles
    assert executors.shape.containers[0].resources.requests["memory"] == f"{mib}Mi"


def test_a_place_has_the_cores_gpus_and_nodes_that_the_executor_asks():
    executor = {
        "instances": 1,
        "cores": 4,
        "coreRequest": "3500m",
        "gpu": {"name": "nvidia.com/gpu", "quantity": 2},
        "nodeSelector": {"pool": "gpu"},
        "template": {"spec": {"containers": [{"name": "log", "resources": {"requests": {"cpu": 1}}}]}},
    }
    pods, owners = pods_of(application(executor=executor))
    shape = gang(pods, owners).roles[1].shape
    assert [container.name for container in shape.containers] == ["spark-kubernetes-executor", "log"]
    assert shape.containers[0].resources.requests["cpu"] == "3500m"
    assert shape.containers[0].resources.limits == {"nvidia.com/gpu": "2"}
    assert shape.containers[1].resources.requests == {"cpu": "1"}
    assert shape.node_selector == {"pool": "gpu"}


@pytest.mark.parametrize(
    ("policy", "final"),
    [
        ({}, True),
        ({"type": "Never"}, True),
        ({"type": "OnFailure"}, True),
        ({"type": "OnFailure", "onFailureRetries": 3}, False),
        ({"type": "Always"}, False),
    ],
)
def test_losing_the_driver_is_final_unless_the_operator_submits_again(policy, final):
    pods, owners = pods_of(application(restartPolicy=policy))
    made = gang(pods, owners)
    assert bool(made.final_because) == final
    assert made.suspension == Suspension(owner=owners[0])
    if policy.get("type") == "OnFailure" and final:
        assert made.final_because == (
            "SparkApplication default/count ends when its driver does: restartPolicy is OnFailure and allows no retry"
        )


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (
            {"executor": {"instances": 0}},
            "executor.instances, without dynamic allocation, is 0, and must be at least 1",
        ),
        ({"executor": {"instances": -1}}, "executor.instances is -1, and must be at least 0"),
        (
            {"dynamicAllocation": {"enabled": True, "minExecutors": 9, "maxExecutors": 2}},
            "dynamicAllocation.minExecutors 9 is above dynamicAllocation.maxExecutors 2",
        ),
        (
            {"executor": {}, "sparkConf": {"spark.executor.instances": "many"}},
            "sparkConf spark.executor.instances: 'many' is not a number",
        ),
        (
            {"executor": {"memory": "1.5g"}},
            "executor.memory: '1.5g' is not a size as Java writes it, such as 512m or 2g",
        ),
        (
            {"executor": {"memory": "9" * 5000}},
            f"executor.memory: '{'9' * 40}' is not a size as Java writes it, such as 512m or 2g",
        ),
        ({"executor": {"instances": 1, "cores": 0}}, "executor.cores is 0, and must be at least 1"),
        (
            {"executor": {"instances": 1, "coreRequest": "two"}},
            "executor.coreRequest: 'two' is not a Kubernetes quantity: write a number with m, k, M, G, Ki, Mi, Gi …",
        ),
        ({"memoryOverheadFactor": "lots"}, "memoryOverheadFactor: 'lots' is not a factor such as 0.1"),
    ],
)
def test_a_contradiction_is_refused_by_name(fields, why):
    pods, owners = pods_of(application(**fields))
    assert gang(pods, owners).refused == f"SparkApplication default/count: {why}"


def test_without_its_application_the_size_is_not_known():
    pods, owners = pods_of(application())
    assert gang(pods).id == gang(pods, owners).id
    assert gang(pods).refused == (
        "SparkApplication default/count could not be read, and only it says how many pods there will be"
    )
