"""People come in by ssh: the image, the chart's sshd_config and rights, a real client, a real Slurm."""

from __future__ import annotations

import os
import re
import shlex
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.waiting import wait_until
from tests.integration.login.pod import Key, LoginPod
from tests.integration.screen import ASK, Screen
from tests.integration.slurm.daemons import NODE, RealSlurm
from tests.ports import free_ports

pytestmark = pytest.mark.integration

SUITE = os.environ.get("SLURM_SUITE", "trixie")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Key]:
    folder = tmp_path_factory.mktemp("keys")
    return {name: Key(folder / name) for name in ("ann", "bob", "user1", "carl", "dan", "zoe")}


def _values(keys: dict[str, Key], **people: dict[str, object]) -> dict[str, object]:
    listed = {name: {**person, "sshKeys": [keys[name].public]} for name, person in people.items()}
    bound = {"login": {"perPerson": {"memoryMiB": 1024}}}
    return bound | {"users": {"people": listed, "groups": {"chem": {"gid": 5001}, "gpu": {"gid": 5002}}}}


SHOW = "env; echo umask=$(umask)"
ALIKE = {"USER", "LOGNAME", "HOME", "SHELL", "LANG", "PATH", "PWD", "umask"}
ANN = {"uid": 2001, "groups": ["chem", "gpu"]}
BOB = {"uid": 2002, "group": "chem", "shell": "/bin/sh"}
USER1 = {"uid": 65520, "groups": ["chem"]}


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory, slurm: RealSlurm, keys: dict[str, Key]) -> Iterator[LoginPod]:
    pod = LoginPod(tmp_path_factory.mktemp("login"), SUITE, slurm.root)
    pod.apply(_values(keys, ann=ANN, bob=BOB, user1=USER1))
    pod.start()
    yield pod
    pod.stop()


def _run(pod: LoginPod, keys: dict[str, Key], user: str, script: str) -> str:
    code, output = pod.said(user, keys[user], script, options=("LogLevel=ERROR",))
    assert code == 0, f"{script}: {output}{pod.log()}"
    return output.strip()


def test_people_are_who_the_values_say_in_a_home_of_their_own(pod: LoginPod, keys: dict[str, Key]):
    assert _run(pod, keys, "ann", "id") == "uid=2001(ann) gid=2001(ann) groups=2001(ann),5001(chem),5002(gpu)"
    assert _run(pod, keys, "bob", "id; echo $SHELL") == "uid=2002(bob) gid=5001(chem) groups=5001(chem)\n/bin/sh"
    assert _run(pod, keys, "user1", "id -Gn") == "user1 chem"
    assert _run(pod, keys, "ann", "pwd; stat -c '%U %G %a' . .bashrc") == "/home/ann\nann ann 700\nann ann 644"
    assert _run(pod, keys, "ann", "ls -A /home").split() == ["ann", "bob", "user1"], "half a home was left"


def _facts(shown: str) -> dict[str, str]:
    """The variables that `SHOW` prints and that are the same by both doors."""
    return {key: value for key, _, value in (line.partition("=") for line in shown.splitlines()) if key in ALIKE}


def test_a_login_shell_is_the_same_by_either_door(pod: LoginPod, keys: dict[str, Key]):
    by_ssh = _run(pod, keys, "user1", f"bash -lc '{SHOW}'")
    by_kubectl = pod.entered(65520, "bash", "-lc", SHOW)
    wanted = {
        "USER": "user1",
        "LOGNAME": "user1",
        "HOME": "/home/user1",
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games",
        "PWD": "/home/user1",
        "umask": "0022",
    }
    if SUITE == "base":  # of which /etc/profile may set no PATH
        del wanted["PATH"]
    for said in (by_ssh, by_kubectl):
        assert {name: value for name, value in _facts(said).items() if name in wanted} == wanted
    _run(pod, keys, "ann", "true")  # makes her home
    ann = _facts(pod.entered(2001, "bash", "-lc", SHOW))
    assert (ann["USER"], ann["HOME"], ann["PWD"]) == ("ann", "/home/ann", "/home/ann"), "the image does not know her"


def test_a_command_by_ssh_has_the_language_of_the_image_and_not_that_of_the_client(pod: LoginPod, keys: dict[str, Key]):
    options = ("SetEnv=LANG=tlh_KX.UTF-8 LC_ALL=tlh_KX.UTF-8", "SendEnv=LANG LC_*", "LogLevel=ERROR")
    assert pod.said("ann", keys["ann"], "locale | grep -v =.*C.UTF-8", options=options) == (0, "LANGUAGE=\nLC_ALL=\n")


