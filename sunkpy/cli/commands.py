"""The commands for people, the same in `sunkpy` and `kubectl sunk`, each with the rights of the person who asks."""

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

_OF_CLUSTER: Final = "Keep to the Slurm cluster in this namespace. Left out: the cluster of --config, or else all."
_WATCH: Final = click.option("-w", "--watch", is_flag=True, help="Show it again and again, until Ctrl-C.")
_EVERY: Final = click.option(
    "--every", "every_s", default=5.0, show_default=True, help="With --watch: seconds between two reads."
)
_SET_BY: Final = click.option("--set-by", multiple=True, metavar="WHO", help="Also change what WHO has set.")
_NODES: Final = click.argument("nodes", metavar="[NODE]...", nargs=-1)
_SELECTOR: Final = click.option(
    "-l", "--selector", default="", help="Also take the pool's nodes that match this label selector."
)
_TRIAL: Final = click.option(
    "--dry-run", "is_trial", is_flag=True, help="Say what the command would do, and do nothing."
)
_AT_KUBERNETES: Final = click.option(
    "--kubernetes", "door", flag_value="Kubernetes", help="In Kubernetes: act on the cordon of the Node."
)
_AT_SLURM: Final = click.option(
    "--slurm",
    "door",
    flag_value="Slurm",
    help="In Slurm: act on the drain of the Slurm node, as the user of the token.",
)


@click.command()
@click.argument("kind", type=click.Choice(["pod", "gang", "job", "node", "nodeset"]))
@click.argument("name")
@FORM
@reaches("Namespace of the pod, gang or NodeSet; without it, that of the kubeconfig.")
def explain(access: Access, kind: str, name: str, form: Form) -> None:
    """Say why a pod, gang or job waits or ended, and what to do about it.

    For a node, it says who has each of its devices. For a NodeSet, it says what is wanted, why a node is not feasible,
    and what a roll waits for.

    NAME of a job is its number as squeue prints it, of either door: 7, 7_3, 7+1. Exit code 1: there is no such thing,
    or nothing could be read of it. 3: Slurm did not answer; the explanation uses what the scheduler wrote on the pods.

    Example: kubectl sunk explain pod web-0 -n team -o json
    """
    from sunkpy.cli.explain import ExplainRequest, answer
    from sunkpy.core.overview.job_verbs import is_job_number

    if kind == "job" and ("[" in name or not is_job_number(name)):
        raise click.BadParameter(f"{name!r} is not the number of a job", param_hint="NAME")
    _leave(answer(ExplainRequest.about(access, kind=kind, name=name), form))


