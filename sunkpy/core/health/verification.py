"""The site's check of a machine, which runs in the slurmd pod before slurmd: whether it has, and how it ended.

`run-services` starts it as the last oneshot of each start of the container, so a start of slurmd is a check that has
passed. A closed node comes back only after a start that began when its signal had ended: `run_of` tells starts apart
without a clock. The words are those of `slurm-images/bin/run-services`; the name of the service is the chart's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sunkpy.core import names
from sunkpy.core.health.rules import Cure, Rule
from sunkpy.core.model.objects import ContainerStatus, Pod

FAILED: Final = "Verification"
"""The name of the signal that a check has failed; no value names it, and it needs a person."""
FAILED_RULE: Final = Rule(failed_verification=True, cure=Cure.CLEAR)

_SERVICE: Final = "verify"
_ENDS: Final = (f"run-services: {_SERVICE} failed with ", f"run-services: {_SERVICE} took more than ")
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


def is_of_run(pod: Pod | None, run: str) -> bool:
    """It is the pod of that start, whichever its start is now."""
    return pod is not None and run.partition("/")[0] == pod.uid


def verify_s(pod: Pod | None) -> int | None:
    """How long the check of this pod may take; None: it has none."""
    text = pod.annotations.get(names.ANNOTATION_VERIFY_SECONDS, "") if pod is not None else ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def last_words(slurmd: ContainerStatus) -> str:
    """What the last end of the container left."""
    ended = slurmd.state.terminated or slurmd.last_state.terminated
    return ended.message if ended is not None else ""


def is_failure(slurmd: ContainerStatus) -> bool:
    """Its last end was that of a check that failed."""
    return _told_at(last_words(slurmd).splitlines()) >= 0


def failure_of(pod: Pod | None) -> tuple[str, str] | None:
    """How the last check failed, and the last of its log; None: no start of this pod has ended so."""
    slurmd = slurmd_of(pod)
    if slurmd is None or verify_s(pod) is None or not is_failure(slurmd):
        return None
    lines = last_words(slurmd).splitlines()
    told = _told_at(lines)
    log = "\n".join(lines[max(told - _KEPT_LINES, 0) : told])
    return lines[told].removeprefix("run-services: "), log.encode()[-_KEPT_BYTES:].decode(errors="ignore")


def _told_at(lines: Sequence[str]) -> int:
    """The line in which run-services says so, the last one if there are several; -1: there is none."""
    return max((at for at, line in enumerate(lines) if line.startswith(_ENDS)), default=-1)
