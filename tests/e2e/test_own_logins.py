"""A login pod of one's own on a real cluster: asleep until its person comes, theirs to restart, and asleep again."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from demo import person
from demo.person import CLIENT, NAME, forwarded
from demo.stack import ROOT, Stack
from devcluster import packages
from devcluster.shell import CommandFailed
from devcluster.waiting import wait, wait_until_equal
from tests.e2e import resolving

pytestmark = [pytest.mark.e2e, pytest.mark.long]

ABSENT = "zed"
"""Has a pod of their own as well, and never comes."""
IDLE_S = 6


class Own:
    """The release with login pods of their own for ann and zed, and her way to hers from home."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._where = ("-n", stack.namespace)
        self.pod = f"{stack.release}-login-{NAME}-0"
        self.port = 0
        self._before: int = json.loads(stack.helm("status", stack.release, *self._where, "-o", "json"))["version"]

    def apply(self, **annotations: str) -> None:
        """`helm upgrade` with these annotations on every such pod."""
        own = {"enabled": True, "users": {NAME: {}, ABSENT: {}}, "defaults": {"podAnnotations": annotations}}
        values = {"login.perUser": own, f"users.people.{ABSENT}": {"uid": 2019}}
        chosen = [word for name, value in values.items() for word in ("--set-json", f"{name}={json.dumps(value)}")]
        chart = str(ROOT / "charts" / "slurm")
        upgrade = ("upgrade", self._stack.release, chart, *self._where, "--reuse-values", *chosen)
        self._stack.helm(*upgrade, "--wait", "--timeout", "5m")

    def restore(self) -> None:
        """The release as it was."""
        self._stack.helm("rollback", self._stack.release, str(self._before), *self._where, "--wait")

    def be_quick(self) -> None:
        """The next pod of ann is idle after seconds."""
        self._stack.kubectl(
            "set", "env", *self._where, f"statefulset/{self.pod.removesuffix('-0')}", "-c", "sshd",
            f"SUNKPY_IDLE_S={IDLE_S}",
        )  # fmt: skip

    def replicas(self, name: str) -> int:
        told = self._stack.kubectl.json("statefulset", f"{self._stack.release}-login-{name}", *self._where)
        return int(told["spec"]["replicas"])

    def uid_and_annotations(self) -> tuple[str, dict[str, str]]:
        """The uid and the annotations of ann's pod."""
        meta = self._stack.kubectl.json("pod", self.pod, *self._where)["metadata"]
        return meta["uid"], meta["annotations"]

    def come(self, command: str) -> subprocess.Popen[str]:
        """She runs a command in her pod, from home."""
        argv = [*person.ssh_to_own(NAME, person.key(), self.port), command]
        pipe = subprocess.PIPE
        return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=pipe, stderr=subprocess.STDOUT, text=True)

    def said(self, command: str) -> tuple[int, list[str]]:
        """Exit code of it and what she read, without why she had to wait."""
        client = self.come(command)
        lines = client.communicate(timeout=120)[0].splitlines()
        return client.returncode, [line for line in lines if not line.startswith("my-login: ")]


@pytest.fixture
def own(stack: Stack) -> Iterator[Own]:
    packages.ensure(CLIENT, progress=print)
    own = Own(stack)
    try:
        own.apply()
        wait(lambda: stack.login("cat /var/lib/extrausers/logins"), timeout_s=120, what="my-login knows whom to ask")
        with forwarded(stack) as own.port:
            yield own
    finally:
        own.restore()


def test_it_sleeps_until_its_person_comes_and_lasts_as_long_as_they_want(stack: Stack, own: Own) -> None:
    for name in (NAME, ABSENT):
        wait_until_equal(lambda name=name: own.replicas(name), 0, timeout_s=60, what=f"the pod of {name} asleep")

    here = own.pod
    assert own.said("id -un; cat /run/own-login; uname -n; pwd") == (0, [NAME, NAME, here, f"/home/{NAME}"])
    assert own.said("srun --time=1 id -un") == (0, [NAME])
    nodes = resolving.wanted(stack)
    assert resolving.read(own.said(resolving.looks_up(nodes))[1]) == nodes
    with pytest.raises(CommandFailed, match='only the container "login"'):
        stack.kubectl("exec", "-n", stack.namespace, here, "-c", "sshd", "--", "true")

    before, _ = own.uid_and_annotations()
    with own.come("echo in; sleep 300") as session:
        assert session.stdout
        assert session.stdout.readline() == "in\n"
        own.apply(changed="yes")
        assert (own.replicas(NAME), own.replicas(ABSENT), own.uid_and_annotations()[0]) == (1, 0, before)
        assert session.poll() is None, "an upgrade ended it"
        session.terminate()

    own.be_quick()
    code, told = own.said("restart-login")
    assert (code, told[0]) == (255, "This pod ends, and your sessions with it. Start it again with my-login.")
    assert own.said(f"sleep {IDLE_S + 6}; echo still here") == (0, ["still here"]), "it was ended while in use"
    after, annotations = own.uid_and_annotations()
    assert (after != before, annotations.get("changed")) == (True, "yes")

    wait_until_equal(lambda: own.replicas(NAME), 0, timeout_s=60, what="nobody uses it")
