"""Whether somebody's login pod is to be started, stopped or made anew. Who reads this file top to bottom has it all."""

from __future__ import annotations

from sunkpy.core.logins.actions import LoginAction, RenewPod, StartLogin, StopLogin
from sunkpy.core.logins.view import Ended, LoginView

_NEVER_CHANGED = 1


def decide_login(view: LoginView) -> LoginAction | None:
    """The one thing to do now; what comes of it is seen by the watches.

    An idle pod stops also when it is asked for at this moment, for sshd has left it. The request lasts, and starts the
    next one.
    """
    workload, pod = view.workload, view.pod
    if workload is None or workload.is_deleting:
        return None
    name, version = workload.name, workload.metadata.resource_version
    if workload.spec.replicas == 0:
        return StartLogin(name, version) if view.is_asked else None
    # The chart does not say how many pods there are, or each upgrade would start them all; so Kubernetes begins with
    # one. A spec that nobody has changed since is one that nobody has asked for; but its pod may have been found by
    # another way while nobody looked, and then idleness ends it.
    is_unasked = view.stops and workload.metadata.generation == _NEVER_CHANGED and view.ended is None
    if is_unasked and view.is_surely_empty:
        return StopLogin(name, version, "nobody has asked for it yet")
    if pod is None or pod.is_deleting:
        return None
    if view.ended is Ended.IDLE and view.stops:
        return StopLogin(name, version, "nobody uses it", pod)
    # Idle in a pod that should run on: it was made while it still might stop.
    if view.ended is not None or (view.is_asked and view.is_stuck):
        return RenewPod(pod)
    return None
