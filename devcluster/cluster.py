"""The Python interface of this package: `Cluster`, a development cluster by name."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from devcluster import (
    cgroups,
    checks,
    cleanup,
    controlplane,
    dra,
    images,
    kwok,
    mounts,
    network,
    node,
    packages,
    pki,
    state,
    storage,
)
from devcluster.api import Api
from devcluster.binaries import CONTAINERD, COREDNS, DRA_DRIVER, HELM, KUBERNETES, KWOK, PAUSE, Binaries
from devcluster.errors import DevclusterError
from devcluster.faults import Faults
from devcluster.layout import MAX_MACHINES, MAX_NODES, Layout, NodeLayout, check_name, check_root
from devcluster.policies import enforcer
from devcluster.process import Daemons
from devcluster.state import Spec
from devcluster.vm import machine

Labels = dict[str, dict[str, str]]


def _quiet(_line: str) -> None:
    return


class Cluster:
    """A development cluster. The constructor changes nothing; ``up`` and ``down`` do."""

    def __init__(
        self,
        name: str = state.DEFAULT_NAME,
        *,
        root: Path | None = None,
        cache: Path | None = None,
        progress: Callable[[str], None] = _quiet,
    ) -> None:
        self.name = check_name(name)
        self.root = check_root(root or state.default_root())
        self.binaries = Binaries(cache=cache or state.default_cache())
        self.progress = progress

    # -- what is there ------------------------------------------------------------------------------------------

    @property
    def spec(self) -> Spec:
        """The size and options of the cluster, as last requested. Raises DevclusterError if there is no such
        cluster.
        """
        spec = state.load_spec(self.root, self.name)
        if spec is None:
            raise DevclusterError(
                f"there is no cluster {self.name!r} in {self.root}: `.venv/bin/python -m devcluster up` makes one"
            )
        return spec

    @property
    def layout(self) -> Layout:
        """The paths and addresses of the cluster."""
        return Layout(root=self.root, name=self.name, slot=self.spec.slot)

    @property
    def kubeconfig(self) -> Path:
        """The path of the administrator's kubeconfig."""
        return self.root / self.name / "admin.conf"

    @property
    def bin(self) -> Path:
        """The folder with kubectl and helm."""
        return self.root / self.name / "bin"

    @property
    def api(self) -> Api:
        """An API client with the administrator's rights."""
        return Api(self.kubeconfig)

    @property
    def daemons(self) -> Daemons:
        """The processes of the cluster."""
        layout, trees = self.layout, cgroups.hierarchies()
        return Daemons(layout.home, cgroups.tracking(trees).mount / layout.daemon_cgroup / "cgroup.procs")

    @property
    def fault(self) -> Faults:
        """The faults that can be made in the cluster, and their repair."""
        return Faults(self.layout, self.binaries, self.daemons, self.spec)

    def nodes(self) -> list[NodeLayout]:
        """Return the nodes that are processes of this machine."""
        layout = self.layout
        return [layout.node(number) for number in range(1, self.spec.nodes + 1)]

    def machines(self) -> list[NodeLayout]:
        """Return the nodes that are virtual machines."""
        layout = self.layout
        return [layout.machine(number) for number in range(1, self.spec.vms + 1)]

    def processes(self) -> dict[str, int | None]:
        """Return the pid of each process of the cluster by name; None for a process that is dead."""
        daemons = self.daemons
        return {name: daemons.pid(name) for name in expected_processes(self.spec, self.layout)}

    # -- changing it --------------------------------------------------------------------------------------------

    def up(
        self,
        nodes: int | None = None,
        *,
        gpus: int | None = None,
        cpus: int | None = None,
        dra_gpus: int | None = None,
        kwok_nodes: int | None = None,
        policies: bool | None = None,
        vms: int | None = None,
        labels: Labels | None = None,
        archives: Sequence[Path] = (),
    ) -> None:
        """Make the cluster, or start its dead processes. Arguments that are None stay as before; a new one has 3 nodes.

        New virtual machines get the images of ``archives`` on their disks; to load them later takes minutes.
        """
        with self._locked():
            self._preflight()
            packages.ensure(progress=self.progress)
            asked = Asked(
                nodes=nodes, gpus=gpus, cpus=cpus, dra=dra_gpus, kwok=kwok_nodes, policies=policies, vms=vms,
                labels=labels or {},
            )  # fmt: skip
            spec = self._settle(asked)
            if spec.policies:
                packages.ensure(enforcer.PACKAGES, progress=self.progress)
            if spec.vms:
                machine.prepare(self.binaries.cache, progress=self.progress)
            optional = [product for product, count in ((KWOK, spec.kwok), (DRA_DRIVER, spec.dra)) if count]
            products = [KUBERNETES, CONTAINERD, COREDNS, PAUSE, HELM, *optional]
            self.binaries.ensure(products, progress=self.progress)
            self._start(spec, archives)

    def down(self) -> None:
        """Remove every trace of the cluster; do nothing if there is none."""
        with self._locked():
            spec = state.load_spec(self.root, self.name)
            if spec is not None:
                cleanup.take_down(Layout(root=self.root, name=self.name, slot=spec.slot))
                self.progress(f"cluster {self.name} is gone")
            state.remove_lock(self.root, self.name)

    def load(self, archives: list[Path]) -> dict[str, list[str]]:
        """Load image archives into every node, and return the imported tags by node; a node skips images that
        it has.
        """
        loaded = images.load(self.nodes(), archives, self.binaries)
        return loaded | {each.name: machine.load_into(each, archives, self.binaries) for each in self.machines()}

    # -- steps of up --------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with state.locked(state.cluster_lock(self.root, self.name)):
            yield

    def _preflight(self) -> None:
        known = state.load_spec(self.root, self.name)
        layout = Layout(root=self.root, name=self.name, slot=known.slot if known else 0)
        problems = checks.problems(checks.read_facts(self.root), layout, is_running=known is not None)
        if problems:
            raise DevclusterError("\n".join(problems))

    def _settle(self, asked: "Asked") -> Spec:
        with state.locked(state.machine_lock()):
            spec = state.load_spec(self.root, self.name)
            if spec is None:
                slots = [other.slot for other in state.list_specs(self.root)]
                slot = network.free_slot(network.read_taken(slots))
                spec = Spec(name=self.name, slot=slot, nodes=asked.nodes or 3, cpus=asked.cpus or 0)
            spec = change(spec, asked)
            if spec.dra:
                dra.check_sockets(Layout(root=self.root, name=self.name, slot=spec.slot))
            state.save_spec(self.root, spec)
            # The bridge marks the slot as taken for clusters of other folders too.
            network.up_bridge(Layout(root=self.root, name=self.name, slot=spec.slot))
        return spec

    def _start(self, spec: Spec, archives: Sequence[Path]) -> None:
        begin = time.monotonic()
        layout, daemons = self.layout, self._prepare()
        nodes = self.nodes()
        names = [each.name for each in (*nodes, *self.machines())]
        with ThreadPoolExecutor(max_workers=len(nodes) + 1) as pool:
            archive = images.pause_archive(self.binaries)
            runtimes = pool.map(lambda each: self._start_runtime(each, daemons, archive), nodes)
            api = controlplane.start_apiserver(layout, self.binaries, daemons, node_names=names)
            self.progress(f"apiserver ready at {layout.server} after {time.monotonic() - begin:.1f} s")
            controlplane.start_rest(layout, self.binaries, daemons, api)
            storage.apply(api)
            daemons.start(storage.provisioner(layout))
            boots = machine.Machines(layout, self.binaries, daemons)
            booting = [(each, boots.start(each, archives=[archive, *archives])) for each in self.machines()]
            list(runtimes)
        if spec.dra:
            dra.expect_wipe(api, [each for each in nodes if daemons.pid(each.daemon("kubelet")) is None])
        node.start_kubelets(layout, nodes, self.binaries, daemons, api)
        for each, old in booting:
            boots.await_ready(each, old=old)
        for each in (*nodes, *self.machines()):
            node.dress(api, each.name, labels=spec.labels.get(each.name, {}), gpus=spec.gpus)
        if spec.dra:
            dra.start(layout, nodes, self.binaries, daemons, devices=spec.dra)
        settle_kwok(self, api, daemons)
        settle_policies(self, daemons)
        for name in expected_processes(spec, layout):
            daemons.require(name)
        controlplane.await_namespace(api)
        self.progress(f"{len(names)} nodes Ready after {time.monotonic() - begin:.1f} s")

    def _prepare(self) -> Daemons:
        layout, trees = self.layout, cgroups.hierarchies()
        for folder in (layout.home, layout.logs, layout.volumes, layout.bin):
            folder.mkdir(parents=True, exist_ok=True)
        mounts.make_own(layout.home)
        cgroups.create(layout.daemon_cgroup, trees)
        pki.write_keys(layout)
        link_programs(layout, self.binaries)
        return self.daemons

    def _start_runtime(self, each: NodeLayout, daemons: Daemons, archive: Path) -> None:
        if self.spec.cpus:
            node.pretend_cpus(each, self.spec.cpus)
        node.start(self.layout, each, self.binaries, daemons)
        images.load_into(each, [archive], self.binaries)


