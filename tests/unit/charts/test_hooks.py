"""prolog.sh and epilog.sh as slurmctld serves them, run against a small server with set answers."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType

import pytest

from devcluster.waiting import wait, wait_until_equal
from sunkpy.core.gang.identity import GangId, parse_comment
from tests.doubles.nvidia import information
from tests.unit.charts.rendering import of_kind, render

LEADER = "/leader"
NOBODY = 2_000_000 + os.getpid()
"""No other run's on this machine: an Epilog ends the user's processes wherever they run."""
OWN_JOB = 12
UNHELD = {"SUNKPY_REFUSAL_S": "0"}
NO_TIME = {
    "SUNKPY_PROLOG_TIMEOUT_S": "0",
    "SUNKPY_EPILOG_TIMEOUT_S": "0",
    "SUNKPY_OUTAGE_TIMEOUT_S": "0",
}

BEGIN_SOON = Path(__file__).parents[3] / "slurm-images/bin/begin-soon"

# Remembers what it was told; shows a node as the file `node` says. A reason is one argument, so its spaces count.
SCONTROL = """#!/bin/bash
case $* in
  "show hostnames"*) printf '%s\\n' ${3//,/ } ;;
  *"show job"*) cat "${0%/*}/job" ;;
  *requeue* | *starttime*)
    printf '%s\\n' "$*" >> "${0%/*}/requeued"
    [ "$1" != requeue ] || sed -i '1s/RUNNING Reason=Prolog/PENDING Reason=BeginTime/' "${0%/*}/job"
    ;;
  *show*) cat "${0%/*}/node" ;;
  *) printf '%s\\n' "${@: -1}" >> "${0%/*}/reasons" ;;
