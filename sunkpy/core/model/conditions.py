"""Conditions: when two say the same, when a transition happened, and how they are written.

Source of the rule: API conventions, typical status properties: `lastTransitionTime` moves only when `status` does.
"""

from __future__ import annotations

import msgspec

from sunkpy.core.model.objects import Condition


def says_the_same(old: Condition | None, new: Condition) -> bool:
    """True if status, reason and message are equal, so that there is nothing to write."""
    return old is not None and (old.status, old.reason, old.message) == (new.status, new.reason, new.message)


def stamped(new: Condition, old: Condition | None, now: str) -> Condition:
    """Return `new` with the time of its last transition. `old` is the condition on the object; `now` is in RFC 3339."""
    since = old.last_transition_time if old is not None and old.status == new.status else None
    return msgspec.structs.replace(new, last_transition_time=since or now)


def as_json(condition: Condition) -> dict[str, object]:
    """Return the condition as JSON to write. Empty fields are included, because they replace older values."""
    body: dict[str, object] = {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.last_transition_time,
    }
    if condition.observed_generation is not None:
        body["observedGeneration"] = condition.observed_generation
    return body
