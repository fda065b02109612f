"""The `sunkpy` command with its subcommands. Each subcommand imports its code only when it runs, so that, for example,
the operator does not load the client of Slurm.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from sunkpy import __version__
from sunkpy.cli.commands import PEOPLES
from sunkpy.cli.options import EXISTING_FILE, IN_A_POD
from sunkpy.runtime.settings import BadSettings

T = TypeVar("T")

_CONFIG = click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path, dir_okay=False),
    default=IN_A_POD,
    show_default=True,
    help="File with the settings of the process.",
)


@click.group()
@click.version_option(__version__)
def main() -> None:
    """Slurm on Kubernetes: one pool of nodes and one queue for Slurm jobs and pods.

    Example: sunkpy status
    """


@main.command()
@_CONFIG
def operator(config_path: Path) -> None:
    """Run the operator, which keeps a slurmd pod on each node of every NodeSet. One operator serves a Kubernetes
    cluster.

    Example: sunkpy operator --config config.yaml
    """
    from sunkpy.operator.main import main as run

    _run_or_explain(run, config_path)


@main.command()
@_CONFIG
def syncer(config_path: Path) -> None:
    """Run the syncer, which mirrors node state between Kubernetes and Slurm. One syncer serves one Slurm cluster.

    Example: sunkpy syncer --config config.yaml
    """
    from sunkpy.syncer.main import main as run

    _run_or_explain(run, config_path)


@main.command()
@_CONFIG
def scheduler(config_path: Path) -> None:
    """Run the scheduler, which runs pods as Slurm jobs. One scheduler serves one Slurm cluster.

    Example: sunkpy scheduler --config config.yaml
    """
    from sunkpy.scheduler.main import main as run

    _run_or_explain(run, config_path)


@main.command()
@_CONFIG
@click.option("--dry-run", is_flag=True, help="Print what would be changed in slurmdbd, and change nothing.")
@click.option(
    "--values",
    "wanted",
    type=click.Path(path_type=Path),
    default=None,
    help="With --dry-run: compare slurmdbd with the accounts in this file, not with those in --config.",
)
def accounts(config_path: Path, dry_run: bool, wanted: Path | None) -> None:
    """Keep accounts, QoS and users in slurmdbd as the chart's values say. One process serves one Slurm cluster.

    Example: sunkpy accounts --dry-run --values accounts.yaml
    """
    import asyncio

    from sunkpy.accounts.main import look
    from sunkpy.accounts.main import main as run
    from sunkpy.slurm.errors import SlurmError

    if not dry_run:
        _run_or_explain(run, config_path)
        return
    try:
        click.echo(asyncio.run(look(config_path, wanted)))
    except (BadSettings, SlurmError) as error:
        click.echo(f"sunkpy: {error}", err=True)
        sys.exit(1)


@main.command()
@_CONFIG
def logins(config_path: Path) -> None:
    """Start personal login pods on request, and stop unused ones. One process serves one Slurm cluster.

    Example: sunkpy logins --config config.yaml
    """
    from sunkpy.logins.main import main as run

    _run_or_explain(run, config_path)


@main.command("device-plugin")
@_CONFIG
def device_plugin(config_path: Path) -> None:
    """Give pods the GPUs that Slurm gave to their jobs. This is a device plugin of the kubelet; each node with GPUs
    runs one.

    Example: sunkpy device-plugin --config config.yaml
    """
    from sunkpy.deviceplugin.main import main as run

    _run_or_explain(run, config_path)


@main.command()
@click.option(
    "--settings",
    required=True,
    help="The settings themselves, as YAML or JSON text (not a path). sunkpy/volumes/settings.py lists the keys.",
)
def volumes(settings: str) -> None:
    """Serve metrics of how full volumes are, and how old slurmctld's saved state is. The process runs in the pods of
    slurmctld and MariaDB.

    Example: sunkpy volumes --settings '{volumes: {state-slurm-slurmctld-0: /volumes/state}}'
    """
    from sunkpy.volumes.main import main as run

    _run_or_explain(run, settings)


@main.command()
@click.option("--namespace", required=True, help="Namespace of the Secrets.")
@click.option("--slurm-secret", default="", help="Make a Secret of this name with slurm.key (auth/slurm).")
@click.option("--jwt-secret", default="", help="Make a Secret of this name with jwt.key (auth/jwt).")
@click.option(
    "--database-secret",
    "--password-secret",
    "password_secret",
    default="",
    help="Make a Secret of this name with the password of a database or directory.",
)
@click.option("--ssh-host-secret", multiple=True, help="Make a Secret of this name with sshd's host key. Repeatable.")
def keys(
    namespace: str, slurm_secret: str, jwt_secret: str, password_secret: str, ssh_host_secret: tuple[str, ...]
) -> None:
    """Make Secrets with the keys and passwords of a Slurm cluster, its database or its LDAP directory. An existing
    Secret is never changed.

    Example: sunkpy keys --namespace slurm --slurm-secret slurm-key --jwt-secret slurm-jwt-key
    """
    import asyncio

    from sunkpy.install.keys import ensure_keys
    from sunkpy.kube.client import Kube

    wanted = {slurm_secret: "slurm.key", jwt_secret: "jwt.key", password_secret: "password"}
    wanted |= dict.fromkeys(ssh_host_secret, "ssh_host_ed25519_key")

    async def ensure() -> list[str]:
        async with await Kube.connect() as kube:
            return await ensure_keys(kube, namespace=namespace, wanted=wanted)

    for line in asyncio.run(ensure()):
        click.echo(line)


@main.command()
@click.option("--namespace", required=True, help="Namespace of the Secret.")
@click.option("--secret", required=True, help="Make a Secret of this name with tls.crt and tls.key.")
@click.argument("hosts", nargs=-1, required=True)
def certificate(namespace: str, secret: str, hosts: tuple[str, ...]) -> None:
    """Make a Secret with a TLS certificate for these host names. An existing Secret is never changed.

    Example: sunkpy certificate --namespace slurm --secret ldap-tls ldap.slurm.svc
    """
    import asyncio

    from sunkpy.install.keys import ensure_certificate
    from sunkpy.kube.client import Kube

    async def ensure() -> str:
        async with await Kube.connect() as kube:
            return await ensure_certificate(kube, namespace=namespace, secret=secret, hosts=hosts)

    click.echo(asyncio.run(ensure()))


@main.command("slurm-token")
@click.option(
    "--key-file", type=EXISTING_FILE, required=True, help="File with the cluster's jwt.key, which signs the tokens."
)
@click.option("--user", required=True, help="Slurm user of the tokens.")
@click.option(
    "--file", "path", type=click.Path(path_type=Path), required=True, help="Keep the token fresh in this file."
)
@click.option(
    "--page-key-file",
    "page_key",
    type=click.Path(path_type=Path),
    help="Also write the page's session key to this file.",
)
def slurm_token(key_file: Path, user: str, path: Path, page_key: Path | None) -> None:
    """Write a token of Slurm to a file, and renew it, for another container of the pod, which does not have the key.

    Example: sunkpy slurm-token --key-file /keys/jwt.key --user nobody --file /run/slurm/token
    """
    from sunkpy.install.slurm_token import keep_token

    keep_token(key_file, user, path, page_key=page_key)


@main.command("slurm-relay")
@_CONFIG
def slurm_relay(config_path: Path) -> None:
    """Pass requests from standard input on to slurmrestd. Commands of people start it in a pod, by kubectl exec.

    Example: kubectl -n slurm exec -i deploy/slurm-scheduler -- sunkpy slurm-relay
    """
    import asyncio

    from sunkpy.runtime.settings import load
    from sunkpy.scheduler.settings import SchedulerSettings
    from sunkpy.slurm.relay import serve_here

    _run_or_explain(lambda path: asyncio.run(serve_here(load(path, SchedulerSettings).slurm)), config_path)


@main.command("remove-nodesets")
@click.option("--namespace", required=True, help="Namespace of the NodeSets.")
@click.option("--selector", required=True, help="Labels of the NodeSets to remove.")
@click.option("--timeout-seconds", default=3600.0, show_default=True, help="How long to wait until they are gone.")
@click.option("--end-jobs", is_flag=True, help="End running jobs with their slurmd pods, and do not wait for them.")
def remove_nodesets(namespace: str, selector: str, timeout_seconds: float, end_jobs: bool) -> None:
    """Delete NodeSets, and wait until they are gone, before a Slurm cluster is uninstalled.

    Example: sunkpy remove-nodesets --namespace slurm --selector app.kubernetes.io/instance=slurm
    """
    import asyncio

    from sunkpy.install import removal
    from sunkpy.kube.client import Kube
    from sunkpy.kube.errors import KubeError

    async def remove() -> None:
        async with await Kube.connect() as kube:
            await removal.remove_nodesets(
                kube,
                namespace=namespace,
                selector=selector,
                timeout_s=timeout_seconds,
                jobs=removal.Jobs.END if end_jobs else removal.Jobs.AWAIT,
                say=click.echo,
            )

    try:
        asyncio.run(remove())
    except (removal.StillThere, KubeError) as error:
        click.echo(f"sunkpy: {error}", err=True)
        sys.exit(1)


@main.command("upgrade-plan")
@click.argument("release")
@click.argument("chart")
@click.option("--version", default="", help="Version of the chart, as for helm upgrade.")
@click.option("-n", "--namespace", default="", help="Namespace of the release. Default: the kubeconfig's.")
@click.option(
    "-f", "--values", "files", multiple=True, type=EXISTING_FILE, help="File with values, as for helm upgrade."
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="One value, as for helm upgrade.")
@click.option("--reuse-values", is_flag=True, help="Start from the values of the release, as helm upgrade does.")
def upgrade_plan(
    release: str, chart: str, version: str, namespace: str,
    files: tuple[Path, ...], settings: tuple[str, ...], *, reuse_values: bool,
) -> None:  # fmt: skip
    """Print which pods a helm upgrade of chart slurm would replace, and what users would notice. Needs helm.

    Example: sunkpy upgrade-plan slurm charts/slurm -n slurm -f values.yaml
    """
    from sunkpy.install.upgrade_plan import HelmFailed, describe, plan

    options = ["--version", version] if version else []
    options += [word for file in files for word in ("--values", str(file))]
    options += [word for setting in settings for word in ("--set", setting)]
    options += ["--reuse-values"] if reuse_values else []
    try:
        click.echo(describe(plan(release, chart, namespace, options)))
    except HelmFailed as error:
        click.echo(f"sunkpy: {error}", err=True)
        sys.exit(1)


@click.group(name="kubectl sunk", commands=list(PEOPLES))
@click.version_option(__version__)
def kubectl() -> None:
    """Slurm on Kubernetes: commands for users and admins of the pool.

    Example: kubectl sunk explain pod web-0 -n team
    """


for command in PEOPLES:
    main.add_command(command)


def complete() -> None:
    """Print the words that complete the last word after `kubectl sunk`.

    To complete a word, kubectl runs kubectl_complete-sunk with all words so far.
    """
    from click.shell_completion import ShellComplete

    *words, incomplete = sys.argv[1:] or [""]
    for found in ShellComplete(kubectl, {}, "kubectl-sunk", "").get_completions(words, incomplete):
        click.echo(found.value)
    click.echo(":4")  # tells the shell to offer no names of files


def _run_or_explain(run: Callable[[T], None], settings: T) -> None:
    try:
        run(settings)
    except BadSettings as error:
        click.echo(f"sunkpy: {error}", err=True)
        sys.exit(2)
