"""All that is known about a person's login pod, as one value.

The exit code of sshd, as the kubelet reports it, says whether the pod is to be stopped or recreated. So processes in
the pod need no rights in Kubernetes.
"""

from __future__ import annotations

import enum
from datetime import datetime, timedelta
from typing import Final

import msgspec

from sunkpy.core.model.objects import ContainerStatus, KubeObject, Pod, Wire
from sunkpy.core.model.times import parse_rfc3339

SSHD: Final = "sshd"
"""The container of a login pod that people log in to."""

YOUNG_FOR: Final = timedelta(minutes=1)
"""How long after its creation a login pod that nobody asked for counts as empty. People come through `my-login`, which
asks for the pod before it enters.
"""

_REVISION: Final = "controller-revision-hash"


class Ended(enum.IntEnum):
    """Exit codes by which `start-sshd` says why it ended for good: the pod is idle, or its person wants a new one."""

    IDLE = 80
    RESTART = 81


class StatefulSetSpec(Wire, frozen=True, kw_only=True):
    """The spec of a login pod's StatefulSet: how many pods it is to have, 0 or 1."""

    replicas: int = 1


class StatefulSetStatus(Wire, frozen=True, kw_only=True):
    """The status of a login pod's StatefulSet. `update_revision`: the revision from which the next pod is made.
    `observed_generation`: the generation of the spec that this status is about.
    """

    observed_generation: int = 0
    update_revision: str = ""


class StatefulSet(KubeObject, frozen=True, kw_only=True):
    """The StatefulSet that makes a person's login pod."""

    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class LoginView(msgspec.Struct, frozen=True, kw_only=True):
    """The login pod of one person and its StatefulSet (`workload`), as they are now.

    `stops`: the values say that unused login pods are stopped. `is_asked`: the person asked for the pod recently.
    """

    now: datetime
    stops: bool
    is_asked: bool
    workload: StatefulSet | None
    pod: Pod | None

    @property
    def ended(self) -> Ended | None:
        """Why sshd last ended in the pod; None if it has not ended yet, or if no exit code of `start-sshd` says why."""
        for status in self._sshd:
            last = status.state.terminated or status.last_state.terminated
            if last is not None and last.exit_code in list(Ended):
                return Ended(last.exit_code)
        return None

    @property
    def is_surely_empty(self) -> bool:
        """True if a pod that nobody asked for counts as empty: it does not exist, its sshd does not run, or it is under
        a minute old.
        """
        if self.pod is None or not self._sshd_runs:
            return True
        made = self.pod.metadata.creation_timestamp
        return bool(made) and self.now - parse_rfc3339(made) < YOUNG_FOR

    @property
    def is_stuck(self) -> bool:
        """True if the pod is Pending, and was made from outdated values of the chart."""
        workload, pod = self.workload, self.pod
        if workload is None or pod is None or pod.status.phase != "Pending" or self._sshd_runs:
            return False
        is_told = workload.status.observed_generation == workload.metadata.generation
        return is_told and pod.labels.get(_REVISION) != workload.status.update_revision

    @property
    def _sshd(self) -> tuple[ContainerStatus, ...]:
        statuses = self.pod.status.container_statuses if self.pod is not None else ()
        return tuple(status for status in statuses if status.name == SSHD)

    @property
    def _sshd_runs(self) -> bool:
        return any(status.state.running is not None for status in self._sshd)