esac
"""
SCANCEL = """#!/bin/bash
printf 'cancel %s\\n' "$*" >> "${0%/*}/requeued"
"""


@dataclass
class Scheduler:
    """Answers in order, the last one for ever; remembers what was asked. 0 hangs up without an answer.

    `body` is said instead of what follows from the status; of `cut_off` answers only the beginning arrives.
    """

    answers: list[int] = field(default_factory=lambda: [200])
    body: bytes = b""
    cut_off: int = 0
    asked: list[tuple[str, str, object]] = field(default_factory=list)
    port: int = 0
    when_asked: Callable[[], None] = lambda: None


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    state = Scheduler()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            state.when_asked()
            state.asked.append((self.path, self.headers["Authorization"], json.loads(body)))
            status = state.answers.pop(0) if len(state.answers) > 1 else state.answers[0]
            if status == 0:
                return
            self.send_response(status)
            if status == 307:
                self.send_header("Location", f"http://127.0.0.1:{state.port}{LEADER}{self.path}")
            said = state.body or json.dumps({"done": status == 200}).encode()
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            if state.cut_off:
                state.cut_off, said = state.cut_off - 1, said[:-5]
                self.close_connection = True
            self.wfile.write(said)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield state
    server.shutdown()
    thread.join()
    server.server_close()


@dataclass(frozen=True)
class Hooks:
    """The scripts, and the files they find in a slurmd pod."""

    folder: Path
    port: int

    @property
    def markers(self) -> set[int]:
        return {int(path.name) for path in (self.folder / "markers").iterdir() if path.name != "passed"}

    @property
    def reasons(self) -> list[str]:
        """What the hooks have made the node's reason, in order."""
        told = self.folder / "reasons"
        return [line.removeprefix("reason=") for line in told.read_text().splitlines()] if told.exists() else []

    def mark(self, *jobs: int) -> None:
        for job in jobs:
            (self.folder / "markers" / str(job)).touch()

    def show_node(self, record: str) -> None:
        (self.folder / "node").write_text(f"NodeName=gpu-012-002 {record} Comment=\n")

    def set_up(self, **settings: str) -> None:
        settings = {"SUNKPY_HOOKS_URL": f"http://127.0.0.1:{self.port}", **settings}
        (self.folder / "hooks.env").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def start(
        self,
        hook: str,
        *,
        comment: str = "k8s:default/pod:uid",
        job: int = OWN_JOB,
        uid: int = 0,
        kill_wait_s: int = 30,
        gpus: str = "",
        env: Mapping[str, str] = MappingProxyType({}),
    ) -> subprocess.Popen[str]:
        """Start one as slurmd would: with nothing in the environment but Slurm's variables."""
        slurm = {
            "SLURM_JOB_COMMENT": comment,
            "SLURM_JOB_ID": str(job),
            "SLURM_JOB_UID": str(uid),
            "SLURMD_NODENAME": "gpu-012-002",
            **({"SLURM_JOB_GPUS": gpus} if gpus else {}),
        }
        ours = {
            "SUNKPY_HOOKS_ENV": str(self.folder / "hooks.env"),
            "SUNKPY_TOKEN_FILE": str(self.folder / "token"),
            "SUNKPY_MARKERS": str(self.folder / "markers"),
            "SUNKPY_JOINED": str(self.folder / "joined"),
            "SUNKPY_USERS": str(self.folder / "users"),
            "SUNKPY_PATH": f"{self.folder}:/usr/bin:/bin",
            "SUNKPY_KILL_WAIT_S": str(kill_wait_s),
            "SUNKPY_CONTAINERS": str(self.folder / "containers"),
            "SUNKPY_GPU_JOBS": str(self.folder / "gpu-jobs"),
            "SUNKPY_GPUS": str(self.folder / "gpus"),
            "SUNKPY_NVIDIA": str(self.folder / "driver"),
            "SUNKPY_SITE": str(self.folder / "site"),
            "SUNKPY_SCRIPT_TIMEOUT_S": "60",
            "SUNKPY_SLURMD_PID_FILE": str(self.folder / "slurmd.pid"),
            "SUNKPY_LOG": str(self.folder / "log"),
            "TMPDIR": str(self.folder),
        }
        return subprocess.Popen(
            ["bash", str(self.folder / f"{hook}.sh")],
            env=slurm | ours | env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(
        self, hook: str, *, comment: str = "k8s:default/pod:uid", job: int = OWN_JOB, **settings: str
    ) -> subprocess.CompletedProcess[str]:
        self.set_up(**settings)
        return finished(self.start(hook, comment=comment, job=job))


def finished(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@pytest.fixture(scope="module")
def scripts() -> dict[str, str]:
    data = of_kind(render("slurm"), "ConfigMap")["demo-slurm-config"]["data"]
    return {name: data[name] for name in ("prolog.sh", "epilog.sh")}


@pytest.fixture
def hooks(tmp_path: Path, scheduler: Scheduler, scripts: dict[str, str]) -> Hooks:
    for name, text in scripts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "token").write_text("secret-token\n")
    (tmp_path / "scontrol").write_text(SCONTROL)
    (tmp_path / "scancel").write_text(SCANCEL)
    for program in ("scontrol", "scancel"):
        (tmp_path / program).chmod(0o755)
    shutil.copy(BEGIN_SOON, tmp_path)
    (tmp_path / "markers").mkdir()
    hooks = Hooks(folder=tmp_path, port=scheduler.port)
    hooks.show_node("State=IDLE")
    hooks.set_up()
    return hooks


def paths(scheduler: Scheduler) -> list[str]:
    return [path.removeprefix("/hooks/v1/") for path, *_ in scheduler.asked]


@pytest.mark.parametrize("hook", ["prolog", "epilog"])
def test_a_hook_says_who_it_is_and_for_which_job(hook: str, hooks: Hooks, scheduler: Scheduler):
    assert hooks.run(hook).returncode == 0
    said = {"job_id": OWN_JOB, "node": "gpu-012-002", "gang": "k8s:default/pod:uid"}
    assert scheduler.asked == [(f"/hooks/v1/{hook}", "Bearer secret-token", said)]


@pytest.mark.parametrize("hook", ["prolog", "epilog"])
@pytest.mark.parametrize(
    "answers", [[202, 202, 200], [503, 200], [0, 200], [500, 202, 200], [401, 200], [403, 202, 200]]
)
def test_a_hook_asks_until_it_is_done(hook: str, answers: list[int], hooks: Hooks, scheduler: Scheduler):
    scheduler.answers = list(answers)
    assert hooks.run(hook).returncode == 0
    assert len(scheduler.asked) == len(answers)


@pytest.mark.parametrize("hook", ["prolog", "epilog"])
def test_a_hook_follows_to_the_leader_with_body_and_token(hook: str, hooks: Hooks, scheduler: Scheduler):
    scheduler.answers = [307, 200]
    assert hooks.run(hook).returncode == 0
    first, second = scheduler.asked
    assert second == (f"{LEADER}{first[0]}", *first[1:])


@pytest.mark.parametrize(("hook", "code"), [("prolog", 0), ("epilog", 1)])
@pytest.mark.parametrize("status", [401, 403])
def test_a_refusal_that_lasts_is_believed(hook: str, code: int, status: int, hooks: Hooks, scheduler: Scheduler):
    scheduler.answers = [status]
    done = hooks.run(hook, **UNHELD)
    assert (done.returncode, len(scheduler.asked)) == (code, 1)
    assert str(status) in done.stderr


@pytest.mark.parametrize("hook", ["prolog", "epilog"])
def test_a_refusal_is_not_believed_before_a_kubelet_would_have_brought_another_token(
    hook: str, scripts: dict[str, str]
):
    """After a long outage of the apiserver: it syncs a pod each minute, and waits 122 s after one of many failures."""
    (patience_s,) = re.findall(r"SUNKPY_REFUSAL_S:=(\d+)", scripts[f"{hook}.sh"])
    assert int(patience_s) > 1.5 * 60 + 122


@pytest.mark.parametrize("hook", ["prolog", "epilog"])
@pytest.mark.parametrize("status", [401, 429])
def test_a_token_that_was_renewed_while_a_hook_was_refused_is_sent_at_the_next_try(
    hook: str, status: int, hooks: Hooks, scheduler: Scheduler
):
    def renew() -> None:
        (hooks.folder / "token").write_text("renewed-token\n")

    scheduler.answers, scheduler.when_asked = [status, status, 200], renew
    assert hooks.run(hook).returncode == 0
    assert [token for _, token, _ in scheduler.asked] == ["Bearer secret-token", *2 * ["Bearer renewed-token"]]


@pytest.mark.parametrize("status", [200, 202])
@pytest.mark.parametrize("body", [b"it works", b'{"status":"ok"}'])
def test_an_epilog_believes_nobody_but_the_scheduler(status: int, body: bytes, hooks: Hooks, scheduler: Scheduler):
    """A standby sends callers to an address, and when its leader has died that may be somebody else's by now."""
    hooks.mark(OWN_JOB)
    scheduler.answers, scheduler.body = [status], body
    hooks.set_up(SUNKPY_EPILOG_TIMEOUT_S="1", SUNKPY_OUTAGE_TIMEOUT_S="1")
    epilog = hooks.start("epilog")
    wait(lambda: len(scheduler.asked) >= 5, timeout_s=60, what="it asks again and again")
    assert (epilog.poll(), hooks.markers) == (None, {OWN_JOB})
    scheduler.answers, scheduler.body = [200], b""
    assert (finished(epilog).returncode, hooks.markers, hooks.reasons) == (0, set(), [])


def test_an_answer_that_was_cut_off_is_asked_for_again(hooks: Hooks, scheduler: Scheduler):
    hooks.mark(OWN_JOB)
    scheduler.body, scheduler.cut_off = b'{"done":true,"kept":true}', 1
    assert hooks.run("epilog").returncode == 0
    assert (len(scheduler.asked), hooks.markers) == (2, {OWN_JOB})


@pytest.mark.parametrize(("hook", "status", "code"), [("prolog", 202, 0), ("prolog", 503, 0), ("epilog", 202, 1)])
def test_a_hook_ends_when_its_time_is_up(hook: str, code: int, status: int, hooks: Hooks, scheduler: Scheduler):
    scheduler.answers = [status]
    assert hooks.run(hook, **NO_TIME).returncode == code
    assert scheduler.asked


def test_no_time_passes_for_an_epilog_while_nobody_answers(hooks: Hooks, scheduler: Scheduler):
    """Nor is its node drained: whoever is silent evicts no pod."""
    hooks.mark(OWN_JOB)
    scheduler.answers = [503, 503, 503, 202, 200]
    assert hooks.run("epilog", SUNKPY_EPILOG_TIMEOUT_S="1").returncode == 0
    assert (len(scheduler.asked), hooks.reasons) == (5, [])


@pytest.mark.parametrize("answer", [503, 0, 404])
def test_an_epilog_outlasts_an_outage_and_ends_when_somebody_answers(answer: int, hooks: Hooks, scheduler: Scheduler):
    hooks.mark(OWN_JOB)
    scheduler.answers = [answer]
    hooks.set_up(**NO_TIME)
    epilog = hooks.start("epilog")
    wait(lambda: len(scheduler.asked) >= 3, timeout_s=60, what="it asks again and again")
    assert (epilog.poll(), hooks.markers) == (None, {OWN_JOB})
    scheduler.answers = [200]
    assert (finished(epilog).returncode, hooks.markers, hooks.reasons) == (0, set(), [])


@pytest.mark.parametrize("hook", ["prolog", "epilog"])
@pytest.mark.parametrize("comment", ["", "my job", "ak8s:x"])
def test_other_jobs_on_a_node_without_pods_ask_nobody(hook: str, comment: str, hooks: Hooks, scheduler: Scheduler):
    assert hooks.run(hook, comment=comment).returncode == 0
    assert (scheduler.asked, hooks.markers) == ([], set())


@pytest.mark.parametrize("hook", ["prolog", "epilog"])
def test_without_a_scheduler_there_is_nobody_to_ask(hook: str, hooks: Hooks, scheduler: Scheduler):
    assert hooks.run(hook, SUNKPY_HOOKS_URL="").returncode == 0
    assert (scheduler.asked, hooks.markers) == ([], set())


def test_a_missing_token_does_not_pass_for_done(hooks: Hooks, scheduler: Scheduler):
    (hooks.folder / "token").unlink()
    assert hooks.run("prolog", **NO_TIME).returncode == 0
    hooks.set_up()
    epilog = hooks.start("epilog")
    assert epilog.stderr is not None
    assert any("HTTP 000, next try" in line for line in epilog.stderr)
    assert (epilog.poll(), scheduler.asked) == (None, [])
    (hooks.folder / "token").write_text("secret-token\n")
    assert (finished(epilog).returncode, paths(scheduler)) == (0, ["epilog"])


# ------------------------------------------------------------------------------------------------ markers and the gate


def test_a_placeholder_is_marked_before_anybody_is_asked(hooks: Hooks, scheduler: Scheduler):
    seen: list[set[int]] = []
    scheduler.when_asked = lambda: seen.append(hooks.markers)
    assert hooks.run("prolog").returncode == 0
    assert (paths(scheduler), seen) == (["prolog"], [{OWN_JOB}])


def test_only_a_successful_epilog_takes_its_own_marker_away(hooks: Hooks, scheduler: Scheduler):
    hooks.mark(OWN_JOB, 7)
    scheduler.answers = [202]
    assert hooks.run("epilog", **NO_TIME).returncode == 1
    assert hooks.markers == {OWN_JOB, 7}
    scheduler.answers = [200]
    assert hooks.run("epilog").returncode == 0
    assert hooks.markers == {7}


def test_a_job_that_has_passed_the_prolog_is_noted_until_its_epilog(hooks: Hooks, scheduler: Scheduler):
    """For requeue-lost."""
    passed, old = (hooks.folder / "markers/passed" / str(job) for job in (OWN_JOB, 7))
    assert hooks.run("prolog").returncode == 0
    assert passed.exists()
    old.touch()
    assert hooks.run("epilog").returncode == 0
    assert (passed.exists(), old.exists()) == (False, True)
    passed.touch()
    hooks.mark(7)
    assert hooks.run("prolog", comment="", SUNKPY_HOOKS_URL="").returncode == 1
    assert not passed.exists(), "nobody opened the gate"


def test_an_epilog_asks_for_a_job_that_left_a_mark_whatever_its_comment_says_by_now(hooks: Hooks, scheduler: Scheduler):
    hooks.mark(OWN_JOB)
    scheduler.answers = [202]
    assert hooks.run("epilog", comment="mine", **NO_TIME).returncode == 1
    scheduler.answers = [200]
    assert hooks.run("epilog", comment="mine").returncode == 0
    assert (paths(scheduler)[-1], hooks.markers) == ("epilog", set())


def test_an_epilog_keeps_the_marker_of_pods_that_stay(hooks: Hooks, scheduler: Scheduler):
    hooks.mark(OWN_JOB)
    scheduler.body = b'{"done":true,"kept":true}'
    assert hooks.run("epilog").returncode == 0
    assert hooks.markers == {OWN_JOB}


def test_an_epilog_cut_short_leaves_the_marker(hooks: Hooks, scheduler: Scheduler):
    hooks.mark(OWN_JOB)
    asked = threading.Event()
    scheduler.when_asked = asked.set
    scheduler.answers = [503]
    epilog = hooks.start("epilog")
    assert asked.wait(60)
    os.killpg(epilog.pid, signal.SIGKILL)
    finished(epilog)
    assert hooks.markers == {OWN_JOB}


@pytest.mark.parametrize(("marked", "code"), [((OWN_JOB,), 0), ((), 1)])
def test_an_epilog_that_ends_with_its_slurmd_fails_only_without_a_marker(
    marked: tuple[int, ...], code: int, hooks: Hooks, scheduler: Scheduler
):
    hooks.mark(*marked)
    asked = threading.Event()
    scheduler.when_asked, scheduler.answers = asked.set, [503]
    epilog = hooks.start("epilog")
    assert asked.wait(60)
    os.killpg(epilog.pid, signal.SIGTERM)
    assert finished(epilog).returncode == code
    assert hooks.markers == set(marked)


@pytest.mark.parametrize("comment", ["", "k8s:default/pod:uid"])
def test_a_job_waits_for_the_pods_of_jobs_that_were_here_before(comment: str, hooks: Hooks, scheduler: Scheduler):
    hooks.mark(7, 8)
    scheduler.answers = [202, 503, 202, 200]
    assert hooks.run("prolog", comment=comment).returncode == 0
    assert paths(scheduler) == ["gate"] * 4 + (["prolog"] if comment else [])
    said = {"job_id": OWN_JOB, "node": "gpu-012-002", "gang": comment, "marked": [7, 8]}
    assert scheduler.asked[0][2] == said
    assert 7 in hooks.markers


@pytest.mark.parametrize("body", [b'{"done":true,"over":[7,9,12]}', b'{"done": true, "over": [7, 9, 12]}'])
def test_markers_of_jobs_whose_pods_have_left_are_forgotten(body: bytes, hooks: Hooks, scheduler: Scheduler):
    hooks.mark(7, 8, 9)
    scheduler.body = body
    assert hooks.run("prolog").returncode == 0
    assert hooks.markers == {8, OWN_JOB}


def test_a_marker_under_the_number_of_a_job_without_pods_is_an_older_jobs(hooks: Hooks, scheduler: Scheduler):
    hooks.mark(OWN_JOB)
    assert hooks.run("prolog", comment="").returncode == 0
    assert scheduler.asked[0][2] == {"job_id": OWN_JOB, "node": "gpu-012-002", "gang": "", "marked": [OWN_JOB]}


def requeued(hooks: Hooks) -> list[str]:
    told = hooks.folder / "requeued"
    return told.read_text().splitlines() if told.exists() else []


def guards(hooks: Hooks) -> list[str]:
    """The processes that requeue the job of a Prolog that is cut short."""
    return processes("sunkpy-prolog", hooks)


def processes(name: str, hooks: Hooks) -> list[str]:
    """The processes of this test that have such a word on their command line."""
    return [path.parent.name for path in Path("/proc").glob("[0-9]*/cmdline") if has_word(path, name, hooks)]


def has_word(cmdline: Path, name: str, hooks: Hooks) -> bool:
    try:
        words = cmdline.read_text().split("\0")
    except OSError:  # it has ended meanwhile
        return False
    paths = [word for word in words if word.startswith(f"{hooks.folder}/")]
    return bool(paths) and (name in words or any(word.endswith(f"/{name}") for word in paths))


def is_zombie(pid: int) -> bool:
    """It has ended, and nobody has taken its end."""
    return ") Z " in Path(f"/proc/{pid}/stat").read_text()


def log(hooks: Hooks) -> list[str]:
    """What was said about the job once its Prolog could say nothing any more."""
    told = hooks.folder / "log"
    return told.read_text().splitlines() if told.exists() else []


REQUEUE = [f"update jobid={OWN_JOB} requeue=1", f"requeue {OWN_JOB}"]
BEGIN = [f"update jobid={OWN_JOB} starttime=now+3"]


AGAIN = "the job is requeued"
NOT_AGAIN = "the allocation is cancelled, because Slurm cannot requeue it"


@pytest.mark.parametrize(
    ("state", "calls", "says"),
    [
        ("RUNNING Reason=Prolog Requeue=1", REQUEUE + BEGIN, [AGAIN]),
        ("RUNNING Reason=Prolog Requeue=0", [*REQUEUE, f"update jobid={OWN_JOB} requeue=0", *BEGIN], [AGAIN]),
        ("RUNNING Reason=Prolog BatchFlag=0", [f"cancel {OWN_JOB}"], [NOT_AGAIN]),
        ("CANCELLED Reason=None", [], []),
        ("RUNNING Reason=None", [], []),
    ],
)
def test_a_job_whose_prolog_slurm_cuts_short_at_the_gate_is_queued_again_or_cancelled_if_it_cannot_be(
    state: str, calls: list[str], says: list[str], hooks: Hooks, scheduler: Scheduler
):
    """It begins as soon as it can: Slurm would wait for two minutes."""
    asked = threading.Event()
    scheduler.when_asked, scheduler.answers = asked.set, [202]
    put_off = f"EligibleTime={time.time() + 121:.0f}"
    (hooks.folder / "job").write_text(f"JobId={OWN_JOB} JobState={state} {put_off} Dependency=(null)\n")
    hooks.mark(7)
    hooks.set_up()
    prolog = hooks.start("prolog", comment="")
    assert asked.wait(60)
    os.killpg(prolog.pid, signal.SIGKILL)
    assert prolog.communicate(timeout=60) is not None, "slurmd waits until nobody can write to it any more"
    wait(lambda: not guards(hooks), timeout_s=30, what="the watch has ended")
    assert (requeued(hooks), list(hooks.folder.glob("tmp.*"))) == (calls, [])
    assert log(hooks) == [f"gate of job {OWN_JOB}: {words}: its Prolog was killed" for words in says]


def test_a_job_whose_prolog_outlives_its_slurmd_is_queued_again(hooks: Hooks, scheduler: Scheduler):
    """A slurmd that was reconfigured meanwhile does not know it: it ends, and nobody asks how."""
    (hooks.folder / "job").write_text(f"JobId={OWN_JOB} JobState=RUNNING Reason=Prolog Requeue=1 BatchFlag=1\n")
    hooks.mark(7)
    hooks.set_up()
    prolog = hooks.start("prolog", comment="")
    wait_until_equal(lambda: requeued(hooks), REQUEUE, timeout_s=30, what="requeued")
    assert finished(prolog).returncode == 0


@pytest.mark.parametrize("comment", ["", "k8s:default/pod:uid"])
def test_a_job_at_the_gate_is_queued_again_when_its_slurmd_runs_itself_again(
    comment: str, hooks: Hooks, scheduler: Scheduler
):
    """That slurmd would begin a step beside the pods."""
    asked = threading.Event()
    scheduler.when_asked, scheduler.answers = asked.set, [202]
    (hooks.folder / "job").write_text(f"JobId={OWN_JOB} JobState=RUNNING Reason=Prolog Requeue=1 BatchFlag=1\n")
    (hooks.folder / "slurmd.pid").touch()
    hooks.mark(7)
    hooks.set_up()
    prolog = hooks.start("prolog", comment=comment)
    assert asked.wait(60)
    assert requeued(hooks) == []
    (hooks.folder / "slurmd.pid").touch()
    wait(lambda: not guards(hooks), timeout_s=30, what="nobody looks after the Prolog any more")
    assert requeued(hooks) == REQUEUE
    assert log(hooks) == [f"gate of job {OWN_JOB}: the job is requeued: slurmd started again and forgot its Prolog"]
    scheduler.answers = [200]
    assert finished(prolog).returncode == 0
    assert set(paths(scheduler)) == {"gate"}, "the Prolog goes no further"


def test_the_next_run_of_a_job_that_another_node_has_queued_again_is_left_alone(hooks: Hooks, scheduler: Scheduler):
    asked = threading.Event()
    scheduler.when_asked, scheduler.answers = asked.set, [202]
    (hooks.folder / "job").write_text(f"JobId={OWN_JOB} JobState=RUNNING Reason=Prolog Restarts=1 BatchFlag=1 End\n")
    hooks.mark(7)
    prolog = hooks.start("prolog", comment="", env={"SLURM_JOB_RESTART_COUNT": "0"})
    assert asked.wait(60)
    os.killpg(prolog.pid, signal.SIGKILL)
    finished(prolog)
    wait(lambda: not guards(hooks), timeout_s=30, what="the watch has ended")
    assert (requeued(hooks), log(hooks)) == ([], [])


@pytest.mark.parametrize("comment", ["", "k8s:default/pod:uid"])
def test_a_job_that_passes_the_gate_is_not_taken_for_one_that_was_cut_short(
    comment: str, hooks: Hooks, scheduler: Scheduler
):
    """The watch does not rest here, so that Prologs pass at each of its lines."""
    allocation = f"JobId={OWN_JOB} JobState=RUNNING Reason=Prolog Requeue=1 BatchFlag=0 Dependency=(null)\n"
    (hooks.folder / "job").write_text(allocation)
    (hooks.folder / "slurmd.pid").touch()
    hooks.mark(7)
    hooks.set_up()
    restless = {"BASH_FUNC_sleep%%": '() { [ "$1" = 0.2 ] || command sleep "$1"; }'}
    for _ in range(30):
        assert finished(hooks.start("prolog", comment=comment, env=restless)).returncode == 0
    wait(lambda: not guards(hooks), timeout_s=30, what="nobody looks after the ended Prologs")
    assert (requeued(hooks), log(hooks)) == ([], [])
    assert paths(scheduler) == (["gate", "prolog"] if comment else ["gate"]) * 30


@pytest.mark.parametrize(
    ("job", "nodes", "calls"),
    [
        ("11", "gpu-012-002,gpu-012-003", ["update jobid=11+1 starttime=now+3"]),
        ("11", "gpu-012-001,gpu-012-002", []),  # one asks for all nodes
        ("0", "gpu-012-002", []),
        ("", "gpu-012-002", []),
    ],
)
def test_a_part_of_a_heterogeneous_job_that_slurm_took_back_begins_soon(
    job: str, nodes: str, calls: list[str], hooks: Hooks
):
    put_off = f"JobState=PENDING Reason=BeginTime EligibleTime={time.time() + 121:.0f}"
    (hooks.folder / "job").write_text(f"JobId={OWN_JOB} HetJobId=11 HetJobOffset=1 {put_off} End\n")
    epilog = hooks.start("epilog", comment="", env={"SLURM_HET_JOB_ID": job, "SLURM_JOB_NODELIST": nodes})
    assert finished(epilog).returncode == 0
    wait_until_equal(lambda: requeued(hooks), calls, timeout_s=30, what="what Slurm was told")
    wait(lambda: not processes("begin-soon", hooks), timeout_s=30, what="nobody waits for the job")
    assert requeued(hooks) == calls


def test_a_prolog_that_cannot_be_watched_over_does_its_work(hooks: Hooks, scheduler: Scheduler):
    (hooks.folder / "mktemp").write_text("#!/bin/sh\nexit 1\n")
    (hooks.folder / "mktemp").chmod(0o755)
    hooks.mark(7)
    assert hooks.run("prolog").returncode == 0
    assert paths(scheduler) == ["gate", "prolog"]


def test_the_pods_of_a_placeholder_whose_prolog_outlives_its_slurmd_are_left_alone(hooks: Hooks, scheduler: Scheduler):
    (hooks.folder / "job").write_text(f"JobId={OWN_JOB} JobState=RUNNING Reason=Prolog Requeue=1 BatchFlag=1\n")
    hooks.mark(7)
    hooks.set_up()
    prolog = hooks.start("prolog")
    wait(lambda: is_zombie(prolog.pid) and not guards(hooks), timeout_s=30, what="nobody looks after the ended Prolog")
    assert requeued(hooks) == []
    assert finished(prolog).returncode == 0


def test_a_gate_that_opened_or_failed_requeues_nothing(hooks: Hooks, scheduler: Scheduler):
    (hooks.folder / "job").write_text(f"JobId={OWN_JOB} JobState=RUNNING Reason=Prolog Dependency=(null)\n")
    hooks.mark(7)
    assert hooks.run("prolog", comment="").returncode == 0
    scheduler.answers = [202]
    assert hooks.run("prolog", comment="", SUNKPY_EPILOG_TIMEOUT_S="0").returncode == 1
    assert not list(hooks.folder.glob("tmp.*"))
    wait(lambda: not guards(hooks), timeout_s=30, what="nobody looks after the ended Prologs")
    assert requeued(hooks) == []


def test_two_jobs_on_a_node_wait_for_each_other_only_at_the_gate(hooks: Hooks, scheduler: Scheduler):
    assert hooks.run("prolog", job=12).returncode == 0
    assert hooks.run("prolog", job=13).returncode == 0
    assert paths(scheduler) == ["prolog", "gate", "prolog"]
    assert hooks.run("epilog", job=12).returncode == 0
    assert hooks.markers == {13}


@pytest.mark.parametrize(
    ("answer", "limits", "says"),
    [
        (202, {"SUNKPY_EPILOG_TIMEOUT_S": "0"}, "still waiting after 0 s: pod default/a is not gone yet"),
        (403, UNHELD, "the scheduler refused with HTTP 403"),
    ],
)
def test_a_gate_that_does_not_open_keeps_the_job_out_and_says_why(
    answer: int, limits: dict[str, str], says: str, hooks: Hooks, scheduler: Scheduler
):
    hooks.mark(7)
    scheduler.answers = [answer]
    scheduler.body = b'{"done":false,"why":"pod default/a is not gone yet"}'
    done = hooks.run("prolog", comment="", **limits)
    assert done.returncode == 1
    assert hooks.reasons == [f"sunkpy gate: {says}"]
    assert hooks.markers == {7}


HERE = "BatchFlag=1 BatchHost=gpu-012-002 End"
WAITS = f"JobId={OWN_JOB} JobState=RUNNING Reason=Prolog Requeue=0 {HERE}"
TASKS = f"""\
JobId={OWN_JOB} ArrayJobId={OWN_JOB} ArrayTaskId=3 JobState=RUNNING Reason=Prolog Requeue=1 {HERE}
JobId=13 ArrayJobId={OWN_JOB} ArrayTaskId=4 JobState=RUNNING Reason=None Requeue=0 BatchFlag=1
"""


@pytest.mark.parametrize("answer", [503, 0, 404])
@pytest.mark.parametrize(
    ("record", "calls"),
    [
        (WAITS, ["update jobid=12 requeue=1", "requeue 12", "update jobid=12 requeue=0"]),
        (TASKS, ["update jobid=12_3 requeue=1", "requeue 12_3"]),
        (WAITS.replace("RUNNING", "CANCELLED"), []),
    ],
)
def test_a_batch_job_leaves_a_silent_gate_and_drains_no_node(
    answer: int, record: str, calls: list[str], hooks: Hooks, scheduler: Scheduler
):
    """Its other tasks stay as they are."""
    hooks.mark(7)
    (hooks.folder / "job").write_text(record)
    scheduler.answers = [answer]
    assert hooks.run("prolog", comment="", SUNKPY_OUTAGE_TIMEOUT_S="0", SUNKPY_AWAY_S="0.1").returncode == 0
    assert (requeued(hooks), hooks.reasons, hooks.markers) == (calls, [], {7})
    assert set(paths(scheduler)) == {"gate"}


@pytest.mark.parametrize(
    ("comment", "record"),
    [
        ("k8s:default/pod:uid", WAITS),
        ("", WAITS.replace("BatchFlag=1", "BatchFlag=0")),
        ("", WAITS.replace("Reason=Prolog", "Reason=None")),
        ("", WAITS.replace("BatchHost=gpu-012-002", "BatchHost=gpu-012-003")),
        ("", "JobId=13 JobState=CANCELLED Reason=None End"),
        ("", None),
    ],
    ids=[
        "a placeholder",
        "an allocation",
        "Slurm takes it for begun",
        "its script is elsewhere",
        "another job",
        "Slurm is silent too",
    ],
)
def test_all_others_wait_at_a_silent_gate_until_it_opens(
    comment: str, record: str | None, hooks: Hooks, scheduler: Scheduler
):
    hooks.mark(7)
    if record is not None:
        (hooks.folder / "job").write_text(record)
    scheduler.answers = [503]
    hooks.set_up(SUNKPY_OUTAGE_TIMEOUT_S="0", SUNKPY_EPILOG_TIMEOUT_S="0")
    prolog = hooks.start("prolog", comment=comment)
    wait(lambda: len(scheduler.asked) >= 3, timeout_s=60, what="it asks again and again")
    assert (prolog.poll(), set(paths(scheduler))) == (None, {"gate"})
    scheduler.answers = [200]
    assert finished(prolog).returncode == 0
    assert (requeued(hooks), hooks.reasons) == ([], [])


def test_an_outage_counts_from_the_last_answer(hooks: Hooks, scheduler: Scheduler):
    hooks.mark(7)
    (hooks.folder / "job").write_text(WAITS)
    scheduler.answers = [202, 202, 503]
    done = hooks.run("prolog", comment="", SUNKPY_OUTAGE_TIMEOUT_S="1", SUNKPY_AWAY_S="0")
    assert paths(scheduler)[:3] == ["gate"] * 3
    assert "no answer from the scheduler for 1 s (HTTP 503)" in done.stderr
    assert len(requeued(hooks)) == 3


@pytest.mark.parametrize("comment", ["", "k8s:default/pod:uid"])
def test_a_marked_node_without_settings_keeps_jobs_out(comment: str, hooks: Hooks, scheduler: Scheduler):
    hooks.mark(7)
    (hooks.folder / "hooks.env").unlink()
    assert finished(hooks.start("prolog", comment=comment)).returncode == 1
    assert hooks.reasons[0].startswith("sunkpy ")


def test_a_marked_node_without_a_scheduler_keeps_jobs_out(hooks: Hooks):
    hooks.mark(7)
    assert hooks.run("prolog", comment="", SUNKPY_HOOKS_URL="").returncode == 1
    says = f"pods of earlier jobs may be on the node ({hooks.folder}/markers), and there is no scheduler to ask"
    assert hooks.reasons == [f"sunkpy gate: {says}"]


def test_a_placeholder_that_cannot_be_marked_gets_no_pods(hooks: Hooks, scheduler: Scheduler):
    (hooks.folder / "markers").rmdir()
    (hooks.folder / "markers").write_text("not a folder")
    assert hooks.run("prolog").returncode == 1
    assert scheduler.asked == []
    assert hooks.reasons == [f"sunkpy prolog: cannot write {hooks.folder}/markers/12, so no pod may come here"]


def test_a_folder_that_an_older_pod_lacks_is_made(hooks: Hooks):
    (hooks.folder / "markers").rmdir()
    assert hooks.run("prolog").returncode == 0
    assert hooks.markers == {OWN_JOB}


# -------------------------------------------------------------------------------------------------- a failing epilog


def test_an_epilog_without_settings_does_not_give_the_node_away(hooks: Hooks):
    (hooks.folder / "hooks.env").unlink()
    assert finished(hooks.start("epilog")).returncode == 1
    says = (
        f"pods of the job may be on the node, and {hooks.folder}/hooks.env is missing, which names the scheduler to ask"
    )
    assert hooks.reasons == [f"sunkpy epilog: {says}"]


@pytest.mark.parametrize(
    ("record", "ours"),
    [
        ("State=IDLE", True),
        ("State=DOWN Reason=Not responding [slurm@2026-01-01]", True),
        ("State=DOWN*+NOT_RESPONDING Reason=Node unexpectedly rebooted [slurm@2026-01-01]", True),
        ("State=DOWN Reason=  : Not responding [slurm@2026-01-01]", True),
        ("State=DOWN Reason=Node unexpectedly rebooted : Not responding [slurm@2026-01-01]", True),
        ("State=DOWN Reason=disk broken : Not responding [slurm@2026-01-01]", False),
        ("State=MIXED+DRAIN Reason=k8s: cordon: node cordoned [slurm@2026-01-01]", True),
        ("State=DOWN Reason=k8s: pod gone [slurm@2026-01-01]", True),
        ("State=IDLE+DRAIN Reason=disk broken [root@2026-01-01]", False),
        ("State=DOWN Reason=disk broken [root@2026-01-01]", False),
        ("State=DOWN*+COMPLETING Reason=Not responding to ann [ann@2026-01-01]", False),
        ("State=IDLE+FAIL Reason=disk broken [root@2026-01-01]", False),
    ],
)
def test_a_failing_epilog_gives_its_own_reason_but_never_takes_a_persons(
    record: str, ours: bool, hooks: Hooks, scheduler: Scheduler
):
    scheduler.answers = [403]
    hooks.show_node(record)
    assert hooks.run("epilog", **UNHELD).returncode == 1
    assert hooks.reasons == (["sunkpy epilog: the scheduler refused with HTTP 403"] if ours else [])


# ---------------------------------------------------------------------------------- processes that outlived their job


@pytest.fixture
def daemons() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts processes of user `NOBODY`, as a job would have left them."""
    started: list[subprocess.Popen[bytes]] = []

    def start(job: int, first: str = ":") -> subprocess.Popen[bytes]:
        env = {"SLURM_JOB_ID": str(job), "PATH": "/usr/bin:/bin"}
        script = f"{first}; echo; exec sleep 600"
        daemon = subprocess.Popen(["bash", "-c", script], env=env, user=NOBODY, stdout=subprocess.PIPE)
        started.append(daemon)
        assert daemon.stdout is not None
        assert daemon.stdout.readline() == b"\n", "`first` is done"
        return daemon

    yield start
    for daemon in started:
        daemon.kill()
        daemon.communicate()


@pytest.mark.skipif(os.geteuid() != 0, reason="starts processes as another user")
def test_an_epilog_ends_what_a_job_left_and_nothing_of_another_job(
    hooks: Hooks, daemons: Callable[..., subprocess.Popen[bytes]]
):
    left, other, longer = daemons(OWN_JOB), daemons(13), daemons(120)
    assert finished(hooks.start("epilog", comment="", uid=NOBODY)).returncode == 0
    assert left.wait(60) == -signal.SIGTERM
    assert (other.poll(), longer.poll()) == (None, None)


@pytest.mark.skipif(os.geteuid() != 0, reason="starts processes as another user")
def test_what_ignores_sigterm_is_killed_after_kill_wait(hooks: Hooks, daemons: Callable[..., subprocess.Popen[bytes]]):
    left = daemons(OWN_JOB, "trap '' TERM")
    assert finished(hooks.start("epilog", comment="", uid=NOBODY, kill_wait_s=1)).returncode == 0
    assert left.wait(60) == -signal.SIGKILL


@pytest.mark.skipif(os.geteuid() != 0, reason="starts processes as another user")
def test_processes_of_another_user_with_the_same_number_are_not_touched(
    hooks: Hooks, daemons: Callable[..., subprocess.Popen[bytes]]
):
    forged = daemons(OWN_JOB)
    assert finished(hooks.start("epilog", comment="", uid=NOBODY + 10_000_000)).returncode == 0
    assert forged.poll() is None


# --------------------------------------------------------------------------------------------- files that users left


LEAVER = 1_000_000 + os.getpid()
"""Nobody else's on this machine: a user who has a process is left alone."""


@dataclass(frozen=True)
class Left:
    """Folders of jobs on a node, with files of `LEAVER` and of another user."""

    hooks: Hooks

    def set_up(self, **settings: str) -> None:
        for name in ("tmp", "shm", "users", "elsewhere"):
            (self.hooks.folder / name).mkdir()
            (self.hooks.folder / name).chmod(0o1777)
        self.hooks.set_up(SUNKPY_FOLDERS=f"'{self.hooks.folder}/tmp {self.hooks.folder}/shm'", **settings)

    def put(self, path: str, *, uid: int = LEAVER) -> Path:
        """A file of a user; folders on its way are theirs, too."""
        file = self.hooks.folder / path
        for folder in [*reversed(file.relative_to(self.hooks.folder).parents)][2:]:
            if not (self.hooks.folder / folder).exists():
                (self.hooks.folder / folder).mkdir()
                os.chown(self.hooks.folder / folder, uid, uid)
        file.write_text("")
        os.chown(file, uid, uid)
        return file

    def run(self, hook: str, job: int, *, uid: int = LEAVER, **env: str) -> None:
        """As slurmd does, which kills what a script has left in its process group."""
        script = self.hooks.start(hook, comment="", job=job, uid=uid, env=env)
        done = finished(script)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(script.pid, signal.SIGKILL)
        assert (done.returncode, done.stderr) == (0, "")

    def goes(self, *paths: str) -> None:
        wait(
            lambda: not any((self.hooks.folder / path).exists() for path in paths), timeout_s=60, what=f"{paths} to go"
        )

    def is_being_removed(self) -> bool:
        done = subprocess.run(
            ["flock", "--nonblock", self.hooks.folder / f"users/{LEAVER}.cleaner", "true"], check=False
        )
        return done.returncode != 0

    def stays(self, *paths: str) -> None:
        """When nobody removes any more."""
        wait(lambda: not self.is_being_removed(), timeout_s=60, what="the removal to end")
        assert [path for path in paths if not (self.hooks.folder / path).exists()] == []


@pytest.fixture
def left(hooks: Hooks) -> Left:
    found = Left(hooks)
    found.set_up()
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="files of several users")
def test_what_a_user_left_goes_after_their_last_job_on_the_node(left: Left):
    mine = ("tmp/a/b/c", "tmp/.hidden", "shm/x")
    left.run("prolog", 12)
    left.run("prolog", 13)
    for path in mine:
        left.put(path)
    left.run("epilog", 12)
    left.stays(*mine)
    left.run("epilog", 13)
    left.goes(*mine, "tmp/a")
    assert {path.name for path in (left.hooks.folder / "users").iterdir()} == {f"{LEAVER}.lock", f"{LEAVER}.cleaner"}


