"""The objects that `kubectl sunk doctor` reads of an installation, with only the fields that it needs; of Secrets it
reads only metadata.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from sunkpy.core.accounts.records import JobRecord
from sunkpy.core.model.objects import KubeObject, Node, Pod, PodStatus, Wire
from sunkpy.core.model.states import SlurmJob
from sunkpy.core.model.storage import ClaimReference
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.core.overview.backups import Backup
from sunkpy.core.overview.volumes import VolumesOfPod

LOGIN_COMPONENTS: Final = frozenset({"login", "login-set", "own-login"})
"""The components of pods in which people log in: those of `login`, of `login.sets` and of `login.perUser`."""


class OurContainer(Wire, frozen=True, kw_only=True):
    """A container of one of the charts' pods: its name and image."""

    name: str = ""
    image: str = ""


class SecretSource(Wire, frozen=True, kw_only=True):
    """The Secret that a volume of a pod mounts."""

    secret_name: str = ""
    optional: bool = False


class OurVolume(Wire, frozen=True, kw_only=True):
    """A volume of one of the charts' pods; `secret` is None if it mounts no Secret."""

    name: str = ""
    secret: SecretSource | None = None


class OurPodSpec(Wire, frozen=True, kw_only=True):
    """The spec of one of the charts' pods: its node, containers and volumes."""

    node_name: str = ""
    containers: tuple[OurContainer, ...] = ()
    volumes: tuple[OurVolume, ...] = ()


class OurPod(KubeObject, frozen=True, kw_only=True):
    """A pod of the charts: a process of sunkpy, or a daemon of Slurm, except slurmd."""

    spec: OurPodSpec = OurPodSpec()
    status: PodStatus = PodStatus()

    @property
    def component(self) -> str:
        """The component that the pod runs, by its label: `operator`, `scheduler`, `slurmctld` and so on."""
        return self.metadata.labels.get("app.kubernetes.io/component") or "operator"

    @property
    def is_ready(self) -> bool:
        """True if the pod's condition Ready is True."""
        return any(each.type == "Ready" and each.status == "True" for each in self.status.conditions)


class OurWorkloadSpec(Wire, frozen=True, kw_only=True):
    """How many pods one of the charts' Deployments or StatefulSets is to have."""

    replicas: int = 1


class OurWorkloadStatus(Wire, frozen=True, kw_only=True):
    """How many pods of one of the charts' Deployments or StatefulSets are ready."""

    ready_replicas: int = 0


class OurWorkload(KubeObject, frozen=True, kw_only=True):
    """A Deployment or StatefulSet of the charts, which makes the pods of a component."""

    spec: OurWorkloadSpec = OurWorkloadSpec()
    status: OurWorkloadStatus = OurWorkloadStatus()

    @property
    def component(self) -> str:
        """The component that its pods run, by its label."""
        return self.metadata.labels.get("app.kubernetes.io/component", "")

    @property
    def is_off(self) -> bool:
        """True if it is scaled to 0, and its component has to run. Login pods may be stopped while nobody uses them."""
        return not self.spec.replicas and self.component not in LOGIN_COMPONENTS


class LeaseSpec(Wire, frozen=True, kw_only=True):
    """The spec of a Lease: who holds it, for how long, and when they last renewed it."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None


class Lease(KubeObject, frozen=True, kw_only=True):
    """A Lease: the leader election of one of sunkpy's processes, or the heartbeat of a kubelet."""

    spec: LeaseSpec = LeaseSpec()


class Expression(Wire, frozen=True, kw_only=True):
    """An expression of a label selector: only its values are read."""

    values: tuple[str, ...] = ()


class NamespaceSelector(Wire, frozen=True, kw_only=True):
    """The selector of the namespaces that an admission policy applies to."""

    match_expressions: tuple[Expression, ...] = ()


class Constraints(Wire, frozen=True, kw_only=True):
    """The match constraints of an admission policy: only the namespace selector is read."""

    namespace_selector: NamespaceSelector = NamespaceSelector()


