"""A small apiserver in memory: versions, preconditions, finalizers, selectors, patches, watches, discovery.

It keeps what it is sent and does nothing by itself: a test moves the cluster on with `put`, `change` and `remove`, as
kubelets and other clients would.
"""

from __future__ import annotations

import asyncio
import copy
import json
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import jwt
from aiohttp import web

from tests.doubles.serving import Changes

GROUP = "/apis/sunkpy.dev/v1alpha1"
STORAGE = ("persistentvolumeclaims", "persistentvolumes", "storageclasses", "csidrivers", "csistoragecapacities")
COLLECTIONS = ("pods", "podtemplates", "nodes", "nodesets", "leases", "events", "poddisruptionbudgets", *STORAGE)
KUBELET = "example.com/kubelet"
"""Finalizer of a pod that a kubelet has to end first: a deletion only marks it, `remove` takes it away."""

DEEP = "nested as deep as an apiserver takes it"
"""In the place of a value that is sent so: Python's own JSON cannot write it."""

_SIGNING_KEY = "what only the apiserver has, and it is long enough"

Body = dict[str, Any]
Key = tuple[str, str, str]
Matcher = Callable[[Body], bool]


def token_of(
    name: str, *, uid: str, namespace: str = "slurm", audience: str = "sunkpy-hooks", key: str = _SIGNING_KEY,
    left_s: float = 3600.0,
) -> str:  # fmt: skip
    """A token that is bound to a pod; with another key a forged one."""
    bound = {"namespace": namespace, "pod": {"name": name, "uid": uid}}
    claims = {"aud": [audience], "exp": int(time.time() + left_s), "iss": "https://kubernetes", "kubernetes.io": bound}
    return jwt.encode(claims, key, "HS256")


class _Change(NamedTuple):
    version: int
    collection: str
    old: Body | None
    new: Body | None
    last: Body
    """What the object looks like now, or looked like in the end."""


