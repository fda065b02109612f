"""What `sunkpy doctor` reads of an installation: only metadata of Secrets, and of Leases who renewed them when."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from sunkpy.core.model.objects import KubeObject, Node, Pod, PodStatus, Wire
from sunkpy.core.nodeset.spec import NodeSet


class OurContainer(Wire, frozen=True, kw_only=True):
    """Which image it runs."""

    name: str = ""
    image: str = ""


class SecretSource(Wire, frozen=True, kw_only=True):
    """The Secret that a volume shows."""

    secret_name: str = ""
    optional: bool = False


class OurVolume(Wire, frozen=True, kw_only=True):
    """A volume of a pod."""

    secret: SecretSource | None = None


class OurPodSpec(Wire, frozen=True, kw_only=True):
    """What it runs, and which keys it needs."""

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
        """All its containers are."""
        return any(each.type == "Ready" and each.status == "True" for each in self.status.conditions)


class LeaseSpec(Wire, frozen=True, kw_only=True):
    """Who holds it, and since when without a renewal."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: str | None = None


class Lease(KubeObject, frozen=True, kw_only=True):
    """Of a process that leads, or the heartbeat of a kubelet."""

    spec: LeaseSpec = LeaseSpec()


class BindingSpec(Wire, frozen=True, kw_only=True):
    """Which policy it puts in force, and how."""

    policy_name: str = ""
    validation_actions: tuple[str, ...] = ()


class PolicyBinding(KubeObject, frozen=True, kw_only=True):
    """A ValidatingAdmissionPolicyBinding."""

    spec: BindingSpec = BindingSpec()


class SlurmFound(msgspec.Struct, frozen=True, kw_only=True):
    """What slurmrestd answered; `error`: why it did not, or refused the token. `nodes`: how many it lists."""

    release: str = ""
    api_version: str = ""
    cluster: str = ""
    is_up: bool = False
    nodes: int = 0
    error: str = ""


class HooksFound(msgspec.Struct, frozen=True, kw_only=True):
    """The Services of the scheduler's hooks → how many endpoints are ready; what the address answered, if asked."""

    ready: Mapping[str, int] = {}
    answers: Mapping[str, str] = {}


class Canary(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a job or pod that was made to see whether one runs; `error`: why it did not."""

    what: str
    took_s: float = 0.0
    error: str = ""


class Installation(msgspec.Struct, frozen=True, kw_only=True):
    """What was found; None: it could not be read, and `unread` says why, under the name of the field.

    Args:
        server_version: of the apiserver.
        rights: what the person may do, in words → whether they may.
        policies: names of ours; `bindings`: all.
        heartbeats: of kubelets, by Node.
        processes: pods of the charts, but for slurmd pods.
        leases: of the processes.
        secrets: those that pods need → whether it is there.
        slurm: None when there was no way to ask.
    """

    now: datetime
    own_version: str = ""
    server_version: str | None = None
    has_nodeset_kind: bool | None = None
    rights: Mapping[str, bool] | None = None
    policies: tuple[str, ...] | None = None
    bindings: tuple[PolicyBinding, ...] | None = None
    nodes: tuple[Node, ...] | None = None
    heartbeats: Mapping[str, str] | None = None
    nodesets: tuple[NodeSet, ...] | None = None
    slurmd_pods: tuple[Pod, ...] | None = None
    processes: tuple[OurPod, ...] | None = None
    leases: tuple[Lease, ...] | None = None
    hooks: HooksFound | None = None
    secrets: Mapping[str, bool] | None = None
    slurm: SlurmFound | None = None
    canaries: tuple[Canary, ...] | None = None
    unread: Mapping[str, str] = {}
