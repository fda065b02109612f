import asyncio
from collections.abc import Awaitable, Callable

import pytest
from prometheus_client import CollectorRegistry

from sunkpy.core.model.job_spec import JobSpec
from sunkpy.core.model.states import JobId
from sunkpy.slurm import Slurm, errors
from sunkpy.slurm.connection import Answer
from sunkpy.slurm.nodes import NodesSnapshot
from sunkpy.slurm.prometheus import PrometheusRecorder
from sunkpy.slurm.request import Request
from sunkpy.slurm.wire import Reply
from tests.unit.slurm.answers import NOBODY, Asked, Rest, answer, in_json, slurm_errors

PING = answer("26.05", "v0.0.45", "ping")
NODES = answer("26.05", "v0.0.45", "nodes")
NOT_SERVED = answer("26.05", "v0.0.99", "unsupported-version")


async def test_the_newest_version_that_is_served_is_used(rest: Rest) -> None:
    old = answer("24.11", "v0.0.99", "unsupported-version")
    rest.say(old, old, old, answer("24.11", "v0.0.42", "ping"), answer("24.11", "v0.0.42", "nodes"))
    await rest.client().nodes()
    assert rest.asked[-1].path == "/slurm/v0.0.42/nodes/"


async def test_a_version_that_is_no_longer_served_is_looked_for_again(rest: Rest) -> None:
    rest.say(PING, NODES, NOT_SERVED, NOT_SERVED, PING, NODES)
    slurm = rest.client()
    await slurm.nodes()
    with pytest.raises(errors.Unreachable, match=r"does not serve v0\.0\.45"):
        await slurm.nodes()
    await slurm.nodes()
    assert rest.asked[-1].path == "/slurm/v0.0.44/nodes/"


async def test_no_known_version_names_the_slurm_that_is_needed(rest: Rest) -> None:
    rest.say(*[Answer(404, b"Unable to find")] * 4)
    with pytest.raises(errors.Unreachable, match=r"24\.11 or newer"):
        await rest.client().nodes()


@pytest.mark.parametrize("refusal", ["bad-token", "no-token"])
async def test_a_refused_token_is_renewed_once(rest: Rest, refusal: str) -> None:
    rest.say(answer("26.05", "v0.0.45", refusal), NODES)
    await rest.client("v0.0.45").nodes()
    tokens = [request.headers["X-SLURM-USER-TOKEN"] for request in rest.asked]
    assert tokens == ["token-1", "token-2"]


async def test_a_token_that_is_refused_twice_says_what_to_do(rest: Rest) -> None:
    refused = answer("24.11", "v0.0.42", "bad-token")
    rest.say(refused, refused)
    with pytest.raises(errors.Unauthorized, match="write a new token"):
        await rest.client("v0.0.42").nodes()


async def test_a_reader_asks_what_changes_nothing(rest: Rest) -> None:
    rest.say(NODES, NODES, in_json(200, {}), in_json(200, {}))
    slurm = Slurm(rest.transport("v0.0.45", reader="slurm"))
    await slurm.nodes()
    await Slurm(rest.transport("v0.0.45")).nodes()
    await slurm.cancel_job(JobId(1))
    await slurm.cancel_job(JobId(1), user="ann")
    tokens = [request.headers["X-SLURM-USER-TOKEN"] for request in rest.asked]
    assert tokens == ["token-1-of-slurm", "token-1", "token-1", "token-1-of-ann"]


async def test_an_idempotent_request_is_sent_again_while_nobody_answers(rest: Rest) -> None:
    rest.say(Answer(502, b"bad gateway"), slurm_errors(502, 1803), PING)
    assert (await rest.client("v0.0.45").ping()).is_up


async def test_a_refusal_is_not_sent_again(rest: Rest) -> None:
    rest.say(slurm_errors(500, 2028))
    with pytest.raises(errors.Rejected):
        await rest.client("v0.0.45").undrain_node("a")


async def test_a_connection_error_names_the_address(rest: Rest) -> None:
    with pytest.raises(errors.Unreachable, match=r"no answer from http://127\.0\.0\.1:1: ClientConnectorError"):
        await rest.client("v0.0.45", url=NOBODY).nodes()


@pytest.mark.parametrize("padding", [b"", b" " * 300_000])
async def test_what_people_wrote_in_another_encoding_hides_nothing_else(rest: Rest, padding: bytes) -> None:
    node = b'{"name": "%s", "state": ["IDLE", "DRAIN"], "reason": "L\xfcfter"}'
    rest.say(Answer(200, b'{"nodes": [%s, %s]%s}' % (node % b"a", node % b"b", padding)))
    answered = await rest.client("v0.0.45").nodes()
    assert isinstance(answered, NodesSnapshot)
    assert {name: seen.reason for name, seen in answered.nodes.items()} == {"a": "L\ufffdfter", "b": "L\ufffdfter"}


async def test_success_with_errors_in_the_body_is_a_failure(rest: Rest) -> None:
    rest.say(slurm_errors(200, 2016))
    with pytest.raises(errors.Busy):
        await rest.client("v0.0.45").delete_node("a")


