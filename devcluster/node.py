"""Runs a node: containerd, kubelet and kube-proxy in the node's network namespace."""

import json
import os
import shutil
import socket
from pathlib import Path

import yaml

from devcluster import cgroups, network, pki
from devcluster.api import Api, ApiError
from devcluster.binaries import Binaries
from devcluster.errors import DevclusterError
from devcluster.images import PAUSE_IMAGE
from devcluster.layout import CLAIMS_FOR_RESOURCES, CLUSTER_DOMAIN, Layout, NodeLayout
from devcluster.process import Daemon, Daemons
from devcluster.state import write_atomically
from devcluster.waiting import wait_until

GPU_RESOURCE = "nvidia.com/gpu"
CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"), Path("/usr/libexec/cni"))
PROGRAMS = ("containerd", "kubelet", "kube-proxy")
SYSTEM = Path("/sys/devices/system")


def cni_folder() -> Path:
    """Return the folder where the CNI plugins are installed."""
    for folder in CNI_FOLDERS:
        if (folder / "ptp").exists():
            return folder
    raise DevclusterError(
        f"no CNI plugins in {', '.join(map(str, CNI_FOLDERS))}: apt-get install containernetworking-plugins"
    )


def cni_config(node: NodeLayout) -> dict[str, object]:
    """Return the CNI configuration. The plugin ptp routes every pod, so replies from a Service on the same node pass
    connection tracking too.

    The plugin bridge would need br_netfilter for that, which not every kernel has.
    """
    ipam = {
        "type": "host-local",
        "ranges": [[{"subnet": str(node.pod_network)}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": str(node.home / "cni-state"),
    }
    return {
        "cniVersion": "0.4.0",
        "name": "pod",
        "plugins": [
            {"type": "ptp", "ipMasq": False, "ipam": ipam},
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def containerd_config(node: NodeLayout, *, systemd: bool = False) -> str:
    """Return the configuration of a containerd that has all its files in the node's folder.

    ``systemd``: for a virtual machine with systemd, where the cgroups of containers are its units.
    """
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""version = 2
root = "{node.home}/containerd"
state = "{node.home}/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.internal.v1.opt",
  "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
[grpc]
  address = "{node.containerd_socket}"
[{cri}]
  sandbox_image = "{PAUSE_IMAGE}"
  disable_tcp_service = true
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  enable_cdi = true
  cdi_spec_dirs = ["{node.cdi}"]
  [{cri}.cni]
    bin_dir = "{cni_folder()}"
    conf_dir = "{node.home}/cni"
  [{cri}.containerd]
    snapshotter = "overlayfs"
    [{cri}.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [{cri}.containerd.runtimes.runc.options]
        Root = "{node.home}/run/runc"
        SystemdCgroup = {str(systemd).lower()}
[plugins."io.containerd.nri.v1.nri"]
  disable = true
"""


def kubelet_config(layout: Layout, node: NodeLayout) -> dict[str, object]:
    """Return a KubeletConfiguration v1beta1. A full disk does not make the node evict pods, because others use
    it too.
    """
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [str(layout.host_ip)],
        "clusterDomain": CLUSTER_DOMAIN,
        "containerRuntimeEndpoint": f"unix://{node.containerd_socket}",
        "podLogsDir": str(node.home / "pod-logs"),
        "volumePluginDir": str(node.home / "volume-plugins"),
        "resolvConf": str(layout.home / "resolv.conf"),
        "serializeImagePulls": False,
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
            "imagefs.inodesFree": "0%",
        },
        "localStorageCapacityIsolation": False,
        "maxPods": 110,
        # The machine may lack CAP_SYS_RESOURCE, without which no score can be lowered.
        "oomScoreAdj": 0,
        "nodeStatusUpdateFrequency": "4s",
        "nodeStatusReportFrequency": "1m",
        "nodeLeaseDurationSeconds": 20,
        "syncFrequency": "10s",
        # A program that tests kill often is restarted soon, not after minutes.
        "crashLoopBackOff": {"maxContainerRestartPeriod": "5s"},
        "shutdownGracePeriod": "0s",
        "enableServer": True,
        "featureGates": {CLAIMS_FOR_RESOURCES: True, "KubeletCrashLoopBackOffMax": True},
    }


def containerd(node: NodeLayout, binaries: Binaries) -> Daemon:
    """Return the node's containerd. It finds its shim on PATH, on which its own folder comes first."""
    return Daemon(
        name=node.daemon("containerd"),
        argv=[str(binaries.containerd / "containerd"), "-c", f"{node.home}/containerd.toml"],
        netns=node.netns,
        binds=node.own,
        env={"PATH": f"{binaries.containerd}{os.pathsep}{os.environ['PATH']}"},
    )


def kubelet(layout: Layout, node: NodeLayout, binaries: Binaries) -> Daemon:
    """Return the node's kubelet, whose Kubernetes user is ``system:node:<name>``."""
    return Daemon(
        name=node.daemon("kubelet"),
        argv=[
            str(binaries.kubernetes / "kubelet"),
            f"--kubeconfig={pki.kubeconfig_path(layout, pki.node_client(node.name))}",
            f"--config={node.home}/kubelet.yaml",
            f"--root-dir={node.kubelet_root}",
            f"--cert-dir={node.home}/pki",
            f"--hostname-override={node.name}",
            f"--node-ip={node.ip}",
            "--housekeeping-interval=20s",
        ],
        netns=node.netns,
        binds={**node.own, **pretended(node)},
    )


def pretended(node: NodeLayout) -> dict[Path, Path]:
    """Return the machine's folders of CPUs -> the folders that the kubelet sees in their place; empty if none."""
    seen = [SYSTEM / part for part in ("cpu", "node") if (SYSTEM / part).is_dir()]
    return {path: node.machine / path.name for path in seen} if node.machine.exists() else {}


def kube_proxy(layout: Layout, node: NodeLayout, binaries: Binaries) -> Daemon:
    """Return the node's kube-proxy."""
    return Daemon(
        name=node.daemon("kube-proxy"),
        argv=[
            str(binaries.kubernetes / "kube-proxy"),
            f"--kubeconfig={pki.kubeconfig_path(layout, 'kube-proxy')}",
            f"--hostname-override={node.name}",
            f"--cluster-cidr={layout.pod_network}",
            "--proxy-mode=iptables",
            # The settings of the machine's connection tracking stay as they are.
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
        ],
        netns=node.netns,
    )


def write_configs(layout: Layout, node: NodeLayout) -> None:
    """Write all configuration files of the node's programs."""
    (node.home / "cni").mkdir(parents=True, exist_ok=True)
    (node.home / "run").mkdir(exist_ok=True)
    for folder in (node.cdi, *node.own, *node.own.values()):
        folder.mkdir(parents=True, exist_ok=True)
    write_atomically(node.home / "cni" / "10-pod.conflist", json.dumps(cni_config(node)).encode())
    write_atomically(node.home / "containerd.toml", containerd_config(node).encode())
    write_atomically(node.home / "kubelet.yaml", yaml.safe_dump(kubelet_config(layout, node)).encode())


def pretend_cpus(node: NodeLayout, cpus: int) -> None:
    """Let the kubelet count ``cpus`` CPUs: it counts folders, if it finds neither NUMA nodes nor cores in them.

    The kubelet then offers that many CPUs; the pods share the real ones.
    """
    (node.machine / "node").mkdir(parents=True, exist_ok=True)
    for number in range(cpus):
        (node.machine / "cpu" / f"cpu{number}").mkdir(parents=True, exist_ok=True)


def answers(path: Path) -> bool:
    """True if a process listens on the unix socket ``path``; a killed process leaves the file without a listener."""
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True


def start(layout: Layout, node: NodeLayout, binaries: Binaries, daemons: Daemons) -> None:
    """Start the network and the containerd of ``node``, if they do not run."""
    if not network.netns_exists(node.netns):
        # Programs that still run are in a namespace which cannot be reached any more; its sandboxes are lost too.
        for program in reversed(PROGRAMS):
            daemons.stop(node.daemon(program))
        shutil.rmtree(node.home / "run", ignore_errors=True)
        shutil.rmtree(node.home / "cni-state", ignore_errors=True)
    network.up_node(layout, node)
    write_configs(layout, node)
    trees = cgroups.hierarchies()
    cgroups.create(node.cgroup, trees)
    cgroups.delegate(node.cgroup, trees)
    daemons.start(containerd(node, binaries))

    def listening() -> bool:
        daemons.require(node.daemon("containerd"))
        return answers(node.containerd_socket)

    if not wait_until(listening, timeout_s=30):
        raise DevclusterError(
            f"containerd of {node.name} made no socket in 30 s:\n{daemons.tail(node.daemon('containerd'))}"
        )


def ready_heartbeat(api: Api, name: str) -> str | None:
    """Return the last heartbeat of node ``name`` with Ready; None if it is not registered or not Ready."""
    try:
        status = api.get(f"/api/v1/nodes/{name}")["status"]
    except ApiError:
        return None
    assert isinstance(status, dict)
    ready = [each for each in status.get("conditions", []) if each["type"] == "Ready" and each["status"] == "True"]
    return ready[0]["lastHeartbeatTime"] if ready else None


def start_kubelets(
    layout: Layout, nodes: list[NodeLayout], binaries: Binaries, daemons: Daemons, api: Api, *, timeout_s: float = 120
) -> None:
    """Start dead kubelets and kube-proxies, and wait until their nodes are Ready. The containerds must run.

    A node stays Ready in the API for a while after its kubelet died, so a new heartbeat is awaited.
    """
    old: dict[str, str | None] = {}
    for each in nodes:
        dead = daemons.pid(each.daemon("kubelet")) is None
        old[each.name] = ready_heartbeat(api, each.name) if dead else None
        daemons.start(kubelet(layout, each, binaries))
        daemons.start(kube_proxy(layout, each, binaries))

    def late() -> list[NodeLayout]:
        for each in nodes:
            daemons.require(each.daemon("kubelet"))
        return [each for each in nodes if ready_heartbeat(api, each.name) in (None, old[each.name])]

    if not wait_until(lambda: not late(), timeout_s=timeout_s, every_s=0.2):
        names = [each.name for each in late()]
        raise DevclusterError(
            f"not Ready after {timeout_s:g} s: {', '.join(names)}; the kubelet of {names[0]} says:\n"
            + daemons.tail(f"{names[0]}-kubelet")
        )


def dress(api: Api, name: str, *, labels: dict[str, str], gpus: int) -> None:
    """Set the labels and fake GPUs of node ``name``. A kubelet that restarts removes GPUs without a device plugin."""
    if labels:
        api.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})
    if gpus:
        count = {GPU_RESOURCE: str(gpus)}
        api.merge(f"/api/v1/nodes/{name}/status", {"status": {"capacity": count, "allocatable": count}})
