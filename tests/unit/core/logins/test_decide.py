"""When a personal login pod is started, stopped and made again, and that nothing else ever ends it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunkpy.core.logins import LoginView, RenewPod, StartLogin, StopLogin, decide_login
from sunkpy.core.logins.view import Ended
from tests.unit.core.logins.build import NAME, make_pod, make_view, make_workload

STOPPED = make_workload(replicas=0)
RUNNING = make_workload()
NEW = make_workload(generation=1)
READY = make_pod()
YOUNG = make_pod(age_s=5)
UNUSED = StopLogin(NAME, "7", "it has not been asked for")


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (make_view(STOPPED, None), None),
        (make_view(STOPPED, None, is_asked=True), StartLogin(NAME, "7")),
        (make_view(STOPPED, make_pod(is_deleting=True), is_asked=True), StartLogin(NAME, "7")),
        (make_view(RUNNING, READY), None),
        (make_view(RUNNING, READY, is_asked=True), None),
        (make_view(RUNNING, None, is_asked=True), None),
        (make_view(RUNNING, make_pod(code=80)), StopLogin(NAME, "7", "it is unused", make_pod(code=80))),
        (make_view(RUNNING, make_pod(code=81)), RenewPod(make_pod(code=81))),
        (make_view(RUNNING, make_pod(code=81, is_deleting=True)), None),
        (
            make_view(RUNNING, make_pod(phase="Pending", revision="old"), is_asked=True),
            RenewPod(make_pod(phase="Pending", revision="old")),
        ),
        (make_view(RUNNING, make_pod(phase="Pending", revision="old")), None),
        (make_view(RUNNING, make_pod(phase="Pending"), is_asked=True), None),
        (make_view(make_workload(observed=1), make_pod(phase="Pending", revision="old"), is_asked=True), None),
        (make_view(RUNNING, make_pod(revision="old"), is_asked=True), None),
        (make_view(NEW, YOUNG), UNUSED),
        (make_view(NEW, None), UNUSED),
        (make_view(NEW, make_pod(phase="Pending")), UNUSED),
        (make_view(NEW, READY), None),
        (make_view(NEW, make_pod(code=81)), RenewPod(make_pod(code=81))),
        (make_view(NEW, YOUNG, stops=False), None),
        (make_view(RUNNING, make_pod(code=80), stops=False), RenewPod(make_pod(code=80))),
        (make_view(RUNNING, make_pod(code=80, is_deleting=True), stops=False), None),
        (make_view(make_workload(replicas=0, generation=1), None), None),
        (make_view(None, None, is_asked=True), None),
        (make_view(make_workload(is_deleting=True), make_pod(code=80), is_asked=True), None),
    ],
)
def test_what_is_done(view: LoginView, expected: object):
    assert decide_login(view) == expected


@pytest.mark.parametrize("is_up_again", [False, True], ids=["just now", "and was started again"])
def test_an_idle_pod_stops_also_when_it_is_asked_for_since_sshd_has_left_it(is_up_again: bool):
    left = make_pod(code=80, is_up_again=is_up_again)
    view = make_view(RUNNING, left, is_asked=True)
    assert decide_login(view) == StopLogin(NAME, "7", "it is unused", left)


def test_a_pod_that_is_asked_for_before_it_was_ever_changed_stops_first_and_then_starts_for_good():
    assert isinstance(decide_login(make_view(NEW, YOUNG, is_asked=True)), StopLogin)
    assert isinstance(decide_login(make_view(STOPPED, make_pod(is_deleting=True), is_asked=True)), StartLogin)


@given(
    code=st.none() | st.integers(0, 255).filter(lambda code: code not in list(Ended)),
    is_up_again=st.booleans(),
    is_ready=st.booleans(),
    is_deleting=st.booleans(),
    is_asked=st.booleans(),
    stops=st.booleans(),
)
def test_a_pod_that_sshd_did_not_leave_for_a_reason_of_ours_is_never_touched(
    code, is_up_again, is_ready, is_deleting, is_asked, stops
):
    pod = make_pod(code=code, is_up_again=is_up_again, is_ready=is_ready, is_deleting=is_deleting)
    assert decide_login(make_view(RUNNING, pod, is_asked=is_asked, stops=stops)) is None


@given(
    generation=st.integers(1, 3),
    revision=st.sampled_from(["new", "old"]),
    is_ready=st.booleans(),
    is_asked=st.booleans(),
    stops=st.booleans(),
)
def test_a_pod_in_which_somebody_may_be_is_never_touched(generation, revision, is_ready, is_asked, stops):
    """Even if somebody made the StatefulSet again, an upgrade is half done, or nobody has looked for long."""
    pod = make_pod(is_ready=is_ready, revision=revision)
    view = make_view(make_workload(generation=generation), pod, is_asked=is_asked, stops=stops)
    assert decide_login(view) is None
