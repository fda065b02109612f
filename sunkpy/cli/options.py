"""The options that all commands for people have: how they reach Kubernetes and Slurm, and the form of the answer."""

from __future__ import annotations

import atexit
import functools
import gc
import os
import sys
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Concatenate, Final, Literal, ParamSpec, TypeVar

import click
import msgspec

from sunkpy.cli.access import Access
from sunkpy.core.overview.table import Table, render_table
from sunkpy.kube.errors import KubeError
from sunkpy.runtime.settings import BadSettings

P = ParamSpec("P")
T = TypeVar("T")
Form = Literal["table", "wide", "json", "yaml"]

IN_A_POD: Final = Path("/etc/sunkpy/config.yaml")
_RARELY: Final = 100_000
EXISTING_FILE: Final = click.Path(path_type=Path, dir_okay=False, exists=True)

NO_ANSWER, NO_SLURM, NO_KUBERNETES = 1, 3, 4
EXIT_CODES: Final = {
    0: "The command succeeded. Lines with `not read` name what you may not read",
    NO_ANSWER: "The object does not exist, there was nothing to do, nothing could be read, or the change was refused",
    2: "The command line has an error",
    NO_SLURM: "Slurm did not answer, could not be asked, or refused a change; the output shows what Kubernetes knows",
    NO_KUBERNETES: "You may read nothing from Kubernetes; the output shows what Slurm knows",
}
"""Exit code of the commands for people → its meaning. The few commands with other meanings say so in their help."""

FORM: Final = click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["table", "wide", "json", "yaml"]),
    default="table",
    help="Form of the output. For programs, use json or yaml.",
)
_META: Final = "sunkpy."


def _keep(context: click.Context, option: click.Parameter, value: object) -> None:
    context.meta[f"{_META}{option.name}"] = value


_REACHES: Final = (
    click.option(
        "--kubeconfig",
        type=EXISTING_FILE,
        help="File with the connection to Kubernetes. Default: the pod's service account, or $KUBECONFIG.",
        expose_value=False,
        callback=_keep,
    ),
    click.option(
        "--config",
        type=EXISTING_FILE,
        help=f"Settings file of the scheduler, which says how to reach Slurm. Default: {IN_A_POD}, if it exists.",
        expose_value=False,
        callback=_keep,
    ),
    click.option(
        "--slurmrestd",
        default="",
        help="URL of slurmrestd. Default: ask Slurm through the scheduler's pod, by kubectl exec.",
        expose_value=False,
        callback=_keep,
    ),
    click.option(
        "--slurm-token-file",
        default="",
        help="File with a token for slurmrestd, which scontrol token prints.",
        expose_value=False,
        callback=_keep,
    ),
)


def reaches(namespace: str) -> Callable[[Callable[Concatenate[Access, P], T]], Callable[P, T]]:
    """Return a decorator that adds the options of `Access`, and passes them to the command as its first argument.

    `namespace`: the help text of option `-n`.
    """

    def with_options(command: Callable[Concatenate[Access, P], T]) -> Callable[P, T]:
        @functools.wraps(command)
        def run(*args: P.args, **others: P.kwargs) -> T:
            gc.set_threshold(_RARELY)  # imports and lists of objects are no garbage, and most commands end in a second
            atexit.register(gc.freeze)  # otherwise Python looks through all objects once more before it ends
            return command(_access(click.get_current_context()), *args, **others)

        own = click.option("-n", "--namespace", default="", help=namespace, expose_value=False, callback=_keep)
        return functools.reduce(lambda decorated, option: option(decorated), reversed((own, *_REACHES)), run)

    return with_options


def _access(context: click.Context) -> Access:
    fields = Access.__struct_fields__
    access = Access(**{name: context.meta[f"{_META}{name}"] for name in fields})
    if bool(access.slurmrestd) != bool(access.slurm_token_file):
        raise click.UsageError("give --slurmrestd and --slurm-token-file together")
    config = access.config or (IN_A_POD if IN_A_POD.exists() else None)
    return msgspec.structs.replace(access, config=config)


def answer_of(question: Coroutine[object, object, T]) -> T:
    """Run a command's coroutine, and return its result. An error of Kubernetes or of the settings ends the process with
    exit code 1, an error of Slurm with 3.
    """
    import asyncio

    from sunkpy.slurm.errors import SlurmError

    try:
        return asyncio.run(question)
    except (BadSettings, KubeError) as error:
        click.echo(f"sunkpy: {error}", err=True)
        sys.exit(NO_ANSWER)
    except SlurmError as error:
        click.echo(f"sunkpy: {error.message}", err=True)
        sys.exit(NO_SLURM)


def show(tables: Iterable[Table], *, is_wide: bool = False, before: str = "", unread: Iterable[str] = ()) -> str:
    """Return text for a terminal: `before`, the tables with blank lines between them, and what could not be read."""
    parts = [[before] if before else [], *(_bold(render_table(table, is_wide=is_wide)) for table in tables)]
    parts.append([f"not read: {text}" for text in unread])
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


class Shown(msgspec.Struct, frozen=True):
    """The text that a command prints, and its exit code."""

    text: str
    exit_code: int = 0


def present(answer: msgspec.Struct, form: Form, text: Callable[[], str], exit_code: int = 0) -> Shown:
    """Return the answer as text in the form that the person chose: `text()` for tables, or JSON, or YAML."""
    if form == "yaml":
        return Shown(msgspec.yaml.encode(answer).decode().rstrip(), exit_code)
    if form == "json":
        return Shown(msgspec.json.format(msgspec.json.encode(answer)).decode(), exit_code)
    return Shown(text(), exit_code)


def say(text: str) -> None:
    """Print the text, in colours only on a terminal and only without NO_COLOR (no-color.org)."""
    click.echo(text, color=False if os.environ.get("NO_COLOR") else None)


def _bold(lines: Iterable[str]) -> list[str]:
    titles, *rows = list(lines) or [""]
    return [click.style(titles, bold=True), *rows] if titles else []