def test_nobody_comes_without_their_own_key(pod: LoginPod, keys: dict[str, Key]):
    for user, key in (
        ("ann", "bob"),
        ("root", "ann"),
        ("slurm", "ann"),
        ("sshd", "ann"),
        ("nobody", "ann"),
        ("zoe", "zoe"),
    ):
        code, output = pod.said(user, keys[key], "id")
        assert (code, "Permission denied (publickey)" in output) == (255, True), f"{user}: {output}"


@pytest.mark.parametrize("user", ["../people/ann", "ann/../ann", "$(id)", "`id`", "ann ", "ANN", "*", ".", "x" * 300])
def test_a_hostile_name_is_nobody(pod: LoginPod, keys: dict[str, Key], user: str):
    code, _ = pod.said("nobody", keys["ann"], "id", options=(f'User="{user}"',))
    assert code == 255


def test_one_may_not_bring_a_key_of_ones_own_unless_values_allow_it(pod: LoginPod, keys: dict[str, Key]):
    _run(pod, keys, "bob", f"mkdir -pm 700 .ssh; echo '{keys['zoe'].public}' > .ssh/authorized_keys")
    assert pod.said("bob", keys["zoe"], "id")[0] == 255
    values = _values(keys, ann=ANN, bob=BOB, user1=USER1)
    pod.apply(values | {"login": {"ssh": {"ownKeys": True}}})
    assert pod.said("bob", keys["zoe"], "true")[0] == 0, pod.log()
    pod.apply(values)
    assert pod.said("bob", keys["zoe"], "true")[0] == 255, pod.log()


def test_nothing_of_root_and_no_key_is_in_reach(pod: LoginPod, keys: dict[str, Key]):
    status = dict(line.split(":\t") for line in _run(pod, keys, "ann", "cat /proc/self/status").splitlines())
    assert (status["NoNewPrivs"], status["CapEff"].strip("0"), status["CapPrm"].strip("0")) == ("1", "", "")
    for refused in (
        "cat /keys/ssh_host_ed25519_key", "ls /home/bob", "touch /home/x", "mkdir /home/carl", "mv /run/sshd /run/x",
        "touch /run/slurm/x", "touch /etc/x", "kill 1", "touch /config/x", "touch /etc/ssh/people/x",
        "touch /var/lib/extrausers/x", "cat /proc/1/environ", "ls /proc/1/root/", "su -c id",
    ):  # fmt: skip
        code, output = pod.said("ann", keys["ann"], f"timeout 5 {refused} < /dev/null")
        assert code not in (0, 255), f"{refused}: {output}"
    readable = (
        "find / -xdev -type f \\( -name '*.key' -o -name 'ssh_host_*_key' \\) -readable -not -path '/usr/*' 2>/dev/null"
    )
    assert _run(pod, keys, "ann", f"{readable} || true") == ""


def test_who_takes_too_much_loses_that_and_no_session(pod: LoginPod, keys: dict[str, Key]):
    assert _run(pod, keys, "ann", "ulimit -u; ulimit -d") == f"2000\n{1024 * 1024}"
    bob = pod.ssh("bob", keys["bob"], "echo in; sleep 600")
    assert bob.stdout is not None
    assert bob.stdout.readline() == "in\n"
    hold = "perl -e '$held = q(x) x (400 * 2**20); sleep 600'"
    script = f"{hold} & {hold} & {hold} & wait -n; echo one is $?; kill $(jobs -p); exit 0"
    _, output = pod.said("ann", keys["ann"], script)
    assert "one is 137" in output, pod.log()
    assert "hold-memory: uid 2001" in pod.log()
    assert bob.poll() is None
    bob.kill()
    bob.communicate(timeout=60)


def test_a_home_that_somebody_else_has_is_not_entered(pod: LoginPod, keys: dict[str, Key]):
    stolen = pod.folder / "home/carl"
    stolen.mkdir()
    os.chown(stolen, 2001, 2001)
    pod.apply(_values(keys, ann=ANN, bob=BOB, user1=USER1, carl={"uid": 2003}))
    code, output = pod.said("carl", keys["carl"], "id")
    assert code != 0
    assert "belongs to uid 2001, and not to carl" in output + pod.log()
    stolen.rmdir()
    assert _run(pod, keys, "carl", "stat -c %U .") == "carl"


def test_where_root_may_make_no_homes_who_has_one_comes_in_and_who_has_none_hears_why(
    pod: LoginPod, keys: dict[str, Key]
):
    """As behind `root_squash` of an NFS server: container sshd has no right to pass over modes."""
    _run(pod, keys, "ann", "true")
    pod.apply(_values(keys, ann=ANN, bob=BOB, user1=USER1, dan={"uid": 2004}))
    homes = pod.folder / "home"
    before = homes.stat()
    os.chown(homes, 65534, 65534)
    homes.chmod(0o755)
    try:
        assert _run(pod, keys, "ann", "pwd") == "/home/ann"
        code, output = pod.said("dan", keys["dan"], "id")
    finally:
        os.chown(homes, before.st_uid, before.st_gid)
        homes.chmod(before.st_mode)
    assert code != 0
    assert "make-homes: cannot make /home/dan; is /home writable by root?" in output + pod.log()


