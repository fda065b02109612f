import re
from pathlib import Path

import msgspec
import pytest

from devcluster import packages
from devcluster.checks import Facts, Listener, parse_listeners, problems, read_facts, wildcard_ports
from devcluster.layout import Layout

LAYOUT = Layout(root=Path("/var/lib/x"), name="x", slot=0)
GOOD = Facts(
    uid=0,
    is_linux=True,
    has_apt=True,
    missing_packages=(),
    free_bytes=50 * 1024**3,
    listeners=frozenset(),
    has_cgroups=True,
    has_overlay=True,
)
ANY = "0" * 8


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({}, None),
        ({"uid": 1000}, r"not root: .* run it with sudo"),
        ({"missing_packages": ("runc", "etcd-server")}, None),
        ({"missing_packages": ("runc",), "has_apt": False}, r"programs are missing: apt-get install runc"),
        ({"missing_packages": ("runc",), "uid": 1000}, r"programs are missing: apt-get install runc"),
        ({"free_bytes": 1024**3}, r"no disk: 1\.0 GiB free below /var/lib/x, 6 GiB needed; .*SUNKPY_DEVCLUSTER_HOME"),
        ({"listeners": frozenset({Listener(ANY, 6443)})}, r"port 6443 is taken: .* stop it"),
        ({"listeners": frozenset({Listener("0100007F", 6443), Listener(ANY, 22)})}, None),
        ({"has_cgroups": False}, r"no cgroups"),
        ({"has_overlay": False}, r"modprobe overlay"),
        ({"is_linux": False}, r"not Linux"),
    ],
)
def test_what_stands_in_the_way_is_named_with_what_to_do(facts: dict, says: str | None):
    found = "\n".join(problems(msgspec.structs.replace(GOOD, **facts), LAYOUT, is_running=False))
    assert re.search(says, found) if says else not found


def test_a_running_cluster_does_not_stand_in_its_own_way():
    facts = msgspec.structs.replace(GOOD, listeners=frozenset({Listener(ANY, 6443)}), free_bytes=0)
    assert problems(facts, LAYOUT, is_running=True) == []


def test_all_problems_are_told_at_once():
    facts = msgspec.structs.replace(GOOD, uid=1, free_bytes=0)
    assert len(problems(facts, LAYOUT, is_running=False)) == 2


def test_listeners_are_read_from_the_kernels_table():
    table = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:0CEA 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 00000000:192B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 2 1 0 100 0 0 10 0
   2: 0B00400A:C350 0100400A:192B 01 00000000:00000000 00:00000000 00000000     0        0 3 1 0 100 0 0 10 0
"""
    listeners = parse_listeners(table)
    assert listeners == {Listener("0100007F", 3306), Listener("00000000", 6443)}
    assert wildcard_ports(listeners) == {6443}


def test_the_facts_of_this_machine_can_be_read():
    assert read_facts(Path("/var/lib/not/there/yet")).is_linux


def test_missing_programs_become_debian_packages_each_once():
    assert packages.missing_packages(lambda program: program not in {"nsenter", "unshare", "etcd"}) == [
        "etcd-server",
        "util-linux",
    ]
    assert packages.missing_packages(lambda _program: True) == []
