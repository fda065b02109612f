"""A roll takes slurmd pods from under services: only a roll, only where the next pod is the same Slurm node."""

import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.model.objects import Container, Meta, NodeDevice, Pod, PodSpec, PodStatus, Resources
from sunkpy.core.nodeset.actions import AnnotateJobs, CancelPending, DeletePod, MarkPending
from sunkpy.core.nodeset.decide import decide_nodeset
from sunkpy.core.nodeset.services import has_successor
from sunkpy.core.nodeset.slurmd_pod import features, offer
from sunkpy.core.nodeset.spec import Gpu, Reserved
from tests.unit.core.nodeset.build import make_node, make_nodeset, make_pod, make_template, make_world

NODESET = make_nodeset(max_unavailable=2, features=("ib",))
ROLL, SHRINK = "2026-11-20T11:30:00+00:00/rollout", "2026-11-20T11:30:00+00:00/scale-down"
JUST_NOW, LONG_AGO = "2026-11-20T11:59:45Z", "2026-11-20T11:59:29Z"


def node(number, **kwargs):
    return make_node(number, annotations={names.ANNOTATION_PLACED_ON: f"gpu-012-{number:03d}"}, **kwargs)


def pod(number, *, nodeset=NODESET, told=JUST_NOW, token=ROLL, answer=ROLL, jobs="12", without=(), **kwargs):
    """Made from an older template, marked by a roll, services on its node."""
    notes = {
        names.ANNOTATION_OFFERED: offer(NODESET, node(number)),
        names.ANNOTATION_FEATURES: features(NODESET, node(number)),
        names.ANNOTATION_JOBS: jobs,
        names.ANNOTATION_REPLACEABLE: answer,
        names.ANNOTATION_REPLACEABLE_AT: told,
    }
    kept = {key: value for key, value in notes.items() if value and key not in without}
    kwargs = {"running": "True", "drain": "True", "template_hash": "old", **kwargs}
    return make_pod(nodeset, number, token=token, annotations=kept, **kwargs)


def new(number):
    """An available slurmd pod of the present template."""
    return make_pod(NODESET, number, annotations={names.ANNOTATION_OFFERED: offer(NODESET, node(number))})


def service(number, job="12", *, phase="Running"):
    meta = Meta(name=f"web-{job}", namespace="default", annotations={names.ANNOTATION_JOB_ID: job})
    return Pod(metadata=meta, spec=PodSpec(node_name=f"n{number}"), status=PodStatus(phase=phase))


def plan(pods, *, nodeset=NODESET, nodes=None, occupants=None):
    there = nodes or [node(int(pod.name[-3:])) for pod in pods]
    occupied = {f"n{number}": [service(number)] for number in range(1, 9)} if occupants is None else occupants
    return decide_nodeset(make_world(nodeset, there, pods, occupants=occupied))


def replaced(pods, **kwargs):
    steps = [step for step in plan(pods, **kwargs).actions if isinstance(step, DeletePod)]
    return {step.pod.name[-1] for step in steps if step.why == "replaced"}


def test_a_pod_of_an_older_template_goes_from_under_services():
    assert replaced([pod(1), new(2)]) == {"1"}


@pytest.mark.parametrize(
    "old",
    [
        pytest.param(pod(1, answer=None), id="the syncer has not answered"),
        pytest.param(pod(1, answer="2026-11-20T11:29:00+00:00/rollout"), id="it answered an earlier token"),
        pytest.param(pod(1, told=LONG_AGO), id="its answer is old"),
        pytest.param(pod(1, told=None), id="its answer has no time"),
        pytest.param(pod(1, token=SHRINK, answer=SHRINK), id="the token has another cause"),
        pytest.param(pod(1, deleting=True), id="it goes already"),
        pytest.param(pod(1, template_hash=None), id="it is of the present template after all"),
        pytest.param(pod(1, name="gpu-012-009"), id="the next pod has another name"),
        pytest.param(pod(1, without=[names.ANNOTATION_OFFERED]), id="nobody knows its size"),
        pytest.param(pod(1, without=[names.ANNOTATION_FEATURES]), id="nobody knows its features"),
    ],
)
def test_else_it_stays(old):
    assert replaced([old, new(2)], nodes=[node(1), node(2)]) == set()


