"""The HTTP API for prologs and epilogs: `POST /hooks/v1/{prolog|epilog}` with `{"job_id": 12, "node": "gpu-001"}`.

    200 {"done": true}              the hook may end
    202 {"done": false, "why": …}   not yet: ask again at once (each call waits up to 20 s by itself)
    307 Location: …                 another replica leads
    400, 401, 403 {"why": …}        wrong for good
    503 {"why": …}                  nobody leads yet, or Slurm or Kubernetes could not be read: ask again later

The caller is the root user in a slurmd pod with that pod's projected service-account token: a node speaks for itself
only.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable

import cachetools
import msgspec
import structlog
from aiohttp import web

from sunkpy.core import names
from sunkpy.core.gang.hooks import epilog_waits_for, is_covered_by_another, prolog_waits_for
from sunkpy.core.gang.identity import parse_comment
from sunkpy.core.gang.view import has_left_node
from sunkpy.core.model.objects import Pod
from sunkpy.core.model.states import JobId
from sunkpy.kube.client import Kube
from sunkpy.kube.errors import KubeError
from sunkpy.runtime.election import Identity
from sunkpy.runtime.queue import WorkQueue
from sunkpy.scheduler.cluster import Cluster
from sunkpy.scheduler.ledger import GangEntry, Ledger
from sunkpy.scheduler.metrics import SchedulerMetrics
from sunkpy.scheduler.pod_writer import PodWriter
from sunkpy.scheduler.reconciler import Reconciler
from sunkpy.slurm import Slurm
from sunkpy.slurm.errors import NotFound, SlurmError

LONG_POLL_S = 20.0
_TOKEN_TTL_S = 60.0


class HookCall(msgspec.Struct, frozen=True):
    """The body of a call."""

    job_id: JobId
    node: str


class HookAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The body of an answer."""

    done: bool
    why: str = ""


