"""A second factor by PAM behind the key: what the site's lines ask, a client answers, and nobody comes without both."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from devcluster.waiting import wait_until
from tests.integration.login.pod import Key, LoginPod

pytestmark = pytest.mark.integration

CHECK: Final = """\
#!/bin/bash
IFS= read -r -d '' answer
[ "$answer" = "code of $PAM_USER" ]
"""
"""In place of a module that computes a code: it gets what the person typed."""
LINE: Final = "auth required pam_exec.so quiet expose_authtok /opt/check-code"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Key]:
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    folder = tmp_path_factory.mktemp("keys")
    return {name: Key(folder / name) for name in ("ann", "bob", "user1")}


def _values(keys: Mapping[str, Key], line: str) -> Mapping[str, object]:
    people = {"ann": {"uid": 2001}, "bob": {"uid": 2002}, "user1": {"uid": 65520}}
    listed = {name: {**person, "sshKeys": [keys[name].public]} for name, person in people.items()}
    return {"users": {"people": listed}, "login": {"ssh": {"secondFactor": line}}}


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory, keys: dict[str, Key]) -> Iterator[LoginPod]:
    pod = LoginPod(tmp_path_factory.mktemp("login"), os.environ.get("SLURM_SUITE", "trixie"))
    check = pod.folder / "root/opt/check-code"
    check.write_text(CHECK)
    check.chmod(0o755)
    pod.apply(_values(keys, LINE))
    pod.start()
    yield pod
    pod.stop()


def _comes(pod: LoginPod, user: str, key: Key, answer: str, tmp_path: Path) -> tuple[int, str]:
    """Exit code and output of somebody at a terminal who types this whenever they are asked."""
    ask = tmp_path / "ask"
    ask.write_text(f"#!/bin/sh\necho '{answer}'\n")
    ask.chmod(0o755)
    options = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "IdentitiesOnly=yes", "LogLevel=ERROR")
    words = [word for option in (*options, "NumberOfPasswordPrompts=1") for word in ("-o", option)]
    argv = ["ssh", "-F", "none", *words, "-i", str(key.file), "-p", str(pod.port), f"{user}@127.0.0.1", "id -un"]
    env = {"PATH": os.environ["PATH"], "SSH_ASKPASS": str(ask), "SSH_ASKPASS_REQUIRE": "force"}
    done = subprocess.run(
        argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


def test_who_has_both_comes_in_and_nobody_else(pod: LoginPod, keys: dict[str, Key], tmp_path: Path):
    assert _comes(pod, "ann", keys["ann"], "code of ann", tmp_path) == (0, "ann\n"), pod.log()
    refused = "Permission denied (keyboard-interactive)"
    code, said = _comes(pod, "ann", keys["ann"], "code of bob", tmp_path)
    assert (code, refused in said) == (255, True), said
    code, said = _comes(pod, "ann", keys["bob"], "code of ann", tmp_path)
    assert (code, "Permission denied (publickey)" in said) == (255, True), "a code without her key asks for nothing"


def test_a_program_that_cannot_answer_is_refused(pod: LoginPod, keys: dict[str, Key]):
    code, said = pod.said("ann", keys["ann"], "true")
    assert (code, "Permission denied (keyboard-interactive)" in said) == (255, True), said


def test_homes_are_made_and_numbers_of_the_system_refused_as_without(
    pod: LoginPod, keys: dict[str, Key], tmp_path: Path
):
    assert _comes(pod, "bob", keys["bob"], "code of bob", tmp_path) == (0, "bob\n"), pod.log()
    assert (pod.folder / "home/bob").stat().st_uid == 2002
    (pod.folder / "ssh-keys/sshd").write_text(keys["bob"].public)
    assert _comes(pod, "sshd", keys["bob"], "code of sshd", tmp_path)[0] == 255


@pytest.mark.parametrize(
    "lines",
    [
        LINE.replace("required", "sufficient"),  # which a failure does not end
        "# nothing that proves anybody",
        "auth required pam_not_there.so",
        f"{LINE}\nauth required pam_deny.so",
    ],
)
def test_lines_that_prove_nothing_let_nobody_in_and_count_from_the_next_login_on(
    pod: LoginPod, keys: dict[str, Key], tmp_path: Path, lines: str
):
    typed = "code of ann" if "deny" in lines else "another"
    come = lambda: _comes(pod, "ann", keys["ann"], "code of ann", tmp_path)[0]  # noqa: E731
    assert come() == 0, pod.log()
    pod.apply(_values(keys, lines))
    try:
        assert _comes(pod, "ann", keys["ann"], typed, tmp_path)[0] == 255, pod.log()
    finally:
        pod.apply(_values(keys, LINE))
    assert wait_until(lambda: come() == 0, timeout_s=20, every_s=0.2), pod.log()


IGNORES: Final = "auth [success=ignore] pam_permit.so"
"""What pam_google_authenticator.so does with `nullok` for a person without a secret: it says neither yes nor no."""
PERMITS: Final = "auth required pam_permit.so"


@pytest.mark.parametrize(
    ("lines", "typed", "code"),
    [
        pytest.param(IGNORES, "", 255, id="a module that ignores a person lets nobody in"),
        pytest.param(f"{IGNORES}\n{PERMITS}", "", 0, id="unless a line after it does"),
        pytest.param(f"{LINE}\n{PERMITS}", "code of bob", 255, id="which lets in nobody whom the module refuses"),
    ],
)
def test_who_has_no_secret_yet_comes_by_the_key_where_the_lines_say_so(
    pod: LoginPod, keys: dict[str, Key], tmp_path: Path, lines: str, typed: str, code: int
):
    pod.apply(_values(keys, lines))
    try:
        came = lambda: _comes(pod, "ann", keys["ann"], typed, tmp_path)[0]  # noqa: E731
        assert wait_until(lambda: came() == code, timeout_s=20, every_s=0.2), pod.log()
    finally:
        pod.apply(_values(keys, LINE))


def test_it_ends_and_begins_in_a_running_pod(pod: LoginPod, keys: dict[str, Key], tmp_path: Path):
    pod.apply(_values(keys, ""))
    try:
        by_key = lambda: pod.said("ann", keys["ann"], "true")[0]  # noqa: E731
        assert wait_until(lambda: by_key() == 0, timeout_s=20, every_s=0.2), pod.log()
    finally:
        pod.apply(_values(keys, LINE))
    assert wait_until(lambda: by_key() == 255, timeout_s=20, every_s=0.2), pod.log()
    assert _comes(pod, "ann", keys["ann"], "code of ann", tmp_path) == (0, "ann\n"), pod.log()


def test_without_the_lines_nobody_comes(pod: LoginPod, keys: dict[str, Key], tmp_path: Path):
    lines = pod.folder / "config/second_factor"
    text = lines.read_text()
    lines.unlink()
    assert _comes(pod, "ann", keys["ann"], "code of ann", tmp_path)[0] == 255, pod.log()
    lines.write_text(text)
