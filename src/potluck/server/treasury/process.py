"""Serves the treasury's socket until it is told to stop.

The socket and its directory belong to one user. A request that cannot be read is answered with a
refusal, and ends nothing but its own connection.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import structlog

from potluck.local.data_directory import held
from potluck.model.error import BadSettings, DataDirectoryInUse
from potluck.server.chain.chain_settings import PayoutChainSettings
from potluck.server.treasury.journal import TreasuryJournal
from potluck.server.treasury.messages import (
    MAX_LINE_BYTES,
    REQUESTS,
    TreasuryAnswer,
    TreasuryRefusal,
)
from potluck.server.treasury.signer import TreasurySigner

log = structlog.get_logger()

JOURNAL = "journal.jsonl"


async def run_treasury(
    directory: Path,
    socket: Path,
    private_key: bytes,
    chain: PayoutChainSettings,
    find_ledger: Callable[[], str],
    ready: Callable[[str], None],
) -> None:
    """Runs until SIGTERM or SIGINT; `ready` gets the address of the key."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with open_treasury(directory, socket, private_key, chain, find_ledger) as address:
        ready(address)
        await stop.wait()


@asynccontextmanager
async def open_treasury(
    directory: Path,
    socket: Path,
    private_key: bytes,
    chain: PayoutChainSettings,
    find_ledger: Callable[[], str],
) -> AsyncIterator[str]:
    """Serves the socket meanwhile; yields the address of the key."""
    with held(directory, _in_use(directory)):
        journal = TreasuryJournal(directory / JOURNAL)
        signer = TreasurySigner(private_key, chain, find_ledger, journal)
        async with await _listen(socket, signer):
            yield signer.address
        socket.unlink(missing_ok=True)


async def _listen(socket: Path, signer: TreasurySigner) -> asyncio.Server:
    socket.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    socket.unlink(missing_ok=True)  # of an earlier life: this process holds the lock

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answer = await _answer(reader, signer)
            writer.write(msgspec.json.encode(answer) + b"\n")
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # it hung up; it asks again
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    try:
        server = await asyncio.start_unix_server(serve, socket, limit=MAX_LINE_BYTES)
    except OSError as error:
        raise BadSettings(
            f"The treasury cannot listen at {socket}: {error.strerror}.",
            "Choose another path with --socket.",
        ) from error
    socket.chmod(0o600)
    return server


async def _answer(reader: asyncio.StreamReader, signer: TreasurySigner) -> TreasuryAnswer:
    try:
        request = REQUESTS.decode(await reader.readline())
        return await signer.answer(request)
    except (ValueError, OverflowError, msgspec.MsgspecError) as error:
        log.warning("a request cannot be read", detail=str(error)[:200])
        return TreasuryRefusal("the request cannot be read")


def _in_use(directory: Path) -> DataDirectoryInUse:
    return DataDirectoryInUse(
        f"Another treasury uses {directory}.", "A key has only one treasury: stop the other."
    )
