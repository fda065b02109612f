"""The informer and the client against a small HTTP server that answers as an apiserver does."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from sunkpy.cli.rights import may
from sunkpy.core.model.objects import Meta, Owner, Pod
from sunkpy.kube import connection, errors, paths
from sunkpy.kube.access import may_get
from sunkpy.kube.client import Kube
from sunkpy.kube.decoding import TOO_DEEP, Unreadable
from sunkpy.kube.informer import Informer, Together, UntilServed
from sunkpy.kube.tokens import UserInfo
from tests.doubles.apiserver import DEEP, Apiserver
from tests.doubles.serving import Handler, answering

PODS = "/api/v1/pods"


def pod(name: str, version: int, phase: str = "Running") -> dict[str, object]:
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "d", "uid": f"u-{name}", "resourceVersion": str(version)},
        "status": {"phase": phase, "somethingNew": [1, 2]},
    }


def event(kind: str, obj: dict[str, object]) -> dict[str, object]:
    return {"type": kind, "object": obj}


class Script:
    """Answers each list with the next page and each watch with the next batch of events; then keeps the watch open."""

    def __init__(
        self, lists: list[tuple[int, list[dict[str, object]]]], watches: list[list[dict[str, object] | str]]
    ) -> None:
        self.lists = list(lists)
        self.watches = list(watches)
        self.versions: list[str] = []
        self.over = asyncio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            version, items = self.lists.pop(0)
            return web.json_response({"metadata": {"resourceVersion": str(version)}, "items": items})
        self.versions.append(request.query["resourceVersion"])
        response = web.StreamResponse()
        await response.prepare(request)
        if self.watches:
            for item in self.watches.pop(0):
                line = item if isinstance(item, str) else json.dumps(item)
                await response.write(line.encode() + b"\n")
        else:
            self.over.set()
            await asyncio.Event().wait()
        return response


@asynccontextmanager
async def connected(handler: Handler, tmp_path: Path) -> AsyncIterator[Kube]:
    async with answering(handler, tmp_path) as kubeconfig, await Kube.connect(kubeconfig) as kube:
        yield kube


async def follow(script: Script, tmp_path: Path) -> list[tuple[str, str]]:
    """Run an informer through the script; what its handler heard, as (what, name)."""
    heard: list[tuple[str, str]] = []

    def hear(old: Pod | None, new: Pod | None) -> None:
        thing = new or old
        assert thing is not None
        heard.append(("added" if old is None else "deleted" if new is None else "changed", thing.name))

    async with connected(script.handle, tmp_path) as kube:
        informer = Informer(kube, PODS, Pod)
        informer.add_handler(hear)
        running = asyncio.ensure_future(informer.run())
        await asyncio.wait_for(script.over.wait(), 20)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return heard


async def test_list_then_watch_tells_each_change_once(tmp_path: Path) -> None:
    script = Script(
        [(10, [pod("a", 5), pod("b", 6)])],
        [[event("MODIFIED", pod("a", 11)), event("DELETED", pod("b", 12)), event("ADDED", pod("c", 13))]],
    )
    assert await follow(script, tmp_path) == [
        ("added", "a"), ("added", "b"), ("changed", "a"), ("deleted", "b"), ("added", "c"),
    ]  # fmt: skip


class Odd:
    """An apiserver with a kind, an informer of it, and the calls of its handler."""

    def __init__(self) -> None:
        self.api = Apiserver()
        self.api.define("example.com/v1", "Thing", "things")
        self.told: list[tuple[str, str]] = []
        self.heard: list[tuple[str, str]] = []

    def put(self, name: str, spec: object) -> None:
        self.api.put("things", {"metadata": {"name": name, "namespace": "d"}, "spec": spec})

    def hear(self, old: Owner | None, new: Owner | None) -> None:
        thing = new or old
        assert thing is not None
        self.heard.append((thing.name, "gone" if new is None else bytes(new.spec).decode()))
        if thing.spec and bytes(thing.spec) == b'"fail"':
            raise ValueError("no")

    @asynccontextmanager
    async def follow(
        self,
        tmp_path: Path,
        *,
        rescue: Callable[[Unreadable], Owner | None] = lambda _: None,
        until_served: UntilServed | None = None,
    ) -> AsyncIterator[Informer[Owner]]:
        async with connected(self.api.handle, tmp_path) as kube:
            path = "/apis/example.com/v1/things"
            informer = Informer(
                kube,
                path,
                Owner,
                tell=lambda about, why: self.told.append((about.name, why)),
                rescue=rescue,
                until_served=until_served,
            )
            informer.add_handler(self.hear)
            task = asyncio.ensure_future(informer.run())
            await informer.synced.wait()
            yield informer
            task.cancel()


async def test_an_object_deeper_than_can_be_read_costs_no_other(tmp_path: Path) -> None:
    """Go reads 10 000 levels; of a CRD without a schema a user may write as many."""
    odd = Odd()
    for name, spec in (("a", 1), ("deep", DEEP), ("z", 2)):
        odd.put(name, spec)
    async with odd.follow(tmp_path):
        odd.put("b", DEEP)
        odd.put("c", 3)
        odd.put("deep", 4)
        await odd.api.until(lambda: len(odd.heard) == 4)
    assert odd.heard == [("a", "1"), ("z", "2"), ("c", "3"), ("deep", "4")]
    assert odd.told == [("deep", TOO_DEEP), ("b", TOO_DEEP)]
    assert odd.api.listed == [""]


async def test_of_an_object_that_can_no_longer_be_read_the_last_word_stays_until_it_is_gone(tmp_path: Path) -> None:
    odd = Odd()
    odd.put("a", 1)
    async with odd.follow(tmp_path) as informer:
        odd.put("a", DEEP)
        await odd.api.until(lambda: odd.told)
        assert [bytes(each.spec) for each in informer.values()] == [b"1"]
        odd.api.remove("things", "d", "a")
        await odd.api.until(lambda: not len(informer))
    assert odd.heard == [("a", "1"), ("a", "gone")]


async def test_what_is_left_of_an_unreadable_object_may_be_kept(tmp_path: Path) -> None:
    odd = Odd()
    odd.put("a", DEEP)
    async with odd.follow(tmp_path, rescue=lambda found: Owner(metadata=found.object.metadata)) as informer:
        assert odd.heard == [("a", "{}")]
        odd.put("a", 5)
        await odd.api.until(lambda: len(odd.heard) == 2)
        assert len(informer) == 1


async def test_a_handler_that_fails_over_an_object_hears_of_the_next(tmp_path: Path) -> None:
    odd = Odd()
    odd.put("a", "fail")
    async with odd.follow(tmp_path) as informer:
        odd.put("b", 1)
        odd.put("a", 2)
        await odd.api.until(lambda: len(odd.heard) == 3)
        assert len(informer) == 2
    assert odd.told == [("a", "ValueError: no")]


async def test_a_collection_that_is_not_served_keeps_what_was_there_until_it_is_served_again(tmp_path: Path) -> None:
    odd, served, asked = Odd(), asyncio.Event(), list[int]()

    async def until_served() -> None:
        asked.append(len(odd.heard))
        odd.api.changes.note()
        await served.wait()

    odd.put("a", 1)
    odd.put("b", 2)
    with capture_logs() as logs:
        async with odd.follow(tmp_path, until_served=until_served) as informer:
            odd.api.is_starting = True
            odd.api.changes.note()
            await odd.api.until(lambda: asked)
            assert (len(informer), informer.connected) == (2, False)
            odd.api.remove("things", "d", "b")
            odd.api.is_starting = False
            served.set()
            await odd.api.until(lambda: len(informer) == 1)
    assert (asked, logs) == ([2], [])
    assert odd.heard == [("a", "1"), ("b", "2"), ("b", "gone")]


async def test_where_nothing_is_served_is_told_from_an_object_that_is_not_there(tmp_path: Path) -> None:
    odd = Odd()
    async with connected(odd.api.handle, tmp_path) as kube:
        with pytest.raises(errors.NotFound):
            await kube.get("/apis/example.com/v1/namespaces/d/things/a", Owner)
        with pytest.raises(errors.NotServed, match="404 page not found"):
            await kube.get("/apis/example.com/v2/namespaces/d/things/a", Owner)


async def test_what_does_not_look_as_it_should_is_an_error_for_who_asks(tmp_path: Path) -> None:
    odd = Odd()
    odd.put("a", DEEP)
    odd.api.put("pods", {"metadata": {"name": "p", "namespace": "d"}, "spec": {"containers": 3}})
    async with connected(odd.api.handle, tmp_path) as kube:
        with pytest.raises(errors.UnreadableAnswer, match=r"/namespaces/d/things/a: it is nested too deep"):
            await kube.get("/apis/example.com/v1/namespaces/d/things/a", Owner)
        with pytest.raises(errors.UnreadableAnswer, match=r"GET /api/v1/pods: d/p: Expected `array`, got `int`"):
            await kube.list_objects(PODS, Pod)


@pytest.mark.parametrize("broken", [1, "x", {"metadata": 3}, {"metadata": {"name": 7}}, None])
async def test_a_list_with_an_object_that_nobody_can_name_is_an_error_for_who_asks(
    tmp_path: Path, broken: object
) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": [pod("a", 1), broken]})

    async with connected(answer, tmp_path) as kube:
        with pytest.raises(errors.UnreadableAnswer, match="GET /api/v1/pods: an object without readable metadata: "):
            await kube.list_objects(PODS, Pod)


@pytest.mark.parametrize("broken", ["{", "[]", '{"status": 3}', '{"a":' + "[" * 9000 + "]" * 9000 + "}"])
async def test_a_broken_answer_about_a_person_is_an_error_for_who_asks(tmp_path: Path, broken: str) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=broken, content_type="application/json")

    async with connected(answer, tmp_path) as kube:
        with pytest.raises(errors.UnreadableAnswer, match=r"POST .*/tokenreviews: "):
            await kube.review_token("token")
        with pytest.raises(errors.UnreadableAnswer, match=r"POST .*/subjectaccessreviews: "):
            await may_get(kube, UserInfo(username="ann"), "pods")
        with pytest.raises(errors.UnreadableAnswer, match=r"POST .*/selfsubjectaccessreviews: "):
            await may(kube, "get", "pods", namespace="d")


async def test_a_handler_may_be_for_some_objects_also_while_they_become_others_or_go(tmp_path: Path) -> None:
    events = [
        event("ADDED", pod("a", 11)),
        event("ADDED", pod("b", 12, "Failed")),
        event("MODIFIED", pod("a", 13, "Failed")),
        event("MODIFIED", pod("b", 14)),
        event("MODIFIED", pod("b", 15)),
        event("DELETED", pod("a", 16, "Failed")),
    ]
    script = Script([(10, [])], [[*events]])
    heard: list[tuple[str, str]] = []

    def phase(seen: Pod | None) -> str:
        return seen.status.phase if seen is not None else "gone"

    async with connected(script.handle, tmp_path) as kube:
        informer = Informer(kube, PODS, Pod)
        informer.add_handler(
            lambda old, new: heard.append((phase(old), phase(new))), of=lambda pod: pod.status.phase == "Failed"
        )
        running = asyncio.ensure_future(informer.run())
        await asyncio.wait_for(script.over.wait(), 20)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert heard == [("gone", "Failed"), ("Running", "Failed"), ("Failed", "Running"), ("Failed", "gone")]


async def test_others_have_a_turn_while_the_events_of_one_chunk_are_handled(tmp_path: Path) -> None:
    many, turns = 50, 0
    chunk = "\n".join(json.dumps(event("ADDED", pod(f"p{number}", 11 + number))) for number in range(many))
    script = Script([(10, [])], [[chunk]])
    seen_at: list[int] = []

    def hear(_: Pod | None, new: Pod | None) -> None:
        until = time.perf_counter() + 0.002
        while time.perf_counter() < until:
            pass
        seen_at.append(turns)

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with connected(script.handle, tmp_path) as kube:
        informer = Informer(kube, PODS, Pod)
        informer.add_handler(hear)
        tasks = [asyncio.ensure_future(informer.run()), asyncio.ensure_future(other())]
        await asyncio.wait_for(script.over.wait(), 20)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert len(seen_at) == many
    assert len(set(seen_at)) >= many * 2 // 10 - 1, "100 ms of work"


async def test_a_broken_watch_goes_on_from_the_newest_version_bookmarks_included(tmp_path: Path) -> None:
    bookmark = event("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "40"}, "spec": {"containers": None}})
    script = Script([(10, [])], [[event("ADDED", pod("a", 11))], [bookmark]])
    await follow(script, tmp_path)
    assert script.versions == ["10", "11", "40"]


async def test_a_watch_without_events_counts_as_connected(tmp_path: Path) -> None:
    script = Script([(10, [pod("a", 5)])], [])
    async with connected(script.handle, tmp_path) as kube:
        informer = Informer(kube, PODS, Pod)
        running = asyncio.ensure_future(informer.run())
        await asyncio.wait_for(script.over.wait(), 20)
        async with asyncio.timeout(10):
            while not informer.connected:  # noqa: ASYNC110
                await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert not informer.connected


async def test_a_watch_that_is_silent_for_long_goes_on_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The apiserver also sends no bookmarks for a kind of which nothing has changed since it started."""
    monkeypatch.setattr(connection, "WATCH_TIMEOUT", aiohttp.ClientTimeout(total=None, sock_read=0.5))
    script = Script([(10, [])], [])
    with capture_logs() as logs:
        async with connected(script.handle, tmp_path) as kube:
            running = asyncio.ensure_future(Informer(kube, PODS, Pod).run())
            async with asyncio.timeout(20):
                while len(script.versions) < 3:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    assert (set(script.versions), logs) == ({"10"}, [])


