"""Settings of the syncer."""

from __future__ import annotations

from collections.abc import Mapping

from sunkpy.core.nodeset.idle_checks import IdleRule
from sunkpy.runtime.settings import ProcessSettings, Settings, SlurmSettings, TopologySettings


class FigureSettings(Settings, frozen=True, kw_only=True):
    """The figures of Slurm in addition to the process's own metrics: how often they are read, and their bounds.

    `series_per_name`: most series of each metric. `job_reads`: how many jobs are read in full each time, at most.
    """

    enabled: bool = True
    seconds: float = 30.0
    series_per_name: int = 10_000
    job_reads: int = 500


class IdleCheckSettings(Settings, frozen=True, kw_only=True):
    """The checks of idle machines: the partition of their jobs, and the NodeSets that have some."""

    partition: str = ""
    node_sets: Mapping[str, IdleRule] = {}


class SyncerSettings(ProcessSettings, frozen=True, kw_only=True):
    """One syncer serves one Slurm cluster, whose slurmd pods all live in `namespace`.

    `cluster` is Slurm's ClusterName; `poll_seconds` how often the nodes are read (an idle cluster answers in 6 ms);
    `scheduler_user` is the Slurm user of the scheduler, which owns the allocations of pods. `service_check_seconds` is
    how long Slurm may take to report the jobs of a node; that node waits meanwhile. `potential_config_map`: the
    ConfigMap in which slurmctld's pod reads of possible nodes.
    """

    cluster: str
    slurm: SlurmSettings
    poll_seconds: float = 1.0
    scheduler_user: str = "k8s"
    service_check_seconds: float = 5.0
    metrics: FigureSettings = FigureSettings()
    topology: TopologySettings = TopologySettings()
    potential_config_map: str = ""
    idle_checks: IdleCheckSettings = IdleCheckSettings()
