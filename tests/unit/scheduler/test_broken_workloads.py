"""Workloads that cannot be, all at once in one cluster: what a person reads, and that it costs the others nothing.

Nothing is submitted for them; nothing is repeated, however often they are looked at; a good gang among them runs.
"""

import asyncio
import contextlib
import json

import pytest

from sunkpy.core.gang.access import AccessRule
from sunkpy.core.gang.identity import parse_comment
from sunkpy.kube.kinds import KindTimes
from sunkpy.scheduler.jobs import writer
from sunkpy.scheduler.pods import index as members
from tests.unit.core.gang.families.workload import too_many
from tests.unit.scheduler import world as world_module
from tests.unit.scheduler.test_owners import add
from tests.unit.scheduler.world import World, leading

KINDS = (
    ("batch/v1", "Job", "jobs"),
    ("jobset.x-k8s.io/v1alpha2", "JobSet", "jobsets"),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "leaderworkersets"),
    ("apps/v1", "StatefulSet", "statefulsets"),
    ("kubeflow.org/v1", "PyTorchJob", "pytorchjobs"),
    ("ray.io/v1", "RayCluster", "rayclusters"),
    ("sparkoperator.k8s.io/v1beta2", "SparkApplication", "sparkapplications"),
    ("batch.volcano.sh/v1alpha1", "Job", "vcjobs"),
    ("scheduling.x-k8s.io/v1alpha1", "PodGroup", "podgroups"),
    ("scheduling.k8s.io/v1alpha1", "Workload", "workloads"),
    ("example.com/v1", "Loop", "loops"),
)
PLURALS = {kind if "volcano" not in version else "VCJob": (version, kind, plural) for version, kind, plural in KINDS}

GANG, SIZE, ROLES, ROLE = (f"sunkpy.dev/gang{part}" for part in ("", "-size", "-roles", "-role"))
YUNIKORN = "yunikorn.apache.org/task-groups"
PASSES = 12


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setattr(members, "LEFT_OUT_S", 0.05)
    # What Slurm refuses is tried again, but not for having been looked at.
    monkeypatch.setattr(writer, "_REJECTED_FIRST_S", 3600.0)
    allowed = AccessRule(namespaces=("*",), partitions=("low", "ghost"), accounts=("*",), qos=("*",))
    monkeypatch.setattr(world_module, "OPEN", allowed)
    world = World()
    world.hasten(kinds=KindTimes(patience_s=0.05), unidentified_told_after_s=0.4)
    for version, kind, plural in KINDS:
        world.api.define(version, kind, plural)
    for number in (1, 2, 3):
        world.add_node(number)
    world.slurm.unknown = {"nobody": 2045, "ghost": 2000}
    return world


def make(world, kind, name, spec=None, **more):
    """An owner, as its people or its operator's webhook left it."""
    version, kind, plural = PLURALS[kind]
    return add(world, plural, kind, version, name, spec=spec, **more)


def annotated(**said):
    """A bare pod that says itself what its gang is."""

    def build(world, name):
        said_of = {SIZE: said.get("size"), ROLES: said.get("roles"), ROLE: said.get("role")}
        world.add_pod(name, annotations={GANG: name} | {key: text for key, text in said_of.items() if text is not None})

    return build


def asks(**pod):
    """A pod alone."""
    return lambda world, name: world.add_pod(name, **pod)


def options(**asked):
    return asks(annotations={f"sunkpy.dev/{key.replace('_', '-')}": text for key, text in asked.items()})


def jobset(spec, attempt="0"):
    def build(world, name):
        owner = make(world, "JobSet", name, spec)
        job = make(world, "Job", f"{name}-w-0", owner=owner)
        labels = {"replicatedjob-name": "w", "job-index": "0", "restart-attempt": attempt, "jobset-name": name}
        world.add_pod(name, labels={f"jobset.sigs.k8s.io/{key}": text for key, text in labels.items()}, owner=job)

    return build


def lws(size, group="key"):
    def build(world, name):
        make(world, "LeaderWorkerSet", name, {"leaderWorkerTemplate": {"size": 2}})
        own = make(world, "StatefulSet", name)
        prefix = "leaderworkerset.sigs.k8s.io/"
        labels = {"name": name, "group-key": group, "group-index": "0", "worker-index": "0"}
        world.add_pod(
            name,
            labels={prefix + key: text for key, text in labels.items()},
            annotations={prefix + "size": size},
            owner=own,
        )

    return build


