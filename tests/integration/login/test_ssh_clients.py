"""What programs at home expect of sshd: an editor with its server here, and known_hosts after a new host key."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.waiting import wait_until
from tests.integration.login.pod import Key, LoginPod
from tests.polling import listens
from tests.ports import free_ports

pytestmark = pytest.mark.integration

SERVER = "cd; echo of $USER > page; python3 -u -m http.server --bind 127.0.0.1 0 2> /dev/null & wait\n"
"""As the script of VS Code's Remote-SSH: a server on a free port of the far side, which it prints."""


@pytest.fixture(scope="module")
def ann(tmp_path_factory: pytest.TempPathFactory) -> Key:
    return Key(tmp_path_factory.mktemp("keys") / "ann")


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory, ann: Key) -> Iterator[LoginPod]:
    if os.geteuid() != 0:
        pytest.skip("needs root: sshd changes its user")
    pod = LoginPod(tmp_path_factory.mktemp("login"), os.environ.get("SLURM_SUITE", "trixie"))
    pod.apply({"users": {"people": {"ann": {"uid": 2001, "sshKeys": [ann.public]}}}})
    pod.start()
    yield pod
    pod.stop()


def test_an_editor_starts_its_server_by_stdin_and_reaches_it_by_socks_of_each_window(
    pod: LoginPod, ann: Key, tmp_path: Path
):
    ports = free_ports(2)
    shared = ("LogLevel=ERROR", "RequestTTY=no", "ControlMaster=auto", f"ControlPath={tmp_path / 'mux'}")

    def window(socks: int) -> subprocess.Popen[str]:
        options = (*shared, f"DynamicForward={socks}")
        return pod.ssh("ann", ann, "bash", options=options, stdin=subprocess.PIPE)

    def page(socks: int, client: subprocess.Popen[str]) -> str:
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write(SERVER)
        client.stdin.flush()
        line = client.stdout.readline()
        found = re.search(r"port (\d+) ", line)
        assert found, line + pod.log()
        assert wait_until(lambda: listens(socks), timeout_s=10, every_s=0.1), pod.log()
        proxy = f"127.0.0.1:{socks}"
        argv = ["curl", "-sS", "-m", "20", "--socks5-hostname", proxy, f"http://127.0.0.1:{found[1]}/page"]
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout

    clients = []
    try:
        for port in ports:
            clients.append(window(port))
            assert page(port, clients[-1]) == "of ann\n", pod.log()
    finally:
        for client in clients:
            client.kill()
            client.communicate(timeout=60)


def test_a_host_key_replaced_in_its_secret_ends_no_session_and_is_refused_until_the_old_one_is_forgotten(
    pod: LoginPod, ann: Key
):
    assert pod.said("ann", ann, "true")[0] == 0
    said = ""

    def is_refused() -> bool:
        nonlocal said
        said = pod.said("ann", ann, "true")[1]
        return "REMOTE HOST IDENTIFICATION HAS CHANGED" in said

    with pod.ssh("ann", ann, "echo in; read; echo still", stdin=subprocess.PIPE) as stays:
        assert stays.stdout is not None
        assert stays.stdout.readline() == "in\n"
        pod.make_host_key()
        assert wait_until(is_refused, timeout_s=60, every_s=0.2), said + pod.log()
        assert stays.communicate("\n", timeout=60)[0] == "still\n"
    shown = re.search(r"SHA256:[\w+/]+", said)
    key = pod.folder / "keys/ssh_host_ed25519_key"
    of_file = subprocess.run(["ssh-keygen", "-lf", key], capture_output=True, text=True, check=True).stdout
    assert shown, said
    assert shown[0] in of_file

    forget = ["ssh-keygen", "-f", pod.folder / "known_hosts", "-R", f"[127.0.0.1]:{pod.port}"]
    subprocess.run(forget, capture_output=True, check=True)
    assert pod.said("ann", ann, "true")[0] == 0
