"""Asks the treasury for signatures, over its socket."""

import asyncio
from contextlib import suppress
from pathlib import Path

import msgspec

from potluck.model.error import ChainUnreachable, TransactionRefused
from potluck.server.treasury.messages import (
    ANSWERS,
    MAX_LINE_BYTES,
    ShowAddress,
    SignTransaction,
    TreasuryAddress,
    TreasuryAnswer,
    TreasuryRefusal,
    TreasuryRequest,
    TreasurySignature,
)

# It reads the ledger before it signs.
_SECONDS_TO_ANSWER = 90.0


class TreasuryClient:
    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def read_address(self) -> str:
        answer = await self._ask(ShowAddress())
        if not isinstance(answer, TreasuryAddress):
            raise _unreachable("its answer is not that of a treasury")
        return answer.address

    async def sign(self, request: SignTransaction) -> TreasurySignature:
        """Raises TransactionRefused if the treasury does."""
        answer = await self._ask(request)
        if isinstance(answer, TreasurySignature):
            return answer
        reason = answer.because if isinstance(answer, TreasuryRefusal) else "no reason"
        raise TransactionRefused(
            f"The treasury refused to sign: {reason}.",
            "Compare its journal and its log with the ledger before you do anything.",
        )

    async def _ask(self, request: TreasuryRequest) -> TreasuryAnswer:
        try:
            async with asyncio.timeout(_SECONDS_TO_ANSWER):
                line = await self._exchange(msgspec.json.encode(request) + b"\n")
        except (OSError, TimeoutError, ValueError) as error:
            raise _unreachable(type(error).__name__) from error
        try:
            return ANSWERS.decode(line)
        except msgspec.DecodeError as error:
            raise _unreachable("its answer cannot be read") from error

    async def _exchange(self, line: bytes) -> bytes:
        reader, writer = await asyncio.open_unix_connection(self._socket, limit=MAX_LINE_BYTES)
        try:
            writer.write(line)
            await writer.drain()
            return await reader.readline()
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()


def _unreachable(why: str) -> ChainUnreachable:
    return ChainUnreachable(
        f"The treasury does not respond: {why}.",
        "Start `potluck treasury`, and check POTLUCK_TREASURY_SOCKET.",
    )
