"""`kubectl sunk support-bundle`: writes one file with all that somebody needs who helps with an installation.

The command reads with the rights of the person. Of Secrets it reads only the names. `sunkpy.core.overview.redaction`
removes what looks like a secret. The file has the end of the logs of the charts' processes. Of people's pods it has
what `kubectl sunk status` shows, and their Events in the charts' namespaces, but no specs and no logs.
"""

from __future__ import annotations

import asyncio
import io
import os
import tarfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from sunkpy.cli.access import Access
from sunkpy.cli.connected import connected
from sunkpy.cli.installation_reader import InstallationReader
from sunkpy.cli.options import IN_A_POD, Shown
from sunkpy.cli.overview import pool_of
from sunkpy.cli.pool_reader import PoolReader
from sunkpy.core.model.events import Event
from sunkpy.core.model.objects import Condition, KubeObject, Wire
from sunkpy.core.overview.checks import diagnose, render_checks
from sunkpy.core.overview.installation import Installation, OurPod
from sunkpy.core.overview.redaction import public, scrub, scrub_conf, scrubbed
from sunkpy.core.overview.table import count
from sunkpy.kube import paths
from sunkpy.kube.client import Kube
from sunkpy.kube.errors import KubeError
from sunkpy.slurm import Slurm, errors

U = TypeVar("U", bound=KubeObject)

LOG_BYTES: Final = 256 * 2**10
"""The most bytes of one log: with two logs of each of fifty pods, 25 MB before they are compressed."""
_LOG_LINES: Final = 2000
"""The most lines of one log. No number of bytes is asked for: the kubelet would leave out the newest lines."""
_MOST_LOGS: Final = 50
_OURS: Final = "app.kubernetes.io/part-of=sunkpy"
_PARTS: Final = frozenset(
    {"operator", "syncer", "scheduler", "accounts", "logins", "slurmctld", "slurmdbd", "slurmrestd"}
)
"""The components whose logs go into the bundle. Logs of slurmd and of login pods do not: they show what people did."""
_WORKLOADS: Final = ("deployments", "statefulsets", "daemonsets")


class _WorkloadStatus(Wire, frozen=True, kw_only=True):
    replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0
    desired_number_scheduled: int = 0
    number_ready: int = 0
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class _Workload(KubeObject, frozen=True, kw_only=True):
    status: _WorkloadStatus = _WorkloadStatus()


class _ConfigMap(KubeObject, frozen=True, kw_only=True):
    data: dict[str, str] = msgspec.field(default_factory=dict)


async def make_bundle(access: Access, file: Path) -> Shown:
    """Read all that the person may read, and write the bundle to `file`, which only its owner can read.

    Raises:
        BadSettings, KubeError: the settings cannot be used, or the apiserver cannot be reached.
        OSError: the file exists already (FileExistsError), or cannot be written.
    """
    async with connected(access) as sides:
        namespace = access.namespace or sides.namespace
        found = await InstallationReader.over(sides, namespace=namespace, is_in_pod=IN_A_POD.exists()).read()
        pool = pool_of(await PoolReader.over(sides, namespace=namespace).read())
        collector = _Collector(sides.kube, namespace)
        await collector.of_kubernetes(found)
        await collector.of_slurm(sides.slurm, sides.not_asked)
    collector.add("pool.json", pool)
    collector.add("installation.json", _parts_of(found))
    diagnosis = diagnose(found)
    collector.add_text("doctor.txt", "\n".join(render_checks(diagnosis.checks, is_wide=True)))
    collector.add_text("not-read.txt", "\n".join([*collector.unread, *(f"{k}: {v}" for k, v in found.unread.items())]))
    await asyncio.to_thread(_write, file, collector.files)
    unread = len(collector.unread) + len(found.unread)
    more = f"; {count(unread, 'thing')} could not be read: not-read.txt" if unread else ""
    text = f"{file}: {count(len(collector.files), 'file')}{more}\nRead it before you send it: tar xzf {file}"
    return Shown(text)


def _parts_of(found: Installation) -> dict[str, object]:
    """Return the content of installation.json: versions, rights, policies, Leases, which Secrets exist, and so on."""
    named = (
        "own_version",
        "server_version",
        "has_nodeset_kind",
        "rights",
        "policies",
        "heartbeats",
        "hooks",
        "backups",
        "slurm",
    )
    return {name: getattr(found, name) for name in named} | {
        "secrets": found.secrets,
        "leases": public(found.leases or ()),
        "bindings": public(found.bindings or ()),
    }


