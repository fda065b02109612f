"""Decides whether a person's login pod is to be started, stopped or recreated.

This module does not decide who may log in: the values and the directory (LDAP) do, and sshd in the pod asks them.
"""

from __future__ import annotations

from sunkpy.core.logins.actions import LoginAction, RenewPod, StartLogin, StopLogin
from sunkpy.core.logins.view import Ended, LoginView

_NEVER_CHANGED = 1


def decide_login(view: LoginView) -> LoginAction | None:
    """Return the one action for a person's login pod now; None if there is nothing to do.

    An idle pod is stopped even if its person asks for it at this moment, because its sshd has ended. The request stays,
    and starts the next pod.
    """
    workload, pod = view.workload, view.pod
    if workload is None or workload.is_deleting:
        return None
    name, version = workload.name, workload.metadata.resource_version
    if workload.spec.replicas == 0:
        return StartLogin(name, version) if view.is_asked else None
    # The chart sets no number of replicas, or else each upgrade would start all pods. So a new StatefulSet has one
    # replica. If its spec was never changed, nobody has asked for the pod, and it is stopped if it is surely empty. A
    # person may have entered it before this process ran; such a pod stops when it is idle.
    is_unasked = view.stops and workload.metadata.generation == _NEVER_CHANGED and view.ended is None
    if is_unasked and view.is_surely_empty:
        return StopLogin(name, version, "it has not been asked for")
    if pod is None or pod.is_deleting:
        return None
    if view.ended is Ended.IDLE and view.stops:
        return StopLogin(name, version, "it is unused", pod)
    # An idle pod gets here only if the values do not stop idle pods: it was made from older values.
    if view.ended is not None or (view.is_asked and view.is_stuck):
        return RenewPod(pod)
    return None