@pytest.mark.skipif(os.geteuid() != 0, reason="files of several users")
def test_only_files_of_that_user_go_and_no_link_is_followed(left: Left):
    left.run("prolog", 12)
    kept = left.put("elsewhere/kept")
    others = ("tmp/other/file", "tmp/mine/file-of-other", "shm/other")
    for path in ("tmp/mine/gone", "tmp/other/gone", "tmp/after"):
        left.put(path)
    for path in others:
        left.put(path, uid=LEAVER + 10_000_000)
    for name in ("folder", "file"):
        link = left.hooks.folder / f"tmp/{name}"
        link.symlink_to(kept if name == "file" else kept.parent)
        os.chown(link, LEAVER, LEAVER, follow_symlinks=False)
    left.run("epilog", 12)
    left.goes("tmp/mine/gone", "tmp/other/gone", "tmp/after")
    left.stays(*others, "elsewhere/kept")
    assert not os.path.lexists(left.hooks.folder / "tmp/folder")


@pytest.mark.skipif(os.geteuid() != 0, reason="files of several users")
def test_a_mount_below_is_no_part_of_the_folder(left: Left):
    left.run("prolog", 12)
    mount = left.hooks.folder / "tmp/mount"
    mount.mkdir()
    os.chown(mount, LEAVER, LEAVER)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", mount], check=True)
    try:
        left.put("tmp/mount/kept")
        left.put("tmp/zzz")
        left.run("epilog", 12)
        left.goes("tmp/zzz")
        left.stays("tmp/mount/kept")
    finally:
        subprocess.run(["umount", mount], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="files of several users")
