"""What an attempt has left reaches the server once and whole, or the log says why not."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from potluck.model.blob import INLINE_BYTES
from potluck.model.error import QuotaExceeded, StaleLease
from potluck.model.lease import Lease
from potluck.provider.attempt.log_buffer import LogBuffer, LogSpool
from potluck.provider.event import Event, LeaseLost, ParcelsShipped, ValueRefused
from potluck.provider.files import outbox as outboxes
from potluck.provider.files.blob_transfer import AttemptTransfers, BlobTransfer
from potluck.provider.files.outbox import Outbox, OutputRole
from potluck.provider.files.output_upload import upload_outputs
from potluck.provider.server.throttle import Throttle
from tests.provider.builders import a_lease
from tests.provider.fake_server import FakeServer
from tests.provider.server.connected_client import linked

LARGE = bytes(range(256)) * 1025


class UploadHarness:
    """An outbox that is being shipped."""

    def __init__(self, freight: AttemptTransfers, log: LogBuffer) -> None:
        self.outbox, self.log = freight.outbox, log
        self.told: list[Event] = []

    def tell(self, events: list[Event]) -> bool:
        self.told += events
        return True

    async def until(self, kind: type[Event]) -> None:
        async with asyncio.timeout(20):
            while not any(isinstance(event, kind) for event in self.told):
                await asyncio.sleep(0.01)

    async def until_shipped(self) -> None:
        async with asyncio.timeout(20):
            while not any(
                isinstance(event, ParcelsShipped) and event.parcels == len(self.outbox)
                for event in self.told
            ):
                await asyncio.sleep(0.01)

    def text(self) -> str:
        return b"".join(piece.data for piece in self.log.spool.read(0, 99, 10**6)).decode()


@asynccontextmanager
async def shipping(
    server: FakeServer, directory: Path, lease: Lease | None = None
) -> AsyncIterator[UploadHarness]:
    lease = lease or a_lease()[0]
    async with linked(server) as provider:
        outbox = Outbox.open(directory, lease.attempt_id)
        freight = AttemptTransfers(outbox, BlobTransfer(provider.link, lease, Throttle()))
        harness = UploadHarness(
            freight, LogBuffer(LogSpool.open(directory, lease.attempt_id), 60.0)
        )
        duty = asyncio.create_task(
            upload_outputs(freight, lease.attempt_id, harness.log, harness.tell)
        )
        try:
            yield harness
        finally:
            duty.cancel()
            await asyncio.gather(duty, return_exceptions=True)
            outbox.discard()
            harness.log.spool.close()


async def test_small_files_travel_together_and_large_ones_in_parts(
    server: FakeServer, tmp_path: Path
) -> None:
    server.files.part_bytes = 100_000
    async with shipping(server, tmp_path) as harness:
        for number in range(20):
            harness.outbox.add(OutputRole.OUTPUT, f"small/{number}", [b"%d" % number])
        harness.outbox.add(OutputRole.OUTPUT, "large", [LARGE])
        harness.outbox.add(OutputRole.OUTPUT, "empty", [])
        harness.outbox.add(OutputRole.CHECKPOINT, "", [b"an archive"])
        assert harness.outbox.keep_value(LARGE + b"!").blob is not None
        harness.outbox.announce()
        await harness.until_shipped()
        assert harness.text() == ""
    expected = {f"small/{number}": b"%d" % number for number in range(20)}
    assert server.files.added == {**expected, "large": LARGE, "empty": b""}
    assert server.files.checkpoints == [b"an archive"]
    assert LARGE + b"!" in server.files.blobs.values()
    assert len(LARGE) > INLINE_BYTES and server.files.parts == 3 + 1 + 3


async def test_a_restarted_provider_does_not_upload_discarded_files(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outboxes, "_GIVEN_BACK_BYTES", 1)
    lease, _ = a_lease()
    before = Outbox.open(tmp_path, lease.attempt_id)
    before.add(OutputRole.OUTPUT, "old", [b"old"])
    before.give_back(1)
    before.add(OutputRole.OUTPUT, "new", [b"new"])
    before.sync()
    before.close()
    async with shipping(server, tmp_path, lease) as harness:
        await harness.until_shipped()
        assert [event.parcels for event in harness.told if isinstance(event, ParcelsShipped)] == [
            1,
            2,
        ]
    assert server.files.added == {"new": b"new"}


async def test_an_upload_resumes_after_the_parts_that_arrived(
    server: FakeServer, tmp_path: Path
) -> None:
    server.files.part_bytes = 100_000
    async with shipping(server, tmp_path) as harness:
        parcel = harness.outbox.add(OutputRole.OUTPUT, "large", [LARGE])
        server.files.uploads[parcel.blob.sha256] = bytearray(LARGE[:200_000])
        harness.outbox.announce()
        await harness.until_shipped()
    assert (server.files.parts, server.files.added) == (1, {"large": LARGE})


async def test_an_upload_that_the_server_forgot_is_begun_anew(
    server: FakeServer, tmp_path: Path
) -> None:
    server.files.part_bytes, server.files.forgets_uploads = 100_000, 2
    async with shipping(server, tmp_path) as harness:
        harness.outbox.add(OutputRole.OUTPUT, "large", [LARGE])
        harness.outbox.announce()
        await harness.until_shipped()
    assert server.files.added == {"large": LARGE}


async def test_outputs_that_the_server_refuses_are_left_out_and_named(
    server: FakeServer, tmp_path: Path
) -> None:
    server.files.refusal = QuotaExceeded("The account has all that it may have.")
    async with shipping(server, tmp_path) as harness:
        for path, data in (("small", b"x"), ("other", b"y"), ("large", LARGE)):
            harness.outbox.add(OutputRole.OUTPUT, path, [data])
        harness.outbox.add(OutputRole.VALUE, "", [LARGE])
        harness.outbox.announce()
        await harness.until_shipped()
        lines = harness.text().splitlines(keepends=True)
    refusal = "was not accepted: The account has all that it may have.\n"
    assert sorted(lines) == sorted(
        f"{output} {refusal}"
        for output in ("output small", "output other", "output large", "the value")
    )
    assert any(isinstance(event, ValueRefused) for event in harness.told)
    last = harness.told[-1]
    assert isinstance(last, ParcelsShipped) and last.log_pieces == harness.log.pieces > 0


async def test_a_lease_that_is_gone_ends_it(server: FakeServer, tmp_path: Path) -> None:
    server.files.refusal = StaleLease("The lease is gone.")
    async with shipping(server, tmp_path) as harness:
        harness.outbox.add(OutputRole.OUTPUT, "small", [b"x"])
        harness.outbox.announce()
        await harness.until(LeaseLost)
    assert not any(isinstance(event, ParcelsShipped) for event in harness.told)