@click.command()
@FORM
@_WATCH
@_EVERY
@reaches(_OF_CLUSTER)
def status(access: Access, form: Form, *, watch: bool, every_s: float) -> None:
    """Show the pool on one screen: NodeSets, nodes with their GPUs, jobs and pods, and what waits.

    Each node counts once: as down, else as drained, else as busy, else as ready. Equal nodes are one row; -o wide has
    a row for each. JOBS are those of people, PODS those that have a node from Slurm. Exit code 1: neither side could be
    read. 3, 4: the half of Slurm, or of Kubernetes, is missing.

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
    """Show what waits at both doors, in Slurm's order, with what it waits for and when Slurm expects it to start.

    Pods that are not in Slurm's queue come last. Exit code 1: neither side could be read. 3, 4: the half of Slurm, or
    of Kubernetes, is missing.

    Example: sunkpy queue -o wide
    """
    from sunkpy.cli import overview

    _overview(access, overview.queue, form, every_s if watch else None)


@click.command("why-drained")
@click.argument("node", default="")
@FORM
@reaches(_OF_CLUSTER)
def why_drained(access: Access, node: str, form: Form) -> None:
    """Say who keeps nodes from taking jobs, since when, and what lifts it.

    Without NODE, it says this for all such nodes. NODE is its name in Kubernetes or in Slurm. Exit code 1: there is no
    such node. 3: the half of Slurm is missing.

    Example: sunkpy why-drained gpu-007
    """
    from sunkpy.cli import overview

    _overview(access, functools.partial(overview.why_drained, name=node), form, None)


@click.command()
@click.argument("node")
@FORM
@reaches(_OF_CLUSTER)
def history(access: Access, node: str, form: Form) -> None:
    """Show what is known of the past of a node, and what cannot be known.

    NODE is its name in Kubernetes or in Slurm. Exit code 1: there is no such node. 3: Slurm did not answer.

    Example: sunkpy history gpu-007
    """
    from sunkpy.cli import overview

    _overview(access, functools.partial(overview.history, name=node), form, None)


@click.command()
@_NODES
@_SELECTOR
@click.option("--reason", required=True, help="The reason, which others will read.")
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
    """Take nodes out of service: nothing new starts there, jobs and pods end in their own time, which is shown.

    NODE is its name in Kubernetes or in Slurm, or several in Slurm's range syntax. Left out the door, its Node is
    cordoned, which needs the right to patch Nodes, and Slurm drains it for that; in Slurm alone it needs a token of one
    of Slurm's operators, which the user of the scheduler's pod is not. What others have set stays, unless they are
    named. If one NODE does not exist, none is changed. Exit code 1: a node was not changed. 3: Slurm did not do it.

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
    """Give nodes back: lift what you have set, or what those have set whom you name, and say what else holds them.

    NODE is its name in Kubernetes or in Slurm, or several in Slurm's range syntax. Left out the door, at both. If one
    NODE does not exist, none is changed. Exit code 1: of a node nothing was lifted. 3: Slurm did not do it.

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
    """Have nodes checked by the site's check (compute.verify of chart slurm), and given back when they pass.

    NODE is its name in Kubernetes or in Slurm, or several in Slurm's range syntax. Each is drained, checked by its next
    slurmd pod once its jobs have ended, and returns; at most `health.maxPercent` of a pool at a time. It is the way
    back of a node whose check has failed, too. Drains of others stay. It needs the right to patch Nodes. Exit code 1: a
    node was left as it is.

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
@click.option(
    "--max-unavailable", default="", metavar="PODS", help="How many pods may be away at a time from now on: 3, or 25%."
)
@FORM
@reaches("Namespace of the NodeSet; without it, that of the kubeconfig, or the only one with such a NodeSet.")
def roll(access: Access, nodeset: str, verb: str, max_unavailable: str, form: Form) -> None:
    """Show how the roll of a NodeSet stands and which jobs it waits for; pause it, resume it, or take all nodes now.

    `now` sets maxUnavailable to 100%: idle nodes are replaced at once, all others take no new jobs and are replaced as
    soon as their jobs have ended. No job ends for it. It needs the right to patch NodeSets. Exit code 1: there is
    nothing to change, or no such NodeSet. 3: Slurm did not answer.

    Example: kubectl sunk roll compute pause
    """
    from sunkpy.cli.roll import RollOrder
    from sunkpy.cli.roll import roll as carry_out
    from sunkpy.core.overview.roll import Verb

    if max_unavailable and not re.fullmatch(r"[1-9][0-9]*|([1-9][0-9]?|100)%", max_unavailable):
        raise click.BadParameter("a number above 0, or a percentage from 1% to 100%", param_hint="--max-unavailable")
    if max_unavailable and verb == "status":
        raise click.UsageError("status changes nothing: --max-unavailable goes with pause, resume or now")
    limit = int(max_unavailable) if max_unavailable.isdecimal() else max_unavailable or None
    _leave(carry_out(access, RollOrder(nodeset=nodeset, verb=Verb(verb), max_unavailable=limit, form=form)))