class Apiserver:
    """What a test sees and changes of the cluster; `objects` is keyed by (collection, namespace, name)."""

    def __init__(self, changes: Changes | None = None) -> None:
        self.changes = changes or Changes()
        self.objects: dict[Key, Body] = {}
        self.watched: set[str] = set()
        self._watches: list[tuple[str, web.Request]] = []
        self.refuse_pods = ""
        self.refuse_pods_as = 422
        self.limits: Body = {}
        self.refuse_bindings = False
        self.takes_events = asyncio.Event()
        """Else they wait, as when Events have an etcd of their own that is away."""
        self.takes_events.set()
        self.takes_bindings = asyncio.Event()
        """While it is not set, whoever binds waits for an answer."""
        self.takes_bindings.set()
        self.refuse_status: int | None = None
        """The HTTP status with which conditions of pods are refused."""
        self.watches_lag = False
        self.forbidden: set[str] = set()
        self.refuse_patch: dict[str, int] = {}
        """The HTTP status with which a patch is refused, by what `patched` would show."""
        self.drops: set[str] = set()
        """Fields of a status whose feature gate is off: they are dropped without an error."""
        self.unserved: set[str] = set()
        """Collections of which it knows nothing yet."""
        self.undivided: set[str] = set()
        """Collections whose CRD has no subresource for the status: it is a part of the object."""
        self.kinds: dict[str, Body] = {}
        self.undiscovered: set[str] = set()
        """Kinds that discovery leaves out although they are served."""
        self.logs: dict[str, str] = {}
        """Logs, by the name of the pod."""
        self.proxied: dict[str, str] = {}
        """What pods answer to a GET by way of the apiserver, by name and port: `web-0:8080`."""
        self.asker = "ann@example.com"
        """Whose requests these are."""
        self.people: dict[str, str] = {}
        """Whose a token is that is no slurmd pod's."""
        self.allowed: set[tuple[str, str, str]] = set()
        """Who may get which resource, in which namespace or, where that is empty, in all."""
        self.reviews = 0
        """How many TokenReviews were asked for."""
        self.bindings: list[tuple[str, str]] = []
        self.deleted: list[str] = []
        self.patched: list[str] = []
        """Names of what was patched; their status counts by itself: `web/status`."""
        self.is_starting = False
        """Kinds that are `define`d are not known yet."""
        self.asked: Counter[str] = Counter()
        """How often each path was asked for."""
        self.lags = False
        """What may be as old as some resourceVersion is without all that has changed since."""
        self.is_behind = False
        """No cache has come to a resourceVersion that is asked for, as nothing of the kind has changed since."""
        self.loses_bindings = False
        """Each binding is answered by an error, and nothing is bound."""
        self.before_delete: Callable[[], None] = lambda: None
        self.before_list: Callable[[str], Awaitable[object]] = _at_once
        """Called with the field selector of each list."""
        self.read: list[str] = []
        self.listed: list[str] = []
        self._log: list[_Change] = []
        self._version = 0

    # ----------------------------------------------------- what tests use

    def put(self, collection: str, body: Body) -> Body:
        """Create or replace, as another client would; a copy of what is stored."""
        meta = body.setdefault("metadata", {})
        key = (collection, meta.get("namespace", ""), meta["name"])
        known = self.objects.get(key, {"metadata": {}})["metadata"].get("uid")
        meta.setdefault("uid", known or self._new_uid())
        return copy.deepcopy(self._store(key, body))

    def define(self, api_version: str, kind: str, plural: str, *, namespaced: bool = True) -> None:
        """Serve one kind more, as with a CRD that was installed, or the kind in another version."""
        self.kinds[plural] = {"name": plural, "kind": kind, "namespaced": namespaced, "groupVersion": api_version}
        self.changes.note()

    def undefine(self, plural: str) -> None:
        """As with a CRD that was removed: its objects are deleted first."""
        for key in [key for key in self.objects if key[0] == plural]:
            self.remove(*key)
        del self.kinds[plural]
        self.changes.note()

    def change(self, collection: str, namespace: str, name: str, patch: Body) -> None:
        """Merge a patch, as another client would."""
        key = (collection, namespace, name)
        self._store(key, merged(self.objects[key], patch))

    def remove(self, collection: str, namespace: str, name: str) -> None:
        """The object is gone, whatever its finalizers."""
        self._store((collection, namespace, name), None)

    def find(self, collection: str, name: str) -> Body | None:
        """Return the object of this name, whatever its namespace."""
        return next((o for (c, _, n), o in self.objects.items() if (c, n) == (collection, name)), None)

    def names(self, collection: str) -> list[str]:
        """Names of a collection."""
        return sorted(n for c, _, n in self.objects if c == collection)

    def events(self) -> list[Body]:
        """All Events, oldest first."""
        return [o for (c, _, _), o in self.objects.items() if c == "events"]

    def reasons(self) -> list[str]:
        """Reasons of all Events."""
        return [event["reason"] for event in self.events()]

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait for a state of the cluster; fails after a while."""
        await self.changes.until(condition)

    # ------------------------------------------------------------ storage

    def _new_uid(self) -> str:
        return f"uid-{self._version + 1}"

    def _store(self, key: Key, body: Body | None) -> Body:
        """Keep a copy under the next version, or forget the object; tells the watches."""
        self._version += 1
        old = self.objects.get(key)
        kept = copy.deepcopy(self.objects.pop(key) if body is None else body)
        kept["metadata"] |= {"resourceVersion": str(self._version), "name": key[2]}
        kept["metadata"] |= {"namespace": key[1]} if key[1] else {}
        kept["metadata"].setdefault("creationTimestamp", "2026-11-20T12:00:00Z")
        if body is not None:
            self.objects[key] = kept
        self._log.append(_Change(self._version, key[0], old, None if body is None else kept, kept))
        self.changes.note()
        return kept

    def watches_of(self, collection: str) -> int:
        """How many watches of it are open."""
        transports = [request.transport for watched, request in self._watches if watched == collection]
        return sum(transport is not None and not transport.is_closing() for transport in transports)

    # --------------------------------------------------------------- HTTP

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer any request."""
        self.asked[request.path] += 1
        if "APIGroupDiscoveryList" in request.headers.get("Accept", ""):
            return web.json_response({"items": self._served(request.path)})
        if "PartialObjectMetadata" in (accept := request.headers.get("Accept", "")) and "v=v1" not in accept:
            return refusal(406, "NotAcceptable", "only the following media types are accepted: application/json")
        if found := discovery(request.path):
            return web.json_response(found)
        if request.path == "/version":
            return web.json_response({"gitVersion": "v1.35.0"})
        if request.path.endswith("/tokenreviews"):
            return self._review(await request.json())
        if request.path.endswith("/token"):
            return web.json_response({"status": {"token": f"of {request.path.split('/')[-2]}"}}, status=201)
        if request.path.endswith("/selfsubjectreviews"):
            return web.json_response({"status": {"userInfo": {"username": self.asker}}})
        if request.path.endswith("/subjectaccessreviews"):
            spec = (await request.json())["spec"]
            asked = spec["resourceAttributes"]
            wanted = {(spec["user"], asked["resource"], where) for where in ("", asked["namespace"])}
            return web.json_response({"status": {"allowed": bool(wanted & self.allowed)}})
        if request.path.endswith("/selfsubjectaccessreviews"):
            asked = (await request.json())["spec"]["resourceAttributes"]
            names = {asked["resource"], f"{asked['resource']}/{asked.get('subresource', '')}"}
            return web.json_response({"status": {"allowed": not names & self.forbidden}})
        collection, namespace, name, sub = parsed(request.path)
        if collection in self.forbidden:
            return forbidden(request, collection, namespace, name)
        if not self._serves(request.path):
            return web.Response(status=404, text="404 page not found")
        if request.method == "GET" and not name:
            matches = matcher(namespace, request.query)
            if "watch" in request.query:
                return await self._watch(request, collection, matches)
            await self.before_list(request.query.get("fieldSelector", ""))
            self.listed.append(namespace)
            if self.is_behind and "resourceVersionMatch" in request.query:
                return refusal(504, "Timeout", "Too large resource version: 9, current: 8")
            items = [o for (c, _, _), o in self.objects.items() if c == collection and matches(o)]
            if self.lags and (version := request.query.get("resourceVersion")):
                items = [o for o in items if int(o["metadata"]["resourceVersion"]) <= int(version)]
            body = {"metadata": {"resourceVersion": str(self._version)}, "items": items}
            return web.json_response(body, dumps=written)
        if request.method == "POST" and not name:
            return await self._create(request, collection, namespace)
        return await self._one(request, (collection, namespace, name), sub)

    def _serves(self, path: str) -> bool:
        collection, *_ = parsed(path)
        if collection in self.kinds:
            return not self.is_starting and path.startswith(f"{root(self.kinds[collection]['groupVersion'])}/")
        return collection in COLLECTIONS and collection not in self.unserved

    def _served(self, path: str) -> list[Body]:
        """All kinds, in the form of aggregated discovery: those of `/api`, or those of `/apis`."""
        core = [{"name": "events", "kind": "Event", "namespaced": True, "groupVersion": "v1"}]
        known = [each for plural, each in self.kinds.items() if plural not in self.undiscovered]
        kinds = [*core, *([] if self.is_starting else known)]
        groups: dict[str, dict[str, list[Body]]] = {}
        for kind in kinds:
            group, _, version = kind["groupVersion"].rpartition("/")
            if bool(group) == (path == "/apis"):
                scope = "Namespaced" if kind["namespaced"] else "Cluster"
                entry = {"resource": kind["name"], "responseKind": {"kind": kind["kind"]}, "scope": scope}
                groups.setdefault(group, {}).setdefault(version, []).append(entry)
        return [
            {"metadata": {"name": group}, "versions": [{"version": v, "resources": r} for v, r in versions.items()]}
            for group, versions in groups.items()
        ]

    async def _one(self, request: web.Request, key: Key, sub: str) -> web.Response:
        """A request for one object."""
        if "fieldManager" in request.query:
            return web.json_response(self.put(key[0], await request.json()))
        if request.method == "GET":
            self.read.append(key[2])
        if sub == "binding":
            await self.takes_bindings.wait()
        if sub == "binding" and self.loses_bindings:
            return web.Response(status=503)
        if sub == "proxy":
            said = self.proxied.get(key[2])
            return web.Response(text=said) if said is not None else refusal(503, "ServiceUnavailable", "no endpoint")
        if key not in self.objects:
            return refusal(404, "NotFound")
        if sub == "log":
            # As the kubelet does it: the last lines, and of these the first bytes.
            lines, query = self.logs.get(key[2], "").splitlines(keepends=True), request.query
            last = lines[-int(query.get("tailLines", "1000000")) :]
            text = "".join(last)[: int(query.get("limitBytes", str(2**30)))]
            return web.Response(text=f"before: {text}" if "previous" in query else text)
        if request.method == "GET":
            return web.json_response(self.objects[key], dumps=written)
        body = await request.json()
        if request.method == "DELETE":
            return self._delete(key, body)
        return self._bind(key, body) if sub == "binding" else self._patch(key, body, sub, request.content_type)

    async def _create(self, request: web.Request, collection: str, namespace: str) -> web.Response:
        body = await request.json()
        key = (collection, namespace, body["metadata"]["name"])
        if collection == "events":
            await self.takes_events.wait()
        if collection == "pods" and self.refuse_pods:
            return refusal(self.refuse_pods_as, "Refused", self.refuse_pods)
        if key in self.objects:
            return refusal(409, "AlreadyExists")
        if collection == "pods" and self.limits:  # as a LimitRange does
            for container in body["spec"]["containers"]:
                container["resources"] = merged({"limits": self.limits}, container.get("resources", {}))
        if "dryRun" not in request.query:
            body["metadata"].setdefault("uid", self._new_uid())
            body = self._store(key, body)
        return web.json_response(body, status=201)

    def _patch(self, key: Key, body: Body, sub: str, content_type: str) -> web.Response:
        old, meta = self.objects[key], body.get("metadata", {})
        known = old["metadata"]
        if sub == "status" and key[0] in self.undivided:
            return refusal(404, "NotFound")
        if sub == "status" and key[0] == "pods" and self.refuse_status is not None:
            return refusal(self.refuse_status, "Refused", "by a webhook")
        if any(meta.get(field, known[field]) != known[field] for field in ("uid", "resourceVersion")):
            return refusal(409, "Conflict")
        what = "/".join(filter(None, (key[2], sub)))
        if what in self.refuse_patch:
            return refusal(self.refuse_patch[what], "Refused", "by a webhook")
        self.patched.append(what)
        # The status of a custom resource is written alone; that of a pod may bring annotations along.
        parts = ("metadata", "status") if key[0] in ("pods", "nodes") else ("status",)
        if key[0] not in self.undivided:
            body = {k: v for k, v in body.items() if (k in parts if sub == "status" else k != "status")}
        if "strategic" in content_type and "conditions" in body.get("status", {}):
            body["status"] = body["status"] | {"conditions": merged_conditions(old, body)}
        if "status" in body:
            body = body | {"status": {k: v for k, v in body["status"].items() if k not in self.drops}}
        new = merged(old, body)
        if sub == "scale":
            new["metadata"]["generation"] += 1
        is_over = new["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers")
        kept = self._store(key, new)
        if is_over:
            self._store(key, None)
        return web.json_response(kept)

    def _delete(self, key: Key, options: Body) -> web.Response:
        meta = self.objects[key]["metadata"]
        if any(meta[field] != value for field, value in options.get("preconditions", {}).items()):
            return refusal(409, "Conflict")
        self.before_delete()
        self.deleted.append(key[2])
        spec = self.objects[key].get("spec", {})
        grace_s = options.get("gracePeriodSeconds", spec.get("terminationGracePeriodSeconds", 30))
        grace_s = min(grace_s, meta.get("deletionGracePeriodSeconds", grace_s))  # it may only be made shorter
        if meta.get("finalizers") and grace_s != 0:
            told = {"deletionTimestamp": "2026-11-21T00:00:00Z", "deletionGracePeriodSeconds": grace_s}
            self.change(*key, {"metadata": told})
        else:
            self._store(key, None)
        return web.json_response({})

    def _bind(self, key: Key, binding: Body) -> web.Response:
        pod = self.objects[key]
        if self.refuse_bindings:
            return refusal(403, "Forbidden", "no")
        if pod["spec"].get("nodeName") or pod["metadata"]["uid"] != binding["metadata"]["uid"]:
            return refusal(409, "Conflict", "cannot bind")
        self.bindings.append((key[2], binding["target"]["name"]))
        annotations = binding["metadata"].get("annotations", {})
        self.change(*key, {"metadata": {"annotations": annotations}, "spec": {"nodeName": binding["target"]["name"]}})
        return web.json_response({"status": "Success"}, status=201)

    def _review(self, review: Body) -> web.Response:
        """Right are those of `token_of`."""
        self.reviews += 1
        if known := self.people.get(review["spec"]["token"]):
            user = {"username": known, "groups": ["system:authenticated"]}
            return web.json_response({"status": {"authenticated": True, "user": user}})
        try:
            claims = jwt.decode(review["spec"]["token"], _SIGNING_KEY, ["HS256"], audience=review["spec"]["audiences"])
        except jwt.PyJWTError:
            return web.json_response({"status": {"authenticated": False, "error": "unknown token"}})
        pod = self.objects["pods", claims["kubernetes.io"]["namespace"], claims["kubernetes.io"]["pod"]["name"]]
        meta, bound = pod["metadata"], "authentication.kubernetes.io/pod-"
        extra = {f"{bound}name": [meta["name"]], f"{bound}uid": [meta["uid"]]}
        user = {"username": f"system:serviceaccount:{meta['namespace']}:slurmd", "extra": extra}
        return web.json_response({"status": {"authenticated": True, "user": user}})

    async def _watch(self, request: web.Request, collection: str, matches: Matcher) -> web.StreamResponse:
        position, since = 0, int(request.query["resourceVersion"])
        response = web.StreamResponse()
        await response.prepare(request)
        self.watched.add(collection)
        self._watches.append((collection, request))
        self.changes.note()
        while True:
            if request.transport is None or request.transport.is_closing():
                return response
            while position < len(self._log) and not self.watches_lag:
                change = self._log[position]
                position += 1
                event = seen(change, matches) if change.collection == collection and change.version > since else None
                if event:
                    await response.write(written(event).encode() + b"\n")
            if not self._serves(request.path):
                return response
            await self.changes.wait()