async def test_after_410_the_list_is_compared_and_missed_deletions_are_told(tmp_path: Path) -> None:
    gone = event("ERROR", {"kind": "Status", "code": 410, "message": "too old"})
    script = Script([(10, [pod("a", 5), pod("b", 6)]), (50, [pod("b", 6), pod("c", 49)])], [[gone]])
    assert await follow(script, tmp_path) == [("added", "a"), ("added", "b"), ("deleted", "a"), ("added", "c")]
    assert script.versions == ["10", "50"]


@pytest.mark.parametrize(
    ("status", "reason", "kind"),
    [
        (404, "NotFound", errors.NotFound),
        (409, "AlreadyExists", errors.Conflict),
        (403, "Forbidden", errors.Forbidden),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooMany),
        (503, "ServiceUnavailable", errors.Unavailable),
    ],
)
async def test_an_error_says_what_was_tried_and_the_servers_words(
    tmp_path: Path, status: int, reason: str, kind: type[errors.KubeError]
) -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.json_response({"kind": "Status", "message": "because", "reason": reason}, status=status)

    async with connected(refuse, tmp_path) as kube:
        with pytest.raises(kind, match=rf"GET /api/v1/pods: because \(HTTP {status}\)"):
            await kube.list_objects(PODS, Pod)


