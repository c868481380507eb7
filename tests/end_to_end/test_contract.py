"""From tokens to credits, work, rewards and back to tokens: real programs, and a real chain."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.chain.anvil import Anvil
from tests.chain.fixtures import chain
from tests.chain.rewards import DELAY_SECONDS, PROPOSER, RewardsRig
from tests.cli.command_line import Finished, InProcess
from tests.processes import (
    FAST_PROVIDER,
    PotluckProcess,
    ProviderProcess,
    ServerProcess,
    await_true,
)
from tests.wallets import Wallet

__all__ = ["chain"]

CREDIT = 1_000_000
CONFIRMATIONS = 2
_ETHER = 10**18
_PRICE = {"POTLUCK_PROVIDER_PRICE_MICRO_PER_HOUR": str(3600 * CREDIT)}


class TreasuryProcess(PotluckProcess):
    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        directory.mkdir(exist_ok=True)
        key_file = directory / "proposer.key"
        key_file.touch(mode=0o600)
        key_file.write_text(PROPOSER.hex())
        arguments = ["treasury", "--data-dir", str(directory), "--key-file", str(key_file)]
        super().__init__(arguments, environment, directory / "treasury.log")


class ContractPool:
    """A server, a treasury and a provider, each a process; Alice has tokens and work."""

    def __init__(self, directory: Path, chain: Anvil, database_url: str) -> None:
        self.directory = directory
        self.database_url = database_url
        self.rig = RewardsRig(chain)
        self.socket = directory / "treasury.socket"
        self.environment = {
            "POTLUCK_DATABASE_URL": database_url,
            "POTLUCK_CHAIN_RPC_URLS": f"{chain.chain_id}={chain.url}",
            "POTLUCK_REWARDS_CONTRACT": self.rig.address,
            "POTLUCK_REWARDS_CHAIN_ID": str(chain.chain_id),
            "POTLUCK_REWARDS_TOKEN_DECIMALS": "6",
            "POTLUCK_REWARDS_CONFIRMATIONS": str(CONFIRMATIONS),
            "POTLUCK_REWARDS_POLL_SECONDS": "0.1",
            "POTLUCK_EPOCH_POLL_SECONDS": "0.1",
            "POTLUCK_TREASURY_SOCKET": str(self.socket),
        }
        self.alice = Wallet("alice")
        for wallet in (self.alice, ServerProcess.wallet):
            chain.ask("anvil_setBalance", wallet.address, hex(_ETHER))
        self.rig.ask_token("mint", self.alice.address, 100 * CREDIT)

    def start(self) -> ServerProcess:
        return ServerProcess(self.directory / "server", 0, **self.environment)

    def start_treasury(self) -> TreasuryProcess:
        return TreasuryProcess(self.directory / "vault", self.environment)

    def user(self, server: ServerProcess, wallet: Wallet) -> InProcess:
        token = server.sign_in(wallet)
        user = InProcess(self.directory / wallet.address, server.url, token)
        user.variables |= {
            "POTLUCK_WALLET_KEY": wallet.key.hex(),
            "POTLUCK_RPC_URL": self.rig.chain.url,
        }
        return user

    def sql(self, statement: str) -> Any:
        async def run() -> Any:
            connection = await asyncpg.connect(self.database_url)
            try:
                return await connection.fetchval(statement)
            finally:
                await connection.close()

        return asyncio.run(run())

    def end_epoch(self) -> None:
        self.sql(
            "UPDATE epochs SET starts_at = now() - interval '1 day', ends_at = now()"
            " WHERE closed_at IS NULL"
        )

    def mine(self) -> None:
        self.rig.chain.ask("anvil_mine", hex(CONFIRMATIONS))


@pytest.fixture
def pool(tmp_path: Path, chain: Anvil, database_url: str) -> Iterator[ContractPool]:
    yield ContractPool(tmp_path, chain, database_url)


def answer(finished: Finished) -> dict[str, Any]:
    assert finished.status == 0, finished.stderr
    return finished.lines()[-1]


def test_tokens_become_work_and_rewards_become_tokens(pool: ContractPool) -> None:
    with pool.start() as server, pool.start_treasury() as treasury:
        alice, owner = pool.user(server, pool.alice), pool.user(server, server.wallet)
        buy(pool, alice)
        earned = work(pool, server, owner)
        root = await_accepted(pool, owner)
        assert root["transaction_kind"] == "accept"
        result = owner.run("admin", "epochs")
        assert root["root"][:10] in result.stdout.decode()
        treasury.kill()  # a claim needs neither the treasury
        claim(pool, owner, earned)
        pool.mine()
        paid = "SELECT sum(amount_micro)::bigint FROM payouts"
        await_true(lambda: pool.sql(paid) == earned, "the claim is in the ledger")
        second_claim = owner.run("claim", "--json")
        assert (
            second_claim.status != 0
            and "has been claimed" in second_claim.lines()[-1]["error"]["detail"]
        )
    assert treasury.process.returncode == -signal.SIGKILL


def buy(pool: ContractPool, alice: InProcess) -> None:
    """Alice's tokens become credits."""
    dry = answer(alice.run("deposit", "60", "--dry-run", "--json"))
    assert [call["what"] for call in dry["transactions"]] == ["approve", "deposit"]
    assert pool.rig.balance(pool.alice.address) == 100 * CREDIT, "nothing was sent"
    deposit = answer(alice.run("deposit", "60", "--json"))
    assert deposit["units"] == str(60 * CREDIT)
    pool.mine()
    await_true(
        lambda: answer(alice.run("whoami", "--json"))["available_micro"] == 60 * CREDIT,
        "the deposit is credited",
    )


