"""Where a cluster lives: its folder, its addresses and the names of its kernel objects. Pure.

A cluster owns one slot. Slot ``i`` has the four /16 networks from ``10.(64+4i)``: nodes, pods, services, spare; so
one /14 covers a cluster, and sixteen clusters fit into 10.64.0.0/10. Every kernel object carries the slot in its name.
"""

import ipaddress
from pathlib import Path

import msgspec

from devcluster.errors import DevclusterError

SLOTS = 16
MAX_NODES = 64
MAX_MACHINES = 4
CLUSTER_DOMAIN = "cluster.local"
# The gate by which kubelets know claims that a scheduler made for resources of a pod.
CLAIMS_FOR_RESOURCES = "DRAExtendedResource"
# The longest socket below the folder is the kubelet's pod-resources socket; sockaddr_un holds 107 bytes.
MAX_ROOT_LENGTH = 36


class NodeLayout(msgspec.Struct, frozen=True):
    """Paths, addresses and names of node ``number`` (from 1)."""

    name: str
    number: int
    home: Path
    ip: ipaddress.IPv4Address
    pod_network: ipaddress.IPv4Network
    veth: str
    cgroup: str

    @property
    def netns(self) -> Path:
        """File on which the node's network namespace is bound."""
        return self.home / "netns"

    @property
    def machine(self) -> Path:
        """What the kubelet sees instead of the machine's own cpus, when it is to believe in more; else not there."""
        return self.home / "machine"

    @property
    def containerd_socket(self) -> Path:
        """Socket of the node's own containerd."""
        return self.home / "run" / "containerd.sock"

    @property
    def kubelet_root(self) -> Path:
        """The kubelet's own folder."""
        return self.home / "kubelet"

    @property
    def device_plugins(self) -> Path:
        """The kubelet's folder of device plugins."""
        return self.home / "device-plugins"

    @property
    def own(self) -> dict[Path, Path]:
        """Folders of a machine with fixed names -> what the node's programs and its pods see in their place.

        A key is a value of the charts that nobody gave, or is compiled into a program.
        """
        return {
            Path("/run/containerd"): self.home / "run" / "shims",
            Path("/var/lib/cni"): self.home / "cni-results",
            Path("/var/lib/kubelet/device-plugins"): self.device_plugins,
            Path("/var/lib/sunkpy"): self.home / "markers",
            Path("/var/log/containers"): self.home / "container-logs",
        }

    @property
    def cdi(self) -> Path:
        """Where drivers say what a device is for a container, in files of the Container Device Interface."""
        return self.home / "cdi"

    def daemon(self, program: str) -> str:
        """Name under which ``program`` of this node is started, stopped and logged."""
        return f"{self.name}-{program}"


class Layout(msgspec.Struct, frozen=True):
    """Paths, addresses and names of one cluster; ``root`` holds all clusters of this machine's user."""

    root: Path
    name: str
    slot: int

    @property
    def home(self) -> Path:
        """The run folder: everything the cluster writes is below it."""
        return self.root / self.name

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.home / "admin.conf"

    @property
    def pki(self) -> Path:
        """Keys, certificates and tokens."""
        return self.home / "pki"

    @property
    def logs(self) -> Path:
        """One log file per process."""
        return self.home / "log"

    @property
    def bin(self) -> Path:
        """kubectl and helm of this cluster's version."""
        return self.home / "bin"

    @property
    def volumes(self) -> Path:
        """Folders behind the provisioned PersistentVolumes."""
        return self.home / "volumes"

    def _network(self, part: int) -> ipaddress.IPv4Network:
        return ipaddress.IPv4Network(f"10.{64 + 4 * self.slot + part}.0.0/16")

    @property
    def network(self) -> ipaddress.IPv4Network:
        """All addresses of the cluster, a /14."""
        return self._network(0).supernet(new_prefix=14)

    @property
    def node_network(self) -> ipaddress.IPv4Network:
        """Addresses of the bridge and the nodes."""
        return self._network(0)

    @property
    def pod_network(self) -> ipaddress.IPv4Network:
        """Addresses of the pods, a /24 per node."""
        return self._network(1)

    @property
    def service_network(self) -> ipaddress.IPv4Network:
        """ClusterIPs."""
        return self._network(2)

    @property
    def spare_network(self) -> ipaddress.IPv4Network:
        """Addresses that exist on paper only."""
        return self._network(3)

    @property
    def host_ip(self) -> ipaddress.IPv4Address:
        """This machine as the nodes see it: bridge, apiserver and DNS."""
        return self.node_network[1]

    @property
    def etcd_url(self) -> str:
        """etcd is reachable from this machine alone; every slot has a loopback address of its own."""
        return f"http://127.64.{self.slot}.1:2379"

    @property
    def etcd_peer_url(self) -> str:
        """Unused by a single member, yet etcd insists on one."""
        return f"http://127.64.{self.slot}.1:2380"

    @property
    def server(self) -> str:
        """URL of the apiserver."""
        return f"https://{self.host_ip}:6443"

    @property
    def bridge(self) -> str:
        """Name of the bridge all nodes hang on."""
        return f"skd{self.slot}"

    @property
    def cgroup(self) -> str:
        """Path of the cluster's cgroup, the same in every hierarchy."""
        return f"sunkpy-devcluster-{self.slot}"

    @property
    def daemon_cgroup(self) -> str:
        """Where the processes started by us live; pods are in ``cgroup`` beside it."""
        return f"{self.cgroup}/daemons"

    def node(self, number: int) -> NodeLayout:
        """Layout of node ``number``, 1 to MAX_NODES."""
        return self._node(f"node-{number}", number)

    def machine(self, number: int) -> NodeLayout:
        """Layout of virtual machine ``number``, 1 to MAX_MACHINES: a node behind all the others."""
        return self._node(f"vm-{number}", MAX_NODES + number)

    def _node(self, name: str, number: int) -> NodeLayout:
        return NodeLayout(
            name=name,
            number=number,
            home=self.home / "nodes" / name,
            ip=self.node_network[10 + number],
            pod_network=ipaddress.IPv4Network((int(self.pod_network[0]) + number * 256, 24)),
            veth=f"{self.bridge}n{number}",
            cgroup=f"{self.cgroup}/{name}",
        )


def check_name(name: str) -> str:
    """Return ``name`` when it is usable as a cluster name, else say why not."""
    if not name or len(name) > 20 or not all(c.isascii() and (c.isalnum() or c == "-") for c in name) or name[0] == "-":
        raise DevclusterError(
            f"cluster name {name!r} cannot be used: give 1 to 20 letters, digits or '-', not starting with '-'"
        )
    return name


def check_root(root: Path) -> Path:
    """Return ``root`` when unix sockets below it stay within the kernel's limit."""
    if not root.is_absolute() or len(str(root)) > MAX_ROOT_LENGTH:
        raise DevclusterError(
            f"SUNKPY_DEVCLUSTER_HOME={root} cannot be used: give an absolute path of at most {MAX_ROOT_LENGTH} "
            "characters (unix sockets below it must stay under 108)"
        )
    return root