class _Collector:
    """Collects the files of a support bundle. `files`: name → content; `unread`: what could not be read, and why."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self.files: dict[str, bytes] = {}
        self.unread: list[str] = []

    def add(self, name: str, value: object) -> None:
        """Add a file with this value as JSON, with secrets removed."""
        plain = scrubbed(msgspec.to_builtins(value, str_keys=True))
        self.files[name] = msgspec.json.format(msgspec.json.encode(plain))

    def add_text(self, name: str, text: str) -> None:
        """Add a file with this text, with secrets removed."""
        self.files[name] = f"{scrub(text)}\n".encode()

    async def of_kubernetes(self, found: Installation) -> None:
        """Add files with objects, Events, logs and Slurm's configuration files."""
        for name in ("nodes", "nodesets", "slurmd_pods", "processes"):
            self.add(f"objects/{name.replace('_', '-')}.json", public(getattr(found, name) or ()))
        for kind in _WORKLOADS:
            where = paths.collection("apps/v1", kind, self._namespace)
            self.add(f"objects/{kind}.json", public(await self._listed(kind, where, _Workload, _OURS)))
        self.add("objects/events.json", public(await self._events(found)))
        where = paths.collection("v1", "configmaps", self._namespace)
        for each in await self._listed("configurations", where, _ConfigMap, _OURS):
            for name, text in each.data.items():
                if name.endswith(".conf"):
                    self.files[f"conf/{'.'.join(each.key)}/{name}"] = f"{scrub_conf(text)}\n".encode()
        pods = [pod for pod in found.processes or () if pod.component in _PARTS]
        for pod in pods[:_MOST_LOGS]:
            await self._logs(pod)

    async def _events(self, found: Installation) -> list[Event]:
        """Return the Events about Nodes, and about objects in the namespaces of the charts."""
        spaces = {pod.metadata.namespace for pod in found.processes or ()} | {self._namespace} - {""}
        listed = await self._listed("Events", paths.ALL_EVENTS, Event)
        return [event for event in listed if event.involved_object.namespace in spaces or _is_of_node(event)]

    async def _listed(self, what: str, path: str, kind: type[U], labels: str = "") -> list[U]:
        try:
            return await self._kube.list_objects(path, kind, label_selector=labels)
        except KubeError as error:
            self.unread.append(f"{what}: {error}")
            return []

    async def _logs(self, pod: OurPod) -> None:
        """Add the end of the log of the pod's first container, and of the run before if the container has restarted."""
        container = next((each.name for each in pod.spec.containers), "")
        has_restarted = any(each.restart_count for each in pod.status.container_statuses if each.name == container)
        for previous in (False, True) if has_restarted else (False,):
            params = {"container": container, "timestamps": "true", "tailLines": str(_LOG_LINES)}
            params |= {"previous": "true"} if previous else {}
            try:
                text = await self._kube.request("GET", f"{paths.pod(*pod.key)}/log", params=params)
            except KubeError as error:
                self.unread.append(f"log of {'/'.join(pod.key)}: {error}")
                continue
            name = f"logs/{'.'.join(pod.key)}{'.previous' if previous else ''}.log"
            self.add_text(name, text[-LOG_BYTES:].decode(errors="replace"))

    async def of_slurm(self, slurm: Slurm | None, not_asked: str) -> None:
        """Add a file with slurmctld's statistics (sdiag), or note why Slurm was not asked."""
        if slurm is None:
            self.unread.append(f"sdiag: {not_asked}")
            return
        try:
            self.add("sdiag.json", await slurm.statistics())
        except errors.SlurmError as error:
            self.unread.append(f"sdiag: {error.message}")


def _is_of_node(event: Event) -> bool:
    return event.involved_object.kind == "Node"


def _write(file: Path, files: Mapping[str, bytes]) -> None:
    folder, now_s = file.name.removesuffix(".gz").removesuffix(".tar"), int(time.time())
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream, tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in _sorted(files):
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mtime, entry.mode = len(content), now_s, 0o600
            archive.addfile(entry, io.BytesIO(content))


def _sorted(files: Mapping[str, bytes]) -> Iterable[tuple[str, bytes]]:
    return sorted(files.items())
