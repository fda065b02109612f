"""A real Kubernetes as processes on this machine: etcd, the control plane, CoreDNS and N nodes.

Each node is a network namespace with its own containerd, kubelet and kube-proxy. Nothing is simulated but the size of
the machine and, when asked for, GPUs. Used by the demo and the tests, and by hand as ``python -m devcluster``.
"""

from devcluster.cluster import Cluster
from devcluster.errors import DevclusterError

__all__ = ["Cluster", "DevclusterError"]