def seen(change: _Change, matches: Matcher) -> Body | None:
    """The event of a watch with selectors: an object that stops to match is gone for it."""
    was = change.old is not None and matches(change.old)
    if change.new is not None and matches(change.new):
        return {"type": "MODIFIED" if was else "ADDED", "object": change.new}
    return {"type": "DELETED", "object": change.last} if was else None


def written(body: Body) -> str:
    """As JSON."""
    return json.dumps(body).replace(json.dumps(DEEP), '{"a":' * 9000 + "1" + "}" * 9000)


def matcher(namespace: str, query: Any) -> Matcher:
    """Whether an object is in the namespace, if any, and matches labelSelector and fieldSelector (`=` and `!=`)."""
    labels = [term.split("=") for term in query.get("labelSelector", "").split(",") if term]
    fields = [term for term in query.get("fieldSelector", "").split(",") if term]

    def matches(body: Body) -> bool:
        meta = body["metadata"]
        return (
            namespace in ("", meta.get("namespace", ""))
            and all(meta.get("labels", {}).get(key) == value for key, value in labels)
            and all(has_field(body, term) for term in fields)
        )

    return matches


def has_field(body: Body, term: str) -> bool:
    """One term of a field selector, such as `spec.nodeName!=`."""
    path, operator, value = re.match(r"([\w.]+)(!?=)(.*)", term).groups()  # type: ignore[union-attr]
    found: Any = body
    for part in path.split("."):
        found = found.get(part, {}) if isinstance(found, dict) else {}
    return ((found or "") == value) == (operator == "=")


