"""Runs a process: logging, signals, health and metrics over HTTP, leader election, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import gzip
import itertools
import logging
import math
import os
import signal
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from sunkpy.runtime.election import Election, Identity, LeadershipLost, LeaseLock
from sunkpy.runtime.metrics_secret import MetricsSecret
from sunkpy.runtime.queue import QueueMetrics
from sunkpy.runtime.serving import serve_app
from sunkpy.runtime.settings import LogSettings, ProcessSettings
from sunkpy.runtime.watchdog import ExitWatchdog

_FAST = 1
"""The gzip level that takes least time."""
_COLLECT_S = 0.2
_TURNS_TO_MIDDLE = 5
_SAME_S = 0.2
"""The seconds for which the same text of metrics is served, so that a client that asks all the time does not keep the
process busy.
"""

AliveCheck = Callable[[], str | None]
"""A function that returns what is wrong; None if nothing is."""


class Process:
    """What a process gives to the function that does its work: identity, metrics registry, health checks, election,
    log.

    Standby replicas are ready: readiness means that this replica could take over, not that it leads.
    """

    def __init__(self, name: str, settings: ProcessSettings) -> None:
        self.name = name
        self.settings = settings
        self.identity = Identity(
            name=os.environ.get("POD_NAME") or _unique_name(), address=os.environ.get("POD_IP", "")
        )
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self.queue_metrics = QueueMetrics(self.registry)
        self.log = structlog.get_logger(name)
        self._leader_gauge = Gauge(
            "sunkpy_leader",
            "1: this replica leads. If no replica of a process has 1, the process does no work",
            registry=self.registry,
        )
        self._refused = Counter(
            "sunkpy_metrics_refused",
            "Requests for /metrics without the token of `metricsSecret`",
            registry=self.registry,
        )
        folder = settings.http.secret_folder
        self.lost_events = Counter(
            "sunkpy_events_lost",
            "Events that were not written, by `why`. `failed`: the log has the reason. `too many`: the "
            "process made Events faster than the apiserver took them",
            ["why"],
            registry=self.registry,
        )
        self._secret = MetricsSecret(Path(folder)) if folder else None
        self._ready_checks: dict[str, AliveCheck] = {}
        self._alive_checks: dict[str, AliveCheck] = {}
        self._figures: Callable[[], bytes] = bytes
        self._text, self._text_until = b"", 0.0
        self.election: Election | None = None

    def add_ready_check(self, name: str, check: AliveCheck) -> None:
        """Add a check: the process is not ready as long as the check returns a text."""
        self._ready_checks[name] = check

    def add_alive_check(self, name: str, check: AliveCheck) -> None:
        """Add a check: the process is not alive while the check returns a text and this replica holds the lease.

        Without election the check does not count: no other replica could take over, and whatever blocks the answers
        would block them again after a restart.
        """
        self._alive_checks[name] = lambda: check() if self.election is not None and self.election.is_leader else None

    def serve_figures(self, figures: Callable[[], bytes]) -> None:
        """Add the text that `figures` returns to each answer of /metrics. `figures` must not take time: the text may
        have megabytes, and has to be ready.
        """
        self._figures = figures

    def remaining_s(self) -> float:
        """Return for how many more seconds this replica may write (its `Deadline`): 0 if it does not lead, endless
        without election.
        """
        if not self.settings.leader_election.enabled:
            return math.inf
        return self.election.remaining_s() if self.election is not None else 0.0

    def lead_alone(self) -> None:
        """Show this replica as the leader, without an election, because there is no other replica."""
        self._leader_gauge.set(1)

    async def lead(self, lock: LeaseLock, work: Callable[[], Awaitable[None]]) -> None:
        """Wait until this replica leads, then run `work` as long as it does. If leader election is off, run `work` at
        once.

        Raises:
            LeadershipLost: another replica may lead; the caller has to end the process.
        """
        settings = self.settings.leader_election
        if not settings.enabled:
            self.lead_alone()
            await work()
            return
        self.election = Election(lock, self.identity, watchdog=ExitWatchdog(), duration_s=settings.duration_seconds)
        self._leader_gauge.set_function(lambda: float(self.election is not None and self.election.is_leader))
        await self.election.run(work)

    async def serve(self) -> web.AppRunner:
        """Serve /healthz, /readyz and /metrics from now on. The caller cleans up the returned runner at the end."""
        app = web.Application()
        app.router.add_get("/healthz", _health(self._alive_checks))  # that it answers shows that the event loop turns
        app.router.add_get("/readyz", _health(self._ready_checks))
        app.router.add_get("/metrics", self._metrics)
        certificate = self._secret.context if self._secret is not None else None
        return await serve_app(app, self.settings.http.port, certificate=certificate)

    async def _metrics(self, request: web.Request) -> web.Response:
        """Answer a scrape in the plain text format of Prometheus. Megabytes are compressed in a thread, if the client
        takes gzip. A request without the metrics' token, if there is one, is refused.
        """
        if self._secret is not None and not self._secret.admits(request.headers.get("Authorization", "")):
            self._refused.inc()
            raise web.HTTPUnauthorized(headers={"WWW-Authenticate": "Bearer"})
        now = asyncio.get_running_loop().time()
        if now >= self._text_until:
            self._text, self._text_until = generate_latest(self.registry) + self._figures(), now + _SAME_S
        text = self._text
        headers = {"Content-Type": CONTENT_TYPE_PLAIN_0_0_4}
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            text = await asyncio.to_thread(gzip.compress, text, _FAST)
            headers["Content-Encoding"] = "gzip"
        return web.Response(body=text, headers=headers)


def run(name: str, settings: ProcessSettings, body: Callable[[Process], Awaitable[None]]) -> None:
    """Run a process until its body, which does the work, ends or a signal comes. Exit code: 0 on a signal or if the
    body ends, 1 on lost leadership. Any other error of the body is raised.
    """
    configure_logging(settings.log)
    process = Process(name, settings)
    try:
        asyncio.run(_run(process, body))
    except* LeadershipLost as lost:
        process.log.error("leadership lost: ending", why=str(lost.exceptions[0]))
        sys.exit(1)


async def _run(process: Process, body: Callable[[Process], Awaitable[None]]) -> None:
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(body(process))
    stopping = False

    def stop() -> None:
        nonlocal stopping
        stopping = True
        process.log.info("stopping")
        task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    runner = await process.serve()
    settle_garbage_collector()
    process.log.info("started", identity=str(process.identity))
    try:
        async with collecting_often():
            await task
    except asyncio.CancelledError:
        if not stopping:
            raise
    finally:
        await runner.cleanup()


def settle_garbage_collector() -> None:
    """Exempt all objects that exist after the start from Python's garbage collection, and collect seldom, because
    caches that only grow should not be walked all the time.

    A walk of the middle generation, at most 120,000 objects that stayed, stops the event loop for some 15 ms.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 5, 3_600)