def test_a_job_that_begins_meanwhile_ends_the_removal_before_it_can_write(left: Left):
    """However many files are left: here the removal never ends by itself."""
    slow = left.hooks.folder / "find"
    slow.write_text("#!/bin/bash\necho $$ > ${0%/*}/removal\nexec sleep 600\n")
    slow.chmod(0o755)
    left.put("tmp/of-before")
    left.run("prolog", 12)
    left.run("epilog", 12)
    begun = left.hooks.folder / "removal"
    pid = int(wait(lambda: begun.exists() and begun.read_text(), timeout_s=60, what="the removal to begin"))
    assert left.is_being_removed()
    left.run("prolog", 13)
    assert not left.is_being_removed()
    assert not Path(f"/proc/{pid}").exists() or ") Z " in Path(f"/proc/{pid}/stat").read_text()
    left.stays("tmp/of-before")


@pytest.mark.skipif(os.geteuid() != 0, reason="files of several users")
def test_nothing_of_a_user_goes_while_a_process_of_theirs_runs(left: Left):
    left.run("prolog", 12)
    left.put("tmp/used")
    with subprocess.Popen(["sleep", "600"], user=LEAVER) as daemon:
        try:
            left.run("epilog", 12)
            left.stays("tmp/used")
        finally:
            daemon.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="files of several users")
