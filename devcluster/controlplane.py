"""The control plane as processes of this machine: etcd, kube-apiserver, kube-controller-manager, kube-scheduler,
CoreDNS.
"""

from pathlib import Path

from devcluster import pki
from devcluster.api import Api, ApiError
from devcluster.binaries import KUBERNETES_VERSION, Binaries
from devcluster.errors import DevclusterError
from devcluster.layout import CLAIMS_FOR_RESOURCES, CLUSTER_DOMAIN, Layout
from devcluster.process import Daemon, Daemons
from devcluster.state import write_atomically
from devcluster.waiting import wait_until

APISERVER = "kube-apiserver"
PROGRAMS = ("etcd", APISERVER, "kube-controller-manager", "kube-scheduler", "coredns")
# Shorter than Kubernetes' default, so that faults show before tests time out.
NODE_MONITOR_GRACE_S = 16
WORKLOADS = {"1.35": "v1alpha1", "1.37": "v1beta1"}
"""Minor of Kubernetes -> version of its Workload API (scheduling.k8s.io), which needs a feature gate."""


def etcd(layout: Layout) -> Daemon:
    """Return etcd as a single member without fsync: a crash of the machine may lose data, a crash of etcd does not."""
    return Daemon(
        name="etcd",
        argv=[
            "etcd",
            f"--data-dir={layout.home}/etcd",
            f"--listen-client-urls={layout.etcd_url}",
            f"--advertise-client-urls={layout.etcd_url}",
            f"--listen-peer-urls={layout.etcd_peer_url}",
            f"--initial-advertise-peer-urls={layout.etcd_peer_url}",
            f"--initial-cluster=default={layout.etcd_peer_url}",
            "--unsafe-no-fsync",
            "--auto-compaction-retention=1h",
            "--quota-backend-bytes=4294967296",
        ],
        # Debian's build refuses to start on other architectures unless told that this is meant.
        env={"ETCD_UNSUPPORTED_ARCH": "arm64"},
    )


def workload_gate(version: str) -> list[str]:
    """Return the flag that turns on the Workload API in a part of Kubernetes ``version``; none if there is none."""
    return ["--feature-gates=GenericWorkload=true"] if version.rpartition(".")[0] in WORKLOADS else []


def workload_flags(version: str) -> list[str]:
    """Return the flags by which kube-apiserver ``version`` serves the Workload API; none if it has no such API."""
    served = WORKLOADS.get(version.rpartition(".")[0])
    return [f"--runtime-config=scheduling.k8s.io/{served}=true", *workload_gate(version)] if served else []


def apiserver(layout: Layout, binaries: Binaries) -> Daemon:
    """Return kube-apiserver, which listens on the bridge's address."""
    return Daemon(
        name=APISERVER,
        argv=[
            str(binaries.kubernetes / "kube-apiserver"),
            f"--etcd-servers={layout.etcd_url}",
            f"--cert-dir={layout.pki}",
            f"--bind-address={layout.host_ip}",
            f"--advertise-address={layout.host_ip}",
            "--secure-port=6443",
            f"--service-cluster-ip-range={layout.service_network}",
            f"--token-auth-file={layout.pki}/tokens.csv",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--service-account-issuer=https://kubernetes.default.svc.{CLUSTER_DOMAIN}",
            f"--service-account-key-file={layout.pki}/sa.pub",
            f"--service-account-signing-key-file={layout.pki}/sa.key",
            "--allow-privileged=true",
            # Without this, `logs` and `exec` look node names up in DNS.
            "--kubelet-preferred-address-types=InternalIP",
            # The apiserver calls webhooks at the pod's address: this machine has routes to pods of every node.
            "--enable-aggregator-routing=true",
            # etcd 3.4 cannot report progress, which streaming lists need, so WatchList is off.
            # The DRA driver sets a field of DRAConsumableCapacity. If the apiserver drops it, a restarted driver writes
            # its slices again, and forgets them if a kubelet deletes them within the next minute.
            # With DRADeviceTaints, the apiserver keeps taints of devices.
            "--feature-gates=WatchList=false,DRAConsumableCapacity=true,DRADeviceTaints=true,"
            f"{CLAIMS_FOR_RESOURCES}=true",
            # Kubernetes' own API for gangs.
            *workload_flags(KUBERNETES_VERSION),
            "--event-ttl=4h",
            "--profiling=false",
        ],
    )


def controller_manager(layout: Layout, binaries: Binaries) -> Daemon:
    """Return kube-controller-manager with all its default controllers."""
    return Daemon(
        name="kube-controller-manager",
        argv=[
            str(binaries.kubernetes / "kube-controller-manager"),
            f"--kubeconfig={pki.kubeconfig_path(layout, 'controller-manager')}",
            f"--authentication-kubeconfig={pki.kubeconfig_path(layout, 'controller-manager')}",
            f"--authorization-kubeconfig={pki.kubeconfig_path(layout, 'controller-manager')}",
            f"--cert-dir={layout.pki}",
            f"--bind-address={layout.host_ip}",
            f"--service-account-private-key-file={layout.pki}/sa.key",
            f"--root-ca-file={pki.certificate(layout)}",
            "--use-service-account-credentials=true",
            "--allocate-node-cidrs=false",
            f"--feature-gates={CLAIMS_FOR_RESOURCES}=true",
            # It takes finalizers off PodGroups that no pod names.
            *workload_gate(KUBERNETES_VERSION),
            "--leader-elect=false",
            f"--node-monitor-grace-period={NODE_MONITOR_GRACE_S}s",
            "--node-monitor-period=2s",
            "--profiling=false",
        ],
    )