class Paged:
    """A list in pages of two; the second page is too late as often as is said, one pod may be odd."""

    def __init__(self, too_late: int = 0, odd: str = "") -> None:
        self.too_late = too_late
        self.odd = {"name": odd, "namespace": "d"}
        self.asked: list[tuple[str, str]] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            response = web.StreamResponse()
            await response.prepare(request)
            await asyncio.Event().wait()
        begin = int(request.query.get("continue", "0"))
        self.asked.append((request.query.get("limit", ""), request.query.get("resourceVersion", "")))
        if begin and self.too_late:
            self.too_late -= 1
            return web.json_response({"kind": "Status", "reason": "Expired", "message": "too old"}, status=410)
        end = min(begin + 2, 5) if "limit" in request.query else 5
        more = {"continue": str(end)} if end < 5 else {}
        names = [f"p{number}" for number in range(begin, end)]
        items = [{"metadata": self.odd, "spec": 3} if name == self.odd["name"] else pod(name, 5) for name in names]
        return web.json_response({"metadata": {"resourceVersion": "9", **more}, "items": items})


async def test_of_large_objects_fewer_are_asked_for_in_one_answer(tmp_path: Path) -> None:
    asked: list[int] = []

    async def handle(request: web.Request) -> web.Response:
        begin, limit = int(request.query.get("continue", "0")), int(request.query["limit"])
        asked.append(limit)
        end = min(begin + limit, 300)
        log = {"log": "x" * (1024 * 1024 if begin == 0 else 100)}
        items = [pod(f"p{number}", 5) | {"status": log} for number in range(begin, end)]
        more = {"continue": str(end)} if end < 300 else {}
        return web.json_response({"metadata": {"resourceVersion": "9", **more}, "items": items})

    async with connected(handle, tmp_path) as kube:
        selection = paths.Selection(PODS, "", "")
        found = [item async for page in kube.pages(selection, are_large=True) for item in page.items]
    assert len(found) == 300
    assert asked[:2] == [20, 15], "at most 16 MiB"
    assert asked[2] == 100, "the next may be as large as can be, each of them"


