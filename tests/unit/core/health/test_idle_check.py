"""A check of an idle machine that fails closes the node, with its log, until another slurmd pod passes it."""

from __future__ import annotations

import subprocess

import msgspec
import pytest

from sunkpy.core import names
from sunkpy.core.health import State, drain_text, read_record
from sunkpy.core.health.idle_check import (
    CHECK,
    ENVIRONMENT,
    IdleCheck,
    Outcome,
    check_script,
    read_idle_check,
    time_limit_min,
)
from sunkpy.core.health.verification import run_of
from sunkpy.core.health.words import news_of, what_comes_next
from tests.unit.core.health.build import CHECK_FAILED, NEWER, node, pod, record, step, stepped

WELL = pod(check_s=600)
FAILED = IdleCheck(
    job=7,
    outcome=Outcome.FAILED,
    at="2026-11-28T11:59:00Z",
    text="verify failed with 3",
    log="looking\nlink mlx5_3 is down",
)


def checked(check, on=WELL):
    annotations = {**on.annotations, names.ANNOTATION_IDLE_CHECK: check.encode()}
    return msgspec.structs.replace(on, metadata=msgspec.structs.replace(on.metadata, annotations=annotations))


def told(check=FAILED):
    return checked(msgspec.structs.replace(check, is_told=True))


def test_it_closes_the_node_with_its_log():
    closed = step(node(), checked(FAILED))
    assert (closed.after.state, closed.after.log, closed.closes) == (State.PERSON, FAILED.log, True)
    assert drain_text(stepped(node(), checked(FAILED))) == "Verification: while it was idle, verify failed with 3"
    assert news_of(closed, "gpu-1").note == (
        "the check of the machine failed while nothing ran there: Verification: while it was idle, verify failed with "
        "3. the check's last lines: kubectl sunk history gpu-1. Mend the node, then: kubectl sunk verify gpu-1"
    )


@pytest.mark.parametrize("outcome", [Outcome.PASSED, Outcome.NOT_MADE])
def test_all_else_changes_nothing(outcome):
    check = msgspec.structs.replace(FAILED, outcome=outcome)
    assert step(node(), checked(check)).after is None
    odd = msgspec.structs.replace(
        WELL, metadata=msgspec.structs.replace(WELL.metadata, annotations={names.ANNOTATION_IDLE_CHECK: "[7]"})
    )
    assert (step(node(), odd).after, read_idle_check(odd)) == (None, None)


def test_the_cap_leaves_it_open_and_says_so():
    held = step(node(), checked(FAILED), has_room=False)
    assert (held.after.state, held.is_held, drain_text(stepped(node(), checked(FAILED), has_room=False))) == (
        State.SUSPECT, True, None,
    )  # fmt: skip
    waits = stepped(node(), checked(FAILED), has_room=False)
    assert step(waits, checked(FAILED)).after.state is State.PERSON
    start = pod(check_s=600, restarts=1, words=CHECK_FAILED)
    assert step(node(), start, has_room=False).after.state is State.PERSON, "Slurm does not have it: it takes no room"


def test_it_does_not_wait_behind_a_signal_with_patience():
    suspect = stepped(node(deadlock="True"), WELL)
    assert read_record(suspect).state is State.SUSPECT
    assert step(suspect, checked(FAILED)).after.state is State.PERSON


def test_it_counts_although_the_same_slurmd_passed_a_check_before():
    passed = record(State.WELL, "label", run=run_of(WELL))
    assert step(node(record=passed), WELL).after.state is State.WELL
    assert step(node(record=passed), checked(FAILED)).after.state is State.PERSON


@pytest.mark.parametrize("restarts", [0, 2])
def test_no_start_of_the_same_pod_brings_it_back(restarts):
    closed = stepped(node(), checked(FAILED))
    again = checked(msgspec.structs.replace(FAILED, is_told=True), pod(check_s=600, restarts=restarts, ready=True))
    for _ in range(3):
        closed = stepped(closed, again, after_s=7200)
    assert read_record(closed).state is State.PERSON
    assert what_comes_next(read_record(closed), "gpu-1") == (
        "the check's last lines: kubectl sunk history gpu-1. Mend the node, then: kubectl sunk verify gpu-1"
    )


def test_another_slurmd_pod_that_passes_it_brings_it_back():
    closed = stepped(node(), checked(FAILED))
    passed = pod(drain=True, check_s=600, created=NEWER)
    back = stepped(stepped(closed, passed), passed, after_s=60)
    assert read_record(back).state is State.WELL


