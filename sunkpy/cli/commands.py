"""The commands for people, in `sunkpy` and in `kubectl sunk`. Each uses only the rights of the person who runs it."""

from __future__ import annotations

import functools
import re
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click

from sunkpy.cli.access import Access
from sunkpy.cli.options import FORM, NO_ANSWER, Form, Shown, answer_of, reaches, say
from sunkpy.runtime.settings import BadSettings

if TYPE_CHECKING:
    from sunkpy.cli.drain import DrainOrder
    from sunkpy.cli.overview import AskPool

_OF_CLUSTER: Final = "Only the Slurm cluster in this namespace. Default: the cluster of --config, or else all clusters."
_WATCH: Final = click.option("-w", "--watch", is_flag=True, help="Repeat the output until Ctrl-C.")
_EVERY: Final = click.option(
    "--every", "every_s", default=5.0, show_default=True, help="With --watch: seconds between two reads."
)
_SET_BY: Final = click.option(
    "--set-by", multiple=True, metavar="WHO", help="Also change drains and cordons that WHO has set. Repeatable."
)
_NODES: Final = click.argument("nodes", metavar="[NODE]...", nargs=-1)
_SELECTOR: Final = click.option(
    "-l", "--selector", default="", help="Act on nodes whose Kubernetes Nodes have these labels, and on each NODE."
)
_TRIAL: Final = click.option(
    "--dry-run", "is_trial", is_flag=True, help="Print what the command would do, and change nothing."
)
_AT_KUBERNETES: Final = click.option(
    "--kubernetes", "door", flag_value="Kubernetes", help="Change only the cordon of the Node in Kubernetes."
)
_AT_SLURM: Final = click.option(
    "--slurm",
    "door",
    flag_value="Slurm",
    help="Change only the drain of the Slurm node, as the Slurm user of the token.",
)


@click.command()
@click.argument("kind", type=click.Choice(["pod", "gang", "job", "node", "nodeset"]))
@click.argument("name")
@FORM
@reaches("Namespace of the pod, gang or NodeSet. Default: the kubeconfig's.")
def explain(access: Access, kind: str, name: str, form: Form) -> None:
    """Explain why a pod, a gang (pods that share one Slurm job) or a job waits or ended, and what to do about it.

    For a node, it prints who has each of its devices. For a NodeSet, it prints how many pods the NodeSet wants, why it
    cannot use some nodes, and what a roll waits for.

    A job is one of Slurm; NAME is its number as squeue prints it: 7, 7_3, 7+1. For a Job of Kubernetes, explain its pod
    or gang. Exit code 1: the object does not exist or cannot be read. 3: Slurm did not answer; the explanation uses
    what the scheduler wrote on the pods.

    Example: kubectl sunk explain pod web-0 -n team -o json
    """
    from sunkpy.cli.explain import ExplainRequest, answer
    from sunkpy.core.overview.job_verbs import is_job_number

    if kind == "job" and ("[" in name or not is_job_number(name)):
        text = f"{name!r} is not the number of a Slurm job; for a Job of Kubernetes: explain gang {name}"
        raise click.BadParameter(text, param_hint="NAME")
    _leave(answer(ExplainRequest.about(access, kind=kind, name=name), form))


@click.command()
@FORM
@_WATCH
@_EVERY
@reaches(_OF_CLUSTER)
def status(access: Access, form: Form, *, watch: bool, every_s: float) -> None:
    """Show the pool on one screen: NodeSets, nodes with their GPUs, jobs and pods, and what waits.

    A node counts once, in the first state that applies: down, drained, busy, ready. Nodes in the same state are one
    row; -o wide has a row for each node. JOBS counts jobs of people, PODS counts pods that Slurm placed. Exit code 1:
    neither Slurm nor Kubernetes could be read. 3: nothing could be read from Slurm. 4: nothing from Kubernetes.

    Example: sunkpy status --watch
    """
    from sunkpy.cli import overview

    _overview(access, overview.status, form, every_s if watch else None)