def link_programs(layout: Layout, binaries: Binaries) -> None:
    """Link kubectl and helm into the cluster's `bin` folder."""
    for folder, program in ((binaries.kubernetes, "kubectl"), (binaries.helm, "helm")):
        link = layout.bin / program
        link.unlink(missing_ok=True)
        link.symlink_to(folder / program)


def settle_kwok(cluster: Cluster, api: Api, daemons: Daemons) -> None:
    """Bring the number of simulated nodes to that of the spec, and start or stop kwok."""
    spec = cluster.spec
    if spec.kwok:
        daemons.start(kwok.controller(cluster.layout, cluster.binaries))
    elif "kwok" not in daemons.names():
        return
    kwok.settle_nodes(api, cluster.layout, count=spec.kwok, gpus=spec.gpus)
    if not spec.kwok:
        daemons.stop("kwok")


def settle_policies(cluster: Cluster, daemons: Daemons) -> None:
    """Start or stop the enforcement of NetworkPolicies on the nodes that are processes, as the spec says."""
    if cluster.spec.policies:
        enforcer.start(cluster.layout, cluster.nodes(), daemons)
    elif enforcer.PROGRAM in daemons.names():
        enforcer.stop(cluster.nodes(), daemons)


def expected_processes(spec: Spec, layout: Layout) -> list[str]:
    """Return the names of all processes that the cluster should have."""
    nodes = [layout.node(number) for number in range(1, spec.nodes + 1)]
    programs = [*node.PROGRAMS, *([dra.PROGRAM] if spec.dra else [])]
    return [
        *controlplane.PROGRAMS,
        "provisioner",
        *(["kwok"] if spec.kwok else []),
        *([enforcer.PROGRAM] if spec.policies else []),
        *(each.daemon(program) for each in nodes for program in programs),
        *(layout.machine(number).daemon(machine.PROGRAM) for number in range(1, spec.vms + 1)),
    ]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `up`; None leaves a setting as it is."""

    nodes: int | None = None
    gpus: int | None = None
    cpus: int | None = None
    dra: int | None = None
    kwok: int | None = None
    policies: bool | None = None
    vms: int | None = None
    labels: Labels = {}


def change(spec: Spec, asked: Asked) -> Spec:
    """Return the spec with the arguments of `up`. Raises DevclusterError for a change that a cluster cannot make, such
    as fewer nodes.
    """
    wanted = spec.nodes if asked.nodes is None else asked.nodes
    if not 1 <= wanted <= MAX_NODES:
        raise DevclusterError(f"--nodes {wanted}: give 1 to {MAX_NODES}")
    if wanted < spec.nodes:
        raise DevclusterError(
            f"cluster {spec.name} has {spec.nodes} nodes and cannot shrink to {wanted}: take it down first"
        )
    if asked.cpus not in (None, spec.cpus):
        raise DevclusterError(
            f"the nodes of cluster {spec.name} have {spec.cpus or 'the machine’s'} cpus, not {asked.cpus}: "
            "kubelets count them once; take the cluster down first"
        )
    if spec.dra and asked.dra not in (None, spec.dra):
        raise DevclusterError(
            f"the nodes of cluster {spec.name} have {spec.dra} GPUs by DRA, not {asked.dra}: "
            "drivers count them once; take the cluster down first"
        )
    vms = spec.vms if asked.vms is None else asked.vms
    if not spec.vms <= vms <= MAX_MACHINES:
        raise DevclusterError(f"--vm {vms}: cluster {spec.name} has {spec.vms}; give {spec.vms} to {MAX_MACHINES}")
    known = {f"node-{number}" for number in range(1, wanted + 1)} | {f"vm-{number}" for number in range(1, vms + 1)}
    unknown = sorted(set(asked.labels) - known)
    if unknown:
        raise DevclusterError(f"--label names {', '.join(unknown)}, but the nodes are {', '.join(sorted(known))}")
    merged = {name: spec.labels.get(name, {}) | asked.labels.get(name, {}) for name in sorted(known)}
    return msgspec.structs.replace(
        spec,
        nodes=wanted,
        gpus=spec.gpus if asked.gpus is None else asked.gpus,
        dra=spec.dra if asked.dra is None else asked.dra,
        kwok=spec.kwok if asked.kwok is None else asked.kwok,
        policies=spec.policies if asked.policies is None else asked.policies,
        vms=vms,
        labels={name: values for name, values in merged.items() if values},
    )
