"""The command line of ``python -m devcluster``."""

import sys
import time
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from devcluster import checks, state
from devcluster.binaries import PRODUCTS
from devcluster.cluster import Cluster
from devcluster.errors import DevclusterError
from devcluster.layout import Layout
from devcluster.operators import catalog
from devcluster.operators.build import build
from devcluster.operators.install import install, remove

OUT = Console(highlight=False, soft_wrap=True)


class _Progress:
    """Prints progress as plain lines with the time since the start."""

    def __init__(self) -> None:
        self.begin = time.monotonic()

    def __call__(self, line: str) -> None:
        stamp = f"[{time.monotonic() - self.begin:6.1f} s]"
        click.echo(f"{stamp} {line}", err=True)


class _Group(click.Group):
    """Turns a DevclusterError into lines on stderr and exit code 1."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except DevclusterError as error:
            for line in str(error).splitlines():
                click.echo(f"devcluster: {line}", err=True)
            sys.exit(1)


name_option = click.option("--name", default=state.DEFAULT_NAME, show_default=True, help="Name of the cluster.")


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """A real Kubernetes as processes on this machine."""


def parse_labels(labels: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """Return the labels of options ``node-1=key=value`` as {node: {key: value}}."""
    found: dict[str, dict[str, str]] = {}
    for label in labels:
        parts = label.split("=", 2)
        if len(parts) != 3 or not all(parts[:2]):
            raise DevclusterError(f"--label {label!r}: write NODE=KEY=VALUE, e.g. node-1=zone=a")
        found.setdefault(parts[0], {})[parts[1]] = parts[2]
    return found


@main.command()
@name_option
@click.option("--nodes", type=int, help="Number of real nodes; 3 for a new cluster.")
@click.option("--gpus", type=int, help="Fake nvidia.com/gpu per node.")
@click.option("--cpus", type=int, help="CPUs that each node offers; 0 for those of the machine.")
@click.option("--dra", type=int, help="Pretend GPUs of gpu.example.com per node, by Dynamic Resource Allocation.")
@click.option("--kwok", type=int, help="Number of simulated nodes in addition to the real ones.")
@click.option("--policies/--no-policies", default=None, help="Whether NetworkPolicies are enforced.")
@click.option("--vm", "vms", type=int, help="Number of virtual machines that are nodes, with a kernel of their own.")
@click.option(
    "--image",
    "archives",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Image archive that new virtual machines have on their disks; repeatable.",
)
@click.option("--label", "labels", multiple=True, metavar="NODE=KEY=VALUE", help="Label of a node; repeatable.")
def up(
    name: str,
    *,
    nodes: int | None,
    gpus: int | None,
    cpus: int | None,
    dra: int | None,
    kwok: int | None,
    policies: bool | None,
    vms: int | None,
    labels: tuple[str, ...],
    archives: tuple[Path, ...],
) -> None:
    """Make the cluster, or start its dead processes."""
    cluster = Cluster(name, progress=_Progress())
    cluster.up(
        nodes, gpus=gpus, cpus=cpus, dra_gpus=dra, kwok_nodes=kwok, policies=policies, vms=vms,
        labels=parse_labels(labels), archives=archives,
    )  # fmt: skip
    click.echo(f'to use it: eval "$(.venv/bin/python -m devcluster env --name {name})"', err=True)


@main.command()
@name_option
def down(name: str) -> None:
    """Remove every trace of the cluster."""
    Cluster(name, progress=_Progress()).down()


@main.command()
@name_option
def status(name: str) -> None:
    """Print the processes and nodes of the cluster; exit code 1 if a process is dead."""
    cluster = Cluster(name)
    processes = cluster.processes()
    table = Table("process", "pid", box=None)
    for process, pid in processes.items():
        table.add_row(process, str(pid) if pid else "[red]dead[/red]")
    OUT.print(f"cluster {name}: {cluster.spec.nodes} nodes, folder {cluster.layout.home}, {cluster.layout.server}")
    OUT.print(table)
    if not all(processes.values()):
        raise DevclusterError("some processes are dead: `.venv/bin/python -m devcluster up` starts them")


@main.command()
@name_option
@click.argument("archives", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
def load(name: str, archives: tuple[Path, ...]) -> None:
    """Load image archives into every node."""
    for node, tags in Cluster(name).load(list(archives)).items():
        click.echo(f"{node}: {', '.join(tags) or 'nothing new'}")


@main.command()
@name_option
def env(name: str) -> None:
    """Print the variables with which a shell uses the cluster: eval "$(... env)"."""
    cluster = Cluster(name)
    _ = cluster.spec
    click.echo(f"export KUBECONFIG={cluster.kubeconfig} PATH={cluster.bin}:$PATH")


@main.command()
@name_option
def doctor(name: str) -> None:
    """Say what prevents a cluster on this machine."""
    root = state.default_root()
    known = state.load_spec(root, name)
    facts = checks.read_facts(root)
    layout = Layout(root=root, name=name, slot=known.slot if known else 0)
    problems = checks.problems(facts, layout, is_running=known is not None)
    if problems:
        raise DevclusterError("\n".join(problems))
    if facts.missing_packages:
        click.echo(f"`up` will install: {' '.join(facts.missing_packages)}")
    click.echo("nothing stands in the way")


@main.command()
@click.argument("names", nargs=-1, metavar="[NAME]…")
def programs(names: tuple[str, ...]) -> None:
    """Download or build programs of clusters and tests into the cache; all of them without NAMES."""
    known = {product.name: product for product in PRODUCTS}
    if unknown := sorted(set(names) - set(known)):
        raise DevclusterError(f"no program is called {', '.join(unknown)}: there are {', '.join(known)}")
    Cluster().binaries.ensure([known[name] for name in names or known], progress=_Progress())


@main.group()
def operators() -> None:
    """Build, install and remove real workload operators (jobset, kueue, kuberay …)."""


@operators.command("build")
@click.argument("names", nargs=-1)
def operators_build(names: tuple[str, ...]) -> None:
    """Build operators into the cache; all of them without NAMES."""
    each = [one for one in catalog.OPERATORS if not names or one.name in names]
    build(Cluster().binaries, each, progress=_Progress())


@operators.command("install")
@name_option
@click.argument("names", nargs=-1, required=True)
def operators_install(name: str, names: tuple[str, ...]) -> None:
    """Install operators, and the operators that they need."""
    install(Cluster(name, progress=_Progress()), catalog.select(names))


@operators.command("remove")
@name_option
@click.argument("names", nargs=-1, required=True)
def operators_remove(name: str, names: tuple[str, ...]) -> None:
    """Remove operators, with all their objects."""
    remove(Cluster(name, progress=_Progress()), [one for one in catalog.OPERATORS if one.name in names])


@main.group()
def fault() -> None:
    """Break the cluster on purpose, and mend it."""


@fault.command("kubelet-stop")
@name_option
@click.argument("node")
def kubelet_stop(name: str, node: str) -> None:
    """Kill the kubelet of NODE."""
    Cluster(name).fault.kubelet_stop(node)


@fault.command("kubelet-start")
@name_option
@click.argument("node")
def kubelet_start(name: str, node: str) -> None:
    """Start the kubelet of NODE again."""
    Cluster(name).fault.kubelet_start(node)


@fault.command("driver-stop")
@name_option
@click.argument("node")
def driver_stop(name: str, node: str) -> None:
    """Kill the DRA driver of NODE."""
    Cluster(name).fault.driver_stop(node)


@fault.command("driver-start")
@name_option
@click.argument("node")
def driver_start(name: str, node: str) -> None:
    """Start the DRA driver of NODE again."""
    Cluster(name).fault.driver_start(node)


@fault.command("cut")
@name_option
@click.argument("node")
def cut(name: str, node: str) -> None:
    """Cut NODE off the network."""
    Cluster(name).fault.cut(node)


@fault.command("mend")
@name_option
@click.argument("node")
def mend(name: str, node: str) -> None:
    """Connect NODE again."""
    Cluster(name).fault.mend(node)


@fault.command("power-off")
@name_option
@click.argument("node")
def power_off(name: str, node: str) -> None:
    """Switch NODE off: its processes and its network are gone at once."""
    Cluster(name).fault.power_off(node)


@fault.command("power-on")
@name_option
@click.argument("node")
def power_on(name: str, node: str) -> None:
    """Switch NODE on again."""
    Cluster(name).fault.power_on(node)


@fault.command("kill-apiserver")
@name_option
def kill_apiserver(name: str) -> None:
    """SIGKILL the apiserver."""
    Cluster(name).fault.kill_apiserver()


@fault.command("start-apiserver")
@name_option
def start_apiserver(name: str) -> None:
    """Start the apiserver again."""
    Cluster(name).fault.start_apiserver()
