"""Calls of a stream that come while its run gives its interpreter back."""

import asyncio
import pickle
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from potluck.model.task import EndReason, ItemRange
from potluck.provider.attempt.item_feed import ItemFeed
from potluck.provider.event import CodeStarted, Event, ItemsEnded
from potluck.provider.functions.interpreter import Interpreter
from potluck.wire import item_file
from potluck.wire.provider import GrantedItems
from tests.provider.functions.warm_calls import Shop, call_of

pytestmark = pytest.mark.usefixtures("by_value")

LINGER_SECONDS = 0.05


def doubled(number: int) -> int:
    return 2 * number


async def test_calls_after_a_pause_are_all_sent(
    walled: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One comes when the run has waited long enough, and one when that one is done."""
    grant = replace(call_of(doubled), items=[], linger_seconds=LINGER_SECONDS)
    feed = ItemFeed()
    lend, pending = walled.pool.lend, [1]

    def add(item: int) -> None:
        inputs = item_file.pack([pickle.dumps((item,))])
        feed.add(GrantedItems(grant.attempt_id, item, item + 1, inputs))

    @asynccontextmanager
    async def lend_until_the_next_comes(*parts: Any) -> AsyncIterator[Interpreter]:
        async with lend(*parts) as interpreter:
            yield interpreter
        if pending:
            add(pending.pop())

    def follow(event: Event) -> None:
        if isinstance(event, ItemsEnded) and event.returned[0].start == 1:
            add(2)

    monkeypatch.setattr(walled.pool, "lend", lend_until_the_next_comes)
    walled.hear = follow
    add(0)

    async with asyncio.timeout(20):
        result = await walled.run(grant, feed=feed)

    assert result.returned == {0: 0, 1: 2, 2: 4}


def broken(number: int) -> float:
    return number / 0


async def test_an_error_is_reported_while_the_run_waits_for_more_calls(walled: Shop) -> None:
    grant = replace(call_of(broken), items=[], linger_seconds=60.0)
    feed = ItemFeed()
    inputs = item_file.pack([pickle.dumps((1,))])
    feed.add(GrantedItems(grant.attempt_id, 0, 1, inputs))

    def release(event: Event) -> None:
        if isinstance(event, ItemsEnded) and event.outcomes:
            walled.recall.ask(EndReason.RECLAIMED, 0.0)

    walled.hear = release
    async with asyncio.timeout(20):
        result = await walled.run(grant, feed=feed, outcome_seconds=60.0)

    assert set(result.failed) == {0}


def said(number: int) -> int:
    import time

    print(f"call {number}", flush=True)
    time.sleep(0 if number else 60)
    return number


async def test_cancelled_calls_are_stopped_or_skipped_and_later_ones_run(walled: Shop) -> None:
    """The first one runs, the second one was sent behind it, the third one was not sent."""
    grant = replace(call_of(said), items=[], linger_seconds=LINGER_SECONDS)
    feed = ItemFeed()
    inputs = item_file.pack([pickle.dumps((item,)) for item in range(4)])
    feed.add(GrantedItems(grant.attempt_id, 0, 4, inputs))

    def cancel(event: Event) -> None:
        if isinstance(event, CodeStarted):
            feed.cancel([ItemRange(0, 3)])

    walled.hear = cancel
    async with asyncio.timeout(20):
        result = await walled.run(grant, feed=feed)

    assert (result.returned, result.failed) == ({3: 3}, {})
    assert "call 1" not in result.text and "call 2" not in result.text
    assert result.ended.reason is EndReason.COMPLETED
