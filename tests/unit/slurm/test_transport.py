import asyncio
from collections.abc import Awaitable, Callable

import httpx
import pytest
from prometheus_client import CollectorRegistry
from pytest_httpx import HTTPXMock

from sunkpy.core.model.states import JobId
from sunkpy.slurm import JobSubmission, PrometheusRecorder, Slurm, errors
from sunkpy.slurm.request import Request
from sunkpy.slurm.transport import Transport
from sunkpy.slurm.wire import Reply
from tests.unit.slurm.answers import URL, FixedToken, answer, client, no_sleep, serve, slurm_errors

PING = answer("26.05", "v0.0.45", "ping")
NODES = answer("26.05", "v0.0.45", "nodes")
NOT_SERVED = answer("26.05", "v0.0.99", "unsupported-version")


async def test_the_newest_version_that_is_served_is_used(httpx_mock: HTTPXMock) -> None:
    old = answer("24.11", "v0.0.99", "unsupported-version")
    serve(httpx_mock, old, old, old, answer("24.11", "v0.0.42", "ping"), answer("24.11", "v0.0.42", "nodes"))
    await client().nodes()
    assert httpx_mock.get_requests()[-1].url.path == "/slurm/v0.0.42/nodes/"


async def test_a_version_that_is_no_longer_served_is_looked_for_again(httpx_mock: HTTPXMock) -> None:
    serve(httpx_mock, PING, NODES, NOT_SERVED, NOT_SERVED, PING, NODES)
    slurm = client()
    await slurm.nodes()
    with pytest.raises(errors.Unreachable, match=r"does not serve v0\.0\.45"):
        await slurm.nodes()
    await slurm.nodes()
    assert httpx_mock.get_requests()[-1].url.path == "/slurm/v0.0.44/nodes/"


