"""Flux on an apiserver: its source-controller and its helm-controller, as processes of this machine, and a Git server.

Not run: its notification-controller. So nothing tells it of a `git push`; `refresh` asks for what a webhook asks for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from devcluster import packages
from devcluster.binaries import Binaries, Product
from devcluster.kubectl import Kubectl
from devcluster.waiting import NotYet, wait
from tests.polling import listens
from tests.ports import free_ports

_SOURCE: Final = "github.com/fluxcd/source-controller"
_HELM: Final = "github.com/fluxcd/helm-controller"
FLUX: Final = Product(
    name="flux",
    version="2.7.0",
    packages=(_SOURCE, _HELM),
    # gogit v0.40.0 is not in Go's checksum database; the replaced module is so in both go.mod.
    go_mod=f"""module sunkpy.dev/devcluster/flux

go 1.25.0

require {_SOURCE} v1.7.0

require {_HELM} v1.4.0

require github.com/fluxcd/pkg/git/gogit v0.41.0

replace github.com/opencontainers/go-digest => github.com/opencontainers/go-digest v1.0.1-0.20231025023718-d50d2fec9c98
""",
)
_REQUESTED: Final = "reconcile.fluxcd.io/requestedAt"
Run = Callable[[str, list[str], Mapping[str, str]], None]


class _Meta(msgspec.Struct, frozen=True):
    generation: int = 0
    annotations: dict[str, str] = {}


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class _Artifact(msgspec.Struct, frozen=True):
    revision: str = ""


class _Revision(msgspec.Struct, frozen=True):
    version: int = 0


class _Event(msgspec.Struct, frozen=True):
    message: str = ""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    conditions: list[_Condition] = []
    observed_generation: int = 0
    last_attempted_revision: str = ""
    last_handled_reconcile_at: str = ""
    artifact: _Artifact = _Artifact()
    history: list[_Revision] = []


class Object(msgspec.Struct, frozen=True):
    """A GitRepository or a HelmRelease, as far as it is read here."""

    metadata: _Meta
    status: _Status = _Status()

    @property
    def says(self) -> str:
        """The conditions of the object in one line."""
        return "; ".join(f"{each.type}={each.status} {each.message}" for each in self.status.conditions)

    def has(self, condition: str, status: str = "True") -> bool:
        """Whether a condition is of this status, for the spec that it has now."""
        found = any((each.type, each.status) == (condition, status) for each in self.status.conditions)
        return found and self.status.observed_generation == self.metadata.generation


class Flux:
    """The Flux of an apiserver. `run` starts a program: its name, arguments and environment."""

    namespace: Final = "flux-system"
    example = "flux"

    def __init__(self, kubectl: Kubectl, binaries: Binaries, folder: Path, *, run: Run) -> None:
        self.kubectl = kubectl
        self._binaries, self._folder, self._run = binaries, folder, run
        self._ports = free_ports(6)
        self.server = f"http://127.0.0.1:{self._ports[0]}/cgi-bin/git"

    def start(self) -> None:
        """Install the kinds of Flux, and start its processes and the Git server."""
        packages.ensure({"git": "git", "busybox": "busybox-static"}, progress=print)
        self._binaries.ensure([FLUX], progress=print)
        for module in (_SOURCE, _HELM):
            folder = self._binaries.module_folder(FLUX, module, progress=print)
            self.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(folder / "config" / "crd" / "bases"))
        ready = ("wait", "--for=condition=Established", "--timeout=30s", "crd/helmreleases.helm.toolkit.fluxcd.io")
        # It fails on a kind that has no status yet.
        wait(lambda: self.kubectl(*ready), timeout_s=60, what="the kinds of Flux are known")
        self.kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        _, *ports = (f"127.0.0.1:{port}" for port in self._ports)
        stored = ("--storage-path", str(self._folder), "--storage-addr", ports[0], "--storage-adv-addr", ports[0])
        self._serve("source-controller", *stored, "--metrics-addr", ports[1], "--health-addr", ports[2])
        # What waits for a dependency asks again so soon; by default after 30 s.
        ports = ("--metrics-addr", ports[3], "--health-addr", ports[4])
        self._serve("helm-controller", "--requeue-dependency", "5s", *ports)

    def serve(self, folder: Path) -> None:
        """Serve the bare repositories below `folder`; Flux takes no `file://`."""
        script = folder / "www" / "cgi-bin" / "git"
        script.parent.mkdir(parents=True)
        script.write_text(f"#!/bin/sh\nGIT_PROJECT_ROOT={folder} GIT_HTTP_EXPORT_ALL=1 exec git http-backend\n")
        script.chmod(0o755)
        port = self._ports[0]
        self._run("busybox", ["httpd", "-f", "-p", f"127.0.0.1:{port}", "-h", str(folder / "www")], self.kubectl.env)
        wait(lambda: listens(port), timeout_s=30, what="the Git server listens")

    def _serve(self, name: str, *args: str) -> None:
        self._run(str(self._binaries.folder(FLUX) / name), list(args), self.kubectl.env)

    # ------------------------------------------------------------ releases

    def release(self, name: str) -> Object:
        """The HelmRelease as it is now."""
        return self.kubectl.get(Object, "helmrelease", name, "-n", self.namespace)

    def refresh(self) -> None:
        """Have it read Git now, as a webhook does: the one repository of all releases."""
        at = f"{_REQUESTED}={time.time()}"
        self.kubectl("annotate", "gitrepository", "site", "-n", self.namespace, at, "--overwrite")

    def settled(self, name: str, *, condition: str = "Ready", status: str = "True", timeout_s: float = 300) -> Object:
        """The HelmRelease once it has the last commit and a condition of this status.

        Raises:
            NeverSo: it has not; says what Flux says.
        """

        def check() -> Object:
            site = self.kubectl.get(Object, "gitrepository", "site", "-n", self.namespace)
            now = self.release(name)
            commit = site.status.artifact.revision.rpartition(":")[2][:12]
            if site.metadata.annotations.get(_REQUESTED, "") != site.status.last_handled_reconcile_at or not commit:
                raise NotYet(f"Git is not read yet: {site.says}")
            if f"+{commit}" not in now.status.last_attempted_revision or not now.has(condition, status):
                raise NotYet(f"{now.status.last_attempted_revision}, not {commit}: {now.says}")
            return now

        return wait(check, timeout_s=timeout_s, what=f"HelmRelease {name} is {condition}={status}", every_s=0.5)

    def synced_again(self, names: Sequence[str]) -> list[str]:
        """Drift that it has ever found, and those releases that got a new revision from being reconciled once more."""
        before = {name: self.release(name).status.history for name in names}
        at = str(time.time())
        for name in names:
            self.kubectl("annotate", "helmrelease", name, "-n", self.namespace, f"{_REQUESTED}={at}", "--overwrite")

        def look(name: str) -> Object:
            now = self.release(name)
            if now.status.last_handled_reconcile_at != at or not now.has("Ready"):
                raise NotYet(now.says)
            return now

        after = {name: wait(lambda name=name: look(name), timeout_s=120, what=f"{name} once more") for name in names}
        drift = self.kubectl.list(_Event, "events", "-n", self.namespace, "--field-selector=reason=DriftDetected")
        anew = [f"{name}: a new revision" for name in names if after[name].status.history != before[name]]
        return [*(each.message for each in drift), *anew]

    def refused(self, name: str) -> str:
        """What the HelmRelease says of the last commit, which does not work."""
        # Ready may be Unknown, for it looks again each minute.
        return self.settled(name, condition="Released", status="False").says

    def remove(self) -> None:
        """Delete the HelmReleases, the operator's last, each when the one before is gone."""
        for name in ("slurm-staging", "slurm", "sunkpy"):
            self.kubectl("delete", "helmrelease", name, "-n", self.namespace, "--timeout=600s", timeout_s=610)
