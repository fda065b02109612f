"""A cluster by name: the Python interface of this package."""

import contextlib
import time
from collections.abc import Callable, Iterator
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
from devcluster.layout import MAX_NODES, Layout, NodeLayout, check_name, check_root
from devcluster.policies import enforcer
from devcluster.process import Daemons
from devcluster.state import Spec

Labels = dict[str, dict[str, str]]


def _quiet(_line: str) -> None:
    return


class Cluster:
    """One cluster. Making the object touches nothing; ``up`` and ``down`` do."""

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
        """What the cluster was last asked to be; raises when there is none."""
        spec = state.load_spec(self.root, self.name)
        if spec is None:
            raise DevclusterError(
                f"there is no cluster {self.name!r} in {self.root}: `python -m devcluster up` makes one"
            )
        return spec

    @property
    def layout(self) -> Layout:
        """Paths and addresses."""
        return Layout(root=self.root, name=self.name, slot=self.spec.slot)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.root / self.name / "admin.conf"

    @property
    def bin(self) -> Path:
        """Folder with kubectl and helm."""
        return self.root / self.name / "bin"

    @property
    def api(self) -> Api:
        """A client with the administrator's rights."""
        return Api(self.kubeconfig)

    @property
    def daemons(self) -> Daemons:
        """The processes of the cluster."""
        layout, trees = self.layout, cgroups.hierarchies()
        return Daemons(layout.home, cgroups.tracking(trees).mount / layout.daemon_cgroup / "cgroup.procs")

    @property
    def fault(self) -> Faults:
        """Ways to break the cluster and to mend it."""
        return Faults(self.layout, self.binaries, self.daemons, self.spec)

    def nodes(self) -> list[NodeLayout]:
        """The real nodes."""
        layout = self.layout
        return [layout.node(number) for number in range(1, self.spec.nodes + 1)]

    def processes(self) -> dict[str, int | None]:
        """Process name -> pid, None for one that should run and does not."""
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
        labels: Labels | None = None,
    ) -> None:
        """Make the cluster, or start what is dead of it; what is not given stays as it was (first time: 3 nodes)."""
        with self._locked():
            self._preflight()
            packages.ensure(progress=self.progress)
            asked = Asked(
                nodes=nodes, gpus=gpus, cpus=cpus, dra=dra_gpus, kwok=kwok_nodes, policies=policies, labels=labels or {}
            )
            spec = self._settle(asked)
            if spec.policies:
                packages.ensure(enforcer.PACKAGES, progress=self.progress)
            optional = [product for product, count in ((KWOK, spec.kwok), (DRA_DRIVER, spec.dra)) if count]
            products = [KUBERNETES, CONTAINERD, COREDNS, PAUSE, HELM, *optional]
            self.binaries.ensure(products, progress=self.progress)
            self._start(spec)

    def down(self) -> None:
        """Remove every trace of the cluster; does nothing when there is none."""
        with self._locked():
            spec = state.load_spec(self.root, self.name)
            if spec is None:
                return
            cleanup.take_down(Layout(root=self.root, name=self.name, slot=spec.slot))
            self.progress(f"cluster {self.name} is gone")

    def load(self, archives: list[Path]) -> dict[str, list[str]]:
        """Load image archives into every node; node -> tags imported (those it had are skipped)."""
        return images.load(self.nodes(), archives, self.binaries)

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

    def _start(self, spec: Spec) -> None:
        begin = time.monotonic()
        layout, daemons = self.layout, self._prepare()
        nodes = self.nodes()
        names = [each.name for each in nodes]
        with ThreadPoolExecutor(max_workers=len(nodes) + 1) as pool:
            archive = images.pause_archive(self.binaries)
            runtimes = pool.map(lambda each: self._start_runtime(each, daemons, archive), nodes)
            api = controlplane.start_apiserver(layout, self.binaries, daemons, node_names=names)
            self.progress(f"apiserver ready at {layout.server} after {time.monotonic() - begin:.1f} s")
            controlplane.start_rest(layout, self.binaries, daemons, api)
            storage.apply(api)
            daemons.start(storage.provisioner(layout))
            list(runtimes)
        if spec.dra:
            dra.expect_wipe(api, [each for each in nodes if daemons.pid(each.daemon("kubelet")) is None])
        node.start_kubelets(layout, nodes, self.binaries, daemons, api)
        for each in nodes:
            node.dress(api, each.name, labels=spec.labels.get(each.name, {}), gpus=spec.gpus)
        if spec.dra:
            dra.start(layout, nodes, self.binaries, daemons, devices=spec.dra)
        self._settle_kwok(spec, api, daemons)
        if spec.policies:
            enforcer.start(layout, nodes, daemons)
        elif enforcer.PROGRAM in daemons.names():
            enforcer.stop(nodes, daemons)
        for name in expected_processes(spec, layout):
            daemons.require(name)
        controlplane.await_namespace(api)
        self.progress(f"{len(nodes)} nodes Ready after {time.monotonic() - begin:.1f} s")

    def _settle_kwok(self, spec: Spec, api: Api, daemons: Daemons) -> None:
        if spec.kwok:
            daemons.start(kwok.controller(self.layout, self.binaries))
        elif "kwok" not in daemons.names():
            return
        kwok.settle_nodes(api, self.layout, count=spec.kwok, gpus=spec.gpus)
        if not spec.kwok:
            daemons.stop("kwok")

    def _prepare(self) -> Daemons:
        layout, trees = self.layout, cgroups.hierarchies()
        for folder in (layout.home, layout.logs, layout.volumes, layout.bin):
            folder.mkdir(parents=True, exist_ok=True)
        mounts.make_own(layout.home)
        cgroups.create(layout.daemon_cgroup, trees)
        pki.write_keys(layout)
        for folder, program in ((self.binaries.kubernetes, "kubectl"), (self.binaries.helm, "helm")):
            link = layout.bin / program
            link.unlink(missing_ok=True)
            link.symlink_to(folder / program)
        return self.daemons

    def _start_runtime(self, each: NodeLayout, daemons: Daemons, archive: Path) -> None:
        if self.spec.cpus:
            node.pretend_cpus(each, self.spec.cpus)
        node.start(self.layout, each, self.binaries, daemons)
        images.load_into(each, [archive], self.binaries)


