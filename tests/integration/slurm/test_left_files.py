"""What users leave on a node: gone after their last job there, and never while a job of theirs could need it."""

from __future__ import annotations

from pathlib import Path

import pytest

from devcluster.waiting import wait
from tests.integration.slurm.site import Site

pytestmark = pytest.mark.integration

NODE = "c1"
FOLDERS = ("tmp", "dev/shm")
LEAVE = """\
for each in /tmp /dev/shm; do mkdir $each/of-$SLURM_JOB_ID; echo x > $each/of-$SLURM_JOB_ID/file; done
echo $SLURM_JOB_ID"""
JOBS = """\
export JOB='mkdir -p /tmp/same; file=/tmp/same/$SLURM_JOB_ID; echo x > $file && sleep 0.2 && cat $file'
one() {
  for _ in {1..15}; do
    srun -w c1 --mem=50 bash -c "$JOB" || exit
  done
}
one & first=$!
one & second=$!
wait $first && wait $second && echo all
"""


def _run(site: Site, user: str, script: str) -> str:
    """The last line that it says."""
    code, said = site.shell(user, f"cd; {script}")
    assert code == 0, said + site.logs()
    return said.strip().rpartition("\n")[2]


def _left(site: Site) -> set[str]:
    """Jobs of which the node has files."""
    root = site.root_of(NODE)
    return {path.name.removeprefix("of-") for folder in FOLDERS for path in (root / folder).glob("of-*")}


def test_files_of_a_user_go_after_their_last_job_on_the_node_and_those_of_others_stay(site: Site):
    long = _run(
        site, "ann", f"rm -f end; sbatch --parsable -w {NODE} --mem=50 --wrap 'until [ -e end ]; do sleep 0.2; done'"
    )
    try:
        short, others = (_run(site, user, f"srun -w {NODE} --mem=50 bash -c '{LEAVE}'") for user in ("ann", "bob"))
        wait(lambda: others not in _left(site), timeout_s=30, what="what bob left to go")
        assert short in _left(site), "a job of ann runs"
    finally:
        _run(site, "ann", f'touch end; until [ -z "$(squeue -h -j {long} 2> /dev/null)" ]; do sleep 0.2; done')
    wait(lambda: not _left(site), timeout_s=30, what="what ann left to go")


def test_no_job_loses_a_file_however_close_it_follows_another(site: Site):
    assert _run(site, "ann", JOBS) == "all"


def test_a_pod_has_made_the_folder_of_jobs_its_own(site: Site):
    root: Path = site.root_of(NODE)
    assert (root / "var/spool/slurmd/pod").read_text() == f"{NODE}\n"
    assert oct((root / "tmp").stat().st_mode)[-4:] == "1777"
