"""Settings of the scheduler."""

from __future__ import annotations

from typing import Final

import msgspec

from sunkpy.core import names
from sunkpy.core.gang.access import ANY, AccessRule
from sunkpy.core.gang.families import Families, configured
from sunkpy.core.gang.families.daemon_set import NAMESPACES as DAEMON_SET_NAMESPACES
from sunkpy.core.gang.families.declaration import LARGEST_GANG
from sunkpy.core.gang.families.generic import WorkloadRule
from sunkpy.core.gang.job.options import is_user
from sunkpy.core.gang.job.request import GpuSharing, Policy
from sunkpy.core.model.devices import CLAIMED
from sunkpy.kube.kinds import KIND_TIMES, KindTimes
from sunkpy.runtime.settings import ProcessSettings, Settings, SlurmSettings

_FREEING_S: Final = 30.0
"""How many seconds an epilog waits beyond the grace period of a pod. The eviction may be sent a second time (5 s). The
kubelet may have to try twice to free what the pod held (10 s apart, and half of that more: `backOffPeriod`), and
reports it within ten more.
"""


_GRACE_S: Final = 300
"""The grace period in seconds of a pod that has lost its node, if nobody says otherwise: meanwhile Slurm starts nothing
there.
"""


class HooksSettings(Settings, frozen=True, kw_only=True):
    """Where prologs and epilogs call, the audience that their tokens must have, how long an epilog waits, and how long
    pods may take to end meanwhile (0: `_GRACE_S`), `_FREEING_S` less. If the whole is less than a minute, half of it
    stays for that. `longest_grace_seconds_in`: in its place, by partition.
    """

    port: int = 8000
    audience: str = names.HOOKS_AUDIENCE
    epilog_timeout_seconds: float = 3600.0
    longest_grace_seconds: int = 0
    longest_grace_seconds_in: dict[str, int] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        if (epilog_s := self.epilog_timeout_seconds) < 2:
            raise ValueError(f"epilogTimeoutSeconds: no pod ends within {epilog_s:g} s: set 2 at least")
        for longest_s in (self.longest_grace_seconds, *self.longest_grace_seconds_in.values()):
            self.check_grace(longest_s)

    def check_grace(self, longest_s: int) -> None:
        """Check that an epilog outlasts a grace period.

        Raises:
            ValueError: it is longer.
        """
        if not 0 <= longest_s <= self._most_s:
            raise ValueError(
                f"longestGraceSeconds: {longest_s} is too long: the epilog gives up after "
                f"{self.epilog_timeout_seconds:g} s, and the kubelet needs time to remove a pod. Set at most "
                f"{self._most_s}, or epilogTimeoutSeconds to at least {longest_s + _FREEING_S:.0f}"
            )

    @property
    def longest_grace_s(self) -> int:
        """The longest time that a pod gets to end. The rest of the epilog's time is for the kubelet, which frees what
        the pod held.
        """
        return self.longest_grace_seconds or min(_GRACE_S, self._most_s)

    @property
    def _most_s(self) -> int:
        return int(self.epilog_timeout_seconds - min(_FREEING_S, self.epilog_timeout_seconds / 2))


class Times(Settings, frozen=True, kw_only=True):
    """How long parts of the scheduler wait, in seconds. No chart sets these.

    * `kinds`: of owners and their kinds.
    * `unidentified_told_after_s`: a pod whose gang is not known gets a condition that says why.
    * `displace_after_s`, `gate_again_s`: at the gate pods have so long for a replacement; how often it looks again.
    * `resume_again_s`: a suspended owner is looked at again while its pods are there.
    * `admission_patience_s`: a pod that the kubelet would not admit now is refused.
    * `volume_again_s`, `volume_patience_s`: a volume that is being made is looked for; its pod is refused.
    * `node_refused_s`: the next jobs of its gang keep away from that node, if they have another one.
    * `teardown_s`: what a kubelet takes, beyond the grace period, to free what a pod deleted by force held.
    * `again_s`: an eviction is repeated; a gang that hands nodes over is looked at again; a pod that its node refused
      is tried again, and the oldest of the gangs that Slurm refused for a limit.
    * `other_pods_again_s`: a gang is looked at again whose pods avoid or seek others, after these came or went.
    * `recheck_spread_s`, `recheck_turn_s`: nodes change in groups; gangs are rechecked for so long at a time.
    * `occupancy_each_s`, `nodes_each_s`: how often it counts what strangers take; all Slurm nodes are listed.
    * `noted_after_s`: a waiting pod gets the annotations of its job; most are bound before.
    * `late_submit_s`: Slurm may still make a job whose submit it did not answer.
    * `allocation_refused_s`: no allocation is asked for in a partition that has just refused one.
    * `preemptors_each_s`: how often it is looked for which jobs took the places of others.
    * `watch_settles_s`: how long after it is connected again a watch has caught up, and is believed.
    * `budgets_after_s`: what Kubernetes may take to count a pod that was evicted in its disruption budget.
    """

    kinds: KindTimes = KIND_TIMES
    unidentified_told_after_s: float = 3.0
    displace_after_s: float = 10.0
    gate_again_s: float = 1.0
    resume_again_s: float = 1.0
    admission_patience_s: float = 30.0
    volume_again_s: float = 1.0
    volume_patience_s: float = 600.0
    node_refused_s: float = 120.0
    teardown_s: float = 10.0
    again_s: float = 5.0
    other_pods_again_s: float = 5.0
    recheck_spread_s: float = 0.5
    recheck_turn_s: float = 0.01
    occupancy_each_s: float = 5.0
    nodes_each_s: float = 6.0
    noted_after_s: float = 5.0
    late_submit_s: float = 2.0
    allocation_refused_s: float = 10.0
    preemptors_each_s: float = 2.0
    watch_settles_s: float = 2.0
    budgets_after_s: float = 1.0