async def test_an_answer_that_is_not_slurms_is_malformed(rest: Rest) -> None:
    rest.say(Answer(200, b"<html>welcome</html>"))
    with pytest.raises(errors.Malformed):
        await rest.client("v0.0.45").nodes()


async def test_node_names_cannot_leave_their_path_segment(rest: Rest) -> None:
    rest.say(answer("26.05", "v0.0.45", "undrain"))
    await rest.client("v0.0.45").undrain_node("a/../b?x")
    assert rest.asked[0].target == "/slurm/v0.0.45/node/a%2F..%2Fb%3Fx"


def test_what_a_newer_version_does_not_say_is_asked_in_an_older_one() -> None:
    request = Request(what="count job 7", method="GET", endpoint="job/{name}", name=7, newest="v0.0.44")
    assert [request.path(version) for version in ("v0.0.45", "v0.0.44", "v0.0.42")] == [
        "/slurm/v0.0.44/job/7",
        "/slurm/v0.0.44/job/7",
        "/slurm/v0.0.42/job/7",
    ]


async def test_accounting_is_asked_below_its_own_root_in_the_version_that_was_found(rest: Rest) -> None:
    accounts = {"accounts": [{"name": "chem"}], "errors": [], "warnings": []}
    rest.say(NOT_SERVED, PING, in_json(200, accounts), NODES)
    transport = rest.transport()
    request = Request(what="read the accounts", method="GET", endpoint="accounts/", api="slurmdb")
    await transport.ask(request, Reply)
    await Slurm(transport).nodes()
    asked = [sent.path for sent in rest.asked]
    assert asked[1:] == ["/slurm/v0.0.44/ping/", "/slurmdb/v0.0.44/accounts/", "/slurm/v0.0.44/nodes/"]


async def test_what_slurmdbd_refuses_names_its_root(rest: Rest) -> None:
    rest.say(slurm_errors(500, 2045))
    transport = rest.transport("v0.0.45")
    request = Request(what="read account chem", method="GET", endpoint="account/{name}", api="slurmdb", name="chem")
    with pytest.raises(errors.Rejected, match=r"read account chem: no.*\[slurmdb/account/\{name\}: HTTP 500\]"):
        await transport.ask(request, Reply)


async def test_every_request_is_counted_with_its_outcome(rest: Rest) -> None:
    registry = CollectorRegistry()
    transport = rest.transport("v0.0.45", recorder=PrometheusRecorder(registry))
    rest.say(Answer(503, b"busy"), PING, slurm_errors(500, 2018))
    slurm = Slurm(transport)
    await slurm.ping()
    with pytest.raises(errors.NotFound):
        await slurm.delete_node("a")

    def count(endpoint: str, code: str) -> float | None:
        return registry.get_sample_value("sunkpy_slurm_request_seconds_count", {"endpoint": endpoint, "code": code})

    assert (count("ping/", "503"), count("ping/", "ok"), count("node/{name}", "2018")) == (1, 1, 1)
    assert registry.get_sample_value("sunkpy_slurm_retries_total", {"endpoint": "ping/"}) == 1
    size = registry.get_sample_value("sunkpy_slurm_bytes_total", {"endpoint": "ping/"})
    assert size == len("busy") + len(PING.content)


Write = Callable[[Slurm], Awaitable[object]]
WRITES: dict[str, Write] = {
    "submit": lambda slurm: slurm.submit_job(JobSpec(name="j", script="#!/bin/sh", comment="c")),
    "exclude": lambda slurm: slurm.exclude_nodes(JobId(1), ["n1"]),
    "signal": lambda slurm: slurm.signal_job(JobId(1), "USR1"),
    "cancel": lambda slurm: slurm.cancel_job(JobId(1)),
    "drain": lambda slurm: slurm.drain_node("n1", reason="x"),
    "delete": lambda slurm: slurm.delete_node("n1"),
}


def leading(rest: Rest, left_s: float) -> Slurm:
    return rest.client("v0.0.45", deadline=lambda: left_s)


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
async def test_a_write_after_the_lease_is_not_sent_and_says_why(rest: Rest, write: Write) -> None:
    with pytest.raises(errors.LeaseOver, match="the lease has expired"):
        await write(leading(rest, 0.0))
    assert rest.asked == []


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
async def test_a_write_has_no_more_time_than_is_left(rest: Rest, write: Write) -> None:
    async def never(_: Asked) -> Answer:
        await asyncio.Event().wait()
        raise AssertionError("nothing wakes it")

    rest.respond(never)
    async with asyncio.timeout(10):
        with pytest.raises(errors.Unreachable, match="no answer"):
            await write(leading(rest, 0.02))


async def test_a_write_that_is_tried_again_asks_again_what_is_left(rest: Rest) -> None:
    left_s = iter([5.0, 0.0])
    rest.say(Answer(502, b"bad gateway"))
    slurm = rest.client("v0.0.45", deadline=lambda: next(left_s))
    with pytest.raises(errors.LeaseOver):
        await slurm.cancel_job(JobId(1))


async def test_a_read_needs_no_lease(rest: Rest) -> None:
    rest.say(NODES)
    assert await leading(rest, 0.0).nodes()
