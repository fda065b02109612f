"""By ssh to the node of one's job, as a part of it: sshd as the chart starts it, pam_slurm_adopt, real Slurm.

Once without cgroups, and once with the plugin for them that fits this machine.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from demo.person import CLIENT, Key
from devcluster import packages
from devcluster.waiting import wait_until
from sunkpy.install.keys import KINDS
from tests.integration.login.authority import Authority
from tests.integration.screen import ASK, Screen
from tests.integration.slurm import oci_archive
from tests.integration.slurm.registry import Registry
from tests.integration.slurm.site import VALUES, Node, Site
from tests.polling import listens
from tests.ports import free_ports
from tests.roots import RELEASE
from tests.unit.charts.rendering import of_kind, render

pytestmark = pytest.mark.integration

WITHOUT: Final = pytest.mark.parametrize("people", ["disabled"], indirect=True)
WITHIN: Final = pytest.mark.parametrize("people", ["auto"], indirect=True)
SHM_PART: Final = 0.25
"""The part of the memory that /dev/shm may take."""
# slurmd names its cgroups after its node, and they are the machine's: another run of these tests has others.
ONE, TWO = (f"adopt{os.getpid()}-{number}" for number in (1, 2))
NODES: Final = (Node(ONE, cpus=2), Node(TWO, cpus=2))
QUIET: Final = (
    "BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "IdentitiesOnly=yes", "LogLevel=ERROR",
)  # fmt: skip


def _values(keys: Mapping[str, Key], ca: str, cgroup: str, private_tmp: bool | str = "auto") -> Mapping[str, object]:
    people = {name: {**person, "sshKeys": [keys[name].public]} for name, person in VALUES["users"]["people"].items()}
    return {
        **VALUES,
        "users": {"people": people},
        "slurmConfig": {**VALUES["slurmConfig"], "cgroup": cgroup, "privateTmp": private_tmp},
        "compute": {"ssh": {"enabled": True}, "shm": f"{SHM_PART:.0%}"},
        "login": {"ssh": {"x11": True, "trustedUserCAKeys": [ca]}},
    }


class People:
    """The people of a site, who reach its nodes by ssh. `cgroup`: the value of the site."""

    def __init__(self, folder: Path) -> None:
        self._keys = {name: Key(folder / name) for name in VALUES["users"]["people"]}
        self.authority = Authority(folder)
        self.cgroup = "disabled"
        values = _values(self._keys, self.authority.public, self.cgroup)
        self.site = Site(folder / "site", values=values, nodes=NODES)

    async def use(self, cgroup: str, *, private_tmp: bool | str = "auto", rolls: bool = True) -> None:
        """Use these values: restart slurmctld, and either replace the slurmd pods (`rolls`) or reconfigure the running
        slurmds.
        """
        values = _values(self._keys, self.authority.public, cgroup, private_tmp)
        config = of_kind(render("slurm", values), "ConfigMap")["demo-slurm-config"]["data"]
        for name in ("cgroup.conf", "job_container.conf", "private.conf"):
            (self.site.slurm.root / "etc/slurm" / name).write_text(config.get(name, ""))
        before = self._starts()
        is_anew = lambda: all(now > then for now, then in zip(self._starts(), before, strict=True))  # noqa: E731
        await self.site.restart(values)
        if rolls:
            self.site.replace_pods(values)
            self.site.slurm.send("TERM", "slurmd")
            # As a kubelet does: slurmd 24.11 may hang that is to end while it is reconfigured.
            if not wait_until(is_anew, timeout_s=20, every_s=0.1):
                self.site.slurm.send("KILL", "slurmd")
        else:
            assert self.site.slurm.run_as("slurm", "scontrol", "reconfigure")[0] == 0, self.site.logs()
        assert wait_until(is_anew, timeout_s=60, every_s=0.1), self.site.logs()
        self.cgroup = cgroup

    def _starts(self) -> list[int]:
        logs = (self.site.slurm.root / f"var/log/slurmd-{node.name}.log" for node in NODES)
        return [log.read_text().count("slurmd version ") for log in logs]

    def listen(self) -> bool:
        """Each node has its sshd."""
        return wait_until(lambda: all(map(listens, self.site.ssh_ports.values())), timeout_s=30, every_s=0.1)

    @contextmanager
    def ssh(
        self, user: str, node: str, *command: str, flags: tuple[str, ...] = (), key: Key | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        """A client, which does not outlive the test. `key`: in place of the person's own."""
        known = key or self._keys.get(user, self._keys["ann"])
        flags = (*(word for option in QUIET for word in ("-o", option)), *flags)
        port = str(self.site.ssh_ports[node])
        argv = ["ssh", "-F", "none", *flags, "-i", str(known.file), "-p", port, f"{user}@127.0.0.1", *command]
        out = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        with subprocess.Popen(argv, **out, text=True, env={"PATH": os.environ["PATH"]}) as client:
            try:
                yield client
            finally:
                client.kill()

    def said(
        self, user: str, node: str, *command: str, flags: tuple[str, ...] = (), key: Key | None = None
    ) -> tuple[int, str]:
        """Exit code and output; 255 when sshd refuses them."""
        with self.ssh(user, node, *command, flags=flags, key=key) as client:
            output, _ = client.communicate(timeout=60)
        return client.returncode, output.strip()

    def job(self, user: str, node: str) -> str:
        """The number of a job of somebody whose script runs there."""
        begin = f"cd; rm -f on; j=$(sbatch --parsable --mem=200 -o /dev/null -w {node} --wrap 'touch on; sleep 600')"
        until = "for _ in {1..200}; do [ -e on ] && echo $j && exit; sleep 0.1; done; exit 1"
        code, said = self.site.shell(user, f"{begin}; {until}")
        assert code == 0, said + self.site.logs()
        return said.strip()


