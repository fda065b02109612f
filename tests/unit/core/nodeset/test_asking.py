"""What stands for nodes that are wanted, and how it follows the wish."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core import names
from sunkpy.core.model.growth import GrowthRequest, GrowthStatus
from sunkpy.core.model.times import rfc3339
from sunkpy.core.nodeset.asking import (
    ATOMIC,
    ChangeBuffer,
    Create,
    Means,
    NodesToCome,
    Remove,
    SayUnschedulable,
    StandIn,
    Told,
    child_name,
    decide_steps,
    describe_jobs,
    explain_missing,
    explain_refusal,
    wish_of,
)
from sunkpy.core.nodeset.spec import Ask, Gpu, Growth, NodeSet, NodeSetStatus
from tests.unit.core.nodeset.build import NOW, make_nodeset, make_template

TEMPLATE = make_template(
    requests={"cpu": "200m"}, nodeSelector={"pool": "gpu"}, tolerations=[{"key": "gpu"}], volumes=[]
)
PODS_ALONE = {Means.PLACEHOLDER: (), Means.TEMPLATE: ()}
BUFFERS = {**PODS_ALONE, Means.BUFFER: ()}
ALL = {**BUFFERS, Means.REQUEST: ()}
SAID = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def asking(ask=Ask.AUTO, *, wanted=0, counted=0, requests=(), potential=20, **spec):
    jobs = tuple(GrowthRequest(job=job, nodes=nodes) for job, nodes in requests)
    growth = GrowthStatus(wanted_nodes=wanted, counted_nodes=counted, requests=jobs)
    made = make_nodeset(template=TEMPLATE, status=NodeSetStatus(growth=growth), **spec)
    grown = msgspec.structs.replace(made.spec, growth=Growth(potential=potential, ask=ask))
    return msgspec.structs.replace(made, spec=grown)


def stored(body, **status) -> StandIn:
    metadata = {"uid": f"uid-{body['metadata']['name']}", "creationTimestamp": "2026-11-20T12:00:00Z"}
    whole = {**body, "metadata": {**body["metadata"], **metadata}, "status": status}
    return msgspec.convert(whole, StandIn)


def steps(nodeset: NodeSet, present, *, now=NOW, there=0):
    wish = wish_of(nodeset, there=there)
    return decide_steps(nodeset, wish, present, now)


def shown(found):
    """`+Pod gpu-wanted-1`, `-Pod …`: the steps in their order."""
    told = []
    for step in found:
        match step:
            case Create(means, body):
                told.append(f"+{means.kind} {body['metadata']['name']}")
            case Remove(means, old):
                told.append(f"-{means.kind} {old.name}")
            case ChangeBuffer(old, spec):
                told.append(f"~{old.name} {spec['replicas']}")
            case SayUnschedulable(old):
                told.append(f"!{old.name}")
    return told


def after(nodeset, present, **more):
    """What is there once the steps have been done, and no program has said anything."""
    there = {means: {each.name: each for each in found} for means, found in present.items()}
    for step in steps(nodeset, present, **more):
        match step:
            case Create(means, body):
                conditions = [SAID] if means is Means.PLACEHOLDER else []
                there[means][body["metadata"]["name"]] = stored(body, conditions=conditions)
            case Remove(means, old):
                del there[means][old.name]
            case ChangeBuffer(old, spec):
                new = msgspec.convert(spec, type(old.spec))
                there[Means.BUFFER][old.name] = msgspec.structs.replace(old, spec=new)
            case SayUnschedulable():
                pass
    return {means: tuple(found.values()) for means, found in there.items()}


# ------------------------------------------------------------------------------------------------------------ the wish


@pytest.mark.parametrize(
    ("nodeset", "there", "nodes"),
    [
        pytest.param(asking(wanted=3), 0, 3, id="as the status says"),
        pytest.param(asking(wanted=3), 2, 1, id="two have come, and the status is older"),
        pytest.param(asking(wanted=3, counted=1), 4, 0, id="it was written when one of three had been seen"),
        pytest.param(asking(wanted=3), 5, 0, id="more have come than were wanted"),
        pytest.param(asking(wanted=3, counted=2), 1, 3, id="one has gone: the syncer will say what that means"),
        pytest.param(asking(wanted=9, counted=4, replicas=5), 4, 1, id="nodes above replicas get no slurmd pod"),
        pytest.param(asking(wanted=9, counted=4, replicas=2), 4, 0, id="more than replicas are there"),
        pytest.param(asking(wanted=9, counted=4, potential=6), 4, 2, id="the potential was lowered since"),
        pytest.param(asking(wanted=9, counted=7, potential=6), 7, 0, id="more than its potential are there"),
        pytest.param(asking(wanted=9, counted=4, replicas=8, potential=6), 4, 2, id="the lower one counts"),
        pytest.param(asking(wanted=3, deleting=True), 0, 0, id="it is being deleted"),
        pytest.param(make_nodeset(), 0, 0, id="the syncer has said nothing"),
    ],
)
def test_what_is_asked_for_is_what_the_status_wants_and_has_not_come(nodeset, there, nodes):
    assert wish_of(nodeset, there=there).nodes == nodes


# -------------------------------------------------------------------------------------------------------- placeholders


def test_for_each_node_there_is_one_pod_that_nobody_binds():
    first, *others = steps(asking(Ask.PLACEHOLDERS, wanted=3), ALL)
    assert shown([first, *others]) == ["+Pod gpu-wanted-1", "+Pod gpu-wanted-2", "+Pod gpu-wanted-3"]
    spec = first.body["spec"]
    assert first.body["metadata"]["ownerReferences"] == [make_nodeset().reference], "no controller: it is no slurmd pod"
    assert names.LABEL_ROLE not in first.body["metadata"]["labels"]
    assert (spec["schedulerName"], spec["nodeSelector"], spec["tolerations"]) == (
        "sunkpy-placeholder", {"pool": "gpu"}, [{"key": "gpu"}],
    )  # fmt: skip
    assert spec["containers"] == [{"name": "slurmd", "image": "slurmd:1", "resources": {"requests": {"cpu": "200m"}}}]
    assert "volumes" not in spec
    assert "priorityClassName" not in spec, "the Cluster Autoscaler buys nothing for pods below -10"


def test_it_shares_its_node_neither_with_a_slurmd_pod_nor_with_its_like():
    (first, *_) = steps(asking(Ask.PLACEHOLDERS, wanted=1), ALL)
    terms = first.body["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    keys = [term["labelSelector"]["matchExpressions"][0]["key"] for term in terms]
    assert keys == [names.LABEL_ROLE, names.LABEL_WANTED]
    assert {term["topologyKey"] for term in terms} == {"kubernetes.io/hostname"}


def test_where_slurm_knows_gpus_the_node_has_to_have_one():
    nodeset = asking(Ask.PLACEHOLDERS, wanted=1, gpu=Gpu(type="h100"))
    (first,) = steps(nodeset, ALL)
    assert first.body["spec"]["containers"][0]["resources"] == {
        "requests": {"nvidia.com/gpu": "1", "cpu": "200m"}, "limits": {"nvidia.com/gpu": "1"},
    }  # fmt: skip


def test_as_nodes_come_placeholders_go_and_none_is_made_twice():
    nodeset = asking(Ask.PLACEHOLDERS, wanted=3)
    there = after(nodeset, ALL)
    assert shown(steps(nodeset, there)) == []
    assert shown(steps(nodeset, there, there=1)) == ["-Pod gpu-wanted-3"]
    assert shown(steps(nodeset, there, there=3)) == [f"-Pod gpu-wanted-{number}" for number in (1, 2, 3)]
    assert shown(steps(asking(Ask.NONE, wanted=3), there)) == [f"-Pod gpu-wanted-{number}" for number in (1, 2, 3)]


def test_a_placeholder_of_an_older_template_is_made_again():
    there = after(asking(Ask.PLACEHOLDERS, wanted=1), ALL)
    newer = msgspec.structs.replace(asking(Ask.PLACEHOLDERS, wanted=1))
    newer = msgspec.structs.replace(
        newer, spec=msgspec.structs.replace(newer.spec, template=make_template(requests={"cpu": "1"}))
    )
    assert shown(steps(newer, there)) == ["-Pod gpu-wanted-1", "+Pod gpu-wanted-1"]


def test_one_that_was_made_by_a_leader_that_died_still_says_that_it_is_unschedulable():
    (made,) = steps(asking(Ask.PLACEHOLDERS, wanted=1), ALL)
    assert shown(steps(asking(Ask.PLACEHOLDERS, wanted=1), {**ALL, Means.PLACEHOLDER: (stored(made.body),)})) == [
        "!gpu-wanted-1"
    ]


# -------------------------------------------------------------------------------------------------------------- buffer


def test_where_there_are_capacity_buffers_one_number_says_it():
    nodeset = asking(wanted=3)
    template, buffer = steps(nodeset, BUFFERS)
    assert shown([template, buffer]) == [
        f"+PodTemplate {template.body['metadata']['name']}", "+CapacityBuffer gpu-wanted",
    ]  # fmt: skip
    assert buffer.body["spec"] == {"podTemplateRef": {"name": template.body["metadata"]["name"]}, "replicas": 3}
    there = after(nodeset, BUFFERS)
    assert shown(steps(nodeset, there)) == []
    assert shown(steps(nodeset, there, there=1)) == ["~gpu-wanted 2"]
    assert shown(steps(asking(wanted=0), there)) == [
        "-CapacityBuffer gpu-wanted", f"-PodTemplate {template.body['metadata']['name']}",
    ]  # fmt: skip


def test_whoever_asks_by_placeholders_has_no_buffer_any_more():
    there = after(asking(wanted=2), BUFFERS)
    kinds = [step.split()[0] for step in shown(steps(asking(Ask.PLACEHOLDERS, wanted=2), there))]
    assert kinds == ["-CapacityBuffer", "-PodTemplate", "+Pod", "+Pod"]


# ------------------------------------------------------------------------------------------------------------ requests


def test_a_job_that_lacks_several_nodes_gets_a_request_of_its_own():
    nodeset = asking(wanted=6, requests=[("7", 4), ("9", 1), ("11", 1)])
    made = steps(nodeset, ALL)
    assert [step.split()[0] for step in shown(made)] == ["+PodTemplate", "+ProvisioningRequest", "+CapacityBuffer"]
    request = made[1].body
    assert request["metadata"]["annotations"] == {names.ANNOTATION_WANTED_BY: "7"}
    assert request["spec"]["provisioningClassName"] == ATOMIC
    assert [each["count"] for each in request["spec"]["podSets"]] == [4]
    assert made[2].body["spec"]["replicas"] == 2


def test_a_request_stands_until_its_job_lacks_nothing():
    there = after(asking(wanted=4, requests=[("7", 4)]), ALL)
    (request,) = there[Means.REQUEST]
    for left in (4, 2, 1):
        assert shown(steps(asking(wanted=left, requests=[("7", left)]), there)) == []
    assert [step.split()[0] for step in shown(steps(asking(wanted=0), there))] == [
        "-ProvisioningRequest", "-PodTemplate",
    ]  # fmt: skip
    assert request.job == "7"


def test_a_request_for_an_array_stands_while_its_tasks_start_one_after_the_other():
    there = after(asking(wanted=6, requests=[("7_[1-3]", 6)]), ALL)
    (request,) = there[Means.REQUEST]
    assert request.job == "7"
    for left, nodes in (("7_[2-3]", 4), ("7_[3]", 2), ("7", 1)):
        assert shown(steps(asking(wanted=nodes, requests=[(left, nodes)]), there)) == []
    assert [step.split()[0] for step in shown(steps(asking(wanted=2, requests=[("71_[1-2]", 2)]), there))] == [
        "-ProvisioningRequest", "+ProvisioningRequest",
    ]  # fmt: skip


def test_what_waits_of_an_array_under_two_numbers_is_one_request():
    made = steps(asking(wanted=5, requests=[("7_[2-3]", 4), ("7", 1)]), ALL)
    assert [step.split()[0] for step in shown(made)] == ["+PodTemplate", "+ProvisioningRequest"]
    assert [each["count"] for each in made[1].body["spec"]["podSets"]] == [5]


@pytest.mark.parametrize("end", ["Failed", "BookingExpired", "CapacityRevoked"])
def test_a_request_that_failed_is_tried_again_after_a_pause_that_doubles(end):
    nodeset = asking(wanted=4, requests=[("7", 4)])
    there = after(nodeset, ALL)
    for attempt, pause_s in enumerate([60, 120, 240, 480, 900, 900]):
        (request,) = there[Means.REQUEST]
        assert request.attempt == attempt
        failed = {"type": end, "status": "True", "lastTransitionTime": rfc3339(NOW)}
        request = msgspec.structs.replace(
            request, status=msgspec.convert({"conditions": [failed]}, type(request.status))
        )
        there = {**there, Means.REQUEST: (request,)}
        early, late = (NOW + timedelta(seconds=pause_s + by) for by in (-1, 0))
        assert shown(steps(nodeset, there, now=early)) == []
        assert [step.split()[0] for step in shown(steps(nodeset, there, now=late))] == [
            "-ProvisioningRequest", "+ProvisioningRequest",
        ]  # fmt: skip
        there = after(nodeset, there, now=late)


# ----------------------------------------------------------------------------------------------------------- invariants

REQUESTS = st.lists(st.tuples(st.sampled_from("789"), st.integers(1, 5)), max_size=3, unique_by=lambda each: each[0])


@given(
    ask=st.sampled_from(list(Ask)),
    course=st.lists(REQUESTS, min_size=1, max_size=5),
    served=st.sampled_from([PODS_ALONE, BUFFERS, {**PODS_ALONE, Means.REQUEST: ()}, ALL]),
)
def test_nothing_is_asked_for_twice_and_nothing_is_left_behind(ask, course, served):
    there = served
    for requests in course:
        nodeset = asking(ask, wanted=sum(nodes for _, nodes in requests), requests=requests)
        there = after(nodeset, there)
        assert steps(nodeset, there) == []
        pods, buffers = len(there[Means.PLACEHOLDER]), sum(b.spec.replicas for b in there.get(Means.BUFFER, ()))
        whole = {found.job for found in there.get(Means.REQUEST, ())}
        others = sum(nodes for job, nodes in requests if job not in whole)
        is_missing = bool(explain_missing(nodeset, there))
        assert pods + buffers == (0 if ask is Ask.NONE else others) or is_missing
        assert pods + buffers <= others
    there = after(asking(ask), there)
    assert not any(there.values())


# --------------------------------------------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("told", "age_s", "why"),
    [
        pytest.param([], 59, "", id="too early to tell"),
        pytest.param([], 75, (
            "no autoscaler has reacted for 75 s: check that an autoscaler runs that reads objects of this "
            "kind"
        ), id="silence"),
        pytest.param([("NotTriggerScaleUp", "1 max node group size reached", 10)], 20,
                     "NotTriggerScaleUp: 1 max node group size reached", id="refused"),
        pytest.param([("NotTriggerScaleUp", "no", 10), ("TriggeredScaleUp", "a: 0->3", 20)], 90, "",
                     id="refused first, bought then"),
        pytest.param([("TriggeredScaleUp", "a: 0->3", 10), ("NotTriggerScaleUp", "out of stock", 20)], 90,
                     "NotTriggerScaleUp: out of stock", id="bought first, refused then"),
        pytest.param([("FailedScheduling", "Failed to schedule pod, no instance type", 10)], 90,
                     "FailedScheduling: Failed to schedule pod, no instance type", id="by Karpenter"),
        pytest.param([("Nominated", "Pod should schedule on: nodeclaim/a", 10)], 90, "", id="Karpenter buys one"),
    ],
)  # fmt: skip
def test_who_refuses_a_node_is_heard(told, age_s, why):
    (made,) = steps(asking(Ask.PLACEHOLDERS, wanted=1), ALL)
    said = [
        Told(reason=reason, message=message, last_timestamp=rfc3339(NOW + timedelta(seconds=at_s)))
        for reason, message, at_s in told
    ]
    found = stored(made.body, conditions=[SAID])
    assert explain_refusal(found, said, NOW + timedelta(seconds=age_s)) == why


LATER = "Capacity is not found, CA will try to find it later."


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        (("Failed", "True", "OutOfStock", "no a3 in zone b"), "OutOfStock: no a3 in zone b"),
        (("Provisioned", "False", "CapacityIsNotFound", LATER), f"CapacityIsNotFound: {LATER}"),
        (("Provisioned", "True", "CapacityIsProvisioned", "Capacity is found in the cluster."), ""),
        (("Accepted", "True", "Accepted", "ProvisioningRequest is accepted by ClusterAutoscaler"), ""),
    ],
)
def test_a_request_that_is_refused_says_so(condition, why):
    made = steps(asking(wanted=4, requests=[("7", 4)]), ALL)[1]
    said = dict(zip(("type", "status", "reason", "message"), condition, strict=True))
    assert explain_refusal(stored(made.body, conditions=[said]), [], NOW + timedelta(hours=1)) == why


def test_what_is_named_and_not_there_is_told():
    assert explain_missing(asking(Ask.AUTO), PODS_ALONE) == ""
    assert explain_missing(asking(Ask.CAPACITY_BUFFER), PODS_ALONE) == (
        "spec.growth.ask is capacityBuffer, and this cluster has no CapacityBuffer (autoscaling.x-k8s.io): install its "
        "CRD and an autoscaler that reads it, or set growth.ask to another value"
    )
    assert decide_steps(asking(Ask.CAPACITY_BUFFER), NodesToCome(nodes=3), PODS_ALONE, NOW) == []


def test_a_long_name_is_cut_and_stays_its_own():
    one, other = (make_nodeset(name=f"{'n' * 62}{end}") for end in "ab")
    found = {child_name(each, "wanted", "12") for each in (one, other)}
    assert len(found) == 2
    assert all(len(name) <= 63 and name.endswith("-wanted-12") for name in found)


def test_the_first_jobs_are_named():
    growth = GrowthStatus(requests=tuple(GrowthRequest(job=str(job), nodes=2) for job in range(1, 8)))
    assert describe_jobs(growth) == "job 1 (2), job 2 (2), job 3 (2), job 4 (2), job 5 (2), 2 more"
