"""kill -9 at the steps of a deposit, an epoch and a payout: chain and ledger agree afterwards."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from potluck.local.child_process import end_with_parent
from tests.chain.anvil import Anvil
from tests.chain.rewards import RewardsRig
from tests.server.flow.payout.crash_worker import WorkerTask, kill_points
from tests.server.flow.payout.payout_pool import CREDIT, PayingPool
from tests.server.flow.pool import Pool
from tests.wallets import Wallet

TIMES = 20  # in `make test-long`
FEW = 4
WALLETS = ("carol", "dave", "erin")


class CrashingPool:
    """The worker's children are the server and the treasury of this pool."""

    def __init__(self, paying: PayingPool) -> None:
        self.paying = paying
        self.task = WorkerTask(
            paying.database_url, str(paying.directory), paying.settings, kill_at=0
        )
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.server.flow.payout.crash_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            preexec_fn=end_with_parent(signal.SIGTERM),
        )
        self._treasury: int | None = None

    def close(self) -> None:
        self.end_treasury(signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.stdout.close()

    async def serve(self, **changes: Any) -> dict[str, Any]:
        """Until all is done, or until it is killed."""
        return await asyncio.to_thread(self._ask, replace(self.task, **changes))

    def start_treasury(self, kill_at: int = 0) -> None:
        self.end_treasury(signal.SIGKILL)
        response = self._ask(replace(self.task, is_treasury=True, kill_at=kill_at))
        assert response["ready"]
        self._treasury = response["pid"]

    def end_treasury(self, number: int) -> None:
        """A child of the worker, which waits for it: so its pid is its own until then."""
        if self._treasury is not None:
            os.kill(self._treasury, number)
            self._ask(replace(self.task, ended_pid=self._treasury))
            self._treasury = None

    def _ask(self, task: WorkerTask) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(msgspec.json.encode(task) + b"\n")
        self.process.stdin.flush()
        response: dict[str, Any] = msgspec.json.decode(self.process.stdout.readline())
        return response

    async def survive(
        self, prepare: Callable[[int], Awaitable[None]], times: int, **changes: Any
    ) -> int:
        """Kills the server at that many steps; checks the totals after each. Returns the kills."""
        await prepare(0)
        await self.serve()
        await prepare(0)
        steps = (await self.serve(**changes))["steps"]
        await self.serve()
        kills = 0
        for number, kill_at in enumerate(kill_points(steps, times), 1):
            await prepare(number)
            kills += (await self.serve(kill_at=kill_at, **changes))["killed"]
            assert not (await self.serve())["killed"]
            await self.check()
        return kills

    async def check(self) -> None:
        await self.paying.check_totals()
        assert await self.paying.pool.sql(
            "SELECT bool_and(nonce = first_nonce + place) FROM (SELECT nonce,"
            " min(nonce) OVER () AS first_nonce, row_number() OVER (ORDER BY nonce) - 1 AS place"
            " FROM chain_transactions) AS numbered"
        ) in (True, None), "no nonce was wasted or used twice"
        assert not await self.paying.pool.sql(
            "SELECT count(*) FROM chain_transactions WHERE state <> 'confirmed'"
        )


@pytest.fixture
async def crashing(
    pool: Pool, any_database_url: str, chain: Anvil, tmp_path: Path
) -> AsyncIterator[CrashingPool]:
    opened = CrashingPool(PayingPool(pool, any_database_url, RewardsRig(chain), tmp_path))
    try:
        await asyncio.to_thread(opened.start_treasury)
        yield opened
    finally:
        opened.close()


@pytest.fixture(params=[FEW, pytest.param(TIMES, marks=pytest.mark.long)])
def times(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


async def test_deposits_are_credited_once_whenever_the_server_is_killed(
    crashing: CrashingPool, times: int
) -> None:
    async def deposit(number: int) -> None:
        for name in ("alice", "bob"):
            crashing.paying.rig.deposit(CREDIT + number, Wallet(name).address)
        crashing.paying.mine()

    assert await crashing.survive(deposit, times) == times


async def prepare_rewards(crashing: CrashingPool) -> Callable[[int], Awaitable[None]]:
    paying = crashing.paying
    paying.rig.deposit(10_000 * CREDIT, Wallet("alice").address)
    paying.mine()
    accounts = {name: await paying.add_wallet(name) for name in WALLETS}
    await crashing.serve()

    async def reward(number: int) -> None:
        for name in WALLETS[: 1 + number % len(WALLETS)]:
            await paying.reward(accounts[name], CREDIT + number)
        await paying.pool.sql(
            "UPDATE epochs SET starts_at = now() - interval '1 day', ends_at = now()"
            " WHERE closed_at IS NULL"
        )

    return reward


async def test_an_epoch_is_counted_once_whenever_the_server_is_killed(
    crashing: CrashingPool, times: int
) -> None:
    reward = await prepare_rewards(crashing)
    assert await crashing.survive(reward, times, is_epoch_only=True) == times


async def test_a_payout_is_made_once_whenever_the_server_is_killed(
    crashing: CrashingPool, times: int
) -> None:
    reward = await prepare_rewards(crashing)
    paid = dict.fromkeys(WALLETS, 0)

    async def reward_and_claim(number: int) -> None:
        """Claims of the last root are seen while the next one is made."""
        if number:
            name = WALLETS[number % len(WALLETS)]
            with suppress(AssertionError):  # it has no part of the first roots
                paid[name] += await crashing.paying.claim(name)
        await reward(number)

    assert await crashing.survive(reward_and_claim, times) == times
    for name in WALLETS:
        assert crashing.paying.rig.balance(Wallet(name).address) == paid[name]


async def test_a_signature_is_given_once_whenever_the_treasury_is_killed(
    crashing: CrashingPool, times: int
) -> None:
    """Before its journal has the line, and before its answer has left."""
    reward = await prepare_rewards(crashing)
    for number in range(times):
        await reward(number)
        await asyncio.to_thread(crashing.start_treasury, kill_at=1 + number % 4)
        await crashing.serve()
        await asyncio.to_thread(crashing.start_treasury)
        await crashing.serve()
        await crashing.check()
