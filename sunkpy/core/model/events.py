"""Kubernetes Events, read by the core API, which also shows the Events that were written by events.k8s.io."""

from __future__ import annotations

from sunkpy.core.model.objects import KubeObject, Wire


class EventSource(Wire, frozen=True, kw_only=True):
    """The program that wrote the Event."""

    component: str = ""


class EventObject(Wire, frozen=True, kw_only=True):
    """The object that the Event is about."""

    kind: str = ""
    name: str = ""
    namespace: str = ""


class EventSeries(Wire, frozen=True, kw_only=True):
    """How often the Event was repeated."""

    count: int = 0
    last_observed_time: str | None = None


class Event(KubeObject, frozen=True, kw_only=True):
    """An Event."""

    involved_object: EventObject = EventObject()
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    series: EventSeries | None = None
    source: EventSource = EventSource()
    reporting_component: str = ""

    @property
    def at(self) -> str:
        """When the Event was last seen."""
        repeated = self.series.last_observed_time if self.series is not None else None
        return repeated or self.last_timestamp or self.event_time or self.metadata.creation_timestamp

    @property
    def times(self) -> int:
        """How often the Event was seen."""
        return (self.series.count if self.series is not None else self.count) or 1

    @property
    def by(self) -> str:
        """The program that wrote the Event."""
        return self.reporting_component or self.source.component