@click.command()
@FORM
@_WATCH
@_EVERY
@reaches(_OF_CLUSTER)
def queue(access: Access, form: Form, *, watch: bool, every_s: float) -> None:
    """Show jobs and pods that wait, in Slurm's order, with what each waits for and when Slurm expects it to start.

    Pods that are not in Slurm's queue come last. Exit code 1: neither Slurm nor Kubernetes could be read. 3: nothing
    could be read from Slurm. 4: nothing from Kubernetes.

    Example: sunkpy queue -o wide
    """
    from sunkpy.cli import overview

    _overview(access, overview.queue, form, every_s if watch else None)


@click.command("why-drained")
@click.argument("node", default="")
@FORM
@reaches(_OF_CLUSTER)
def why_drained(access: Access, node: str, form: Form) -> None:
    """Show who has closed nodes to new jobs, since when, why, and what opens them again.

    Without NODE, it shows all such nodes. NODE is a node's name in Kubernetes or in Slurm. Exit code 1: there is no
    such node, or neither Slurm nor Kubernetes could be read. 3: nothing could be read from Slurm. 4: nothing from
    Kubernetes.

    Example: sunkpy why-drained gpu-007
    """
    from sunkpy.cli import overview

    _overview(access, functools.partial(overview.why_drained, name=node), form, None)


@click.command()
@click.argument("node")
@FORM
@reaches(_OF_CLUSTER)
def history(access: Access, node: str, form: Form) -> None:
    """Show the history of a node: Events, conditions, health and drains; and which parts of it are not kept.

    NODE is a node's name in Kubernetes or in Slurm. Exit code 1: there is no such node. 3: Slurm did not answer.

    Example: sunkpy history gpu-007
    """
    from sunkpy.cli import overview

    _overview(access, functools.partial(overview.history, name=node), form, None)


@click.command()
@_NODES
@_SELECTOR
@click.option("--reason", required=True, help="Why the node is drained. Everybody can read it.")
@_AT_KUBERNETES
@_AT_SLURM
@_SET_BY
@_TRIAL
@FORM
@reaches(_OF_CLUSTER)
def drain(
    access: Access,
    nodes: tuple[str, ...],
    selector: str,
    reason: str,
    door: str | None,
    set_by: tuple[str, ...],
    form: Form,
    *,
    is_trial: bool,
) -> None:
    """Take nodes out of service: no new job or pod starts on them. Running jobs and pods go on; the output shows when
    they end.

    NODE is a node's name in Kubernetes or in Slurm, or several in Slurm's range syntax. By default, the command cordons
    the Node, and sunkpy drains it in Slurm, too; this needs the right to patch Nodes. With --slurm, it drains the node
    in Slurm; this needs the token of a Slurm operator (--slurm-token-file), because the scheduler's own token is not
    enough. Drains and cordons of others stay, unless --set-by names their owners. If one NODE does not exist, none is
    changed. Exit code 1: a node was not changed. 3: Slurm refused, or did not answer.

    Example: kubectl sunk drain 'rack[1-3]n[01-04]' --reason 'new switch'
    """
    from sunkpy.cli.drain import drain as carry_out
    from sunkpy.core.overview.drained import Door

    order = _order(nodes, selector, form, set_by, is_trial=is_trial)
    _leave(carry_out(access, order, Door(door or Door.KUBERNETES), reason))


@click.command()
@_NODES
@_SELECTOR
@_AT_KUBERNETES
@_AT_SLURM
@_SET_BY
@_TRIAL
@FORM
@reaches(_OF_CLUSTER)
def undrain(
    access: Access,
    nodes: tuple[str, ...],
    selector: str,
    door: str | None,
    set_by: tuple[str, ...],
    form: Form,
    *,
    is_trial: bool,
) -> None:
    """Give nodes back: lift the drains and cordons that you or the people in --set-by have set, and show what remains.

    NODE is a node's name in Kubernetes or in Slurm, or several in Slurm's range syntax. By default, the command acts in
    Kubernetes and in Slurm. If one NODE does not exist, none is changed. Exit code 1: nothing could be lifted on a
    node. 3: Slurm refused, or did not answer.

    Example: kubectl sunk undrain gpu-007 --set-by ann
    """
    from sunkpy.cli.drain import undrain as carry_out
    from sunkpy.core.overview.drained import Door

    order = _order(nodes, selector, form, set_by, is_trial=is_trial)
    _leave(carry_out(access, order, Door(door) if door else None))


