"""Reads the figures (metrics) of the Slurm cluster and renders them from time to time, so that a scrape costs nothing.

One read of Slurm serves all scrapes. From the start of one read to the start of the next it takes at least ten times as
long as the first one took. Work that grows with the number of nodes and jobs is done in a thread, so it holds the event
loop for a few milliseconds at most.

Figures that are too old are not shown: a gap in a graph says that nothing is known.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import chain

import msgspec
import structlog

from sunkpy.core.figures.devices import device_family, gpus_alloc
from sunkpy.core.figures.drains import DrainTimes
from sunkpy.core.figures.family import MetricFamily, Page, Sample, render, single
from sunkpy.core.figures.jobs import JobRow, job_families
from sunkpy.core.figures.lost import LostWork
from sunkpy.core.figures.nodes import PartitionRow, node_families, partition_families
from sunkpy.core.figures.reservations import License, Reservation, license_families, reservation_families
from sunkpy.core.figures.shares import Share, share_families
from sunkpy.core.figures.statistics import Statistics, statistics_families
from sunkpy.core.figures.waits import WaitTimes
from sunkpy.core.model.states import SlurmNode
from sunkpy.slurm import NodeCache, Slurm
from sunkpy.slurm.errors import SlurmError
from sunkpy.slurm.pace import SHARE
from sunkpy.syncer.job_reader import JobReader
from sunkpy.syncer.settings import FigureSettings

_OLD_TURNS = 3.0
"""After this many read intervals without an answer no figures are shown."""
_UNBOUNDED = sys.maxsize
_SOON_S = 5.0
_SHARES_S = 60.0
"""The shortest pause between reads of fair share: slurmctld computes it each PriorityCalcPeriod, 5 minutes."""


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """Slurm's answers in one read, from which all metrics of the Slurm cluster are made. `jobs`: None until all jobs
    have been read once; `unread_jobs`: the number of jobs that were not read yet.
    """

    nodes: Mapping[str, SlurmNode]
    jobs: Sequence[JobRow] | None
    unread_jobs: int
    partitions: Sequence[PartitionRow]
    statistics: Statistics
    licenses: Sequence[License] = ()
    reservations: Sequence[Reservation] = ()
    shares: Sequence[Share] = ()

    def families(self) -> Iterator[MetricFamily]:
        """Yield the metrics that can be made from this read alone."""
        yield from node_families(self.nodes, gpus_alloc(self.jobs or ()))
        yield from partition_families(self.partitions, self.nodes)
        yield from statistics_families(self.statistics)
        yield from license_families(self.licenses)
        yield from reservation_families(self.reservations)
        yield from share_families(self.shares)
        if self.jobs is not None:
            yield from job_families(self.jobs, {each.name: each.tier for each in self.partitions})
            yield device_family(self.jobs, self.nodes)


class TermTotals:
    """The metrics that add up over a term of leadership: wait times, drain times, lost work."""

    def __init__(self, nodeset_of: Callable[[str], str]) -> None:
        self._waits = WaitTimes()
        self._drains = DrainTimes(nodeset_of)
        self._lost = LostWork(nodeset_of)

    def families(self, read: Read, now_s: float) -> Iterator[MetricFamily]:
        """Add one more read of Slurm to the totals, and yield their metrics."""
        self._drains.add(read.nodes, now_s)
        slurm_s = int(read.statistics.figures.get("req_time", 0))
        jobs, is_whole = read.jobs or (), read.jobs is not None and not read.unread_jobs
        self._waits.begin(slurm_s)
        self._waits.add(jobs, is_whole=is_whole)
        self._lost.add(jobs, read.nodes, slurm_s, is_whole=is_whole)
        yield self._drains.family
        yield self._waits.family
        yield from self._lost.families


ReadListener = Callable[[Read], Awaitable[None]]
"""A function that is called with each read, after it is rendered."""


class FigureFeed:
    """Reads the metrics of the Slurm cluster (the figures) again and again, and keeps their text for scrapes.

    `scheduler_user`: the Slurm user of the scheduler. `nodeset_of` returns the NodeSet of a Slurm node. `with_waits`
    returns whether a listener needs what pending jobs request of nodes.
    """

    def __init__(
        self,
        slurm: Slurm,
        nodes: NodeCache,
        settings: FigureSettings,
        *,
        scheduler_user: str,
        nodeset_of: Callable[[str], str] = lambda _: "",
        with_waits: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._slurm = slurm
        self._nodes = nodes
        self._settings = settings
        self._jobs = JobReader(slurm, scheduler_user=scheduler_user, most=settings.job_reads, with_waits=with_waits)
        self._history = TermTotals(nodeset_of)
        self._shares: Sequence[Share] = ()
        self._shares_at_s = float("-inf")
        self._clock = clock
        self._text = b""
        self._at_s = float("-inf")
        self._turn_s = settings.seconds
        self._is_due_soon = False
        self._problem = ""
        self._listeners: list[ReadListener] = []
        self._log = structlog.get_logger("syncer-figures")

    def add_listener(self, listener: ReadListener) -> None:
        """From now on, call this listener with each read of Slurm."""
        self._listeners.append(listener)

    @property
    def text(self) -> bytes:
        """The metrics as Prometheus reads them; empty if they are too old."""
        return self._text if self._clock() - self._at_s <= _OLD_TURNS * self._turn_s else b""

    async def run(self) -> None:
        """Read Slurm again and again until cancelled; return at once if the figures are turned off."""
        while self._settings.enabled:
            started_s = self._clock()
            try:
                await self.refresh()
            except SlurmError as error:
                if not self._problem:
                    self._log.warning("Slurm cannot be read for its metrics", error=str(error))
                self._problem = str(error)
            else:
                self._problem = ""
            await asyncio.sleep(self.due_in_s(self._clock() - started_s))

    def read_soon(self) -> None:
        """Let the next read of Slurm come in a few seconds, because a listener waits for it."""
        self._is_due_soon = True

    def due_in_s(self, took_s: float) -> float:
        """Return the seconds until the next read, if the last one took `took_s`."""
        self._turn_s = max(self._settings.seconds, SHARE * took_s)
        soon_s = max(min(_SOON_S, self._settings.seconds), SHARE * took_s)
        self._is_due_soon, is_soon = False, self._is_due_soon
        return (soon_s if is_soon else self._turn_s) - took_s

    async def refresh(self) -> None:
        """Read Slurm, render its metrics, and call the listeners; do nothing before the first answer about nodes.

        Raises:
            SlurmError: Slurm could not be read; the metrics stay as they were.
        """
        observation = self._nodes.observation
        if observation is None:
            return
        sent_s = self._clock()
        jobs = await self._jobs.refresh()
        read = Read(
            nodes=observation.nodes,
            jobs=jobs,
            unread_jobs=self._jobs.unread,
            partitions=await self._slurm.partition_rows(),
            statistics=await self._slurm.statistics(),
            licenses=await self._slurm.licenses(),
            reservations=await self._slurm.reservations(),
            shares=await self._read_shares(),
        )
        families = chain(read.families(), self._history.families(read, sent_s))
        page = await asyncio.to_thread(render, families, most=self._settings.series_per_name)
        about = await asyncio.to_thread(render, bounds(page, read, self._settings), most=_UNBOUNDED)
        self._text, self._at_s = page.text + about.text, sent_s
        for listener in self._listeners:
            await listener(read)

    async def _read_shares(self) -> Sequence[Share]:
        """Return the fair shares, read at most once a minute; empty if Slurm has no accounting or did not answer."""
        if self._clock() - self._shares_at_s >= _SHARES_S:
            self._shares_at_s = self._clock()
            try:
                self._shares = await self._slurm.shares()
            except SlurmError:  # counted by endpoint; all else is shown
                self._shares = ()
        return self._shares


def bounds(page: Page, read: Read, settings: FigureSettings) -> Iterator[MetricFamily]:
    """Yield the metrics about what is missing: how many series the limits leave out, and how many jobs were not read
    yet.
    """
    yield single(
        "sunkpy_figures_series_limit",
        "The most series that the syncer shows of one metric of Slurm (syncer.metrics.seriesPerName)",
        settings.series_per_name,
    )
    yield MetricFamily(
        name="sunkpy_figures_series_cut",
        help="How many series of a metric are not shown because of sunkpy_figures_series_limit, by `name` of the "
        "metric",
        labels=("name",),
        samples=[Sample((name,), count) for name, count in page.cut.items()],
    )
    text = (
        "Jobs that the syncer has not read yet for its metrics. If it stays above 0, more jobs come than "
        "syncer.metrics.jobReads allows"
    )
    yield single("sunkpy_figures_jobs_unread", text, read.unread_jobs)