def owned(kind, spec, labels=None, annotations=None):
    def build(world, name):
        world.add_pod(name, labels=labels, annotations=annotations, owner=make(world, kind, name, spec))

    return build


def ray(*groups, head=None):
    labels = {"ray.io/node-type": "head"}
    template = {"spec": head or {}}
    return owned("RayCluster", {"headGroupSpec": {"template": template}, "workerGroupSpecs": list(groups)}, labels)


def spark(**spec):
    labels = {"spark-role": "driver", "spark-app-selector": "a"}
    return owned("SparkApplication", spec, labels)


def volcano(**spec):
    return owned("VCJob", spec, annotations={"volcano.sh/task-spec": "w", "volcano.sh/task-index": "0"})


def torch(replicas, **spec):
    labels = {"training.kubeflow.org/replica-type": "worker", "training.kubeflow.org/replica-index": "0"}
    return owned("PyTorchJob", {"pytorchReplicaSpecs": {"Worker": {"replicas": replicas}}} | spec, labels)


def yunikorn(groups):
    text = groups if isinstance(groups, str) else json.dumps(groups)
    name = "yunikorn.apache.org/task-group-name"
    return lambda world, case: world.add_pod(
        case, labels={"applicationId": case}, annotations={YUNIKORN: text, name: "w"}
    )


def kueue(count):
    return lambda world, name: world.add_pod(
        name,
        labels={"kueue.x-k8s.io/pod-group-name": name},
        annotations={"kueue.x-k8s.io/pod-group-total-count": count},
    )


def pod_group(spec):
    def build(world, name):
        if spec is not None:
            make(world, "PodGroup", name, spec)
        world.add_pod(name, labels={"scheduling.x-k8s.io/pod-group": name})

    return build


def disagree(world, name):
    for number, size in enumerate("23"):
        world.add_pod(f"{name}-{number}", annotations={GANG: name, SIZE: size})


def in_a_circle(world, name):
    one = make(world, "Loop", name, uid=f"{name}-1")
    other = make(world, "Loop", f"{name}-2", owner=one, uid=f"{name}-2")
    make(world, "Loop", name, owner=other, uid=f"{name}-1")
    world.add_pod(name, annotations={GANG: name, SIZE: "0"}, owner=one)


def orphan_of(kind, api_version):
    gone = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "gone", "uid": "gone-1"}}
    return lambda world, name: world.add_pod(name, owner=gone)


def several_namespaces(world, name):
    for namespace in ("default", "other"):
        annotations = {GANG: "same", SIZE: "2"}
        body = {"metadata": {"name": name, "namespace": namespace, "annotations": annotations}}
        containers = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
        world.put("pods", body | {"spec": {"schedulerName": "slurm", "containers": containers}, "status": {}})


def two_groups(world, name):
    make(world, "PodGroup", name, {"minMember": 2})
    labels = {"scheduling.x-k8s.io/pod-group": name, "pod-group.scheduling.sigs.k8s.io": f"{name}-other"}
    world.add_pod(name, labels=labels)


def same_number_twice(world, name):
    job = make(world, "Job", name)
    for number in (0, 1):
        labels = {"batch.kubernetes.io/job-completion-index": "0"}
        world.add_pod(f"{name}-{number}", labels=labels, annotations={GANG: name, SIZE: "2"}, owner=job)


def deleted_while_waiting(world, name):
    world.add_pod(name, annotations={GANG: name, SIZE: "2"}, deleted=True)


def torn_partitions(world, name):
    for number, partition in enumerate(("low", "ghost")):
        annotations = {GANG: name, SIZE: "2", "sunkpy.dev/partition": partition}
        world.add_pod(f"{name}-{number}", annotations=annotations)