def scheduler(layout: Layout, binaries: Binaries) -> Daemon:
    """Return kube-scheduler as a process of the cluster."""
    return Daemon(
        name="kube-scheduler",
        argv=[
            str(binaries.kubernetes / "kube-scheduler"),
            f"--kubeconfig={pki.kubeconfig_path(layout, 'scheduler')}",
            f"--authentication-kubeconfig={pki.kubeconfig_path(layout, 'scheduler')}",
            f"--authorization-kubeconfig={pki.kubeconfig_path(layout, 'scheduler')}",
            f"--cert-dir={layout.pki}",
            f"--bind-address={layout.host_ip}",
            f"--feature-gates={CLAIMS_FOR_RESOURCES}=true",
            "--leader-elect=false",
            "--profiling=false",
        ],
    )


def coredns(layout: Layout, binaries: Binaries) -> Daemon:
    """Return CoreDNS on the bridge's address; without cluster DNS each Slurm command waits 5 s for a resolver."""
    return Daemon(name="coredns", argv=[str(binaries.coredns / "coredns"), f"-conf={layout.home}/Corefile"])


def corefile(layout: Layout) -> str:
    """Return the configuration of CoreDNS."""
    return f""".:53 {{
    bind {layout.host_ip}
    errors
    kubernetes {CLUSTER_DOMAIN} in-addr.arpa ip6.arpa {{
        kubeconfig {pki.kubeconfig_path(layout, "coredns")}
        pods insecure
        ttl 5
        fallthrough in-addr.arpa ip6.arpa
    }}
    forward . /etc/resolv.conf
    cache 5
}}
"""


def _role(name: str, user: str, rules: list[dict[str, list[str]]]) -> list[tuple[str, dict[str, object]]]:
    path = "/apis/rbac.authorization.k8s.io/v1"
    meta = {"metadata": {"name": name}}
    group = "rbac.authorization.k8s.io"
    role: dict[str, object] = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", **meta, "rules": rules}
    binding: dict[str, object] = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        **meta,
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }
    return [(f"{path}/clusterroles/{name}", role), (f"{path}/clusterrolebindings/{name}", binding)]


def rbac() -> list[tuple[str, dict[str, object]]]:
    """Return ``(path, object)`` of the roles and bindings for the cluster's own clients."""
    read = ["get", "list", "watch"]
    dns: list[dict[str, list[str]]] = [
        {"apiGroups": [""], "resources": ["services", "pods", "namespaces", "endpoints"], "verbs": read},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": read},
    ]
    volumes: list[dict[str, list[str]]] = [
        {"apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": read},
        {"apiGroups": [""], "resources": ["persistentvolumes"], "verbs": [*read, "create", "delete"]},
    ]
    policies: list[dict[str, list[str]]] = [
        {"apiGroups": [""], "resources": ["pods", "namespaces"], "verbs": read},
        {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": read},
    ]
    return [
        *_role("devcluster:coredns", "devcluster:coredns", dns),
        *_role("devcluster:policies", "devcluster:policies", policies),
        *_role("devcluster:provisioner", "devcluster:provisioner", volumes),
    ]


def start_apiserver(layout: Layout, binaries: Binaries, daemons: Daemons, *, node_names: list[str]) -> Api:
    """Start etcd and the apiserver, wait until the apiserver is ready, and return a client."""
    daemons.start(etcd(layout))
    daemons.start(apiserver(layout, binaries))
    client: list[Api] = []

    def ready() -> bool:
        daemons.require("etcd")
        daemons.require(APISERVER)
        if not pki.certificate(layout).exists() or not (layout.pki / "apiserver.key").exists():
            return False
        pki.write_kubeconfigs(layout, node_names)
        client[:] = [Api(layout.kubeconfig)]
        return client[0].is_ready()

    if not wait_until(ready, timeout_s=180, every_s=0.2):
        raise DevclusterError(
            f"kube-apiserver is not ready after 180 s; the end of its log:\n{daemons.tail(APISERVER)}"
        )
    return client[0]


def start_rest(layout: Layout, binaries: Binaries, daemons: Daemons, api: Api) -> None:
    """Start the parts of the control plane that need a ready apiserver, and write their configuration."""
    for path, body in rbac():
        api.apply(path, body)
    write_atomically(layout.home / "Corefile", corefile(layout).encode())
    write_atomically(Path(layout.home / "resolv.conf"), f"nameserver {layout.host_ip}\n".encode())
    daemons.start(controller_manager(layout, binaries))
    daemons.start(scheduler(layout, binaries))
    daemons.start(coredns(layout, binaries))


def await_namespace(api: Api) -> None:
    """Wait until pods can be made in the default namespace: its ServiceAccount appears a moment after the namespace."""

    def there() -> bool:
        try:
            return bool(api.get("/api/v1/namespaces/default/serviceaccounts/default"))
        except ApiError:
            return False

    if not wait_until(there, timeout_s=60, every_s=0.1):
        raise DevclusterError(
            "the default service account is not there after 60 s; see log/kube-controller-manager.log"
        )
