"""Ids go on behind what slurmctld may have forgotten, on files as it leaves them in its state folder."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

import pytest

NEXT_JOB_ID = Path(__file__).parents[3] / "slurm-images" / "bin" / "next-job-id"
SAVED_S = 1_000_000.0


def header(next_id: int, *, text: bytes = b"PROTOCOL_VERSION") -> bytes:
    """How a file of saved jobs begins: what slurmctld packs first (job_mgr.c, dump_all_job_state)."""
    return struct.pack(f">I{len(text) + 1}sHqI", len(text) + 1, text, 0x2B00, int(SAVED_S), next_id)


def next_job_id(
    folder: Path,
    scripts: dict[int, float],
    *,
    conf: str = "",
    saved: bytes | None = b"",
    in_order: bool = True,
    began: tuple[str, float] | None = None,
    ended_s: float = 1.0,
    name: str = "job_state",
    how: tuple[str, ...] = (),
) -> str:
    """Run next-job-id and return its output.

    `scripts`: id of a job -> the seconds from the save of all jobs to the writing of its script. `began`: the id with
    which the last slurmctld had to go on, and how many seconds after that save it began. `ended_s`: the seconds from
    the save to the last change of the folder. `name`: the file with the saved jobs; `how`: further arguments.
    """
    folder.mkdir(exist_ok=True)
    state, slurm_conf = folder / "state", folder / "slurm.conf"
    slurm_conf.write_text(conf)
    for job, after_s in scripts.items():
        script = state / f"hash.{job % 10}" / f"job.{job}"
        script.mkdir(parents=True)
        os.utime(script, (SAVED_S, SAVED_S + after_s))
    state.mkdir(exist_ok=True)
    if not in_order:
        (state / "slurmctld.pid").symlink_to("/run/slurmctld/not-there.pid")
    if saved is not None:
        (state / name).write_bytes(saved)
        os.utime(state / name, (SAVED_S, SAVED_S))
    if began is not None:
        (state / "first_job_id").write_text(began[0])
        os.utime(state / "first_job_id", (SAVED_S, SAVED_S + began[1]))
    os.utime(state, (SAVED_S, SAVED_S + ended_s))
    asked = subprocess.run(
        [NEXT_JOB_ID, state, slurm_conf, *how], check=True, timeout=20, capture_output=True, text=True
    )
    return asked.stdout.strip()


@pytest.mark.parametrize(
    ("scripts", "said"),
    [
        ({}, ""),
        ({7: -60.0}, ""),
        ({7: -60.0, 8: 1.0}, "10008"),
        ({8: 1.0, 9: 2.0, 12: 3.0}, "10012"),
        ({99: 1.0, 100: 1.5}, "10100"),
    ],
    ids=["no job", "all saved", "one forgotten", "behind the last", "by number"],
)
def test_ids_go_on_behind_the_last_job_that_was_not_saved(tmp_path: Path, scripts: dict[int, float], said: str):
    assert next_job_id(tmp_path, scripts) == said


def test_a_job_that_came_while_the_others_were_being_saved_counts_as_forgotten(tmp_path: Path):
    assert next_job_id(tmp_path, {7: -60.0, 8: -0.3}) == "10008"


def test_a_slurmctld_that_never_saved_begins_as_it_would(tmp_path: Path):
    assert next_job_id(tmp_path, {7: 1.0}, saved=None, in_order=False) == ""


@pytest.mark.parametrize(
    "conf",
    ["MaxJobId = 9000", "  MaxJobId=9000 # and no more", "FirstJobId=1 maxjobid=9000", 'MaxJobId="9000"',
     "#MaxJobId=70000\nMaxJobId=9000\n# MaxJobId=70000"],
)  # fmt: skip
def test_how_many_ids_there_are_is_read_as_slurm_reads_it(tmp_path: Path, conf: str):
    assert next_job_id(tmp_path, {8000: 1.0}, conf=conf) == ""


def test_the_first_id_that_an_admin_has_set_is_not_lowered(tmp_path: Path):
    """They have restored the state from a backup, which is older than most ids."""
    conf = "FirstJobId = 900000\n"
    assert next_job_id(tmp_path / "killed", {}, saved=header(500), in_order=False, conf=conf) == "910000"
    assert next_job_id(tmp_path / "higher", {}, saved=header(950_000), in_order=False, conf=conf) == "960000"
    assert next_job_id(tmp_path / "ended", {}, saved=header(500), conf=conf) == ""


def test_where_ids_would_begin_anew_slurm_chooses(tmp_path: Path):
    assert next_job_id(tmp_path, {8000: 1.0}, conf="ClusterName=a\nMaxJobId=9000\n") == ""
    assert next_job_id(tmp_path / "other", {6000: 1.0}, conf="maxjobid=9000\n") == "7000"


@pytest.mark.parametrize(
    ("scripts", "said"),
    [({}, "10500"), ({7: -60.0}, "10500"), ({520: 1.0}, "10520"), ({430: 1.0}, "10500")],
    ids=["no script", "all saved", "a younger script", "an older id"],
)
def test_after_a_kill_ids_go_on_behind_all_that_were_given(tmp_path: Path, scripts: dict[int, float], said: str):
    assert next_job_id(tmp_path, scripts, saved=header(500) + b"jobs", in_order=False) == said


def test_after_an_end_in_order_ids_go_on_as_they_would(tmp_path: Path):
    assert next_job_id(tmp_path, {7: -60.0}, saved=header(500) + b"jobs") == ""


def test_one_that_could_not_save_before_it_ended_in_order_counts_as_killed(tmp_path: Path):
    """Its disk was full: allocations have got ids since the last save, and have no scripts."""
    assert next_job_id(tmp_path, {}, saved=header(500), ended_s=3600.0) == "10500"


@pytest.mark.parametrize("in_order", [True, False])
def test_one_that_ends_before_it_saves_has_its_ids_skipped_too(tmp_path: Path, in_order: bool):
    """It went on with 10500, gave that id to an allocation, and was gone before its first save."""
    assert next_job_id(tmp_path, {}, saved=header(500), in_order=in_order, began=("10500\n", 8.0)) == "20500"


def test_with_which_id_a_slurmctld_began_means_nothing_when_it_has_saved_since(tmp_path: Path):
    began = ("67000000\n", -8.0)
    assert next_job_id(tmp_path / "one", {}, saved=header(500), began=began) == ""
    assert next_job_id(tmp_path / "two", {}, saved=header(500), began=began, in_order=False) == "10500"


def test_a_kill_between_the_two_steps_of_a_save_leaves_the_jobs_of_the_one_before(tmp_path: Path):
    assert next_job_id(tmp_path, {}, saved=header(500), in_order=False, name="job_state.old") == "10500"


@pytest.mark.parametrize("saved", [b"", header(500)[:-1], header(500, text=b"PROTOCOL_VERSIO2"), b"\x00" * 40])
def test_a_file_of_another_form_says_nothing_and_scripts_do(tmp_path: Path, saved: bytes):
    assert next_job_id(tmp_path / "none", {}, saved=saved, in_order=False) == ""
    assert next_job_id(tmp_path / "one", {8: 1.0}, saved=saved, in_order=False) == "10008"


@pytest.mark.parametrize(("next_id", "said"), [(67_000_000, "67010000"), (67_040_000, "67041000"), (67_043_000, "")])
def test_near_the_highest_id_there_is_less_room(tmp_path: Path, next_id: int, said: str):
    assert next_job_id(tmp_path, {}, saved=header(next_id), in_order=False) == said


def test_of_two_slurmctld_the_first_goes_behind_what_the_second_has_ready(tmp_path: Path):
    def ids(name: str, *how: str, began: tuple[str, float] | None = None) -> str:
        return next_job_id(tmp_path / name, {520: 1.0}, saved=header(500), in_order=False, began=began, how=how)

    assert ids("first", "20000") == "20520"
    assert ids("second", "10000", "saved") == "10500"
    assert ids("again", "10000", "saved", began=("10500\n", 8.0)) == "20500", "it had control, and has not saved"
