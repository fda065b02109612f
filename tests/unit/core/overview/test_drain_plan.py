import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.explain.explanation import render
from sunkpy.core.health import State
from sunkpy.core.overview.drain_plan import (
    Cordon,
    Drain,
    DrainAsker,
    NodeNow,
    Resume,
    Uncordon,
    Verify,
    explain_steps,
    plan_drain,
    plan_undrain,
    plan_verify,
)
from sunkpy.core.overview.drained import Door, HeldNode, find_holds
from tests.unit.core.health.build import node as sick
from tests.unit.core.health.build import pod as slurmd_pod
from tests.unit.core.health.build import record
from tests.unit.core.overview.test_drained import cordoned, in_slurm, pod
from tests.unit.core.overview.test_pool import node

KUBERNETES, SLURM = Door.KUBERNETES, Door.SLURM
ANN, BOTH = DrainAsker(in_kubernetes="ann@x", in_slurm="ann"), (KUBERNETES, SLURM)
IDLE = in_slurm("IDLE")
BY_ANN = cordoned(drain="fan", drain_by="ann@x")
BY_BOB = cordoned(drain="fan", drain_by="bob@x")
UNNAMED = cordoned()
BY_SUNKPY = cordoned(cordoned_by="slurm", slurm_drain="bad fan", drain="bad fan")
FOR_CORDON = in_slurm("IDLE", "DRAIN", reason="k8s: cordon: fan", by="slurm")
OWN = in_slurm("IDLE", "DRAIN", reason="disk", by="ann")
BOBS = in_slurm("IDLE", "DRAIN", reason="disk", by="bob")
ITSELF = in_slurm("IDLE", "DRAIN", reason="Kill task failed", by="root")
FAILED = in_slurm("DOWN", "DRAIN", reason="disk", by="ann")


def now(kubernetes, slurm, *, is_asked=True):
    holds = tuple(find_holds(kubernetes, pod(cordon="fan"), slurm))
    held = HeldNode(node="node-1", slurm_node="n1", slurm=slurm.state_text, holds=holds, jobs=(7,))
    return NodeNow(held=held, node=kubernetes, slurm=slurm if is_asked else None)


def named(*who):
    return msgspec.structs.replace(ANN, set_by=frozenset(who))


@pytest.mark.parametrize(
    ("at", "door", "asker", "step", "left"),
    [
        (now(node(1), IDLE), KUBERNETES, ANN, Cordon("x", "ann@x"), ""),
        (now(BY_ANN, FOR_CORDON), KUBERNETES, ANN, Cordon("x", "ann@x"), ""),
        (now(BY_BOB, FOR_CORDON), KUBERNETES, ANN, None, "not yours; to change it anyway: --set-by bob@x"),
        (now(BY_BOB, FOR_CORDON), KUBERNETES, named("bob@x"), Cordon("x", "ann@x"), ""),
        (now(UNNAMED, FOR_CORDON), KUBERNETES, ANN, None, "(nobody's name is recorded)"),
        (now(UNNAMED, FOR_CORDON), KUBERNETES, named("Kubernetes"), Cordon("x", "ann@x"), ""),
        (now(BY_SUNKPY, OWN), KUBERNETES, ANN, Cordon("x", "ann@x"), ""),
        (now(node(1), IDLE), SLURM, ANN, Drain("x"), ""),
        (now(BY_BOB, FOR_CORDON), SLURM, ANN, Drain("x"), ""),
        (now(node(1), OWN), SLURM, ANN, Drain("x"), ""),
        (now(node(1), BOBS), SLURM, ANN, None, "--set-by bob"),
        (now(node(1), ITSELF), SLURM, ANN, None, "--set-by 'Slurm itself'"),
        (now(node(1), IDLE, is_asked=False), SLURM, ANN, None, "Slurm was not asked"),
        (now(node(1), in_slurm()), SLURM, ANN, None, "Slurm has no node n1"),
    ],
)
def test_a_node_is_taken_out_unless_somebody_else_has(at, door, asker, step, left):
    plan = plan_drain(at, door, "x", asker)
    assert (plan.steps, len(plan.left)) == ((step,) if step else (), 0 if step else 1)
    assert left in "".join(plan.left)


def test_a_reason_must_not_look_like_somebody_elses():
    at = now(BY_SUNKPY, in_slurm("IDLE", "DRAIN", reason="bad fan", by="bob"))
    assert "give another reason" in plan_drain(at, KUBERNETES, "bad fan", ANN).left[0]
    assert "is sunkpy's" in plan_drain(now(node(1), IDLE), SLURM, "k8s: cordon", ANN).left[0]


