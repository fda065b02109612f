"""People of an Active Directory come in by ssh with a certificate and run jobs: by SSSD's provider ldap, and by its
provider ad, where pods share one computer account of the domain.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest

from devcluster.waiting import wait_until
from tests.integration.login.active_directory import HOST, KERBEROS, ActiveDirectory, install
from tests.integration.login.authority import Authority
from tests.integration.login.pod import LoginPod
from tests.integration.slurm.daemons import RealSlurm

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(900)]

QUIET = ("LogLevel=ERROR",)
PROVIDER_AD = ("sssd-ad", "libsasl2-modules-gssapi-mit")
"""What the image of sssd lacks for it."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ActiveDirectory]:
    if os.geteuid() != 0:
        pytest.skip("needs root: the daemons change their user")
    directory = ActiveDirectory(tmp_path_factory.mktemp("directory") / "ad")
    yield directory
    directory.stop()


@pytest.fixture(scope="module", params=["ldap", "ad"])
def pod(
    tmp_path_factory: pytest.TempPathFactory,
    slurm: RealSlurm,
    directory: ActiveDirectory,
    authority: Authority,
    request: pytest.FixtureRequest,
) -> Iterator[LoginPod]:
    pod = LoginPod(tmp_path_factory.mktemp("login"), os.environ.get("SLURM_SUITE", "trixie"), slurm.root)
    for image in ("root", "sssd"):
        (pod.folder / image / "etc/hosts").write_text(f"127.0.0.1 localhost\n{directory.address} {HOST}\n")
    sssd = {"enabled": True, "config": directory.conf(request.param), "ca": directory.ca}
    pod.apply({"users": {"sssd": sssd}, "login": {"ssh": {"trustedUserCAKeys": [authority.public]}}})
    if request.param == "ad":
        install(pod.folder / "sssd", *PROVIDER_AD)
        (pod.folder / "sssd/etc/krb5.conf").write_text(KERBEROS)
        (pod.folder / "site/krb5.keytab").write_bytes(directory.keytab)
    pod.start()
    comes = lambda: pod.said("ann", authority.sign("ann"), "true")[0] == 0  # noqa: E731
    assert wait_until(comes, timeout_s=120, every_s=1), pod.log()
    yield pod
    pod.stop()


def _said(pod: LoginPod, authority: Authority, user: str, script: str, principal: str = "") -> str:
    code, output = pod.said(user, authority.sign(principal or user), script, options=QUIET)
    assert code == 0, output + pod.log()
    return output.strip()


def test_people_have_numbers_of_their_sid_groups_and_a_home(pod: LoginPod, authority: Authority):
    ids, home, shell = _said(pod, authority, "ann", "id; pwd; echo $SHELL").splitlines()
    assert re.fullmatch(r"uid=\d{6,}\(ann\) gid=\d{6,}\(domain users\) groups=\d+\(domain users\),\d+\(chem\)", ids)
    assert (home, shell) == ("/home/ann", "/bin/bash")


def test_a_name_with_capital_letters_is_small_here(pod: LoginPod, authority: Authority):
    assert _said(pod, authority, "bob.jones", "id -un; pwd").splitlines() == ["bob.jones", "/home/bob.jones"]
    assert pod.said("ann", authority.sign("bob.jones"), "true")[0] == 255


def test_she_runs_a_job_as_herself(pod: LoginPod, authority: Authority, slurm: RealSlurm):
    """Where slurmctld and slurmd run she has the same number: here by a line of passwd, in pods by their own sssd."""
    uid = int(_said(pod, authority, "ann", "id -u"))
    slurm.know({"ann": uid})
    is_up = lambda: "idle" in pod.said("ann", authority.sign("ann"), "sinfo -ho %t", options=QUIET)[1]  # noqa: E731
    assert wait_until(is_up, timeout_s=60, every_s=0.5), pod.log()
    assert _said(pod, authority, "ann", "cd /tmp && srun --time=1 id -u") == str(uid)
    told = slurm.root / "var/tmp/of-a-job"
    told.unlink(missing_ok=True)
    batch = "sbatch --wait --time=1 --chdir=/var/tmp --output=/var/tmp/of-a-job --wrap 'id -un'"
    assert "Submitted batch job" in _said(pod, authority, "ann", batch)
    assert (told.read_text(), told.stat().st_uid) == ("ann\n", uid)