class PolicyVariable(Wire, frozen=True, kw_only=True):
    """A variable of an admission policy: its name, and the CEL expression of its value."""

    name: str = ""
    expression: str = ""


class PolicySpec(Wire, frozen=True, kw_only=True):
    """The spec of an admission policy: only what it applies to and its variables are read."""

    match_constraints: Constraints = Constraints()
    variables: tuple[PolicyVariable, ...] = ()


class AdmissionPolicy(KubeObject, frozen=True, kw_only=True):
    """A ValidatingAdmissionPolicy that sunkpy's charts install."""

    spec: PolicySpec = PolicySpec()

    @property
    def is_of_system_classes(self) -> bool:
        """True if the policy is the one of `restrictCriticalPods` in chart sunkpy, which may be set to only warn."""
        return self.name.endswith("-critical-pods")

    @property
    def named_namespaces(self) -> frozenset[str]:
        """The namespaces that the policy's selector names; the policy of `restrictCriticalPods` exempts them."""
        found = self.spec.match_constraints.namespace_selector.match_expressions
        return frozenset(name for each in found for name in each.values)

    def refuses_server(self, server: str) -> bool:
        """True if this is the policy of `home.protect` in chart slurm, and it refuses mounts of this NFS server."""
        if not self.name.endswith("-homes"):
            return False
        values = {each.name: each.expression for each in self.spec.variables}
        try:
            named = msgspec.json.decode(values.get("servers", "[]"), type=tuple[str, ...])
        except msgspec.DecodeError:  # somebody's patch has another expression there
            return False
        return values.get("every") == "true" or server.lower().rstrip(".") in named


class PodTemplateSpec(Wire, frozen=True, kw_only=True):
    """The spec of a pod template: only its priority class is read."""

    priority_class_name: str = ""


class PodTemplate(Wire, frozen=True, kw_only=True):
    """The pod template of a DaemonSet, Deployment or StatefulSet."""

    spec: PodTemplateSpec = PodTemplateSpec()


class WorkloadSpec(Wire, frozen=True, kw_only=True):
    """The spec of a DaemonSet, Deployment or StatefulSet: only its pod template is read."""

    template: PodTemplate = PodTemplate()


class Workload(KubeObject, frozen=True, kw_only=True):
    """A DaemonSet, Deployment or StatefulSet that is not sunkpy's."""

    spec: WorkloadSpec = WorkloadSpec()

    @property
    def is_of_system_class(self) -> bool:
        """True if the workload's pods have a system priority class: the kubelet evicts other pods to make room for such
        pods.
        """
        return self.spec.template.spec.priority_class_name.startswith("system-")


class BindingSpec(Wire, frozen=True, kw_only=True):
    """The policy that a ValidatingAdmissionPolicyBinding puts in force, and what happens to requests that break it."""

    policy_name: str = ""
    validation_actions: tuple[str, ...] = ()


class PolicyBinding(KubeObject, frozen=True, kw_only=True):
    """A ValidatingAdmissionPolicyBinding, which puts a policy in force."""

    spec: BindingSpec = BindingSpec()


class NfsSource(Wire, frozen=True, kw_only=True):
    """The NFS server of a volume."""

    server: str = ""


class CsiSource(Wire, frozen=True, kw_only=True):
    """The driver of a volume, and what it wrote about the volume."""

    driver: str = ""
    volume_attributes: Mapping[str, str] = {}


class FileServerSpec(Wire, frozen=True, kw_only=True):
    """The spec of a PersistentVolume: the claim that it belongs to, and where its files are."""

    claim_ref: ClaimReference | None = None
    nfs: NfsSource | None = None
    csi: CsiSource | None = None


class SharedVolume(KubeObject, frozen=True, kw_only=True):
    """A PersistentVolume with homes or shared folders."""

    spec: FileServerSpec = FileServerSpec()

    @property
    def nfs_server(self) -> str:
        """The NFS server of the volume; empty if it has none, or its driver does not say which.

        The attribute `server` is that of csi-driver-nfs (nfs.csi.k8s.io).
        """
        if self.spec.nfs is not None:
            return self.spec.nfs.server
        return self.spec.csi.volume_attributes.get("server", "") if self.spec.csi is not None else ""


