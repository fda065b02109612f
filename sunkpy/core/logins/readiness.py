"""Whether a person can enter their login pod now, and the text for them if they cannot."""

from __future__ import annotations

from sunkpy.core.logins.view import LoginView


def is_open(view: LoginView) -> bool:
    """True if the person can enter their login pod, and it is not being stopped."""
    return not why_closed(view)


def why_closed(view: LoginView) -> str:
    """Return why a person cannot enter their login pod yet; empty if they can."""
    pod = view.pod
    if view.workload is None or view.workload.spec.replicas == 0 or pod is None:
        return "your login pod is being started"
    if pod.is_deleting or view.ended is not None:
        return "your previous login pod is ending"
    if pod.is_condition_true("Ready") and pod.status.pod_ip:
        return ""
    scheduled = pod.condition("PodScheduled")
    if scheduled is not None and scheduled.status == "False":
        return f"your login pod waits for a node with room: {scheduled.message}"
    return "your login pod is starting"
