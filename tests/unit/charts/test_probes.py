"""What probes may do: a daemon that is merely slow is not ended, nor is the only one kept from its callers."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.unit.charts.rendering import of_kind, render
from tests.unit.charts.test_login import ANN

DAEMONS = {"demo-slurmctld", "demo-slurmdbd", "demo-slurmrestd", "demo-mariadb"}


def _containers(
    values: Mapping[str, object] | None = None, *, chart: str = "slurm"
) -> list[tuple[str, Mapping[str, object]]]:
    manifests = render(chart, values)
    owners = of_kind(manifests, "Deployment") | of_kind(manifests, "StatefulSet")
    pods = ((name, owner["spec"]["template"]["spec"]) for name, owner in owners.items())
    return [(name, container) for name, pod in pods for container in pod["containers"]]


def test_no_probe_ends_a_daemon_of_slurm():
    daemons = [each for name, each in _containers() if name in DAEMONS]
    assert len(daemons) == len(DAEMONS)
    assert not [each["name"] for each in daemons if "livenessProbe" in each]


def test_a_process_of_sunkpy_that_hangs_is_ended():
    parts = {"operator", "syncer", "scheduler", "accounts"}
    ours = [each for _, each in [*_containers(chart="sunkpy"), *_containers()] if each["name"] in parts]
    assert len(ours) == len(parts)
    assert all(each["livenessProbe"]["httpGet"]["path"] == "/healthz" for each in ours)


@pytest.mark.parametrize("name", ["demo-slurmctld", "demo-slurmdbd", "demo-mariadb"])
def test_a_daemon_that_reads_or_converts_for_days_is_not_ended(name: str):
    (probe,) = [container["startupProbe"] for owner, container in _containers() if owner == name]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 7 * 24 * 3600


@pytest.mark.parametrize(
    ("socket", "is_ready"), [("00000000:1AA3 00000000:0000 0A", True), ("0100007F:1AA3 0100007F:C350 01", False)]
)
def test_slurmdbd_is_ready_while_it_listens(tmp_path: Path, socket: str, is_ready: bool):
    (probe,) = [container["readinessProbe"] for owner, container in _containers() if owner == "demo-slurmdbd"]
    (tmp_path / "tcp").write_text(f"   0: {socket} 00000000:00000000\n")
    here = [word.replace("/proc/net", str(tmp_path)) for word in probe["exec"]["command"]]
    assert (subprocess.run(here, stderr=subprocess.DEVNULL, check=False).returncode == 0) is is_ready


def test_slurmctld_is_reached_while_it_does_not_say_that_it_is_ready():
    assert of_kind(render("slurm"), "Service")["demo-slurmctld"]["spec"]["publishNotReadyAddresses"]


def test_on_a_busy_machine_a_probe_may_take_some_seconds():
    probed = [
        (name, each) for name, each in _containers({"users": {"people": {"ann": ANN}}}) if "readinessProbe" in each
    ]
    assert {each["name"] for _, each in probed} >= {"slurmctld", "slurmdbd", "slurmrestd", "mariadb", "login", "sshd"}
    slow = [(name, each["name"]) for name, each in probed if each["readinessProbe"].get("timeoutSeconds", 1) < 5]
    assert slow == []


def test_what_starts_slowly_on_a_busy_machine_is_not_ended_for_it():
    """Each new start would take as long, and make the machine busier."""
    probed = [*_containers({"users": {"people": {"ann": ANN}}}), *_containers(chart="sunkpy")]
    starts = {(name, each["name"]): each["startupProbe"] for name, each in probed if "startupProbe" in each}
    assert {name for _, name in starts} >= {"scheduler", "syncer", "accounts", "operator", "slurmrestd", "sshd"}
    assert [who for who, probe in starts.items() if probe["periodSeconds"] * probe["failureThreshold"] < 600] == []


def test_the_last_words_of_a_slurmd_that_does_not_start_come_to_its_nodeset():
    (nodeset,) = of_kind(render("slurm"), "NodeSet").values()
    (slurmd, *_) = nodeset["spec"]["template"]["spec"]["containers"]
    assert (slurmd["name"], slurmd["terminationMessagePolicy"]) == ("slurmd", "FallbackToLogsOnError")
