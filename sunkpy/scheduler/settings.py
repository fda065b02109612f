"""The settings of the scheduler, as read from its settings file."""

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
"""Seconds that an Epilog waits beyond the grace period of a pod. They cover a second eviction (5 s), the kubelet's
second try to free what the pod held (10 s apart, and half of that more: `backOffPeriod`), and its report (10 s).
"""


_GRACE_S: Final = 300
"""The default longest grace period, in seconds, of a pod that has lost its node. Until it has ended, Slurm starts no
job there.
"""


class HooksSettings(Settings, frozen=True, kw_only=True):
    """Settings of the hooks, the Prologs and Epilogs that call the scheduler.

    Args:
        port: the port on which the scheduler serves their calls.
        url: the address that they call, which `sunkpy doctor` tries in the scheduler's pod; empty if it is not known.
        audience: the audience that the token in a call must have.
        epilog_timeout_seconds: how long an Epilog waits for the pods of its job to leave the node.
        longest_grace_seconds: the longest grace period of these pods. It may be at most the Epilog's time less
            `_FREEING_S`; if the Epilog has less than a minute, at most half of its time. 0 stands for `_GRACE_S`, or
            for the most that is allowed if that is less.
        longest_grace_seconds_in: the same for single partitions, by name.
    """

    port: int = 8000
    url: str = ""
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
        """Check that pods with a grace period of `longest_s` seconds can leave a node while an Epilog still waits for
        them.

        Raises:
            ValueError: the grace period is too long, or negative.
        """
        if not 0 <= longest_s <= self._most_s:
            raise ValueError(
                f"longestGraceSeconds: {longest_s} is too long: the epilog gives up after "
                f"{self.epilog_timeout_seconds:g} s, and the kubelet needs time to remove a pod. Set at most "
                f"{self._most_s}, or epilogTimeoutSeconds to at least {longest_s + _FREEING_S:.0f}"
            )

    @property
    def longest_grace_s(self) -> int:
        """The longest grace period, in seconds, of a pod that has to leave its node. An Epilog waits longer than that,
        because the kubelet then needs time to free what the pod held.
        """
        return self.longest_grace_seconds or min(_GRACE_S, self._most_s)

    @property
    def _most_s(self) -> int:
        return int(self.epilog_timeout_seconds - min(_FREEING_S, self.epilog_timeout_seconds / 2))


class Times(Settings, frozen=True, kw_only=True):
    """How long parts of the scheduler wait, in seconds. No chart sets these.

    * `kinds`: the waiting times for owners and their kinds.
    * `unidentified_told_after_s`: after this time a pod whose gang is unknown gets a condition that says why.
    * `displace_after_s`: how long pods wait for a job that replaces their lost job, if Slurm has given their node to
      another job. Then they are evicted.
    * `gate_again_s`: the pause before a Prolog or Epilog that waits for pods is checked again.
    * `resume_again_s`: the pause before a suspended owner is checked again, while its pods are still there.
    * `admission_patience_s`: how long a pod waits that its kubelet would not admit. Then the binding is refused.
    * `volume_again_s`: the pause before a volume that is being made is checked again.
    * `volume_patience_s`: how long a pod waits for its volume. Then the binding is refused.
    * `node_refused_s`: how long the gang's next jobs avoid a node that refused one of its pods, if there is another
      node.
    * `teardown_s`: the time that a kubelet needs, beyond the grace period, to free what a pod deleted by force held.
    * `again_s`: the pause before the next try of an eviction, of a pod that its node refused, and of the oldest gang
      whose job Slurm refused for a limit; also between decisions about a gang whose job has lost its nodes.
    * `other_pods_again_s`: the pause between checks of gangs with affinity rules, after other pods came or went.
    * `recheck_spread_s`: the pause before gangs are checked after a change of nodes, because nodes change in groups.
    * `recheck_turn_s`: the longest time that such checks hold the event loop.
    * `occupancy_each_s`: the pause between counts of what other schedulers' pods take of nodes.
    * `nodes_each_s`: the pause between lists of all Slurm nodes.
    * `noted_after_s`: a pod that still waits after this time gets annotations that name its job.
    * `late_submit_s`: how long after a submit without an answer Slurm may still make the job.
    * `allocation_refused_s`: how long no allocation is requested in a partition that has refused one.
    * `preemptors_each_s`: the pause between searches for the jobs that preempted others.
    * `watch_settles_s`: a watch that was connected again has caught up after this time.
    * `budgets_after_s`: the time that Kubernetes may need to count an evicted pod in its disruption budget.
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
    """Settings of the scheduler of one Slurm cluster. `namespace` is where the cluster's slurmd pods are.

    Args:
        scheduler_name, aliases: the values of a pod's `schedulerName` that name this scheduler.
        gpu_resources: extended resource of pods → name of Slurm's GRES.
        device_classes: DeviceClass of pods' ResourceClaims → name of Slurm's GRES.
        kubelet_account: the ServiceAccount, in `namespace`, that may read metrics of kubelets.
        sweep_seconds: the pause between searches for placeholder jobs that the leader does not know.
        access: what the pods of each namespace may ask for.
        annotated_access: whether annotations of namespaces also say what their pods may ask for.
        private_jobs: slurm.conf has PrivateData=jobs, so Events do not name the job that preempted a pod.
        workloads: kinds of workloads that an administrator describes.
        suspend_owners: whether the scheduler has the right to suspend owners that ask for it.
        immediate_allocation: whether an allocation is requested for a service before a job is queued.
        gpu_sharing: which pods get whole nodes for their GPUs.
        plugin_resource: with `gpu_sharing` `plugin`, the resource that sunkpy's device plugin hands out.
        largest_gang: the most pods of one gang.
        jobs_per_namespace: the most jobs of one namespace's pods within five minutes; 0 for any number.
        daemon_set_namespaces: the namespaces where pods of DaemonSets are bound without a job.
        switch_label: the Node label whose equal values mean one switch; empty for none.
        growing_partitions: the partitions with a NodeSet that grows: the operator asks autoscalers for their nodes.
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
        """For each resource that pods may ask for: the name of the GRES by which Slurm counts it. The keys are extended
        resources, and DeviceClasses of ResourceClaims (with a prefix).
        """
        return self.gpu_resources | {f"{CLAIMED}{name}": gres for name, gres in self.device_classes.items()}

    @property
    def handed_out(self) -> str:
        """The extended resource that sunkpy's device plugin hands out to pods; empty if the plugin is not used."""
        return self.plugin_resource if self.gpu_sharing is GpuSharing.PLUGIN else ""

    @property
    def families(self) -> Families:
        """The kinds of workloads that the scheduler can recognise as gangs, with those that the administrator
        describes.
        """
        return configured(self.workloads, daemons_in=self.daemon_set_namespaces, gpu_resources=self.gpu_resources)

    @property
    def policy(self) -> Policy:
        """Those of the settings that the decisions about gangs use, as one value."""
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
        """True if the jobs for pods may belong to Slurm users other than the scheduler's own user."""
        return self.annotated_access or any(rule.users for rule in self.access)

    @property
    def reads_namespaces(self) -> bool:
        """True if labels or annotations of a namespace decide what its pods may ask for. Only then are namespaces
        watched.
        """
        return self.annotated_access or any(rule.namespace_labels for rule in self.access)

    @property
    def scheduler_names(self) -> tuple[str, ...]:
        """All values of a pod's `schedulerName` that mean this scheduler, without repetitions."""
        return tuple(dict.fromkeys((self.scheduler_name, *self.aliases)))