async def test_a_list_is_read_page_by_page(tmp_path: Path) -> None:
    server = Paged()
    async with connected(server.handle, tmp_path) as kube:
        found = await kube.list_objects(PODS, Pod)
    assert [item.name for item in found] == [f"p{number}" for number in range(5)]
    assert server.asked == [("500", "")] * 3


async def test_a_list_that_may_be_old_is_the_apiservers_cached_one(tmp_path: Path) -> None:
    server = Paged()
    async with connected(server.handle, tmp_path) as kube:
        found = await kube.list_objects(PODS, Pod, may_be_old=True)
    assert len(found) == 5
    assert server.asked == [("", "0")]


async def test_a_page_that_comes_too_late_begins_the_list_anew(tmp_path: Path) -> None:
    server = Paged(too_late=1)
    async with connected(server.handle, tmp_path) as kube:
        informer = Informer(kube, PODS, Pod)
        task = asyncio.ensure_future(informer.run())
        await informer.synced.wait()
        task.cancel()
        assert len(informer) == 5
        assert len(server.asked) == 5


async def test_of_each_page_stays_what_is_kept_and_an_odd_object_is_told(tmp_path: Path) -> None:
    told: list[str] = []
    async with connected(Paged(odd="p3").handle, tmp_path) as kube:
        informer = Informer(
            kube,
            PODS,
            Pod,
            keep=lambda pod: Pod(metadata=pod.metadata),
            tell=lambda about, why: told.append(about.name),
        )
        task = asyncio.ensure_future(informer.run())
        await informer.synced.wait()
        task.cancel()
    assert [(item.name, item.status.phase) for item in informer.values()] == [
        (f"p{n}", "Pending") for n in (0, 1, 2, 4)
    ]
    assert told == ["p3"]