@pytest.mark.parametrize(
    "there",
    [
        pytest.param(node(1, unschedulable=True), id="cordoned: an emptied node gets no pod back"),
        pytest.param(node(1, ready=False), id="its kubelet is silent"),
        pytest.param(node(1, allocatable={"cpu": "4"}), id="it has another size by now"),
        pytest.param(node(1, created="2026-11-20T10:00:00Z", labels={"x": "y"}), id=""),
    ],
)
def test_its_node_must_be_as_it_was_and_take_the_next_pod(there):
    assert replaced([pod(1), new(2)], nodes=[there, node(2)]) == ({"1"} if there.labels else set())


@pytest.mark.parametrize(
    ("change", "keeps"),
    [
        pytest.param({}, True, id="nothing"),
        pytest.param({"features": ("roce",)}, False, id="features"),
        pytest.param({"cluster": "c2"}, False, id="cluster"),
        pytest.param({"reserved": Reserved(cpu="2")}, False, id="size"),
        pytest.param({"smt": "apart"}, False, id="cores"),
        pytest.param({"pod_name_prefix": "x"}, False, id="name"),
    ],
)
def test_a_new_slurmd_that_says_something_else_needs_a_record_that_slurm_would_not_make(change, keeps):
    nodeset = msgspec.structs.replace(NODESET, spec=msgspec.structs.replace(NODESET.spec, **change))
    assert has_successor(nodeset, node(1), pod(1)) is keeps


def test_a_slurmd_that_checks_its_machine_first_may_come_too_late_for_services():
    template = {**make_template(), "metadata": {"annotations": {names.ANNOTATION_VERIFY_SECONDS: "600"}}}
    spec = msgspec.structs.replace(NODESET.spec, template=template)
    assert not has_successor(msgspec.structs.replace(NODESET, spec=spec), node(1), pod(1))


@pytest.mark.parametrize(("cpu", "takes"), [("4", {"1"}), ("5", set())])
def test_the_next_pod_must_fit_beside_what_is_on_the_node(cpu, takes):
    bigger = make_nodeset(max_unavailable=2, features=("ib",), template=make_template(requests={"cpu": cpu}))
    web = msgspec.structs.replace(service(1), spec=PodSpec(node_name="n1", containers=(asks("4"),)))
    old, proven = pod(1), make_pod(bigger, 2, annotations={names.ANNOTATION_OFFERED: offer(bigger, node(2))})
    assert replaced([old, proven], nodeset=bigger, occupants={"n1": [web, old]}) == takes
    told_of = plan([old, proven], nodeset=bigger, occupants={"n1": [web, old]}).actions
    assert [step.jobs for step in told_of if isinstance(step, AnnotateJobs)] == ([] if takes else [""])


def asks(cpu):
    return Container(resources=Resources(requests={"cpu": cpu}))


def test_a_node_on_which_another_slurmd_pod_waits_is_not_taken():
    other = make_pod(make_nodeset(name="other"), 1, name="other-012-001", created="2026-11-20T11:59:00Z")
    assert replaced([pod(1), other, new(2)], nodes=[node(1), node(2)]) == set()


def test_where_replicas_says_how_many_the_next_pod_may_be_elsewhere():
    nodeset = make_nodeset(replicas=2, max_unavailable=2, features=("ib",))
    assert replaced([pod(1, nodeset=nodeset), new(2)], nodeset=nodeset) == set()