@pytest.mark.parametrize(
    ("at", "doors", "asker", "steps", "left"),
    [
        (now(node(1), IDLE), BOTH, ANN, (), ()),
        (now(BY_ANN, FOR_CORDON), BOTH, ANN, (Uncordon(),), ()),
        (now(BY_ANN, OWN), BOTH, ANN, (Uncordon(), Resume("UNDRAIN")), ()),
        (now(BY_ANN, OWN), (SLURM,), ANN, (Resume("UNDRAIN"),), ("--kubernetes lifts it",)),
        (now(BY_ANN, BOBS), BOTH, ANN, (Uncordon(),), ("--set-by bob",)),
        (now(BY_ANN, BOBS), BOTH, named("bob"), (Uncordon(), Resume("UNDRAIN")), ()),
        (now(UNNAMED, FOR_CORDON), BOTH, ANN, (), ("--set-by Kubernetes",)),
        (now(BY_SUNKPY, OWN), BOTH, ANN, (Resume("UNDRAIN"),), ()),
        (now(node(1), FAILED), BOTH, ANN, (Resume("RESUME"),), ()),
        (now(node(1), OWN, is_asked=False), BOTH, ANN, (), ("Slurm was not asked",)),
        (now(node(1), in_slurm("IDLE", "DRAIN", reason="k8s: pod not ready")), BOTH, ANN, (), ("are ready",)),
        (now(node(1), in_slurm("INVALID_REG", reason="low memory")), BOTH, ANN, (), ("mend what the reason names",)),
    ],
)
def test_a_node_is_given_back_by_those_who_took_it(at, doors, asker, steps, left):
    plan = plan_undrain(at, doors, asker)
    assert plan.steps == steps
    assert len(plan.left) == len(left)
    assert all(text in said for text, said in zip(left, plan.left, strict=True))


def test_who_is_not_known_owns_nothing():
    assert plan_undrain(now(cordoned(drain="fan"), in_slurm("IDLE")), BOTH, DrainAsker()).steps == ()


def test_it_says_what_was_done_for_whom_and_what_is_left():
    at = now(BY_ANN, BOBS)
    assert render(explain_steps(at, plan_undrain(at, BOTH, ANN), is_done=True)) == (
        "Node node-1 (Slurm node n1, IDLE+DRAIN) is still held by others\n"
        "\n"
        "held before     Kubernetes, by ann@x, since 2026-11-20T08:00:00Z: cordon: fan\n"
        "                Slurm, by bob, since 2026-11-18T11:06:40Z: disk\n"
        "done            uncordon the Node; the syncer lifts the drain that it set for the cordon\n"
        "left as it is   Slurm, by bob: disk: not yours; to change it anyway: --set-by bob, with an operator's "
        "--slurm-token-file\n"
        "still there     1 job 7\n"
        "\n"
        "what to do      See who else holds it: kubectl sunk why-drained node-1"
    )
    at = now(node(1), IDLE)
    text = render(explain_steps(at, plan_drain(at, KUBERNETES, "fan", ANN), is_done=False))
    assert "would be taken out of service" in text
    assert "would do        cordon the Node for 'fan', by ann@x; the syncer drains it in Slurm" in text
    assert text.endswith("Ask again without --dry-run.")
    text = render(explain_steps(at, plan_undrain(at, BOTH, ANN), is_done=True))
    assert text.startswith("Node node-1 (Slurm node n1, IDLE) is not drained\n")


def to_check(state=None, signal="label", **changes):
    """A node with a check; `state` where it stands on its way back."""
    notes = changes.pop("annotations", {})
    at = sick(record=record(state, signal, **changes) if state else None, annotations=notes)
    held = HeldNode(node=at.name, slurm_node="n1", slurm="IDLE", holds=())
    return NodeNow(held=held, node=at, pod=slurmd_pod(check_s=600))


@pytest.mark.parametrize(
    ("at", "left"),
    [
        (to_check(), ""),
        (to_check(State.SUSPECT), ""),
        (to_check(State.PERSON, "fan"), ""),
        (to_check(annotations={names.ANNOTATION_VERIFY: "bob"}), "bob has asked for its check already"),
        (
            to_check(annotations={names.ANNOTATION_HEALTH_IGNORED: "mine"}),
            "an annotation tells sunkpy to ignore its health: kubectl annotate node n1 sunkpy.dev/health-ignored-",
        ),
        (to_check(State.DRAINED), "it is closed for signal label, and is checked before it returns anyway"),
        (
            to_check(State.PERSON, "prolog", reason="Prolog error"),
            "Slurm has drained it (Prolog error): mend the node, then lift that drain",
        ),
        (
            msgspec.structs.replace(to_check(), pod=slurmd_pod()),
            "its slurmd pod has no check: give chart slurm one, compute.verify.script",
        ),
        (msgspec.structs.replace(to_check(), node=None), "the Node could not be read"),
    ],
)
def test_a_check_is_asked_for_unless_something_is_in_the_way(at, left):
    plan = plan_verify(at, ANN)
    assert (plan.steps, plan.left) == (((), (left,)) if left else ((Verify("ann@x"),), ()))


def test_whose_name_nobody_knows_is_somebody():
    assert plan_verify(to_check(), DrainAsker()).steps == (Verify("somebody"),)