async def test_a_server_that_is_away_is_unavailable(tmp_path: Path) -> None:
    async def never(_: web.Request) -> web.Response:
        raise AssertionError

    async with connected(never, tmp_path) as kube:
        pass
    async with await Kube.connect(tmp_path / "kubeconfig") as kube:
        with pytest.raises(errors.Unavailable, match="no answer"):
            await kube.list_objects(PODS, Pod)


async def test_a_delete_carries_its_preconditions(tmp_path: Path) -> None:
    bodies: list[dict[str, object]] = []

    async def handle(request: web.Request) -> web.Response:
        bodies.append(await request.json())
        return web.json_response({})

    async with connected(handle, tmp_path) as kube:
        await kube.delete("/api/v1/namespaces/d/pods/a", uid="u", resource_version="7", grace_period_s=3)
    assert bodies[0]["preconditions"] == {"uid": "u", "resourceVersion": "7"}
    assert bodies[0]["gracePeriodSeconds"] == 3


async def test_parts_of_a_collection_look_like_one(tmp_path: Path) -> None:
    api = Apiserver()
    async with answering(api.handle, tmp_path) as kubeconfig, await Kube.connect(kubeconfig) as kube:
        names = ("slurm", "sunk-scheduler")
        parts = [Informer(kube, PODS, Pod, field_selector=f"spec.schedulerName={name}") for name in names]
        together, heard = Together(parts), []
        together.add_handler(lambda old, new: heard.append((old is not None, new is not None)))
        tasks = [asyncio.ensure_future(part.run()) for part in parts]
        for number, name in enumerate((*names, "default-scheduler")):
            body = {"metadata": {"name": f"p{number}", "namespace": "d"}, "spec": {"schedulerName": name}}
            api.put("pods", body)
        await api.until(lambda: len(together) == 2)
        assert sorted(item.name for item in together.values()) == ["p0", "p1"]
        assert together.get("d", "p1") is not None
        assert together.get("d", "p2") is None
        assert heard == [(False, True)] * 2
        for task in tasks:
            task.cancel()


async def test_only_what_is_kept_of_an_object_is_in_the_store(tmp_path: Path) -> None:
    api = Apiserver()
    api.put("pods", {"metadata": {"name": "p", "namespace": "d", "labels": {"a": "b"}}})
    async with answering(api.handle, tmp_path) as kubeconfig, await Kube.connect(kubeconfig) as kube:
        informer = Informer(kube, PODS, Pod, keep=lambda item: msgspec.structs.replace(item, metadata=Meta(name="p")))
        task = asyncio.ensure_future(informer.run())
        await informer.synced.wait()
        assert [item.labels for item in informer.values()] == [{}]
        task.cancel()
