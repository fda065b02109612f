"""Annotations by which a workload says how Slurm shall treat it.

sunkpy's own annotations are `sunkpy.dev/<name>`. The names of SUNK (`sunk.coreweave.com/`) and slurm-bridge
(`slurmjob.slinky.slurm.net/`) are read as aliases, so that a manifest for one of these works here unchanged. If several
names of an option are set, sunkpy's own wins. A pod's own annotation wins over that of its owner. Events name
annotations that have no effect: those of sunkpy and slurm-bridge that are unknown or mean nothing here, SUNK's
`user-id` and `group-id`, and wishes for Kueue or KAI that Slurm cannot meet. All other annotations of SUNK are ignored
without an Event.

The pods of a gang are one Slurm job, so what one of them asks for is asked for all: pods that say nothing follow the
others. Two pods that ask for different things contradict each other, and the gang waits until one of them is changed.
There are exceptions: name and comment are those of the first pod, by rank, that has them; of several time limits the
longest holds, because roles may end at different times.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Final

import msgspec

from sunkpy.core import names
from sunkpy.core.model.job_spec import JobSpec, Switches

SUNK: Final = "sunk.coreweave.com/"
SLINKY: Final = "slurmjob.slinky.slurm.net/"

UNLIMITED: Final = "UNLIMITED"

LONGEST: Final = 1024
"""The most characters that the value of an option may have. Kubernetes allows 256 KiB, which no name in Slurm needs,
and which would end up in messages.
"""

_MOST_UNKNOWN: Final = 10
_MOST_VOICES: Final = 3
_MOST_UNLIKE: Final = 64
"""The most different sets of options that the pods of one gang may have: as many as a gang may have roles."""
_MAY_DIFFER: Final = frozenset({"name", "comment", "time_limit_min"})
_PREFIXES: Final = (names.PREFIX, SUNK, SLINKY)
_MOST_MINUTES: Final = 10 * 365 * 24 * 60


class BadOption(ValueError):
    """The value of an annotation cannot be used. The text says what to write instead."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A fault in the annotations or specs of a gang's pods or of their owner, which a person should know. With a
    `fatal` fault, no job is submitted for pods without a node.

    `annotation`: the annotation at fault; empty if the fault is somewhere else.
    """

    annotation: str = ""
    text: str
    fatal: bool

    def __str__(self) -> str:
        return f"annotation {self.annotation}: {self.text}" if self.annotation else self.text


class Option(msgspec.Struct, frozen=True):
    """An annotation that sets an option of a gang's job. `field`: the field of JobSpec that it sets; `read`: the
    function that reads its text; `means`: its meaning, for users; `aliases`: the names of the same option in SUNK and
    slurm-bridge.
    """

    field: str
    read: Callable[[str], object]
    means: str
    aliases: tuple[str, ...] = ()


def read_options(
    pods: Iterable[tuple[str, Mapping[str, str]]], above: Iterable[Mapping[str, str]] = ()
) -> tuple[JobSpec, tuple[Problem, ...]]:
    """Return the options of a gang's job that annotations ask for, and the problems found in these annotations.

    Args:
        pods: the name and the annotations of each pod of the gang, by rank.
        above: the annotations of the objects that own the pods, nearest owner first.
    """
    saying: dict[frozenset[tuple[str, str]], list[str]] = {}
    for name, written in pods:
        saying.setdefault(frozenset(_own(written).items()), []).append(name)
    if len(saying) > _MOST_UNLIKE:
        text = (
            f"the annotations of its pods are of {len(saying)} different kinds, and {_MOST_UNLIKE} are allowed: "
            "make several gangs"
        )
        return JobSpec(), (Problem(text=text, fatal=True),)
    layers, owners = [(dict(said), names[0]) for said, names in saying.items()], tuple(above)
    values: dict[str, object] = {}
    problems: list[Problem] = []
    for name, option in OPTIONS.items():
        said = [(found, pod) for layer, pod in layers if (found := _said(layer, name)) is not None]
        first = next(chain((found for found, _ in said), filter(None, (_said(layer, name) for layer in owners))), None)
        if first is not None and first.wrong:
            problems.append(Problem(annotation=first.annotation, text=first.wrong, fatal=True))
        elif first is not None:
            values[option.field] = first.value
        voices: dict[object, str] = {}
        for found, pod in said:
            voices.setdefault(found.value, f"{pod} says {found.text[:40]!r}")
        if len(voices) > 1 and option.field not in _MAY_DIFFER:
            who = ", ".join([*voices.values()][:_MOST_VOICES])
            text = f"the pods of a gang are one Slurm job and must agree: {who}"
            problems.append(Problem(annotation=names.PREFIX + name, text=text, fatal=True))
        if option.field == "time_limit_min" and (limits := [each for each in voices if isinstance(each, int)]):
            values[option.field] = 0 if 0 in limits else max(limits)
    problems += _unknown([*(layer for layer, _ in layers), *owners])
    options: JobSpec = msgspec.structs.replace(JobSpec(), **values)
    return options, tuple(problems)


def _own(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return those of a pod's annotations that may be options of the job, and those of other projects that sunkpy
    ignores and names in an Event. Annotations that the scheduler writes on a pod are left out, because they differ from
    pod to pod.
    """
    return {
        key: text
        for key, text in annotations.items()
        if (key.startswith(_PREFIXES) and key not in _NOT_OPTIONS) or key in _ANSWERS
    }


