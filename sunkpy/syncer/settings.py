"""Settings of the syncer."""

from __future__ import annotations

from collections.abc import Mapping

from sunkpy.core.nodeset.idle_checks import IdleRule
from sunkpy.runtime.settings import ProcessSettings, Settings, SlurmSettings, TopologySettings


class FigureSettings(Settings, frozen=True, kw_only=True):
    """Settings of the figures: the metrics about the Slurm cluster. Slurm is read for them every `seconds` seconds, or
    less often if a read takes long.

    `series_per_name`: the most series of each metric. `job_reads`: the most jobs that are read in full each time.
    """

    enabled: bool = True
    seconds: float = 30.0
    series_per_name: int = 10_000
    job_reads: int = 500


class IdleCheckSettings(Settings, frozen=True, kw_only=True):
    """Settings of the checks of idle machines: the partition of their jobs, and the rules by NodeSet."""

    partition: str = ""
    node_sets: Mapping[str, IdleRule] = {}


class SyncerSettings(ProcessSettings, frozen=True, kw_only=True):
    """Settings of the syncer of one Slurm cluster, whose slurmd pods are all in `namespace`.

    Args:
        cluster: Slurm's ClusterName.
        poll_seconds: the pause between reads of all nodes (an idle cluster answers in 6 ms).
        scheduler_user: the Slurm user of the scheduler, which owns placeholder jobs.
        service_check_seconds: how long Slurm may take to report the jobs of a node, which has to wait meanwhile.
        potential_config_map: the ConfigMap with the nodes that NodeSets may grow to, which slurmctld's pod reads.
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
