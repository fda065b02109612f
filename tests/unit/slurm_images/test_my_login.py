"""How one comes to a login pod of one's own: asked for until it is there, then what both sides say, and their ends."""

from __future__ import annotations

import getpass
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer

import pytest

BIN = Path(__file__).resolve().parents[3] / "slurm-images" / "bin"


class Sshd(StreamRequestHandler):
    """Greets, answers each line, and goes after "bye"."""

    def handle(self) -> None:
        self.wfile.write(b"SSH-2.0-x\n")
        for line in self.rfile:
            self.wfile.write(b"> " + line)
            if line == b"bye\n":
                return


class Logins(ThreadingHTTPServer):
    """Gives the answers one after another, the last one for ever; `asked` is what came."""

    def __init__(self, answers: list[tuple[int, str]]) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.answers, self.asked = answers, list[str]()


class _Answering(BaseHTTPRequestHandler):
    server: Logins

    def do_POST(self) -> None:
        self.server.asked.append(self.path)
        status, text = self.server.answers[0] if len(self.server.answers) == 1 else self.server.answers.pop(0)
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@contextmanager
def running(server: ThreadingTCPServer) -> Iterator[int]:
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def sshd() -> Iterator[int]:
    with running(ThreadingTCPServer(("127.0.0.1", 0), Sshd)) as port:
        yield port


def my_login(folder: Path, server: str, stdin: str = "", wait_s: str = "60") -> subprocess.CompletedProcess[str]:
    (folder / "logins").write_text(server)
    env = {"PATH": "/usr/bin:/bin", "SUNKPY_LOGINS": str(folder / "logins"), "SUNKPY_PAUSE_S": "0.05"}
    env["SUNKPY_WAIT_S"] = wait_s
    return subprocess.run(
        [BIN / "my-login"], input=stdin, env=env, capture_output=True, text=True, check=False, timeout=120
    )


def test_it_waits_until_the_pod_is_there_and_says_why_once(tmp_path: Path, sshd: int):
    waiting = [(202, "your login pod is being started")] * 3 + [(202, "your login pod is starting")] * 2
    with running(logins := Logins([*waiting, (200, f"127.0.0.1 {sshd}")])) as port:
        done = my_login(tmp_path, f"http://127.0.0.1:{port}", "hello\nbye\n")
    assert done.stdout == "SSH-2.0-x\n> hello\n> bye\n"
    assert done.stderr == "my-login: your login pod is being started\nmy-login: your login pod is starting\n"
    assert set(logins.asked) == {f"/logins/v1/{getpass.getuser()}"}
    assert done.returncode == 0


def test_it_ends_with_the_client(tmp_path: Path, sshd: int):
    with running(Logins([(200, f"127.0.0.1 {sshd}")])) as port:
        assert my_login(tmp_path, f"http://127.0.0.1:{port}", "hello\n").returncode == 0


def test_it_ends_with_sshd_while_the_client_still_listens(tmp_path: Path, sshd: int):
    with running(Logins([(200, f"127.0.0.1 {sshd}")])) as port:
        (tmp_path / "logins").write_text(f"http://127.0.0.1:{port}")
        env = {"PATH": "/usr/bin:/bin", "SUNKPY_LOGINS": str(tmp_path / "logins")}
        pipe = subprocess.PIPE
        with subprocess.Popen([BIN / "my-login"], env=env, stdin=pipe, stdout=pipe, text=True) as client:
            assert client.stdin
            assert client.stdout
            client.stdin.write("bye\n")
            client.stdin.flush()
            assert client.stdout.read() == "SSH-2.0-x\n> bye\n"
            assert client.wait(timeout=60) == 0


def test_a_name_that_is_not_known_yet_is_tried_again(tmp_path: Path, sshd: int):
    answers = [(200, "no-such-host.invalid 22"), (200, "127.0.0.1 1"), (200, f"127.0.0.1 {sshd}")]
    with running(Logins(answers)) as port:
        done = my_login(tmp_path, f"http://127.0.0.1:{port}", "bye\n")
    assert (done.stdout, done.stderr) == (
        "SSH-2.0-x\n> bye\n", "my-login: your login pod is there, and does not answer yet\n",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("server", "told"),
    [
        ("", "personal login pods are not enabled here"),
        (
            "http://127.0.0.1:1",
            "nothing answers that could start your login pod; trying again\n"
            "my-login: your login pod did not start in time",
        ),
    ],
)
def test_who_cannot_have_one_is_told_so(tmp_path: Path, server: str, told: str):
    done = my_login(tmp_path, server, wait_s="1")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"my-login: {told}\n")


def test_who_has_none_is_told_so(tmp_path: Path):
    with running(Logins([(404, "you have no login pod of your own")])) as port:
        done = my_login(tmp_path, f"http://127.0.0.1:{port}")
    assert (done.returncode, done.stderr) == (1, "my-login: you have no login pod of your own\n")


def test_a_pod_that_does_not_come_is_given_up(tmp_path: Path):
    with running(Logins([(202, "your login pod waits for a node with room: 0/3 nodes are available")])) as port:
        done = my_login(tmp_path, f"http://127.0.0.1:{port}", wait_s="1")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "my-login: your login pod did not start in time")


def test_in_the_pod_itself_it_says_so(tmp_path: Path):
    (tmp_path / "own-login").write_text("ann\n")
    env = {"PATH": "/usr/bin:/bin", "SUNKPY_OWN_LOGIN": str(tmp_path / "own-login")}
    done = subprocess.run([BIN / "my-login"], env=env, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stderr) == (1, "my-login: you are in your login pod\n")


def restart(own_login: Path) -> subprocess.CompletedProcess[str]:
    env = {"PATH": "/usr/bin:/bin", "SUNKPY_OWN_LOGIN": str(own_login), "SUNKPY_WAIT_S": "0.1"}
    return subprocess.run([BIN / "restart-login"], env=env, capture_output=True, text=True, check=False, timeout=30)


def test_only_a_pod_of_ones_own_can_be_restarted(tmp_path: Path):
    done = restart(tmp_path / "own-login")
    assert (done.returncode, done.stderr) == (1, "restart-login: this is not a login pod of your own\n")
    (tmp_path / "own-login").write_text("ann\n")
    done = restart(tmp_path / "own-login")
    assert done.stdout.startswith("This pod ends, and your sessions with it.")
    assert (done.returncode, "was not restarted" in done.stderr) == (1, True)