CASES = {
    "torn": (
        torn_partitions,
        "annotation sunkpy.dev/partition: the pods of a gang are one Slurm job and must agree: "
        "torn-0 says 'low', torn-1 says 'ghost'",
    ),
    "size-zero": (
        annotated(size="0"),
        "annotation sunkpy.dev/gang-size: 0 pods are no gang: at least 1",
    ),
    "size-negative": (
        annotated(size="-3"),
        "annotation sunkpy.dev/gang-size: '-3' is not a number of pods",
    ),
    "size-text": (
        annotated(size="three"),
        "annotation sunkpy.dev/gang-size: 'three' is not a number of pods",
    ),
    "size-arabic": (
        annotated(size="\u0663"),
        "annotation sunkpy.dev/gang-size: '٣' is not a number of pods",
    ),
    "size-huge": (
        annotated(size="10000000"),
        too_many("gang default/size-huge", 10_000_000),
    ),
    "size-missing": (
        annotated(),
        "annotation sunkpy.dev/gang-size: missing: write how many pods gang default/size-missing has",
    ),
    "size-empty": (
        annotated(size=" "),
        "annotation sunkpy.dev/gang-size: missing: write how many pods gang default/size-empty has",
    ),
    "sizes-disagree": (
        disagree,
        (
            "annotation sunkpy.dev/gang-size: pods of a gang must agree: sizes-disagree-0 says '2', "
            "sizes-disagree-1 says '3'"
        ),
    ),
    "size-against-roles": (
        annotated(size="5", roles="a=1,b=2", role="a"),
        "annotation sunkpy.dev/gang-size: is 5, but sunkpy.dev/gang-roles adds up to 3",
    ),
    "roles-nonsense": (
        annotated(roles="a=1,,b", role="a"),
        "annotation sunkpy.dev/gang-roles: '' is not a role: write name=count, as in leader=1,worker=4",
    ),
    "role-twice": (
        annotated(roles="a=1,a=2", role="a"),
        "annotation sunkpy.dev/gang-roles: role a is named twice",
    ),
    "role-of-none": (
        annotated(roles="a=1", role="z"),
        "annotation sunkpy.dev/gang-role: pod role-of-none has the role 'z', which is not declared: use one of a",
    ),
    "role-unsaid": (
        annotated(roles="a=1"),
        "annotation sunkpy.dev/gang-role: pod role-unsaid has no role: use one of a",
    ),
    "fits-nowhere": (
        asks(cpu="64"),
        "none of 3 Slurm nodes fits: 3 lacks cpu: needs 64, has 4",
    ),
    "quantity-nonsense": (
        asks(cpu="lots"),
        (
            "plain pod default/quantity-nonsense cannot be read: 'lots' is not a Kubernetes quantity: write a "
            "number with m, k, M, G, Ki, Mi, Gi …"
        ),
    ),
    "quantity-endless": (
        asks(cpu="1e999999999"),
        (
            "plain pod default/quantity-endless cannot be read: '1e999999999' is too long for a quantity, or its "
            "exponent too large"
        ),
    ),
    "comment-lines": (
        options(comment="a\nk8s:default/good:uid"),
        "annotation sunkpy.dev/comment: only printable characters on one line are allowed",
    ),
    "job-name-shell": (
        options(job_name="x; rm -rf /"),
        "annotation sunkpy.dev/job-name: 'x; rm -rf /' is not a name: only letters, digits and _ . @ : - are allowed",
    ),
    "comment-large": (
        options(comment="x" * 200_000),
        "annotation sunkpy.dev/comment: it is longer than 1024 characters",
    ),
    "account-unknown": (
        options(account="nobody"),
        (
            "submit job account-unknown (partition low, account nobody): no (Slurm error 2045) [job/submit: "
            "HTTP 422]; name an account the user is associated with in `sacctmgr`"
        ),
    ),
    "partition-unknown": (
        options(partition="ghost"),
        (
            "submit job partition-unknown (partition ghost): no (Slurm error 2000) [job/submit: HTTP 422]; "
            "name a partition that `sinfo` lists"
        ),
    ),
    "partition-forbidden": (
        options(partition="secret"),
        (
            "annotation sunkpy.dev/partition: namespace default may not use partition secret: it may use "
            "low, ghost; an administrator can allow more in scheduler.access of the Slurm cluster"
        ),
    ),
    "jobset-empty": (
        jobset({}),
        "JobSet default/jobset-empty has no replicatedJob w, which pod jobset-empty names as its own",
    ),
    "jobset-negative": (
        jobset({"replicatedJobs": [{"name": "w", "replicas": -1}]}),
        "JobSet default/jobset-negative: spec.replicatedJobs[w].replicas is -1, and must be at least 0",
    ),
    "jobset-no-list": (
        jobset({"replicatedJobs": "many"}),
        "JobSet default/jobset-no-list cannot be read: Expected `array`, got `str` - at `$.replicatedJobs`",
    ),
    "jobset-huge": (
        jobset({"replicatedJobs": [{"name": "w", "replicas": 10_000_000}]}),
        too_many("JobSet default/jobset-huge", 10_000_000),
    ),
    "jobset-nobody": (
        jobset({"replicatedJobs": [{"name": "w", "replicas": 0}]}),
        "JobSet default/jobset-nobody declares 0 pods, and a gang has at least 1",
    ),
    "lws-size-text": (
        lws("two"),
        "LeaderWorkerSet default/lws-size-text: the size of group 0 is 'two', and must be a number above 0",
    ),
    "lws-size-zero": (
        lws("0"),
        "LeaderWorkerSet default/lws-size-zero: the size of group 0 is '0', and must be a number above 0",
    ),
    "tolerations-many": (
        asks(tolerations=[{"key": f"k{number}", "operator": "Exists"} for number in range(101)]),
        "pod tolerations-many has 101 tolerations, and may have at most 100",
    ),
    "singleton": (
        options(dependency="singleton"),
        "annotation sunkpy.dev/dependency: singleton would wait for jobs of other namespaces, too, because "
        "namespace default has no Slurm user of its own. Leave it out, or ask an administrator for a Slurm user of the "
        "namespace: scheduler.access of the Slurm cluster",
    ),
    "kueue-zero": (
        kueue("0"),
        (
            "Kueue pod group default/kueue-zero: annotation "
            "kueue.x-k8s.io/pod-group-total-count is '0': write how many pods the group has"
        ),
    ),
    "kueue-text": (
        kueue("all"),
        (
            "Kueue pod group default/kueue-text: annotation "
            "kueue.x-k8s.io/pod-group-total-count is 'all': write how many pods the group has"
        ),
    ),
    "yunikorn-no-json": (
        yunikorn("{"),
        "annotation yunikorn.apache.org/task-groups: cannot be read: Expected `array`, got `object`",
    ),
    "yunikorn-deep": (
        yunikorn("[" * 100_000),
        ("annotation yunikorn.apache.org/task-groups: cannot be read: Expected `object`, got `array` - at `$[0]`"),
    ),
    "yunikorn-types": (
        yunikorn([{"name": 1, "minMember": "2"}]),
        ("annotation yunikorn.apache.org/task-groups: cannot be read: Expected `str`, got `int` - at `$[0].name`"),
    ),
    "yunikorn-amount": (
        yunikorn([{"name": "w", "minMember": 1, "minResource": {"cpu": "lots"}}]),
        "annotation yunikorn.apache.org/task-groups: minResource of 'w': 'lots' is no amount of cpu",
    ),
    "yunikorn-stranger": (
        yunikorn([{"name": "other", "minMember": 1}]),
        "annotation yunikorn.apache.org/task-groups: there is no task group 'w' in it",
    ),
    "ray-no-hosts": (
        ray({"groupName": "g", "replicas": 1, "numOfHosts": 0}),
        "RayCluster default/ray-no-hosts: worker group g: numOfHosts is 0, and must be at least 1",
    ),
    "ray-negative": (
        ray({"groupName": "g", "replicas": -1}),
        "RayCluster default/ray-negative: worker group g: replicas is -1, and must be at least 0",
    ),
    "ray-memory": (
        ray(head={"containers": [{"name": "h", "resources": {"requests": {"memory": "a lot"}}}]}),
        (
            "RayCluster default/ray-memory cannot be read: 'a lot' is not a Kubernetes quantity: write a "
            "number with m, k, M, G, Ki, Mi, Gi …"
        ),
    ),
    "spark-memory": (
        spark(driver={"memory": "plenty"}),
        (
            "SparkApplication default/spark-memory: driver.memory: 'plenty' is not a size as Java writes it, "
            "such as 512m or 2g"
        ),
    ),
    "spark-executors": (
        spark(sparkConf={"spark.executor.instances": "some"}),
        "SparkApplication default/spark-executors: sparkConf spark.executor.instances: 'some' is not a number",
    ),
    "volcano-too-many": (
        volcano(minAvailable=5, tasks=[{"name": "w", "replicas": 2}]),
        "Volcano Job default/volcano-too-many: minAvailable 5 is above the 2 replicas of all tasks",
    ),
    "volcano-circle": (
        volcano(tasks=[{"name": "w", "replicas": 1, "dependsOn": {"name": ["w"]}}]),
        "Volcano Job default/volcano-circle: tasks depend on one another in a circle: w",
    ),
    "torch-negative": (
        torch(-1),
        "PyTorchJob default/torch-negative: replicas of worker is -1, and must be at least 0",
    ),
    "torch-too-many": (
        torch(2, runPolicy={"schedulingPolicy": {"minAvailable": 9}}),
        "PyTorchJob default/torch-too-many: spec.runPolicy.schedulingPolicy.minAvailable is 9, more than the 2 pods",
    ),
    "group-zero": (
        pod_group({"minMember": 0}),
        "PodGroup default/group-zero: spec.minMember: 0 pods are no gang: at least 1",
    ),
    "group-text": (
        pod_group({"minMember": "all"}),
        ("scheduler-plugins PodGroup default/group-text cannot be read: Expected `int`, got `str` - at `$.minMember`"),
    ),
    "group-missing": (
        pod_group(None),
        "not scheduled yet: it belongs to PodGroup default/group-missing, which does not exist",
    ),
    "owners-in-a-circle": (
        in_a_circle,
        "annotation sunkpy.dev/gang-size: 0 pods are no gang: at least 1",
    ),
    "namespaces": (several_namespaces, "waits for 1 of 2 pods (pod 1 of 2)"),
    "two-groups": (two_groups, "waits for 1 of 2 pods (pod 1 of 2)"),
    "number-twice": (same_number_twice, "waits for 1 of 2 pods (pod 1 of 2)"),
    "gated": (asks(schedulingGates=[{"name": "example.com/later"}]), ""),
    "deleted": (deleted_while_waiting, ""),
}
"""How each is made, and what its people read in the end."""


