"""What `kubectl sunk roll` writes to a NodeSet, and its answer: how far the rolling update of the slurmd pods is."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Final

import msgspec

from sunkpy.core.explain.explanation import Explanation, Line
from sunkpy.core.explain.nodeset import NodeSetFacts, explain_nodeset
from sunkpy.core.model.slurmd import slurm_node_of
from sunkpy.core.nodeset.spec import NodeSet
from sunkpy.core.overview.job_ends import JobEnd, job_end_text
from sunkpy.core.overview.table import printable

_ALL: Final = "100%"


class Verb(enum.StrEnum):
    """What `kubectl sunk roll` does with the rolling update of a NodeSet: show, pause, resume, or begin it now."""

    STATUS = "status"
    PAUSE = "pause"
    RESUME = "resume"
    NOW = "now"


class RollChange(msgspec.Struct, frozen=True, kw_only=True):
    """The fields to write to a NodeSet; None leaves a field as it is.

    `ends_windows`: remove the maintenance windows, so that the rolling update begins at once. `why_not`: why nothing is
    written.
    """

    paused: bool | None = None
    max_unavailable: int | str | None = None
    ends_windows: bool = False
    why_not: str = ""

    @property
    def spec(self) -> dict[str, object]:
        """The change as a merge patch of the NodeSet's spec; empty if there is nothing to write."""
        changed: dict[str, object] = {}
        if self.paused is not None:
            changed["paused"] = self.paused
        rolling: dict[str, object] = {"windows": None} if self.ends_windows else {}
        if self.max_unavailable is not None:
            rolling["maxUnavailable"] = self.max_unavailable
        if rolling:
            changed["updateStrategy"] = {"rollingUpdate": rolling}
        return changed


def plan_roll(facts: NodeSetFacts, verb: Verb, max_unavailable: int | str | None = None) -> RollChange:
    """Return what `kubectl sunk roll` writes to the NodeSet for this verb. `max_unavailable`: the person's value for
    the spec, which is written, too.

    `now` without such a value allows all pods to be unavailable at once.
    """
    spec = facts.nodeset.spec
    if verb is Verb.STATUS:
        return RollChange()
    if verb is Verb.NOW:
        if spec.update_strategy.type != "RollingUpdate":
            return RollChange(why_not=f"updateStrategy is {spec.update_strategy.type}: only deleted pods are replaced")
        if facts.world is not None and not len(facts.world.survey.outdated):
            return RollChange(why_not="there is nothing to roll: all pods have the current template")
        max_unavailable = max_unavailable or _ALL
    paused = verb is Verb.PAUSE
    is_same = max_unavailable in (None, spec.update_strategy.rolling_update.max_unavailable)
    ends_windows = verb is Verb.NOW and bool(spec.update_strategy.rolling_update.windows)
    if paused == spec.paused and is_same and not ends_windows:
        return RollChange(why_not="the roll is paused already" if paused else "the roll is not paused")
    return RollChange(
        paused=paused if paused != spec.paused else None,
        max_unavailable=None if is_same else max_unavailable,
        ends_windows=ends_windows,
    )


def busy_nodes(facts: NodeSetFacts) -> frozenset[str]:
    """Return the Slurm nodes whose slurmd pods the rolling update will replace when their jobs have ended."""
    outdated = facts.world.survey.outdated if facts.world is not None else ()
    return frozenset(slurm_node_of(judged.pod) for judged in outdated)


def explain_roll(
    facts: NodeSetFacts, before: NodeSet, change: RollChange, job_ends: tuple[JobEnd, ...], not_asked: str = ""
) -> Explanation:
    """Return the explanation of the NodeSet after the change, with what was written, and when its jobs end.

    `before`: the NodeSet before the change. `not_asked`: why Slurm was not asked about jobs.
    """
    explained = explain_nodeset(facts)
    lines = (
        Line(title="done", texts=tuple(_done(before, change))),
        Line(title="left as it is", texts=(change.why_not,) if change.why_not else ()),
        *explained.lines,
        Line(title="jobs end", texts=tuple(printable(job_end_text(each)) for each in job_ends)),
        Line(title="not asked", texts=(not_asked,) if not_asked else ()),
    )
    back = _way_back(before, change)
    return msgspec.structs.replace(explained, lines=lines, what_to_do=back or explained.what_to_do)


def _done(before: NodeSet, change: RollChange) -> Iterator[str]:
    if change.paused is not None:
        yield "paused: the roll replaces only pods that are drained already" if change.paused else "resumed"
    if change.ends_windows:
        yield "its maintenance windows are removed until the next helm upgrade"
    if change.max_unavailable is not None:
        was = before.spec.update_strategy.rolling_update.max_unavailable
        yield f"maxUnavailable is {change.max_unavailable} now, and was {was}; this ends no job"


def _way_back(before: NodeSet, change: RollChange) -> str:
    command = f"kubectl sunk roll {before.name} resume -n {before.metadata.namespace}"
    if change.max_unavailable is not None:
        was = before.spec.update_strategy.rolling_update.max_unavailable
        return f"When the roll is over: {command} --max-unavailable {was}"
    return f"To go on: {command}" if change.paused else ""