def _cgroups() -> list[Path]:
    return [found for node in NODES for found in Path("/sys/fs/cgroup").glob(f"*/slurm_{node.name}")]


def _in_cgroup(job: str, what: str) -> int:
    """Bytes of memory that the kernel has for a job: `usage` or `limit`."""
    (file,) = (each for top in _cgroups() for each in top.glob(f"uid_*/job_{job}/memory.{what}_in_bytes"))
    return int(file.read_text())


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    packages.ensure(CLIENT, progress=print)
    folder = tmp_path_factory.mktemp("people")
    (folder / "site").mkdir()
    people = People(folder)
    try:
        asyncio.run(people.site.settle())
        yield people
    finally:
        people.site.stop()
        for top in _cgroups():
            for each in sorted((top, *(found for found in top.rglob("*") if found.is_dir())), reverse=True):
                each.rmdir()


@pytest.fixture(scope="module", params=["disabled", "auto"])
def people(request: pytest.FixtureRequest, started: People) -> People:
    if request.param != started.cgroup:
        asyncio.run(started.use(request.param))
    assert started.listen(), started.site.logs()
    return started


@pytest.fixture(autouse=True)
def nobody_has_a_job(people: People) -> Iterator[None]:
    yield
    asyncio.run(people.site.clear())


@WITHOUT
def test_one_comes_where_one_has_a_job_and_nowhere_else(people: People):
    assert people.said("ann", ONE, "id")[0] == 255
    job = people.job("ann", ONE)
    code, said = people.said("ann", ONE, "hostname; id -un; pwd; echo $SLURM_JOB_ID $LANG")
    assert (code, said.split()) == (0, [ONE, "ann", "/home/ann", job, "C.UTF-8"]), said
    assert people.said("ann", TWO, "id")[0] == 255
    for stranger in ("bob", "root", "slurm", "k8s"):
        assert people.said(stranger, ONE, "id")[0] == 255


def test_with_several_jobs_one_is_a_part_of_one_but_not_before_26_05_without_cgroups(people: People):
    jobs = {people.job("ann", ONE), people.job("ann", ONE)}
    code, said = people.said("ann", ONE, "echo $SLURM_JOB_ID")
    if RELEASE != "26.05" and people.cgroup == "disabled":
        assert code == 255, said
    else:
        assert (code, said in jobs) == (0, True), said


def test_a_session_ends_with_its_job_and_takes_all_along(people: People):
    job = people.job("ann", ONE)
    left = "setsid nohup sleep 4242 > /dev/null 2>&1 &"
    with people.ssh("ann", ONE, f"{left} echo in; sleep 4243") as session:
        assert session.stdout is not None
        assert session.stdout.readline() == "in\n"
        people.site.shell("ann", f"scancel {job}")
        assert session.wait(timeout=30) != 0
    assert wait_until(lambda: not people.site.slurm.running("sleep 424[23]"), timeout_s=30, every_s=0.2), (
        people.site.logs()
    )
    assert people.said("ann", ONE, "id")[0] == 255