@contextlib.asynccontextmanager
async def collecting_often(every_s: float = _COLLECT_S) -> AsyncIterator[None]:
    """While the context lasts, have Python collect young objects so often that no collection stops the event loop for
    long.

    By itself, Python collects when it has made some thousands of objects more than it has freed. Caches that replace
    their values free as many as they make, so collections begin late: once, a million objects were young when one
    began, and it took 0.1 s.
    """

    async def collect() -> None:
        for turn in itertools.count(1):
            await asyncio.sleep(every_s)
            gc.collect(0 if turn % _TURNS_TO_MIDDLE else 1)

    task = asyncio.create_task(collect())
    try:
        yield
    finally:
        task.cancel()


def _unique_name() -> str:
    """Return a name for a process outside of a pod. No other process has this name, not even the next one on this
    machine.
    """
    return f"{socket.gethostname()}-{uuid.uuid4().hex[:8]}"


def _health(checks: dict[str, AliveCheck]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handler(_: web.Request) -> web.Response:
        problems = [f"{name}: {problem}" for name, check in checks.items() if (problem := check())]
        return web.Response(status=503 if problems else 200, text="\n".join(problems) or "ok")

    return handler


def configure_logging(settings: LogSettings) -> None:
    """Set up logging: one line per record to stderr, as JSON or, for a person, as coloured text (`format`)."""
    level = getattr(logging, settings.level.upper())
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(name)s: %(message)s")
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if settings.format == "json" else structlog.dev.ConsoleRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
