"""A stream is held to what its caller was let in with, for as long as it lasts."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import urllib3

from tests.processes import Api, ServerProcess, await_true
from tests.wallets import Wallet

LOOKED_AT_SECONDS = 0.3
TIMES = {"POTLUCK_FOLLOW_POLL_SECONDS": str(LOOKED_AT_SECONDS)}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server"), 0, **TIMES) as running:
        yield running


class Follower:
    """A stream that stays open; a server that says nothing for seconds has forgotten it."""

    def __init__(self, server: ServerProcess, token: str, path: str) -> None:
        self._answer = urllib3.PoolManager(retries=False, timeout=10).request(
            "GET",
            f"{server.url}{path}",
            headers={"Authorization": f"Bearer {token}"},
            preload_content=False,
        )
        assert self._answer.status == 200
        assert self.hear()

    def hear(self) -> bytes:
        """What came since; nothing when it has ended."""
        return self._answer.read1(65_536)

    def close(self) -> None:
        self._answer.close()


def end(way: str, server: ServerProcess, owner: Api, key_id: str) -> None:
    me = owner.get("/v1/me")["id"]
    method, path, body = {
        "session": ("POST", "/v1/auth/logout", b""),
        "key": ("DELETE", f"/v1/me/keys/{key_id}", None),
        "suspension": ("POST", f"/v1/accounts/{me}/suspend", b"{}"),
        "role": ("PUT", "/v1/me/roles", b'{"roles":["provider"]}'),
    }[way]
    caller = server.client() if way == "suspension" else owner
    assert caller.call(method, path, body).status in (200, 204)


STREAMS = {"task": ("session", "key", "suspension", "role"), "account": ("session", "key")}


@pytest.mark.parametrize(
    ("stream", "way"), [(stream, way) for stream, ways in STREAMS.items() for way in ways]
)
def test_a_stream_ends_with_what_its_caller_came_with(
    server: ServerProcess, stream: str, way: str
) -> None:
    session = server.sign_in(Wallet(f"loses its {way} at the {stream}"))
    owner = server.client(session)
    task_id = owner.submit("print('waits for a node')")
    path = {"task": f"/v1/tasks/{task_id}/follow", "account": "/v1/events/follow"}[stream]
    created = owner.post("/v1/me/keys", {"name": "x", "scopes": ["tasks:read", "account:read"]})
    token = created["secret"] if way == "key" else session
    with closing(Follower(server, token, path)) as following:
        assert following.hear() and following.hear(), "it is open, and quiet"
        end(way, server, owner, created["key"]["id"])
        ended_at = time.monotonic()
        while following.hear():
            assert time.monotonic() - ended_at < 10 * LOOKED_AT_SECONDS, "it goes on"


def test_a_stream_outlives_the_token_it_was_opened_with(tmp_path: Path) -> None:
    """Tokens live for minutes, tasks for hours; the session behind the token still holds."""
    with ServerProcess(tmp_path, 0, POTLUCK_ACCESS_SECONDS="0.1", **TIMES) as server:
        session = server.sign_in(server.wallet)
        owner = server.client(session)
        task_id = owner.submit("print('waits for a node')")
        with closing(Follower(server, session, f"/v1/tasks/{task_id}/follow")) as stream:
            await_true(lambda: owner.call("GET", "/v1/me").status == 401, "the token is too old")
            for _ in range(3):
                assert stream.hear()
