"""Installs operators on a running cluster, and removes them without a trace."""

import base64
import tempfile
from collections.abc import Sequence
from pathlib import Path

import yaml

from devcluster.cluster import Cluster
from devcluster.errors import DevclusterError
from devcluster.kubectl import Kubectl
from devcluster.operators import manifests
from devcluster.operators.build import build, product
from devcluster.operators.catalog import Operator
from devcluster.shell import CommandFailed, run
from devcluster.waiting import NotYet, wait

Json = dict[str, object]
READY_S = 120


def install(cluster: Cluster, operators: Sequence[Operator]) -> None:
    """Build, load and start ``operators`` in their order; each is ready, with its webhooks, before the next one starts.

    Raises:
        DevclusterError: an operator that clashes with one of them is installed.
        NeverSo: an operator does not become ready; the text has the end of its log.
    """
    kubectl = Kubectl(cluster.kubeconfig, cluster.bin)
    present = installed(kubectl)
    for operator in operators:
        clash = present & set(operator.clashes)
        if clash:
            raise DevclusterError(f"{', '.join(clash)} is installed: remove it before {operator.name}")
    archives = build(cluster.binaries, list(operators), progress=cluster.progress)
    cluster.load(archives)
    for operator in operators:
        _start(cluster, kubectl, operator)
        cluster.progress(f"{operator.name} {operator.version} is ready")


def remove(cluster: Cluster, operators: Sequence[Operator]) -> None:
    """Remove ``operators``, last first: their custom objects while they still run, then the operators themselves."""
    kubectl = Kubectl(cluster.kubeconfig, cluster.bin)
    for operator in reversed(operators):
        documents = _documents(cluster, operator)
        crds = list(manifests.resources(documents))
        if crds:
            kubectl("delete", "crd", *crds, "--ignore-not-found", "--timeout=120s", timeout_s=150)
        text = yaml.safe_dump_all(documents)
        kubectl("delete", "--ignore-not-found", "--timeout=120s", "-f", "-", stdin=text, timeout_s=150)
        kubectl("delete", "configmap", _record(operator), "-n", "kube-system", "--ignore-not-found")
        cluster.progress(f"{operator.name} is gone")


def installed(kubectl: Kubectl) -> set[str]:
    """Return the names of the operators on the cluster, also of those that are only partly installed."""
    out = kubectl("get", "configmaps", "-n", "kube-system", "-l", _LABEL, "-o", "name")
    return {line.rpartition(f"/{_PREFIX}")[2] for line in out.split()}


_LABEL = "devcluster.sunkpy.dev/operator"
_PREFIX = "operator-"


def _record(operator: Operator) -> str:
    return f"{_PREFIX}{operator.name}"


def _documents(cluster: Cluster, operator: Operator) -> list[Json]:
    module = cluster.binaries.module_folder(product(operator), operator.module, progress=cluster.progress)
    return manifests.read(operator, module, kubectl=cluster.bin / "kubectl")


def _start(cluster: Cluster, kubectl: Kubectl, operator: Operator) -> None:
    kubectl.apply(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": _record(operator), "namespace": "kube-system", "labels": {_LABEL: operator.name}},
        }
    )
    documents = _documents(cluster, operator)
    crds = list(manifests.resources(documents))
    namespaces = {namespace for namespace, _ in manifests.deployments(documents)}
    _apply(kubectl, [each for each in documents if each["kind"] in ("Namespace", "CustomResourceDefinition")])
    wait(lambda: _are_known(kubectl, crds), timeout_s=60, what=f"the kinds of {operator.name} are known")
    if operator.certificate:
        secret, service = operator.certificate
        for namespace in namespaces:
            _apply(kubectl, [certificate(secret, namespace, host=f"{service}.{namespace}.svc")])
    _apply(kubectl, documents)
    wait(lambda: _is_ready(kubectl, documents), timeout_s=READY_S, what=f"{operator.name} is ready", every_s=1)


def _apply(kubectl: Kubectl, documents: Sequence[Json]) -> None:
    if documents:
        text = yaml.safe_dump_all(documents)
        kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)


def _are_known(kubectl: Kubectl, crds: Sequence[str]) -> bool:
    """Return True once the apiserver serves these CRDs.

    Raises:
        CommandFailed: it does not yet; `kubectl wait` also fails on a CRD without any status.
    """
    if crds:
        kubectl("wait", "--for=condition=Established", "--timeout=30s", *(f"crd/{name}" for name in crds))
    return True


def _is_ready(kubectl: Kubectl, documents: Sequence[Json]) -> bool:
    """Return True once the operator's Deployments are available, and its webhooks have a CA bundle.

    Raises:
        NotYet: something is missing; the text says what.
    """
    for namespace, name in manifests.deployments(documents):
        path = "jsonpath={.status.availableReplicas}"
        if kubectl("get", "deployment", name, "-n", namespace, "-o", path) != "1":
            raise NotYet(f"deployment {namespace}/{name} is not available: {_tail(kubectl, namespace, name)}")
    for kind, name in manifests.webhook_configurations(documents):
        path = "jsonpath={range .webhooks[*]}{.clientConfig.caBundle}{'\\n'}{end}"
        bundles = kubectl("get", kind, name, "-o", path)
        if not all(bundles.removesuffix("\n").split("\n")):
            raise NotYet(f"{kind} {name} has no CA yet")
    return True


def _tail(kubectl: Kubectl, namespace: str, name: str) -> str:
    try:
        return kubectl("logs", "-n", namespace, f"deployment/{name}", "--tail=5")
    except CommandFailed as error:
        return error.output


def certificate(secret: str, namespace: str, *, host: str) -> Json:
    """Return a Secret with a key and a self-signed certificate for ``host``."""
    with tempfile.TemporaryDirectory() as folder:
        key, crt = Path(folder) / "tls.key", Path(folder) / "tls.crt"
        run(
            [
                *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "3650"),
                *("-subj", f"/CN={host}"[:64], "-addext", f"subjectAltName=DNS:{host}"),
                *("-keyout", str(key), "-out", str(crt)),
            ]
        )
        data = {"tls.key": key.read_bytes(), "tls.crt": crt.read_bytes(), "ca.crt": crt.read_bytes()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret, "namespace": namespace},
        "data": {name: base64.b64encode(value).decode() for name, value in data.items()},
    }
