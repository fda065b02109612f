"""The bound of a person's memory in a login pod: real processes in their own namespace, with the chart's rights."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "slurm-images" / "bin" / "hold-memory"
RIGHTS = ("setpriv", "--bounding-set=-all,+setuid,+setgid", "--inh-caps=-all", "--no-new-privs")
HOLDS = "perl -e '$held = q(x) x ($ARGV[0] * 2**20); open my $to, q(>&=3); syswrite $to, qq(ready\\n); sleep 60'"
SITUATION = f"""\
as() {{ local uid=$1; shift; setpriv --reuid "$uid" --regid "$uid" --clear-groups "$@"; }}
mkfifo "$1/ready"; exec 3<> "$1/ready"
as 4321 sleep 60 & small=$!
as 4321 {HOLDS} 150 & large=$!
as 4322 {HOLDS} 60 & other=$!
{HOLDS} 150 & roots=$!
for each in large other roots; do read -r -u 3; done
{" ".join(RIGHTS)} perl "$2" 100 0.05 & hold=$!
wait "$large"; echo "large $?"
for each in small other roots hold; do kill -0 "${{!each}}" && echo "$each runs"; done
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="processes of several users need root")
def test_the_largest_process_of_who_holds_too_much_ends_and_nothing_else(tmp_path: Path):
    own = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
    done = subprocess.run(
        [*own, "bash", "-c", SITUATION, "-", tmp_path, SCRIPT], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.splitlines() == ["large 137", "small runs", "other runs", "roots runs", "hold runs"], done.stderr
    assert "uid 4321: Your processes here hold" in done.stderr
    assert "and 100 are the most" in done.stderr


def test_it_wants_a_bound():
    done = subprocess.run(["perl", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "usage: hold-memory MIB" in done.stderr
