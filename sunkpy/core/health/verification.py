"""The site's check of a machine, which runs in the slurmd pod before slurmd: whether it has, and how it ended.

`run-services` starts it as the last oneshot of each start of the container, so a start of slurmd is a check that has
passed. A closed node comes back only after a start that began when its signal had ended: `run_of` tells starts apart
without a clock. The words are those of `slurm-images/bin/run-services`; the name of the service is the chart's.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from sunkpy.core import names
from sunkpy.core.health.rules import Cure, Rule
from sunkpy.core.model.objects import ContainerStatus, Pod
from sunkpy.core.model.times import is_of_start, parse_rfc3339

FAILED: Final = "Verification"
"""The name of the signal that a check has failed; no value names it, and it needs a person."""
FAILED_RULE: Final = Rule(failed_verification=True, cure=Cure.CLEAR)
REQUESTED: Final = "verify"
"""The name of the signal that somebody asks for a check."""
REQUESTED_RULE: Final = Rule(is_request=True)

_SERVICE: Final = "verify"
_PROGRAM: Final = "run-services: "
_BEGINS: Final = f"{_PROGRAM}running {_SERVICE}"
_ENDS: Final = (f"{_PROGRAM}{_SERVICE} failed with ", f"{_PROGRAM}{_SERVICE} took more than ")
_KEPT_LINES: Final = 20
_KEPT_BYTES: Final = 1000


def slurmd_of(pod: Pod | None) -> ContainerStatus | None:
    """What the kubelet last said of the container slurmd."""
    containers = pod.status.container_statuses if pod is not None else ()
    return next((each for each in containers if each.name == names.SLURMD_CONTAINER), None)


def run_of(pod: Pod | None) -> str:
    """This start of the container slurmd, `<uid of the pod>/<how many came before>`; empty without a pod."""
    slurmd = slurmd_of(pod)
    return f"{pod.uid}/{slurmd.restart_count if slurmd is not None else 0}" if pod is not None else ""


def has_registered(pod: Pod | None, now: datetime) -> bool:
    """This start of the container slurmd has registered, so its check has passed.

    Slurm knows the slurmd of the start before for a while, so the pod may look ready while the check runs. Both times
    are from the clock of the machine, and `keep-slurmd` ends a start in which that was set back below its begin. Of
    the first start of a pod the syncer tells by its readiness gate.
    """
    if pod is None or not pod.is_condition_true("Ready"):
        return False
    slurmd, since = slurmd_of(pod), pod.annotations.get(names.ANNOTATION_SLURMD_SINCE)
    running = slurmd.state.running if slurmd is not None and slurmd.restart_count else None
    if running is None or running.started_at is None or since is None:
        return True
    return is_of_start(parse_rfc3339(since), parse_rfc3339(running.started_at), now)


def is_of_run(pod: Pod | None, run: str) -> bool:
    """True if it is the pod of that start of slurmd, even if slurmd has started again since."""
    return pod is not None and run.partition("/")[0] == pod.uid


def verify_s(pod: Pod | None) -> int | None:
    """How many seconds the check of this pod may take; None: it has no check."""
    text = pod.annotations.get(names.ANNOTATION_VERIFY_SECONDS, "") if pod is not None else ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def last_words(slurmd: ContainerStatus) -> str:
    """The last lines that the container printed before its last end."""
    ended = slurmd.state.terminated or slurmd.last_state.terminated
    return ended.message if ended is not None else ""


def is_failure(slurmd: ContainerStatus) -> bool:
    """True if the last end of the container was a check that failed."""
    return _told_at(last_words(slurmd).splitlines()) >= 0


def failure_of(pod: Pod | None) -> tuple[str, str] | None:
    """How the last check failed, and the end of its log; None if no start of this pod ended with a failed check.

    The runtime reads standard output and error apart: what was said in the last moment may stand behind how it ended.
    """
    slurmd = slurmd_of(pod)
    if slurmd is None or verify_s(pod) is None or not is_failure(slurmd):
        return None
    lines = last_words(slurmd).splitlines()
    begun = max((at for at, line in enumerate(lines) if line == _BEGINS), default=-1)
    told = _told_at(lines)
    parts = (
        [line for line in part if not line.startswith(_PROGRAM)] for part in (lines[begun + 1 : told], lines[told:])
    )
    log = "\n".join(next(filter(None, parts), [])[-_KEPT_LINES:])
    return lines[told].removeprefix(_PROGRAM), log.encode()[-_KEPT_BYTES:].decode(errors="ignore")


def _told_at(lines: Sequence[str]) -> int:
    """The line in which run-services says so, the last one if there are several; -1: there is none."""
    return max((at for at, line in enumerate(lines) if line.startswith(_ENDS)), default=-1)
