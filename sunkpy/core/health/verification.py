"""The site's check of a machine, which runs in the slurmd pod before slurmd: whether it ran, and how it ended.

`run-services`, the program that starts the container's services, runs the check last in each start of the container,
just before slurmd. So slurmd starts only if the check has passed. A closed node whose NodeSet has a check comes back by
itself only after a start that began when the signal of its sickness had ended; `run_of` distinguishes starts without a
clock. The texts below are those that `slurm-images/bin/run-services` prints; the chart names the service.
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
"""The name of the signal that the site's check has failed; this rule is not in the values."""
FAILED_RULE: Final = Rule(failed_verification=True, cure=Cure.CLEAR)
REQUESTED: Final = "verify"
"""The name of the signal that somebody asks for the site's check; this rule is not in the values."""
REQUESTED_RULE: Final = Rule(is_request=True)

_SERVICE: Final = "verify"
_PROGRAM: Final = "run-services: "
_BEGINS: Final = f"{_PROGRAM}running {_SERVICE}"
_ENDS: Final = (f"{_PROGRAM}{_SERVICE} failed with ", f"{_PROGRAM}{_SERVICE} took more than ")
_KEPT_LINES: Final = 20
_KEPT_BYTES: Final = 1000


def slurmd_of(pod: Pod | None) -> ContainerStatus | None:
    """Return the status of the pod's container slurmd; None if the kubelet has not reported it."""
    containers = pod.status.container_statuses if pod is not None else ()
    return next((each for each in containers if each.name == names.SLURMD_CONTAINER), None)


def run_of(pod: Pod | None) -> str:
    """Return an ID of the present start of container slurmd, `<pod uid>/<restart count>`; empty without a pod."""
    slurmd = slurmd_of(pod)
    return f"{pod.uid}/{slurmd.restart_count if slurmd is not None else 0}" if pod is not None else ""


def has_registered(pod: Pod | None, now: datetime) -> bool:
    """True if slurmd has registered with Slurm since the container's last start, which means that the check of this
    start has passed.

    For a while Slurm still knows the slurmd of the earlier start, so the pod may look ready while the check runs. So
    the start of the registered slurmd is compared with the start of the container. Both are by the clock of the
    machine; if that clock was set back, `keep-slurmd` ends the container. For a pod's first start, it is enough that
    the pod is Ready, because the syncer sets its readiness gate.
    """
    if pod is None or not pod.is_condition_true("Ready"):
        return False
    slurmd, since = slurmd_of(pod), pod.annotations.get(names.ANNOTATION_SLURMD_SINCE)
    running = slurmd.state.running if slurmd is not None and slurmd.restart_count else None
    if running is None or running.started_at is None or since is None:
        return True
    return is_of_start(parse_rfc3339(since), parse_rfc3339(running.started_at), now)


def is_of_run(pod: Pod | None, run: str) -> bool:
    """True if the start of slurmd that `run` names (see `run_of`) was in this pod, even if the container has started
    again since.
    """
    return pod is not None and run.partition("/")[0] == pod.uid


def verify_s(pod: Pod | None) -> int | None:
    """Return how many seconds the check of this slurmd pod may take; None if the pod has no check."""
    text = pod.annotations.get(names.ANNOTATION_VERIFY_SECONDS, "") if pod is not None else ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def last_words(slurmd: ContainerStatus) -> str:
    """Return the last lines that the container printed before it last ended (its termination message)."""
    ended = slurmd.state.terminated or slurmd.last_state.terminated
    return ended.message if ended is not None else ""


def is_failure(slurmd: ContainerStatus) -> bool:
    """True if the container last ended because the site's check failed."""
    return _told_at(last_words(slurmd).splitlines()) >= 0


def failure_of(pod: Pod | None) -> tuple[str, str] | None:
    """Return how the pod's last check failed, and the end of its log; None if the last start had no failed check.

    The runtime reads standard output and error separately, so the last lines of the log may follow the line that says
    how the check ended.
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
    """Return the index of the last line that says that the site's check failed; -1 if there is none. The program
    run-services prints this line.
    """
    return max((at for at, line in enumerate(lines) if line.startswith(_ENDS)), default=-1)