def told(world, case):
    """The last note on the first pod of a case."""
    about = [event for event in world.events if event["regarding"]["name"] in (case, f"{case}-0")]
    return about[-1]["note"] if about else ""


def written(world, cases):
    """Versions of the pods of the cases, how many Events there are of them, and what Slurm was asked to write."""
    names = {name for case in cases for name in (case, f"{case}-0", f"{case}-1")}
    versions = {
        key: body["metadata"]["resourceVersion"]
        for key, body in world.api.objects.items()
        if key[0] == "pods" and key[2] in names
    }
    return versions, sum(event["regarding"]["name"] in names for event in world.events), list(world.slurm.writes)


async def settled(world, cases):
    """What is written in the end. The first pod of a case gets its message first, the others right after."""
    seen = None
    while (now := written(world, cases)) != seen:
        seen = now
        await asyncio.sleep(1.0)
    return now


async def test_what_cannot_be_is_told_once_and_costs_the_others_nothing(world, tmp_path):
    world.hasten(recheck_spread_s=0.0)
    expected = {case: note for case, (_, note) in CASES.items()}
    async with leading(world, tmp_path):
        for case, (build, _) in CASES.items():
            build(world, case)
        world.add_pod("good", annotations={GANG: "good", SIZE: "1"})
        with contextlib.suppress(TimeoutError, AssertionError):
            await world.until(lambda: {case: told(world, case) for case in CASES} == expected, within_s=120.0)
        assert {case: told(world, case) for case in CASES} == expected
        assert [job["name"] for job in world.submissions] == ["good"]
        before = await settled(world, CASES)
        for number in range(PASSES):
            node = {"name": "node-1", "labels": {"example.com/pass": str(number)}}
            world.put(
                "nodes", {"metadata": node, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}
            )
            world.add_pod(f"probe-{number}")
            await world.until(lambda name=f"probe-{number}": world.submissions[-1]["name"] == name, within_s=20.0)
        assert written(world, CASES) == before
        assert (world.cancelled, world.deleted, world.bindings) == ([], [], [])


