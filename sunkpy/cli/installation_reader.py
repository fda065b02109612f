"""Reads an installation for `kubectl sunk doctor`, with the rights of the person. What cannot be read is noted.

Of Secrets, only the metadata is read, so no key in them reaches this process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from typing import Final, Self, TypeVar

import aiohttp
import msgspec
from prometheus_client.parser import text_string_to_metric_families

from sunkpy import __version__
from sunkpy.cli.access import NOT_ASKED
from sunkpy.cli.backups import read_backups
from sunkpy.cli.connected import Sides
from sunkpy.cli.rights import may
from sunkpy.core import names
from sunkpy.core.model.gres import gres_counts
from sunkpy.core.model.objects import Kind, KubeObject, Node, Pod, Wire
from sunkpy.core.model.slurmd import is_slurmd
from sunkpy.core.model.times import utc_now
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.core.overview.installation import (
    LOGIN_COMPONENTS,
    AdmissionPolicy,
    HooksFound,
    Installation,
    Lease,
    OurPod,
    OurWorkload,
    PolicyBinding,
    SharedVolume,
    SlurmFound,
    Workload,
)
from sunkpy.core.overview.volumes import VolumesOfPod
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.discovery import read_served
from sunkpy.kube.errors import KubeError
from sunkpy.slurm import NodesSnapshot, Slurm, errors

T = TypeVar("T")
U = TypeVar("U", bound=KubeObject)

_POLICIES: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
_BINDINGS: Final = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
_WORKLOADS: Final = {kind: f"/apis/apps/v1/{kind.lower()}s" for kind in ("DaemonSet", "Deployment", "StatefulSet")}
_HEARTBEATS: Final = paths.leases("kube-node-lease")
_METADATA_ONLY: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_OURS: Final = "app.kubernetes.io/part-of=sunkpy"
_NOT_OURS: Final = "app.kubernetes.io/part-of!=sunkpy"
_SLURMD_PODS: Final = f"{names.LABEL_ROLE}={names.ROLE_COMPUTE}"
_INSTANCE, _NAME = "app.kubernetes.io/instance", "app.kubernetes.io/name"
_COMPONENT: Final = "app.kubernetes.io/component"
_PROBE_S: Final = 5.0

_RIGHTS: Final = (
    ("", "nodes", ""),
    ("", "pods", ""),
    (names.API_GROUP, names.NODESET_PLURAL, ""),
    ("", "events", ""),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies", ""),
    ("apps", "daemonsets", ""),
    ("coordination.k8s.io", "leases", "kube-node-lease"),
)
"""API group, resource and namespace (empty: all namespaces) of objects that the command lists. It reports whether the
person may list them.
"""


class _Version(Wire, frozen=True, kw_only=True):
    git_version: str = ""


class _Names(Wire, frozen=True, kw_only=True):
    items: tuple[KubeObject, ...] = ()


class _Port(Wire, frozen=True, kw_only=True):
    name: str = ""


class _ServiceSpec(Wire, frozen=True, kw_only=True):
    ports: tuple[_Port, ...] = ()


class _Service(KubeObject, frozen=True, kw_only=True):
    spec: _ServiceSpec = _ServiceSpec()


class _Ready(Wire, frozen=True, kw_only=True):
    ready: bool | None = None


class _Endpoint(Wire, frozen=True, kw_only=True):
    conditions: _Ready = _Ready()


class _EndpointSlice(KubeObject, frozen=True, kw_only=True):
    endpoints: tuple[_Endpoint, ...] | None = ()


class InstallationReader:
    """Reads sunkpy's operator and a Slurm cluster. `namespace`: the Slurm cluster's namespace; empty for all Slurm
    clusters.

    `hooks_url`: the address of the scheduler's hooks, if this process can reach it. `not_asked`: the text to note if
    there is no way to Slurm (`slurm` None).
    """

    def __init__(
        self,
        kube: Kube,
        slurm: Slurm | None,
        *,
        namespace: str = "",
        hooks_url: str = "",
        not_asked: str = NOT_ASKED,
    ) -> None:
        self._kube = kube
        self._slurm = slurm
        self._not_asked = not_asked
        self._namespace = namespace
        self._hooks_url = hooks_url
        self._unread: dict[str, str] = {}

    @classmethod
    def over(cls, sides: Sides, *, namespace: str, is_in_pod: bool) -> Self:
        """Return a reader that uses these connections. `is_in_pod`: this process runs in a pod of the Slurm cluster of
        the scheduler's settings, and so can reach its Services.
        """
        own = sides.settings if is_in_pod and namespace == sides.namespace else None
        hooks_url = own.hooks.url if own is not None else ""
        return cls(sides.kube, sides.slurm, namespace=namespace, hooks_url=hooks_url, not_asked=sides.not_asked)

    async def read(self) -> Installation:
        """Read all that the person may read of the installation; only Slurm if the apiserver does not answer."""
        version = await self._try("server_version", self._kube.get("/version", _Version))
        found = Installation(now=utc_now(), own_version=__version__, slurm=await self._of_slurm())
        if version is None:
            return msgspec.structs.replace(found, unread=self._unread)
        found = await self._of_kubernetes(msgspec.structs.replace(found, server_version=version.git_version))
        processes = await self._try("processes", self._processes())
        if processes is not None:
            found = await self._of_processes(found, processes)
        return msgspec.structs.replace(found, unread=self._unread)

    async def _of_kubernetes(self, found: Installation) -> Installation:
        served = await self._try("has_nodeset_kind", read_served(self._kube))
        heartbeats = await self._listed("heartbeats", _HEARTBEATS, Lease)
        slurmd = await self._listed("slurmd_pods", paths.pods(self._namespace), Pod, _SLURMD_PODS)
        kind = Kind(group=names.API_GROUP, kind=names.NODESET_KIND)
        slurmd_pods = None if slurmd is None else tuple(pod for pod in slurmd if is_slurmd(pod))
        return msgspec.structs.replace(
            found,
            has_nodeset_kind=served.find(kind) is not None if served is not None else None,
            rights=await self._try("rights", self._rights()),
            policies=await self._listed("policies", _POLICIES, AdmissionPolicy, _OURS),
            bindings=await self._listed("bindings", _BINDINGS, PolicyBinding, _OURS),
            workloads=await self._try("workloads", self._workloads()),
            our_workloads=await self._try("our_workloads", self._our_workloads()),
            nodes=await self._listed("nodes", paths.NODES, Node),
            heartbeats=None if heartbeats is None else {each.name: each.spec.renew_time or "" for each in heartbeats},
            nodesets=await self._listed("nodesets", paths.nodesets(self._namespace), NodeSet),
            slurmd_pods=slurmd_pods,
            shared=None if slurmd_pods is None else await self._try("shared", self._shared(slurmd_pods)),
        )

    async def _listed(self, field: str, path: str, kind: type[U], labels: str = "") -> tuple[U, ...] | None:
        found = await self._try(field, self._kube.list_objects(path, kind, label_selector=labels))
        return tuple(found) if found is not None else None

    async def _shared(self, slurmd_pods: Iterable[Pod]) -> tuple[SharedVolume, ...]:
        where = paths.pods(self._namespace)
        of_cluster = await self._kube.list_objects(where, Pod, label_selector=f"{_NAME}=slurm")
        login_pods = (pod for pod in of_cluster if pod.labels.get(_COMPONENT) in LOGIN_COMPONENTS)
        claims = {
            (pod.metadata.namespace, volume.persistent_volume_claim.claim_name)
            for pod in (*slurmd_pods, *login_pods)
            for volume in pod.spec.volumes
            if volume.persistent_volume_claim and (volume.name == "home" or volume.name.startswith("shared-"))
        }
        if not claims:
            return ()
        listed = await self._kube.list_objects(paths.VOLUMES, SharedVolume)
        owners = ((each, each.spec.claim_ref) for each in listed)
        return tuple(each for each, owner in owners if owner and (owner.namespace, owner.name) in claims)

    async def _workloads(self) -> Mapping[str, tuple[Workload, ...]]:
        return {
            kind: tuple(await self._kube.list_objects(path, Workload, label_selector=_NOT_OURS))
            for kind, path in _WORKLOADS.items()
        }

    async def _our_workloads(self) -> Mapping[str, tuple[OurWorkload, ...]]:
        """Return the Deployments and StatefulSets of the Slurm cluster, and the operator's Deployment, by kind."""
        operators, deployments, statefulsets = [
            await self._kube.list_objects(
                paths.collection("apps/v1", plural, where), OurWorkload, label_selector=f"{_OURS},{_NAME}={chart}"
            )
            for plural, where, chart in (
                ("deployments", "", "sunkpy"),
                ("deployments", self._namespace, "slurm"),
                ("statefulsets", self._namespace, "slurm"),
            )
        ]
        return {"Deployment": (*operators, *deployments), "StatefulSet": tuple(statefulsets)}

    async def _of_processes(self, found: Installation, processes: tuple[OurPod, ...]) -> Installation:
        return msgspec.structs.replace(
            found,
            processes=processes,
            leases=await self._try("leases", self._leases(found, processes)),
            secrets=await self._try("secrets", self._secrets(processes)),
            hooks=await self._try("hooks", self._hooks()),
            backups=await self._try("backups", read_backups(self._kube, self._namespace)),
            volumes=await self._try("volumes", self._volumes(processes)),
        )

    async def _rights(self) -> Mapping[str, bool]:
        asked = (may(self._kube, "list", what, group=group, namespace=where) for group, what, where in _RIGHTS)
        verdicts = await asyncio.gather(*asked)
        words = (f"list {resource}{f' in {where}' if where else ''}" for _, resource, where in _RIGHTS)
        return dict(zip(words, verdicts, strict=True))

    async def _processes(self) -> tuple[OurPod, ...]:
        """Return the operator's pods in all namespaces, and the Slurm cluster's pods except slurmd pods. Pods that have
        succeeded are left out.
        """
        operators = await self._kube.list_objects(paths.ALL_PODS, OurPod, label_selector=f"{_NAME}=sunkpy")
        where = paths.pods(self._namespace)
        of_cluster = await self._kube.list_objects(where, OurPod, label_selector=f"{_NAME}=slurm")
        found = (pod for pod in (*operators, *of_cluster) if names.LABEL_ROLE not in pod.labels)
        return tuple(pod for pod in found if pod.status.phase != "Succeeded")

    async def _leases(self, found: Installation, processes: Iterable[OurPod]) -> tuple[Lease, ...]:
        """Return the Leases by which the processes elect their leaders, named `<release>-<process>`, also of a process
        that has no pod.
        """
        workloads = (each for ours in (found.our_workloads or {}).values() for each in ours)
        owners: tuple[OurPod | OurWorkload, ...] = (*processes, *workloads)
        wanted = {(each.metadata.namespace, f"{each.labels.get(_INSTANCE, '')}-{each.component}") for each in owners}
        spaces = sorted({namespace for namespace, _ in wanted})
        listed = await asyncio.gather(*(self._kube.list_objects(paths.leases(space), Lease) for space in spaces))
        return tuple(lease for leases in listed for lease in leases if lease.key in wanted)

    async def _secrets(self, processes: Iterable[OurPod]) -> Mapping[str, bool]:
        sources = ((pod, volume.secret) for pod in processes for volume in pod.spec.volumes)
        wanted = {(pod.metadata.namespace, each.secret_name) for pod, each in sources if each and not each.optional}
        there: set[tuple[str, str]] = set()
        for space in sorted({namespace for namespace, _ in wanted}):
            listed = await self._kube.get(paths.secrets(space), _Names, accept=_METADATA_ONLY)
            there |= {(space, each.name) for each in listed.items}
        return {"/".join(each): each in there for each in sorted(wanted)}

    async def _volumes(self, processes: Iterable[OurPod]) -> tuple[VolumesOfPod, ...]:
        """Read how full volumes are, from the metrics of the pods' containers named `volumes`. The requests go through
        the apiserver's proxy, because network policies let its requests pass. A pod whose metrics need a token
        (`metricsSecret`) is not asked.
        """

        async def watched(pod: OurPod) -> VolumesOfPod:
            if any(volume.name == "metrics" for volume in pod.spec.volumes):
                return VolumesOfPod(pod=pod.name, is_closed=True)
            path = f"{paths.pods(pod.metadata.namespace)}/{pod.name}:8080/proxy/metrics"
            return _watched(pod.name, (await self._kube.request("GET", path)).decode())

        pods = [pod for pod in processes if any(each.name == "volumes" for each in pod.spec.containers)]
        return tuple(await asyncio.gather(*(watched(pod) for pod in pods)))

    async def _hooks(self) -> HooksFound:
        """Try the address of the hooks if it can be reached from here; else read the endpoints of its Service."""
        if self._hooks_url:
            return HooksFound(url=self._hooks_url, error=await probe(f"{self._hooks_url}/hooks/v1/gate"))
        label = f"{_OURS},{_COMPONENT}=scheduler"
        listed = await self._kube.list_objects(_services(self._namespace), _Service, label_selector=label)
        ready: dict[str, int] = {}
        for service in listed:
            if not any(each.name == "hooks" for each in service.spec.ports):
                continue
            namespace, name = service.key
            slices = await self._kube.list_objects(
                _slices(namespace), _EndpointSlice, label_selector=f"kubernetes.io/service-name={name}"
            )
            found = (each for part in slices for each in part.endpoints or ())
            ready["/".join(service.key)] = sum(each.conditions.ready is not False for each in found)
        return HooksFound(ready=ready)

    async def _of_slurm(self) -> SlurmFound | None:
        if self._slurm is None:
            self._unread["slurm"] = self._not_asked
            return None
        try:
            ping, nodes = await self._slurm.ping(), await self._slurm.nodes()
        except errors.SlurmError as error:
            return SlurmFound(error=error.message)
        known = nodes.nodes.values() if isinstance(nodes, NodesSnapshot) else ()
        return SlurmFound(
            release=ping.release,
            api_version=ping.version,
            cluster=ping.cluster,
            is_up=ping.is_up,
            nodes=len(known),
            gpus=sum(gres_counts(node.gres).get("gpu", 0) for node in known),
        )

    async def _try(self, field: str, answer: Awaitable[T]) -> T | None:
        try:
            return await answer
        except KubeError as error:
            self._unread[field] = str(error)
            return None


async def probe(url: str) -> str:
    """Return why no server answers a GET of this URL; empty if one answers, with whatever status."""
    try:
        limit = aiohttp.ClientTimeout(total=_PROBE_S)
        async with aiohttp.ClientSession(timeout=limit) as session, session.get(url, allow_redirects=False):
            return ""
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return f"GET {url}: {error!r}"


def _watched(pod: str, text: str) -> VolumesOfPod:
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    found = {(each.name, each.labels.get("persistentvolumeclaim", "")): each.value for each in samples}

    def used(claim: str) -> Iterator[float]:
        for free, all_ in (("free_bytes", "size_bytes"), ("free_inodes", "inodes")):
            if size := found.get((f"sunkpy_volume_{all_}", claim)):
                yield 1 - found.get((f"sunkpy_volume_{free}", claim), size) / size

    claims = {claim for name, claim in found if name == "sunkpy_volume_size_bytes"}
    saved = found.get(("sunkpy_job_state_saved_timestamp_seconds", ""))
    return VolumesOfPod(pod=pod, used={claim: max(used(claim), default=0.0) for claim in claims}, job_state_saved=saved)


def _services(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/services" if namespace else "/api/v1/services"


def _slices(namespace: str) -> str:
    return f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
