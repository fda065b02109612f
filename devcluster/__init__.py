"""A real Kubernetes as processes on this machine: etcd, the control plane, CoreDNS and N nodes.

Each node is a network namespace with its own containerd, kubelet and kube-proxy. Only the size of the machine is
simulated, and GPUs if they are wanted. The demo and the tests use it, and people by ``python -m devcluster``.
"""

from devcluster.cluster import Cluster
from devcluster.errors import DevclusterError

__all__ = ["Cluster", "DevclusterError"]