@WITHOUT
def test_what_a_session_left_goes_after_the_last_job_of_its_user_there(people: People):
    """Each job has an external step, which is none of the user's processes."""
    job = people.job("ann", ONE)
    assert people.said("ann", ONE, "touch /tmp/left /dev/shm/left; ls /tmp/left") == (0, "/tmp/left")
    root = people.site.root_of(ONE)
    people.site.shell("ann", f"scancel {job}")
    is_gone = lambda: not any((root / folder / "left").exists() for folder in ("tmp", "dev/shm"))  # noqa: E731
    assert wait_until(is_gone, timeout_s=30, every_s=0.2), people.site.logs()


@WITHIN
def test_a_session_is_held_by_what_slurm_gave_the_job_where_there_are_cgroups(people: People):
    job = people.job("ann", ONE)
    code, said = people.said("ann", ONE, "cat /proc/self/cgroup")
    assert (code, f"job_{job}/step_extern" in said) == (0, True), said


@WITHIN
def test_each_job_has_a_tmp_and_shared_memory_of_its_own(people: People):
    mark, where = "of-one-job", "/tmp /dev/shm"
    leave = f"for each in {where}; do touch $each/{mark}; done; ls {where}"
    for _ in range(2):
        seen = f"srun --mem=50 -w {ONE} bash -c 'ls {where}; echo then; {leave}'"
        code, said = people.site.shell("ann", f"cd; {seen}")
        before, _, after = said.partition("then")
        assert (code, mark in before, after.count(mark)) == (0, False, 2), said + people.site.logs()


@WITHIN
def test_the_tmp_and_shared_memory_of_a_job_are_its_users_and_of_the_size_in_values(people: People):
    shown = "stat -c '%U %a' /tmp; stat -c %a /dev/shm; grep ' /dev/shm ' /proc/mounts | tail -n 1"
    code, said = people.site.shell("ann", f"cd; srun --mem=50 -w {ONE} bash -c {shlex.quote(shown)}")
    words = said.split()
    assert (code, words[:3]) == (0, ["ann", "700", "1777"]), said + people.site.logs()
    options = set(words[6].split(","))
    (size_kib,) = (int(option[5:-1]) for option in options if option.startswith("size="))
    memory_kib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1024
    assert (round(size_kib / memory_kib, 2), {"nosuid", "nodev"} <= options) == (SHM_PART, True), said


@WITHIN
def test_files_in_shared_memory_are_memory_of_the_job_that_wrote_them(people: People):
    """By the kernel's counter for the job's cgroup, whose limit is the job's memory."""
    job, neighbour = people.job("ann", ONE), people.job("bob", ONE)
    assert people.said("ann", ONE, "head -c 100M /dev/zero > /dev/shm/file")[0] == 0, people.site.logs()
    assert _in_cgroup(job, "usage") > 100 << 20
    assert _in_cgroup(neighbour, "usage") < 100 << 20
    assert _in_cgroup(job, "limit") == 200 << 20


@WITHIN
def test_containers_of_a_job_share_its_tmp_and_leave_nothing(people: People, tmp_path: Path):
    """srun --container-image in steps of one job, and a batch script in a container."""
    root, archive, boxes = people.site.slurm.root, tmp_path / "image.tar", "/var/spool/slurmd/containers"
    (root / "var/cache/images").mkdir(exist_ok=True)
    (root / "var/cache/images").chmod(0o1777)
    oci_archive.write(archive, root, more="of the image")
    with Registry().serving() as registry:
        registry.trust(root)
        registry.push("team/app:1", archive)
        image = f"--container-image=localhost:{registry.port}#team/app:1"
        steps = (
            "touch /tmp/by-the-job /dev/shm/by-the-job",
            f"{image} sh -c 'cat /more; echo; id -u; ls /tmp /dev/shm; touch /tmp/by-its-image /dev/shm/by-its-image'",
            f"{image} --container-name=kept --container-writable sh -c 'echo kept > /new; ls /tmp/by-its-image'",
            "--container-name=kept cat /new",
            "ls /tmp/by-its-image /dev/shm/by-its-image",
        )
        run = "; ".join(f"srun --quiet {step}" for step in steps)
        batch = (
            f"#!/bin/bash\n#SBATCH {image.replace('#', chr(92) + '#')}\ncat /more; ls /tmp; touch /tmp/by-a-script\n"
        )
        (root / "home/ann/batch").write_text(batch)
        submit = f"sbatch --quiet --wait --mem=200 -w {ONE} -o said batch; cat said"
        code, said = people.site.shell(
            "ann", f"cd; salloc --quiet --mem=200 -w {ONE} bash -c {shlex.quote(run)}; {submit}"
        )
    wanted = (
        f"container: importing localhost:{registry.port}#team/app:1", "of the image", "2001", "/dev/shm:", "by-the-job",
        "", "/tmp:", "by-the-job", "/tmp/by-its-image", "kept", "/dev/shm/by-its-image", "/tmp/by-its-image",
        "of the image",
    )  # fmt: skip
    assert (code, said.splitlines()) == (0, list(wanted)), said + people.site.logs()
    pod = people.site.root_of(ONE)
    assert [found for each in ("tmp", "dev/shm") for found in (pod / each).glob("*by-*")] == []
    is_empty = lambda: not list((pod / boxes[1:]).iterdir())  # noqa: E731
    assert wait_until(is_empty, timeout_s=30, every_s=0.2), people.site.logs()


