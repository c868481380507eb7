"""A server and a treasury that kill themselves at a step; forked, since imports take seconds.

Commands come as lines of JSON on stdin. A step is the moment before or after a commit, a
broadcast, a question to the treasury, or an entry in its journal. The steps are counted from
outside: nothing in the product knows of them.
"""

import asyncio
import json
import os
import signal
import sys
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import structlog
from msgspec import Struct

from potluck.blobs.directory import DirectoryBlobs
from potluck.live.in_process import InProcessLive
from potluck.server.chain.chain_gateway import ChainGateway
from potluck.server.chain.chain_settings import PayoutChainSettings
from potluck.server.chain.contract_wallet import ContractWallets
from potluck.server.derived_keys import derive_keys
from potluck.server.egress.allow_list import read_allowed
from potluck.server.egress.send import GuardedSender
from potluck.server.flow.payout.payout import follow_chain
from potluck.server.flow.settle.epochs import close_epoch
from potluck.server.rate_limiter import Limiter
from potluck.server.services import Services
from potluck.server.treasury.client import TreasuryClient
from potluck.server.treasury.journal import TreasuryJournal
from potluck.server.treasury.process import open_treasury
from potluck.store.database import Database
from potluck.store.scheduler import leader
from potluck.store.sealing.vault import GivenKeys, KeyRing, Vault
from tests.chain.anvil import Anvil
from tests.chain.rewards import DELAY_SECONDS, PROPOSER
from tests.server.flow.conftest import settings as flow_settings

_ROUNDS = 12
_IS_DONE = """
SELECT NOT EXISTS (SELECT FROM chain_deposits WHERE credited_at IS NULL)
    AND NOT EXISTS (SELECT FROM chain_claims WHERE payout_id IS NULL)
    AND NOT EXISTS (SELECT FROM chain_transactions WHERE settled_at IS NULL)
    AND NOT EXISTS (SELECT FROM chain_roots WHERE state <> 'accepted')
    AND NOT EXISTS (SELECT FROM balances WHERE claimable_micro > assigned_micro)
    AND NOT EXISTS (SELECT FROM epochs WHERE closed_at IS NULL AND ends_at <= now())
    AND EXISTS (SELECT FROM chain_contracts WHERE scanned_block >= $1)
"""


class WorkerTask(Struct, frozen=True):
    database_url: str
    directory: str
    chain: PayoutChainSettings
    kill_at: int  # 0: never
    is_treasury: bool = False
    ended_pid: int = 0  # only waits for this child
    is_epoch_only: bool = False  # closes epochs, and leaves the chain alone


class StepCounter:
    def __init__(self, kill_at: int) -> None:
        self.kill_at = kill_at
        self.steps = 0

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    for line in sys.stdin:
        task = msgspec.json.decode(line, type=WorkerTask)
        if task.ended_pid:
            os.waitpid(task.ended_pid, 0)
            _say({})
            continue
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _run(task, writing)
        os.close(writing)
        if task.is_treasury:
            ready = os.read(reading, 1)
            _say({"pid": pid, "ready": bool(ready)})
        else:
            with os.fdopen(reading) as file:
                step_count = file.read()
            _, status = os.waitpid(pid, 0)
            _say({"killed": os.WIFSIGNALED(status), "steps": int(step_count or 0)})


def _say(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


def _run(task: WorkerTask, writing: int) -> None:
    """In the child; never returns."""
    counter, status = StepCounter(task.kill_at), 1
    try:
        work = _sign(task, writing, counter) if task.is_treasury else _serve(task, counter)
        asyncio.run(work)
        os.write(writing, str(counter.steps).encode())
        status = 0
    except BaseException:  # noqa: BLE001  it ends here, whatever happened
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


async def _sign(task: WorkerTask, writing: int, counter: StepCounter) -> None:
    add = TreasuryJournal.add

    def counted(self: TreasuryJournal, record: Any) -> None:
        counter.step()
        add(self, record)
        counter.step()

    TreasuryJournal.add = counted  # type: ignore[method-assign]
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    directory = Path(task.directory) / "treasury"
    async with open_treasury(
        directory, directory / "socket", PROPOSER, task.chain, lambda: task.database_url
    ):
        os.write(writing, b".")
        await stop.wait()


async def _serve(task: WorkerTask, counter: StepCounter) -> None:
    """Rounds until the ledger and the chain have nothing more to tell each other."""
    _count_steps(counter)
    anvil = Anvil(task.chain.rpc_url, task.chain.chain_id)
    database = await Database.connect(task.database_url, 4)
    live = InProcessLive()
    services = _services(task, database, live)
    async with database.transaction() as connection:
        leadership = await leader.acquire_or_renew(connection, "me", 3600)
    assert leadership is not None
    for _ in range(_ROUNDS):
        await close_epoch(services, leadership)
        if task.is_epoch_only:
            break
        await follow_chain(services, leadership)
        head = int(anvil.ask("eth_blockNumber"), 16)
        async with database.statement() as connection:
            if await connection.fetchval(_IS_DONE, head - task.chain.confirmations):
                break
        anvil.ask("evm_increaseTime", DELAY_SECONDS)
        anvil.ask("anvil_mine", hex(task.chain.confirmations))
    await live.close()
    await database.close()


def _services(task: WorkerTask, database: Database, live: InProcessLive) -> Services:
    directory = Path(task.directory)
    service_settings = flow_settings(directory)
    treasury = TreasuryClient(directory / "treasury" / "socket")
    return Services(
        service_settings,
        database,
        live,
        DirectoryBlobs(directory / "blobs"),
        keys=derive_keys(b"secret" * 6),
        vault=Vault(GivenKeys("the tests", KeyRing([bytes(32)]))),
        origins=("http://127.0.0.1:8470",),
        limiter=Limiter(live, service_settings),
        contract_wallets=ContractWallets({}),
        authority_pem=None,
        outward=GuardedSender(read_allowed(["127.0.0.1"]), 2.0),
        instance="me",
        stopping=asyncio.Event(),
        chain=ChainGateway(task.chain, treasury, 86_400.0),
    )


def _count_steps(counter: StepCounter) -> None:
    commit = Database.reserved_transaction

    @asynccontextmanager
    async def transaction(self: Database) -> AsyncIterator[Any]:
        async with commit(self) as connection:
            yield connection
            counter.step()
        counter.step()

    Database.reserved_transaction = transaction  # type: ignore[method-assign]
    for owner, name in ((ChainGateway, "broadcast"), (TreasuryClient, "_exchange")):
        setattr(owner, name, _counted(getattr(owner, name), counter))


def _counted(
    method: Callable[..., Awaitable[Any]], counter: StepCounter
) -> Callable[..., Awaitable[Any]]:
    async def run(*arguments: Any) -> Any:
        counter.step()
        result = await method(*arguments)
        counter.step()
        return result

    return run


def kill_points(steps: int, times: int) -> Iterator[int]:
    """Spread over all steps; each of them, if there are no more than that."""
    for number in range(min(times, steps)):
        yield 1 + number * steps // min(times, steps)
    for number in range(times - steps):
        yield 1 + number % steps


if __name__ == "__main__":
    main()
