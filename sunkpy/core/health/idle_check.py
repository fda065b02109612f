"""The site's check of a machine on which nothing runs: a Slurm job, whose end the syncer writes on the slurmd pod.

Slurm lets any other job take the node from it; then the check counts as not made. One that fails is made once more by
the same job, which keeps the node meanwhile: a file server or a network may be away for a moment. The failure stands
unless that passes, whatever ends the job. The job says in its comment how it went, and after a second failure it holds
the node for a while, so that the next job does not start before the node is closed.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from sunkpy.core import names
from sunkpy.core.health.record import is_time
from sunkpy.core.model.objects import Pod, Wire

CHECK: Final = "/etc/sunkpy/services/verify"
"""The file in slurmd pods that chart slurm fills with the script of the check."""
ENVIRONMENT: Final = "/etc/sunkpy/verify/environment"
"""The file in which `run-services` keeps the environment that the script has when it runs before slurmd."""
HOLD_S: Final = 120
AGAIN_AFTER_S: Final = 60
"""After a failure the check is made once more."""
FAILED: Final = "failed: "
FAILED_ONCE: Final = "failed once: "
PASSED_AGAIN: Final = "passed: "
NOT_MADE: Final = "not made: "
_KEPT_LINES: Final = 10
_KEPT_BYTES: Final = 450
_ENDS_WITHIN_S: Final = 5

_WITHOUT: Final = f"{ENVIRONMENT} is missing, as of an older image of slurmd: replace the slurmd pod"
_SCRIPT: Final = """\
#!/bin/bash
tell() {{
  timeout 30 scontrol update "jobid=$SLURM_JOB_ID" "comment=$1"
}}
mapfile -d '' -t given 2> /dev/null < {environment}
if [ "${{#given[@]}}" = 0 ]; then
  tell "{not_made}{without}"
  exit 2
fi
in_it=(env -i -- "${{given[@]}}" "SLURM_JOB_ID=$SLURM_JOB_ID")
passes() {{
  log=$(mktemp) || exit 2
  "${{in_it[@]}}" timeout --kill-after={kill_s} {timeout_s} {check} < /dev/null > "$log" 2>&1 && code=0 || code=$?
  words=$(tail -n {lines} "$log" | tail -c {bytes} | LC_ALL=C tr -cd '[:print:]\\n')
  rm -f "$log"
  [ "$code" != 0 ] || return 0
  sleep 2 # if another job takes the node, this one is ended meanwhile, and nothing has failed
  how="verify failed with $code"
  [ "$code" != 124 ] || how="verify took more than {timeout_s} s"
  return 1
}}
passes && exit 0
first=$how
log_of_first=$words
tell "{failed_once}$first
$log_of_first"
sleep {again_s}
if passes; then
  tell "{passed_again}$first, and passed {again_s} s later
$log_of_first"
  exit 0
fi
tell "{failed}$how, and {again_s} s before that: $first
$log_of_first
--- {again_s} s later:
$words"
sleep {hold_s} # nothing else starts before the node is closed
exit 1
"""


class Outcome(enum.StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_MADE = "not made"


class IdleCheck(Wire, frozen=True, kw_only=True):
    """The value of the annotation. Times in RFC 3339.

    `at`: when it was seen to have ended; `passed`: when one last passed; `tried`: when one after a failure was not
    made. `text` says why it failed, at first or twice, or was not made. `log` has the last lines of what failed.
    `is_told`: the node was closed for it, so it is no news any more.
    """

    job: int
    outcome: Outcome
    at: str
    passed: str = ""
    tried: str = ""
    text: str = ""
    log: str = ""
    is_told: bool = False

    def encode(self) -> str:
        """The value of the annotation."""
        return msgspec.json.encode(self).decode()


def read_idle_check(pod: Pod | None) -> IdleCheck | None:
    """How the last check of this pod's idle machine ended; None if there was none or it cannot be read."""
    text = pod.annotations.get(names.ANNOTATION_IDLE_CHECK) if pod is not None else None
    try:
        check = msgspec.json.decode(text, type=IdleCheck) if text is not None else None
    except msgspec.MsgspecError:
        return None
    times = (check.at, check.passed or check.at, check.tried or check.at) if check is not None else ()
    return check if all(is_time(each) for each in times) else None


def failed_check(pod: Pod | None) -> IdleCheck | None:
    """The last check of the idle machine, if it failed."""
    check = read_idle_check(pod)
    return check if check is not None and check.outcome is Outcome.FAILED else None


def check_script(timeout_s: int) -> str:
    """Script of the job."""
    return _SCRIPT.format(
        kill_s=_ENDS_WITHIN_S,
        timeout_s=timeout_s,
        check=CHECK,
        lines=_KEPT_LINES,
        bytes=_KEPT_BYTES,
        failed=FAILED,
        failed_once=FAILED_ONCE,
        passed_again=PASSED_AGAIN,
        again_s=AGAIN_AFTER_S,
        not_made=NOT_MADE,
        environment=ENVIRONMENT,
        without=_WITHOUT,
        hold_s=HOLD_S,
    )


def time_limit_min(timeout_s: int) -> int:
    """The time limit of the job in minutes: only a check that cannot be killed reaches it."""
    return -(-(2 * (timeout_s + _ENDS_WITHIN_S) + AGAIN_AFTER_S + HOLD_S) // 60) + 1
