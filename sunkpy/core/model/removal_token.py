"""The removal token, an annotation by which the operator asks for the removal of a slurmd pod. When no job is in the
way, the syncer answers by copying the token to another annotation.

The annotation is `sunkpy.dev/pending-deletion`, and the token `<RFC 3339 time>/<cause>`. The time makes each token
unique, so an answer to an earlier one never counts; the cause is for people, and becomes Slurm's drain reason.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import msgspec

from sunkpy.core import names
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.times import parse_rfc3339

CAUSE_ROLLOUT: Final = "rollout"
"""The cause of a removal by a roll: a new pod of the same Slurm node follows. Details may stand after a colon."""

CAUSE_IDLE: Final = "idle"
"""The cause of a removal that leaves an idle Node to autoscalers. Details may stand after a colon."""

_LONG_AGO = datetime.fromtimestamp(0, UTC)


class Token(msgspec.Struct, frozen=True):
    """The removal token of a slurmd pod: when its removal was asked for, and why."""

    since: datetime
    cause: str

    def encode(self) -> str:
        """Return the token as the annotation has it: `2026-11-20T12:00:00.000001+00:00/scale-down`."""
        return f"{self.since.isoformat()}/{self.cause}"

    @property
    def is_rollout(self) -> bool:
        """True if a new slurmd pod of the same Slurm node follows. The cause is `rollout`, or continues as in `rollout:
        the node offers …`.
        """
        return self.cause.partition(":")[0] == CAUSE_ROLLOUT

    @property
    def is_release(self) -> bool:
        """True if the pod is removed because its node has long been idle; then an autoscaler may take the Node."""
        return self.cause.partition(":")[0] == CAUSE_IDLE


def token_of(pod: Pod) -> Token | None:
    """Return the token of the removal that was asked for the pod; None if there is none.

    Any text asks for the removal, even one that is no token because a person wrote it. Then the whole text is the
    cause, and the time is long ago, so that any drain timeout has passed.
    """
    text = pod.annotations.get(names.ANNOTATION_PENDING_DELETION)
    if text is None:
        return None
    since, _, cause = text.partition("/")
    return Token(_time_of(since), cause or text)


def _time_of(text: str) -> datetime:
    try:
        since = parse_rfc3339(text)
    except ValueError:
        return _LONG_AGO
    return since if since.tzinfo is not None else _LONG_AGO  # without a zone it cannot be compared
