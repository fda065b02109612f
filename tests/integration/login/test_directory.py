"""People of a directory come in by ssh: sssd and sshd with the rights of the chart, the OpenLDAP of charts/openldap."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from devcluster.waiting import wait_until
from tests.integration.login.container import project, start
from tests.integration.login.directory import HOST, SUFFIX, Directory
from tests.integration.login.pod import Key, LoginPod
from tests.roots import OF_SSSD, discard, unpack
from tests.unit.charts.rendering import Manifest, of_kind, render

pytestmark = pytest.mark.integration

BY_HAND = f"""\
dn: ou=staff,{SUFFIX}
objectClass: organizationalUnit
ou: staff

"""


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Key:
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    return Key(tmp_path_factory.mktemp("keys") / "dora")


def _values(key: Key, **people: dict[str, object]) -> dict[str, object]:
    crowd = {f"d{number}": {"uid": 20000 + number, "group": "lab"} for number in range(1000)}
    listed = {name: {**person, "sshKeys": [key.public]} for name, person in {**crowd, **people}.items()}
    return {"people": listed, "groups": {"lab": {"gid": 7000}, "gpu": {"gid": 7001}}}


DORA: dict[str, object] = {
    "uid": 7002,
    "fullName": "Dora Müller",
    "group": "lab",
    "groups": ["gpu"],
    "shell": "/bin/sh",
}


def _by_hand(name: str, uid: int, key: Key) -> str:
    classes = "".join(f"objectClass: {each}\n" for each in ("account", "posixAccount", "ldapPublicKey"))
    return (
        f"dn: uid={name},ou=staff,{SUFFIX}\n{classes}uid: {name}\ncn: {name}\nuidNumber: {uid}\ngidNumber: 7000\n"
        f"homeDirectory: /Users/{name}\nloginShell: /usr/bin/fish\nsshPublicKey: {key.public}\n\n"
    )


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory, key: Key) -> Iterator[Directory]:
    directory = Directory(tmp_path_factory.mktemp("directory") / "ldap", _values(key, dora=DORA))
    staff = "".join(_by_hand(*who, key) for who in (("evil", 0), ("slurm", 401), ("low", 999), ("sam", 7009)))
    code, said = directory.as_admin("ldapadd", BY_HAND + staff)
    assert code == 0, said
    yield directory
    directory.stop()


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory, directory: Directory, key: Key) -> Iterator[LoginPod]:
    pod = LoginPod(tmp_path_factory.mktemp("login"), os.environ.get("SLURM_SUITE", "trixie"), hosts=[HOST])
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


def test_people_of_the_directory_are_who_it_says_in_a_home_of_their_own(pod: LoginPod, key: Key):
    assert _said(pod, key, "dora", "id; pwd; echo $SHELL; stat -c %U .").splitlines() == [
        "uid=7002(dora) gid=7000(lab) groups=7000(lab),7001(gpu)", "/home/dora", "/bin/sh", "dora",
    ]  # fmt: skip


def test_whom_somebody_made_beside_is_let_in_with_a_home_and_a_shell_that_are_here(pod: LoginPod, key: Key):
    assert _said(pod, key, "sam", "id; pwd; echo $SHELL").splitlines() == [
        "uid=7009(sam) gid=7000(lab) groups=7000(lab)", "/home/sam", "/bin/bash",
    ]  # fmt: skip


def test_people_of_values_are_there_as_well(pod: LoginPod, key: Key):
    assert _said(pod, key, "ann", "id -un") == "ann"


@pytest.mark.parametrize("user", ["evil", "slurm", "low", "root", "nobody-knows", "d1)(uid=*", "*", "d1*"])
def test_a_system_number_in_the_directory_and_a_hostile_name_let_nobody_in(pod: LoginPod, key: Key, user: str):
    assert pod.said("x", key, "id", options=(f'User="{user}"',))[0] == 255


def test_nobody_reads_the_configuration_of_sssd(pod: LoginPod, key: Key):
    assert _said(pod, key, "dora", "grep -rs ldap_uri /site /etc/sssd /var/lib/sss; true") == ""


class Beside:
    """The container sssd of slurmctld's pod, with volumes as the kubelet leaves them in a pod with an fsGroup."""

    MOUNTS: Final = {"directory": "var/lib/sss", "etc": "etc/sssd", "run": "run", "tmp": "tmp", "logs": "var/log"}

    def __init__(self, folder: Path, directory: Directory, conf: str) -> None:
        self.folder, self._directory = folder, directory
        group = self._apply(conf)["securityContext"]["fsGroup"]
        for name in self.MOUNTS:
            (folder / name).mkdir()
            os.chown(folder / name, 0, group)
            (folder / name).chmod(0o2777)
        (folder / "root").mkdir()
        unpack(OF_SSSD, ("sssd",), folder / "sssd")
        (folder / "sssd/site").mkdir(exist_ok=True)
        self.pipe = folder / "directory/pipes/nss"
        self.start()

    def _apply(self, conf: str) -> Manifest:
        manifests = render("slurm", {"users": {"sssd": _sssd(conf, self._directory)}})
        (self.folder / "site").mkdir(exist_ok=True)
        project(self.folder / "site", of_kind(manifests, "Secret")["demo-sssd"]["stringData"])
        pod: Manifest = of_kind(manifests, "StatefulSet")["demo-slurmctld"]["spec"]["template"]["spec"]
        return pod

    def start(self) -> None:
        """As at first, and again after it ended."""
        self.process = start(
            self.folder,
            "start-sssd",
            mounts=("site:site:ro", *(f"{name}:{path}" for name, path in self.MOUNTS.items())),
            rights=("--bounding-set=-all", "--inh-caps=-all"),
            env={"SUNKPY_LOOK_S": "0.2"},
            image="sssd",
        )

    def use(self, conf: str) -> None:
        """Change the Secret."""
        self._apply(conf)

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def answers(self) -> bool:
        """True once sssd answers; fails if the container ends."""
        assert self.process.poll() is None, self.log()
        return self.pipe.is_socket()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def beside(tmp_path: Path, directory: Directory) -> Iterator[Callable[[str], Beside]]:
    made: list[Beside] = []

    def make(conf: str) -> Beside:
        made.append(Beside(tmp_path, directory, conf))
        return made[-1]

    yield make
    for each in made:
        each.end()
    discard(tmp_path)


