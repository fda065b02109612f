"""What a decision about somebody's login pod asks the shell to do: plain data, run by one `match`."""

from __future__ import annotations

import msgspec

from sunkpy.core.model.objects import Pod


class StartLogin(msgspec.Struct, frozen=True):
    """Scale the StatefulSet to 1, if it still is the one of that version."""

    name: str
    version: str


class StopLogin(msgspec.Struct, frozen=True):
    """Scale it to 0, for a reason that is told; if there still is that pod, unless none is meant."""

    name: str
    version: str
    why: str
    pod: Pod | None = None


class RenewPod(msgspec.Struct, frozen=True):
    """Delete the pod, if it still is as it was seen: the StatefulSet makes the next one as the values are now."""

    pod: Pod


LoginAction = StartLogin | StopLogin | RenewPod
