"""Whether a person's login pod is to be started, stopped or recreated.

Not who has access: the values and the directory say that, and sshd in the pod asks them.
"""

from __future__ import annotations

from sunkpy.core.logins.actions import LoginAction, RenewPod, StartLogin, StopLogin
from sunkpy.core.logins.view import Ended, LoginView

_NEVER_CHANGED = 1


def decide_login(view: LoginView) -> LoginAction | None:
    """The one action to do now; the watches show its effect.

    An idle pod stops even if it is asked for at this moment, because its sshd has ended. The request lasts, and starts
    the next pod.
    """
    workload, pod = view.workload, view.pod
    if workload is None or workload.is_deleting:
        return None
    name, version = workload.name, workload.metadata.resource_version
    if workload.spec.replicas == 0:
        return StartLogin(name, version) if view.is_asked else None
    # The chart sets no number of replicas, or each upgrade would start all pods; so Kubernetes begins with one. If the
    # spec was never changed, the pod was never asked for. A person may still have entered it before this process ran;
    # then it stops when it is idle.
    is_unasked = view.stops and workload.metadata.generation == _NEVER_CHANGED and view.ended is None
    if is_unasked and view.is_surely_empty:
        return StopLogin(name, version, "it has not been asked for")
    if pod is None or pod.is_deleting:
        return None
    if view.ended is Ended.IDLE and view.stops:
        return StopLogin(name, version, "it is unused", pod)
    # Idle in a pod that should run on: it was made while it still might stop.
    if view.ended is not None or (view.is_asked and view.is_stuck):
        return RenewPod(pod)
    return None
