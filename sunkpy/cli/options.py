"""What the commands for people have in common: how they reach both sides, and how an answer looks."""

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
    0: "everything that you may read was shown, or what you asked for was done; `not read` names the rest",
    NO_ANSWER: "no such thing, nothing to do, nothing could be read, or a side refused the change",
    2: "the command line has an error",
    NO_SLURM: "Slurm did not answer or could not be asked, or did not do its part; what Kubernetes knows is shown",
    NO_KUBERNETES: "you may read nothing of Kubernetes; what Slurm knows is shown",
}
"""What each exit code of the commands for people means. The few commands with other meanings say so in their help."""

FORM: Final = click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["table", "wide", "json", "yaml"]),
    default="table",
    help="Form of the output; for programs: -o json | jq .",
)
_META: Final = "sunkpy."


def _keep(context: click.Context, option: click.Parameter, value: object) -> None:
    context.meta[f"{_META}{option.name}"] = value


_REACHES: Final = (
    click.option(
        "--kubeconfig",
        type=EXISTING_FILE,
        help="Left out, the pod's service account or $KUBECONFIG.",
        expose_value=False,
        callback=_keep,
    ),
    click.option(
        "--config",
        type=EXISTING_FILE,
        help=f"Settings of the scheduler, which also say how to ask Slurm. Left out, {IN_A_POD} where it exists.",
        expose_value=False,
        callback=_keep,
    ),
    click.option(
        "--slurmrestd",
        default="",
        help="Ask Slurm under this URL. Left out, in the scheduler's pod, by kubectl exec.",
        expose_value=False,
        callback=_keep,
    ),
    click.option(
        "--slurm-token-file",
        default="",
        help="Token for slurmrestd, made with scontrol token.",
        expose_value=False,
        callback=_keep,
    ),
)


def reaches(namespace: str) -> Callable[[Callable[Concatenate[Access, P], T]], Callable[P, T]]:
    """The options that say how to reach both sides, as the first argument; `namespace`: the help of `-n`."""

    def with_options(command: Callable[Concatenate[Access, P], T]) -> Callable[P, T]:
        @functools.wraps(command)
        def run(*args: P.args, **others: P.kwargs) -> T:
            gc.set_threshold(_RARELY)  # imports and lists of objects are no garbage, and most commands end in a second
            atexit.register(gc.freeze)  # else Python looks through all of them once more before it ends
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
    """The answer. If nothing could be read, the command ends with a line and exit code 1; if Slurm did not do its part,
    with 3.
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
    """Text for a terminal: tables with a blank line between them, and what could not be read."""
    parts = [[before] if before else [], *(_bold(render_table(table, is_wide=is_wide)) for table in tables)]
    parts.append([f"not read: {text}" for text in unread])
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


class Shown(msgspec.Struct, frozen=True):
    """The text of an answer, and the exit code."""

    text: str
    exit_code: int = 0


def present(answer: msgspec.Struct, form: Form, text: Callable[[], str], exit_code: int = 0) -> Shown:
    """The answer as text: for people in tables, for programs as JSON or YAML with the names of its fields."""
    if form == "yaml":
        return Shown(msgspec.yaml.encode(answer).decode().rstrip(), exit_code)
    if form == "json":
        return Shown(msgspec.json.format(msgspec.json.encode(answer)).decode(), exit_code)
    return Shown(text(), exit_code)


def say(text: str) -> None:
    """Print it, in colours only where a terminal shows them and nobody objects (no-color.org)."""
    click.echo(text, color=False if os.environ.get("NO_COLOR") else None)


def _bold(lines: Iterable[str]) -> list[str]:
    titles, *rows = list(lines) or [""]
    return [click.style(titles, bold=True), *rows] if titles else []
