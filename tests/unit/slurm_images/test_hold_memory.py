"""The bound of a person's memory in a login pod: real processes in their own namespace, with the chart's rights."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "slurm-images" / "bin" / "hold-memory"
RIGHTS = ("setpriv", "--bounding-set=-all,+setuid,+setgid", "--inh-caps=-all", "--no-new-privs")
HOLDS = "perl -e '$held = q(x) x ($ARGV[0] * 2**20); open my $to, q(>&=3); syswrite $to, qq(ready\\n); sleep 600'"
SHARES = "import mmap, os, sys, time; held = mmap.mmap(-1, int(sys.argv[1]) << 20); held.write(bytes(len(held)));"
SHARES += "sys.argv[2:] and os.fork(); held[:] = bytes(len(held)); os.write(3, b'ready\\n'); time.sleep(600)"
HIDES = "import ctypes; assert not ctypes.CDLL(None).prctl(4, 0, 0, 0, 0);"
"""PR_SET_DUMPABLE: what smaps_rollup says of such a process, only a root with more rights may read."""
STOPPED = "import os, pty, termios, time; termios.tcflow(pty.openpty()[1], termios.TCOOFF);"
STOPPED += "os.write(3, b'ready\\n'); time.sleep(600)"
"""A terminal in which the person has pressed ^S: who writes there waits."""
SITUATION = f"""\
as() {{ local uid=$1; shift; setpriv --reuid "$uid" --regid "$uid" --clear-groups "$@"; }}
mkfifo "$1/ready"; exec 3<> "$1/ready"
as 4321 {sys.executable} -c "{STOPPED}" & small=$!
as 4321 {HOLDS} 150 & large=$!
as 4322 {HOLDS} 60 & other=$!
as 4323 {sys.executable} -c "{SHARES}" 60 twice & shared=$!
as 4324 {sys.executable} -c "{SHARES}" 150 & much=$!
as 4325 {sys.executable} -c "{SHARES}" 60 & one=$!
as 4325 {sys.executable} -c "{SHARES}" 61 & several=$!
as 4326 {sys.executable} -c "{HIDES}{SHARES}" 60 & one_hidden=$!
as 4326 {sys.executable} -c "{HIDES}{SHARES}" 61 & several_hidden=$!
setpriv --reuid 4327 --regid 5001 --clear-groups {sys.executable} -c "{SHARES}" 60 twice & of_group=$!
{HOLDS} 150 & roots=$!
for each in {{1..13}}; do read -r -u 3; done
{" ".join(RIGHTS)} perl "$2" 100 0.05 & hold=$!
wait "$large"; echo "large $?"
for each in much several several_hidden; do wait "${{!each}}"; echo "$each $?"; done
as 4321 {HOLDS} 150 & again=$!
wait "$again"; echo "again $?"
for each in small other shared one one_hidden of_group roots hold; do kill -0 "${{!each}}" && echo "$each runs"; done
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="processes of several users need root")
def test_the_largest_process_of_who_holds_too_much_ends_and_nothing_else(tmp_path: Path):
    own = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
    done = subprocess.run(
        [*own, "bash", "-c", SITUATION, "-", tmp_path, SCRIPT], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.stdout.splitlines() == [
        "large 137", "much 137", "several 137", "several_hidden 137", "again 137", "small runs", "other runs",
        "shared runs", "one runs", "one_hidden runs", "of_group runs", "roots runs", "hold runs",
    ], done.stderr  # fmt: skip
    assert "uid 4321: Your processes here hold" in done.stderr
    assert "and may hold 100" in done.stderr


def test_it_wants_a_bound():
    done = subprocess.run(["perl", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "usage: hold-memory MIB" in done.stderr
