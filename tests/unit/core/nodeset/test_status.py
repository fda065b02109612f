import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.health import State
from sunkpy.core.model.growth import GrowthStatus
from sunkpy.core.model.objects import Condition, ContainerState, ContainerStatus, Terminated
from sunkpy.core.nodeset.decide import decide_nodeset
from sunkpy.core.nodeset.slurmd_pod import offer
from sunkpy.core.nodeset.spec import Gpu, NodeSetStatus
from sunkpy.core.nodeset.status import report, report_unreadable
from sunkpy.core.nodeset.windows import Window
from sunkpy.operator.trim import trim_pod
from tests.unit.core.health.build import record
from tests.unit.core.nodeset.build import NOW, make_node, make_nodeset, make_pod, make_template, make_world

TOKEN = "2026-11-20T11:30:00+00:00/scale-down"


def status_of(world):
    return report(world, decide_nodeset(world))


def said(status, type_):
    condition = status.condition(type_)
    return condition and (condition.status, condition.reason)


def test_the_numbers():
    nodeset = make_nodeset(replicas=5)
    pods = [
        make_pod(nodeset, 1, running="True"),
        make_pod(nodeset, 2, drain="True", template_hash="old"),
        make_pod(nodeset, 3, ready=False),
        make_pod(nodeset, 9, ready=True),  # its node is not there
    ]
    sick = {names.ANNOTATION_HEALTH: record(State.PERSON, "kill").encode()}
    nodes = [make_node(n, annotations=sick if n == 2 else {}) for n in range(1, 5)]
    status, _ = status_of(make_world(nodeset, nodes, pods))
    assert status.number_unhealthy == 1
    assert status.desired_number_scheduled == 5
    assert status.number_feasible == 4
    assert status.current_number_scheduled == 3
    assert status.number_ready == 2
    assert status.number_drain == 1
    assert status.number_running == 1
    assert status.number_misscheduled == 1
    assert status.number_unavailable == 2
    assert status.updated_number_scheduled == 2
    assert status.observed_generation == 3
    assert status.selector == "sunkpy.dev/nodeset=gpu,sunkpy.dev/role=compute"


def test_a_nodeset_at_rest_is_complete():
    nodeset = make_nodeset()
    status, notices = status_of(make_world(nodeset, [make_node(1)], [make_pod(nodeset, 1)]))
    assert said(status, "Available") == ("True", "MinimumAvailable")
    assert said(status, "Progressing") == ("False", "Complete")
    assert said(status, "Feasible") == ("True", "NodesFit")
    assert notices == []


def test_a_nodeset_that_fits_no_node_says_which_rule_excluded_how_many():
    nodeset = make_nodeset(template=make_template(nodeSelector={"pool": "gpu"}, requests={"memory": "64Gi"}))
    nodes = [make_node(1), make_node(2), make_node(3, labels={"pool": "gpu"})]
    status, notices = status_of(make_world(nodeset, nodes))
    assert said(status, "Feasible") == ("False", "NoNodeFits")
    text = "3 nodes: 2 do not match nodeSelector, 1 lacks memory: needs 64Gi, has 32Gi"
    assert [(notice.type, notice.reason, notice.message) for notice in notices] == [("Warning", "NoNodeFits", text)]


def test_nodes_whose_device_plugin_is_away_are_told():
    nodeset = make_nodeset(gpu=Gpu())
    before, away = (make_node(1, allocatable={"nvidia.com/gpu": count}) for count in ("4", "0"))
    pod = make_pod(nodeset, 1, annotations={names.ANNOTATION_OFFERED: offer(nodeset, before)})
    other = make_node(2, allocatable={"nvidia.com/gpu": "4"})
    status, notices = status_of(make_world(nodeset, [away, other], [pod, make_pod(nodeset, 2)]))
    assert status.condition("Feasible").message == (
        "1 of 2 nodes fit; no GPUs are offered on the nodes of gpu-012-001: is a device plugin away? The pods stay for "
        "10 minutes"
    )
    assert notices == []


def test_what_the_syncer_says_of_growth_stays():
    growth = GrowthStatus(wanted_nodes=3, since="2026-01-01T00:00:00Z")
    status, _ = status_of(make_world(make_nodeset(status=NodeSetStatus(growth=growth)), []))
    assert status.growth == growth


def test_too_few_nodes():
    status, _ = status_of(make_world(make_nodeset(replicas=3), [make_node(1)]))
    assert said(status, "Feasible") == ("False", "TooFewNodes")


def test_an_event_is_said_once_and_a_time_kept_while_the_status_lasts():
    old = Condition(
        type="Feasible",
        status="False",
        reason="NoNodeFits",
        message="no nodes",
        last_transition_time="2026-01-01T00:00:00Z",
    )
    nodeset = make_nodeset(status=NodeSetStatus(conditions=(old,)))
    status, notices = status_of(make_world(nodeset, []))
    assert notices == []
    assert status.condition("Feasible").last_transition_time == "2026-01-01T00:00:00Z"
    assert status.condition("Available").last_transition_time == NOW.strftime("%Y-%m-%dT%H:%M:%SZ")