TIMES: Final = Times()


class SchedulerSettings(ProcessSettings, frozen=True, kw_only=True):
    """The scheduler of one Slurm cluster. `namespace` is where its slurmd pods are.

    `aliases` are other names by which pods may call this scheduler. `gpu_resources` maps extended resources of pods to
    names of Slurm's GRES, `device_classes` the DeviceClasses of their ResourceClaims. `sweep_seconds`: how often all
    jobs are read, to find placeholder jobs that nobody knows.
    `access`: what the pods of each namespace may ask for; `annotated_access`: annotations of namespaces count as well.
    `workloads`: kinds that an administrator describes. `suspend_owners`: the scheduler has the right to suspend owners
    that ask for it. `immediate_allocation`: services are asked for as allocations before they are queued.
    `kubelet_account`: the ServiceAccount, in `namespace`, that may read metrics of kubelets.
    `gpu_sharing`: who gets whole nodes for its GPUs; with `plugin`, `plugin_resource` is handed out device by device.
    `largest_gang`: the most pods of one. `daemon_set_namespaces`: where pods of DaemonSets are bound without a job.
    `private_jobs`: slurm.conf has PrivateData=jobs, so no Event says whose job preempted.
    `jobs_per_namespace`: the most jobs that pods of one namespace make within five minutes; 0 for any number.
    `switch_label`: the Node label whose equal value means one switch; empty when none says that.
    `growing_partitions`: those with a NodeSet for which the operator asks autoscalers, so that their pods need not.
    """

    cluster: str
    slurm: SlurmSettings
    scheduler_name: str = "slurm"
    aliases: tuple[str, ...] = ()
    default_partition: str = ""
    gpu_resources: dict[str, str] = msgspec.field(default_factory=lambda: {"nvidia.com/gpu": "gpu"})
    device_classes: dict[str, str] = msgspec.field(default_factory=dict)
    kubelet_account: str = ""
    poll_seconds: float = 1.0
    sweep_seconds: float = 600.0
    access: tuple[AccessRule, ...] = ()
    annotated_access: bool = False
    private_jobs: bool = False
    workloads: tuple[WorkloadRule, ...] = ()
    suspend_owners: bool = False
    immediate_allocation: bool = True
    gpu_sharing: GpuSharing = GpuSharing.EXCLUSIVE
    plugin_resource: str = "nvidia.com/gpu"
    largest_gang: int = LARGEST_GANG
    jobs_per_namespace: int = 0
    daemon_set_namespaces: tuple[str, ...] = DAEMON_SET_NAMESPACES
    switch_label: str = ""
    growing_partitions: tuple[str, ...] = ()
    hooks: HooksSettings = HooksSettings()
    times: Times = TIMES

    def __post_init__(self) -> None:
        workloads = [rule.name for rule in self.workloads]
        if twice := {name for name in workloads if workloads.count(name) > 1}:
            raise ValueError(f"workloads: two have the name {min(twice)}")
        users = (name for rule in self.access for name in rule.users if name != ANY)
        if bad := next((name for name in users if not is_user(name)), None):
            raise ValueError(f"access: user {bad!r} is not the name of a person")
        if self.slurm.token_file and self.submits_as_people:
            raise ValueError("access: users need tokens of their own, so give slurm.jwtKeyFile instead of tokenFile")
        for rule in self.access:
            self.hooks.check_grace(rule.longest_grace_seconds)

    @property
    def counted(self) -> dict[str, str]:
        """All resources that Slurm counts as GRES: extended resources, and the devices of claims by their class."""
        return self.gpu_resources | {f"{CLAIMED}{name}": gres for name, gres in self.device_classes.items()}

    @property
    def handed_out(self) -> str:
        """The resource that sunkpy's device plugin hands out; empty when none does."""
        return self.plugin_resource if self.gpu_sharing is GpuSharing.PLUGIN else ""

    @property
    def families(self) -> Families:
        """The families of workloads that are known."""
        return configured(self.workloads, daemons_in=self.daemon_set_namespaces, gpu_resources=self.gpu_resources)

    @property
    def policy(self) -> Policy:
        """The settings that decisions about gangs use."""
        return Policy(
            gpu_resources=self.counted,
            default_partition=self.default_partition,
            longest_grace_s=self.hooks.longest_grace_s,
            partition_grace_s=self.hooks.longest_grace_seconds_in,
            suspend_owners=self.suspend_owners,
            immediate_allocation=self.immediate_allocation,
            gpu_sharing=self.gpu_sharing,
            growing_partitions=self.growing_partitions,
        )

    @property
    def submits_as_people(self) -> bool:
        """True if jobs of pods may belong to others than the scheduler's own Slurm user."""
        return self.annotated_access or any(rule.users for rule in self.access)

    @property
    def reads_namespaces(self) -> bool:
        """True if the name of a namespace does not say everything that counts: its labels and annotations are read,
        too.
        """
        return self.annotated_access or any(rule.namespace_labels for rule in self.access)

    @property
    def scheduler_names(self) -> tuple[str, ...]:
        """Every scheduler name that makes a pod ours, each once."""
        return tuple(dict.fromkeys((self.scheduler_name, *self.aliases)))