def merged(old: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(old, dict) or not isinstance(patch, dict):
        return patch
    result = {**old, **{k: merged(old.get(k, {}) if isinstance(v, dict) else None, v) for k, v in patch.items()}}
    return {k: v for k, v in result.items() if v is not None}


def merged_conditions(old: Body, patch: Body) -> list[Body]:
    """The strategic merge of conditions: by type."""
    found = {c["type"]: c for c in old.get("status", {}).get("conditions", [])}
    for condition in patch["status"]["conditions"]:
        if condition.get("$patch") == "delete":
            found.pop(condition["type"], None)
        else:
            found[condition["type"]] = condition
    return list(found.values())


def parsed(path: str) -> tuple[str, str, str, str]:
    """Collection, namespace, name, subresource."""
    parts = path.strip("/").split("/")
    namespace = ""
    if "namespaces" in parts[:-1]:
        at = parts.index("namespaces")
        namespace = parts[at + 1]
        parts = parts[:at] + parts[at + 2 :]
    rest = [*parts[2 if parts[0] == "api" else 3 :], "", "", ""]
    return rest[0], namespace, rest[1], rest[2]


def root(api_version: str) -> str:
    """Path of all that is served in a version of a group."""
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


async def _at_once(_: str) -> None:
    pass


def refusal(status: int, reason: str, message: str = "") -> web.Response:
    """A Status object."""
    return web.json_response({"kind": "Status", "reason": reason, "message": message or reason}, status=status)


def forbidden(request: web.Request, collection: str, namespace: str, name: str) -> web.Response:
    """In the words of the apiserver."""
    verb = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}.get(request.method, "get" if name else "list")
    parts = request.path.strip("/").split("/")
    group = parts[1] if parts[0] == "apis" else ""
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    what = f"{collection}.{group}" if group else collection
    of = f"{what} {name!r}".replace("'", '"') if name else what
    why = f'User "ann" cannot {verb} resource "{collection}" in API group "{group}" {where}'
    return refusal(403, "Forbidden", f"{of} is forbidden: {why}")


def discovery(path: str) -> Body | None:
    """What kopf asks for before it follows a resource."""
    version = {"groupVersion": "sunkpy.dev/v1alpha1", "version": "v1alpha1"}
    resource = {
        "name": "nodesets", "singularName": "nodeset", "namespaced": True, "kind": "NodeSet",
        "verbs": ["get", "list", "watch", "patch"],
    }  # fmt: skip
    core = [resource | {"name": "namespaces", "kind": "Namespace"}, resource | {"name": "events", "kind": "Event"}]
    crds = [resource | {"name": "customresourcedefinitions", "kind": "CustomResourceDefinition"}]
    extensions = {"groupVersion": "apiextensions.k8s.io/v1", "version": "v1"}
    groups = [("sunkpy.dev", version), ("apiextensions.k8s.io", extensions)]
    return {
        "/api": {"versions": ["v1"]},
        "/api/v1": {"resources": core},
        "/apis": {"groups": [{"name": n, "versions": [v], "preferredVersion": v} for n, v in groups]},
        "/apis/apiextensions.k8s.io/v1": {"resources": crds},
        GROUP: {"groupVersion": "sunkpy.dev/v1alpha1", "resources": [resource]},
    }.get(path.rstrip("/"))
