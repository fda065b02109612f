"""Argo CD on a cluster: its controller and its repo-server, as processes of this machine, as its developers run them.

Its server does not run, so Argo CD does not hear of a `git push`; `refresh` asks for what the server's webhook would.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from devcluster import Cluster, packages
from devcluster.binaries import pinned
from devcluster.kubectl import Kubectl
from devcluster.process import Daemon
from devcluster.waiting import NotYet, wait
from sunkpy.core.model.objects import KubeObject
from tests.polling import listens
from tests.ports import free_ports

MODULE: Final = "github.com/argoproj/argo-cd/v3"
ARGOCD: Final = pinned(
    "argocd",
    "3.6.1",
    module=MODULE,
    packages=(f"{MODULE}/cmd",),
    env={"GOTOOLCHAIN": "go1.27.0", "GOFLAGS": "-mod=mod"},
)
PACKAGES: Final = {"redis-server": "redis-server", "git": "git"}
NAMESPACE: Final = "argocd"
_FINALIZER: Final = "resources-finalizer.argocd.argoproj.io"
REFRESH: Final = "argocd.argoproj.io/refresh"
_WRAPPER: Final = "git-verify-wrapper.sh"


class _Said(msgspec.Struct, frozen=True):
    status: str = ""
    message: str = ""


class Operation(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    message: str = ""
    started_at: str = ""


class Resource(msgspec.Struct, frozen=True):
    kind: str
    name: str
    status: str = ""
    health: _Said = _Said(status="Healthy")


class Status(msgspec.Struct, frozen=True, rename="camel"):
    sync: _Said = _Said()
    health: _Said = _Said()
    operation_state: Operation = Operation()
    resources: list[Resource] = []

    @property
    def drifted(self) -> list[str]:
        return [f"{each.kind}/{each.name}" for each in self.resources if each.status not in ("Synced", "")]


class Application(KubeObject, frozen=True):
    status: Status = Status()


class ArgoCD:
    server = ""
    example = "root.yaml"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.kubectl = Kubectl(cluster.kubeconfig, cluster.bin)

    def start(self, config: Mapping[str, object]) -> None:
        """Install Argo CD's kinds and `config` (argocd-cm), and start its processes, which end with the cluster."""
        cluster = self._cluster
        packages.ensure(PACKAGES, progress=cluster.progress)
        cluster.binaries.ensure([ARGOCD], progress=cluster.progress)
        module = cluster.binaries.module_folder(ARGOCD, MODULE, progress=cluster.progress)
        self.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(module / "manifests" / "crds"))
        crds = (f"crd/{kind}.argoproj.io" for kind in ("applications", "appprojects"))
        ready = ("wait", "--for=condition=Established", "--timeout=30s", *crds)
        # `kubectl wait` fails on a kind that has no status yet.
        wait(lambda: self.kubectl(*ready), timeout_s=60, what="the kinds of Argo CD are known")
        self.kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        # Argo CD does not start without these.
        secret = _named("Secret", _SECRET) | {"stringData": {"server.secretkey": "for-the-bench"}}
        self.kubectl.apply(config, *(_named("ConfigMap", name) for name in _CONFIG_MAPS), secret, _PROJECT)
        redis, repo_server, *metrics = map(str, free_ports(4))
        work = cluster.layout.home / "argocd"
        work.mkdir(exist_ok=True)
        # Argo CD runs this script for each commit. Go's module cache does not keep that it is executable.
        shutil.copyfile(module / "hack" / _WRAPPER, work / _WRAPPER)
        (work / _WRAPPER).chmod(0o755)
        env = {
            **self.kubectl.env, "ARGOCD_FAKE_IN_CLUSTER": "true", "ARGOCD_GPG_ENABLED": "false", "TMPDIR": str(work),
            "PATH": f"{work}:{self.kubectl.env['PATH']}",
            "HOME": str(work), "ARGOCD_TLS_DATA_PATH": str(work), "ARGOCD_SSH_DATA_PATH": str(work),
        }  # fmt: skip
        at_redis = ("--redis", f"127.0.0.1:{redis}")
        self._run("redis", ["redis-server", "--port", redis, "--bind", "127.0.0.1", "--save", "", "--dir", str(work)])
        listening = ("--port", repo_server, "--address", "127.0.0.1", "--metrics-port", metrics[0])
        self._serve("repo-server", *at_redis, *listening, "--disable-tls", "--client-ca-path=", env=env)
        wait(lambda: listens(int(repo_server)), timeout_s=60, what="Argo CD's repo-server listens")
        asking = ("--repo-server", f"127.0.0.1:{repo_server}", "--repo-server-plaintext", "--metrics-port", metrics[1])
        self._serve("application-controller", *at_redis, *asking, "--namespace", NAMESPACE, env=env)

    def _serve(self, name: str, *args: str, env: Mapping[str, str]) -> None:
        program = str(self._cluster.binaries.folder(ARGOCD) / "cmd")
        self._run(f"argocd-{name}", [program, *args], env={**env, "ARGOCD_BINARY_NAME": f"argocd-{name}"})

    def _run(self, name: str, argv: list[str], env: Mapping[str, str] | None = None) -> None:
        self._cluster.daemons.start(Daemon(name=name, argv=argv, env=env or {}))

    def status(self, name: str) -> Status:
        return self.kubectl.get(Application, "application", name, "-n", NAMESPACE).status

    def refresh(self) -> None:
        """Make Argo CD read Git now, as a webhook would."""
        self._annotate("--all")

    def _annotate(self, which: str, how: str = "normal") -> None:
        self.kubectl("annotate", "application", which, "-n", NAMESPACE, f"{REFRESH}={how}", "--overwrite")

    def synced_again(self, names: Sequence[str]) -> list[str]:
        """Return what differs from Git after all Applications are compared again, and `slurm` is synced once more."""
        drifted = [f"{name}: {each}" for name in ("root", *names) for each in self._looked_again(name).drifted]
        last = self.status("slurm").operation_state.started_at
        patch = '{"operation": {"initiatedBy": {"username": "bench"}, "sync": {}}}'
        self.kubectl("patch", "application", "slurm", "-n", NAMESPACE, "--type=merge", "-p", patch)
        wait(lambda: self.status("slurm").operation_state.started_at != last, timeout_s=60, what="a sync began")
        return drifted + self.settled("slurm").drifted

    def settled(self, name: str) -> Status:
        """Wait until an Application is Synced and Healthy, with no sync running. Return its status."""

        def check() -> Status:
            now = self.status(name)
            phase = now.operation_state.phase
            if (now.sync.status, now.health.status, phase) != ("Synced", "Healthy", "Succeeded"):
                ill = [each.name for each in now.resources if each.health.status != "Healthy"]
                raise NotYet(f"{now.sync.status} {now.health.status} {now.operation_state}; {now.drifted}; ill: {ill}")
            return now

        return wait(check, timeout_s=300, what=f"Application {name} is Synced and Healthy", every_s=0.5)

    def _looked_again(self, name: str) -> Status:
        """Make Argo CD render and compare an Application again. Return its status."""
        self._annotate(name, "hard")

        def check() -> Status:
            now = self.kubectl.get(Application, "application", name, "-n", NAMESPACE)
            if REFRESH in now.annotations:  # Argo CD removes it when it has compared
                raise NotYet(f"it is annotated {REFRESH}")
            return now.status

        return wait(check, timeout_s=60, what=f"Application {name} is compared again")

    def refused(self, name: str) -> str:
        """Wait until a sync has failed by a hook. Return Argo CD's message."""

        def check() -> str:
            operation = self.status(name).operation_state
            if "unsuccessfully" not in operation.message:
                raise NotYet(f"{operation}")
            return operation.message

        return wait(check, timeout_s=240, what=f"the sync of {name} has failed")

    def remove(self) -> None:
        """Delete the root Application, and wait until all Applications are gone.

        The hook that waits for jobs is skipped, because Argo CD may skip it, too (its issue 29100).
        """
        self.kubectl("delete", "application", "root", "-n", NAMESPACE, "--wait=false")
        slurm = ("application", "slurm", "-n", NAMESPACE)
        going = ("get", *slurm, "-o", "jsonpath={.metadata.deletionTimestamp}")
        wait(lambda: self.kubectl(*going), timeout_s=60, what="Application slurm is being deleted")
        without = json.dumps({"metadata": {"finalizers": [_FINALIZER]}})
        self.kubectl("patch", *slurm, "--type=merge", "-p", without)
        gone = ("wait", "--for=delete", "application/root", "-n", NAMESPACE, "--timeout=600s")
        self.kubectl(*gone, timeout_s=610)


_CONFIG_MAPS: Final = ("argocd-rbac-cm", "argocd-gpg-keys-cm", "argocd-tls-certs-cm", "argocd-ssh-known-hosts-cm")
_SECRET: Final = "argocd-secret"
_PROJECT: Final[Mapping[str, object]] = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "AppProject",
    "metadata": {"name": "default", "namespace": NAMESPACE},
    "spec": {
        "sourceRepos": ["*"],
        "destinations": [{"server": "*", "namespace": "*"}],
        "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
    },
}


def _named(kind: str, name: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app.kubernetes.io/part-of": "argocd"}},
    }
