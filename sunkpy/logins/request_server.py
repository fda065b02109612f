"""The HTTP API for `my-login`: `POST /logins/v1/<person>` asks for the login pod of a person.

    200 <address> <port>   the pod is ready: where its sshd listens (DNS may still have the previous pod)
    202 <why>              not yet: ask again in a second, because a request is soon forgotten
    404 <why>              this person has none

Requests need no authentication: they only start the pod, and a pod that nobody enters stops again. A restart, which
ends sessions, is asked for from inside the pod, where only its person is.
"""

from __future__ import annotations

from aiohttp import web

from sunkpy.core.logins import is_open, why_closed
from sunkpy.logins.collect import Collector
from sunkpy.logins.loop import LoginsLoop
from sunkpy.logins.metrics import LoginsMetrics
from sunkpy.logins.settings import LoginsSettings


class RequestServer:
    """Serves the HTTP API by which people ask for their login pods."""

    def __init__(
        self, *, settings: LoginsSettings, collector: Collector, loop: LoginsLoop, metrics: LoginsMetrics
    ) -> None:
        self._settings = settings
        self._collector = collector
        self._loop = loop
        self._metrics = metrics

    def app(self) -> web.Application:
        """Return the application to serve."""
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