@click.command()
@_NODES
@_SELECTOR
@_TRIAL
@FORM
@reaches(_OF_CLUSTER)
def verify(access: Access, nodes: tuple[str, ...], selector: str, form: Form, *, is_trial: bool) -> None:
    """Run the site's check (compute.verify of chart slurm) on nodes, and give them back if they pass.

    NODE is a node's name in Kubernetes or in Slurm, or several in Slurm's range syntax. sunkpy drains each node; when
    its jobs have ended, its next slurmd pod runs the check; if the check passes, the node returns. At most
    `health.maxPercent` of a pool is checked at a time, but three nodes are always allowed. Run it also for a node whose
    last check failed, once you have mended the node. Drains of others stay. This needs the right to patch Nodes. Exit
    code 1: a node was left as it is.

    Example: kubectl sunk verify 'gpu-[001-008]'
    """
    from sunkpy.cli.drain import verify as carry_out

    _leave(carry_out(access, _order(nodes, selector, form, (), is_trial=is_trial)))


def _order(nodes: tuple[str, ...], selector: str, form: Form, set_by: tuple[str, ...], *, is_trial: bool) -> DrainOrder:
    from sunkpy.cli.drain import DrainOrder
    from sunkpy.core.model.hostlist import BadHostlist, expand

    if not nodes and not selector:
        raise click.UsageError("name nodes, or choose them by their labels: -l")
    try:
        names = tuple(name for text in nodes for name in expand(text))
    except BadHostlist as error:
        raise click.BadParameter(str(error), param_hint="NODE") from error
    return DrainOrder(nodes=names, selector=selector, form=form, set_by=set_by, is_trial=is_trial)


@click.command()
@click.argument("nodeset")
@click.argument("verb", type=click.Choice(["status", "pause", "resume", "now"]), default="status")
@click.option("--max-unavailable", default="", metavar="PODS", help="Set maxUnavailable of the NodeSet: 3, or 25%.")
@FORM
@reaches("Namespace of the NodeSet. Default: the kubeconfig's, or the only one with such a NodeSet.")
def roll(access: Access, nodeset: str, verb: str, max_unavailable: str, form: Form) -> None:
    """Show how far the roll of a NodeSet is and which jobs it waits for; pause it, resume it, or do all nodes now.

    `now` sets maxUnavailable to 100%, unless you give --max-unavailable, and removes maintenance windows. With 100%,
    the slurmd pods of idle nodes are replaced at once; all other nodes take no new jobs, and their slurmd pods are
    replaced when their jobs have ended. `now` ends no job. Changes need the right to patch NodeSets. Exit code 1: there
    is nothing to change, or no such NodeSet. 3: Slurm did not answer.

    Example: kubectl sunk roll compute pause
    """
    from sunkpy.cli.roll import RollOrder
    from sunkpy.cli.roll import roll as carry_out
    from sunkpy.core.overview.roll import Verb

    if max_unavailable and not re.fullmatch(r"[1-9][0-9]*|([1-9][0-9]?|100)%", max_unavailable):
        raise click.BadParameter("a number above 0, or a percentage from 1% to 100%", param_hint="--max-unavailable")
    if max_unavailable and verb == "status":
        raise click.UsageError("status changes nothing: give --max-unavailable with pause, resume or now")
    limit = int(max_unavailable) if max_unavailable.isdecimal() else max_unavailable or None
    _leave(carry_out(access, RollOrder(nodeset=nodeset, verb=Verb(verb), max_unavailable=limit, form=form)))


