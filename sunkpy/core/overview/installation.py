"""What `sunkpy doctor` reads of an installation: of Secrets only metadata, of Leases only the holder and the time."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from datetime import datetime

import msgspec

from sunkpy.core.accounts.records import JobRecord
from sunkpy.core.model.objects import KubeObject, Node, Pod, PodStatus, Wire
from sunkpy.core.model.states import SlurmJob
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.core.overview.backups import Backup
from sunkpy.core.overview.volumes import VolumesOfPod


class OurContainer(Wire, frozen=True, kw_only=True):
    """A container, with the image that it runs."""

    name: str = ""
    image: str = ""


class SecretSource(Wire, frozen=True, kw_only=True):
    """The Secret that a volume shows."""

    secret_name: str = ""
    optional: bool = False


class OurVolume(Wire, frozen=True, kw_only=True):
    """A volume of a pod."""

    name: str = ""
    secret: SecretSource | None = None


class OurPodSpec(Wire, frozen=True, kw_only=True):
    """The containers of a pod and the keys that it needs."""

    node_name: str = ""
    containers: tuple[OurContainer, ...] = ()
    volumes: tuple[OurVolume, ...] = ()


class OurPod(KubeObject, frozen=True, kw_only=True):
    """A pod of the charts: a process of ours, or a daemon of Slurm."""

    spec: OurPodSpec = OurPodSpec()
    status: PodStatus = PodStatus()

    @property
    def component(self) -> str:
        """`operator`, `scheduler`, `slurmctld` …"""
        return self.metadata.labels.get("app.kubernetes.io/component") or "operator"

    @property
    def is_ready(self) -> bool:
        """True if all containers of the pod are ready."""
        return any(each.type == "Ready" and each.status == "True" for each in self.status.conditions)


class LeaseSpec(Wire, frozen=True, kw_only=True):
    """Who holds a Lease, and when they renewed it last."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None


class Lease(KubeObject, frozen=True, kw_only=True):
    """The Lease of a process that leads, or the heartbeat of a kubelet."""

    spec: LeaseSpec = LeaseSpec()


class Expression(Wire, frozen=True, kw_only=True):
    """An expression of a label selector."""

    values: tuple[str, ...] = ()


class NamespaceSelector(Wire, frozen=True, kw_only=True):
    """Selects the namespaces that a policy applies to."""

    match_expressions: tuple[Expression, ...] = ()


class Constraints(Wire, frozen=True, kw_only=True):
    """The namespaces that a policy applies to."""

    namespace_selector: NamespaceSelector = NamespaceSelector()


class PolicySpec(Wire, frozen=True, kw_only=True):
    """What the policy applies to."""

    match_constraints: Constraints = Constraints()


class AdmissionPolicy(KubeObject, frozen=True, kw_only=True):
    """A ValidatingAdmissionPolicy of ours."""

    spec: PolicySpec = PolicySpec()

    @property
    def is_of_system_classes(self) -> bool:
        """Chart sunkpy's restrictCriticalPods: it may only warn."""
        return self.name.endswith("-critical-pods")

    @property
    def named_namespaces(self) -> frozenset[str]:
        """The namespaces that the policy's selector names. A policy about system classes leaves these alone."""
        found = self.spec.match_constraints.namespace_selector.match_expressions
        return frozenset(name for each in found for name in each.values)


class PodTemplateSpec(Wire, frozen=True, kw_only=True):
    """The part of a pod template that is read: its priority class."""

    priority_class_name: str = ""


class PodTemplate(Wire, frozen=True, kw_only=True):
    """The pod template of a DaemonSet, Deployment or StatefulSet."""

    spec: PodTemplateSpec = PodTemplateSpec()


class WorkloadSpec(Wire, frozen=True, kw_only=True):
    """The spec of a DaemonSet, Deployment or StatefulSet: only its pod template is read."""

    template: PodTemplate = PodTemplate()