def test_sssd_beside_slurmctld_answers_from_volumes_that_belong_to_the_group_of_the_pod(
    beside: Callable[[str], Beside], directory: Directory
):
    sssd = beside(directory.conf)
    assert wait_until(sssd.answers, timeout_s=60, every_s=0.1), sssd.log()


NO_BRACKET, NO_PROVIDER = ("[sssd]", "[sssd"), ("id_provider = ldap", "id_provider = ladp")
"""Mistakes: with the first sssd ends at once, with the second it first tries three times."""
GOOD = "it is the last good one from now on"
KEPT = "It runs with the last good sssd.conf"


def test_sssd_that_never_had_a_good_configuration_ends_and_says_what_to_do(
    beside: Callable[[str], Beside], directory: Directory
):
    sssd = beside(directory.conf.replace(*NO_BRACKET))
    assert sssd.process.wait(timeout=60) != 0
    assert "mend it in the Secret (users.sssd)" in sssd.log()


def test_the_last_good_configuration_outlives_a_container(beside: Callable[[str], Beside], directory: Directory):
    sssd = beside(directory.conf)
    assert wait_until(lambda: sssd.answers() and GOOD in sssd.log(), timeout_s=60, every_s=0.2), sssd.log()
    sssd.use(directory.conf.replace(*NO_PROVIDER))
    assert wait_until(lambda: sssd.log().count(KEPT) == 1 and sssd.answers(), timeout_s=60, every_s=0.2), sssd.log()
    sssd.end()
    sssd.start()
    assert wait_until(lambda: sssd.log().count(KEPT) == 2 and sssd.answers(), timeout_s=60, every_s=0.2), sssd.log()
    for file in (sssd.folder / "site").iterdir():
        file.unlink()
    assert wait_until(lambda: sssd.log().count(KEPT) == 3 and sssd.answers(), timeout_s=60, every_s=0.2), sssd.log()


def test_a_thousand_people_log_in_as_fast_as_one(pod: LoginPod, key: Key):
    """Of several pairs one is enough: other load of the machine may come between the two of a pair."""
    pairs = ([pod.login_seconds(user, key) for user in ("ann", "d999")] for _ in range(8))
    assert any(among < 3 * alone for alone, among in pairs)


def test_the_directory_is_what_values_say_without_a_restart(directory: Directory, key: Key):
    pid = directory.process.pid
    changed = {"uid": 7002, "fullName": "Dora M", "group": "gpu"}
    directory.apply(_values(key, dora=changed, erik={"uid": 7003, "groups": ["lab"]}))
    assert wait_until(lambda: "uidNumber: 7003" in directory.found("uid=erik"), timeout_s=60, every_s=0.2), (
        directory.log()
    )
    assert wait_until(lambda: "cn: Dora M\n" in directory.found("uid=dora"), timeout_s=60, every_s=0.2), directory.log()
    dora = directory.found("uid=dora", "gidNumber", "loginShell", "sn")
    assert {"gidNumber: 7001", "loginShell: /bin/bash", "sn: M"} <= set(dora.splitlines())
    directory.apply(_values(key, dora=DORA))
    assert wait_until(lambda: not directory.found("uid=erik"), timeout_s=60, every_s=0.2), directory.log()
    assert directory.found("cn=erik") == "", "the group of their own goes with them"
    assert "uid: sam" in directory.found("uid=sam"), "who was made beside stays"
    assert directory.process.pid == pid
    assert directory.process.poll() is None


