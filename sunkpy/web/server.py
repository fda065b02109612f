"""The HTTP routes of the page. Texts that other people wrote, such as job names, are only sent as JSON strings.

    GET    /                       the page, its script and style below /static
    POST   /session {"token": …}   sets a cookie that no script can read; DELETE removes it
    GET    /api/page               all tables that this viewer may see, compressed
    GET    /api/stream             server-sent events: the changes of the tables
    GET    /api/explain/…          node/<name>, pod/<namespace>/<name>, job/<id>

Errors say why in {"why": …}. No route changes anything in Slurm or Kubernetes, and the page loads nothing from other
origins.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib.resources import files
from typing import Final

import msgspec
from aiohttp import web

from sunkpy.core.overview.sight import Sight
from sunkpy.core.page.rows import NODES
from sunkpy.kube.errors import KubeError
from sunkpy.slurm.errors import SlurmError
from sunkpy.web.auth import Doorkeeper, PageDenied
from sunkpy.web.feed import Feed
from sunkpy.web.stories import Stories

COOKIE: Final = "sunkpy-page"
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_TYPES: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_STATIC: Final = {
    name: (files("sunkpy.web") / "static" / name).read_bytes()
    for name in ("index.html", "page.css", "page.js", "state.js", "map.js", "views.js", "icon.svg")
}
_HEARTBEAT_S: Final = 15.0
_AGAIN_S: Final = 60.0
"""How often the server checks that the viewer of a stream still has the right to see the page."""
_VIEWERS: Final = 1000


class PageServer:
    """The HTTP server of the page, for one feed (the tables of the page).

    `hosts`: the host names under which browsers may call it; empty allows any. `dashboards`: the beginning of the
    addresses of sunkpy's dashboards in Grafana.
    """

    def __init__(
        self, feed: Feed, door: Doorkeeper, *, dashboards: str = "", hosts: frozenset[str] = frozenset()
    ) -> None:
        self._feed = feed
        self._door = door
        self._dashboards = dashboards
        self._hosts = hosts
        self._stories = Stories(feed)
        self._streams = 0

    def app(self) -> web.Application:
        """Return the aiohttp application with all routes."""
        app = web.Application(client_max_size=64 * 1024, middlewares=[self._guard])
        app.router.add_get("/", self._static)
        app.router.add_get("/static/{name}", self._static)
        app.router.add_post("/session", self._enter)
        app.router.add_delete("/session", self._leave)
        app.router.add_get("/api/page", self._page)
        app.router.add_get("/api/stream", self._stream)
        app.router.add_get("/api/explain/node/{name}", self._explain_node)
        app.router.add_get("/api/explain/pod/{namespace}/{name}", self._explain_pod)
        app.router.add_get("/api/explain/job/{id:[0-9]{1,10}}", self._explain_job)
        app.on_response_prepare.append(_add_headers)
        return app

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Refuse a request for another host name than those in `hosts`: another site may point its own name at this
        machine. Return errors as JSON.
        """
        if self._hosts and request.host not in self._hosts:
            return _json({"why": f"this server does not answer under the name {request.host}"}, status=421)
        try:
            return await handler(request)
        except PageDenied as denied:
            return _json({"why": str(denied)}, status=denied.status)
        except (KubeError, SlurmError) as error:
            return _json({"why": str(error)}, status=503)

    async def _static(self, request: web.Request) -> web.Response:
        name = request.match_info.get("name", "index.html")
        if name not in _STATIC:
            return _json({"why": "no such file"}, status=404)
        return web.Response(body=_STATIC[name], content_type=_TYPES[name.rpartition(".")[2]], charset="utf-8")

    async def _enter(self, request: web.Request) -> web.Response:
        """Set the cookie for a token in the request's body. The body must be JSON, which a form of another site cannot
        send.
        """
        if request.content_type != "application/json":
            raise PageDenied(415, "send JSON")
        try:
            token = msgspec.json.decode(await request.read(), type=dict[str, str]).get("token", "")
        except msgspec.MsgspecError as error:
            raise PageDenied(400, 'send {"token": …}') from error
        kept = await self._door.enter(token.strip())
        response = web.Response(status=204)
        is_secure = "https" in (request.scheme, request.headers.get("X-Forwarded-Proto", ""))
        response.set_cookie(_cookie(request), kept, httponly=True, samesite="Strict", secure=is_secure)
        return response

    async def _leave(self, request: web.Request) -> web.Response:
        response = web.Response(status=204)
        response.del_cookie(_cookie(request))
        return response

    async def _sight(self, request: web.Request) -> Sight:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        return await self._door.sight(
            token if scheme.lower() == "bearer" else request.cookies.get(_cookie(request), "")
        )

    async def _page(self, request: web.Request) -> web.Response:
        sight = await self._sight(request)
        channel = await self._feed.channel(sight)
        headers = {"Content-Encoding": "gzip", "X-Dashboards": self._dashboards}
        return web.Response(body=channel.page(), content_type="application/json", headers=headers)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        sight = await self._sight(request)
        if self._streams >= _VIEWERS:
            raise PageDenied(503, f"{_VIEWERS} viewers are here already")
        channel, texts = await self._feed.channel(sight), asyncio.Queue[str](16)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
        await response.prepare(request)
        channel.viewers.add(texts)
        self._streams += 1
        try:
            await response.write(f'retry: 2000\ndata: {{"number":{channel.number}}}\n\n'.encode())
            await self._send(request, response, sight, texts)
        finally:
            self._streams -= 1
            channel.viewers.discard(texts)
        return response

    async def _send(
        self, request: web.Request, response: web.StreamResponse, sight: Sight, texts: asyncio.Queue[str]
    ) -> None:
        """Send updates until the viewer is gone or their rights have changed; the browser then connects again."""
        checked_s = time.monotonic()
        with suppress(ConnectionError):
            while True:
                try:
                    text = await asyncio.wait_for(texts.get(), _HEARTBEAT_S)
                    await response.write(f"data: {text}\n\n".encode())
                except TimeoutError:
                    await response.write(b": still here\n\n")
                if time.monotonic() - checked_s > _AGAIN_S:
                    checked_s = time.monotonic()
                    with suppress(KubeError, SlurmError):
                        if await self._sight(request) != sight:
                            return

    async def _explain_node(self, request: web.Request) -> web.Response:
        sight = await self._sight(request)
        if sight.user:
            raise PageDenied(403, "with a token of Slurm you see only your own jobs")
        name = request.match_info["name"]
        if name not in self._feed.tables[NODES]:
            return _json({"why": f"there is no Slurm node on a Node {name}"}, status=404)
        return _json(await self._stories.of_node(name, sight))

    async def _explain_pod(self, request: web.Request) -> web.Response:
        sight, namespace = await self._sight(request), request.match_info["namespace"]
        if not sight.sees_pods_of(namespace):
            raise PageDenied(403, f"you may not get pods in namespace {namespace}")
        return _json(await self._stories.of_pod(namespace, request.match_info["name"], sight))

    async def _explain_job(self, request: web.Request) -> web.Response:
        sight, id_ = await self._sight(request), int(request.match_info["id"])
        story = await self._stories.of_job(id_, sight)
        if story is None:
            return _json({"why": f"Slurm does not remember job {id_}, or it is not yours"}, status=404)
        return _json(story)


async def _add_headers(_: web.Request, response: web.StreamResponse) -> None:
    for name, value in _HEADERS.items():
        response.headers[name] = value


def _cookie(request: web.Request) -> str:
    """Return the name of this page's cookie, with its port: browsers share the cookies of a host between its ports."""
    return f"{COOKIE}-{request.url.port}"


def _json(answer: object, *, status: int = 200) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode(answer), content_type="application/json")
