"""slurmctld with its topology as in its pod: load_topology.sh of the chart tries and loads what the syncer wrote."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

from tests.integration.slurm.daemons import ROOT, RealSlurm

_KEEP: Final = """\
install -d -o slurm -g slurm /run/slurmctld && chown slurm /etc/slurm /etc/slurm/* && mkdir -p /topology
start() {
  set -euo pipefail
  state=/var/lib/slurm/state hosts=()
  is_up() { scontrol ping | grep -q ' is UP'; }
  wait_until_up() { until is_up; do sleep 0.2; done; }
  requeue_forgotten() { :; }
  tell_nodes() { until scontrol reconfigure; do sleep 1; done; }
  . /config/load_topology.sh
  use_kept_topology
  keep_topology 1 &
  exec /usr/sbin/slurmctld -i -D
}
export -f start
# What it left running ends with it, as in its container: two that keep one topology would take each other's files.
begin() { as slurm bash -c start; pkill -KILL -u slurm -fx 'bash -c start'; pkill -KILL -u slurm -x slurmctld; }
keep begin >> /var/log/slurmctld.log 2>&1 &
"""


def keep_topology(config: Mapping[str, str]) -> str:
    """As start-slurmctld keeps it running; `config`: the chart's own files of topologies, by name."""
    files = {**config, "load_topology.sh": (ROOT / "charts/slurm/files/load_topology.sh").read_text()}
    lines = ["mkdir -p /config"]
    for name, text in files.items():
        # To the byte what /etc/slurm has of it: another newline would be another topology, and be loaded.
        lines.append(f"printf %s {shlex.quote(text)} > /config/{name}")
    return "\n".join(lines) + "\n" + _KEEP


def bring(slurm: RealSlurm, name: str, text: str) -> None:
    """A file to where the kubelet brings what the syncer has written."""
    part = slurm.root / "topology/.part"
    part.write_text(text)
    part.rename(slurm.root / "topology" / name)


def loads(slurm: RealSlurm) -> int:
    """How many files have been loaded, with a reconfigure each."""
    return (slurm.root / "var/log/slurmctld.log").read_text().count("start-slurmctld: topology loaded")
