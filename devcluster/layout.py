"""The paths, addresses and names of kernel objects of a cluster. Pure.

A cluster has one slot. Slot ``i`` has the four /16 networks from ``10.(64+4i)``: nodes, pods, services, spare; so one
/14 covers a cluster, and sixteen clusters fit into 10.64.0.0/10. Every kernel object has the slot in its name.
"""

import ipaddress
from pathlib import Path

import msgspec

from devcluster.errors import DevclusterError

SLOTS = 16
MAX_NODES = 64
MAX_MACHINES = 4
CLUSTER_DOMAIN = "cluster.local"
# The feature gate by which Kubernetes knows claims that a scheduler made for a pod's extended resources.
CLAIMS_FOR_RESOURCES = "DRAExtendedResource"
# The longest socket below the folder is the kubelet's pod-resources socket; sockaddr_un holds 107 bytes.
MAX_ROOT_LENGTH = 36


class NodeLayout(msgspec.Struct, frozen=True):
    """The paths, addresses and names of node ``number`` (from 1)."""

    name: str
    number: int
    home: Path
    ip: ipaddress.IPv4Address
    pod_network: ipaddress.IPv4Network
    veth: str
    cgroup: str

    @property
    def netns(self) -> Path:
        """The file on which the node's network namespace is bound."""
        return self.home / "netns"

    @property
    def machine(self) -> Path:
        """The folder that the kubelet sees in place of the machine's CPUs; it exists only if their number is
        pretended.
        """
        return self.home / "machine"

    @property
    def containerd_socket(self) -> Path:
        """The socket of the node's own containerd."""
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
        """Folders with fixed names -> the folders that the node's programs and pods see in their place.

        A fixed name is a default of the charts' values, or is compiled into a program.
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
        """The folder of the drivers' Container Device Interface (CDI) files."""
        return self.home / "cdi"

    def daemon(self, program: str) -> str:
        """Return the process name of ``program`` on this node, under which it is started, stopped and logged."""
        return f"{self.name}-{program}"


class Layout(msgspec.Struct, frozen=True):
    """The paths, addresses and names of one cluster. ``root``: the folder with all clusters of the user."""

    root: Path
    name: str
    slot: int

    @property
    def home(self) -> Path:
        """The cluster's folder, to which all its files belong."""
        return self.root / self.name

    @property
    def kubeconfig(self) -> Path:
        """The path of the administrator's kubeconfig."""
        return self.home / "admin.conf"

    @property
    def pki(self) -> Path:
        """The folder with keys, certificates and tokens."""
        return self.home / "pki"

    @property
    def logs(self) -> Path:
        """The folder with one log file per process."""
        return self.home / "log"

    @property
    def bin(self) -> Path:
        """The folder with kubectl and helm of this cluster's version."""
        return self.home / "bin"

    @property
    def volumes(self) -> Path:
        """The folder with one folder per provisioned PersistentVolume."""
        return self.home / "volumes"

    def _network(self, part: int) -> ipaddress.IPv4Network:
        return ipaddress.IPv4Network(f"10.{64 + 4 * self.slot + part}.0.0/16")

    @property
    def network(self) -> ipaddress.IPv4Network:
        """All addresses of the cluster, a /14."""
        return self._network(0).supernet(new_prefix=14)

    @property
    def node_network(self) -> ipaddress.IPv4Network:
        """The addresses of the bridge and the nodes."""
        return self._network(0)

    @property
    def pod_network(self) -> ipaddress.IPv4Network:
        """The addresses of the pods, a /24 per node."""
        return self._network(1)

    @property
    def service_network(self) -> ipaddress.IPv4Network:
        """The addresses of Services (ClusterIPs)."""
        return self._network(2)

    @property
    def spare_network(self) -> ipaddress.IPv4Network:
        """Addresses without an interface, for simulated nodes and their pods."""
        return self._network(3)

    @property
    def host_ip(self) -> ipaddress.IPv4Address:
        """The address of this machine on the bridge, where apiserver and DNS listen."""
        return self.node_network[1]

    @property
    def etcd_url(self) -> str:
        """The URL of etcd, on a loopback address of the slot: only this machine reaches it."""
        return f"http://127.64.{self.slot}.1:2379"

    @property
    def etcd_peer_url(self) -> str:
        """The peer URL of etcd, which etcd requires although a single member does not use it."""
        return f"http://127.64.{self.slot}.1:2380"

    @property
    def server(self) -> str:
        """The URL of the apiserver."""
        return f"https://{self.host_ip}:6443"

    @property
    def bridge(self) -> str:
        """The name of the bridge that connects all nodes."""
        return f"skd{self.slot}"

    @property
    def cgroup(self) -> str:
        """The path of the cluster's cgroup, the same in every cgroup tree."""
        return f"sunkpy-devcluster-{self.slot}"

    @property
    def daemon_cgroup(self) -> str:
        """The path of the cgroup with the cluster's processes; pods are elsewhere below ``cgroup``."""
        return f"{self.cgroup}/daemons"

    def node(self, number: int) -> NodeLayout:
        """Return the layout of node ``number``, 1 to MAX_NODES."""
        return self._node(f"node-{number}", number)

    def machine(self, number: int) -> NodeLayout:
        """Return the layout of virtual machine ``number``, 1 to MAX_MACHINES; its node number is after all other
        nodes'.
        """
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
    """Return ``name`` if a cluster can have it, else raise DevclusterError with the reason."""
    if not name or len(name) > 20 or not all(c.isascii() and (c.isalnum() or c == "-") for c in name) or name[0] == "-":
        raise DevclusterError(
            f"cluster name {name!r} cannot be used: give 1 to 20 letters, digits or '-', not starting with '-'"
        )
    return name


def check_root(root: Path) -> Path:
    """Return ``root`` if unix sockets below it are within the kernel's limit, else raise DevclusterError."""
    if not root.is_absolute() or len(str(root)) > MAX_ROOT_LENGTH:
        raise DevclusterError(
            f"SUNKPY_DEVCLUSTER_HOME={root} cannot be used: give an absolute path of at most {MAX_ROOT_LENGTH} "
            "characters (unix sockets below it must stay under 108)"
        )
    return root
