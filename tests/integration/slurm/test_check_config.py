"""What slurmctld and slurmdbd say to new values, before anything is changed."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from devcluster.waiting import wait_until
from tests.integration.slurm.daemons import RealSlurm, give
from tests.roots import unpack
from tests.unit.charts.rendering import of_kind, render

pytestmark = pytest.mark.integration

SUITE: Final = os.environ.get("SLURM_SUITE", "trixie")
ALONE: Final = """
ip link set lo up
ip link add eth0 type veth peer name peer0
ip addr add 192.0.2.1/24 dev eth0
ip link set eth0 up
ip link set peer0 up
"""
ENTER: Final = """
mount --bind /dev "$1/dev"
mkdir -p "$1/config"
mount --bind "$2" "$1/config"
for folder in etc/slurm run tmp; do mount -t tmpfs -o mode=755,uid=401,gid=401 tmpfs "$1/$folder"; done
exec chroot --userspec=401:401 "$1" "${@:3}"
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("check") / "root"
    unpack(SUITE, ("slurmctld", "slurmdbd"), folder)
    return folder


def check(root: Path, folder: Path, daemon: str, values: Mapping[str, object], *, before: str = "") -> tuple[int, str]:
    """Exit code and words, with what the chart gives to the Job that checks, `before` run as root in the namespaces."""
    manifests = render("slurm", values)
    folder.mkdir()
    for name, text in of_kind(manifests, "ConfigMap").get(f"demo-check-{daemon}", {"data": {}})["data"].items():
        (folder / name).write_text(text)
    containers = of_kind(manifests, "Job")["demo-check"]["spec"]["template"]["spec"]["containers"]
    (command,) = [each["command"] for each in containers if each["name"] == daemon]
    return run(["--net"], ALONE + before + ENTER, root, folder, *command)


def run(namespaces: Sequence[str], script: str, *words: Path | str) -> tuple[int, str]:
    """Exit code and words of a script as root."""
    argv = ["unshare", "--mount", "--uts", *namespaces, "bash", "-ec", script, "-", *map(str, words)]
    env = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("daemon", ["slurmctld", "slurmdbd"])
def test_the_chart_as_it_is_is_accepted(root: Path, tmp_path: Path, daemon: str):
    assert check(root, tmp_path / "config", daemon, {})[::-1] == ("", 0)


def test_what_only_the_database_knows_is_accepted(root: Path, tmp_path: Path):
    weights = {"CPU": 1, "GRES/gpu": 16}
    of_partition = {"TRESBillingWeights": weights, "QOS": "gpu", "AllowQos": ["normal"], "AllowAccounts": ["chem"]}
    values = {
        "partitions": {"low": {"conf": of_partition}},
        "slurmConfig": {"conf": {"PriorityWeightTRES": weights, "PriorityWeightQOS": 10, "PreemptType": "preempt/qos"}},
    }
    assert check(root, tmp_path / "config", "slurmctld", values) == (0, "")


def test_who_wants_few_words_in_the_log_is_accepted(root: Path, tmp_path: Path):
    assert check(root, tmp_path / "ctld", "slurmctld", {"slurmConfig": {"conf": {"SlurmctldDebug": "error"}}}) == (
        0,
        "",
    )
    quiet = {"accounting": {"slurmdbd": {"conf": {"DebugLevel": "error"}}}}
    assert check(root, tmp_path / "dbd", "slurmdbd", quiet) == (0, "")


@pytest.mark.parametrize(
    ("daemon", "values", "said"),
    [
        ("slurmctld", {"slurmConfig": {"conf": {"KilWait": 30}}}, "KilWait"),
        ("slurmctld", {"slurmConfig": {"conf": {"SelectTypeParameters": ["CR_Cpus"]}}}, "CR_Cpus"),
        ("slurmctld", {"slurmConfig": {"conf": {"SlurmctldDebug": "error", "KilWait": 30}}}, "KilWait"),
        ("slurmctld", {"partitions": {"low": {"conf": {"MaxNode": 3}}}}, "MaxNode"),
        ("slurmctld", {"slurmConfig": {"conf": {"PreemptType": "preempt/nothing"}}}, "preempt/nothing"),
        ("slurmdbd", {"accounting": {"slurmdbd": {"conf": {"PurgeJobsAfter": "24month"}}}}, "PurgeJobsAfter"),
        ("slurmdbd", {"accounting": {"slurmdbd": {"conf": {"PurgeJobAfter": "2years"}}}}, "PurgeJobAfter"),
    ],
)
def test_what_slurm_cannot_work_with_is_said_in_its_words(
    root: Path, tmp_path: Path, daemon: str, values: dict[str, object], said: str
):
    code, words = check(root, tmp_path / "config", daemon, values)
    assert code == 3, words
    assert words.startswith(f"{daemon} does not start on these values:\n")
    assert said in words