@pytest.mark.parametrize("case", ["begun before there was such a Prolog", "off", "an image without", "system user"])
def test_where_it_is_not_known_or_not_wanted_nothing_goes(case: str, left: Left):
    uid = 402 if case == "system user" else LEAVER
    env = {"SUNKPY_CLEAN_TMP": "false"} if case == "off" else {}
    left.put("tmp/kept", uid=uid)
    if case == "an image without":
        left.hooks.set_up()
    if case != "begun before there was such a Prolog":
        left.run("prolog", 12, uid=uid)
    left.run("epilog", 12, uid=uid, **env)
    left.stays("tmp/kept")


def test_the_chart_says_whether_files_go(scripts: dict[str, str]):
    assert ': "${SUNKPY_CLEAN_TMP:=true}"' in scripts["epilog.sh"]
    off = of_kind(render("slurm", {"hooks": {"cleanTmp": False}}), "ConfigMap")["demo-slurm-config"]["data"]
    assert ': "${SUNKPY_CLEAN_TMP:=false}"' in off["epilog.sh"]


def test_where_start_slurmd_has_made_no_folder_for_containers_nobody_gets_one(hooks: Hooks):
    assert hooks.run("prolog", comment="").returncode == 0
    assert (hooks.folder / "containers").stat().st_mode & 0o777 == 0o700


