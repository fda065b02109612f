"""People of a directory come in by ssh: the image's sssd and sshd, the chart's rights, a real OpenLDAP."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from devcluster.waiting import wait_until
from tests.integration.login.directory import PASSWORD, Directory
from tests.integration.login.pod import Key, LoginPod

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Key:
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    return Key(tmp_path_factory.mktemp("keys") / "dora")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory, key: Key) -> Iterator[Directory]:
    crowd = [(f"d{number}", 20000 + number, key.public) for number in range(1000)]
    evil = [("evil", 0, key.public), ("slurm", 401, key.public), ("low", 999, key.public)]
    directory = Directory(tmp_path_factory.mktemp("directory") / "ldap", [("dora", 7001, key.public), *evil, *crowd])
    yield directory
    directory.stop()


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory, directory: Directory, key: Key) -> Iterator[LoginPod]:
    pod = LoginPod(tmp_path_factory.mktemp("login"), os.environ.get("SLURM_SUITE", "trixie"))
    people = {"ann": {"uid": 2001, "sshKeys": [key.public]}}
    pod.apply({"users": {"people": people, "sssd": _sssd(directory.conf, directory)}})
    pod.start()
    yield pod
    pod.stop()


def _sssd(conf: str, directory: Directory) -> dict[str, object]:
    return {"enabled": True, "config": conf, "ca": directory.ca}


def _said(pod: LoginPod, key: Key, user: str, script: str) -> str:
    code, output = pod.said(user, key, script, options=("LogLevel=ERROR",))
    assert code == 0, output + pod.log()
    return output.strip()


def test_people_of_the_directory_are_who_it_says_in_a_home_and_a_shell_that_are_here(pod: LoginPod, key: Key):
    assert _said(pod, key, "dora", "id; pwd; echo $SHELL; stat -c %U .").splitlines() == [
        "uid=7001(dora) gid=7000(lab) groups=7000(lab)", "/home/dora", "/bin/bash", "dora",
    ]  # fmt: skip


def test_people_of_values_are_there_as_well(pod: LoginPod, key: Key):
    assert _said(pod, key, "ann", "id -un") == "ann"


@pytest.mark.parametrize("user", ["evil", "slurm", "low", "root", "nobody-knows", "d1)(uid=*", "*", "d1*"])
def test_a_system_number_in_the_directory_and_a_hostile_name_let_nobody_in(pod: LoginPod, key: Key, user: str):
    assert pod.said("x", key, "id", options=(f'User="{user}"',))[0] == 255


def test_nobody_reads_the_password_of_the_directory(pod: LoginPod, key: Key):
    assert _said(pod, key, "dora", f"grep -rs '{PASSWORD}' /site /etc/sssd /var/lib/sss; true") == ""


def test_a_thousand_people_log_in_as_fast_as_one(pod: LoginPod, key: Key):
    alone, among = (min(pod.login_seconds(user, key) for _ in range(4)) for user in ("ann", "d999"))
    assert among < 3 * alone


def test_another_configuration_restarts_sssd_alone(pod: LoginPod, key: Key, directory: Directory):
    with pod.ssh("dora", key, "echo in; sleep 300", options=("LogLevel=ERROR",)) as session:
        assert session.stdout
        assert session.stdout.readline() == "in\n"
        other = directory.conf.replace("min_id = 1000", "min_id = 21000")
        pod.apply({"users": {"sssd": _sssd(other, directory)}})
        assert wait_until(lambda: pod.said("d5", key, "true")[0] == 255, timeout_s=60, every_s=0.5), pod.log()
        assert session.poll() is None
        session.kill()
