"""Finds out which kinds of owners (objects that own pods, such as Jobs) can be watched, and at which paths. To follow a
kind means to keep this answer up to date.

One answer of the apiserver lists all kinds, so the cost depends neither on how many kinds are followed nor on how many
are missing. The list is requested again while a kind is missing, and when a watch finds that its path is gone. So a CRD
that is installed later is found, and also one that comes back in another version.

One answer proves nothing, because an apiserver that has just started does not know its CRDs yet. A kind counts as
absent only when answers have lacked it for a while. Until then nothing is decided about the pods that need the kind.
The last known path of the kind is kept in any case. Kinds that may not be read are tried again one at a time.

At most `MOST_KINDS` kinds that are not `expected` are followed at a time; further ones wait like those that may not be
read. So pods cannot make the scheduler follow kinds without end, or keep it from the expected ones.

A kind is needed as long as an object of this kind owns a known pod, directly or through other objects, and when
somebody looks for such an object. A CronJob or a roll may need a kind again a moment later, so it is followed for much
longer than a new list takes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from sunkpy.core.model.objects import Kind
from sunkpy.core.model.times import backoff_s
from sunkpy.kube import errors
from sunkpy.kube.client import Kube
from sunkpy.kube.discovery import Resource, Served, explain_absent, read_served

_RETRY_FIRST_S: Final = 0.2
_AT_ONCE: Final = 100
"""How many kinds are compared with a new answer before other tasks have their turn. Pods may name thousands of kinds
that do not exist, and a change of a kind takes time for each of its pods.
"""
MOST_KINDS: Final = 64
"""The most kinds that are followed at once. For each, a watch keeps all objects of the kind in the cluster, and whoever
makes pods may name any kind.
"""


class KindTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How long `OwnerKinds` and those who use it wait, in seconds.

    * `again_s`: between two searches while a kind is missing, and between two tries to read a kind that may not be
      read.
    * `sure_after_s`: until a missing kind counts as absent, if at least two answers have lacked it.
    * `apart_s`: between two requests to the apiserver, because whoever may make pods can cause them.
    * `unneeded_s`: until a kind that nobody needs is dropped; `dropped_each_s`: between two checks for such kinds.
    * `patience_s`: until an owner that no watch has shown is read by itself, because a watch may show a pod before its
      owner.
    """

    again_s: float = 15.0
    sure_after_s: float = 10.0
    apart_s: float = 1.0
    unneeded_s: float = 600.0
    dropped_each_s: float = 60.0
    patience_s: float = 1.0


KIND_TIMES: Final = KindTimes()


@dataclass(slots=True, eq=False)
class _Known:
    """What is known of one kind of owners.

    `resource`: version and path by which the kind was last read. `missing_since`: when it was first missing, if the
    latest answers of the apiserver lack it; None if they do not. `problem`: what a person has to change before it can
    be read. `refused_at`: when a read of it was last refused. `needed_until`: the time after which the kind may be
    dropped.
    """

    resource: Resource | None = None
    missing_since: float | None = None
    problem: str = ""
    refused_at: float = float("-inf")
    needed_until: float = float("-inf")
    found: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_well(self) -> bool:
        """True if the kind is served and may be read, as far as is known."""
        return self.resource is not None and self.missing_since is None and not self.problem


