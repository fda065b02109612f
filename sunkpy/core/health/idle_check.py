"""The site's check of a machine on which nothing runs: a Slurm job, whose end the syncer writes on the slurmd pod.

Slurm lets any other job take the node from it; then the check counts as not made. One that fails says so in the comment
of its job, and holds the node for a while, so that the next job does not start before the node is closed.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from sunkpy.core import names
from sunkpy.core.health.record import is_time
from sunkpy.core.model.objects import Pod, Wire

CHECK: Final = "/etc/sunkpy/services/verify"
"""Where chart slurm puts the script into slurmd pods."""
ENVIRONMENT: Final = "/etc/sunkpy/verify/environment"
"""Where `run-services` keeps what the script finds in its environment before slurmd."""
HOLD_S: Final = 120
FAILED: Final = "failed: "
NOT_MADE: Final = "not made: "
_KEPT_LINES: Final = 20
_KEPT_BYTES: Final = 900
_ENDS_WITHIN_S: Final = 5

_WITHOUT: Final = f"{ENVIRONMENT} is missing, as of an older image of slurmd: replace the slurmd pod"
_SCRIPT: Final = """\
#!/bin/bash
log=$(mktemp) || exit 2
mapfile -d '' -t given 2> /dev/null < {environment}
if [ "${{#given[@]}}" = 0 ]; then
  timeout 30 scontrol update "jobid=$SLURM_JOB_ID" "comment={not_made}{without}"
  exit 2
fi
in_it=(env -i -- "${{given[@]}}" "SLURM_JOB_ID=$SLURM_JOB_ID")
"${{in_it[@]}}" timeout --kill-after={kill_s} {timeout_s} {check} < /dev/null > "$log" 2>&1 && code=0 || code=$?
words=$(tail -n {lines} "$log" | tail -c {bytes} | LC_ALL=C tr -cd '[:print:]\\n')
rm -f "$log"
[ "$code" != 0 ] || exit 0
sleep 2 # if another job takes the node, this one is ended meanwhile, and nothing has failed
how="verify failed with $code"
[ "$code" != 124 ] || how="verify took more than {timeout_s} s"
timeout 30 scontrol update "jobid=$SLURM_JOB_ID" "comment={failed}$how
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
    made. `text` says why it failed, or was not made; `log` has the last lines of one that failed. `is_told`: the node
    was closed for it, so it is no news any more.
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
        """As it stands in the annotation."""
        return msgspec.json.encode(self).decode()


def read_idle_check(pod: Pod | None) -> IdleCheck | None:
    """How the last check of this pod's idle machine ended; None without one, or if it cannot be read."""
    text = pod.annotations.get(names.ANNOTATION_IDLE_CHECK) if pod is not None else None
    try:
        check = msgspec.json.decode(text, type=IdleCheck) if text is not None else None
    except msgspec.MsgspecError:
        return None
    times = (check.at, check.passed or check.at, check.tried or check.at) if check is not None else ()
    return check if all(is_time(each) for each in times) else None


def failed_check(pod: Pod | None) -> IdleCheck | None:
    """The last check, if it failed."""
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
        not_made=NOT_MADE,
        environment=ENVIRONMENT,
        without=_WITHOUT,
        hold_s=HOLD_S,
    )


def time_limit_min(timeout_s: int) -> int:
    """Of the job: only a check that cannot be killed reaches it."""
    return -(-(timeout_s + _ENDS_WITHIN_S + HOLD_S) // 60) + 1
