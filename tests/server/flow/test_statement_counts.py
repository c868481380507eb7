"""How many statements each hot read sends to PostgreSQL. docs/operations.md has the same table."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from potluck.live.in_process import InProcessLive
from potluck.model.account import Scope
from potluck.server.api.operations import OPERATIONS
from potluck.server.caches import open_caches
from potluck.server.services import Services
from potluck.wire import routes
from tests.architecture.repository_files import ROOT
from tests.server.flow.counted_requests import (
    Statements,
    client_of,
    open_session,
    signed_in,
    statements,
)
from tests.server.flow.pool import Pool

__all__ = ["statements"]

TASK = "{task_id}"
# Before, now with a caller that was not seen for a while, and now with one that was.
COUNTS = {
    "/v1/me": (6, 2, 1),
    "/v1/tasks": (5, 3, 2),
    f"/v1/tasks/{TASK}": (4, 2, 1),
    f"/v1/tasks/{TASK}/explain": (4, 2, 1),
    "/v1/devices": (5, 3, 2),
    "/v1/nodes": (5, 3, 2),
    "/v1/pool": (5, 3, 0),
}


@pytest.fixture
async def cached(statements: Statements, pool: Pool) -> AsyncIterator[Pool]:
    """As the server has it: values are kept, and dropped when somebody changes them."""
    async with open_caches(pool.services.live, pool.services.settings) as caches:
        # Nobody leads here, so nobody explains.
        settings = replace(pool.services.settings, answer_seconds=0.05)
        pool.services = replace(pool.services, caches=caches, settings=settings)
        yield pool


async def forget(services: Services) -> None:
    for topic in ("callers", "outbox"):
        await services.live.wake(topic)


@pytest.mark.parametrize("path", COUNTS)
async def test_hot_reads_send_few_statements(
    cached: Pool, statements: Statements, path: str
) -> None:
    await cached.offer()
    task = await cached.submit()
    _, first, repeated_count = COUNTS[path]
    async with signed_in(cached, cached.alice, statements) as client:
        await client.send("GET", path.format(task_id=task.id))
        await forget(cached.services)
        sent = await client.send("GET", path.format(task_id=task.id))
        assert len(sent) == first, sent
        sent = await client.send("GET", path.format(task_id=task.id))
        assert len(sent) == repeated_count, sent


def test_the_page_has_these_numbers() -> None:
    page = (Path(ROOT) / "docs" / "operations.md").read_text()
    rows = re.findall(r"^\| `GET (/v1/\S+)` \| (\d) \| (\d) \| (\d) \|$", page, re.MULTILINE)
    assert {path: tuple(map(int, counts)) for path, *counts in rows} == COUNTS


# Of a caller that was just seen: the first request, and the same again.
OVERVIEWS = {
    "/v1/tasks/counts": (1, 1),
    "/v1/nodes?mine=true": (2, 2),
    "/v1/market": (2, 0),
    "/v1/templates": (0, 0),
    f"/v1/tasks/{TASK}/request": (1, 1),
    "/v1/me/views": (1, 1),
}


@pytest.mark.parametrize("path", OVERVIEWS)
async def test_overviews_send_few_statements(
    cached: Pool, statements: Statements, path: str
) -> None:
    await cached.offer()
    task = await cached.submit()
    async with signed_in(cached, cached.alice, statements) as client:
        await client.send("GET", "/v1/tasks")
        task_path = path.format(task_id=task.id)
        counts = [len(await client.send("GET", task_path)) for _ in OVERVIEWS[path]]
        assert tuple(counts) == OVERVIEWS[path]


PRIVILEGED = ("/v1/me/keys", "/v1/me/sessions", "/v1/me/node-keys")


def test_only_work_is_done_by_callers_that_are_kept() -> None:
    """All else asks the database who calls, and lets all instances forget callers afterwards."""
    ordinary = [operation for operation in OPERATIONS.values() if not operation.is_privileged]
    writes = {
        scope
        for operation in ordinary
        if operation.route.method != "GET"
        for scope in operation.scopes
    }
    assert writes == {Scope.TASKS_WRITE, Scope.NODE, Scope.TASKS_READ}, writes
    open_ones = [operation for operation in OPERATIONS.values() if not operation.scopes]
    keeping_routes = {operation.route for operation in open_ones if operation.keeps_callers}
    assert keeping_routes == {routes.CHALLENGE, routes.NODE_LOGIN}, (
        "they change no account and no key"
    )
    changing_operations = [
        operation for operation in open_ones if operation.route not in keeping_routes
    ]
    assert all(
        operation.changes_callers
        for operation in changing_operations
        if operation.route.method != "GET"
    )


@pytest.mark.parametrize("path", PRIVILEGED)
async def test_privileged_callers_are_always_read(
    cached: Pool, statements: Statements, path: str
) -> None:
    async with signed_in(cached, cached.alice, statements) as client:
        for _ in range(3):
            sent = await client.send("GET", path)
            assert any("open session" in statement for statement in sent), sent


async def test_a_session_that_ended_is_refused_at_once(
    cached: Pool, statements: Statements
) -> None:
    """Also by an instance that has kept its caller, once the wake-up has come."""
    token = await open_session(cached.services, cached.alice)
    services = cached.services
    async with (
        open_caches(services.live, services.settings) as caches,
        client_of(services, token) as first_client,
        client_of(replace(services, caches=caches), token) as second_client,
    ):
        for http in (first_client, second_client):
            assert (await http.get("/v1/me")).status_code == 200
        assert (await first_client.post("/v1/auth/logout")).status_code == 204
        for http in (first_client, second_client):
            assert (await http.get("/v1/me")).status_code == 401


async def test_a_suspended_account_and_changed_roles_are_seen_at_once(
    cached: Pool, statements: Statements
) -> None:
    await cached.sql("UPDATE accounts SET roles = '{consumer,admin}' WHERE id = $1", cached.alice)
    admin = await open_session(cached.services, cached.alice)
    token = await open_session(cached.services, cached.bob)
    async with client_of(cached.services, admin) as http, client_of(cached.services, token) as bobs:
        assert (await bobs.get("/v1/pool")).status_code == 200
        suspension = {"reason": "for a test"}
        place = f"/v1/accounts/{cached.bob}"
        response = await http.post(f"{place}/suspend", json=suspension)
        assert response.status_code < 300, response.text
        assert (await bobs.get("/v1/pool")).json()["code"] == "account_suspended"
        assert (await http.post(f"{place}/resume")).status_code < 300
        assert (await bobs.get("/v1/pool")).status_code == 200


async def test_an_instance_that_hears_nothing_asks_again_within_two_seconds(
    cached: Pool, statements: Statements
) -> None:
    """As without Redis: its live side is not the one that is woken."""
    assert cached.services.settings.caller_cache_seconds <= 2
    token = await open_session(cached.services, cached.alice)
    deaf_live = InProcessLive()
    short = replace(cached.services.settings, caller_cache_seconds=0.2)
    async with open_caches(deaf_live, short) as caches:
        other = replace(cached.services, caches=caches)
        async with (
            client_of(cached.services, token) as first_client,
            client_of(other, token) as second_client,
        ):
            assert (await second_client.get("/v1/me")).status_code == 200
            assert (await first_client.post("/v1/auth/logout")).status_code == 204
            await_until = 50
            while (await second_client.get("/v1/me")).status_code != 401:
                await_until -= 1
                assert await_until, "it never asked again"
                await asyncio.sleep(0.05)
    await deaf_live.close()


async def test_a_change_of_the_pool_is_counted_at_once(
    cached: Pool, statements: Statements
) -> None:
    token = await open_session(cached.services, cached.alice)
    async with client_of(cached.services, token) as http:
        for nodes in range(3):
            assert (await http.get("/v1/pool")).json()["nodes"] == nodes
            await cached.offer()
        await cached.submit()
        assert (await http.get("/v1/pool")).json()["waiting_tasks"] == 1
