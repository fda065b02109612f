"""prolog.sh and epilog.sh as slurmctld serves them, run against a small server that answers as told."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.unit.charts.rendering import of_kind, render

LEADER = "/leader"


@dataclass
class Scheduler:
    """Answers in order, the last one for ever; remembers what was asked. 0 hangs up without an answer."""

    answers: list[int] = field(default_factory=lambda: [200])
    asked: list[tuple[str, str, object]] = field(default_factory=list)
    port: int = 0


@pytest.fixture
def scheduler() -> Iterator[Scheduler]:
    state = Scheduler()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            state.asked.append((self.path, self.headers["Authorization"], json.loads(body)))
            status = state.answers.pop(0) if len(state.answers) > 1 else state.answers[0]
            if status == 0:
                return
            self.send_response(status)
            if status == 307:
                self.send_header("Location", f"http://127.0.0.1:{state.port}{LEADER}{self.path}")
            self.send_header("Content-Length", "0")
            self.end_headers()

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

    def run(self, hook: str, *, comment: str = "k8s:default/pod:uid", **env: str) -> subprocess.CompletedProcess[str]:
        """Run one as slurmd would: with nothing in the environment but Slurm's variables."""
        settings = {"SUNKPY_HOOKS_URL": f"http://127.0.0.1:{self.port}", **env}
        (self.folder / "hooks.env").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        slurm = {"SLURM_JOB_COMMENT": comment, "SLURM_JOB_ID": "12", "SLURMD_NODENAME": "gpu-012-002"}
        ours = {
            "SUNKPY_HOOKS_ENV": str(self.folder / "hooks.env"),
            "SUNKPY_TOKEN_FILE": str(self.folder / "token"),
        }
        script = str(self.folder / f"{hook}.sh")
        return subprocess.run(
            ["bash", script], env=slurm | ours, capture_output=True, text=True, timeout=30, check=False
        )


@pytest.fixture(scope="module")
def scripts() -> dict[str, str]:
    data = of_kind(render("slurm"), "ConfigMap")["demo-slurm-config"]["data"]
    return {name: data[name] for name in ("prolog.sh", "epilog.sh")}


@pytest.fixture
def hooks(tmp_path: Path, scheduler: Scheduler, scripts: dict[str, str]) -> Hooks:
    for name, text in scripts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "token").write_text("secret-token\n")
    return Hooks(folder=tmp_path, port=scheduler.port)


@pytest.mark.parametrize("hook", ["prolog", "epilog"])
def test_a_hook_says_who_it_is_and_for_which_job(hook: str, hooks: Hooks, scheduler: Scheduler):
    assert hooks.run(hook).returncode == 0
    asked = (f"/hooks/v1/{hook}", "Bearer secret-token", {"job_id": 12, "node": "gpu-012-002"})
    assert scheduler.asked == [asked]


@pytest.mark.parametrize("hook", ["prolog", "epilog"])
@pytest.mark.parametrize("answers", [[202, 202, 200], [503, 200], [0, 200], [500, 202, 200]])
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
def test_a_refusal_is_final(hook: str, code: int, status: int, hooks: Hooks, scheduler: Scheduler):
    scheduler.answers = [status]
    done = hooks.run(hook)
    assert (done.returncode, len(scheduler.asked)) == (code, 1)
    assert str(status) in done.stderr


@pytest.mark.parametrize(("hook", "code"), [("prolog", 0), ("epilog", 1)])
@pytest.mark.parametrize("status", [202, 503])
def test_a_hook_ends_when_its_time_is_up(hook: str, code: int, status: int, hooks: Hooks, scheduler: Scheduler):
    scheduler.answers = [status]
    limits = {"SUNKPY_PROLOG_TIMEOUT_S": "0", "SUNKPY_EPILOG_TIMEOUT_S": "0"}
    assert hooks.run(hook, **limits).returncode == code
    assert scheduler.asked


@pytest.mark.parametrize("hook", ["prolog", "epilog"])
@pytest.mark.parametrize("comment", ["", "my job", "ak8s:x"])
def test_other_jobs_are_none_of_its_concern(hook: str, comment: str, hooks: Hooks, scheduler: Scheduler):
    assert hooks.run(hook, comment=comment).returncode == 0
    assert scheduler.asked == []


@pytest.mark.parametrize(("hook", "code"), [("prolog", 0), ("epilog", 1)])
def test_a_missing_token_does_not_pass_for_done(hook: str, code: int, hooks: Hooks, scheduler: Scheduler):
    (hooks.folder / "token").unlink()
    limits = {"SUNKPY_PROLOG_TIMEOUT_S": "0", "SUNKPY_EPILOG_TIMEOUT_S": "0"}
    assert hooks.run(hook, **limits).returncode == code
    assert scheduler.asked == []


def test_the_token_is_not_on_a_command_line(scripts: dict[str, str]):
    for text in scripts.values():
        (call,) = [part for part in text.split("\n\n") if "curl" in part]
        assert "$token" not in call.partition("<<<")[0].partition("curl")[2]
