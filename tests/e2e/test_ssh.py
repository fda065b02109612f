"""People come in by ssh, through the Service, on a real cluster; and nobody's pod restarts for the next one."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from demo.person import CLIENT, Key, forwarded
from demo.stack import ROOT, Stack
from devcluster import packages
from devcluster.shell import CommandFailed
from devcluster.waiting import wait, wait_until, wait_until_equal

pytestmark = pytest.mark.e2e


class Login:
    """The release with people, and a way to its Service."""

    def __init__(self, stack: Stack, folder: Path) -> None:
        self._stack, self._folder = stack, folder
        self.port = 0
        self.keys = {name: Key(folder / name) for name in ("amy", "zoe")}
        told = stack.helm("get", "values", stack.release, "-n", stack.namespace, "--output", "yaml")
        self._values: dict[str, object] = yaml.safe_load(told)
        (self._before,) = (line.split()[0] for line in self._history() if "deployed" in line)

    def _history(self) -> list[str]:
        return self._stack.helm("history", self._stack.release, "-n", self._stack.namespace).splitlines()[1:]

    def apply(self, **people: int) -> None:
        """`helm upgrade` with these people, by name and uid."""
        listed = {
            name: {"uid": uid, "groups": ["chem"], "sshKeys": [self.keys[name].public]} for name, uid in people.items()
        }
        accounts: dict[str, object] = {name: {"accounts": {"default": {}}} for name in ("user1", *people)}
        users = {"people": listed, "groups": {"chem": {"gid": 5001}}}
        values = {**self._values, "users": users, "accounts": {"wanted": {"users": accounts}}}
        file = self._folder / "values.yaml"
        file.write_text(yaml.safe_dump(values))
        chart, stack = str(ROOT / "charts" / "slurm"), self._stack
        wait_for_it = ("--values", str(file), "--wait", "--timeout", "5m")
        stack.helm("upgrade", stack.release, chart, "-n", stack.namespace, *wait_for_it)

    def restore(self) -> None:
        """The release as it was."""
        self._stack.helm("rollback", self._stack.release, self._before, "-n", self._stack.namespace, "--wait")

    def ssh(self, user: str, command: str) -> tuple[int, str]:
        """Exit code and output of a command of somebody who comes through the Service."""
        known = f"UserKnownHostsFile={self._folder}/known"
        options = ("BatchMode=yes", "StrictHostKeyChecking=accept-new", known, "LogLevel=ERROR")
        words = [word for option in options for word in ("-o", option)]
        where = ["-i", str(self.keys[user].file), "-p", str(self.port), f"{user}@127.0.0.1"]
        argv = ["ssh", "-F", "none", *words, *where, command]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300, stdin=subprocess.DEVNULL)
        return done.returncode, (done.stdout + done.stderr).strip()

    def pods(self) -> set[tuple[str, str]]:
        """Name and uid of every pod of the release that is there to stay: those of Jobs come and go."""
        told = json.loads(self._stack.kubectl("get", "pods", "-n", self._stack.namespace, "-o", "json"))
        pods = [pod["metadata"] for pod in told["items"]]
        stay = [pod for pod in pods if "Job" not in {owner["kind"] for owner in pod.get("ownerReferences", [])}]
        return {(pod["name"], pod["uid"]) for pod in stay}


@pytest.fixture(scope="module")
def login(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Login]:
    packages.ensure(CLIENT, progress=print)
    login = Login(stack, tmp_path_factory.mktemp("ssh"))
    login.apply(amy=2003)
    # A way that was opened to a pod before sshd listens there stays shut.
    where = ("-n", stack.namespace)
    stack.kubectl("rollout", "status", f"statefulset/{stack.release}-login", *where, "--timeout=2m", timeout_s=130)
    try:
        with forwarded(stack) as login.port:
            wait(lambda: login.ssh("amy", "true")[0] == 0, timeout_s=120, what="amy to come in")
            yield login
    finally:
        login.restore()


def test_somebody_comes_by_ssh_and_their_job_is_theirs(stack: Stack, login: Login) -> None:
    assert login.ssh("amy", "id; pwd")[1].splitlines() == [
        "uid=2003(amy) gid=2003(amy) groups=2003(amy),5001(chem)", "/home/amy",
    ]  # fmt: skip
    there = "uid=2003(amy) gid=2003(amy) groups=2003(amy),5001(chem)\n/home/amy\n700 amy"
    in_a_job = "srun --time=1 bash -c 'id; pwd; stat -c \"%a %U\" .'"
    # The kubelet brings new people into a running slurmd pod within a minute or so.
    wait_until_equal(lambda: login.ssh("amy", in_a_job), (0, there), timeout_s=180, what="amy known where her jobs run")
    wait(
        lambda: "|default|" in login.ssh("amy", "sacct -XnP -o user,account,state")[1], timeout_s=30, what="accounting"
    )


def test_no_key_is_in_reach_in_login_nor_in_a_job(stack: Stack, login: Login) -> None:
    names = "-name '*.key' -o -name token -o -name 'ssh_host_*_key'"
    search = f"find / -xdev -type f \\( {names} \\) -readable -not -path '/usr/*' 2>/dev/null"
    assert login.ssh("amy", f"{search}; true") == (0, "")
    assert login.ssh("amy", f'srun --time=1 bash -c "{search}; true"') == (0, "")
    for refused in ("cat /keys/*", "touch /home/x", "touch /etc/x", "ls /home/user1", "unshare --user true"):
        assert login.ssh("amy", refused)[0] not in (0, 255), refused


def test_nobody_is_let_into_sshd_by_kubectl(stack: Stack, login: Login) -> None:
    with pytest.raises(CommandFailed, match='only the container "login"'):
        stack.kubectl("exec", "-n", stack.namespace, f"{stack.release}-login-0", "-c", "sshd", "--", "true")


def test_a_newcomer_comes_and_goes_without_a_restart(stack: Stack, login: Login) -> None:
    before = login.pods()
    login.apply(amy=2003, zoe=2009)
    assert wait_until(lambda: login.ssh("zoe", "srun --time=1 id -un") == (0, "zoe"), timeout_s=180, every_s=2)
    login.apply(amy=2003)
    assert wait_until(lambda: login.ssh("zoe", "true")[0] == 255, timeout_s=180, every_s=2)
    assert login.ssh("amy", "true")[0] == 0
    # What writes accounts begins anew with those that the values name.
    assert {pod for pod in login.pods() ^ before if not pod[0].startswith(f"{stack.release}-accounts-")} == set()
