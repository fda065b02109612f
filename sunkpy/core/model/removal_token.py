"""The token of a removal: the operator writes it on a slurmd pod, and the syncer answers by copying it.

It is in the annotation `sunkpy.dev/pending-deletion` as `<RFC 3339 time>/<cause>`. The time makes each token
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
"""The cause of a removal after which a slurmd pod of the same Slurm node comes. More may follow, after a colon."""

CAUSE_IDLE: Final = "idle"
"""The cause of a removal after which its Node is left to autoscalers. More may follow, after a colon."""

_LONG_AGO = datetime.fromtimestamp(0, UTC)


class Token(msgspec.Struct, frozen=True):
    """When the removal of a pod was asked for, and why."""

    since: datetime
    cause: str

    def encode(self) -> str:
        """`2026-11-20T12:00:00.000001+00:00/scale-down`."""
        return f"{self.since.isoformat()}/{self.cause}"

    @property
    def is_rollout(self) -> bool:
        """A slurmd pod of the same Slurm node comes; `rollout`, or that with more: `rollout: the node offers …`."""
        return self.cause.partition(":")[0] == CAUSE_ROLLOUT

    @property
    def is_release(self) -> bool:
        """True if the pod goes because nothing has run there for long: an autoscaler may have the Node."""
        return self.cause.partition(":")[0] == CAUSE_IDLE


def token_of(pod: Pod) -> Token | None:
    """The removal that is under way, or None.

    A text that is no token (somebody annotated by hand) still asks for the removal: the whole text is its
    cause, and its time is long ago, so any drain timeout has passed.
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
