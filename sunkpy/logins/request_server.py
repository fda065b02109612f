"""The HTTP API for `my-login`: `POST /logins/v1/<person>` asks for the pod of somebody.

    200 <address> <port>   it is there: where its sshd listens; DNS may not know yet that this pod is a new one
    202 <why>              not yet: ask again in a second, for a request is soon forgotten
    404 <why>              they have none of their own

Nobody proves who they are: a request does no more than start what its person was given, and a pod that nobody comes
to stops again. What ends a session is asked for from inside of the pod, where its person alone is.
"""

from __future__ import annotations

from aiohttp import web

from sunkpy.core.logins import is_open, why_closed
from sunkpy.logins.collect import Collector
from sunkpy.logins.loop import LoginsLoop
from sunkpy.logins.metrics import LoginsMetrics
from sunkpy.logins.settings import LoginsSettings


class RequestServer:
    """The one route."""

    def __init__(
        self, *, settings: LoginsSettings, collector: Collector, loop: LoginsLoop, metrics: LoginsMetrics
    ) -> None:
        self._settings = settings
        self._collector = collector
        self._loop = loop
        self._metrics = metrics

    def app(self) -> web.Application:
        """The application to serve."""
        app = web.Application(client_max_size=1024)
        app.router.add_post("/logins/v1/{person}", self._handle)
        return app

    async def _handle(self, request: web.Request) -> web.Response:
        response = self._answer(request.match_info["person"])
        self._metrics.requests.labels(str(response.status)).inc()
        return response

    def _answer(self, person: str) -> web.Response:
        if person not in self._settings.people:
            return web.Response(status=404, text="you have no login pod of your own")
        self._collector.note_request(person)
        view = self._collector.view(person)
        if view.pod is not None and is_open(view):
            return web.Response(text=f"{view.pod.status.pod_ip} {self._settings.ssh_port}")
        self._loop.look(person)
        return web.Response(status=202, text=why_closed(view))
