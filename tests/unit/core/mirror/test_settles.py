"""From any starting state the mirror comes to rest, and on the way there it never breaks a promise."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from sunkpy.core import names
from sunkpy.core.mirror import (
    ClearReason,
    Decision,
    DeleteSlurmNode,
    DrainNode,
    LiftDrain,
    MirrorAction,
    MirrorMemory,
    PatchPod,
    RestoreDrain,
    ResumeNode,
    SetAddress,
    SetComment,
    SetTopology,
    SlurmAnswer,
    UndrainNode,
    View,
    after_writing,
    decide_mirror,
    still_holds,
)
from sunkpy.core.mirror.decide import STALE_AFTER_S
from sunkpy.core.mirror.report import is_of_pod
from sunkpy.core.model.objects import Meta, Node, NodeSpec, Pod
from sunkpy.core.model.states import SlurmNode
from sunkpy.core.model.times import LATEST
from sunkpy.core.nodeset.protection import decide_evictable
from tests.unit.core.mirror.build import (
    IP,
    NAME,
    NAMESPACE,
    OLD_IP,
    STARTED,
    STARTED_S,
    TOKEN,
    make_comment,
    make_node,
    make_pod,
)

ROUNDS = 12

pods = st.none() | st.builds(
    make_pod,
    ready=st.booleans(),
    cordon=st.sampled_from([None, "", "disk"]),
    pending=st.sampled_from([None, TOKEN]),
    deleting=st.booleans(),
    phase=st.sampled_from(["Pending", "Running", "Failed"]),
    registered=st.booleans(),
    started=st.sampled_from([None, STARTED]),
    annotations=st.sampled_from([
        {},
        {names.ANNOTATION_DRAINED: TOKEN},
        {names.ANNOTATION_DRAINED: "other", names.ANNOTATION_SLURM_STATE: "DOWN", names.ANNOTATION_DRAIN: "x"},
        {names.ANNOTATION_HEALTH_DRAIN: "label: bad"},
        {names.ANNOTATION_HEALTH_LIFT: "bad gpu"},
        {names.ANNOTATION_HEALTH_LIFT: "k8s: cordon: disk"},
    ]),
)  # fmt: skip
nodes = st.none() | st.builds(
    lambda base, flags, reason, comment, cpus, address, since_s: make_node(
        "+".join([base, *flags]),
        reason=reason,
        comment=comment,
        alloc_cpus=cpus,
        address=address,
        slurmd_since_s=since_s,
    ),
    st.sampled_from(["IDLE", "ALLOCATED", "MIXED", "DOWN", "UNKNOWN", "FUTURE"]),
    st.lists(st.sampled_from(["DRAIN", "FAIL", "COMPLETING", "NOT_RESPONDING", "INVALID_REG"]), unique=True),
    st.sampled_from(
        ["", "k8s: cordon: disk", "k8s: pod gone", "k8s: pod pending deletion: x", "bad gpu", "Not responding"]
    ),
    st.sampled_from(["", "rack 7", make_comment(), make_comment(uid="old"), make_comment(namespace="other")]),
    st.sampled_from([0, 0, 2]),
    st.sampled_from([IP, OLD_IP]),
    st.sampled_from([0, STARTED_S - 60, STARTED_S]),
)


def apply(action: MirrorAction, pod: Pod | None, node: SlurmNode | None) -> tuple[Pod | None, SlurmNode | None]:
    """What Slurm and the apiserver make of an action."""
    replace = msgspec.structs.replace
    match action:
        case PatchPod():
            assert pod is not None
            kept = {k: v for k, v in (pod.annotations | action.annotations).items() if v is not None}
            told = {c.type for c in action.conditions}
            conditions = tuple(c for c in pod.status.conditions if c.type not in told) + action.conditions
            kept |= {names.ANNOTATION_DRAINED_AT: "now"} if action.renews_receipt else {}
            return replace(
                pod,
                metadata=replace(pod.metadata, annotations=kept),
                status=replace(pod.status, conditions=conditions),
            ), node
        case DrainNode():
            assert node is not None
            return pod, replace(node, state=node.state - {"FAIL"} | {"DRAIN"}, reason=action.reason)
        case UndrainNode() | LiftDrain():
            assert node is not None
            return pod, replace(node, state=node.state - {"DRAIN"}, reason="")
        case ResumeNode():
            assert node is not None
            return pod, replace(node, state=node.state - {"DRAIN", "FAIL", "DOWN"} | {"IDLE"}, reason="")
        case ClearReason():
            assert node is not None
            return pod, replace(node, reason="")
        case RestoreDrain():
            assert node is not None
            return pod, replace(node, state=node.state | {"DRAIN"}, reason=action.reason)
        case SetComment():
            assert node is not None
            return pod, replace(node, comment=action.comment)
        case SetAddress():
            assert node is not None
            return pod, replace(node, address=action.address)
        case SetTopology():
            assert node is not None
            return pod, replace(node, topology=action.topology)
        case DeleteSlurmNode():
            return pod, None


def is_renewal(action: MirrorAction) -> bool:
    """A valid receipt is renewed as long as it is valid."""
    return isinstance(action, PatchPod) and not action.annotations and not action.conditions


def check(action: MirrorAction, node: SlurmNode | None, pod: Pod | None) -> None:
    """What must hold of every action, whatever led to it."""
    if isinstance(
        action, DrainNode | UndrainNode | LiftDrain | ResumeNode | ClearReason | RestoreDrain | DeleteSlurmNode
    ):
        assert node is not None
        assert still_holds(action, node)
    if isinstance(action, DrainNode | UndrainNode | ResumeNode | ClearReason):
        assert node is not None
        assert not node.is_held_by_others, "a foreign reason is never changed"
    if isinstance(action, RestoreDrain):
        assert not node.is_closed, "a drain that stands is not put back"
        assert not action.reason.startswith(names.REASON_PREFIX)
    if isinstance(action, LiftDrain):
        assert node is not None
        assert pod is not None
        assert node.reason == pod.annotations[names.ANNOTATION_HEALTH_LIFT], "with leave, and byte for byte"
        assert "FAIL" not in node.state
    if isinstance(action, UndrainNode | LiftDrain):
        assert pod is not None
        assert is_of_pod(node, pod, LATEST), "a node is opened for the slurmd that is there"
    if isinstance(action, DrainNode):
        assert action.reason.startswith(names.REASON_PREFIX)
    if isinstance(action, DeleteSlurmNode):
        assert pod is None
        assert node is not None
        assert not node.is_busy, "a busy node is never deleted"
        assert node.owner is not None
        assert node.owner.namespace == NAMESPACE, "only ours are deleted"
    if isinstance(action, SetComment):
        assert node is not None
        assert not node.comment or node.owner is not None, "nobody else's comment is overwritten"
    if isinstance(action, PatchPod) and action.annotations.get(names.ANNOTATION_DRAINED):
        assert node is None or node.is_drained, "a busy or open node is never said to be drained"


def wrote(decision: Decision) -> bool:
    """Slurm was written to, not the pod alone."""
    return any(not isinstance(action, PatchPod) for action in decision.actions)


@settings(max_examples=300)
@given(pod=pods, node=nodes, step_s=st.sampled_from([1.0, 700.0]))
def test_the_mirror_settles_without_ping_pong(pod: Pod | None, node: SlurmNode | None, step_s: float) -> None:
    memory, now_s = MirrorMemory(), 1000.0
    drains = 0
    quiet = 0
    for number in range(1, ROUNDS + 30):
        now_s += step_s
        answer = SlurmAnswer(node=node, number=number, at_s=now_s)
        view = View(name=NAME, namespace=NAMESPACE, pod=pod, answer=answer, memory=memory)
        decision = decide_mirror(view, now_s)
        for action in decision.actions:
            check(action, node, pod)
            pod, node = apply(action, pod, node)
        drains += sum(
            isinstance(action, DrainNode | RestoreDrain | UndrainNode | LiftDrain) for action in decision.actions
        )
        memory = decision.memory
        if wrote(decision):
            memory = after_writing(memory, decision.actions, now_s)
        quiet = quiet + 1 if all(map(is_renewal, decision.actions)) else 0
    assert quiet >= ROUNDS, "it comes to rest"
    assert drains <= 2, "at most one change per cause: for the cause of now, and for one that a grace held back"


@settings(max_examples=200)
@given(pod=pods, node=nodes)
def test_no_wake_up_is_forgotten(pod: Pod | None, node: SlurmNode | None) -> None:
    """Deciding only when something changed, or when the last decision asked for it, misses nothing."""
    memory, now_s, number = MirrorMemory(), 1000.0, 0
    for _ in range(40):
        number += 1
        answer = SlurmAnswer(node=node, number=number, at_s=now_s)
        decision = decide_mirror(View(name=NAME, namespace=NAMESPACE, pod=pod, answer=answer, memory=memory), now_s)
        for action in decision.actions:
            pod, node = apply(action, pod, node)
        memory = decision.memory
        if decision.actions and all(map(is_renewal, decision.actions)):
            break
        if wrote(decision):
            memory = after_writing(memory, decision.actions, now_s)
        if decision.actions or decision.wants_next_answer:
            now_s += 1.0
        elif decision.again_s is not None:
            now_s += decision.again_s
        else:
            break
    else:
        raise AssertionError("never comes to rest")
    much_later_s = now_s + 10_000.0
    answer = SlurmAnswer(node=node, number=number + 1, at_s=much_later_s)
    view = View(name=NAME, namespace=NAMESPACE, pod=pod, answer=answer, memory=memory)
    assert all(map(is_renewal, decide_mirror(view, much_later_s).actions))


@settings(max_examples=100)
@given(pod=pods, node=nodes, ages=st.lists(st.sampled_from([6.0, 11.0, 100.0]), min_size=1, max_size=6))
def test_old_answers_never_lead_to_a_write(pod: Pod | None, node: SlurmNode | None, ages: list[float]) -> None:
    memory = MirrorMemory()
    for number, age_s in enumerate(ages, start=1):
        answer = SlurmAnswer(node=node, number=number, at_s=1000.0 - age_s)
        decision = decide_mirror(View(name=NAME, namespace=NAMESPACE, pod=pod, answer=answer, memory=memory), 1000.0)
        assert all(isinstance(action, PatchPod) for action in decision.actions)
        memory = decision.memory


CORDONED = Node(metadata=Meta(name="node-1"), spec=NodeSpec(unschedulable=True))


def may_be_evicted(pod: Pod) -> bool:
    """What the operator makes of the pod on a cordoned Node."""
    label = decide_evictable(CORDONED, pod).get(names.LABEL_EVICTABLE, pod.labels.get(names.LABEL_EVICTABLE))
    return label is not None


@settings(max_examples=300, deadline=None)
@given(pod=pods.filter(lambda pod: pod is not None), course=st.lists(nodes, max_size=4), trusted=st.booleans())
def test_while_slurm_cannot_be_read_no_pod_may_go(pod: Pod, course: list[SlurmNode | None], trusted: bool) -> None:
    """Whatever was written on the pod before: its receipt, and the label that lets it be evicted, are withdrawn."""
    memory, now_s = MirrorMemory(), 1000.0
    for number, node in enumerate(course, start=1):
        now_s += 1.0
        answer = SlurmAnswer(node=node, number=number, at_s=now_s)
        decision = decide_mirror(View(name=NAME, namespace=NAMESPACE, pod=pod, answer=answer, memory=memory), now_s)
        memory = decision.memory
        for action in decision.actions:
            pod = apply(action, pod, node)[0] or pod
    answer = SlurmAnswer(node=None, number=9, at_s=now_s, turn_s=3.0, is_trusted=trusted)
    late_s = now_s + (STALE_AFTER_S + 3.5 if trusted else 0.0)
    decision = decide_mirror(View(name=NAME, namespace=NAMESPACE, pod=pod, answer=answer, memory=memory), late_s)
    for action in decision.actions:
        assert isinstance(action, PatchPod)
        pod = apply(action, pod, None)[0] or pod
    assert names.ANNOTATION_DRAINED not in pod.annotations
    assert not may_be_evicted(pod)
    assert decision.memory.drained is None
    assert decision.memory.deletable is None


@settings(max_examples=300, deadline=None)
@given(
    pod=pods.filter(lambda pod: pod is not None),
    course=st.lists(st.tuples(nodes, st.sampled_from([0.5, 4.0, 600.0])), min_size=1, max_size=8),
    slurm_nodes=st.sampled_from([1, 10_000]),
)
def test_a_closed_node_is_never_said_to_be_idle_while_it_is_not(
    pod: Pod, course: list[tuple[SlurmNode | None, float]], slurm_nodes: int
) -> None:
    """Words on jobs may be late, but not where a pod may be evicted or removed by them."""
    memory, now_s = MirrorMemory(), 1000.0
    for number, (node, step_s) in enumerate(course, start=1):
        now_s += step_s
        answer = SlurmAnswer(node=node, number=number, at_s=now_s)
        view = View(
            name=NAME, namespace=NAMESPACE, pod=pod, answer=answer, memory=memory, slurm_nodes=slurm_nodes
        )  # fmt: skip
        decision = decide_mirror(view, now_s)
        memory = decision.memory
        for action in decision.actions:
            if isinstance(action, PatchPod):
                pod = apply(action, pod, node)[0] or pod
        if node is not None and node.is_busy:
            assert not may_be_evicted(pod)
            assert names.ANNOTATION_DRAINED not in pod.annotations