async def test_no_known_version_names_the_slurm_that_is_needed(httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_response(status_code=404, text="Unable to find", is_reusable=True)
    with pytest.raises(errors.Unreachable, match=r"24\.11 or newer"):
        await client().nodes()


@pytest.mark.parametrize("refusal", ["bad-token", "no-token"])
async def test_a_refused_token_is_renewed_once(httpx_mock: HTTPXMock, refusal: str) -> None:
    serve(httpx_mock, answer("26.05", "v0.0.45", refusal), NODES)
    await client("v0.0.45").nodes()
    tokens = [request.headers["X-SLURM-USER-TOKEN"] for request in httpx_mock.get_requests()]
    assert tokens == ["token-1", "token-2"]


async def test_a_token_that_is_refused_twice_says_what_to_do(httpx_mock: HTTPXMock) -> None:
    refused = answer("24.11", "v0.0.42", "bad-token")
    serve(httpx_mock, refused, refused)
    with pytest.raises(errors.Unauthorized, match="write a new token"):
        await client("v0.0.42").nodes()


async def test_an_idempotent_request_is_sent_again_while_nobody_answers(httpx_mock: HTTPXMock) -> None:
    serve(httpx_mock, httpx.Response(502, text="bad gateway"), slurm_errors(502, 1803), PING)
    assert (await client("v0.0.45").ping()).is_up


async def test_a_refusal_is_not_sent_again(httpx_mock: HTTPXMock) -> None:
    serve(httpx_mock, slurm_errors(500, 2028))
    with pytest.raises(errors.Rejected):
        await client("v0.0.45").undrain_node("a")


async def test_a_connection_error_names_the_address(httpx_mock: HTTPXMock) -> None:
    httpx_mock.add_exception(httpx.ConnectError("refused"), is_reusable=True)
    with pytest.raises(errors.Unreachable, match="slurmrestd:6820"):
        await client("v0.0.45").nodes()


async def test_success_with_errors_in_the_body_is_a_failure(httpx_mock: HTTPXMock) -> None:
    serve(httpx_mock, slurm_errors(200, 2016))
    with pytest.raises(errors.Busy):
        await client("v0.0.45").delete_node("a")


async def test_an_answer_that_is_not_slurms_is_malformed(httpx_mock: HTTPXMock) -> None:
    serve(httpx_mock, httpx.Response(200, text="<html>welcome</html>"))
    with pytest.raises(errors.Malformed):
        await client("v0.0.45").nodes()


async def test_node_names_cannot_leave_their_path_segment(httpx_mock: HTTPXMock) -> None:
    serve(httpx_mock, answer("26.05", "v0.0.45", "undrain"))
    await client("v0.0.45").undrain_node("a/../b?x")
    assert httpx_mock.get_requests()[0].url.raw_path == b"/slurm/v0.0.45/node/a%2F..%2Fb%3Fx"


async def test_accounting_is_asked_below_its_own_root_in_the_version_that_was_found(httpx_mock: HTTPXMock) -> None:
    accounts = {"accounts": [{"name": "chem"}], "errors": [], "warnings": []}
    serve(httpx_mock, NOT_SERVED, PING, httpx.Response(200, json=accounts), NODES)
    transport = Transport(URL, FixedToken(), sleep=no_sleep)
    request = Request(what="read the accounts", method="GET", endpoint="accounts/", api="slurmdb")
    await transport.ask(request, Reply)
    await Slurm(transport).nodes()
    asked = [sent.url.path for sent in httpx_mock.get_requests()]
    assert asked[1:] == ["/slurm/v0.0.44/ping/", "/slurmdb/v0.0.44/accounts/", "/slurm/v0.0.44/nodes/"]


async def test_what_slurmdbd_refuses_names_its_root(httpx_mock: HTTPXMock) -> None:
    serve(httpx_mock, slurm_errors(500, 2045))
    transport = Transport(URL, FixedToken(), version="v0.0.45", sleep=no_sleep)
    request = Request(what="read account chem", method="GET", endpoint="account/{name}", api="slurmdb", name="chem")
    with pytest.raises(errors.Rejected, match=r"read account chem: no.*\[slurmdb/account/\{name\}: HTTP 500\]"):
        await transport.ask(request, Reply)


async def test_every_request_is_counted_with_its_outcome(httpx_mock: HTTPXMock) -> None:
    registry = CollectorRegistry()
    transport = Transport(URL, FixedToken(), version="v0.0.45", recorder=PrometheusRecorder(registry), sleep=no_sleep)
    serve(httpx_mock, httpx.Response(503, text="busy"), PING, slurm_errors(500, 2018))
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
    "submit": lambda slurm: slurm.submit_job(JobSubmission(name="j", script="#!/bin/sh", comment="c")),
    "exclude": lambda slurm: slurm.exclude_nodes(JobId(1), ["n1"]),
    "signal": lambda slurm: slurm.signal_job(JobId(1), "USR1"),
    "cancel": lambda slurm: slurm.cancel_job(JobId(1)),
    "drain": lambda slurm: slurm.drain_node("n1", reason="x"),
    "delete": lambda slurm: slurm.delete_node("n1"),
}


def leading(left_s: float) -> Slurm:
    return Slurm(Transport(URL, FixedToken(), version="v0.0.45", sleep=no_sleep, deadline=lambda: left_s))


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
async def test_a_write_after_the_lease_is_not_sent_and_says_why(httpx_mock: HTTPXMock, write: Write) -> None:
    with pytest.raises(errors.LeaseOver, match="the lease has run out"):
        await write(leading(0.0))
    assert httpx_mock.get_requests() == []


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
async def test_a_write_has_no_more_time_than_is_left(httpx_mock: HTTPXMock, write: Write) -> None:
    async def never(_: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError("nothing wakes it")

    httpx_mock.add_callback(never, is_reusable=True)
    async with asyncio.timeout(10):
        with pytest.raises(errors.Unreachable, match="no answer"):
            await write(leading(0.02))


async def test_a_write_that_is_tried_again_asks_again_what_is_left(httpx_mock: HTTPXMock) -> None:
    left_s = iter([5.0, 0.0])
    httpx_mock.add_callback(lambda _: httpx.Response(502, text="bad gateway"))
    slurm = Slurm(Transport(URL, FixedToken(), version="v0.0.45", sleep=no_sleep, deadline=lambda: next(left_s)))
    with pytest.raises(errors.LeaseOver):
        await slurm.drain_node("n1", reason="x")


async def test_a_read_needs_no_lease(httpx_mock: HTTPXMock) -> None:
    serve(httpx_mock, NODES)
    assert await leading(0.0).nodes()