def test_only_who_has_the_password_changes_anything(directory: Directory, key: Key):
    change = f"dn: uid=sam,ou=staff,{SUFFIX}\nchangetype: modify\nreplace: uidNumber\nuidNumber: 7010\n"
    assert directory.as_nobody("ldapmodify", change)[0] != 0
    secret = f"dn: uid=sam,ou=staff,{SUFFIX}\nchangetype: modify\nadd: userPassword\nuserPassword: geheim\n"
    assert directory.as_admin("ldapmodify", secret)[0] == 0
    assert "userPassword" not in directory.found("uid=sam")


QUICK = "[nss]\nmemcache_timeout = 1\nentry_negative_timeout = 1\n"
"""So that sssd asks the directory again before a test ends."""


def test_who_is_taken_out_of_the_directory_is_out_and_nobody_else_is_while_it_is_away(
    pod: LoginPod, key: Key, directory: Directory
):
    quick = directory.conf.replace("entry_cache_timeout = 300", "entry_cache_timeout = 2") + QUICK
    pod.apply({"users": {"sssd": _sssd(quick, directory)}})
    directory.apply(_values(key, dora=DORA, erik={"uid": 7003, "groups": ["lab"]}))
    assert wait_until(lambda: pod.said("erik", key, "true")[0] == 0, timeout_s=60, every_s=0.5), pod.log()
    quiet, waiting = ("LogLevel=ERROR",), "echo in; sleep 300"
    with (
        pod.ssh("dora", key, waiting, options=quiet) as stays,
        pod.ssh("erik", key, waiting, options=quiet) as goes,
    ):
        assert [session.stdout.readline() for session in (stays, goes) if session.stdout] == ["in\n", "in\n"]
        directory.kill()
        with pytest.raises(subprocess.TimeoutExpired):
            goes.wait(timeout=8)
        assert stays.poll() is None, "the directory is away: everybody stays"
        directory.apply(_values(key, dora=DORA))
        directory.start()
        assert goes.wait(timeout=120) != 0, pod.log()
        assert "uid 7003 belongs to no user any more" in pod.log()
        assert wait_until(lambda: pod.said("erik", key, "id")[0] == 255, timeout_s=30, every_s=0.5)
        assert stays.poll() is None
        stays.kill()
    assert (pod.folder / "home/erik").is_dir(), "a home stays"


def test_what_it_has_outlives_a_kill(directory: Directory):
    directory.kill()
    directory.start()
    assert "uid: sam" in directory.found("uid=sam")
    assert directory.found("objectClass=posixAccount", "uid").count("uid: ") == 1005


def test_another_configuration_restarts_sssd_alone(pod: LoginPod, key: Key, directory: Directory):
    with pod.ssh("dora", key, "echo in; sleep 300", options=("LogLevel=ERROR",)) as session:
        assert session.stdout
        assert session.stdout.readline() == "in\n"
        other = directory.conf + "max_id = 20000\n"
        pod.apply({"users": {"sssd": _sssd(other, directory)}})
        assert wait_until(lambda: pod.said("d5", key, "true")[0] == 255, timeout_s=60, every_s=0.5), pod.log()
        assert session.poll() is None
        session.kill()


def test_sssd_goes_on_with_the_last_good_configuration_until_a_wrong_one_is_mended(
    pod: LoginPod, key: Key, directory: Directory
):
    good = directory.conf + "max_id = 30000\n"
    pod.apply({"users": {"sssd": _sssd(good, directory)}})
    before = pod.log().count(GOOD)
    assert wait_until(lambda: pod.log().count(GOOD) > before, timeout_s=60, every_s=0.2), pod.log()
    pod.apply({"users": {"sssd": _sssd(good.replace(*NO_BRACKET), directory)}})
    assert wait_until(lambda: KEPT in pod.log(), timeout_s=60, every_s=0.2), pod.log()
    assert wait_until(lambda: pod.said("d7", key, "true")[0] == 0, timeout_s=30, every_s=0.5), pod.log()
    pod.apply({"users": {"sssd": _sssd(directory.conf + "max_id = 20000\n", directory)}})
    assert wait_until(lambda: pod.said("d8", key, "true")[0] == 255, timeout_s=60, every_s=0.5), pod.log()
