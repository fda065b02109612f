"""Collects what is known of a person's login pod, from watches and recent requests, into one `LoginView`."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import Final

import msgspec

from sunkpy.core import names
from sunkpy.core.logins import LoginView, StatefulSet
from sunkpy.core.model.objects import KubeObject, Pod, PodSpec
from sunkpy.core.model.times import utc_now
from sunkpy.kube.informer import Informer
from sunkpy.logins.settings import LoginsSettings

ASKED_FOR_S: Final = 30.0
"""The seconds for which a request for a login pod counts. `my-login` repeats it each second."""


def trim_pod(pod: Pod) -> Pod:
    """Return the pod without its spec, which nobody reads."""
    return msgspec.structs.replace(pod, spec=PodSpec())


class Collector:
    """Collects what is known of each person's login pod. It keeps in memory only who asked for a login pod, and
    `my-login` repeats such a request each second.
    """

    def __init__(
        self,
        *,
        settings: LoginsSettings,
        workloads: Informer[StatefulSet],
        pods: Informer[Pod],
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._settings = settings
        self._workloads = workloads
        self._pods = pods
        self._clock = clock
        self._now = now
        self._asked: dict[str, float] = {}
        self._people = {person.stateful_set: name for name, person in settings.people.items()}

    def view(self, person: str) -> LoginView:
        """Return all that is known of the login pod of one person."""
        settings = self._settings.people[person]
        namespace, name = self._settings.namespace, settings.stateful_set
        return LoginView(
            now=self._now(),
            stops=settings.stops,
            is_asked=self._clock() - self._asked.get(person, -ASKED_FOR_S) < ASKED_FOR_S,
            workload=self._workloads.get(namespace, name),
            pod=self._pods.get(namespace, f"{name}-0"),
        )

    def person_of(self, part: KubeObject) -> str | None:
        """Return the person to whom this StatefulSet or pod belongs; None if the settings name no such person."""
        return self._people.get(part.labels.get(names.LABEL_LOGIN, ""))

    def note_request(self, person: str) -> None:
        """Note that the person asks for their pod now."""
        self._asked[person] = self._clock()
