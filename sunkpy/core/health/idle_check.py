"""The site's check of an idle machine: a Slurm job runs it, and the syncer writes its outcome on the slurmd pod.

Any other job may preempt this job; then the check counts as not made, unless it has failed once already. If the check
fails, the same job runs it once more and stays on the node meanwhile, because a file server or a network may be away
for a moment. The failure stands unless the second run passes or the job is cancelled. The job writes its outcome into
its comment, unless the first run passes. After a second failure the job holds the node for a while, so that no other
job starts before the node is closed.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from sunkpy.core import names
from sunkpy.core.health.record import is_time
from sunkpy.core.model.objects import Pod, Wire

CHECK: Final = "/etc/sunkpy/services/verify"
"""The script of the site's check in slurmd pods, which chart slurm fills."""
ENVIRONMENT: Final = "/etc/sunkpy/verify/environment"
"""The file in which `run-services` stores the environment of the check that runs before slurmd."""
HOLD_S: Final = 120
AGAIN_AFTER_S: Final = 60
"""The pause before the check is run once more after a failure."""
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
    """How a check of an idle machine ended: it passed, failed, or was not made (for example because another job took
    the node).
    """

    PASSED = "passed"
    FAILED = "failed"
    NOT_MADE = "not made"


class IdleCheck(Wire, frozen=True, kw_only=True):
    """The last check of a pod's idle machine, as JSON in the annotation `sunkpy.dev/idle-check`. Times are in RFC 3339.

    `at`: when the syncer saw that the check had ended. `passed`: when a check last passed. `tried`: when a later check
    was not made, so that this failure still stands. `text`: why the check failed or was not made. `log`: the last lines
    of the failed check. `is_told`: the node was closed for this failure already.
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
        """Return the check as JSON, the value of the annotation `sunkpy.dev/idle-check`."""
        return msgspec.json.encode(self).decode()


def read_idle_check(pod: Pod | None) -> IdleCheck | None:
    """Return the last check of this slurmd pod's idle machine; None if there was none or it cannot be read."""
    text = pod.annotations.get(names.ANNOTATION_IDLE_CHECK) if pod is not None else None
    try:
        check = msgspec.json.decode(text, type=IdleCheck) if text is not None else None
    except msgspec.MsgspecError:
        return None
    times = (check.at, check.passed or check.at, check.tried or check.at) if check is not None else ()
    return check if all(is_time(each) for each in times) else None


def failed_check(pod: Pod | None) -> IdleCheck | None:
    """Return the last check of this slurmd pod's idle machine if it failed; otherwise None."""
    check = read_idle_check(pod)
    return check if check is not None and check.outcome is Outcome.FAILED else None


def check_script(timeout_s: int) -> str:
    """Return the script of the Slurm job that checks an idle machine. `timeout_s`: the limit of each run."""
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
    """Return the time limit, in minutes, of the Slurm job that checks an idle machine. The job reaches it only if its
    check cannot be killed. `timeout_s`: the limit of each of the two runs.
    """
    return -(-(2 * (timeout_s + _ENDS_WITHIN_S) + AGAIN_AFTER_S + HOLD_S) // 60) + 1