class SlurmFound(msgspec.Struct, frozen=True, kw_only=True):
    """What slurmrestd answered to `kubectl sunk doctor`: Slurm's release, and how many nodes and GPUs Slurm has.

    `is_up`: slurmctld answers. `error`: why slurmrestd did not answer, or refused the token.
    """

    release: str = ""
    api_version: str = ""
    cluster: str = ""
    is_up: bool = False
    nodes: int = 0
    gpus: int = 0
    error: str = ""


class HooksFound(msgspec.Struct, frozen=True, kw_only=True):
    """The scheduler's hooks, which Prologs and Epilogs call. `ready`: Service → how many of its endpoints are ready.

    `url`: the address that was tried instead, in the scheduler's pod; empty elsewhere. `error`: why it did not answer.
    """

    ready: Mapping[str, int] = {}
    url: str = ""
    error: str = ""


class Canary(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a test pod or test job that `kubectl sunk doctor` started. `error`: why it did not run. `left`: why
    it could not be removed at the end; empty if it was.
    """

    took_s: float = 0.0
    error: str = ""
    left: str = ""


class Seen(enum.IntEnum):
    """What the script of the test job found about its GPU, as the exit code of the job."""

    ITS_OWN = 0
    NOT_ONE_GPU = 11
    OTHER_VARIABLE = 12
    OTHERS_DEVICES = 13
    NOT_ITS_DEVICE = 14
    NO_LIST = 15


class CanaryJob(Canary, frozen=True, kw_only=True):
    """The result of the test job of `kubectl sunk doctor`, which asks for a GPU if the pool has one.

    Args:
        job: the job as slurmctld has it after its end; None if it did not end.
        no_gpu: why the job did not ask for a GPU although Slurm has some; otherwise empty.
        record: the job as slurmdbd has it; None if slurmdbd does not have it.
        no_record: why slurmdbd could not be asked.
        is_accounted: slurmrestd has a slurmdbd to ask.
    """

    job: SlurmJob | None = None
    no_gpu: str = ""
    record: JobRecord | None = None
    no_record: str = ""
    is_accounted: bool = True


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """All that `kubectl sunk doctor` found. A field is None if it could not be read; `unread[field]` says why.

    Args:
        own_version: the version of this command.
        server_version: the version of the apiserver.
        rights: a right in words → whether the person has it.
        policies: the admission policies of sunkpy's charts, with their `bindings`.
        shared: the PersistentVolumes behind the claims of homes and shared folders.
        workloads: kind → the DaemonSets, Deployments or StatefulSets that are not sunkpy's.
        heartbeats: Node → when its kubelet last renewed its Lease.
        processes: the charts' pods, except slurmd pods.
        our_workloads: kind → the Deployments or StatefulSets of the charts.
        leases: the Leases of sunkpy's processes.
        secrets: each Secret that the pods need → whether it exists.
        slurm: what slurmrestd answered; None if it could not be asked.
        tries: the person asked for a test job and a test pod (canaries).
    """

    now: datetime
    own_version: str = ""
    server_version: str | None = None
    has_nodeset_kind: bool | None = None
    rights: Mapping[str, bool] | None = None
    policies: tuple[AdmissionPolicy, ...] | None = None
    bindings: tuple[PolicyBinding, ...] | None = None
    shared: tuple[SharedVolume, ...] | None = None
    workloads: Mapping[str, tuple[Workload, ...]] | None = None
    nodes: tuple[Node, ...] | None = None
    heartbeats: Mapping[str, str] | None = None
    nodesets: tuple[NodeSet, ...] | None = None
    slurmd_pods: tuple[Pod, ...] | None = None
    processes: tuple[OurPod, ...] | None = None
    our_workloads: Mapping[str, tuple[OurWorkload, ...]] | None = None
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
