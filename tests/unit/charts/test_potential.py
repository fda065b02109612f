"""Nodes that there could be: what the chart makes for them, and the script that makes records of them in Slurm."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from devcluster.waiting import wait_until
from sunkpy.syncer.settings import SyncerSettings
from tests.unit.charts.rendering import CHARTS, Refused, of_kind, render

GPU = "CPUs=96 RealMemory=900000 Gres=gpu:h100:8 Feature=gpu"
CPU = "CPUs=8 RealMemory=32000 Feature=cpu"
SCRIPT = """\
set -euo pipefail
cd "$2"
timeout() { shift; "$@"; }
said() { echo "$*" >> calls; }
scontrol() {
  case $1 in
    -o) cat records ;;
    create)
      said "$@"
      [ ! -e most ] || [ "$(grep -c . records)" -lt "$(cat most)" ] ||
        { echo "Error creating node(s): node table full"; return 1; }
      for name in ${2//,/ }; do
        gres=$(grep -oE 'Gres=[^ ]+' <<< "$*") || gres='Gres=(null)'
        echo "NodeName=${name#nodename=} CoresPerSocket=1 $gres NodeAddr=x State=FUTURE+DYNAMIC_NORM MCS=" >> records
      done ;;
    delete)
      said "$@"
      for name in ${2//,/ }; do sed -i "/^NodeName=${name#nodename=} /d" records; done ;;
  esac
}
source "$1"
settle_potential "$(cat wanted)" && echo settled || echo "not settled"
"""

Settle = Callable[[str], list[str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "records").write_text(
        "NodeName=gpu-000-001 CoresPerSocket=1 Gres=gpu:h100:8 NodeAddr=x State=IDLE MCS=\n"
    )
    return tmp_path


def settle(folder: Path, wanted: str) -> list[str]:
    """Run keep_potential until Slurm's records are these. Return its commands to Slurm, and its output."""
    (folder / "calls").write_text("")
    (folder / "wanted").write_text(wanted)
    argv = ["bash", "-c", SCRIPT, "-", CHARTS / "slurm/files/keep_potential.sh", folder]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return [*(folder / "calls").read_text().splitlines(), *done.stdout.splitlines()]


def test_records_are_made_as_many_as_are_lacking_and_the_last_ones_go(folder: Path):
    first = settle(folder, f"2 gpu_potential_aaaaaa {GPU}\n1 cpu_potential_bbbbbb {CPU}\n")
    assert first == [
        f"create nodename=gpu_potential_aaaaaa_1,gpu_potential_aaaaaa_2 {GPU} state=FUTURE",
        f"create nodename=cpu_potential_bbbbbb_1 {CPU} state=FUTURE",
        "settled",
    ]
    assert settle(folder, f"2 gpu_potential_aaaaaa {GPU}\n1 cpu_potential_bbbbbb {CPU}\n") == ["settled"]
    assert settle(folder, f"1 gpu_potential_aaaaaa {GPU}\n0 cpu_potential_bbbbbb {CPU}\n") == [
        "delete nodename=gpu_potential_aaaaaa_2,cpu_potential_bbbbbb_1",
        "settled",
    ]
    assert settle(folder, "") == ["delete nodename=gpu_potential_aaaaaa_1", "settled"]
    assert settle(folder, "") == ["settled"]


def test_another_offer_and_a_type_that_was_lost_are_made_anew_before_the_old_ones_go(folder: Path):
    settle(folder, f"1 gpu_potential_aaaaaa {GPU}\n")
    assert settle(folder, f"1 gpu_potential_cccccc {GPU},ib\n") == [
        f"create nodename=gpu_potential_cccccc_1 {GPU},ib state=FUTURE",
        "delete nodename=gpu_potential_aaaaaa_1",
        "settled",
    ]
    records = (folder / "records").read_text()
    (folder / "records").write_text(
        records.replace(
            "potential_cccccc_1 CoresPerSocket=1 Gres=gpu:h100:8", "potential_cccccc_1 CoresPerSocket=1 Gres=gpu:8"
        )
    )
    assert settle(folder, f"1 gpu_potential_cccccc {GPU},ib\n") == [
        f"create nodename=gpu_potential_cccccc_2 {GPU},ib state=FUTURE",
        "delete nodename=gpu_potential_cccccc_1",
        "settled",
    ]


def test_where_slurm_has_no_room_the_old_ones_go_first(folder: Path):
    settle(folder, f"2 gpu_potential_aaaaaa {GPU}\n1 cpu_potential_bbbbbb {CPU}\n")
    (folder / "most").write_text("4")
    assert settle(folder, f"1 gpu_potential_cccccc {GPU}\n1 cpu_potential_bbbbbb {CPU}\n") == [
        f"create nodename=gpu_potential_cccccc_1 {GPU} state=FUTURE",
        "delete nodename=gpu_potential_aaaaaa_1,gpu_potential_aaaaaa_2",
        f"create nodename=gpu_potential_cccccc_1 {GPU} state=FUTURE",
        "settled",
    ]


