"""Breaks a cluster on purpose, for tests, and repairs it."""

import signal

from devcluster import cleanup, controlplane, dra, network, node
from devcluster.api import Api
from devcluster.binaries import Binaries
from devcluster.errors import DevclusterError
from devcluster.layout import Layout, NodeLayout
from devcluster.process import Daemons
from devcluster.state import Spec
from devcluster.vm import machine


class Faults:
    """Makes and repairs faults of one cluster. Nodes have the names that Kubernetes shows."""

    def __init__(self, layout: Layout, binaries: Binaries, daemons: Daemons, spec: Spec) -> None:
        self._layout = layout
        self._binaries = binaries
        self._daemons = daemons
        self._spec = spec

    def kubelet_stop(self, name: str) -> None:
        """End the kubelet of ``name``; its pods keep running. The node turns NotReady after 16 s."""
        self._daemons.stop(self._node(name).daemon("kubelet"), sig=signal.SIGKILL)

    def kubelet_start(self, name: str) -> None:
        """Start the kubelet of ``name``, wait until the node is Ready and give it its fake GPUs again.

        The kubelet deletes its node's ResourceSlices; a DRA driver publishes its devices again within a minute.
        """
        each = self._node(name)
        api = Api(self._layout.kubeconfig)
        node.start_kubelets(self._layout, [each], self._binaries, self._daemons, api)
        node.dress(api, name, labels=self._spec.labels.get(name, {}), gpus=self._spec.gpus)

    def driver_stop(self, name: str) -> None:
        """End the DRA driver of ``name``: pods with claims there neither start nor end; its ResourceSlices vanish."""
        self._daemons.stop(self._driven(name).daemon(dra.PROGRAM), sig=signal.SIGKILL)

    def driver_start(self, name: str) -> None:
        """Start the DRA driver of ``name`` and wait until its devices are published."""
        dra.start(self._layout, [self._driven(name)], self._binaries, self._daemons, devices=self._spec.dra)

    def cut(self, name: str) -> None:
        """Cut node ``name`` off the network."""
        network.cut(self._any(name))

    def mend(self, name: str) -> None:
        """Connect node ``name`` to the network again."""
        network.mend(self._any(name))

    def power_off(self, name: str) -> None:
        """Switch node ``name`` off without notice: its processes, network and mounts are gone at once."""
        each = self._any(name)
        if each in self._machines():
            self._daemons.stop(each.daemon(machine.PROGRAM), sig=signal.SIGKILL)
        else:
            cleanup.power_off(each, self._daemons)

    def power_on(self, name: str) -> None:
        """Switch node ``name`` on again with its old disk, and wait until it is Ready."""
        each = self._any(name)
        if each in self._nodes():
            node.start(self._layout, each, self._binaries, self._daemons)
            self.kubelet_start(name)
            if self._spec.dra:
                self.driver_start(name)
            return
        machines = machine.Machines(self._layout, self._binaries, self._daemons)
        machines.await_ready(each, old=machines.start(each))
        node.dress(Api(self._layout.kubeconfig), name, labels=self._spec.labels.get(name, {}), gpus=self._spec.gpus)

    def kill_apiserver(self) -> None:
        """SIGKILL the apiserver."""
        self._daemons.stop(controlplane.APISERVER, sig=signal.SIGKILL)

    def start_apiserver(self) -> None:
        """Start the apiserver and wait until it is ready."""
        names = [each.name for each in (*self._nodes(), *self._machines())]
        controlplane.start_apiserver(self._layout, self._binaries, self._daemons, node_names=names)

    def revive_controllers(self) -> list[str]:
        """Start the parts of the control plane that have exited, as a kubelet would for static pods; return their
        names.

        kube-scheduler may exit: it does if a pod of the same name is on another node than its cache says.
        """
        dead = [name for name in controlplane.PROGRAMS if self._daemons.pid(name) is None]
        if dead and controlplane.APISERVER not in dead:
            controlplane.start_rest(self._layout, self._binaries, self._daemons, Api(self._layout.kubeconfig))
            return dead
        return []

    def _driven(self, name: str) -> NodeLayout:
        if not self._spec.dra:
            raise DevclusterError(
                "the nodes have no DRA driver: `.venv/bin/python -m devcluster up --dra N` gives them one"
            )
        return self._node(name)

    def _nodes(self) -> list[NodeLayout]:
        return [self._layout.node(number) for number in range(1, self._spec.nodes + 1)]

    def _machines(self) -> list[NodeLayout]:
        return [self._layout.machine(number) for number in range(1, self._spec.vms + 1)]

    def _node(self, name: str) -> NodeLayout:
        return _named(name, self._nodes())

    def _any(self, name: str) -> NodeLayout:
        return _named(name, [*self._nodes(), *self._machines()])


def _named(name: str, nodes: list[NodeLayout]) -> NodeLayout:
    for each in nodes:
        if each.name == name:
            return each
    those = ", ".join(each.name for each in nodes) or "none, as `up` was given no --vm"
    raise DevclusterError(f"this cannot be done to {name!r}; the nodes that it can be done to: {those}")
