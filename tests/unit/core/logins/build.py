"""StatefulSets, pods and views of somebody's login pod."""

from __future__ import annotations

from datetime import datetime, timedelta

from sunkpy.core.logins.view import SSHD, LoginView, StatefulSet, StatefulSetSpec, StatefulSetStatus
from sunkpy.core.model.objects import (
    Condition,
    ContainerState,
    ContainerStatus,
    Meta,
    Pod,
    PodStatus,
    Running,
    Terminated,
)
from sunkpy.core.model.times import parse_rfc3339, rfc3339

NAME = "slurm-login-ann"
NOW: datetime = parse_rfc3339("2026-11-21T12:00:00Z")


def make_workload(
    *, replicas: int = 1, generation: int = 2, observed: int = 0, is_deleting: bool = False
) -> StatefulSet:
    """The StatefulSet of ann, which was changed before."""
    deleted = "2026-11-21T12:00:00Z" if is_deleting else None
    meta = Meta(name=NAME, uid="w", resource_version="7", generation=generation, deletion_timestamp=deleted)
    return StatefulSet(
        metadata=meta,
        spec=StatefulSetSpec(replicas=replicas),
        status=StatefulSetStatus(observed_generation=observed or generation, update_revision="new"),
    )


def make_pod(
    *,
    code: int | None = None,
    is_up_again: bool = False,
    is_ready: bool = True,
    is_deleting: bool = False,
    unschedulable: str = "",
    phase: str = "Running",
    revision: str = "new",
    age_s: float = 3600,
) -> Pod:
    """The login pod of ann. `code`: the exit code of its sshd, if that has ended."""
    over = ContainerState(terminated=Terminated(exit_code=code)) if code is not None else ContainerState()
    running = ContainerState(running=Running())
    state = ContainerState() if phase == "Pending" else running if code is None or is_up_again else over
    sshd = ContainerStatus(name=SSHD, state=state)
    if is_up_again:
        sshd = ContainerStatus(name=SSHD, state=running, last_state=over)
    conditions = [Condition(type="Ready", status=str(is_ready and code is None))]
    if unschedulable:
        conditions.append(Condition(type="PodScheduled", status="False", message=unschedulable))
    deleted = "2026-11-21T12:00:00Z" if is_deleting else None
    status = PodStatus(
        phase=phase,
        pod_ip="10.0.0.9",
        conditions=tuple(conditions),
        container_statuses=(ContainerStatus(name="sackd"), sshd),
    )
    meta = Meta(
        name=f"{NAME}-0",
        uid="p",
        creation_timestamp=rfc3339(NOW - timedelta(seconds=age_s)),
        deletion_timestamp=deleted,
        labels={"controller-revision-hash": revision},
    )
    return Pod(metadata=meta, status=status)


def make_view(
    workload: StatefulSet | None, pod: Pod | None, *, is_asked: bool = False, stops: bool = True
) -> LoginView:
    """What is known of ann's."""
    return LoginView(now=NOW, stops=stops, is_asked=is_asked, workload=workload, pod=pod)