async def test_when_the_broken_ones_go_nothing_of_them_is_left_to_stumble_over(world, tmp_path):
    async with leading(world, tmp_path):
        in_a_circle(world, "circle")
        await world.until(lambda: told(world, "circle"), within_s=20.0)
        world.pod_is_gone("circle")
        world.add_pod("good")
        await world.until(lambda: world.submissions, within_s=20.0)


async def test_what_says_too_little_is_submitted_as_it_is(world, tmp_path):
    """An owner that is gone or of a kind that nobody serves costs its options."""
    gone, strange = orphan_of("Loop", "example.com/v1"), orphan_of("Ghost", "ghosts.example.com/v1")
    cases = {"owner-gone": gone, "owner-strange": strange, "empty": asks(containers=[])}
    async with leading(world, tmp_path):
        for case, build in cases.items():
            build(world, case)
        evil = {GANG: "a\nk8s:default/owner-gone:uid", SIZE: "1", "sunkpy.dev/comment": "k8s:default/empty:uid-1"}
        world.add_pod("evil", annotations=evil)
        await world.until(lambda: len(world.submissions) == 4, within_s=20.0)
    jobs = {parse_comment(job["comment"]).name: job for job in world.submissions}
    assert jobs.keys() == {"owner-gone", "owner-strange", "empty", "a-k8s-default-owner-gone-uid"}
    assert jobs["a-k8s-default-owner-gone-uid"]["comment"].endswith(" k8s:default/empty:uid-1")