class OwnerKinds:
    """Follows kinds of owners: keeps up to date at which path each can be watched. `on_change` is called with a kind
    that is found, is missing, or cannot be read; it must not block.

    `expected` kinds are followed however many others are.
    """

    def __init__(
        self,
        kube: Kube,
        *,
        clock: Callable[[], float],
        on_change: Callable[[Kind], None],
        expected: Container[Kind] = frozenset(),
        times: KindTimes = KIND_TIMES,
    ) -> None:
        self._kube = kube
        self._times = times
        self._clock = clock
        self._on_change = on_change
        self._expected = expected
        self._known: dict[Kind, _Known] = {}
        self._served: Served | None = None
        self._failures = 0
        self._wanted = asyncio.Event()
        self._to_try: asyncio.Queue[tuple[Kind, Resource]] = asyncio.Queue()
        import structlog  # here, because commands import this module and write no log

        self._log = structlog.get_logger("owners")

    # ------------------------------------------------------------- questions

    def where(self, kind: Kind) -> Resource | None:
        """Return the resource by which the kind was last read; None if it was not read yet, or is not followed."""
        return self._known[kind].resource if kind in self._known else None

    def is_missing(self, kind: Kind) -> bool:
        """True if the apiserver does not serve the kind now: for a moment, or until somebody installs it."""
        return kind in self._known and self._known[kind].missing_since is not None

    def problem(self, kind: Kind) -> str:
        """Return what a person has to change before the kind can be read; empty if nothing like that is known."""
        return self._known[kind].problem if kind in self._known else ""

    # ------------------------------------------------------------- following

    def follow(self, kind: Kind, *, for_good: bool = False) -> None:
        """Find the path of this kind, and keep it up to date from now on, because somebody needs the kind. Unless
        `for_good`, the kind may be dropped when nobody has called `follow` for it for `unneeded_s` seconds.
        """
        if kind not in self._known:
            self._known[kind] = _Known()
            place = self._served.find(kind) if self._served is not None else None
            if place is not None:
                self._to_try.put_nowait((kind, place))
            else:
                self._wanted.set()
        known = self._known[kind]
        until = float("inf") if for_good else self._clock() + self._times.unneeded_s
        known.needed_until = max(known.needed_until, until)

    def drop_unneeded(self, in_use: Iterable[Kind]) -> list[Kind]:
        """Stop following the kinds that nobody has needed for a while, and return them. `in_use`: kinds that are needed
        now.
        """
        for kind in in_use:
            self.follow(kind)
        now = self._clock()
        unneeded = [kind for kind, known in self._known.items() if known.needed_until <= now]
        for kind in unneeded:
            del self._known[kind]
        return unneeded

    def follows(self, kind: Kind) -> bool:
        """True if this object keeps the path of the kind up to date."""
        return kind in self._known

    def doubt(self, kind: Kind) -> None:
        """Count the kind as missing until it is found again. The caller has learned that the apiserver may not serve it
        any more.
        """
        if kind in self._known:
            self._miss(kind)
            self._wanted.set()

    async def until_served(self, kind: Kind) -> None:
        """Count the kind as missing, and wait until the apiserver serves it again at the same path. If it is found at
        another path, `on_change` is called, and this goes on waiting. Return at once if the kind is not followed.
        """
        known = self._known.get(kind)
        if known is None:
            return  # no longer followed: its watch, which waits here, is about to be cancelled
        place = known.resource
        self.doubt(kind)
        while known.missing_since is not None or known.resource != place:
            await known.found.wait()

    async def run(self) -> None:
        """Ask the apiserver for the followed kinds again and again, as needed, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_looking())
            while True:
                group.create_task(self._try(*await self._to_try.get()))

    async def _keep_looking(self) -> None:
        while True:
            self._wanted.clear()
            await self._look()
            await asyncio.sleep(self._times.apart_s)
            await self._until_needed()

    async def _until_needed(self) -> None:
        """Wait until a caller wants a new answer at once, or until `again_s` is over and some kind is missing or cannot
        be read.
        """
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._times.again_s):
                    await self._wanted.wait()
                return
            if not all(known.is_well for known in self._known.values()):
                return

    async def _look(self) -> None:
        try:
            self._served = await read_served(self._kube)
        except errors.KubeError as error:
            if not self._failures:
                self._log.warning("kinds cannot be listed: tried again until they can", error=str(error))
            await asyncio.sleep(backoff_s(self._failures, first_s=_RETRY_FIRST_S, last_s=self._times.again_s))
            self._failures += 1
            self._wanted.set()
            return
        self._failures = 0
        for number, kind in enumerate(tuple(self._known)):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            if kind in self._known:
                self._compare(kind, self._served)
        self._try_next_refused(self._served)

    def _compare(self, kind: Kind, served: Served) -> None:
        """Compare what is known of a kind with a new answer: note if it is missing, and try to read it if its path is
        new.
        """
        known = self._known[kind]
        place = served.find(kind, rather=known.resource)
        if place is None:
            if kind.group not in served.uncertain:
                self._miss(kind)
        elif known.missing_since is not None or (place != known.resource and not known.problem):
            self._to_try.put_nowait((kind, place))

    def _try_next_refused(self, served: Served) -> None:
        """Try to read the kind whose read was refused longest ago, because nobody reports when a right is given. Only
        one kind is tried each time, so that the cost does not grow with the number of refused kinds.
        """
        refused = [kind for kind, known in self._known.items() if known.problem and known.missing_since is None]
        kind = min(refused, key=lambda each: self._known[each].refused_at, default=None)
        place = served.find(kind) if kind is not None else None
        if kind is not None and place is not None:
            self._to_try.put_nowait((kind, place))

    async def _try(self, kind: Kind, place: Resource) -> None:
        """Read one object of the kind, to learn whether it is there and may be read."""
        if kind not in self._known:
            return
        try:
            await self._kube.request("GET", place.collection, params={"limit": "1"})
        except errors.Forbidden as error:
            self._note_refused(kind, f"the scheduler may not read {place.title}: {error.message}")
        except (errors.NotFound, errors.NotServed):
            self.doubt(kind)
        except errors.KubeError as error:
            self._log.warning("kind could not be checked", kind=kind.kind, group=kind.group, error=str(error))
        else:
            if self._has_room(kind):
                self._note_found(kind, place)
            else:
                why = f"{MOST_KINDS} kinds of owners are watched already, which is the limit"
                self._note_refused(kind, f"the scheduler does not watch {place.title}: {why}")

    def _has_room(self, kind: Kind) -> bool:
        """True if the kind may be followed: it already is, it is expected, or there are few enough others."""
        known = self._known.get(kind)
        if known is None or known.resource is not None or kind in self._expected:
            return True
        others = (known for each, known in self._known.items() if each not in self._expected)
        return sum(known.resource is not None for known in others) < MOST_KINDS

    # ----------------------------------------------------- what is known now

    def _miss(self, kind: Kind) -> None:
        """Note that one more answer lacks the kind. If answers have lacked it for long enough, report that as a
        problem.
        """
        known, now = self._known[kind], self._clock()
        if known.missing_since is None:
            known.missing_since = now
            self._on_change(kind)
        elif now - known.missing_since >= self._times.sure_after_s:
            self._note_problem(kind, explain_absent(kind))

    def _note_refused(self, kind: Kind, problem: str) -> None:
        """Note that the kind is served but cannot be followed, and why (`problem`)."""
        if (known := self._known.get(kind)) is not None:
            known.missing_since, known.refused_at = None, self._clock()
            self._note_problem(kind, problem)

    def _note_problem(self, kind: Kind, problem: str) -> None:
        """Log a new problem of the kind, and call `on_change`. Do nothing if the problem is known already."""
        known = self._known[kind]
        if known.problem != problem:
            self._log.warning("kind cannot be read", kind=kind.kind, group=kind.group, problem=problem)
            known.problem = problem
            self._on_change(kind)

    def _note_found(self, kind: Kind, place: Resource) -> None:
        known = self._known.get(kind)
        if known is None or (known.is_well and known.resource == place):
            return
        if known.resource is not None:
            self._log.info("kind is back", kind=kind.kind, group=kind.group, at=place.collection)
        known.resource, known.missing_since, known.problem = place, None, ""
        known.found.set()
        known.found = asyncio.Event()
        self._on_change(kind)
