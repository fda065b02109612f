"""One node: containerd, kubelet and kube-proxy in the node's network namespace."""

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
    """Where the CNI plugins are installed."""
    for folder in CNI_FOLDERS:
        if (folder / "ptp").exists():
            return folder
    raise DevclusterError(
        f"no CNI plugins in {', '.join(map(str, CNI_FOLDERS))}: apt-get install containernetworking-plugins"
    )


def cni_config(node: NodeLayout) -> dict[str, object]:
    """ptp: every pod is routed, so replies from a Service pass connection tracking on the same node too.

    With the bridge plugin that takes br_netfilter, which not every kernel has.
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
    """containerd keeps everything below the node's folder, pod network namespaces included.

    With ``systemd`` it is that of a machine which has it, and the cgroups of containers are units.
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
    """KubeletConfiguration v1beta1. The machine's disk may be full of other things: it never makes a node evict."""
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
        # A program that tests kill again and again comes back soon, not after minutes.
        "crashLoopBackOff": {"maxContainerRestartPeriod": "5s"},
        "shutdownGracePeriod": "0s",
        "enableServer": True,
        "featureGates": {CLAIMS_FOR_RESOURCES: True, "KubeletCrashLoopBackOffMax": True},
    }


def containerd(node: NodeLayout, binaries: Binaries) -> Daemon:
    """The node's containerd. It looks for its shim on PATH, where this machine may have one of another version."""
    return Daemon(
        name=node.daemon("containerd"),
        argv=[str(binaries.containerd / "containerd"), "-c", f"{node.home}/containerd.toml"],
        netns=node.netns,
        binds=node.own,
        env={"PATH": f"{binaries.containerd}{os.pathsep}{os.environ['PATH']}"},
    )


def kubelet(layout: Layout, node: NodeLayout, binaries: Binaries) -> Daemon:
    """The node's kubelet, which speaks as ``system:node:<name>``."""
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
    """Folders of this machine to those with the cpus that the kubelet is to count."""
    seen = [SYSTEM / part for part in ("cpu", "node") if (SYSTEM / part).is_dir()]
    return {path: node.machine / path.name for path in seen} if node.machine.exists() else {}


def kube_proxy(layout: Layout, node: NodeLayout, binaries: Binaries) -> Daemon:
    """The node's kube-proxy."""
    return Daemon(
        name=node.daemon("kube-proxy"),
        argv=[
            str(binaries.kubernetes / "kube-proxy"),
            f"--kubeconfig={pki.kubeconfig_path(layout, 'kube-proxy')}",
            f"--hostname-override={node.name}",
            f"--cluster-cidr={layout.pod_network}",
            "--proxy-mode=iptables",
            # The machine's connection tracking is not ours to tune.
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
        ],
        netns=node.netns,
    )


def write_configs(layout: Layout, node: NodeLayout) -> None:
    """All files the node's programs read."""
    (node.home / "cni").mkdir(parents=True, exist_ok=True)
    (node.home / "run").mkdir(exist_ok=True)
    for folder in (node.cdi, *node.own, *node.own.values()):
        folder.mkdir(parents=True, exist_ok=True)
    write_atomically(node.home / "cni" / "10-pod.conflist", json.dumps(cni_config(node)).encode())
    write_atomically(node.home / "containerd.toml", containerd_config(node).encode())
    write_atomically(node.home / "kubelet.yaml", yaml.safe_dump(kubelet_config(layout, node)).encode())


def pretend_cpus(node: NodeLayout, cpus: int) -> None:
    """Have the kubelet count ``cpus`` cpus: it counts folders, when it finds neither NUMA nodes nor cores in them.

    The kubelet itself then offers them, and admits pods to them; the pods share what cpus there are.
    """
    (node.machine / "node").mkdir(parents=True, exist_ok=True)
    for number in range(cpus):
        (node.machine / "cpu" / f"cpu{number}").mkdir(parents=True, exist_ok=True)


def answers(path: Path) -> bool:
    """Whether somebody listens on the unix socket ``path``; a killed process leaves the file without a listener."""
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True


def start(layout: Layout, node: NodeLayout, binaries: Binaries, daemons: Daemons) -> None:
    """Bring up what is missing of ``node``, up to a running containerd."""
    if not network.netns_exists(node.netns):
        # Whatever still runs does so in a namespace nobody can reach any more; sandboxes in it are lost as well.
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
    """When the kubelet of ``name`` last said Ready; None when it is not registered or not Ready."""
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
    """Start kubelets and kube-proxies that are dead and wait until their nodes are Ready; needs running containerds.

    A node stays Ready in the API for a while after its kubelet died: a started kubelet must report anew.
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
    """Labels and fake GPUs of node ``name``. The kubelet forgets GPUs without a device plugin when it restarts."""
    if labels:
        api.merge(f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}})
    if gpus:
        count = {GPU_RESOURCE: str(gpus)}
        api.merge(f"/api/v1/nodes/{name}/status", {"status": {"capacity": count, "allocatable": count}})
