"""What an attempt leaves for the server: its log and its output files, on their way."""

import asyncio

from msgspec import Struct

from potluck.provider.attempt.log_buffer import LogBuffer
from potluck.provider.files.blob_transfer import AttemptTransfers


class Shipment(Struct, frozen=True):
    """The log and output files of an attempt, and the duties that upload them."""

    log: LogBuffer
    freight: AttemptTransfers
    duties: tuple[asyncio.Task[None], ...]

    def sizes(self) -> tuple[int, int]:
        return self.log.spool.size_bytes, self.freight.outbox.kept_bytes

    def close(self) -> None:
        self.log.spool.close()
        self.freight.outbox.close()

    def discard(self) -> None:
        for duty in self.duties:
            duty.cancel()
        self.log.spool.discard()
        self.freight.outbox.discard()