@WITHIN
async def test_a_job_keeps_the_tmp_with_which_it_began_when_each_gets_its_own(people: People):
    """An upgrade to `slurmConfig.privateTmp`: slurmd reads of it as it runs, and begins with it in the next pod."""
    await people.use("auto", private_tmp=False)
    assert people.listen()
    job = people.job("ann", ONE)
    mark = f"of-job-{job}"
    step = f"cd; srun --overlap --jobid {job} bash -c"
    assert people.site.shell("ann", f"{step} 'touch /tmp/{mark} /dev/shm/{mark}'")[0] == 0, people.site.logs()
    await people.use("auto", rolls=False)
    seen = f"cd /tmp && ls {mark} /dev/shm/{mark}"
    wanted = (0, f"/dev/shm/{mark}\n{mark}\n")
    assert people.site.shell("ann", f"{step} '{seen}'") == wanted, people.site.logs()
    assert people.said("ann", ONE, f"{seen}; echo $SLURM_JOB_ID") == (0, f"{wanted[1]}{job}")
    cast = f"cd; SLURM_JOB_ID={job} sbcast --force file-of-{job} /tmp/cast-{job}"
    assert people.site.shell("ann", f"cd; echo cast > file-of-{job}; {cast} && {step} 'cat /tmp/cast-{job}'") == (
        0, "cast\n",
    ), people.site.logs()  # fmt: skip
    # Who comes before the next pod has what the others there have.
    assert people.site.shell("ann", f"cd; srun --mem=50 -w {ONE} ls /tmp/{mark}")[0] == 0, people.site.logs()
    people.site.shell("ann", f"scancel {job}")
    root = people.site.root_of(ONE)
    is_gone = lambda: not any((root / folder / mark).exists() for folder in ("tmp", "dev/shm"))  # noqa: E731
    assert wait_until(is_gone, timeout_s=30, every_s=0.2), people.site.logs()
    await people.use("auto")
    assert people.listen()
    code, said = people.site.shell("ann", f"cd; srun --mem=50 -w {ONE} ls /tmp /dev/shm")
    assert (code, mark in said) == (0, False), said + people.site.logs()


@pytest.mark.long
@WITHIN
async def test_a_pod_of_an_image_without_a_tmp_for_each_job_goes_on_beside_its_jobs(people: People):
    """It waits a minute for the file that start-slurmd of a newer image writes."""
    await people.use("auto", private_tmp=False)
    assert people.listen()
    job = people.job("ann", ONE)
    for root in map(people.site.root_of, (ONE, TWO)):
        assert wait_until((root / "var/spool/slurmd/conf-good").exists, timeout_s=30, every_s=0.2)
        (root / "etc/slurm/private.conf").unlink()
    await people.use("auto", rolls=False)
    logs = [people.site.slurm.root / f"var/log/slurmd-{node.name}.log" for node in NODES]
    go_on = lambda: all("goes on with the files that it had: jobs go on" in log.read_text() for log in logs)  # noqa: E731
    assert wait_until(go_on, timeout_s=120, every_s=0.5), people.site.logs()
    step = lambda: people.site.shell("ann", f"cd; timeout 20 srun --overlap --jobid {job} hostname")  # noqa: E731
    assert wait_until(lambda: step() == (0, f"{ONE}\n"), timeout_s=90, every_s=1), people.site.logs()
    assert people.site.shell("ann", f"cd; srun --mem=50 -w {ONE} hostname") == (0, f"{ONE}\n"), people.site.logs()
    assert people.said("ann", ONE, "echo $SLURM_JOB_ID") == (0, job)
    await people.use("auto")
    assert people.listen()


