"""What is known of a person's login pod, as one value.

The exit code that the kubelet reports says why sshd has ended: processes in the pod have no rights in Kubernetes, and
need none to be stopped or recreated.
"""

from __future__ import annotations

import enum
from datetime import datetime, timedelta
from typing import Final

import msgspec

from sunkpy.core.model.objects import ContainerStatus, KubeObject, Pod, Wire
from sunkpy.core.model.times import parse_rfc3339

SSHD: Final = "sshd"
"""The container that people enter."""

YOUNG_FOR: Final = timedelta(minutes=1)
"""For a minute nobody uses a pod without a request: `my-login` asks first."""

_REVISION: Final = "controller-revision-hash"


class Ended(enum.IntEnum):
    """Exit codes of `start-sshd`. With one of them it does not start again in that pod."""

    IDLE = 80
    RESTART = 81


class StatefulSetSpec(Wire, frozen=True, kw_only=True):
    """How many pods the StatefulSet is to have."""

    replicas: int = 1


class StatefulSetStatus(Wire, frozen=True, kw_only=True):
    """The revision of the next pod, for a generation of the spec."""

    observed_generation: int = 0
    update_revision: str = ""


class StatefulSet(KubeObject, frozen=True, kw_only=True):
    """Makes the pod."""

    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class LoginView(msgspec.Struct, frozen=True, kw_only=True):
    """The login pod of one person, as it is now.

    `stops`: it is stopped while unused. `is_asked`: its person asked for it recently.
    """

    now: datetime
    stops: bool
    is_asked: bool
    workload: StatefulSet | None
    pod: Pod | None

    @property
    def ended(self) -> Ended | None:
        """Why sshd ended in the pod; None while it runs, or when the reason is not ours."""
        for status in self._sshd:
            last = status.state.terminated or status.last_state.terminated
            if last is not None and last.exit_code in list(Ended):
                return Ended(last.exit_code)
        return None

    @property
    def is_surely_empty(self) -> bool:
        """Nobody can be in the pod: it does not exist, its sshd does not run, or it was made a moment ago."""
        if self.pod is None or not self._sshd_runs:
            return True
        made = self.pod.metadata.creation_timestamp
        return bool(made) and self.now - parse_rfc3339(made) < YOUNG_FOR

    @property
    def is_stuck(self) -> bool:
        """The pod has never run, and was made from outdated values."""
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