def work(pool: ContractPool, server: ServerProcess, owner: InProcess) -> int:
    """The owner's machine runs Alice's task; returns the reward."""
    answer(owner.run("rewards", "payout", "on", "--json"))
    with ProviderProcess(pool.directory / "box", server, **FAST_PROVIDER, **_PRICE):
        client = server.client(server.sign_in(pool.alice))
        task_id = client.submit("import time; time.sleep(0.5)", limits={"run_seconds": 20})
        assert client.finished(task_id)["state"] == "succeeded"
    pool.end_epoch()
    earned = "SELECT amount_micro FROM epoch_rewards WHERE amount_micro > 0"
    micro: int = await_true(lambda: pool.sql(earned), "the epoch is closed")
    return micro


def await_accepted(pool: ContractPool, owner: InProcess) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        pool.rig.pass_time(DELAY_SECONDS)
        pool.mine()
        epochs = answer(owner.run("admin", "epochs", "--json"))["epochs"]
        roots = [root for epoch in epochs for root in epoch["roots"]]
        return next((root for root in roots if root["state"] == "accepted"), None)

    epoch_view = await_true(look, "the root is accepted", seconds=60)
    assert epoch_view is not None
    return epoch_view


def claim(pool: ContractPool, owner: InProcess, earned: int) -> None:
    dry = answer(owner.run("claim", "--dry-run", "--json"))
    assert dry["cumulative_units"] == str(earned)
    wallet = ServerProcess.wallet.address
    assert pool.rig.balance(wallet) == 0, "nothing was sent"
    sent = answer(owner.run("claim", "--json"))
    assert (sent["units"], sent["amount_micro"]) == (str(earned), earned)
    assert pool.rig.balance(wallet) == earned


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"POTLUCK_REWARDS_CHAIN_ID": ""}, "POTLUCK_REWARDS_CHAIN_ID is not"),
        ({"POTLUCK_REWARDS_CHAIN_ID": "5"}, "no endpoint of chain 5"),
        ({"POTLUCK_REWARDS_TOKEN_DECIMALS": "18"}, "has 6 decimals"),
        (
            {"POTLUCK_REWARDS_CREDITS_PER_TOKEN": "3", "POTLUCK_REWARDS_TOKEN_DECIMALS": "7"},
            "whole",
        ),
        ({"POTLUCK_EPOCH_SECONDS": "3600"}, "proposals would fall behind"),
        ({"POTLUCK_REWARDS_CONTRACT": "0x12"}, "POTLUCK_REWARDS_CONTRACT"),
        ({"POTLUCK_REWARDS_CONTRACT": ServerProcess.wallet.address}, "There is no contract at"),
        ({"POTLUCK_REWARDS_CONTRACT": ""}, "but POTLUCK_REWARDS_CONTRACT is not"),
    ],
)
def test_settings_that_contradict_the_contract_keep_the_server_from_starting(
    pool: ContractPool, changes: dict[str, str], sentence: str
) -> None:
    pool.environment |= changes
    with pytest.raises(AssertionError, match=sentence):
        pool.start().kill()
