"""What people may write on pods and owners, and what must not come of it: names, numbers, templates, labels changed."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.gang.actions import Evict, Report
from sunkpy.core.gang.decide import decide_gang
from sunkpy.core.gang.families import assemble, identify, speaks_for
from sunkpy.core.gang.gang import ANY_SEAT, Gang, Member, Role
from sunkpy.core.gang.identity import GangId, gang_of, is_anothers, legible, parse_comment
from sunkpy.core.gang.job.request import Policy
from sunkpy.core.gang.snapshot import Snapshot
from sunkpy.core.model import quantity
from sunkpy.core.model.objects import Pod, PodSpec
from sunkpy.core.model.states import JobId, SlurmJob
from sunkpy.core.placement.eligibility import Eligibility
from tests.unit.core.gang.families.workload import owner, pod
from tests.unit.core.gang.jobs import change_job, make_job
from tests.unit.core.gang.pods import make_pod

POLICY = Policy(gpu_resources={})
FITS = Eligibility(eligible=("n1", "n2", "n3"))
RUNS = make_job("RUNNING", id=1, nodes=("n1", "n2", "n3"), tasks=3)
GROUP = "scheduling.x-k8s.io/pod-group"


def pod_group(least):
    return owner(
        {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": "g"}}
        | {"spec": {"minMember": least}}
    )


def member(number, *, node="", **more):
    return pod(f"p{number}", labels={GROUP: "g"}, spec={"nodeName": node}, creationTimestamp=f"{number:03}", **more)


def jobset(spec):
    made = owner({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "js"}})
    reference = {"apiVersion": made.api_version, "kind": made.kind, "name": made.name, "uid": made.uid}
    meta = {"name": "js-w-0", "ownerReferences": [reference | {"controller": True}]}
    job = owner({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta})
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": "w", "jobset.sigs.k8s.io/job-index": "0"}
    labels["batch.kubernetes.io/job-completion-index"] = "0"
    spec = spec if isinstance(spec, bytes) else json.dumps(spec).encode()
    return pod("w-0", owned_by=(job,), labels=labels), (job, msgspec.structs.replace(made, spec=msgspec.Raw(spec)))


def owned_by(kind, uid):
    reference = {"apiVersion": kind[0], "kind": kind[1], "name": "victim", "uid": uid, "controller": True}
    body = {"metadata": {"name": "p", "namespace": "default", "uid": "u", "ownerReferences": [reference]}, "spec": {}}
    return msgspec.json.decode(json.dumps(body), type=Pod)


@given(
    kind=st.sampled_from([
        ("batch.volcano.sh/v1alpha1", "Job"),
        ("kubeflow.org/v1", "PyTorchJob"),
        ("sparkoperator.k8s.io/v1beta2", "SparkApplication"),
        ("batch.paddlepaddle.org/v1", "PaddleJob"),
    ]),
    uid=st.text(max_size=12) | st.sampled_from(["a:b", "a b", "U/unit", "U@2", "U/unit@2", "", "x\nk8s:other/v:U"]),
)  # fmt: skip
def test_no_reference_makes_the_job_of_a_pod_unreadable_or_another_ones(kind, uid):
    id = identify(owned_by(kind, uid))
    assert parse_comment(id.comment("any text k8s:other/gang:uid")) == id
    assert (id.namespace, id.unit, id.generation) == ("default", "", "")


@given(st.builds(GangId, namespace=st.just("d"), name=st.text(), uid=st.text(), unit=st.text(), generation=st.text()))
def test_a_legible_identity_is_what_its_comment_says(id):
    assert parse_comment(legible(id).comment()) == legible(id) == legible(legible(id))


IDS = st.builds(
    GangId, namespace=st.just("chem"), name=st.sampled_from(["web", "a.b"]), uid=st.sampled_from(["u-1", "u-2"]),
    unit=st.sampled_from(["", "g0"]), generation=st.sampled_from(["", "2"]),
)  # fmt: skip
COMMENTS = (
    IDS.map(GangId.comment) | st.text(max_size=20) | st.sampled_from(["k8s:", "k8s:a/b:c", "k8s:chem/web:u-1;rm"])
)


@given(user=st.sampled_from(["ann", "root", "slurm", "K8S", ""]), comment=COMMENTS, admin_comment=COMMENTS)
def test_whatever_its_owner_writes_a_persons_job_is_what_slurmctld_sealed(user, comment, admin_comment):
    job = SlurmJob(id=JobId(1), user=user, comment=comment, admin_comment=admin_comment)
    assert gang_of(job, scheduler="k8s") == parse_comment(admin_comment)


@given(comment=COMMENTS, admin_comment=COMMENTS)
def test_the_schedulers_own_job_is_what_its_comment_says(comment, admin_comment):
    """Sites write into admin comments of their own."""
    job = SlurmJob(id=JobId(1), user="k8s", comment=comment, admin_comment=admin_comment)
    assert gang_of(job, scheduler="k8s") == parse_comment(comment)


OWN, OTHER = "k8s:default/web:uid-1", "k8s:default/web:uid-2"


@pytest.mark.parametrize(
    ("user", "comment", "admin_comment", "expected"),
    [
        ("k8s", OWN, "", False),
        ("ann", OWN, OWN, False),
        ("ann", OWN, "", False),  # not sealed: whether it is believed is another question
        ("ann", OWN, "by an administrator", False),
        ("ann", "by an administrator", OWN, False),
        ("k8s", "by an administrator", "", False),  # nobody else has jobs of that user
        ("k8s", OTHER, "", True),
        ("ann", OTHER, OTHER, True),
        ("ann", "", "", True),
    ],
)
def test_a_number_is_another_jobs_when_nothing_that_the_job_says_leads_to_the_gang(
    user, comment, admin_comment, expected
):
    job = SlurmJob(id=7, state=frozenset({"RUNNING"}), user=user, comment=comment, admin_comment=admin_comment)
    assert is_anothers(job, parse_comment(OWN), scheduler="k8s") is expected


@pytest.mark.parametrize("place", ["9" * 5000, "٣", "³", "-1", "1_0", " 1"])
def test_a_place_that_anybody_wrote_is_no_place(place):
    pods = [member(1, node="k1", annotations={"sunkpy.dev/place": f"pod/{place}"}), member(2)]
    gang = assemble(identify(pods[0]), pods, (pod_group(2),))
    snapshot = Snapshot(id=gang.id, gang=gang, jobs=(RUNS,), bound_to=1, placed={"uid-of-p1": "n1"}, eligibility=FITS)
    assert {uid: seat.id for uid, seat in snapshot.seating(RUNS).seats.items()} == {
        "uid-of-p1": ("pod", 0),
        "uid-of-p2": ("pod", 1),
    }


@pytest.mark.parametrize("text", ["1e99999", "1e999999999", "1e-999999999", "9" * 5000, "1" * 100_000 + "x"])
def test_no_quantity_takes_long_to_read(text):
    with pytest.raises(quantity.BadQuantity) as error:
        quantity.whole(text)
    assert len(str(error.value)) < 200


def asking_for(memory):
    """A JobSet whose second wave asks for this."""
    container = {"name": "c", "resources": {"requests": {"memory": memory}}}
    template = {"spec": {"template": {"spec": {"containers": [container]}}}}
    jobs = [{"name": "w", "replicas": 1}, {"name": "x", "replicas": 1, "template": template}]
    return {"replicatedJobs": jobs, "startupPolicy": {"startupPolicyOrder": "InOrder"}}


DEEP = b'{"replicatedJobs":[{"name":"w","x":' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}]}"


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (DEEP, "JobSet default/js cannot be read: maximum recursion depth exceeded"),
        (
            {"replicatedJobs": 3},
            "JobSet default/js cannot be read: Expected `array`, got `int` - at `$.replicatedJobs`",
        ),
        (asking_for("lots"), "JobSet default/js cannot be read: 'lots' is not a Kubernetes quantity"),
    ],
)
def test_an_owner_that_cannot_be_read_says_so_at_every_stage_of_its_gang(spec, says):
    one, owners = jobset(spec)
    gang = assemble(identify(one, owners), [one], owners)
    waiting = Snapshot(id=gang.id, gang=gang, eligibility=FITS)
    (report,) = decide_gang(waiting, POLICY)
    assert isinstance(report, Report)
    assert report.message.startswith(says)
    pending = make_job("PENDING", id=1, tasks=2)
    for job in (RUNS, pending):
        snapshot = msgspec.structs.replace(waiting, jobs=(job,))
        decide_gang(snapshot, POLICY)
        assert snapshot.seating(job).seats is not None


def test_pods_that_run_go_with_their_job_though_their_gang_is_declared_smaller_now():
    pods = [member(number, node=f"k{number}") for number in (1, 2, 3)]
    gang = assemble(identify(pods[0]), pods, (pod_group(2),))
    assert {pod.name for pod in gang.members} == {"p1", "p2", "p3"}
    assert gang.seats == 2
    placed = {f"uid-of-p{number}": f"n{number}" for number in (1, 2, 3)}
    ended = change_job(RUNS, state=frozenset({"PREEMPTED", "COMPLETING"}))
    snapshot = Snapshot(id=gang.id, gang=gang, jobs=(ended,), bound_to=1, placed=placed, eligibility=FITS)
    assert {action.pod.name for action in decide_gang(snapshot, POLICY) if isinstance(action, Evict)} == {
        "p1",
        "p2",
        "p3",
    }
    late = member(4)
    gang = assemble(gang.id, [*pods[1:], late], (pod_group(2),))
    snapshot = Snapshot(id=gang.id, gang=gang, jobs=(RUNS,), bound_to=1, placed=placed, eligibility=FITS)
    assert set(snapshot.seating(RUNS).seats) == {"uid-of-p2", "uid-of-p3"}


def test_a_pod_whose_label_was_taken_away_does_not_make_the_gang_another_one():
    pods = [member(number, node=f"k{number}") for number in (1, 2)]
    id, owners = identify(pods[0]), (pod_group(2),)
    changed = msgspec.structs.replace(pods[0], metadata=msgspec.structs.replace(pods[0].metadata, labels={}))
    assert speaks_for(id, pods[1], owners)
    assert not speaks_for(id, changed, owners)
    gang = assemble(id, [pods[1], changed], owners)
    assert {pod.name for pod in gang.members} == {"p1", "p2"}
    alone = assemble(id, [changed], owners)
    assert alone.members == (changed,)
    assert (
        alone.refused == "pod p1 does not say any more that it belongs to default/g: a label or annotation of the pod "
        "was changed, or an owner reference of the pod or of an object above it"
    )


ID = GangId(namespace="default", name="train", uid="uid-1")
OK, BAD = "Succeeded", "Failed"


def role(name, *phases, indexes=None, decides=True, seats=2):
    members = []
    for number, phase in enumerate(phases):
        pod = make_pod(f"{name}-{number}", uid=f"{name}-{number}", phase=phase)
        made = msgspec.structs.replace(
            pod, metadata=msgspec.structs.replace(pod.metadata, creation_timestamp=str(number))
        )
        members.append(Member(pod=made, index=indexes[number] if indexes else number))
    return Role(name=name, seats=seats, first=1, members=tuple(members), decides=decides)


@pytest.mark.parametrize(
    ("roles", "succeeded"),
    [
        ([role("worker", OK, OK)], True),
        ([role("worker", OK, BAD)], False),
        ([role("worker", OK), role("ps", BAD, decides=False)], True),
        ([role("worker"), role("ps", BAD, decides=False)], False),
        ([role("launcher", BAD, OK, indexes=(0, 0), seats=1)], True),
        ([role("launcher", OK, BAD, indexes=(0, 0), seats=1)], False),
        ([role("pod", BAD, OK, OK, indexes=(ANY_SEAT,) * 3)], True),
        ([role("pod", OK, OK, BAD, indexes=(ANY_SEAT,) * 3)], False),
    ],
)
def test_the_last_try_of_those_that_decide_counts(roles, succeeded):
    assert Gang(id=ID, roles=tuple(roles)).has_succeeded is succeeded


ALWAYS, NEVER = PodSpec(restart_policy="Always"), PodSpec(restart_policy="Never")


def serving(spec, *, shape=None, members=2):
    pods = [make_pod(f"p-{number}", uid=f"p-{number}", restart_policy=spec.restart_policy) for number in range(members)]
    return Role(name="pod", seats=2, first=1, members=tuple(Member(pod=pod) for pod in pods), shape=shape)


@pytest.mark.parametrize(
    ("roles", "has"),
    [
        ([serving(ALWAYS)], False),
        ([serving(ALWAYS, shape=ALWAYS)], False),
        ([serving(NEVER)], True),
        ([serving(PodSpec(restart_policy="OnFailure"))], True),
        ([serving(ALWAYS), serving(NEVER)], True),
        ([serving(ALWAYS), serving(ALWAYS, shape=NEVER, members=0)], True),
    ],
)
def test_a_job_has_an_exit_code_when_any_of_its_pods_can_end_by_itself(roles, has):
    assert Gang(id=ID, roles=tuple(roles)).has_exit_code is has