class Workload(KubeObject, frozen=True, kw_only=True):
    """A DaemonSet, Deployment or StatefulSet."""

    spec: WorkloadSpec = WorkloadSpec()

    @property
    def is_of_system_class(self) -> bool:
        """True if its pods have a system priority class: for such pods the kubelet evicts others."""
        return self.spec.template.spec.priority_class_name.startswith("system-")


class BindingSpec(Wire, frozen=True, kw_only=True):
    """The policy that a ValidatingAdmissionPolicyBinding puts in force, and what happens to requests that break it."""

    policy_name: str = ""
    validation_actions: tuple[str, ...] = ()


class PolicyBinding(KubeObject, frozen=True, kw_only=True):
    """A ValidatingAdmissionPolicyBinding."""

    spec: BindingSpec = BindingSpec()


class SlurmFound(msgspec.Struct, frozen=True, kw_only=True):
    """What slurmrestd answered: the release, and how many nodes and GPUs there are. `error`: why it did not answer, or
    refused the token.
    """

    release: str = ""
    api_version: str = ""
    cluster: str = ""
    is_up: bool = False
    nodes: int = 0
    gpus: int = 0
    error: str = ""


class HooksFound(msgspec.Struct, frozen=True, kw_only=True):
    """The Services of the scheduler's hooks → how many endpoints are ready; what the address answered, if asked."""

    ready: Mapping[str, int] = {}
    answers: Mapping[str, str] = {}


class Canary(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a pod or job that was made to see whether one runs. `error`: why it did not run."""

    took_s: float = 0.0
    error: str = ""


class Seen(enum.IntEnum):
    """What the script of a canary job found, and the exit code of the job."""

    ITS_OWN = 0
    NOT_ONE_GPU = 11
    OTHER_VARIABLE = 12
    OTHERS_DEVICES = 13
    NOT_ITS_DEVICE = 14
    NO_LIST = 15


class CanaryJob(Canary, frozen=True, kw_only=True):
    """A job that asked for a GPU where there is one, and what is known of it after its end.

    Args:
        job: as slurmctld has it; None when it did not end.
        no_gpu: why it did not ask for a GPU.
        record: as slurmdbd has it, None when it has nothing; `no_record`: why it could not be asked.
        is_accounted: slurmrestd has a slurmdbd to ask.
    """

    job: SlurmJob | None = None
    no_gpu: str = ""
    record: JobRecord | None = None
    no_record: str = ""
    is_accounted: bool = True


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """All that was found. A field is None if it could not be read; `unread` says why, under its name.

    Args:
        server_version: of the apiserver.
        rights: what the person may do, in words → whether they may.
        policies: ours, and their `bindings`.
        workloads: of others than sunkpy, by kind.
        heartbeats: of kubelets, by Node.
        processes: pods of the charts, but for slurmd pods.
        leases: of the processes.
        secrets: those that pods need → whether it is there.
        slurm: None when there was no way to ask.
        tries: canaries were to be made.
    """

    now: datetime
    own_version: str = ""
    server_version: str | None = None
    has_nodeset_kind: bool | None = None
    rights: Mapping[str, bool] | None = None
    policies: tuple[AdmissionPolicy, ...] | None = None
    bindings: tuple[PolicyBinding, ...] | None = None
    workloads: Mapping[str, tuple[Workload, ...]] | None = None
    nodes: tuple[Node, ...] | None = None
    heartbeats: Mapping[str, str] | None = None
    nodesets: tuple[NodeSet, ...] | None = None
    slurmd_pods: tuple[Pod, ...] | None = None
    processes: tuple[OurPod, ...] | None = None
    leases: tuple[Lease, ...] | None = None
    hooks: HooksFound | None = None
    secrets: Mapping[str, bool] | None = None
    backups: tuple[Backup, ...] | None = None
    volumes: tuple[VolumesOfPod, ...] | None = None
    slurm: SlurmFound | None = None
    tries: bool = False
    canary_job: CanaryJob | None = None
    canary_pod: Canary | None = None
    unread: Mapping[str, str] = {}
