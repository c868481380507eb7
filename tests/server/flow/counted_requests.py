"""Requests to the application in this process, and the statements that each sends."""

import secrets
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg
import httpx
import pytest
from litestar.exceptions import LitestarDeprecationWarning

from potluck.model.account import Credential
from potluck.model.ids import AccountId
from potluck.server.api.app import make_app
from potluck.server.auth import access_tokens
from potluck.server.auth.access_tokens import Claims
from potluck.server.services import Services
from potluck.store import database as database_module
from potluck.store.identity import sessions
from tests.server.flow.pool import Pool


class Statements:
    """What was sent since the last look; the beginning and the end of a transaction are two."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def note(self, query: Any) -> None:
        self.sent.append(query.query)

    def take(self) -> list[str]:
        sent, self.sent = self.sent, []
        return sent


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> Statements:
    """Of all pools that are opened later."""
    counted, prepare = Statements(), database_module.prepare_connection

    async def prepare_counted(connection: asyncpg.Connection) -> None:
        await prepare(connection)
        connection.add_query_logger(counted.note)

    monkeypatch.setattr(database_module, "prepare_connection", prepare_counted)
    return counted


class CountedClient:
    def __init__(self, http: httpx.AsyncClient, statements: Statements) -> None:
        self._http, self._statements = http, statements

    async def send(self, method: str, path: str, status: int = 200, **options: Any) -> list[str]:
        """The statements of the request."""
        self._statements.take()
        response = await self._http.request(method, path, **options)
        assert response.status_code == status, response.text
        return self._statements.take()


@asynccontextmanager
async def signed_in(
    pool: Pool, account_id: AccountId, statements: Statements
) -> AsyncIterator[CountedClient]:
    token = await open_session(pool.services, account_id)
    async with client_of(pool.services, token) as http:
        yield CountedClient(http, statements)


def client_of(services: Services, token: str) -> httpx.AsyncClient:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LitestarDeprecationWarning)
        app: Any = make_app(services)
    transport = httpx.ASGITransport(app)
    return httpx.AsyncClient(
        transport=transport,
        base_url="http://127.0.0.1:8470",
        headers={"Authorization": f"Bearer {token}"},
    )


async def open_session(services: Services, account_id: AccountId) -> str:
    async with services.database.transaction() as connection:
        session_id = await sessions.open_session(
            connection, account_id, "laptop", secrets.token_bytes(32), timedelta(days=1)
        )
    claims = Claims(account_id, Credential.SESSION, session_id)
    return access_tokens.issue(
        services.keys.access, claims, services.clock.now(), timedelta(minutes=15)
    )
