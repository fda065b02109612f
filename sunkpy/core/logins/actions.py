"""The actions on a person's login pod that `decide_login` returns; `sunkpy logins` carries them out."""

from __future__ import annotations

import msgspec

from sunkpy.core.model.objects import Pod


class StartLogin(msgspec.Struct, frozen=True):
    """Scale the login pod's StatefulSet `name` to 1, if it still has the resourceVersion `version`."""

    name: str
    version: str


class StopLogin(msgspec.Struct, frozen=True):
    """Scale the login pod's StatefulSet `name` to 0, if it still has the resourceVersion `version`.

    `pod`: if given, the StatefulSet is scaled only while this pod still exists. `why`: the reason, as the log shows it.
    """

    name: str
    version: str
    why: str
    pod: Pod | None = None


class RenewPod(msgspec.Struct, frozen=True):
    """Delete the login pod, unless it has changed since the decision. Its StatefulSet makes the next pod from the
    current values.
    """

    pod: Pod


LoginAction = StartLogin | StopLogin | RenewPod
