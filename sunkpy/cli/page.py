"""`kubectl sunk page`: serves the web page of the pool on a person's own machine, or for everybody in a cluster."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import msgspec

from sunkpy.cli.access import Access
from sunkpy.cli.connected import Sides, connected
from sunkpy.cli.explain import Explainer
from sunkpy.cli.pool_reader import PoolReader
from sunkpy.cli.readable_cluster import or_not
from sunkpy.core.explain.explanation import Explanation
from sunkpy.core.model.events import Event
from sunkpy.core.model.times import utc_now
from sunkpy.core.overview.history import find_history, without_texts_of_others
from sunkpy.core.page.tables import PageFacts, namespaces_in
from sunkpy.kube import paths
from sunkpy.runtime.process import Process, run
from sunkpy.runtime.serving import serve_app
from sunkpy.runtime.settings import BadSettings, ProcessSettings, load
from sunkpy.scheduler.settings import SchedulerSettings
from sunkpy.web.auth import ClusterDoor, LocalDoor
from sunkpy.web.feed import Feed
from sunkpy.web.server import PageServer
from sunkpy.web.sessions import Sessions
from sunkpy.web.source import Story

_LOOPBACK: Final = "127.0.0.1"
_HIDDEN_JOBS: Final = "jobs: PrivateData=jobs in slurm.conf hides them from the page; squeue shows you yours"
_WRITERS: Final = ("scheduler", "syncer", "operator")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `kubectl sunk page`. `every_s`: the seconds between two reads of the pool.

    `dashboards`: the beginning of the addresses of the dashboards in Grafana. `private_jobs`: slurm.conf has
    PrivateData=jobs. `session_key_file`: the file with the key that signs the sessions of people with a Slurm token.
    """

    port: int = 8017
    every_s: float = 5.0
    dashboards: str = ""
    private_jobs: bool = False
    session_key_file: Path | None = None


class ClusterSource:
    """Reads what the web page shows: the same that the commands `status`, `queue`, `why-drained`, `history` and
    `explain` read.
    """

    def __init__(self, sides: Sides, namespace: str, *, private_jobs: bool = False) -> None:
        self._sides = sides
        self._kube = sides.kube
        self._namespace = namespace
        self._private_jobs = private_jobs

    async def read(self) -> PageFacts:
        """Read the pool, and the Events that sunkpy has written. The result names what could not be read."""
        unread: list[str] = []
        pool, events = await asyncio.gather(self._reader().read(), self._events(unread))
        if self._private_jobs and pool.jobs == ():
            pool = msgspec.structs.replace(pool, jobs=None)
            unread.append(_HIDDEN_JOBS)
        said = tuple(dict.fromkeys((*pool.unread, *unread)))
        return PageFacts(pool=msgspec.structs.replace(pool, unread=said), events=events, now=utc_now())

    async def explain_pod(self, namespace: str, name: str, *, sees_all_pods: bool) -> Story:
        """Explain a pod, as `kubectl sunk explain pod` does."""
        explainer = Explainer.over(self._sides, namespace, sees_all_pods=sees_all_pods)
        return Story(explanations=(await explainer.pod(name),))

    async def explain_gang(self, namespace: str, name: str, *, sees_all_pods: bool) -> Story:
        """Explain the gangs with this name, or with an owner of this name, as `kubectl sunk explain gang` does."""
        explainer = Explainer.over(self._sides, namespace, sees_all_pods=sees_all_pods)
        return Story(explanations=await explainer.gangs(name))

    async def explain_node(self, name: str, *, sees_all_pods: bool) -> Story:
        """Return a node's history and, if the viewer sees all pods, who has its devices."""
        found: list[Explanation] = []
        past = await self._reader().past(name)
        if sees_all_pods:
            found.append(await Explainer.over(self._sides, "", sees_all_pods=True).node(name))
        elif past is not None:
            past = without_texts_of_others(past)
        return Story(explanations=found, history=find_history(past) if past is not None else None)

    def _reader(self) -> PoolReader:
        return PoolReader.over(self._sides, namespace=self._namespace)

    async def _events(self, unread: list[str]) -> tuple[Event, ...]:
        """Return the Events that the scheduler, the syncer and the operator have written."""

        async def written_by(writer: str) -> list[Event]:
            fields = f"reportingComponent=sunkpy.dev/{writer}"
            listing = self._kube.list_objects(paths.ALL_EVENTS, Event, field_selector=fields, may_be_old=True)
            return await or_not("Events", listing, unread) or []

        found = await asyncio.gather(*map(written_by, _WRITERS))
        return tuple(event for events in found for event in events)


async def show(access: Access, options: Options, say: Callable[[str], object]) -> None:
    """Serve the page on this machine only, with the rights of the person who started it, until cancelled.

    Raises:
        BadSettings, KubeError: the settings cannot be used, or no kubeconfig or service account leads to an apiserver.
        OSError: the port is taken.
    """
    async with connected(access) as sides:
        key = secrets.token_urlsafe(24)
        feed = Feed(ClusterSource(sides, access.namespace), every_s=options.every_s)
        hosts = frozenset(f"{host}:{options.port}" for host in (_LOOPBACK, "localhost"))
        server = PageServer(feed, LocalDoor(key), dashboards=options.dashboards, hosts=hosts)
        runner = await serve_app(server.app(), options.port, host=_LOOPBACK)
        try:
            say(f"http://{_LOOPBACK}:{options.port}/#key={key}")
            await feed.run()
        finally:
            await runner.cleanup()


def serve(access: Access, options: Options) -> None:
    """Serve the page to everybody in a cluster, until the process gets a signal. Each viewer sees only what they have
    proved, with a token, that they may see.

    Raises:
        BadSettings: --config or --session-key-file is not given, or the settings of the scheduler cannot be used.
    """
    if access.config is None:
        raise BadSettings("--serve needs --config, the file with the scheduler's settings")
    if options.session_key_file is None:
        raise BadSettings("--serve needs --session-key-file, a file that sunkpy slurm-token writes")
    sessions = Sessions(options.session_key_file)
    settings = load(access.config, SchedulerSettings)
    own = ProcessSettings(namespace=settings.namespace, log=settings.log, http=settings.http)
    run("page", own, lambda process: _serve(process, access, settings, options, sessions))


async def _serve(
    process: Process, access: Access, settings: SchedulerSettings, options: Options, sessions: Sessions
) -> None:
    async with AsyncExitStack() as stack:
        sides = await stack.enter_async_context(connected(access))
        source = ClusterSource(sides, settings.namespace, private_jobs=options.private_jobs)
        feed = Feed(source, every_s=options.every_s)
        door = ClusterDoor(
            sides.kube,
            namespace=settings.namespace,
            namespaces=lambda: namespaces_in(feed.tables),
            slurm_url=access.slurmrestd or settings.slurm.url,
            sessions=sessions,
        )
        server = PageServer(feed, door, dashboards=options.dashboards)
        runner = await serve_app(server.app(), options.port)
        stack.push_async_callback(runner.cleanup)
        await feed.run()