@WITHIN
async def test_cgroups_are_turned_on_and_off_while_a_job_runs_which_goes_on_and_can_be_ended(people: People):
    begin = f"sbatch --parsable --mem=200 -o /dev/null -w {ONE} --wrap 'exec sleep 4244'"
    tasks = partial(people.site.slurm.running, "sleep 4244")
    await people.use("disabled")
    for then in ("auto", "disabled"):
        _, job = people.site.shell("ann", f"cd; {begin}")
        assert wait_until(tasks, timeout_s=30, every_s=0.2), job + people.site.logs()
        before = tasks()
        await people.use(then, rolls=False)
        _, state = people.site.shell("ann", f"squeue -h -o %T -j {job}")
        assert (state.strip(), tasks()) == ("RUNNING", before), people.site.logs()
        people.site.shell("ann", f"scancel {job}")
        assert wait_until(lambda: not tasks(), timeout_s=30, every_s=0.2), people.site.logs()
    await people.use("auto")
    assert people.listen()


@WITHOUT
def test_a_certificate_opens_the_nodes_of_its_persons_jobs_and_no_other(people: People):
    job = people.job("ann", ONE)
    assert people.said("ann", ONE, "echo $SLURM_JOB_ID", key=people.authority.sign("ann")) == (0, job)
    for user, node, principal in (("ann", ONE, "bob"), ("bob", ONE, "bob"), ("ann", TWO, "ann")):
        assert people.said(user, node, "true", key=people.authority.sign(principal))[0] == 255, (user, node, principal)


@WITHOUT
def test_no_key_is_in_reach(people: People):
    people.job("ann", ONE)
    for file in ("/keys/slurm.key", "/etc/slurm/slurm.key", "/etc/sunkpy/sshd/keys/ssh_host_ed25519_key"):
        code, said = people.said("ann", ONE, f"cat {file}")
        assert (code, "Permission denied" in said) == (1, True), said


@WITHOUT
def test_a_host_key_replaced_in_its_secret_ends_no_session_and_no_job(people: People):
    keys = people.site.accounting.root / f"site/{ONE}/keys"
    scan = ["ssh-keyscan", "-t", "ed25519", "-p", str(people.site.ssh_ports[ONE]), "127.0.0.1"]
    shown = lambda: subprocess.run(scan, capture_output=True, text=True, check=False).stdout  # noqa: E731
    job = people.job("ann", ONE)
    with people.ssh("ann", ONE, "echo in; sleep 4246") as session:
        assert session.stdout is not None
        assert session.stdout.readline() == "in\n"
        before, part = shown(), keys / "part"
        part.write_bytes(KINDS["ssh_host_ed25519_key"]())
        part.chmod(0o400)
        part.rename(keys / "ssh_host_ed25519_key")
        assert wait_until(lambda: shown() not in (before, ""), timeout_s=30, every_s=0.5), people.site.logs()
        assert people.said("ann", ONE, "echo $SLURM_JOB_ID") == (0, job)
        assert session.poll() is None


def test_a_connection_ends_with_its_job_also_while_no_program_runs_over_it(people: People, tmp_path: Path):
    job = people.job("ann", ONE)
    (port,), control = free_ports(1), tmp_path / "control"
    forward = f"{port}:127.0.0.1:{people.site.ssh_ports[TWO]}"
    with people.ssh("ann", ONE, flags=("-M", "-S", str(control), "-N", "-L", forward)) as connection:
        assert wait_until(control.exists, timeout_s=20, every_s=0.05), people.site.logs()
        assert people.said("ann", ONE, "echo in", flags=("-S", str(control))) == (0, "in")
        with socket.create_connection(("127.0.0.1", port), timeout=10) as there:
            assert there.recv(8) == b"SSH-2.0-"
        people.site.shell("ann", f"scancel {job}")
        assert connection.wait(timeout=30) != 0


@WITHIN
def test_a_step_opens_windows_where_there_are_cgroups(people: People):
    screen = Screen()
    cookie = "00112233445566778899aabbccddeeff"
    (people.site.slurm.root / "home/ann/window.sh").write_text(ASK)
    try:
        own = f"cd; export DISPLAY={screen.display}; xauth -q add $DISPLAY . {cookie}"
        _, said = people.site.shell("ann", f"{own}; srun --x11 --mem=200 bash window.sh")
    finally:
        screen.close()
    assert screen.refusal in said, said