def test_a_daemon_that_says_nothing_is_named_after_30_seconds(root: Path, tmp_path: Path):
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/bash\nexec tail -f /dev/null\n")
    silent.chmod(0o755)
    at_once = f'mount --bind {silent} "$1/usr/sbin/slurmdbd"\nmount --bind "$1/usr/bin/true" "$1/usr/bin/sleep"\n'
    assert check(root, tmp_path / "config", "slurmdbd", {}, before=at_once) == (
        1,
        "check-config: slurmdbd has not read its values in 30 s: the machine is slow, or waits for something\n",
    )


def test_process_ids_of_a_job_of_its_own_are_refused_by_a_release_that_has_none(root: Path, tmp_path: Path):
    values = {"slurmConfig": {"privateTmp": True, "privatePids": True}}
    code, words = check(root, tmp_path / "config", "slurmctld", values)
    assert (code, "NamespaceType" in words) == ((3, True) if SUITE == "trixie" else (0, False)), words


def test_keys_that_slurm_cannot_read_are_refused(root: Path, tmp_path: Path):
    key = {"alg": "HS256", "kty": "oct", "k": base64.b64encode(bytes(64)).decode()}
    try:
        give(root / "keys/slurm.jwks", json.dumps({"keys": [key]}).encode(), 401)
        code, words = check(root, tmp_path / "without", "slurmctld", {})
        assert (code, "failed to load kid field" in words) == (3, True), words
        give(root / "keys/slurm.jwks", json.dumps({"keys": [{**key, "kid": "old"}]}).encode(), 401)
        assert check(root, tmp_path / "with", "slurmctld", {}) == (0, "")
    finally:
        shutil.rmtree(root / "keys", ignore_errors=True)


@pytest.mark.skipif(SUITE != "trixie", reason="is earlier than no other release")
def test_no_earlier_slurm_follows_a_later_one(root: Path, tmp_path: Path):
    (tmp_path / "later").mkdir()
    later = RealSlurm(tmp_path / "later", "sid")
    try:
        assert wait_until(lambda: " is UP" in later.run_as("slurm", "scontrol", "ping")[1], timeout_s=60), later.logs()
        key = root / "keys/slurm.key"
        key.parent.mkdir(exist_ok=True)
        shutil.copy(later.root / "etc/slurm/slurm.key", key)
        os.chown(key, 401, 401)
        (tmp_path / "config").mkdir()
        shutil.copy(later.root / "etc/slurm/slurm.conf", tmp_path / "config")
        code, words = run([], ENTER, root, tmp_path / "config", "check-config", "slurmctld")
    finally:
        later.stop()
        shutil.rmtree(root / "keys", ignore_errors=True)
    assert code == 3, words
    assert re.match(
        r"slurmctld (26\.05\.\d+) runs here, and slurmctld (24\.11\.\d+) cannot read what it has saved\. Keep "
        r"images\.slurmctld and images\.slurmdbd\nat \1, or restore a backup of \2 into a new namespace: ",
        words,
    ), words


@pytest.mark.skipif(SUITE != "trixie", reason="is later than no other release")
def test_no_part_is_later_than_the_one_above_it(root: Path, tmp_path: Path):
    """In Slurm's order: slurmdbd, slurmctld, all others."""
    later = tmp_path / "root"
    unpack("sid", ("slurmctld", "slurmd", "slurmrestd", "login"), later)

    def checked(**of_suite: str) -> list[tuple[str, int, str]]:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        (folder / "order").mkdir()
        os.chown(folder / "order", 401, 401)
        values = {"images": {name: f"r.example.com:5000/{name}:{suite}-1" for name, suite in of_suite.items()}}
        shared = f'mkdir -p "$1/order"\nmount --bind {folder}/order "$1/order"\n'
        roots = {name: later if suite == "sid" else root for name, suite in of_suite.items()}
        return [
            (name, *check(roots[name], folder / name, name, values, before=shared))
            for name in ("slurmdbd", "slurmctld", "slurmd", "slurmrestd", "login")
            if name in of_suite and (roots[name] == later or name in ("slurmdbd", "slurmctld"))
        ]

    def refused(name: str, above: str) -> str:
        return (
            rf"images\.{name} is Slurm 26\.05\.\d+ and images\.{above} is 24\.11\.\d+, and must not be earlier\. "
            r"Upgrade it before, or with it: docs/tasks/upgrade\.md\n"
        )

    assert checked(slurmdbd="trixie", slurmctld="trixie", slurmd="sid")[:2] == [
        ("slurmdbd", 0, ""),
        ("slurmctld", 0, ""),
    ]
    ((_, code, words),) = checked(slurmdbd="trixie", slurmctld="sid")[1:]
    assert (code, bool(re.fullmatch(refused("slurmctld", "slurmdbd"), words))) == (3, True), words
    for name, code, words in checked(
        slurmdbd="trixie", slurmctld="trixie", slurmd="sid", slurmrestd="sid", login="sid"
    )[2:]:
        assert (code, bool(re.fullmatch(refused(name, "slurmctld"), words))) == (3, True), words
