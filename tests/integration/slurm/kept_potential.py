"""slurmctld with its records of nodes that there could be, as in its pod: keep_potential.sh of the chart makes them."""

from __future__ import annotations

from typing import Final

from tests.integration.slurm.daemons import ROOT, RealSlurm

_SCRIPT: Final = (ROOT / "charts/slurm/files/keep_potential.sh").read_text()
_KEEP: Final = """\
install -d -o slurm -g slurm /run/slurmctld && mkdir -p /potential
start() {
  set -euo pipefail
  hosts=()
  is_up() { scontrol ping | grep -q ' is UP'; }
  . /keep_potential.sh
  { while [ -e /potential/hold ]; do sleep 0.1; done; keep_potential 1 3; } &
  exec /usr/sbin/slurmctld -i -D
}
export -f start
# What it left running ends with it, as in its container.
begin() { as slurm bash -c start; pkill -KILL -u slurm -fx 'bash -c start'; }
keep begin >> /var/log/slurmctld.log 2>&1 &
"""
KEEP_POTENTIAL: Final = f"cat > /keep_potential.sh << 'END_OF_FILE'\n{_SCRIPT}\nEND_OF_FILE\n{_KEEP}"
"""What keeps slurmctld running, as start-slurmctld does; a file `hold` beside the records holds the script up."""


def bring(slurm: RealSlurm, records: str) -> None:
    """What the syncer has written, as the kubelet brings it."""
    part = slurm.root / "potential/.part"
    part.write_text(records)
    part.rename(slurm.root / "potential/records")