def test_an_epilog_takes_away_what_containers_of_the_job_had_and_follows_no_link(hooks: Hooks):
    containers, elsewhere = hooks.folder / "containers", hooks.folder / "elsewhere"
    for name in (f"{OWN_JOB}-0/0", f"{OWN_JOB}-4294967291", "13-0", "120-0", "../elsewhere"):
        (containers / name).mkdir(parents=True)
    (elsewhere / "environment").touch()
    (containers / f"{OWN_JOB}-0/1").symlink_to(elsewhere)
    assert hooks.run("epilog", comment="").returncode == 0
    assert {path.name for path in containers.iterdir()} == {"13-0", "120-0"}
    assert (elsewhere / "environment").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="starts processes as another user")
def test_an_epilog_ends_the_connections_that_came_in_as_a_part_of_the_job(hooks: Hooks):
    joined = hooks.folder / "joined"
    joined.mkdir()
    assert hooks.run("prolog", comment="").returncode == 0

    def note(process: subprocess.Popen[bytes], *, later: int = 0) -> None:
        start = int(Path(f"/proc/{process.pid}/stat").read_text().split()[21])
        (joined / str(OWN_JOB) / f"{process.pid}.{start + later}").touch()

    mine, reused = (subprocess.Popen(["sleep", "600"]) for _ in range(2))
    note(mine)
    note(reused, later=-1)
    reaper = threading.Thread(target=mine.wait)
    reaper.start()
    try:
        assert finished(hooks.start("epilog", comment="", uid=NOBODY)).returncode == 0
        reaper.join(60)
        assert (mine.returncode, reused.poll()) == (-signal.SIGTERM, None), "the number of a process comes again"
        assert list(joined.iterdir()) == []
    finally:
        for process in (mine, reused):
            process.kill()
            process.wait()


