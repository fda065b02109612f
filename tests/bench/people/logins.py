"""How long a login takes: the images' sshd and sssd, and the OpenLDAP of charts/openldap, without a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from demo.person import Key
from tests.bench import report
from tests.bench.asked import SUITE
from tests.bench.people.crowd import Crowd
from tests.integration.login.directory import HOST, Directory
from tests.integration.login.pod import LoginPod

_BOUND_S = 1.0


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How many users there are, how many of the first and last log in once, and how often one of each again."""

    people: int = 1000
    cold: int = 10
    warm: int = 20


def measure(folder: Path, key: Key, sizes: Sizes) -> list[report.Figure]:
    crowd = Crowd(sizes.people, key, each=sizes.cold)
    with _pod(folder / "values", crowd.values()["users"]) as pod:
        figures = _log_in(f"{sizes.people} people of values", pod, crowd, sizes)
    directory = Directory(folder / "ldap", crowd.entries())
    try:
        sssd = {"enabled": True, "config": directory.conf, "ca": directory.ca}
        with _pod(folder / "directory", {"sssd": sssd}) as pod:
            return figures + _log_in(f"{sizes.people} people of LDAP", pod, crowd, sizes)
    finally:
        directory.stop()


@contextlib.contextmanager
def _pod(folder: Path, users: object) -> Iterator[LoginPod]:
    folder.mkdir(parents=True)
    pod = LoginPod(folder, SUITE, hosts=[HOST])
    try:
        pod.apply({"users": users})
        pod.start()
        yield pod
    finally:
        pod.stop()


def _log_in(among: str, pod: LoginPod, crowd: Crowd, sizes: Sizes) -> list[report.Figure]:
    figures: list[report.Figure] = []
    for which, names in (("first", crowd.first), ("last", crowd.last)):
        cold = [pod.login_seconds(name, crowd.key) for name in names]
        warm = [pod.login_seconds(names[-1], crowd.key) for _ in range(sizes.warm)]
        for how, seconds in (("for the first time", cold), ("again", warm)):
            what, bounds = f"{among}: the {which} log in {how}", (_BOUND_S, _BOUND_S)
            figures += report.spread(what, seconds, bounds=bounds)
    return figures