@click.command()
@click.argument("verb", type=click.Choice(["hold", "release", "requeue", "cancel"]))
@click.argument("numbers", metavar="JOB...", nargs=-1, required=True)
@_TRIAL
@FORM
@reaches(_OF_CLUSTER)
def jobs(access: Access, verb: str, numbers: tuple[str, ...], form: Form, *, is_trial: bool) -> None:
    """Hold, release, requeue or cancel jobs of people or of pods.

    If a job stands for pods, the command names them and prints what happens to them.

    JOB is a number as squeue prints it: 7, 7_3, 7_[3-9], 7+1. scontrol or scancel runs in slurmctld's pod; for that you
    need the right to create pods/exec there. A job of pods is never requeued. A waiting job of pods is not cancelled,
    because its pods would get another job: the output names the command to use instead. Exit code 1: a job was left
    alone. 3: Slurm refused, or did not answer.

    Example: kubectl sunk jobs hold 812 813
    """
    from sunkpy.cli.jobs import JobOrder, act
    from sunkpy.cli.pod_exec import ExecFailed
    from sunkpy.core.overview.job_verbs import JobVerb, is_job_number

    if wrong := [number for number in numbers if not is_job_number(number)]:
        raise click.BadParameter(f"{wrong[0]!r} is not the number of a job", param_hint="JOB")
    try:
        _leave(act(access, JobOrder(verb=JobVerb(verb), numbers=numbers, form=form, is_trial=is_trial)))
    except ExecFailed as error:
        click.echo(f"sunkpy: {error}", err=True)
        sys.exit(NO_ANSWER)


@click.command()
@FORM
@click.option("--canary", is_flag=True, help="Also run a test job and a test pod.")
@click.option(
    "--limit", "limit_s", default=120.0, show_default=True, help="How many seconds the test job and pod may each take."
)
@click.option(
    "--exec", "by_exec", is_flag=True, help="Also run the skipped checks in the scheduler's pod, by kubectl exec."
)
@reaches("Namespace of the Slurm cluster and of the test pod. Default: the namespace of --config, or else all.")
def doctor(access: Access, form: Form, *, canary: bool, limit_s: float, by_exec: bool) -> None:
    """Check an installation: what was tried, what was found, what to do. Without --canary, it only reads.

    With --canary, it runs a test job and a test pod. The job asks for a GPU if Slurm has some, and compares the device
    that it sees with the one that Slurm gave it. Then slurmdbd must have recorded the end of the job. The job belongs
    to the Slurm user of the token, or else of the scheduler. The pod is created with your rights, and removed again.

    Exit code 0: all is well. 1: a check warns, or was skipped. 2: a check failed.

    Example: kubectl sunk doctor -n slurm --exec --canary
    """
    from sunkpy.cli.canary import Patience
    from sunkpy.cli.doctor import examine
    from sunkpy.cli.pod_exec import ExecFailed

    try:
        _leave(examine(access, form, Patience(limit_s=limit_s) if canary else None, by_exec=by_exec))
    except ExecFailed as error:
        click.echo(f"sunkpy: {error}", err=True)
        sys.exit(NO_ANSWER)


@click.command()
@click.argument("what", type=click.Choice(["list", "verify"]), default="list")
@FORM
@click.option("--limit", "limit_s", default=3600.0, show_default=True, help="How many seconds verify may take.")
@reaches("Namespace of the Slurm cluster. Default: the namespace of --config, or else all.")
def backups(access: Access, what: str, form: Form, limit_s: float) -> None:
    """Show the backups of slurmctld's queue and of the database: the newest, how many, where, and what went wrong.

    `list` shows what the last run of each CronJob reported; -o wide has a row for each backup. `verify` creates a Job
    for each CronJob. The Job reads the backups on the volume and the newest one in the bucket, and compares checksums
    of the others in the bucket. Exit code 1: a backup is late, missing or broken.

    Example: kubectl sunk backups verify -n slurm
    """
    from sunkpy.cli.backups import list_backups, verify_backups

    _leave(list_backups(access, form) if what == "list" else verify_backups(access, form, limit_s))