@click.command()
@click.argument("verb", type=click.Choice(["hold", "release", "requeue", "cancel"]))
@click.argument("numbers", metavar="JOB...", nargs=-1, required=True)
@_TRIAL
@FORM
@reaches(_OF_CLUSTER)
def jobs(access: Access, verb: str, numbers: tuple[str, ...], form: Form, *, is_trial: bool) -> None:
    """Hold, release, requeue or cancel jobs, whether people or pods made them.

    If a job stands for pods, the command names them and says what follows for them.

    JOB is a number as squeue prints it: 7, 7_3, 7_[3-9], 7+1. Slurm's own command runs in slurmctld's pod, which needs
    the right to create pods/exec there. A job of pods is never queued again. A waiting one is not cancelled, because
    its pods would get another job: the output names the command to use instead. Exit code 1: a job was left alone. 3:
    Slurm said no, or did not answer.

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
@click.option("--canary", is_flag=True, help="Also run a job and a pod.")
@click.option(
    "--limit", "limit_s", default=120.0, show_default=True, help="How many seconds that job and that pod may each take."
)
@click.option("--exec", "by_exec", is_flag=True, help="Also look from inside the scheduler's pod, by kubectl exec.")
@reaches("Namespace of the Slurm cluster and of the canary pod. Left out: that of --config, or else all.")
def doctor(access: Access, form: Form, *, canary: bool, limit_s: float, by_exec: bool) -> None:
    """Check an installation end to end: what was tried, what was found, what to do. Reads only, but for --canary.

    The canary job asks for a GPU where Slurm has some, and compares the device that it sees with what Slurm gave; then
    slurmdbd has to know its end. It belongs to the Slurm user who is asked: of the token, else of the scheduler. The
    pod is yours, and removed again.

    Exit code 0: all is well. 1: something is to be looked at, or could not be checked. 2: something does not work.

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
@reaches("Namespace of the Slurm cluster. Left out: that of --config, or else all.")
def backups(access: Access, what: str, form: Form, limit_s: float) -> None:
    """Show the backups of slurmctld's queue and of the database: the newest, how many, where, and what went wrong.

    `list` shows what the last run reported; -o wide has a row for each backup. `verify` reads those on the volumes and
    the newest in the bucket, and compares the others, by a Job for each, which you must be allowed to create. Exit
    code 1: somebody has to look.

    Example: kubectl sunk backups verify -n slurm
    """
    from sunkpy.cli.backups import list_backups, verify_backups

    _leave(list_backups(access, form) if what == "list" else verify_backups(access, form, limit_s))


@click.command("support-bundle")
@click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File to write. Left out: sunkpy-support-TIME.tar.gz in the current folder.",
)
@reaches("Namespace of the Slurm cluster. Left out: that of --config, or else all.")
def support_bundle(access: Access, file: Path | None) -> None:
    """Put into one file what a helper needs to see: objects, states, logs of sunkpy and of Slurm's daemons.

    No Secret is read. Values of environments, arguments, and what looks like a key or password are left out; names of
    people, jobs and nodes are in it: read it before you send it. Exit code 1: it could not be made.

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
    """Print what makes a shell complete the words of sunkpy. kubectl sunk is completed by kubectl itself.

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
    help="Seconds between two reads, while somebody looks at the page.",
)
@click.option(
    "--dashboards",
    default="",
    help="Link to these dashboards of Grafana: https://grafana.example.com/d/NAMESPACE-RELEASE-.",
)
@click.option(
    "--serve",
    "is_shared",
    is_flag=True,
    help="Serve the page to everybody, in a cluster. Each viewer logs in with a token of their own.",
)
@click.option("--private-jobs", is_flag=True, help="With --serve: the page says that slurm.conf has PrivateData=jobs.")
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
    """Show the pool in a browser, live: nodes, the queue of both doors, hand-overs, and why each thing is as it is.

    It prints a link that only you have, and shows what your kubeconfig may read, until Ctrl-C.

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
    """Say the answer, and end with its exit code."""
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
