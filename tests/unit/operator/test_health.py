"""The health of Nodes: which signals values name, the cap, and what the figures say."""

from __future__ import annotations

import itertools
from datetime import timedelta

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from sunkpy.core import names
from sunkpy.core.health import Rule, State
from sunkpy.core.health.known import KNOWN
from sunkpy.core.health.verification import REQUESTED
from sunkpy.core.model.times import rfc3339
from sunkpy.core.nodeset.emptied import token_of_question
from sunkpy.core.nodeset.windows import Window
from sunkpy.operator.health import HealthWatch
from sunkpy.operator.metrics import HealthMetrics
from sunkpy.operator.settings import HealthSettings
from tests.unit.core.health.build import LABEL, MENDER, NOW, RULES, node, pod, record

BAD = Rule(label=LABEL, bad=("bad",))
SETTINGS = HealthSettings(signals={"label": BAD})
CLUSTER = {names.LABEL_NAMESPACE: "slurm", names.LABEL_CLUSTER: "c1", names.LABEL_NODESET: "gpu"}


class Watch:
    """A watch of the health of Nodes with clocks that stand still."""

    def __init__(self, settings: HealthSettings = SETTINGS) -> None:
        self.registry = CollectorRegistry()
        self.passed_s = 0.0
        self.watch = HealthWatch(
            settings,
            HealthMetrics(self.registry),
            now=lambda: NOW + timedelta(seconds=self.passed_s),
            clock=lambda: self.passed_s,
        )

    def figure(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)


def named(number: int, **changes):
    made = node(**changes)
    labels = {**made.labels, **CLUSTER}
    return msgspec.structs.replace(
        made, metadata=msgspec.structs.replace(made.metadata, name=f"n{number}", labels=labels)
    )


def told(on, token):
    """The slurmd pod with the syncer's answer of now."""
    return with_notes(on, {names.ANNOTATION_DRAINED: token, names.ANNOTATION_DRAINED_AT: rfc3339(NOW)})


def with_notes(on, notes):
    meta = msgspec.structs.replace(on.metadata, annotations={**on.annotations, **notes})
    return msgspec.structs.replace(on, metadata=meta)


def test_nothing_counts_unless_values_name_it():
    assert HealthSettings().rules.signals == {}
    assert Watch(HealthSettings()).watch.step(node(label="bad", deadlock="True"), pod(), ()).changes == {}


def test_a_source_brings_its_signals_and_values_have_the_last_word():
    slower = Rule(condition="KernelDeadlock", patience_seconds=600)
    settings = HealthSettings(
        sources=("nodeProblemDetector", "slurm"),
        without=("NTPProblem",),
        signals={"KernelDeadlock": slower, "own": BAD},
    )
    signals = settings.rules.signals
    assert list(signals)[:2] == ["KernelDeadlock", "own"]
    assert signals["KernelDeadlock"] is slower
    assert set(signals) == {*KNOWN["nodeProblemDetector"], *KNOWN["slurm"], "own"} - {"NTPProblem"}
    assert "ReadonlyFilesystem" in settings.conditions
    assert "NTPProblem" not in settings.conditions


def test_a_source_that_nobody_knows_is_refused():
    with pytest.raises(msgspec.ValidationError, match="Invalid enum value 'npd'"):
        msgspec.convert({"sources": ["npd"]}, HealthSettings)


def test_a_signal_on_all_nodes_closes_a_fifth_of_them_though_the_watch_shows_none_yet():
    watch = Watch().watch
    nodes = [named(number, label="bad") for number in range(40)]
    for each in nodes:
        watch.node_changed(None, each)
    states = [watch.step(each, pod(), ()).after.state for each in nodes]
    assert (states.count(State.CLOSING), states.count(State.SUSPECT)) == (8, 32)


def test_what_is_closed_already_counts_and_slurms_own_drains_do_not():
    watch = Watch().watch
    for number in range(3):
        watch.node_changed(None, named(number, label="bad", record=record(State.PERSON, "label")))
    assert watch.step(named(9, label="bad"), pod(), ()).is_held
    others = Watch().watch
    for number in range(3):
        others.node_changed(None, named(number, record=record(State.DRAINED, "kill")))
    assert others.step(named(9, label="bad"), pod(), ()).closes


def test_as_many_are_remedied_at_once_as_may_be_closed():
    mend = Rule(label=LABEL, bad=("broken",), remedy="mender")
    watch = Watch(HealthSettings(signals={"mend": mend}, remedies={"mender": MENDER})).watch
    nodes = [named(number, label="broken", record=record(State.DRAINED, "mend")) for number in range(5)]
    for each in nodes:
        watch.node_changed(None, each)
    states = [watch.step(each, None, ()).after.state for each in nodes]
    assert (states.count(State.REMEDY), states.count(State.DRAINED)) == (3, 2)


def test_who_waits_until_others_are_repaired_is_not_asked_each_ten_seconds():
    mend = Rule(label=LABEL, bad=("broken",), remedy="mender")
    watch = Watch(HealthSettings(signals={"mend": mend}, remedies={"mender": MENDER})).watch
    for number in range(3):
        watch.node_changed(None, named(number, label="broken", record=record(State.REMEDY, "mend")))
    waits = named(9, label="broken", record=record(State.DRAINED, "mend"))
    assert not watch.asks(waits, pod(drain=True))
    watch.node_changed(named(0, label="broken", record=record(State.REMEDY, "mend")), named(0))
    assert watch.asks(waits, pod(drain=True))


