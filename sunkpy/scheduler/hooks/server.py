"""The HTTP API for prologs and epilogs: `POST /hooks/v1/{prolog|epilog|gate}` with `{"job_id": 12, "node": "gpu-001"}`.

    200 {"done": true}              the hook may end; `kept`, `over`: which marker files on the node stay or go
    202 {"done": false, "why": …}   not yet: ask again at once (each call waits up to 20 s by itself)
    307 Location: …                 another replica leads
    400 {"why": …}                  the body of the call is malformed
    401, 403 {"why": …}             the token is not accepted, or its pod may not speak for this node or job
    429 {"why": …}                  this address has sent too many tokens that were not accepted: ask again later
    503 {"why": …}                  no replica leads yet, or Slurm or Kubernetes could not be read: ask again later

`gate` is the question of a prolog whether pods of earlier jobs have left the node. The caller is the root user in a
slurmd pod, and sends that pod's projected service-account token, so it can speak only for its own node.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from aiohttp import web

from sunkpy.kube.errors import KubeError
from sunkpy.runtime.election import Identity
from sunkpy.scheduler.hooks.answers import Hooks
from sunkpy.scheduler.hooks.messages import Denied, HookAnswer, HookCall
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.slurm.errors import SlurmError


class HookServer:
    """The HTTP server that Prologs and Epilogs call. It runs on every replica of the scheduler; only the leader
    answers, and the other replicas redirect calls to the leader.
    """

    def __init__(self, *, port: int, metrics: SchedulerMetrics) -> None:
        self._port = port
        self._metrics = metrics
        self.hooks: Hooks | None = None
        self.leader: Callable[[], Identity | None] = lambda: None

    def app(self) -> web.Application:
        """Return the web application, with the one route on which Prologs and Epilogs call."""
        app = web.Application(client_max_size=64 * 1024)
        app.router.add_post("/hooks/v1/{hook:prolog|epilog|gate}", self._handle)
        return app

    def answer_by(self, hooks: Hooks | None) -> None:
        """Let `hooks` answer calls from now on, because this replica leads. None: this replica does not lead any more;
        calls are redirected to the leader, or refused if there is none.
        """
        self.hooks = hooks

    async def _handle(self, request: web.Request) -> web.Response:
        hook = request.match_info["hook"]
        response = await self._answer(hook, request)
        self._metrics.hooks.labels(hook, str(response.status)).inc()
        return response

    async def _answer(self, hook: str, request: web.Request) -> web.Response:
        hooks = self.hooks
        if hooks is None:
            return self._redirect(request)
        try:
            call = msgspec.json.decode(await request.read(), type=HookCall)
            token, peer = request.headers.get("Authorization", ""), request.remote or ""
            caller = await hooks.auth.check(token, call.node, peer=peer)
            answer = await hooks.asks[hook](call, caller)
        except msgspec.MsgspecError as error:
            return _answer(400, HookAnswer(done=False, why=f'send {{"job_id": 12, "node": "name"}}: {error}'))
        except Denied as denied:
            return _answer(denied.status, HookAnswer(done=False, why=str(denied)))
        except (SlurmError, KubeError) as error:
            return _answer(503, HookAnswer(done=False, why=str(error)))
        return _answer(200 if answer.done else 202, answer)

    def _redirect(self, request: web.Request) -> web.Response:
        leader = self.leader()
        if leader is None or not leader.address:
            return _answer(503, HookAnswer(done=False, why="no replica leads yet"))
        host = f"[{leader.address}]" if ":" in leader.address else leader.address
        raise web.HTTPTemporaryRedirect(f"http://{host}:{self._port}{request.path}")


def other_leader(leader: Identity | None, *, own: Identity) -> Identity | None:
    """Return the replica to which calls are redirected. None if no replica leads, or if it is this one (`own`), which
    may still be taking over.
    """
    return leader if leader is not None and leader.name != own.name else None


def _answer(status: int, answer: HookAnswer) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode(answer), content_type="application/json")
