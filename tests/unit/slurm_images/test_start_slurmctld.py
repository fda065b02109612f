"""What start-slurmctld does beside slurmctld: it tells the nodes when their configuration is another one."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "slurm-images" / "bin" / "start-slurmctld"
GIVES_UP = """\
scontrol() { tried=$((tried + 1)); [ "$tried" -gt 4 ]; }
sleep() { echo "$1"; }
set -euo pipefail
tried=0
source <(sed -n '/^tell_nodes()/,/^}/p' "$1")
tell_nodes
echo "told at try $tried"
"""
STARTS = """\
set -euo pipefail
state=$2
wait_until_up() { echo up; }
tell_nodes() { echo tells; [ ! -e "$state/ends" ] || exit 1; }
requeue_forgotten() { :; }
source <(sed -n '/^told=/,/^fi$/p' "$1" | sed "s#/config/#$2/config/#g")
wait
"""
FORGETS = """\
set -euo pipefail
version=$2
date() { echo 1000; }
sleep() { :; }
timeout() { shift; "$@"; }
squeue() { cat; }
scontrol() {
  [ "$1" != --version ] || { echo "slurm-wlm $version" && return; }
  echo "scontrol $*"
  [ "$*" != "requeue 8" ]
}
scancel() { echo "scancel $*"; }
source <(sed -n '/^requeue_forgotten()/,/^}/p' "$1")
requeue_forgotten
"""
LACKS = """\
set -euo pipefail
state=$2 SUNKPY_ACCOUNTING=${3:-} script=$1
shift "$#"
source <(sed -n '/^needed=/,/^fi$/p' "$script")
echo "$*"
"""
STANDS_BY = """\
set -euo pipefail
state=$2 own=$3 begun=$4 first=$5
next-job-id() { [ "$1 $3 $4" = "$state 10000 saved" ] && cat "$state/next"; }
kill() { echo "$1"; }
source <(sed -n '/^beat()/,/^}/p; /^has_control()/,/^}/p; /^go_on_behind()/,/^}/p' "$1")
has_control && echo control || echo none
go_on_behind
"""
WAITS = """\
set -euo pipefail
state=$2
sleep() { ls "$state"; : > "$state/heartbeat"; }
source <(sed -n '/^ *: > .*waits$/,/^ *rm .*waits$/p' "$1" | sed "s#/run/slurmctld#$2#")
ls "$state"
"""
FILES = ("clustername", "fed_mgr_state", "job_state", "node_state", "resv_state", "trigger_state")
CONF = """\
MaxJobCount=10000
NodeSet=gpu Feature=gpu
PartitionName=low Nodes=ALL
PartitionName=high Nodes=gpu PriorityTier=10
"""
CONFIG = {
    "slurm.conf": CONF,
    "gres.conf": "Include /etc/sunkpy/gres.conf\n",
    "prolog.sh": "exit 0\n",
    "epilog.sh": "exit 0\n",
    "job_submit.lua": "return slurm.SUCCESS\n",
}
MORE_JOBS = CONF.replace("10000", "20000")


def test_a_reconfigure_that_gives_up_is_repeated_ever_later():
    done = subprocess.run(["bash", "-c", GIVES_UP, "-", SCRIPT], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["30", "60", "120", "240", "told at try 5"], done.stderr


def forgotten(*jobs: str, version: str = "24.11.5") -> list[str]:
    """What it does about these jobs: id, start, whether a batch job, whether it may be requeued, reason, comment."""
    argv = ["bash", "-c", FORGETS, "-", SCRIPT, version]
    done = subprocess.run(argv, input="\n".join(jobs) + "\n", capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("job", "does"),
    [
        pytest.param("7_3 1000 1 1 Prolog (null)", ["scontrol requeue 7_3"], id="a batch job"),
        pytest.param(
            "7 900 1 0 Prolog",
            ["scontrol update jobid=7 requeue=1", "scontrol requeue 7", "scontrol update jobid=7 requeue=0"],
            id="one that may not be requeued",
        ),
        pytest.param("8 900 1 1 Prolog", ["scontrol requeue 8"], id="one that has gone on meanwhile"),
        pytest.param("7 1000 0 0 Prolog (null)", ["scancel 7"], id="an allocation"),
        pytest.param("7 1001 1 1 Prolog (null)", [], id="one that began later"),
        pytest.param("7 900 1 1 None (null)", [], id="one that has passed its Prolog"),
        pytest.param("7 900 1 1 Prolog k8s:ab/c:", [], id="a placeholder of pods"),
        pytest.param("7 N/A 1 1 Prolog (null)", [], id="one without a start"),
    ],
)
def test_a_job_whose_prolog_slurm_forgot_is_queued_again(job: str, does: list[str]):
    assert [line for line in forgotten(job) if not line.startswith("start-")] == does
    for version in ("25.05.3", "25.11.7", "26.05.5"):
        assert forgotten(job, version=version) == []


def test_it_says_what_slurm_forgot():
    says = [line for line in forgotten("7_3 10 1 1 Prolog", "8 10 1 1 Prolog", "9 10 0 0 Prolog") if "start-" in line]
    assert says == [
        "start-slurmctld: job 7_3 waited in a Prolog that Slurm forgot, and is requeued",
        "start-slurmctld: allocation 9 waited in a Prolog that Slurm forgot, and is cancelled",
    ]


def test_the_second_says_that_it_waits_for_the_first(tmp_path: Path):
    done = subprocess.run(["bash", "-c", WAITS, "-", SCRIPT, tmp_path], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["waits", "heartbeat"], done.stderr


def start(folder: Path, changed: Mapping[str, str] | None = None) -> list[str]:
    """What it does with this configuration."""
    (folder / "config").mkdir(exist_ok=True)
    for name, text in (CONFIG | dict(changed or {})).items():
        (folder / "config" / name).write_text(text)
    done = subprocess.run(["bash", "-c", STARTS, "-", SCRIPT, folder], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("changed", "does"),
    [
        pytest.param({}, [], id="nothing"),
        pytest.param({"slurm.conf": CONF.replace("=10\n", "=20 MaxTime=60\n")}, [], id="a partition"),
        pytest.param({"slurm.conf": f"{CONF}PartitionName=new Nodes=ALL\n"}, [], id="one more"),
        pytest.param({"slurm.conf": CONF.replace("PartitionName=low Nodes=ALL\n", "")}, [], id="one less"),
        pytest.param({"slurm.conf": CONF.replace("Feature=gpu", "Feature=h100")}, [], id="a set of nodes"),
        pytest.param({"job_submit.lua": "return slurm.ERROR\n"}, [], id="the script of slurmctld"),
        pytest.param({"slurm.conf": MORE_JOBS}, ["up", "tells"], id="something else"),
        pytest.param({"slurm.conf": MORE_JOBS.replace("=gpu", "=h100")}, ["up", "tells"], id="both"),
        pytest.param({"gres.conf": ""}, ["up", "tells"], id="another file"),
        pytest.param({"oci.conf": "IgnoreFileConfigJson=true\n"}, ["up", "tells"], id="one file more"),
        pytest.param({"epilog.sh": "exit 1\n"}, ["up", "tells"], id="a hook"),
        pytest.param({"topology.yaml": "a: b\n"}, ["up", "tells"], id="the site's own file"),
    ],
)
def test_nodes_are_told_once_of_what_they_read(tmp_path: Path, changed: Mapping[str, str], does: list[str]):
    assert start(tmp_path) == [], "they have just fetched it"
    assert start(tmp_path, changed) == does
    assert start(tmp_path, changed) == []


def test_nodes_that_were_not_told_are_told_after_the_next_start(tmp_path: Path):
    start(tmp_path)
    (tmp_path / "ends").touch()
    assert start(tmp_path, {"slurm.conf": MORE_JOBS}) == ["up", "tells"]
    (tmp_path / "ends").unlink()
    assert start(tmp_path, {"slurm.conf": MORE_JOBS}) == ["up", "tells"]
    assert start(tmp_path, {"slurm.conf": MORE_JOBS}) == []


def begin(folder: Path, accounting: str = "") -> str:
    """What slurmctld is called with."""
    argv = ["bash", "-c", LACKS, "-", SCRIPT, folder, accounting]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()[-1]


def save(folder: Path, *files: str) -> None:
    for file in files:
        (folder / file).touch()


def test_a_first_slurmctld_that_was_killed_before_it_had_saved_all_comes_back(tmp_path: Path):
    assert begin(tmp_path) == ""
    save(tmp_path, *FILES[:3])
    assert begin(tmp_path) == "-i"
    assert begin(tmp_path) == "-i"
    save(tmp_path, *FILES)
    assert begin(tmp_path) == ""


def test_with_accounting_usage_is_a_part_of_the_state(tmp_path: Path):
    begin(tmp_path, "slurmdbd:6819")
    save(tmp_path, *FILES)
    assert begin(tmp_path, "slurmdbd:6819") == "-i"


def test_what_was_saved_once_and_is_missing_is_no_reason_to_forget_all_jobs(tmp_path: Path):
    begin(tmp_path)
    save(tmp_path, *FILES)
    begin(tmp_path)
    (tmp_path / "job_state").unlink()
    assert begin(tmp_path) == ""


def stand_by(
    folder: Path, *, beat: tuple[int, int] | None, begun: int = 100, next_id: str = "", first: str = "10500"
) -> list[str]:
    """What the second does after a beat: when, and of which slurmctld."""
    if beat is not None:
        (folder / "heartbeat").write_bytes(struct.pack(">QQ", *beat))
    (folder / "next").write_text(next_id)
    argv = ["bash", "-c", STANDS_BY, "-", SCRIPT, folder, "1", str(begun), first]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.parametrize(
    ("beat", "says"),
    [(None, "none"), ((200, 0), "none"), ((200, 1), "control"), ((90, 1), "none")],
    ids=["nobody yet", "the first", "the second", "the second before it started anew"],
)
def test_who_has_control_is_in_the_state(tmp_path: Path, beat: tuple[int, int] | None, says: str):
    assert stand_by(tmp_path, beat=beat)[0] == says


@pytest.mark.parametrize(
    ("next_id", "does"),
    [("", []), ("15500", []), ("15501", ["-TERM"])],
    ids=["nothing saved yet", "far enough", "the first has come near"],
)
def test_the_second_keeps_ahead_of_the_ids_of_the_first(tmp_path: Path, next_id: str, does: list[str]):
    _, *did = stand_by(tmp_path, beat=(200, 0), next_id=next_id)
    assert did == does