def test_who_wipes_the_record_of_it_opens_the_node():
    assert step(node(), told()).after is None
    assert step(node(record=record(State.WELL, "label")), told()).after.state is State.WELL


@pytest.mark.parametrize(
    ("body", "how", "log"),
    [
        ("echo looking; echo 'link is down' >&2; exit 3", "verify failed with 3", "looking\nlink is down"),
        ("kill -KILL $$", "verify failed with 137", ""),
        ("sleep 9", "verify took more than 1 s", ""),
        ("printf 'caf\\xc3\\xa9\\001'; exit 1", "verify failed with 1", "caf"),
        ("seq 1000; exit 1", "verify failed with 1", "\n".join(map(str, range(991, 1001)))),
    ],
)
def test_what_fails_is_made_once_more_and_told_before_the_job_holds_the_node(tmp_path, body, how, log):
    assert run_job(tmp_path, body, {"PATH": f"{tmp_path}:/usr/bin:/bin"}) == (
        1,
        [
            f"comment=failed once: {how}\n{log}",
            "slept 60",
            f"comment=failed: {how}, and 60 s before that: {how}\n{log}\n--- 60 s later:\n{log}",
            "slept 120",
        ],
    )


def test_what_passes_then_has_passed_and_says_how_it_failed(tmp_path):
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    assert run_job(tmp_path, "exit 0", environment) == (0, [])
    flake = f"[ -e {tmp_path}/once ] || {{ touch {tmp_path}/once; echo '/home: stale'; exit 5; }}"
    assert run_job(tmp_path, flake, environment) == (
        0,
        [
            "comment=failed once: verify failed with 5\n/home: stale",
            "slept 60",
            "comment=passed: verify failed with 5, and passed 60 s later\n/home: stale",
        ],
    )


def test_the_job_has_the_environment_of_the_check_before_slurmd_and_no_other(tmp_path):
    (tmp_path / "sbin").mkdir()
    tool = tmp_path / "sbin/ethtool"
    tool.write_text("#!/bin/bash\nprintf '%s|' \"$@\"\n")
    tool.chmod(0o755)
    kept = {"PATH": f"{tmp_path}/sbin:{tmp_path}:/usr/bin:/bin", "HOME": "/root", "SITE": "two  words\n", "-x": "*"}
    body = 'set -u; ethtool "$HOME" "${SITE%?}" "$SLURM_JOB_ID" "${TMPDIR-none}" "${SLURM_X-none}"; exit 3'
    code, (first, *_) = run_job(tmp_path, body, kept)
    assert (code, first) == (1, "comment=failed once: verify failed with 3\n/root|two  words|7|none|none|")


@pytest.mark.parametrize("kept", [None, {}])
def test_without_that_environment_it_is_not_made(tmp_path, kept):
    code, said = run_job(tmp_path, "exit 3", kept)
    assert (code, said) == (
        2,
        [
            "comment=not made: /etc/sunkpy/verify/environment is missing, as of an older image of slurmd: "
            "replace the slurmd pod"
        ],
    )


def run_job(tmp_path, body, kept):
    """The job's exit code, its commands to Slurm and its pauses. `kept`: the environment of the check before slurmd."""
    check, said, environment = tmp_path / "verify", tmp_path / "said", tmp_path / "environment"
    if kept is not None:
        environment.write_text("".join(f"{key}={value}\0" for key, value in kept.items()))
    waits = f"[ $1 != 9 ] || exec /bin/sleep 9; [ $1 = 2 ] || printf 'slept %s\\0' $1 >> {said}"
    programs = {"verify": body, "scontrol": f"printf '%s\\0' \"$3\" >> {said}", "sleep": waits}
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    script = check_script(1).replace(CHECK, str(check)).replace(f"< {ENVIRONMENT}", f"< {environment}")
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "SLURM_JOB_ID": "7", "SLURM_X": "1", "TMPDIR": str(tmp_path)}
    done = subprocess.run(["bash", "-c", script], env=env, check=False)
    return done.returncode, said.read_text().split("\0")[:-1] if said.exists() else []


def test_slurm_ends_only_what_cannot_be_ended_otherwise():
    assert [time_limit_min(each) for each in (1, 600, 3600)] == [5, 25, 125]