def test_no_other_removal_is_shortened():
    shrunk = make_nodeset(replicas=0, features=("ib",))
    assert replaced([pod(1, nodeset=shrunk)], nodeset=shrunk) == set()
    assert replaced([pod(1)], nodeset=make_nodeset(deleting=True, features=("ib",))) == set()
    paused = make_nodeset(paused=True, features=("ib",))
    assert replaced([pod(1, nodeset=paused)], nodeset=paused) == set()


def test_a_template_that_has_shown_no_available_pod_takes_one_from_under_services():
    both = [pod(1), pod(2)]
    assert len(replaced(both)) == 1
    assert replaced([pod(1), pod(2), new(3)]) == {"1", "2"}
    starting = make_pod(NODESET, 3, ready=False, annotations={names.ANNOTATION_OFFERED: offer(NODESET, node(3))})
    assert replaced([pod(1), starting]) == set()
    assert replaced([pod(1)], nodes=[node(1), node(2)]) == set(), "one is yet to be made"
    assert replaced([pod(1, deleting=True), pod(2)]) == set()
    dead = [node(1, ready=False), node(2)]
    assert replaced([pod(1, deleting=True, ready=False), pod(2)], nodes=dead) == {"2"}


@pytest.mark.parametrize("broken", [1, 2])
def test_where_a_template_before_brought_no_slurmd_the_next_one_comes_first(broken):
    """Slurm gives such a node up soon, and its services lose it."""
    assert replaced([pod(number, ready=number != broken) for number in (1, 2)]) == {str(broken)}


def told(pods, occupants, **kwargs):
    steps = plan(pods, occupants=occupants, **kwargs).actions
    return [action.jobs for action in steps if isinstance(action, AnnotateJobs)]


@pytest.mark.parametrize(
    ("noted", "occupants", "jobs"),
    [
        ("", [service(1, "12")], ["12"]),
        ("12", [service(1, "12")], []),
        ("12", [service(1, "12"), service(1, "15")], ["12,15"]),
        ("12,15", [service(1, "12"), service(1, "15", phase="Succeeded")], ["12"]),
        ("12", [service(1, "12"), service(1, "12")], []),
        ("12", [service(1, "12"), service(1, "x")], []),
        ("12", [], [""]),
        ("", [], []),
    ],
)
def test_the_syncer_is_told_of_the_jobs_of_pods_as_they_are(noted, occupants, jobs):
    assert told([pod(1, answer=None, jobs=noted)], {"n1": occupants}) == jobs


def test_it_is_told_of_none_where_the_pod_would_stay_all_the_same():
    assert told([pod(1, answer=None, jobs="")], {"n1": [service(1)]}, nodes=[node(1, ready=False)]) == []
    assert told([pod(1, answer=None, token=SHRINK, jobs="")], {"n1": [service(1)]}) == []
    unmarked = pod(1, token=None, answer=None, jobs="")
    assert [type(step) for step in plan([unmarked]).actions] == [MarkPending]


def test_a_roll_that_is_called_off_calls_off_the_removal():
    assert [type(step) for step in plan([pod(1, template_hash=None)]).actions] == [CancelPending]


def test_a_slurmd_that_would_have_other_devices_stays_under_services():
    """Their devices are known by its indices."""
    nodeset = make_nodeset(gpu=Gpu(driver="d"))
    a, b = (
        msgspec.structs.replace(node(1), devices={"d": tuple(NodeDevice(word=word) for word in words)})
        for words in ("ab", "ac")
    )
    notes = {names.ANNOTATION_OFFERED: offer(nodeset, a), names.ANNOTATION_FEATURES: features(nodeset, a)}
    there = make_pod(nodeset, 1, annotations=notes)
    assert has_successor(nodeset, a, there)
    assert not has_successor(nodeset, b, there)
    older = make_pod(nodeset, 1, annotations={**notes, names.ANNOTATION_OFFERED: "cpus=8 memory=32256 gres=gpu:2"})
    assert has_successor(nodeset, b, older), "of an older operator"