def expected_processes(spec: Spec, layout: Layout) -> list[str]:
    """Names of all processes that make up the cluster."""
    nodes = [layout.node(number) for number in range(1, spec.nodes + 1)]
    programs = [*node.PROGRAMS, *([dra.PROGRAM] if spec.dra else [])]
    return [
        *controlplane.PROGRAMS,
        "provisioner",
        *(["kwok"] if spec.kwok else []),
        *([enforcer.PROGRAM] if spec.policies else []),
        *(each.daemon(program) for each in nodes for program in programs),
    ]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What `up` was asked for; None: as it is."""

    nodes: int | None = None
    gpus: int | None = None
    cpus: int | None = None
    dra: int | None = None
    kwok: int | None = None
    policies: bool | None = None
    labels: Labels = {}


def change(spec: Spec, asked: Asked) -> Spec:
    """``spec`` with what was asked for; a cluster grows, it does not shrink."""
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
    known = {f"node-{number}" for number in range(1, wanted + 1)}
    unknown = sorted(set(asked.labels) - known)
    if unknown:
        raise DevclusterError(f"--label names {', '.join(unknown)}, but the nodes are node-1 to node-{wanted}")
    merged = {name: spec.labels.get(name, {}) | asked.labels.get(name, {}) for name in sorted(known)}
    return msgspec.structs.replace(
        spec,
        nodes=wanted,
        gpus=spec.gpus if asked.gpus is None else asked.gpus,
        dra=spec.dra if asked.dra is None else asked.dra,
        kwok=spec.kwok if asked.kwok is None else asked.kwok,
        policies=spec.policies if asked.policies is None else asked.policies,
        labels={name: values for name, values in merged.items() if values},
    )