def test_what_is_going_on_is_told():
    older = "of an older template stay until the roll is resumed or they are deleted"
    until_deleted = "of an older template stay until they are deleted (updateStrategy OnDelete)"
    failed = {"phase": "Failed", "reason": "OutOfcpu"}
    cases = [
        (make_nodeset(replicas=0), {"token": TOKEN}, "Scaling", "waiting for Slurm to drain gpu-012-001"),
        (make_nodeset(), {"template_hash": "old"}, "RollingOut", "0 of 1 updated; choosing pods to remove"),
        (make_nodeset(paused=True), {"template_hash": "old"}, "Paused", f"gpu-012-001 {older}"),
        (
            make_nodeset(windows=(Window(days=("Sat",), start="22:00", hours=4),)),
            {"template_hash": "old"},
            "WaitsForWindow",
            "gpu-012-001 of an older template stay until the window at 2026-11-21T22:00:00Z",
        ),
        (make_nodeset(strategy="OnDelete"), {"template_hash": "old"}, "OnDelete", f"gpu-012-001 {until_deleted}"),
        (make_nodeset(), {"ready": False}, "WaitingForReady", "gpu-012-001 not ready; 1 of 1 updated"),
        (make_nodeset(), failed, "PodsFailed", "gpu-012-001 failed (OutOfcpu); tried again later"),
        (make_nodeset(deleting=True), {}, "TearingDown", "choosing pods to remove"),
    ]
    for nodeset, pod, reason, text in cases:
        status, _ = status_of(make_world(nodeset, [make_node(1)], [make_pod(nodeset, 1, **pod)]))
        progressing = status.condition("Progressing")
        assert (progressing.reason, progressing.message) == (reason, text)


@pytest.mark.parametrize(
    ("template", "changes", "reason", "text"),
    [
        ("old", {}, "RollingOut", "0 of 2 updated; gpu-012-001 terminating"),
        ("old", {"paused": True}, "Scaling", "gpu-012-001 terminating"),
        ("old", {"strategy": "OnDelete"}, "Scaling", "gpu-012-001 terminating"),
        (None, {}, "Scaling", "gpu-012-001 terminating"),
    ],
)
@pytest.mark.parametrize("phase", ["Running", "Succeeded", "Failed"])
def test_a_pod_that_ends_is_told_before_others_that_wait_for_their_turn(phase, template, changes, reason, text):
    nodeset = make_nodeset(**changes)
    old = {} if template is None else {"template_hash": template}
    pods = [make_pod(nodeset, 1, deleting=True, phase=phase, **old), make_pod(nodeset, 2, **old)]
    status, _ = status_of(make_world(nodeset, [make_node(1), make_node(2)], pods))
    progressing = status.condition("Progressing")
    assert (progressing.status, progressing.reason, progressing.message) == ("True", reason, text)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("check-cgroups: this node cannot keep jobs\n", "check-cgroups: this node cannot keep jobs"),
        ("version\nstarts\nno file\nAborting.\nfatal\n", "no file; Aborting.; fatal"),
    ],
    ids=["what it left", "the last of its log"],
)
def test_why_slurmd_does_not_start_is_said_on_the_nodeset(message, why):
    """As on a node whose kernel cannot hold jobs, or without a plugin that the configuration names."""
    nodeset = make_nodeset()
    ended = ContainerStatus(name="slurmd", last_state=ContainerState(terminated=Terminated(message=message)))
    pods = [make_pod(nodeset, 1, ready=False), make_pod(nodeset, 2, ready=False)]
    pods[1] = msgspec.structs.replace(
        pods[1], status=msgspec.structs.replace(pods[1].status, container_statuses=(ended,))
    )
    status, _ = status_of(make_world(nodeset, [make_node(1), make_node(2)], list(map(trim_pod, pods))))
    progressing = status.condition("Progressing")
    assert progressing.message == f"gpu-012-[001-002] not ready; 2 of 2 updated; gpu-012-002 has ended: {why}"


def test_a_refused_pod_is_a_condition_and_an_event():
    world = make_world(make_nodeset(), [make_node(1)], create_error="spec.containers[0].image: Required value")
    status, notices = status_of(world)
    assert said(status, "Progressing") == ("False", "CreateFailed")
    assert notices[0].message == "spec.containers[0].image: Required value"


def test_held_removals_say_how_to_go_on():
    nodeset = make_nodeset(template=make_template(nodeSelector={"pool": "gpu"}))
    nodes = [make_node(n) for n in range(1, 8)]
    status, notices = status_of(make_world(nodeset, nodes, [make_pod(nodeset, n) for n in range(1, 8)]))
    assert said(status, "RemovalHeld") == ("True", "TooManyAtOnce")
    text = status.condition("RemovalHeld").message
    assert text == (
        "the nodes of gpu-012-[001-007] no longer fit: 7 do not match nodeSelector. At most 5 are removed at "
        "once without confirmation: restore the nodes' labels or the template, or confirm with: "
        "kubectl annotate nodeset … sunkpy.dev/removal-cap=7"
    )
    assert ("TooManyAtOnce", text) in {(notice.reason, notice.message) for notice in notices}