def test_a_remedy_waits_for_slurms_word_of_now():
    mend = Rule(label=LABEL, bad=("broken",), remedy="mender")
    watch = Watch(HealthSettings(signals={"mend": mend}, remedies={"mender": MENDER})).watch
    drained = named(1, label="broken", record=record(State.DRAINED, "mend"))
    assert watch.asks(drained, pod(drain=True))
    assert not watch.step(drained, pod(drain=True), ()).begins_remedy, "what the pod shows may be hours old"


def test_a_drain_is_asked_after_and_over_once_the_syncer_has_just_said_so():
    watch = Watch().watch
    draining = named(1, label="bad", record=record(State.DRAINING, "label"))
    assert watch.asks(draining, pod(drain=True, busy=True))
    waits = watch.step(draining, pod(drain=True), ()).after
    assert (waits.state, waits.due) == (State.DRAINING, "2026-11-28T13:00:00Z"), "what the pod shows may be hours old"
    answered = told(pod(drain=True), token_of_question(draining))
    assert watch.step(draining, answered, ()).after.state is State.DRAINED
    assert not watch.asks(named(1, label="bad", record=record(State.DRAINED, "label")), answered)


def test_a_drain_is_over_by_the_answer_to_the_removal_of_the_pod_too():
    watch = Watch().watch
    draining = named(1, label="bad", record=record(State.DRAINING, "label", ago_s=86_400))
    removal = "2026-11-28T11:30:00Z/rollout"
    marked = with_notes(pod(drain=True), {names.ANNOTATION_PENDING_DELETION: removal})
    assert watch.step(draining, told(marked, token_of_question(draining)), ()).after.state is State.DRAINING
    assert watch.step(draining, told(marked, removal), ()).after.state is State.DRAINED


def test_a_signal_whose_remedy_is_not_there_is_refused():
    with pytest.raises(ValueError, match=r"health\.signals\.fan: there is no remedy mender in health\.remedies"):
        HealthSettings(signals={"fan": Rule(label=LABEL, bad=("x",), remedy="mender")})


def test_the_figures_say_where_nodes_stand_and_how_fast_they_were_drained():
    rig = Watch()
    seen = named(1, label="bad")
    rig.watch.node_changed(None, seen)
    closing = named(1, label="bad", record=rig.watch.step(seen, pod(), ()).after)
    rig.watch.node_changed(seen, closing)
    at = {"namespace": "slurm", "cluster": "c1", "nodeset": "gpu", "signal": "label"}
    assert rig.figure("sunkpy_health_nodes", state="closing", **at) == 1
    rig.passed_s = 0.4
    draining = named(1, label="bad", record=rig.watch.step(closing, pod(drain=True), ()).after)
    rig.watch.node_changed(closing, draining)
    assert rig.figure("sunkpy_health_nodes", state="closing", **at) is None
    assert rig.figure("sunkpy_health_nodes", state="draining", **at) == 1
    assert rig.figure("sunkpy_health_steps_total", state="draining", signal="label") == 1
    assert rig.figure("sunkpy_health_drain_seconds_sum") == pytest.approx(0.4)
    assert rig.figure("sunkpy_health_failures_total", **at) == 1
    rig.watch.node_changed(draining, None)
    assert rig.figure("sunkpy_health_nodes", state="draining", **at) is None


def test_the_figures_say_how_long_nodes_stood_where():
    rig = Watch()
    where = {"namespace": "slurm", "cluster": "c1", "nodeset": "gpu"}
    steps = [
        None,
        record(State.CLOSING, "label", ago_s=100),
        record(State.DRAINED, "label", ago_s=70),
        record(State.DRAINED, "label", ago_s=70, due="2026-11-28T13:00:00Z"),
        record(State.VERIFY, "label", ago_s=60),
        record(State.VERIFY, "label", ago_s=60).returned(NOW, why="cured"),
    ]
    for before, after in itertools.pairwise(steps):
        rig.watch.node_changed(named(1, record=before), named(1, record=after))
    found = {state: rig.figure("sunkpy_health_state_seconds_total", state=state, **where) for state in State}
    told = {state: seconds for state, seconds in found.items() if seconds}
    assert told == {"closing": 30, "drained": 10, "verify": 60}
    assert rig.figure("sunkpy_health_failures_total", signal="label", **where) == 1


def test_a_check_that_somebody_asks_for_is_no_failure():
    rig = Watch()
    asked = msgspec.structs.replace(record(State.CLOSING, "label"), signal=REQUESTED)
    rig.watch.node_changed(named(1), named(1, record=asked))
    where = {"namespace": "slurm", "cluster": "c1", "nodeset": "gpu"}
    assert rig.figure("sunkpy_health_failures_total", signal=REQUESTED, **where) is None


@pytest.mark.parametrize(
    ("windows", "state"),
    [((), State.REMEDY), ((Window(start="22:00", hours=6),), State.DRAINED), (None, State.DRAINED)],
)
def test_a_remedy_waits_for_a_window_or_until_it_is_known_whether_there_is_one(windows, state):
    settings = HealthSettings(signals={"mend": RULES.signals["mend"]}, remedies={"mender": MENDER})
    watch = HealthWatch(settings, HealthMetrics(CollectorRegistry()), windows_of=lambda _: windows, now=lambda: NOW)
    sick, drained = node(label="broken", record=record(State.DRAINED, "mend")), pod(drain=True)
    assert watch.asks(sick, drained) is (state is State.REMEDY), "an answer is a write each ten seconds"
    step = watch.step(sick, told(drained, token_of_question(sick)), ())
    assert step.after.state is state
    assert ("22:00" in step.after.why) is bool(windows)