def test_where_slurm_makes_none_the_others_are_as_wanted_and_its_words_are_told(folder: Path):
    settle(folder, f"1 gpu_potential_aaaaaa {GPU}\n1 cpu_potential_bbbbbb {CPU}\n")
    (folder / "most").write_text("0")
    creates = [
        f"create nodename=gpu_potential_cccccc_1 {GPU} state=FUTURE",
        f"create nodename=cpu_potential_bbbbbb_2 {CPU} state=FUTURE",
    ]
    full = "Error creating node(s): node table full"
    wanted = f"1 gpu_potential_cccccc {GPU}\n2 cpu_potential_bbbbbb {CPU}\n"
    told = [f"{full} {full} ", "not settled"]
    assert settle(folder, wanted) == [*creates, "delete nodename=gpu_potential_aaaaaa_1", *creates, *told]
    assert settle(folder, wanted) == [*creates, *told], "nothing is left that could go"
    assert "cpu_potential_bbbbbb_1" in (folder / "records").read_text()


def test_records_that_slurm_does_not_take_away_at_first_go_although_none_are_wanted_any_more(folder: Path):
    settle(folder, f"2 gpu_potential_aaaaaa {GPU}\n")
    (folder / "wanted").write_text("")
    (folder / "busy").touch()
    keep = "is_up() { :; }\nhosts=() potential=wanted\nkeep_potential 0.05 0\n"
    refuse = "      [ ! -e busy ] || return 1\n      said"
    script = SCRIPT.rpartition("settle_potential")[0].replace("      said", refuse)
    argv = ["bash", "-c", script + keep, "-", CHARTS / "slurm/files/keep_potential.sh", folder]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as keeps:
        try:
            assert keeps.stdout is not None
            assert keeps.stdout.readline().endswith(
                "cannot be made or deleted; trying again: scontrol did not answer\n"
            )
            (folder / "busy").unlink()
            assert wait_until(lambda: "potential" not in (folder / "records").read_text(), timeout_s=60)
        finally:
            keeps.kill()


def test_the_syncer_writes_one_config_map_that_slurmctlds_pod_has():
    manifests = render("slurm")
    config = of_kind(manifests, "ConfigMap")["demo-syncer"]["data"]["config.yaml"]
    assert msgspec.yaml.decode(config, type=SyncerSettings).potential_config_map == "demo-potential"
    assert "data" not in of_kind(manifests, "ConfigMap")["demo-potential"]
    own = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": ["demo-potential"],
        "verbs": ["get", "patch"],
    }
    rules = of_kind(manifests, "Role")["demo-syncer"]["rules"]
    assert own in rules
    assert {"apiGroups": ["sunkpy.dev"], "resources": ["nodesets"], "verbs": ["list", "watch"]} in rules
    pod = of_kind(manifests, "StatefulSet")["demo-slurmctld"]["spec"]["template"]["spec"]
    assert {"name": "potential", "configMap": {"name": "demo-potential", "optional": True}} in pod["volumes"]
    mount = {"name": "potential", "mountPath": "/potential", "readOnly": True}
    assert mount in next(each for each in pod["containers"] if each["name"] == "slurmctld")["volumeMounts"]


def test_a_nodeset_gets_what_its_values_say_and_slurm_needs_room_for_twice_as_many():
    values = {
        "nodeSets": {"gpu": {"growth": {"potential": 300, "shape": {"cpus": 96, "memory": "900Gi"}}}, "cpu": None}
    }
    assert of_kind(render("slurm", values), "NodeSet")["gpu"]["spec"]["growth"] == values["nodeSets"]["gpu"]["growth"]
    more = {"nodeSets": {**values["nodeSets"], "cpu": {"growth": {"potential": 300}}}}
    told = "together 600 nodes, and Slurm needs room for twice as many. Set slurmConfig.conf.MaxNodeCount to at"
    with pytest.raises(Refused, match=told):
        render("slurm", more)
    render("slurm", more | {"slurmConfig": {"conf": {"MaxNodeCount": 1200}}})


@pytest.mark.parametrize("growth", [{"ask": "auto"}, {"releaseAfterSeconds": 600}])
def test_nothing_is_asked_for_or_released_where_nobody_knows_what_jobs_want(growth: dict[str, object]):
    with pytest.raises(Refused, match=r"nodeSets\.gpu\.growth: ask and releaseAfterSeconds need potential"):
        render("slurm", {"nodeSets": {"gpu": {"growth": growth}}})
    silent: dict[str, object] = {"nodeSets": {"gpu": {"growth": {"potential": 9, **growth}}}}
    render("slurm", silent)
    with pytest.raises(Refused, match=r"nodeSets\.gpu\.growth\.potential needs syncer\.metrics\.enabled"):
        render("slurm", silent | {"syncer": {"metrics": {"enabled": False}}})