@pytest.mark.parametrize(
    ("cap", "told"), [("²", True), ("9" * 5000, True), ("", True), ("6", False), ("06", False), ("0", False)]
)
def test_held_removals_say_that_the_cap_cannot_be_read(cap, told):
    template = make_template(nodeSelector={"pool": "gpu"})
    nodeset = make_nodeset(template=template, annotations={names.ANNOTATION_REMOVAL_CAP: cap})
    nodes = [make_node(n) for n in range(1, 8)]
    status, _ = status_of(make_world(nodeset, nodes, [make_pod(nodeset, n) for n in range(1, 8)]))
    text = status.condition("RemovalHeld").message
    assert text.endswith(f"; {cap[:40]!r}, its value now, is not a number of pods") == told


def test_an_overdue_drain_is_told():
    nodeset = make_nodeset(replicas=0, drain_timeout_s=60)
    status, notices = status_of(make_world(nodeset, [make_node(1)], [make_pod(nodeset, 1, token=TOKEN)]))
    assert said(status, "DrainTimeout") == ("True", "DrainTimeout")
    text = "gpu-012-001 not drained after 60 s; they keep waiting for their jobs (drainTimeoutPolicy: Wait)"
    assert ("DrainTimeout", text) in {(notice.reason, notice.message) for notice in notices}


def test_pods_on_nodes_that_do_not_fit_are_misscheduled_and_not_current():
    nodeset = make_nodeset(template=make_template(nodeSelector={"pool": "gpu"}))
    status, _ = status_of(make_world(nodeset, [make_node(1)], [make_pod(nodeset, 1)]))
    assert (status.current_number_scheduled, status.number_misscheduled) == (0, 1)


@pytest.mark.parametrize(
    ("kind", "annotations", "text"),
    [
        ("SharedTmp", {}, None),
        ("SharedPids", {}, None),
        (
            "SharedTmp", {names.ANNOTATION_SHARED_TMP: "slurmConfig.cgroup: disabled"},
            "the jobs of a node share /tmp and /dev/shm, because of slurmConfig.cgroup: disabled",
        ),
        (
            "SharedPids", {names.ANNOTATION_SHARED_PIDS: "slurmConfig.privatePids: false"},
            "the jobs of a node share process ids, because of slurmConfig.privatePids: false: each job sees the "
            "processes of its user's other jobs there. slurmConfig.privatePids: true hides them. It needs "
            "slurmConfig.cgroup: auto, cgroup v2 and Slurm 25.11 or newer; set it while no job runs",
        ),
    ],
)  # fmt: skip
def test_a_nodeset_says_what_its_jobs_share_and_is_ready(kind: str, annotations: dict[str, str], text: str | None):
    nodeset = make_nodeset()
    told = msgspec.structs.replace(nodeset, metadata=msgspec.structs.replace(nodeset.metadata, annotations=annotations))
    world = make_world(told, [make_node(1)], [make_pod(told, 1)])
    status, notices = report(world, decide_nodeset(world))
    condition = status.condition(kind)
    assert (condition and (condition.status, condition.message)) == (text and ("True", text))
    assert (status.condition("Ready").status, notices) == ("True", [])


def test_a_nodeset_that_cannot_be_read_says_so_and_keeps_its_numbers():
    feasible = Condition(type="Feasible", status="True", last_transition_time="2026-01-01T00:00:00Z")
    nodeset = make_nodeset(status=NodeSetStatus(number_ready=7, conditions=(feasible,)))
    status, notices = report_unreadable(nodeset, "Expected `array`, got `str` - at `$.tolerations`", NOW)
    assert status.number_ready == 7
    assert status.condition("Feasible") == feasible
    assert said(status, "Progressing") == ("False", "BadSpec")
    assert status.condition("Progressing").message.startswith("Expected `array`")
    assert [(notice.type, notice.reason) for notice in notices] == [("Warning", "BadSpec")]
    assert (said(status, "Stalled"), said(status, "Ready")) == (("True", "BadSpec"), ("False", "BadSpec"))
    assert status.observed_generation == nodeset.metadata.generation
    again = msgspec.structs.replace(nodeset, status=status)
    assert report_unreadable(again, "Expected `array`, got `str` - at `$.tolerations`", NOW) == (status, [])
    assert report_unreadable(again, "another", NOW)[1] != []
    corrected, _ = status_of(make_world(msgspec.structs.replace(again, spec=make_nodeset().spec), [make_node(1)]))
    assert said(corrected, "Stalled") is None


def test_a_condition_about_many_pods_stays_short():
    nodeset = make_nodeset(replicas=0)
    pods = [make_pod(nodeset, n, token=TOKEN, running="True") for n in range(0, 500, 2)]
    status, _ = status_of(make_world(nodeset, [make_node(n) for n in range(0, 500, 2)], pods))
    progressing = status.condition("Progressing")
    assert progressing.message.endswith(",014,016,018] and 240 more")
