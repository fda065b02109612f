"""A real Kubernetes as processes on this machine: etcd, the control plane, CoreDNS and N nodes.

Each node is a network namespace, or a virtual machine, with its own containerd, kubelet and kube-proxy. Some things are
pretended if ``up`` asks for it: GPUs, the number of CPUs, and further nodes without a kubelet (KWOK). The demo and the
tests use the package, and people use it by ``python -m devcluster``.
"""

from devcluster.cluster import Cluster
from devcluster.errors import DevclusterError

__all__ = ["Cluster", "DevclusterError"]