def test_the_token_is_not_on_a_command_line(scripts: dict[str, str]):
    for text in scripts.values():
        (call,) = [part for part in text.split("\n\n") if "curl" in part]
        assert "$token" not in call.partition("<<<")[0].partition("curl")[2]


def test_a_comment_with_quotes_after_the_gang_cannot_end_the_question(hooks: Hooks, scheduler: Scheduler):
    assert hooks.run("epilog", comment='k8s:default/pod:uid say "hi", \\ and more').returncode == 0
    assert scheduler.asked[0][2]["gang"] == "k8s:default/pod:uid"


@pytest.mark.parametrize("id", [
    GangId(namespace="default", name="train", uid="uid"),
    GangId(namespace="default", name="train", uid="uid", unit="stage-workers"),
    GangId(namespace="default", name="train", uid="uid", unit="extra-1.2_3", generation="r-1"),
    GangId(namespace="default", name="Job_x.y", uid="by-0a", generation="4"),
])  # fmt: skip
def test_a_hook_names_the_whole_gang(hooks: Hooks, scheduler: Scheduler, id: GangId):
    assert hooks.run("epilog", comment=id.comment("and more")).returncode == 0
    assert parse_comment(scheduler.asked[0][2]["gang"]) == id


def put_script(hooks: Hooks, hook: str, name: str, text: str, mode: int = 0o755) -> None:
    script = hooks.folder / "site" / f"{hook}.d" / name
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(f"#!/bin/bash\n{text}\n")
    script.chmod(mode)


def told(hooks: Hooks) -> list[str]:
    """What the scripts of the site have written down."""
    file = hooks.folder / "told"
    return file.read_text().split() if file.exists() else []


def tell_of_question(hooks: Hooks) -> None:
    with (hooks.folder / "told").open("a") as file:
        file.write("asked\n")


