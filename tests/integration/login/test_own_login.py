"""A personal login pod: its person reaches it through a shared pod, it stops while idle, it is made again, and
nobody else gets in.

The process `sunkpy logins` is the real one, against an apiserver in memory; the test is StatefulSet controller and
kubelet, and the pods are processes of the image with what the chart mounts and allows.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from devcluster.waiting import wait_until
from sunkpy.kube.client import Kube
from sunkpy.logins.metrics import LoginsMetrics
from sunkpy.logins.settings import LoginsSettings, PersonSettings
from sunkpy.logins.term import Term
from sunkpy.runtime.process import Process
from sunkpy.runtime.settings import ProcessSettings
from tests.doubles.apiserver import Apiserver
from tests.doubles.serving import Changes, answering
from tests.integration.login.pod import Key, LoginPod
from tests.integration.slurm.daemons import RealSlurm
from tests.polling import listens
from tests.ports import free_ports

pytestmark = pytest.mark.integration

SUITE = os.environ.get("SLURM_SUITE", "trixie")
NAME = "demo-login-ann"
LABELS = {"sunkpy.dev/login": NAME, "of": "demo"}
QUIET = ("LogLevel=ERROR",)
IDLE, RESTART = 80, 81


def at_the_door(pod: LoginPod, first: str = "") -> tuple[str, ...]:
    """Options of a client that starts before its pod: it comes as soon as sshd listens, and then runs `first`."""
    knock = f"for _ in $(seq 900); do exec 3<> /dev/tcp/127.0.0.1/{pod.port} && break; sleep 0.1; done 2> /dev/null"
    return (f"ProxyCommand=bash -c '{knock}; {first} cat <&3 & cat >&3'", *QUIET)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Key]:
    folder = tmp_path_factory.mktemp("keys")
    return {name: Key(folder / name) for name in ("ann", "bob")}


def values_for(keys: dict[str, Key], **login: object) -> dict[str, object]:
    people = {name: {"uid": 2001 + n, "sshKeys": [keys[name].public]} for n, name in enumerate(("ann", "bob"))}
    return {"users": {"people": people}, "login": {"perUser": {"enabled": True, "users": {"ann": {}}}} | login}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, keys: dict[str, Key]) -> Iterator[LoginPod]:
    pod = LoginPod(tmp_path_factory.mktemp("shared"), SUITE)
    pod.apply(values_for(keys))
    (pod.folder / "people/logins").unlink()  # the name of a Service
    pod.start()
    yield pod
    pod.stop()


@pytest.fixture(scope="module")
def own(
    tmp_path_factory: pytest.TempPathFactory, keys: dict[str, Key], shared: LoginPod, slurm: RealSlurm
) -> Iterator[LoginPod]:
    """The login pod of ann, with the homes of the shared pod. It is not started."""
    pod = LoginPod(tmp_path_factory.mktemp("own"), SUITE, slurm.root, person="ann")
    (pod.folder / "home").rmdir()
    (pod.folder / "home").symlink_to(shared.folder / "home")
    pod.apply(values_for(keys))
    yield pod
    pod.stop()


def new_pod(own: LoginPod, *, idle_s: int = 0) -> None:
    """The next pod: what the last one left in its volumes is gone."""
    shutil.rmtree(own.folder / "run")
    (own.folder / "run").mkdir(mode=0o777)
    own.start({"SUNKPY_IDLE_S": str(idle_s)})


@pytest.fixture
def started(own: LoginPod) -> Iterator[LoginPod]:
    new_pod(own)
    yield own
    own.kill()


def test_nobody_but_its_person_comes_in_whatever_the_site_adds(
    started: LoginPod, shared: LoginPod, keys: dict[str, Key]
):
    assert shared.said("bob", keys["bob"], "true")[0] == 0, "the shared one is for all"
    open_to_all = "AllowUsers *\nMatch User bob\n  AllowUsers bob\nMatch all\n  AllowUsers *"
    for extra in ("", open_to_all):
        started.apply(values_for(keys, ssh={"extra": extra, "ownKeys": True}))
        assert started.said("ann", keys["ann"], "true")[0] == 0, started.log()
        for user, key in (("bob", "bob"), ("user1", "ann"), ("root", "ann"), ("slurm", "ann"), ("bob", "ann")):
            assert started.said(user, keys[key], "id")[0] == 255, f"{user} with {extra!r}\n{started.log()}"
    assert "User bob from 127.0.0.1 not allowed because listed in DenyUsers" in started.log()
    started.apply(values_for(keys))


def test_its_person_has_their_home_and_slurm_and_nothing_of_root(started: LoginPod, keys: dict[str, Key]):
    def run(script: str) -> str:
        code, output = started.said("ann", keys["ann"], script, options=QUIET)
        assert code == 0, output + started.log()
        return output.strip()

    assert run("id -un; pwd") == "ann\n/home/ann"
    assert wait_until(lambda: "idle" in run("sinfo --noheader --format=%t; true"), timeout_s=60, every_s=0.5)
    assert run("cd /tmp && srun --time=1 id -un") == "ann"
    for refused in (
        "cat /keys/ssh_host_ed25519_key", "kill 1", "touch /run/left-with", "touch /run/own-login", "rm /run/own-login",
        "touch /run/sshd_config", "cat /proc/1/environ", "ls /home/bob", "mv /run/sshd_config /run/x", "su -c id",
    ):  # fmt: skip
        assert started.said("ann", keys["ann"], f"timeout 5 {refused} < /dev/null")[0] not in (0, 255), refused
    status = dict(line.split(":\t") for line in run("cat /proc/self/status").splitlines())
    assert (status["NoNewPrivs"], status["CapEff"].strip("0"), status["CapPrm"].strip("0")) == ("1", "", "")
    assert run("find / -xdev -path '*serviceaccount*' -readable 2>/dev/null | head -3; true") == ""


def test_it_ends_when_nothing_of_its_person_runs_and_lets_nobody_in_after_that(own: LoginPod, keys: dict[str, Key]):
    work = "echo in; sleep 6; ssh-agent > /dev/null; nohup bash -c 'sleep 6; touch done' > /dev/null 2>&1 &"
    with own.ssh("ann", keys["ann"], work, options=at_the_door(own)) as session:
        new_pod(own, idle_s=3)
        assert session.stdout
        assert session.stdout.readline() == "in\n", own.log()
        assert session.wait(timeout=60) == 0, "it was ended while somebody was in it"
    assert own.ended() == IDLE
    assert (own.folder / "home/ann/done").exists(), "what was left without a session is work"
    assert "nothing of ann has run for 3 s" in own.log()
    own.start_again({"SUNKPY_IDLE_S": "3"})
    assert (own.ended(), listens(own.port)) == (IDLE, False), "the kubelet started it again, and somebody could come in"


def test_who_is_at_the_door_when_it_would_end_comes_in(own: LoginPod, keys: dict[str, Key]):
    doors = own.reads()
    with own.ssh("ann", keys["ann"], "sleep 2; echo in", options=at_the_door(own, "sleep 4;")) as session:
        new_pod(own, idle_s=1)
        assert session.communicate(timeout=180)[0] == "in\n", own.log()
    assert own.reads() > doors + 1, "it was to end, and saw somebody come"
    assert own.ended() == IDLE


def test_in_a_shared_pod_nothing_can_be_restarted(shared: LoginPod, keys: dict[str, Key]):
    code, output = shared.said("ann", keys["ann"], "restart-login", options=QUIET)
    assert (code, output) == (1, "restart-login: this is not a login pod of your own\n")
    assert shared.said("ann", keys["ann"], "my-login", options=QUIET) == (
        1, "my-login: personal login pods are not enabled here\n",
    )  # fmt: skip


class Cluster:
    """Where `sunkpy logins` keeps the pod of ann; the test does what a StatefulSet and a kubelet would."""

    def __init__(self, api: Apiserver, own: LoginPod) -> None:
        self.api, self._own, self._pods = api, own, 0

    async def until_scaled(self, replicas: int) -> None:
        await self.api.until(lambda: self.api.objects["statefulsets", "research", NAME]["spec"]["replicas"] == replicas)

    async def run_pod(self, *, idle_s: int = 0) -> None:
        self._pods += 1
        await asyncio.to_thread(new_pod, self._own, idle_s=idle_s)
        self.tell_pod({"state": {"running": {}}}, is_ready=True)

    async def tell_end(self) -> int:
        code = await asyncio.to_thread(self._own.ended)
        self.tell_pod({"state": {"terminated": {"exitCode": code}}}, is_ready=False)
        return code

    def tell_pod(self, sshd: dict[str, object], *, is_ready: bool) -> None:
        meta = {"name": f"{NAME}-0", "namespace": "research", "labels": LABELS, "uid": f"pod-{self._pods}"}
        conditions = [{"type": "Ready", "status": str(is_ready)}]
        status = {"podIP": "127.0.0.1", "conditions": conditions, "containerStatuses": [{"name": "sshd", **sshd}]}
        self.api.put("pods", {"metadata": meta, "spec": {}, "status": status})


@pytest.fixture
async def cluster(tmp_path: Path, own: LoginPod, shared: LoginPod) -> AsyncIterator[Cluster]:
    api = Apiserver(Changes())
    api.define("apps/v1", "StatefulSet", "statefulsets")
    meta = {"name": NAME, "namespace": "research", "labels": LABELS, "generation": 1}
    api.put("statefulsets", {"metadata": meta, "spec": {"replicas": 1}})
    (requests,) = free_ports(1)
    settings = LoginsSettings(
        namespace="research", people={"ann": PersonSettings(stateful_set=NAME)}, selector="of=demo",
        requests_port=requests, ssh_port=own.port,
    )  # fmt: skip
    address = shared.folder / "people/logins"
    address.write_text(f"http://127.0.0.1:{requests}")
    process = Process("logins", ProcessSettings())
    async with answering(api.handle, tmp_path) as kubeconfig, await Kube.connect(kubeconfig) as kube:
        term = Term(kube=kube, settings=settings, process=process, metrics=LoginsMetrics(process.registry))
        serving = asyncio.ensure_future(term.run())
        yield Cluster(api, own)
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving
    own.kill()
    address.unlink()


def from_home(shared: LoginPod, own: LoginPod, key: Key) -> tuple[str, ...]:
    """What ann has in ~/.ssh/config."""
    shared_ssh = (
        f"ssh -F none -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR "
        f"-o IdentitiesOnly=yes -i {key.file} -p {shared.port} ann@127.0.0.1 my-login"
    )
    return (f"ProxyCommand={shared_ssh}", f"HostKeyAlias={NAME}", *QUIET)


async def test_from_home_it_is_one_step_to_a_pod_that_was_stopped_and_back_again(
    cluster: Cluster, shared: LoginPod, own: LoginPod, keys: dict[str, Key]
):
    def come(script: str) -> asyncio.Task[tuple[int, str]]:
        options = from_home(shared, own, keys["ann"])
        return asyncio.ensure_future(asyncio.to_thread(own.said, "ann", keys["ann"], script, options=options))

    await cluster.until_scaled(0)  # nobody had asked for it
    session = come("id -un; cat /run/own-login")
    await cluster.until_scaled(1)
    await cluster.run_pod(idle_s=0)
    code, output = await session
    assert (code, output.splitlines()[-2:]) == (0, ["ann", "ann"]), output + own.log()
    assert "my-login: your login pod is being started" in output

    session = come("restart-login")
    assert await cluster.tell_end() == RESTART
    await cluster.api.until(lambda: cluster.api.deleted == [f"{NAME}-0"])
    assert (await session)[0] == 255, "a session ends with its pod"
    session = come("true")
    await cluster.run_pod(idle_s=10)
    assert (await session)[0] == 0

    assert await cluster.tell_end() == IDLE
    await cluster.until_scaled(0)
    cluster.api.remove("pods", "research", f"{NAME}-0")
    session = come("echo back")
    await cluster.until_scaled(1)
    await cluster.run_pod()
    assert (await session)[1].endswith("back\n")
