"""Logs on their way to a server that loses answers, forgets, or has had enough."""

import asyncio
from pathlib import Path
from typing import Any

from potluck.provider.attempt.log_buffer import LogBuffer, LogSpool
from potluck.provider.event import LeaseLost, LogAcknowledged, LogCut
from potluck.provider.server.log_upload import CUT_MARK, ship_log
from potluck.provider.server.throttle import Throttle
from potluck.wire.provider import PackedLogPiece
from tests.provider.builders import a_lease
from tests.provider.fake_server import FakeServer
from tests.provider.server.connected_client import during, linked, until


def a_written_log(directory: Path, *pieces: bytes) -> tuple[LogBuffer, Any]:
    lease, _ = a_lease()
    spool = LogSpool.open(directory, lease.attempt_id)
    for data in pieces:
        spool.append(PackedLogPiece("stdout", data))
    return LogBuffer(spool, 0.01), lease


async def test_a_log_arrives_whole_and_in_order_through_lost_answers(
    server: FakeServer, tmp_path: Path
) -> None:
    log, lease = a_written_log(tmp_path, *(b"%d " % number for number in range(2500)))
    async with linked(server) as provider:
        server.swallow_answers = 3
        async with during(ship_log(provider.link, lease, log, provider.tell, Throttle())):
            await until(provider.heard(LogAcknowledged(lease.attempt_id, 2500)))
    expected = "".join(f"{number} " for number in range(2500))
    assert server.text(lease.attempt_id) == expected


async def test_pieces_that_an_earlier_life_sent_are_not_doubled(
    server: FakeServer, tmp_path: Path
) -> None:
    log, lease = a_written_log(tmp_path, b"one ", b"two ", b"three ")
    server.logs[lease.attempt_id] = [
        PackedLogPiece("stdout", b"one "),
        PackedLogPiece("stdout", b"two "),
    ]
    async with (
        linked(server) as provider,
        during(ship_log(provider.link, lease, log, provider.tell, Throttle())),
    ):
        await until(provider.heard(LogAcknowledged(lease.attempt_id, 3)))
    assert server.text(lease.attempt_id) == "one two three "


async def test_a_server_that_lost_pieces_gets_them_again(
    server: FakeServer, tmp_path: Path
) -> None:
    log, lease = a_written_log(tmp_path, b"one ", b"two ")
    async with (
        linked(server) as provider,
        during(ship_log(provider.link, lease, log, provider.tell, Throttle())),
    ):
        await until(provider.heard(LogAcknowledged(lease.attempt_id, 2)))
        server.logs.clear()
        log.add("stdout", b"three")
        await until(provider.heard(LogAcknowledged(lease.attempt_id, 3)))
    assert server.text(lease.attempt_id) == "one two three"


async def test_a_log_past_the_servers_cap_is_cut_there_and_marked(
    server: FakeServer, tmp_path: Path
) -> None:
    log, lease = a_written_log(tmp_path, *[b"." * 100] * 20, b"x" * 1_000)
    server.log_cap_bytes = 2_500
    async with (
        linked(server) as provider,
        during(ship_log(provider.link, lease, log, provider.tell, Throttle())) as shipping,
    ):
        await asyncio.wait_for(shipping, 30)
    assert provider.events[-1] == LogCut(lease.attempt_id)
    assert server.text(lease.attempt_id) == "." * 2_000 + CUT_MARK


async def test_a_log_limit_without_room_for_the_mark_still_ends_the_log(
    server: FakeServer, tmp_path: Path
) -> None:
    log, lease = a_written_log(tmp_path, b"one ")
    server.log_cap_bytes = 2
    async with linked(server) as provider:
        await asyncio.wait_for(ship_log(provider.link, lease, log, provider.tell, Throttle()), 30)
    assert provider.events == [LogCut(lease.attempt_id)]


async def test_a_stale_lease_ends_the_shipping(server: FakeServer, tmp_path: Path) -> None:
    log, lease = a_written_log(tmp_path, b"one ")
    await server.call_off(lease.attempt_id)
    async with linked(server) as provider:
        await asyncio.wait_for(ship_log(provider.link, lease, log, provider.tell, Throttle()), 30)
    assert provider.events == [LeaseLost(lease.attempt_id)]