@pytest.mark.parametrize("hook", ["prolog", "epilog"])
@pytest.mark.parametrize("comment", ["k8s:default/pod:uid", "my job"])
def test_scripts_of_the_site_run_by_name_before_and_after_ours(
    hook: str, comment: str, hooks: Hooks, scheduler: Scheduler
):
    tell = f"echo ${{0##*/}}-$SLURM_JOB_ID >> {hooks.folder}/told"
    for name in ("90-last", "check", "05-first", "10-second", "50-half"):
        put_script(hooks, hook, name, tell)
    put_script(hooks, hook, "20-not-a-program", tell, mode=0o644)
    put_script(hooks, "prolog" if hook == "epilog" else "epilog", "00-other", tell)
    scheduler.when_asked = lambda: tell_of_question(hooks)
    assert hooks.run(hook, comment=comment).returncode == 0
    ours = ["asked"] if comment.startswith("k8s:") else []
    assert told(hooks) == ["05-first-12", "10-second-12", *ours, "50-half-12", "90-last-12", "check-12"]


@pytest.mark.parametrize("hook", ["prolog", "epilog"])
@pytest.mark.parametrize("name", ["10-scratch", "90-scratch"])
def test_people_can_enter_a_folder_that_a_script_of_the_site_makes(hook: str, name: str, hooks: Hooks):
    put_script(hooks, hook, name, f"mkdir -p {hooks.folder}/scratch/ann; echo node > {hooks.folder}/scratch/node")
    assert hooks.run(hook, comment="my job").returncode == 0
    made = [(hooks.folder / path).stat().st_mode & 0o777 for path in ("scratch", "scratch/ann", "scratch/node")]
    assert made == [0o755, 0o755, 0o644]


@pytest.mark.parametrize("hook", ["prolog", "epilog"])
@pytest.mark.parametrize(
    ("text", "why"),
    [("exit 3", "NAME failed with 3"), ("sleep 60", "NAME took more than 1 s"), ("kill $$", "NAME failed")],
)
@pytest.mark.parametrize("name", ["10-check", "90-check"])
def test_a_script_that_fails_drains_the_node_under_its_name(hook: str, text: str, why: str, name: str, hooks: Hooks):
    put_script(hooks, hook, name, text)
    limit = {"SUNKPY_SCRIPT_TIMEOUT_S": "1"} if "more than 1 s" in why else {}
    assert finished(hooks.start(hook, comment="my job", env=limit)).returncode == 1
    (reason,) = hooks.reasons
    assert reason.startswith(f"sunkpy {hook}: {why.replace('NAME', name)}")


def test_no_pod_comes_where_a_script_said_no_first(hooks: Hooks, scheduler: Scheduler):
    put_script(hooks, "prolog", "10-check", "exit 1")
    assert hooks.run("prolog").returncode == 1
    assert (scheduler.asked, hooks.markers) == ([], set())


def test_an_epilog_awaits_the_pods_whatever_a_script_says(hooks: Hooks, scheduler: Scheduler):
    put_script(hooks, "epilog", "10-check", "exit 1")
    hooks.mark(OWN_JOB)
    assert hooks.run("epilog").returncode == 1
    assert (paths(scheduler), hooks.markers) == (["epilog"], set())


def test_an_epilog_that_ends_with_its_slurmd_fails_when_a_script_said_no(hooks: Hooks, scheduler: Scheduler):
    put_script(hooks, "epilog", "10-check", "exit 1")
    hooks.mark(OWN_JOB)
    asked = threading.Event()
    scheduler.when_asked, scheduler.answers = asked.set, [503]
    epilog = hooks.start("epilog")
    assert asked.wait(60)
    os.killpg(epilog.pid, signal.SIGTERM)
    assert finished(epilog).returncode == 1
    assert hooks.markers == {OWN_JOB}


def test_a_script_of_the_site_cannot_change_what_ours_does(hooks: Hooks, scheduler: Scheduler):
    put_script(hooks, "epilog", "10-check", "echo changed; unset SLURM_JOB_ID; cd /; exec 2>&-; cat")
    assert hooks.run("epilog").returncode == 0
    assert paths(scheduler) == ["epilog"]


# ---------------------------------------------------------------------------------------------- GPUs


LISTED = """- /dev/nvidia0 GPU-a 0000:1b:00.0
- /dev/nvidia3 GPU-b 0000:3b:00.0
1g.5gb /dev/nvidia10,/dev/nvidia-caps/nvidia-cap30,/dev/nvidia-caps/nvidia-cap31 MIG-c 0000:5b:00.0
- /dev/nvidia11 - -
"""


@pytest.mark.parametrize(
    ("minors", "gpus", "reason"),
    [
        ({"1b": 0, "3b": 3, "5b": 10}, "0", ""),
        ({"1b": 0, "3b": 1, "5b": 10}, "0", "GPU 0000:3b:00.0 is nvidia1 now, and was /dev/nvidia3"),
        ({"1b": 0, "3b": 3, "5b": 1}, "0", "GPU 0000:5b:00.0 is nvidia1 now, and was /dev/nvidia10"),
        ({"1b": 0, "3b": 1, "5b": 10}, "", ""),  # the job has no GPU
        ({"1b": 0, "7b": 3}, "0", ""),  # others are off the bus, and one is new
        ({}, "0", ""),
    ],
)
def test_no_job_with_gpus_begins_where_they_have_other_numbers_since_slurmd_started(
    minors: dict[str, int], gpus: str, reason: str, hooks: Hooks, scheduler: Scheduler
):
    """A pod gets what has the uuid, and a job the device file: they would have the same GPU."""
    (hooks.folder / "gpus").write_text(LISTED)
    for slot, minor in minors.items():
        card = hooks.folder / "driver" / f"0000:{slot}:00.0"
        card.mkdir(parents=True)
        (card / "information").write_text(information(minor=minor, uuid=f"GPU-{slot}", pci=card.name))
    found = finished(hooks.start("prolog", gpus=gpus))
    assert found.returncode == (1 if reason else 0), found.stderr
    words = f"sunkpy prolog: {reason} when slurmd started: delete the slurmd pod, then resume the node"
    assert hooks.reasons == ([words] if reason else [])
    assert (hooks.markers, paths(scheduler)) == ((set(), []) if reason else ({OWN_JOB}, ["prolog"]))


def test_where_an_older_image_lists_no_gpus_jobs_run_all_the_same(hooks: Hooks):
    assert finished(hooks.start("prolog", comment="", gpus="0")).returncode == 0


def test_each_gpu_has_a_file_that_names_its_job_while_it_has_one(hooks: Hooks):
    folder = hooks.folder / "gpu-jobs"
    folder.mkdir()
    (folder / "1").write_text("9\n")  # of a job whose Epilog did not run
    for job, gpus in ((OWN_JOB, "0,1"), (13, "2"), (14, "")):
        assert finished(hooks.start("prolog", comment="", job=job, gpus=gpus)).returncode == 0
    assert {file.name: file.read_text() for file in folder.iterdir()} == {"0": "12\n", "1": "12\n", "2": "13\n"}
    assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o644}, "dcgm-exporter need not be root"
    assert finished(hooks.start("epilog", comment="", gpus="0,1")).returncode == 0
    assert {file.name for file in folder.iterdir()} == {"2"}


def test_without_the_folder_and_where_it_cannot_be_written_jobs_run_all_the_same(hooks: Hooks):
    assert finished(hooks.start("prolog", comment="", gpus="0")).returncode == 0
    assert not (hooks.folder / "gpu-jobs").exists()
    (hooks.folder / "gpu-jobs" / "0").mkdir(parents=True)
    prolog = finished(hooks.start("prolog", comment="", gpus="0"))
    assert (prolog.returncode, "cannot write" in prolog.stderr) == (0, True)
    assert finished(hooks.start("epilog", comment="")).returncode == 0
