"""People come by ssh with certificates of a site's authority, as step-ca, Vault and Teleport make them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from devcluster.waiting import wait_until
from tests.integration.login.authority import Authority
from tests.integration.login.container import project
from tests.integration.login.pod import Key, LoginPod
from tests.integration.slurm.daemons import RealSlurm
from tests.unit.charts.restarts import merged

pytestmark = pytest.mark.integration

QUIET: Final = ("LogLevel=ERROR",)
REFUSED: Final = (255, True)
IN_A_JOB: Final = "cd /tmp && srun --time=1 id -un"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("other"))


@pytest.fixture(scope="module")
def bob(tmp_path_factory: pytest.TempPathFactory) -> Key:
    """A plain key, as people have them in values."""
    return Key(tmp_path_factory.mktemp("keys") / "bob")


@pytest.fixture(scope="module")
def values(authority: Authority, bob: Key) -> Mapping[str, Any]:
    people = {"ann": {"uid": 2001}, "bob": {"uid": 2002, "sshKeys": [bob.public]}}
    return {"users": {"people": people}, "login": {"ssh": {"trustedUserCAKeys": [authority.public]}}}


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory, slurm: RealSlurm, values: Mapping[str, Any]) -> Iterator[LoginPod]:
    pod = LoginPod(tmp_path_factory.mktemp("login"), os.environ.get("SLURM_SUITE", "trixie"), slurm.root)
    pod.apply(values)
    pod.start()
    yield pod
    pod.stop()


@pytest.fixture(autouse=True)
def _as_it_was(pod: LoginPod, values: Mapping[str, Any]) -> Iterator[None]:
    yield
    _use(pod, values)


def _comes(pod: LoginPod, user: str, key: Key) -> tuple[int, bool]:
    """Exit code, and whether it was for who they are that they were refused."""
    code, output = pod.said(user, key, "true")
    return code, "Permission denied (publickey)" in output


def _use(pod: LoginPod, values: Mapping[str, Any], **ssh: object) -> None:
    """Values with these keys of login.ssh."""
    pod.apply(merged(values, {"login": {"ssh": ssh}}))


def test_a_certificate_lets_its_person_in_who_then_runs_a_job(pod: LoginPod, authority: Authority):
    is_up = lambda: "idle" in pod.said("ann", authority.sign("ann"), "sinfo -ho %t", options=QUIET)[1]  # noqa: E731
    assert wait_until(is_up, timeout_s=60, every_s=0.5), pod.log()
    assert pod.said("ann", authority.sign("ann"), IN_A_JOB, options=QUIET) == (0, "ann\n"), pod.log()


def test_another_principal_another_authority_and_another_time_let_nobody_in(
    pod: LoginPod, authority: Authority, other: Authority
):
    assert _comes(pod, "ann", authority.sign("ann")) == (0, False)
    assert _comes(pod, "bob", authority.sign("ann")) == REFUSED
    assert "name is not a listed principal" in pod.log()
    assert _comes(pod, "ann", other.sign("ann")) == REFUSED
    assert _comes(pod, "ann", authority.sign("ann", valid="-2h:-1m")) == REFUSED
    assert "Certificate invalid: expired" in pod.log()
    assert _comes(pod, "ann", authority.sign("ann", valid="+1h:+2h")) == REFUSED
    assert "Certificate invalid: not yet valid" in pod.log()
    assert _comes(pod, "ann", authority.sign("ann", options=("source-address=192.0.2.7",))) == REFUSED


@pytest.mark.parametrize("user", ["root", "slurm", "sshd", "nobody", "nobody-knows"])
def test_a_certificate_makes_nobody_of_the_system(pod: LoginPod, authority: Authority, user: str):
    assert pod.said(user, authority.sign(user), "id")[0] == 255


def test_what_a_certificate_allows_no_more_than_that(pod: LoginPod, authority: Authority):
    bound = authority.sign("ann", options=("clear", "force-command=echo no more than this"))
    assert pod.said("ann", bound, "id", options=QUIET) == (0, "no more than this\n")


def test_keys_beside_it_open_until_values_say_that_only_certificates_do(
    pod: LoginPod, values: Mapping[str, Any], authority: Authority, bob: Key
):
    assert _comes(pod, "bob", bob) == (0, False)
    _use(pod, values, onlyCertificates=True)
    assert _comes(pod, "bob", bob) == REFUSED
    assert _comes(pod, "bob", authority.sign("bob")) == (0, False)


def test_principals_are_names_or_what_values_list(pod: LoginPod, values: Mapping[str, Any], authority: Authority):
    _use(pod, values, principals={"ann": ["ann@example.com", "a.n.n"]})
    for name in ("ann@example.com", "a.n.n"):
        assert _comes(pod, "ann", authority.sign(name)) == (0, False), pod.log()
    assert _comes(pod, "ann", authority.sign("ann")) == REFUSED, "the list stands for her name"
    assert _comes(pod, "ann", authority.sign("bob")) == REFUSED
    assert _comes(pod, "bob", authority.sign("ann@example.com")) == REFUSED
    assert _comes(pod, "bob", authority.sign("bob")) == (0, False), "who is not listed has their name"


def test_what_is_revoked_opens_nothing_though_it_would_be_valid(
    pod: LoginPod, values: Mapping[str, Any], authority: Authority, other: Authority, bob: Key
):
    lost = authority.sign("ann")
    _use(pod, values, revokedKeys=[lost.public, bob.public], trustedUserCAKeys=[authority.public, other.public])
    assert _comes(pod, "ann", lost) == REFUSED
    assert _comes(pod, "bob", bob) == REFUSED
    assert _comes(pod, "ann", authority.sign("ann")) == (0, False)
    assert _comes(pod, "ann", other.sign("ann")) == (0, False)
    _use(pod, values, revokedKeys=[other.public], trustedUserCAKeys=[authority.public, other.public])
    assert _comes(pod, "ann", other.sign("ann")) == REFUSED, "with an authority goes all that it signed"


def test_a_secret_brings_authorities_and_a_list_by_number(pod: LoginPod, values: Mapping[str, Any], other: Authority):
    secret, brought = pod.folder / "ca", {"trustedUserCAKeys": [], "existingCASecret": "demo-ssh-ca"}
    project(secret, {"trusted_user_ca_keys": f"{other.public}\n", "revoked_keys": ""})
    _use(pod, values, **brought)
    assert _comes(pod, "ann", other.sign("ann", serial=7)) == (0, False), pod.log()
    (secret / "revoked_keys").write_bytes(other.revoke(7))
    assert _comes(pod, "ann", other.sign("ann", serial=7)) == REFUSED, pod.log()
    assert _comes(pod, "ann", other.sign("ann", serial=8)) == (0, False)
    (secret / "revoked_keys").unlink()
    assert _comes(pod, "ann", other.sign("ann", serial=8)) == REFUSED, "what is revoked is not known"