class _Said(msgspec.Struct, frozen=True):
    """What an annotation says of an option: its text, and the value that was read from the text. If the text cannot be
    used, `wrong` says why, and the value is the text itself.
    """

    annotation: str
    text: str
    value: object
    wrong: str = ""


def _said(layer: Mapping[str, str], name: str) -> _Said | None:
    """Return what the annotations of one object (`layer`) say of the option `name`; None if they do not set it. An
    option can have several annotations: the first that is set counts, sunkpy's own before its aliases.
    """
    for annotation in _SPELLINGS[name]:
        text = layer.get(annotation, "")
        if text[: 2 * LONGEST].strip():
            read = _seconds if annotation == _IN_SECONDS else OPTIONS[name].read
            try:
                return _Said(annotation, text.strip(), read(_bounded(text)))
            except BadOption as error:
                return _Said(annotation, text.strip(), text.strip(), str(error))
    return None


def _bounded(text: str) -> str:
    if len(text) > LONGEST:
        raise BadOption(f"it is longer than {LONGEST} characters")
    return text.strip()


def time_limit_min(text: str) -> int:
    """Return a time limit in minutes, rounded up; 0 means unlimited. The text has one of Slurm's time formats (man
    sbatch, --time), or is like `90s`, `30m`, `2h` or `1d`.

    Raises:
        BadOption: the text is none of these, or is more than ten years.
    """
    seconds = 0 if text.upper() in (UNLIMITED, "INFINITE") else _duration_s(text)
    if seconds is None:
        raise BadOption(
            f"{text!r} is not a time limit: write minutes, hours:minutes:seconds, days-hours:minutes, "
            f"30m, 2h or {UNLIMITED}"
        )
    return _within_reason(-(-seconds // 60), text)


def _within_reason(minutes: int, text: str) -> int:
    if minutes > _MOST_MINUTES:
        raise BadOption(f"{text!r} is more than ten years: write {UNLIMITED}")
    return minutes


_SUFFIXED: Final = re.compile(r"^([0-9]+)([smhd])$")
_SUFFIX_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_SLURM_TIME: Final = re.compile(r"^(?:([0-9]+)-)?([0-9]+(?::[0-9]+){0,2})$")


def _duration_s(text: str) -> int | None:
    if suffixed := _SUFFIXED.match(text):
        return int(suffixed[1]) * _SUFFIX_S[suffixed[2]]
    match = _SLURM_TIME.match(text)
    if match is None:
        return None
    days, clock = match.groups()
    parts = [int(part) for part in clock.split(":")]
    if days is not None:
        hours, minutes, seconds = (*parts, 0, 0)[:3]
    elif len(parts) == 3:
        hours, minutes, seconds = parts
    else:
        hours, minutes, seconds = 0, parts[0], parts[1] if len(parts) == 2 else 0
    return int(days or 0) * 86400 + hours * 3600 + minutes * 60 + seconds


_NUMBER: Final = re.compile(r"^[0-9]+$")


def _seconds(text: str) -> int:
    if not _NUMBER.match(text) or int(text) == 0:
        raise BadOption(f"{text!r} is not a number of seconds above zero")
    return _within_reason(-(-int(text) // 60), text)


def _switches(text: str) -> Switches:
    """Return the number of switches, and how long to wait for that, from `count[@time]` (as for `sbatch --switches`).

    Raises:
        BadOption: the text is not of this form, or a number is out of range.
    """
    count, at, wait = text.partition("@")
    seconds = _duration_s(wait) if at else None
    if not _NUMBER.match(count) or not 0 < int(count) < 2**16 or (at and not seconds):
        raise BadOption(f"{text!r} is not a number of switches: write 1, or 1@30:00 to wait 30 minutes for it")
    if seconds is not None:
        _within_reason(-(-seconds // 60), wait)
    return Switches(count=int(count), wait_s=seconds)


def _segment(text: str) -> int:
    """Return how many nodes have to be together in one block, from a text as for `sbatch --segment`.

    Raises:
        BadOption: the text is not such a number.
    """
    if not _NUMBER.match(text) or not 0 < int(text) < 2**15:
        raise BadOption(f"{text!r} is not a number of nodes: write 4 to keep each four nodes in one block")
    return int(text)


def _text(is_valid: Callable[[str], object], must_be: str) -> Callable[[str], str]:
    """Return a function that reads an option: it returns the text unchanged if `is_valid` accepts it, and raises
    BadOption if not. `must_be` is the message of this error; `{text}` in it stands for the text.
    """

    def read(text: str) -> str:
        if not is_valid(text):
            raise BadOption(must_be.format(text=text))
        return text

    return read


def _one_of(meanings: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that reads an option: its text must be one of the keys of `meanings`, in upper or lower case,
    and the function returns the value of that key. For any other text the function raises BadOption.
    """

    def read(text: str) -> str:
        if text.lower() not in meanings:
            raise BadOption(f"{text!r} is not one of {', '.join(sorted(meanings))}")
        return meanings[text.lower()]

    return read


_USER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.@-]{0,254}\$?")
NEVER_USERS: Final = frozenset({"root", "slurm", "slurmrestd", "nobody"})
"""Users who never own the job of a pod. `root` and `slurm` may do everything in Slurm."""


def is_user(text: str) -> bool:
    """True if the text may be the name of a person who has a Slurm user. Names of administrative users such as root are
    refused, and so are digits alone: Slurm would take them for a uid, and the uid 0 is root's.
    """
    return _USER.fullmatch(text) is not None and text not in NEVER_USERS


_JOB: Final = "[1-9][0-9]{0,9}(?:_[0-9]{1,9})?"
_EVENT: Final = rf"(?:after(?:any|notok|ok):{_JOB}(?::{_JOB})*|after:{_JOB}(?:\+[0-9]{{1,5}})?|singleton)"

_user: Final = _text(is_user, "{text!r} is not the name of a person: a letter, then letters, digits and _ . @ - only")
_word: Final = _text(
    re.compile(r"[A-Za-z0-9_.@:-]+").fullmatch, "{text!r} is not a name: only letters, digits and _ . @ : - are allowed"
)
_line: Final = _text(str.isprintable, "only printable characters on one line are allowed")
_dependency: Final = _text(  # what of sbatch --dependency makes sense for a job that is not an array
    re.compile(rf"{_EVENT}(?:(?:,{_EVENT})*|(?:\?{_EVENT})*)").fullmatch,
    "{text!r} is not a dependency: write afterok:123, afterany:123:124, afternotok:123, after:123+10 or "
    "singleton; several with , for all of them or ? for any",
)
_exclusive: Final = _one_of({
    "none": "none", "true": "none", "node": "none",
    "user": "user", "mcs": "mcs", "topo": "topo",
    "ok": "", "false": "",
})  # fmt: skip
_on_preemption: Final = _one_of({"evict": "evict", "suspend": "suspend"})


def _words(text: str) -> str:
    return ",".join(_word(part.strip()) for part in text.split(","))


def _both(name: str) -> tuple[str, ...]:
    return (SUNK + name, SLINKY + name)


OPTIONS: Final[dict[str, Option]] = {
    "user": Option(
        "user", _user, "Slurm user who owns the job. `scheduler.access` says which ones a namespace may name."
    ),
    "account": Option("account", _word, "Account that Slurm charges the job to.", _both("account")),
    "partition": Option(
        "partition", _words, "Partition of the job, or several, separated by commas.", _both("partition")
    ),
    "qos": Option("qos", _word, "QoS of the job.", _both("qos")),
    "reservation": Option(
        "reservation", _words, "Reservation of the job, or several, separated by commas.", _both("reservation")
    ),
    "time-limit": Option(
        "time_limit_min",
        time_limit_min,
        "Time limit of the job: minutes, `hours:minutes:seconds`, `days-hours:minutes`, `30m`, `2h` or "
        "`UNLIMITED`. The alias `timeout` has seconds.",
        (SUNK + "timeout", SLINKY + "timelimit"),
    ),
    "comment": Option("comment", _line, "Text that the scheduler adds to the comment of the job.", (SUNK + "comment",)),
    "constraint": Option(
        "constraint",
        _line,
        "Features that the job's nodes must have, as `sbatch --constraint`.",
        (SLINKY + "constraints",),
    ),
    "exclusive": Option(
        "shared",
        _exclusive,
        "Whether other jobs may use the job's nodes. `true` or `node`: no other job; `user`, `mcs` or `topo`: as "
        "`sbatch --exclusive`; `false`: any other job. `user` needs a Slurm user of the namespace's own. With "
        "`scheduler.gpuSharing: exclusive`, pods that ask for GPUs by count get whole nodes in any case.",
        _both("exclusive"),
    ),
    "licenses": Option(
        "licenses", _line, "Licenses that the job needs, as `sbatch --licenses`.", (SLINKY + "licenses",)
    ),
    "dependency": Option(
        "dependency",
        _dependency,
        "Other jobs for which the job waits, as `sbatch --dependency`: `afterok:123`, `afterany:123:124`, "
        "`afternotok:123`, `after:123+10` or `singleton`. `singleton` needs a Slurm user of the namespace's own.",
    ),
    "gpu-type": Option("gpu_type", _word, "Type of the job's GPUs in Slurm, such as `h100` of `gpu:h100`."),
    "job-name": Option("name", _word, "Name of the job in Slurm.", (SLINKY + "job-name",)),
    "wckey": Option("wckey", _word, "Workload characterization key (wckey) of the job.", (SLINKY + "wckey",)),
    "switches": Option(
        "switches",
        _switches,
        "The most switches across which the job's nodes may be, and how long the job waits for that, as `sbatch "
        "--switches`.",
    ),
    "segment": Option(
        "segment",
        _segment,
        "How many nodes of the job have to be together in one block of topology/block, as `sbatch --segment`.",
    ),
    "on-preemption": Option(
        "on_preemption",
        _on_preemption,
        "What the scheduler does when the job is preempted: `evict` the pods, or `suspend` their owner. `suspend` "
        "needs `scheduler.suspendOwners`.",
    ),
}
"""For each annotation `sunkpy.dev/<name>`, what it asks for. `tools/make-reference` makes docs/reference/annotations.md
of it.
"""

_IN_SECONDS: Final = SUNK + "timeout"
"""The alias of `time-limit` whose value is a number of seconds."""

_NOT_OPTIONS: Final = frozenset({
    *names.BINDING_NOTE,
    names.ANNOTATION_ASKED,
    names.ANNOTATION_SUSPENDED_BY,
    names.ANNOTATION_GANG,
    names.ANNOTATION_GANG_SIZE,
    names.ANNOTATION_GANG_ROLES,
    names.ANNOTATION_GANG_ROLE,
})  # fmt: skip
_BY_NAME: Final = f"ignored: {names.PREFIX}user says by name whose job it is, and its group is that of the user"
_OWN_SIZE: Final = "ignored: the size of a job comes from the requests and the number of its pods"
_PREFERRED: Final = (
    f"ignored: Slurm has no preferred domain; {names.PREFIX}switches says below how many switches the job shall be"
)
_SLICES: Final = (
    f"ignored: Slurm has no slices by a Node's label; {names.PREFIX}segment says how many nodes shall be in one block"
)
_ANSWERS: Final = {
    SUNK + "user-id": _BY_NAME,
    SUNK + "group-id": _BY_NAME,
    SLINKY + "user-id": _BY_NAME,
    SLINKY + "group-id": _BY_NAME,
    SLINKY + "min-nodes": _OWN_SIZE,
    SLINKY + "max-nodes": _OWN_SIZE,
    SLINKY + "cpu-per-task": _OWN_SIZE,
    SLINKY + "mem-per-node": _OWN_SIZE,
    SLINKY + "gres": f"ignored: GPUs come from the requests of the pods; {names.PREFIX}gpu-type says which kind",
    SLINKY + "priority": "ignored: the priority of a job comes from its partition, account and QoS",
    "kueue.x-k8s.io/podset-preferred-topology": _PREFERRED,
    "kai.scheduler/topology-preferred-placement": _PREFERRED,
    "kueue.x-k8s.io/podset-slice-required-topology": _SLICES,
    "kueue.x-k8s.io/podset-slice-required-topology-constraints": _SLICES,
}
"""Annotations of other projects that sunkpy ignores, each with the message that says why."""


_SPELLINGS: Final = {name: (names.PREFIX + name, *option.aliases) for name, option in OPTIONS.items()}
_KNOWN: Final = _NOT_OPTIONS.union(*_SPELLINGS.values())


def _unknown(layers: Iterable[Mapping[str, str]]) -> list[Problem]:
    """Return a problem for each annotation in these layers that looks like an option and that sunkpy does not know or
    ignores. If there are more than ten, the first ten get a problem each, and one more problem counts the rest.
    """
    keys = {key for layer in layers for key in layer if key.startswith((names.PREFIX, SLINKY)) or key in _ANSWERS}
    unknown = sorted(keys - _KNOWN)
    problems = [
        Problem(annotation=annotation, text=_ANSWERS.get(annotation) or _suggest(annotation), fatal=False)
        for annotation in unknown[:_MOST_UNKNOWN]
    ]
    if len(unknown) > _MOST_UNKNOWN:
        more = f"not known and ignored, and so are {len(unknown) - _MOST_UNKNOWN - 1} more"
        problems.append(Problem(annotation=unknown[_MOST_UNKNOWN], text=more, fatal=False))
    return problems


def _suggest(annotation: str) -> str:
    close = difflib.get_close_matches(annotation, sorted(_KNOWN - _NOT_OPTIONS), n=1, cutoff=0.75)
    return f"not known and ignored; did you mean {close[0]}?" if close else "not known and ignored"
