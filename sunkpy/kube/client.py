"""A client for the apiserver's verbs, with typed answers; `sunkpy.kube.connection` exchanges requests and answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

import msgspec

from sunkpy.core.model.objects import KubeObject
from sunkpy.kube import decoding, errors, paths
from sunkpy.kube.connection import JSON, Connection, Json, Request
from sunkpy.kube.tokens import TokenReview, TokenReviewAnswer
from sunkpy.runtime.deadline import Deadline, unlimited
from sunkpy.runtime.turns import Turns

T = TypeVar("T")
U = TypeVar("U", bound=KubeObject)

MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

PAGE: Final = 500
"""The most objects in one answer, as in client-go. 10,000 Nodes in one answer would be 100 MB of text, and would stay
in the memory of this process.
"""
_FEW, _MOST_LARGE = 20, 100
_PAGE_BYTES: Final = 16 * 1024 * 1024
"""The wanted length of an answer to a list; if objects are larger, fewer are asked for at once."""


class Kube:
    """A client of one apiserver, with one identity. Close it, or use it in `async with`.

    All methods raise `sunkpy.kube.errors.KubeError`; the docstrings name the kinds a caller should tell apart.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @classmethod
    async def connect(cls, kubeconfig: Path | None = None, *, deadline: Deadline = unlimited) -> Self:
        """Connect with the given kubeconfig, else as the pod's service account, else with `$KUBECONFIG`.

        Writes are sent only until the deadline; after it they raise LeaseOver.
        """
        return cls(await Connection.open(kubeconfig, deadline=deadline))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Json | None = None,
        content_type: str = JSON,
    ) -> bytes:
        """Send a request for which there is no other method, and return the body of a 2xx answer."""
        request = Request(method=method, path=path, params=params or {}, body=body, content_type=content_type)
        return await self._connection.send(request)

    # ------------------------------------------------------------------ reads

    async def get(self, path: str, type_: type[T], *, accept: str = JSON) -> T:
        """Return one object, or another answer at this path, decoded as `type_`. `accept`: the form of the answer.

        Raises:
            NotFound, NotServed, Forbidden, Unavailable.
            UnreadableAnswer: the answer does not look like `type_`.
        """
        answer = await self._connection.send(Request(method="GET", path=path, accept=accept))
        return decoding.read_answer(f"GET {path}", answer, type_)

    async def list_objects(
        self,
        path: str,
        item_type: type[U],
        *,
        label_selector: str = "",
        field_selector: str = "",
        may_be_old: bool = False,
        not_older_than: str = "",
    ) -> list[U]:
        """Return all objects under a collection path, from one consistent read.

        Args:
            path: the collection.
            item_type: the type as which each object is decoded.
            label_selector: only objects with these labels.
            field_selector: only objects with these fields.
            may_be_old: read from the apiserver's cache. Do not use it for a decision that stale data makes wrong: an
                apiserver that lags may show what is long gone, and not show what is there.
            not_older_than: as `may_be_old`, but with all changes up to this resourceVersion.

        Raises:
            Gone: the list took so long that its resourceVersion is no longer available; begin again.
            NotServed: the apiserver does not serve this kind.
            Unavailable: the apiserver's cache is older than `not_older_than`, or the apiserver did not answer.
            UnreadableAnswer: an answer is not a list, or one object does not look like `item_type`.
        """
        selection = paths.Selection(path, label_selector, field_selector)
        decoder, objects, turns = decoding.Decoder(item_type), list[U](), Turns()
        async for page in self.pages(selection, may_be_old=may_be_old, not_older_than=not_older_than):
            for item in page.items:
                try:
                    found = decoder.read(item)
                except msgspec.DecodeError as error:
                    message = f"an object without readable metadata: {error}"
                    raise errors.UnreadableAnswer(f"GET {path}", status=200, message=message) from error
                if isinstance(found, decoding.Unreadable):
                    message = f"{'/'.join(found.key)}: {found.why}"
                    raise errors.UnreadableAnswer(f"GET {path}", status=200, message=message)
                objects.append(found)
                await turns.rest()
        return objects

    async def pages(
        self, selection: paths.Selection, *, may_be_old: bool = False, not_older_than: str = "", are_large: bool = False
    ) -> AsyncIterator[decoding.ListPage]:
        """Yield all objects of a collection in parts (at least one), as they were at one moment. `may_be_old`,
        `not_older_than`: as in `list_objects`.

        With `may_be_old` there is one part: from its cache the apiserver answers with all objects, whatever the limit.
        With `are_large` (objects of up to 1.5 MB) the first part has at most 20 objects. A later part has fewer objects
        if the part before was large, and more if it was small: at most 100, and without `are_large` 500. So a leader
        has enough memory for each part.

        Raises:
            Gone: the list took so long that its resourceVersion is no longer available; begin again.
            UnreadableAnswer: an answer is not a list.
        """
        limit, most = (_FEW, _MOST_LARGE) if are_large else (PAGE, PAGE)
        part = {"resourceVersion": "0"} if may_be_old else {"limit": str(limit)}
        if not_older_than:
            part = {"resourceVersion": not_older_than, "resourceVersionMatch": "NotOlderThan"}
        while True:
            answer = await self.request("GET", selection.path, params=selection.params | part)
            try:
                page = decoding.read_page(answer)
            except msgspec.DecodeError as error:
                raise errors.UnreadableAnswer(f"GET {selection.path}", status=200, message=str(error)) from error
            yield page
            if not page.next_page:
                return
            limit = max(1, min(most, limit * _PAGE_BYTES // len(answer)))
            part = {"limit": str(limit), "continue": page.next_page}

    def watch_lines(
        self, selection: paths.Selection, *, resource_version: str, on_open: Callable[[], None]
    ) -> AsyncIterator[bytes]:
        """Yield the events of a watch, one JSON document each, until the server ends the stream or is silent for 100 s.

        `on_open` is called when the server has accepted the watch, because the first event may come long after that.

        Raises:
            Gone: the version is too old; list again.
            Unavailable: the connection broke.
        """
        watch = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": resource_version}
        request = Request(method="GET", path=selection.path, params=selection.params | watch)
        return self._connection.stream(request, on_open)

    # ----------------------------------------------------------------- writes

    async def create(self, path: str, body: Json) -> bytes:
        """Create an object under a collection path, and return the stored object as JSON.

        Raises:
            Conflict: the object exists already.
            Invalid: the apiserver refuses the object.
        """
        return await self.request("POST", path, body=body)

    async def patch(self, path: str, body: Json, *, content_type: str = MERGE_PATCH) -> bytes:
        """Merge `body` into an object (RFC 7386: null removes a key). If `body` has `metadata.resourceVersion`, the
        object must still have it.

        Raises:
            Conflict: the object has changed, or another object has its name.
        """
        return await self.request("PATCH", path, body=body, content_type=content_type)

    async def apply(self, path: str, body: Json, *, field_manager: str) -> None:
        """Write an object by server-side apply, and take over fields that others have set (KEP-555)."""
        params = {"fieldManager": field_manager, "force": "true"}
        await self.request("PATCH", path, body=body, params=params, content_type=APPLY_PATCH)

    async def delete(
        self, path: str, *, uid: str = "", resource_version: str = "", grace_period_s: int | None = None
    ) -> None:
        """Delete an object. If `uid` or `resource_version` is given, delete it only if it still has them.

        Raises:
            Conflict: the object has changed, or another object has its name by now.
            NotFound: the object is gone already.
        """
        preconditions = {k: v for k, v in (("uid", uid), ("resourceVersion", resource_version)) if v}
        body: dict[str, object] = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": preconditions,
        }
        if grace_period_s is not None:
            body["gracePeriodSeconds"] = grace_period_s
        await self.request("DELETE", path, body=body)

    async def bind(self, namespace: str, name: str, *, uid: str, node: str, annotations: Mapping[str, str]) -> None:
        """Bind a pending pod to a node; the apiserver merges the annotations into the pod in the same write.

        Raises:
            Conflict: the pod is bound already, or another pod has its name.
        """
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": uid, "annotations": dict(annotations)},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await self.request("POST", f"{paths.pod(namespace, name)}/binding", body=body)

    async def review_token(self, token: str, *, audience: str = "") -> TokenReview:
        """Ask the apiserver whose token this is, and whether it is valid for `audience`. If `audience` is empty, the
        token has to be for the apiserver itself.

        Raises:
            Forbidden: this process may not create TokenReviews.
            UnreadableAnswer: the answer is no TokenReview.
        """
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [audience] if audience else []},
        }
        path = "/apis/authentication.k8s.io/v1/tokenreviews"
        answer = await self.request("POST", path, body=body)
        return decoding.read_answer(f"POST {path}", answer, TokenReviewAnswer).status