def test_a_terminal_greets_with_what_there_is_and_how_busy_it_is(pod: LoginPod, keys: dict[str, Key]):
    is_up = lambda: "idle" in pod.said("ann", keys["ann"], "sinfo --noheader --format=%t")[1]  # noqa: E731
    assert wait_until(is_up, timeout_s=60, every_s=0.5), pod.log()
    _run(pod, keys, "ann", "sbatch --hold --chdir=/tmp --wrap=true")
    code, output = pod.said("ann", keys["ann"], "tty; bash -lic true", options=("RequestTTY=force", "LogLevel=ERROR"))
    _run(pod, keys, "ann", "scancel --me")
    assert code == 0, output
    assert output.startswith("/dev/pts/")
    assert re.search(r"idle +mixed +alloc +drain +down\s+low +up +1 +0 +0 +0 +0\s", output), output
    assert "Your jobs: 1 pending" in output


def test_srun_gives_a_terminal_on_a_node(pod: LoginPod, keys: dict[str, Key]):
    script = "srun --pty bash -c 'tty; echo on $SLURMD_NODENAME'"
    code, output = pod.said("ann", keys["ann"], script, options=("RequestTTY=force", "LogLevel=ERROR"))
    assert (code, f"on {NODE}" in output, "/dev/pts/" in output) == (0, True, True), output


def test_nobody_waits_for_a_slurmctld_that_does_not_answer(pod: LoginPod, keys: dict[str, Key], slurm: RealSlurm):
    slurm.send("STOP", "slurmctld")
    try:
        assert wait_until(lambda: _is_stopped(slurm), timeout_s=60, every_s=0.05)
        terminal = ("RequestTTY=force", "LogLevel=ERROR")
        code, output = pod.said("ann", keys["ann"], "bash -lic 'echo in after $SECONDS'", options=terminal)
    finally:
        slurm.send("CONT", "slurmctld")
    assert (code, "Slurm does not answer now; jobs go on." in output) == (0, True), output
    after_s = re.search(r"in after (\d+)", output)
    assert after_s, output
    assert int(after_s[1]) < 10, "the greeting has two seconds; commands of Slurm wait for ten"


def _is_stopped(slurm: RealSlurm) -> bool:
    """True once slurmctld has got SIGSTOP."""
    pids = slurm.running("/usr/sbin/slurmctld .*")
    return any(") T " in Path(f"/proc/{pid}/stat").read_text() for pid in pids)


@pytest.mark.parametrize(("forwarding", "reached"), [("local", True), ("none", False)])
def test_ports_are_forwarded_as_values_say(pod: LoginPod, keys: dict[str, Key], forwarding: str, reached: bool):
    before = _values(keys, ann=ANN, bob=BOB, user1=USER1)
    pod.apply(before | {"login": {"ssh": {"portForwarding": forwarding}}})
    (port,) = free_ports(1)

    def is_reached() -> bool:
        forward = (f"LocalForward={port} 127.0.0.1:{pod.port}", "LogLevel=ERROR")
        with pod.ssh("ann", keys["ann"], "echo in; sleep 60", options=forward) as session:
            assert session.stdout is not None
            assert session.stdout.readline() == "in\n", pod.log()
            with socket.create_connection(("127.0.0.1", port), timeout=60) as there:
                greeting = there.recv(8)
            session.kill()
        return greeting == b"SSH-2.0-"

    assert is_reached() == reached, pod.log()
    pod.apply(before)


def test_windows_open_at_home_where_values_say_so(pod: LoginPod, keys: dict[str, Key]):
    before = _values(keys, ann=ANN, bob=BOB, user1=USER1)
    pod.apply(before | {"login": {"ssh": {"x11": True}}})
    screen = Screen()

    def asked() -> str:
        options = ("ForwardX11=yes", "ForwardX11Trusted=yes", "LogLevel=ERROR")
        client = pod.ssh("ann", keys["ann"], f"bash -c {shlex.quote(ASK)}", options=options, display=screen.display)
        return client.communicate(timeout=60)[0]

    try:
        said = asked()
        assert screen.refusal in said, said + pod.log()
        pod.apply(before)
        assert screen.refusal not in asked(), pod.log()
    finally:
        screen.close()