class Denied(Exception):
    """The caller may not say this; `status` is 401 or 403."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class NodeAuth:
    """Does this token belong to the slurmd pod of that Slurm node? Only yes is remembered, for a minute."""

    def __init__(self, kube: Kube, cluster: Cluster, *, audience: str) -> None:
        self._kube = kube
        self._cluster = cluster
        self._audience = audience
        self._known: cachetools.TTLCache[bytes, tuple[str, str]] = cachetools.TTLCache(maxsize=20_000, ttl=_TOKEN_TTL_S)

    async def check(self, authorization: str, slurm_node: str) -> Pod:
        """The slurmd pod that calls.

        Raises:
            Denied: no token, a token that is not accepted, or one of another node.
            KubeError: the apiserver could not be asked.
        """
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise Denied(401, "send the pod's projected token: Authorization: Bearer …")
        name, uid = await self._pod_of(token)
        pod = self._cluster.slurmd_pods.get(self._cluster.namespace, name)
        if pod is None or pod.uid != uid:
            raise Denied(403, f"the token belongs to pod {name or '(none)'}, which is no slurmd pod of this cluster")
        own = pod.labels.get(names.LABEL_SLURM_NODE, "")
        if own != slurm_node:
            raise Denied(403, f"pod {name} is Slurm node {own} and may not speak for {slurm_node}")
        return pod

    async def _pod_of(self, token: str) -> tuple[str, str]:
        digest = hashlib.sha256(token.encode()).digest()
        if digest not in self._known:
            review = await self._kube.review_token(token, audience=self._audience)
            if not review.authenticated:
                raise Denied(401, f"the token is not accepted: {review.error or 'wrong audience or expired'}")
            expected = f"system:serviceaccount:{self._cluster.namespace}:"
            if not review.user.username.startswith(expected):
                raise Denied(403, f"{review.user.username} is not from namespace {self._cluster.namespace}")
            self._known[digest] = (review.user.bound_to("pod-name"), review.user.bound_to("pod-uid"))
        return self._known[digest]


class Hooks:
    """Prologs and epilogs of one leader."""

    def __init__(
        self,
        *,
        auth: NodeAuth,
        cluster: Cluster,
        slurm: Slurm,
        slurm_user: str,
        pods: PodWriter,
        ledger: Ledger,
        queue: WorkQueue[str],
        reconciler: Reconciler,
        metrics: SchedulerMetrics,
    ) -> None:
        self.auth = auth
        self._cluster = cluster
        self._slurm = slurm
        self._slurm_user = slurm_user
        self._pods = pods
        self._ledger = ledger
        self._queue = queue
        self._reconciler = reconciler
        self._metrics = metrics
        self._log = structlog.get_logger("hooks")

    async def prolog(self, call: HookCall, caller: Pod) -> HookAnswer:
        """Note that the job has this node, and wait until its pods are bound."""
        entry = await self._entry(call.job_id)
        if entry is None:
            return HookAnswer(done=True, why="not the job of a pod")
        job = self._ledger.add_job(entry, call.job_id, now=time.monotonic())
        if call.node not in job.prologs:
            self._log.info("prolog", job=call.job_id, node=call.node, gang="/".join(entry.key))
            job.prologs[call.node] = time.monotonic()
            job.epilogs.pop(call.node, None)
            self._queue.add(entry.uid)

        async def waits_for() -> str | None:
            return prolog_waits_for(self._reconciler.view(entry), call.job_id)

        return await self._until_nothing(entry, waits_for)

    async def epilog(self, call: HookCall, caller: Pod) -> HookAnswer:
        """Note that the job has lost this node, and wait until its pods are gone from it."""
        entry = await self._entry(call.job_id)
        if entry is None:
            return HookAnswer(done=True, why="not the job of a pod")
        now = time.monotonic()
        job = self._ledger.add_job(entry, call.job_id, now=now)
        first_at = job.epilogs.setdefault(call.node, now)
        if first_at == now:
            self._log.info("epilog", job=call.job_id, node=call.node, gang="/".join(entry.key))
            self._queue.add(entry.uid)

        async def waits_for() -> str | None:
            view = self._reconciler.view(entry)
            if why := epilog_waits_for(view, call.job_id, call.node):
                return why
            if entry.assumed is not None and not entry.assumed.confirmed:
                return "a binding is under way"
            if is_covered_by_another(view, call.job_id):
                return None
            return await self._still_there(entry, caller)

        answer = await self._until_nothing(entry, waits_for)
        if answer.done:
            self._metrics.handover_seconds.observe(time.monotonic() - first_at)
        return answer

    async def _still_there(self, entry: GangEntry, caller: Pod) -> str | None:
        """The last word is the apiserver's own, for a watch may lag: is the pod on the caller's node after all?"""
        pod = await self._pods.read(entry.key, entry.uid)
        if pod is None or pod.spec.node_name != caller.spec.node_name or has_left_node(pod):
            return None
        return f"pod {'/'.join(entry.key)} is not gone yet"

    async def _until_nothing(self, entry: GangEntry, waits_for: Callable[[], Awaitable[str | None]]) -> HookAnswer:
        deadline = time.monotonic() + LONG_POLL_S
        while True:
            changed = entry.next_change()
            why = await waits_for()
            if why is None:
                return HookAnswer(done=True)
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return HookAnswer(done=False, why=why)
            await changed.wait_for(left_s)

    async def _entry(self, job_id: JobId) -> GangEntry | None:
        """The gang of a job; None when the job is not one of ours.

        A job that the ledger does not know was submitted by an earlier leader, or its submit was never answered.

        Raises:
            SlurmError: Slurm could not be asked.
        """
        entry = self._ledger.by_job(job_id)
        if entry is not None:
            return entry
        try:
            job = await self._slurm.job(job_id)
        except NotFound:
            return None
        gang = parse_comment(job.comment)
        if gang is None or job.user != self._slurm_user:
            return None
        return self._ledger.ensure(gang.uid, (gang.namespace, gang.name), now=time.monotonic())


class HookServer:
    """The routes, on every replica. `hooks` is set while this one leads."""

    def __init__(self, *, port: int, metrics: SchedulerMetrics) -> None:
        self._port = port
        self._metrics = metrics
        self.hooks: Hooks | None = None
        self.leader: Callable[[], Identity | None] = lambda: None

    def app(self) -> web.Application:
        """The application to serve."""
        app = web.Application(client_max_size=64 * 1024)
        app.router.add_post("/hooks/v1/{hook:prolog|epilog}", self._handle)
        return app

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
            caller = await hooks.auth.check(request.headers.get("Authorization", ""), call.node)
            answer = await (hooks.prolog if hook == "prolog" else hooks.epilog)(call, caller)
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
    """The replica to send callers to; never this one, which may lead already and still be adopting what is there."""
    return leader if leader is not None and leader.name != own.name else None


def _answer(status: int, answer: HookAnswer) -> web.Response:
    return web.Response(status=status, body=msgspec.json.encode(answer), content_type="application/json")
