"""What `decide_login` may tell `sunkpy logins` to do with a person's login pod; one `match` carries the action out."""

from __future__ import annotations

import msgspec

from sunkpy.core.model.objects import Pod


class StartLogin(msgspec.Struct, frozen=True):
    """Scale the login pod's StatefulSet `name` to 1, if it still has the resourceVersion `version`."""

    name: str
    version: str


class StopLogin(msgspec.Struct, frozen=True):
    """Scale the login pod's StatefulSet `name` to 0, if it still has the resourceVersion `version`.

    `pod`: if given, it has to exist still. `why`: the reason for the log.
    """

    name: str
    version: str
    why: str
    pod: Pod | None = None


class RenewPod(msgspec.Struct, frozen=True):
    """Delete the login pod, if it is unchanged. Its StatefulSet makes the next one from the current values."""

    pod: Pod


LoginAction = StartLogin | StopLogin | RenewPod
