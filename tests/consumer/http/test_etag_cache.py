"""Answers that are asked for again: sent again only if they have changed."""

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from potluck.consumer import Potluck
from potluck.wire.consumer import DeviceCounts, PoolView
from tests.consumer.fake_server import FakeServer, Scene, says

POOL = PoolView(3, 0, DeviceCounts(2), DeviceCounts(), 14, 2, 10_000)
SAME = Scene(304, headers={"ETag": '"one"'})


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer().running() as fake:
        yield fake


def named(pool: PoolView, etag: str) -> Scene:
    response = says(pool)
    return Scene(200, response.body, {**response.headers, "ETag": etag})


def test_unchanged_responses_come_from_memory(server: FakeServer) -> None:
    other = replace(POOL, nodes=4)
    server.plays("/v1/pool", named(POOL, '"one"'), SAME, SAME, named(other, '"two"'), says(POOL))
    with Potluck(server.url, "secret") as potluck:
        potluck.transport.remember()
        assert [potluck.resources.pool() for _ in range(6)] == [POOL] * 3 + [other, POOL, POOL]
    etags = [request.headers.get("If-None-Match") for request in server.requests]
    assert etags == [None, '"one"', '"one"', '"one"', '"two"', None]


def test_responses_are_remembered_only_on_request(server: FakeServer) -> None:
    server.plays("/v1/pool", named(POOL, '"one"'))
    with Potluck(server.url, "secret") as potluck:
        assert potluck.resources.pool() == potluck.resources.pool()
    assert not any("If-None-Match" in request.headers for request in server.requests)


def test_only_a_few_are_remembered(server: FakeServer) -> None:
    with Potluck(server.url, "secret") as potluck:
        potluck.transport.remember()
        for number in range(20):
            server.plays(f"/v1/{number}", named(POOL, '"one"'))
            potluck.transport.call("GET", f"/v1/{number}")
        for number in (0, 19):
            potluck.transport.call("GET", f"/v1/{number}")
    first, last = (request.headers.get("If-None-Match") for request in server.requests[-2:])
    assert (first, last) == (None, '"one"')


def test_unchanged_responses_are_not_evicted_first(server: FakeServer) -> None:
    server.plays("/v1/pool", named(POOL, '"one"'), SAME)
    with Potluck(server.url, "secret") as potluck:
        potluck.transport.remember()
        for number in range(20):
            server.plays(f"/v1/{number}", named(POOL, '"one"'))
            potluck.transport.call("GET", f"/v1/{number}")
            assert potluck.resources.pool() == POOL
    etags = [
        request.headers.get("If-None-Match")
        for request in server.requests
        if "pool" in request.path
    ]
    assert etags == [None] + ['"one"'] * 19


def test_a_cache_entry_dropped_by_another_thread_is_still_used(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.plays("/v1/pool", named(POOL, '"one"'), SAME)
    with Potluck(server.url, "secret") as potluck:
        transport = potluck.transport
        transport.remember()
        send = transport._send

        def forgotten_meanwhile(*arguments: Any) -> Any:
            response = send(*arguments)
            for number in range(20):
                assert transport._cache is not None
                transport._cache.keep(f"/v1/{number}", {"ETag": '"two"'}, b"")
            return response

        assert potluck.resources.pool() == POOL
        monkeypatch.setattr(transport, "_send", forgotten_meanwhile)
        assert potluck.resources.pool() == POOL
