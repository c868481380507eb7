"""Clients of the last minor version are sent nothing that their closed enums would refuse."""

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from enum import StrEnum
from types import SimpleNamespace
from typing import Any

import pytest
from litestar.response import ServerSentEventMessage

from potluck.model.account import Scope
from potluck.model.audit import AuditKind
from potluck.model.device import Health
from potluck.model.event import EventKind
from potluck.model.node import NodeState
from potluck.model.task import EndReason, TaskState
from potluck.server.api.http.earlier_clients import (
    LATER_EVENTS,
    LATER_REASONS,
    LATER_SCOPES,
    is_earlier_client,
    without_later,
)
from potluck.server.api.http.event_stream import stream
from potluck.wire.events import EventPage, EventView
from tests.end_to_end.earlier_version import COMMIT
from tests.processes import ServerProcess
from tests.store.schema_history import git, need_history

LATER: dict[type[StrEnum], frozenset[str]] = {
    Scope: LATER_SCOPES,
    EventKind: LATER_EVENTS,
    EndReason: frozenset(LATER_REASONS),
}


@pytest.mark.parametrize("enum", [Scope, EventKind, EndReason, TaskState, NodeState, Health])
def test_every_later_member_is_known_as_such(enum: type[StrEnum]) -> None:
    """Enums of responses, compared with the last release. AuditKind is text there."""
    need_history()
    assert enum is not AuditKind
    classes = git("grep", "-h", "-A80", f"^class {enum.__name__}(StrEnum)", COMMIT, "--", "src")
    body = re.split(r"\n(?=[^\s-])", classes, maxsplit=1)[0]
    earlier = set(re.findall(r'^ +[A-Z_]+ = "([^"]+)"', body, re.MULTILINE))
    assert earlier, "the enum is found"
    assert {member.value for member in enum} - earlier == set(LATER.get(enum, ()))


def test_only_clients_of_an_earlier_minor_version_are_spared() -> None:
    assert is_earlier_client({"user-agent": "potluck/0.1.0"})
    for agent in ("potluck/0.2.0", "potluck/0.3.0", "curl/8.0", ""):
        assert not is_earlier_client({"user-agent": agent})


def test_an_object_of_a_later_kind_is_left_out() -> None:
    occurred_at = datetime(2026, 11, 18, tzinfo=UTC)
    events = [
        EventView("1", EventKind.NODE_LOST, occurred_at),
        EventView("2", EventKind.NODE_LEFT, occurred_at),
    ]
    shown_page = without_later(EventPage(events, "2", "2"))
    assert [event["kind"] for event in shown_page["events"]] == ["node.left"]


def test_an_earlier_client_reads_its_account(server: ServerProcess) -> None:
    now = server.client().get("/v1/me")["scopes"]
    earlier = server.client().call("GET", "/v1/me", User_Agent="potluck/0.1.0").json()["scopes"]
    assert set(now) - set(earlier) == LATER_SCOPES


@pytest.mark.parametrize(("agent", "kinds"), [("potluck/0.1.0", 1), ("potluck/0.2.0", 2)])
async def test_a_stream_skips_events_of_a_later_kind(agent: str, kinds: int) -> None:
    async def followed() -> AsyncIterator[str]:
        yield "node.lost"
        yield "node.left"

    settings = SimpleNamespace(follow_poll_seconds=60.0)
    state = SimpleNamespace(services=SimpleNamespace(settings=settings))
    request: Any = SimpleNamespace(headers={"user-agent": agent}, app=SimpleNamespace(state=state))
    event_stream: Any = stream(
        request, followed(), lambda kind: ServerSentEventMessage(event=kind, data="{}")
    )
    sent: list[bytes] = [message async for message in event_stream.iterator]
    assert len(sent) == kinds and b"node.left" in b"".join(sent)