@click.command("support-bundle")
@click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write. Default: sunkpy-support-TIME.tar.gz in the current folder.",
)
@reaches("Namespace of the Slurm cluster. Default: the namespace of --config, or else all.")
def support_bundle(access: Access, file: Path | None) -> None:
    """Write one file for somebody who helps you: objects, states, logs of sunkpy and of Slurm's daemons.

    Of Secrets, only the names are read. Values of environments, arguments, and text that looks like a key or password
    are left out. The file has names of people, jobs and nodes: read it before you send it. Exit code 1: the file could
    not be written, or the apiserver did not answer.

    Example: kubectl sunk support-bundle -n slurm --file bundle.tar.gz
    """
    from sunkpy.cli.support_bundle import make_bundle

    target = file or Path(time.strftime("sunkpy-support-%Y%m%d-%H%M%S.tar.gz", time.gmtime()))
    try:
        _leave(make_bundle(access, target))
    except OSError as error:
        click.echo(f"sunkpy: write {target}: {error.strerror}", err=True)
        sys.exit(NO_ANSWER)


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script that makes a shell complete the words of sunkpy. For kubectl sunk, kubectl's own completion works.

    Example: source <(sunkpy completion bash)
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(click.get_current_context().find_root().command, {}, "sunkpy", "_SUNKPY_COMPLETE").source())


@click.command()
@click.option(
    "--port", default=8017, show_default=True, help="Port of the page. Without --serve, only this machine can reach it."
)
@click.option(
    "--every",
    "every_s",
    default=5.0,
    show_default=True,
    help="Seconds between two reads of the pool, while somebody looks at the page.",
)
@click.option(
    "--dashboards",
    default="",
    help="Link to the Grafana dashboards whose URLs begin with this: https://grafana.example.com/d/NAMESPACE-RELEASE-.",
)
@click.option(
    "--serve",
    "is_shared",
    is_flag=True,
    help="Serve the page to everybody, in a cluster. Each viewer logs in with a token of their own.",
)
@click.option("--private-jobs", is_flag=True, help="With --serve: slurm.conf has PrivateData=jobs; the page says so.")
@click.option(
    "--session-key-file",
    type=click.Path(path_type=Path),
    help="With --serve: file with the key for sessions, which sunkpy slurm-token writes.",
)
@reaches(_OF_CLUSTER)
def page(
    access: Access,
    *,
    port: int,
    every_s: float,
    dashboards: str,
    is_shared: bool,
    private_jobs: bool,
    session_key_file: Path | None,
) -> None:
    """Show the pool live in a browser: nodes, the queue of jobs and pods, hand-overs, and an explanation of each.

    Without --serve, the command prints a link that only you have, and the page shows what your kubeconfig may read,
    until Ctrl-C.

    Example: kubectl sunk page -n slurm
    """
    from sunkpy.cli import page as pages

    options = pages.Options(
        port=port,
        every_s=every_s,
        dashboards=dashboards,
        private_jobs=private_jobs,
        session_key_file=session_key_file,
    )
    try:
        if is_shared:
            pages.serve(access, options)
        else:
            answer_of(pages.show(access, options, click.echo))
    except (BadSettings, OSError) as error:
        click.echo(f"sunkpy: {error}", err=True)
        sys.exit(NO_ANSWER)


def _overview(access: Access, ask: AskPool, form: Form, every_s: float | None) -> None:
    from sunkpy.cli.overview import ask_again, ask_once

    def on_answer(shown: Shown) -> None:
        click.clear()
        say(shown.text)

    if every_s is not None:
        answer_of(ask_again(access, ask, form, on_answer, every_s))
        return
    _leave(ask_once(access, ask, form))


def _leave(question: Coroutine[object, object, Shown]) -> NoReturn:
    shown = answer_of(question)
    say(shown.text)
    sys.exit(shown.exit_code)


PEOPLES: Final = (
    explain,
    status,
    queue,
    why_drained,
    history,
    page,
    drain,
    undrain,
    roll,
    verify,
    jobs,
    doctor,
    backups,
    support_bundle,
    completion,
)
