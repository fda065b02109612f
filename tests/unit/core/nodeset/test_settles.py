"""A model of the cluster around the decisions: apply what they say, let syncer and kubelet answer, and again.

Whatever the start, it comes to rest where it should, and on no step a rule is broken.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from sunkpy.core import names
from sunkpy.core.model.objects import Condition, Meta, Node, NodeSpec, Pod, Taint
from sunkpy.core.model.removal_token import token_of
from sunkpy.core.nodeset.actions import CancelPending, CreatePod, DeletePod, MarkPending, RemoveFinalizer
from sunkpy.core.nodeset.decide import Plan, decide_nodeset
from sunkpy.core.nodeset.node_side import NodePatch, decide_node, decide_pod_cordon
from sunkpy.core.nodeset.pod_state import is_available, is_updated
from sunkpy.core.nodeset.removal import is_cleared
from sunkpy.core.nodeset.rollout import max_unavailable
from sunkpy.core.nodeset.slurmd_pod import node_of, template_hash
from tests.unit.core.nodeset.build import Cluster, make_node, make_nodeset, make_pod, make_template

PASSES = 80


@st.composite
def clusters(draw):
    """NodeSets of up to six nodes, with pods in any state that objects can be in."""
    template = make_template(nodeSelector={"pool": "gpu"})
    nodeset = make_nodeset(
        template=template,
        replicas=draw(st.sampled_from([None, 0, 1, 2, 4, 9])),
        max_unavailable=draw(st.sampled_from([1, 2, "50%"])),
        paused=draw(st.booleans()),
        deleting=draw(st.booleans()),
    )
    nodes, pods = [], []
    for number in range(1, draw(st.integers(0, 6)) + 1):
        pool = draw(st.sampled_from(["gpu", "gpu", "other"]))
        cordoned = draw(st.booleans())
        nodes.append(make_node(number, labels={"pool": pool}, unschedulable=cordoned))
        if draw(st.booleans()):
            token = draw(st.sampled_from([None, None, "2026-11-20T11:30:00+00:00/scale-down", "garbage"]))
            pods.append(
                make_pod(
                    nodeset,
                    number,
                    ready=draw(st.booleans()),
                    running=draw(st.sampled_from(["True", "False", "Unknown", None])),
                    token=token,
                    drained=draw(st.sampled_from([None, token, "2026-11-20T11:00:00+00:00/rollout"])),
                    created=draw(st.sampled_from(["2026-11-20T11:00:00Z", "2026-11-20T11:59:59Z"])),
                    deleting=draw(st.booleans()),
                    phase=draw(st.sampled_from(["Running", "Running", "Failed"])),
                    template_hash=draw(st.sampled_from([None, "old"])),
                )
            )
    return Cluster(nodeset=nodeset, nodes=tuple(nodes), pods=tuple(pods))


def with_annotation(pod: Pod, key: str, value: str | None) -> Pod:
    annotations = {k: v for k, v in pod.annotations.items() if k != key} | ({} if value is None else {key: value})
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, annotations=annotations))


def with_conditions(pod: Pod, **wanted: str) -> Pod:
    kept = tuple(c for c in pod.status.conditions if c.type not in wanted)
    added = tuple(Condition(type=type_, status=status) for type_, status in wanted.items())
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, conditions=kept + added))


def apply(cluster: Cluster, plan: Plan) -> tuple[Cluster, bool]:
    """The cluster after the actions; True when the finalizer went."""
    pods = {pod.name: pod for pod in cluster.pods}
    is_released = False
    for action in plan.actions:
        match action:
            case MarkPending(pod, token):
                pods[pod.name] = with_annotation(pod, names.ANNOTATION_PENDING_DELETION, token.encode())
            case CancelPending(pod):
                pods[pod.name] = with_annotation(pod, names.ANNOTATION_PENDING_DELETION, None)
            case DeletePod(pod, _):
                gone = msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-11-20T12:00:00Z")
                pods[pod.name] = msgspec.structs.replace(pod, metadata=gone)
            case CreatePod(node, name, body):
                assert name not in pods
                assert node not in {node_of(other) for other in pods.values()}
                made = msgspec.convert({"metadata": body["metadata"], "spec": {"nodeName": node}}, Pod)
                meta = msgspec.structs.replace(
                    made.metadata, uid=f"{name}-{cluster.now}", creation_timestamp=cluster.now.isoformat()
                )
                pods[name] = msgspec.structs.replace(made, metadata=meta)
            case RemoveFinalizer():
                is_released = True
    return msgspec.structs.replace(cluster, pods=tuple(pods.values())), is_released


def step_time(cluster: Cluster, *, jobs_end: bool) -> Cluster:
    """Kubelet and syncer do their part: terminating pods go, others become ready; idle marked ones are answered."""
    pods = []
    now = cluster.now + timedelta(seconds=30)
    for pod in cluster.pods:
        if pod.is_deleting:
            continue
        token = token_of(pod)
        running = pod.condition(names.CONDITION_RUNNING)
        is_busy = running is not None and running.status == "True" and not jobs_end
        told = with_conditions(
            pod, **{"Ready": "True", names.CONDITION_RUNNING: "True" if is_busy else "False"}
        )  # fmt: skip
        answer = pod.annotations.get(names.ANNOTATION_PENDING_DELETION) if token and not is_busy else None
        told = with_annotation(told if not pod.is_finished else pod, names.ANNOTATION_DRAINED, answer)
        pods.append(with_annotation(told, names.ANNOTATION_DRAINED_AT, now.isoformat() if answer else None))
    return msgspec.structs.replace(cluster, pods=tuple(pods), now=now)


def check_step(cluster: Cluster, plan: Plan) -> None:
    for action in plan.actions:
        if isinstance(action, DeletePod) and not action.pod.is_finished:
            assert is_cleared(action.pod, cluster.now)
            assert not action.pod.is_condition_true(names.CONDITION_RUNNING)


def check_roll_limit(cluster: Cluster, plan: Plan) -> None:
    """What the roll newly takes never makes more than maxUnavailable missing."""
    strategy = cluster.nodeset.spec.update_strategy
    survey = cluster.world.survey
    target = min(plan.desired, survey.possible)
    newly = [
        action.pod
        for action in plan.actions
        if isinstance(action, MarkPending) and action.token.cause == "rollout" and is_available(action.pod)
    ]
    if newly:
        after = sum(is_available(judged.pod) for judged in survey.staying if judged.pod not in newly)
        assert target - after <= max_unavailable(strategy, target)


def settle(cluster: Cluster, *, jobs_end: bool) -> tuple[Cluster, Plan, bool]:
    is_released = False
    for _ in range(PASSES):
        plan = decide_nodeset(cluster.world)
        check_step(cluster, plan)
        check_roll_limit(cluster, plan)
        after, released = apply(cluster, plan)
        is_released = is_released or released
        after = step_time(after, jobs_end=jobs_end)
        if not plan.actions and after.pods == cluster.pods:
            return cluster, plan, is_released
        cluster = after
    raise AssertionError(f"no rest after {PASSES} passes: {plan.actions}")


@settings(max_examples=60)
@given(clusters())
def test_any_start_comes_to_rest_where_it_should(cluster):
    if cluster.nodeset.is_deleting:
        _, _, is_released = settle_until_released(cluster)
        assert is_released
        return
    end, plan, _ = settle(cluster, jobs_end=True)
    fits = sum(node.labels["pool"] == "gpu" for node in cluster.nodes)
    replicas = cluster.nodeset.spec.replicas
    assert len(end.pods) == (fits if replicas is None else min(replicas, fits))
    assert all(token_of(pod) is None for pod in end.pods)
    if not cluster.nodeset.spec.paused:
        assert all(is_updated(pod, template_hash(cluster.nodeset)) for pod in end.pods)
    assert plan.desired == fits or cluster.nodeset.spec.replicas is not None
    assert end.world.survey.possible == fits


def settle_until_released(cluster):
    for _ in range(PASSES):
        plan = decide_nodeset(cluster.world)
        check_step(cluster, plan)
        cluster, is_released = apply(cluster, plan)
        if is_released:
            assert not cluster.pods
            return cluster, plan, True
        cluster = step_time(cluster, jobs_end=True)
    return cluster, plan, False


@settings(max_examples=60)
@given(clusters())
def test_a_busy_nodes_pod_is_never_deleted(cluster):
    busy = {
        pod.uid
        for pod in cluster.pods
        if pod.is_condition_true(names.CONDITION_RUNNING) and not pod.is_finished and not pod.is_deleting
    }
    for _ in range(12):
        cluster, _ = apply(cluster, decide_nodeset(cluster.world))
        cluster = step_time(cluster, jobs_end=False)
        assert busy <= {pod.uid for pod in cluster.pods}


LONG_AGO = "2026-11-20T11:30:00+00:00/rollout"
JUST_NOW = "2026-11-20T12:00:00+00:00/rollout"


@st.composite
def rolls(draw):
    """A NodeSet in a roll, and which pods have a job that never ends. As many of these as may be are marked."""
    limit = draw(st.integers(1, 4))
    nodeset = make_nodeset(max_unavailable=limit)
    numbers = range(1, draw(st.integers(2, 9)) + 1)
    busy = draw(st.sets(st.sampled_from(numbers)))
    marked = draw(st.permutations(sorted(busy)))[:limit]
    since = draw(st.sampled_from([LONG_AGO, JUST_NOW]))
    pods = [
        make_pod(
            nodeset,
            number,
            running="True" if number in busy else "False",
            drain="True" if number in marked else "False",
            token=since if number in marked else None,
            created=draw(st.sampled_from(["2026-11-20T11:00:00Z", "2026-11-20T11:59:59Z"])),
            template_hash="old",
        )
        for number in numbers
    ]
    cluster = Cluster(nodeset=nodeset, nodes=tuple(make_node(number) for number in numbers), pods=tuple(pods))
    return cluster, {pods[number - 1].uid for number in busy}, limit


@settings(max_examples=100)
@given(rolls())
def test_marks_of_busy_pods_move_until_every_idle_pod_is_rolled(roll):
    cluster, busy, limit = roll
    rounds = 6 * len(cluster.nodes)
    for _ in range(rounds):
        cluster, _ = apply(cluster, decide_nodeset(cluster.world))
        assert sum(map(is_available, cluster.pods)) >= len(cluster.nodes) - limit
        cluster = step_time(cluster, jobs_end=False)
        assert busy <= {pod.uid for pod in cluster.pods}
    new = template_hash(cluster.nodeset)
    assert {pod.uid for pod in cluster.pods if not is_updated(pod, new)} == busy
    assert sum(token_of(pod) is not None for pod in cluster.pods) == min(limit, len(busy))


@settings(max_examples=30)
@given(clusters())
def test_the_same_node_keeps_its_name(cluster):
    before = {node_of(pod): pod.name for pod in cluster.pods}
    if cluster.nodeset.is_deleting:
        return
    end, _, _ = settle(cluster, jobs_end=True)
    for pod in end.pods:
        assert before.get(node_of(pod), pod.name) == pod.name


def patched(node: Node, patch: NodePatch) -> Node:
    merge = lambda old, new: {k: v for k, v in {**old, **new}.items() if v is not None}  # noqa: E731
    kept = [
        c for c in node.status.conditions
        if c.type not in {n.type for n in patch.conditions} and c.type not in patch.gone_conditions
    ]  # fmt: skip
    unschedulable = node.spec.unschedulable if patch.unschedulable is None else patch.unschedulable
    return Node(
        metadata=Meta(
            name=node.name,
            labels=merge(node.labels, patch.labels),
            annotations=merge(node.annotations, patch.annotations),
        ),
        spec=NodeSpec(unschedulable=unschedulable, taints=node.spec.taints if patch.taints is None else patch.taints),
        status=msgspec.structs.replace(node.status, conditions=(*kept, *patch.conditions)),
    )


@settings(max_examples=80)
@given(
    unschedulable=st.booleans(),
    ours=st.booleans(),
    reason=st.sampled_from([None, "bad gpu", "old"]),
    slurm=st.sampled_from(["True", "False", "Unknown", None]),
    cordon=st.sampled_from([None, "x"]),
    has_pod=st.booleans(),
    departing=st.booleans(),
)
def test_node_and_pod_settle_in_two_passes_and_never_feed_each_other(
    unschedulable, ours, reason, slurm, cordon, has_pod, departing
):
    annotations = {names.ANNOTATION_DRAIN: reason} if reason else {}
    if ours:
        annotations[names.ANNOTATION_CORDONED_BY] = names.CORDONED_BY_SLURM
    taints = (Taint(key="karpenter.sh/disrupted", effect="NoSchedule"),) if departing else ()
    node = make_node(1, unschedulable=unschedulable, annotations=annotations, taints=taints)
    condition = Condition(type=names.CONDITION_CORDON, status=slurm, message="bad gpu") if slurm else None
    pod = make_pod(make_nodeset(), 1, cordon=condition, annotations={names.ANNOTATION_CORDON: cordon} if cordon else {})
    is_foreign = unschedulable and not ours
    for _ in range(2):
        node = patched(node, decide_node(node, pod if has_pod else None))
        pod = with_annotation(
            pod, names.ANNOTATION_CORDON,
            {**pod.annotations, **decide_pod_cordon(node, pod)}.get(names.ANNOTATION_CORDON),
        )  # fmt: skip
    assert decide_node(node, pod if has_pod else None) == NodePatch()
    assert decide_pod_cordon(node, pod) == {}
    if is_foreign:
        assert node.spec.unschedulable
        assert pod.annotations[names.ANNOTATION_CORDON]
    if departing:
        assert pod.annotations[names.ANNOTATION_CORDON]
    elif node.annotations.get(names.ANNOTATION_CORDONED_BY):
        assert names.ANNOTATION_CORDON not in pod.annotations
    if slurm == "True" and has_pod:
        assert node.spec.unschedulable