def test_who_is_added_comes_in_and_who_is_removed_is_out_at_once(pod: LoginPod, keys: dict[str, Key]):
    before = _values(keys, ann=ANN, bob=BOB, user1=USER1)
    pod.apply(_values(keys, ann=ANN, bob=BOB, user1=USER1, zoe={"uid": 2009}))
    assert _run(pod, keys, "zoe", "id -un") == "zoe"
    quiet = ("LogLevel=ERROR",)
    waiting = "echo in; sleep 300"
    with (
        pod.ssh("ann", keys["ann"], waiting, options=quiet) as stays,
        pod.ssh("zoe", keys["zoe"], waiting, options=quiet) as goes,
    ):
        assert [session.stdout.readline() for session in (stays, goes) if session.stdout] == ["in\n", "in\n"]
        pod.apply(before)
        assert goes.wait(timeout=60) != 0
        assert pod.said("zoe", keys["zoe"], "id")[0] == 255
        assert stays.poll() is None
        stays.kill()
    assert (pod.folder / "home/zoe").is_dir(), "a home stays"


def test_slurm_knows_them_by_name_uid_and_groups(pod: LoginPod, keys: dict[str, Key]):
    ready = lambda: "idle" in pod.said("ann", keys["ann"], "sinfo --noheader --format=%t")[1]  # noqa: E731
    assert wait_until(ready, timeout_s=60, every_s=0.5), pod.log()
    ran = _run(
        pod, keys, "ann", "cd /tmp && srun --time=1 bash -c 'id; ls /etc/slurm/*.key >&2 && cat /etc/slurm/*.key'; true"
    )
    assert "uid=2001(ann) gid=2001(ann) groups=2001(ann),5001(chem),5002(gpu)" in ran
    assert "Permission denied" in ran or "cannot access" in ran, "a job reads a key of Slurm"
    assert _run(
        pod, keys, "bob", "cd /tmp && sbatch --parsable --wrap 'sleep 60' >/dev/null; squeue --me -ho '%u %g %U'"
    ) == ("bob chem 2002")
    code, output = pod.said("ann", keys["ann"], "scancel --user bob; squeue -ho %u")
    assert "bob" in output, "one may not cancel what is another's"
    _run(pod, keys, "bob", "scancel --me")
    code, output = pod.said("ann", keys["ann"], "scontrol update nodename=ALL state=drain reason=x")
    assert (code, "Invalid user id" in output) == (1, True), output


def test_a_thousand_people_log_in_as_fast_as_one(pod: LoginPod, keys: dict[str, Key]):
    crowd = {
        f"p{number}": {"uid": 10000 + number, "groups": ["chem"], "sshKeys": [keys["zoe"].public]}
        for number in range(1000)
    }
    few, many = (_values(keys, ann=ANN, bob=BOB, user1=USER1) for _ in range(2))
    many["users"]["people"] |= crowd

    def seconds(values: dict[str, object], user: str, key: Key) -> float:
        pod.apply(values)
        return pod.login_seconds(user, key)

    pairs = ((seconds(few, "ann", keys["ann"]), seconds(many, "p999", keys["zoe"])) for _ in range(8))
    assert any(among < 3 * alone for alone, among in pairs), "other load may come between the two of a pair"
    assert _run(pod, keys | {"p999": keys["zoe"]}, "p999", "id -Gn") == "p999 chem"
    assert len(_run(pod, keys, "ann", "getent group chem").split(",")) == 1002
    pod.apply(_values(keys, ann=ANN, bob=BOB, user1=USER1))


def test_a_system_user_among_people_is_not_believed(pod: LoginPod, keys: dict[str, Key]):
    """Were the chart's checks passed by: glibc's plugin reads no such number, PAM lets none in."""
    evil = "\n".join(f"evil{uid}:*:{uid}:{uid}::/home/evil{uid}:/bin/bash" for uid in (0, 401, 499, 999))
    before = (pod.folder / "people/passwd").read_text()
    (pod.folder / "people/passwd").write_text(f"{evil}\n{before}")
    for uid in (0, 401, 499, 999):
        (pod.folder / f"ssh-keys/evil{uid}").write_text(keys["zoe"].public)
    assert _run(pod, keys, "ann", "getent passwd evil0 evil401 evil499 evil999 | cut -d: -f1") == "evil999"
    for uid in (0, 401, 499, 999):
        code, output = pod.said(f"evil{uid}", keys["zoe"], "id")
        assert code != 0, output
    pod.apply(_values(keys, ann=ANN, bob=BOB, user1=USER1))


def test_nothing_of_a_client_reaches_sshd_that_values_do_not_give(pod: LoginPod, keys: dict[str, Key], tmp_path: Path):
    code, output = pod.said("ann", keys["ann"], "env", options=("SendEnv=LD_PRELOAD", "SetEnv=LD_PRELOAD=/tmp/x.so"))
    assert code == 0
    assert "LD_PRELOAD" not in output
