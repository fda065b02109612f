"""What a decision about a person's login pod asks the shell to do: plain data, run by one `match`."""

from __future__ import annotations

import msgspec

from sunkpy.core.model.objects import Pod


class StartLogin(msgspec.Struct, frozen=True):
    """Scale the StatefulSet to 1, if it still has that version."""

    name: str
    version: str


class StopLogin(msgspec.Struct, frozen=True):
    """Scale the StatefulSet to 0, for a reason that is logged; if the pod, when one is named, still exists."""

    name: str
    version: str
    why: str
    pod: Pod | None = None


class RenewPod(msgspec.Struct, frozen=True):
    """Delete the pod, if it is unchanged: the StatefulSet makes the next one from the current values."""

    pod: Pod


LoginAction = StartLogin | StopLogin | RenewPod
