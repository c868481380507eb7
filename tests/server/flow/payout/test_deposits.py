"""Deposits are credited once, after enough confirmations, and never taken back by themselves."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from potluck.decide.alerts.conditions import find_conditions
from potluck.model.account import Role
from potluck.model.alert import AlertName
from potluck.server.alerts.observe import limits_of, observe_pool
from potluck.server.chain.chain_gateway import ChainGateway
from potluck.server.flow.payout import payout
from potluck.server.flow.payout.administration import resume_chain
from potluck.server.leader.findings import LeaderFindings
from potluck.server.leader.memory import LeaderMemory
from potluck.store.identity import accounts
from potluck.store.ledger import statement
from potluck.store.pool_figures import read_figures
from potluck.store.scheduler import leader
from potluck.wire.money.ledger import LineBy
from tests.server.flow.payout.payout_pool import CONFIRMATIONS, CREDIT, PayingPool
from tests.wallets import Wallet

ALICE = Wallet("alice").address


async def available(paying: PayingPool) -> int:
    return (await paying.pool.balance(paying.pool.alice)).available_micro


async def test_a_deposit_counts_after_its_confirmations(paying: PayingPool) -> None:
    paying.rig.deposit(3 * CREDIT, ALICE)
    for blocks in range(CONFIRMATIONS):
        await paying.round()
        assert await available(paying) == 0, f"{blocks} blocks are not enough"
        paying.mine(1)
    await paying.round()
    assert await available(paying) == 3 * CREDIT


async def test_a_deposit_is_credited_once(paying: PayingPool) -> None:
    paying.rig.deposit(CREDIT, ALICE)
    paying.rig.deposit(2 * CREDIT, ALICE)
    paying.mine()
    await asyncio.gather(*(paying.round() for _ in range(4)))
    assert await available(paying) == 3 * CREDIT
    # Read again from the beginning, as after an older backup of the cursor alone.
    await paying.pool.sql("UPDATE chain_contracts SET scanned_block = -1, scanned_hash = NULL")
    await paying.round(2)
    assert await available(paying) == 3 * CREDIT
    await paying.check_totals()
    now = datetime.now(UTC)
    async with paying.pool.services.database.transaction() as connection:
        shown = await statement.summary(
            connection, paying.pool.alice, now - timedelta(1), now + timedelta(1), LineBy.TASK
        )
    assert (shown.deposited_micro, [line.deposited_micro for line in shown.lines]) == (
        *(3 * CREDIT, [3 * CREDIT]),
    )


async def test_a_deposit_in_another_block_is_the_same_one(paying: PayingPool) -> None:
    """After a reorganisation its transaction may be in a later block, with another log index."""
    paying.rig.deposit(CREDIT, ALICE)
    paying.mine()
    await paying.round()
    await paying.pool.sql(
        "UPDATE chain_deposits SET block_hash = '\\x00'::bytea, log_index = log_index + 5"
    )
    await paying.pool.sql("UPDATE chain_contracts SET scanned_block = -1, scanned_hash = NULL")
    await paying.round(2)
    assert await available(paying) == CREDIT


async def test_a_claim_in_another_block_is_the_same_one(paying: PayingPool) -> None:
    carol = await paying.add_wallet("carol")
    paying.rig.deposit(100 * CREDIT, ALICE)
    paying.mine()
    await paying.reward(carol, 7 * CREDIT)
    await paying.close_epoch()
    await paying.pay_out()
    assert await paying.claim("carol") == 7 * CREDIT
    paying.mine()
    await paying.round()
    await paying.check_totals()
    await paying.pool.sql(
        "UPDATE chain_claims SET block_hash = '\\x00'::bytea, log_index = log_index + 5"
    )
    await paying.pool.sql("UPDATE chain_contracts SET scanned_block = -1, scanned_hash = NULL")
    await paying.round(2)
    assert await paying.pool.sql("SELECT count(*) FROM chain_claims") == 1
    assert await halted(paying) is None
    await paying.check_totals()


async def test_a_wallet_gets_its_deposit_when_it_gets_its_account(paying: PayingPool) -> None:
    paying.rig.deposit(CREDIT, Wallet("eve").address)
    paying.mine()
    await paying.round()
    async with paying.pool.services.database.transaction() as connection:
        eve = await accounts.add(connection, Wallet("eve").address, {Role.CONSUMER})
    assert eve is not None
    await paying.round()
    assert (await paying.pool.balance(eve.id)).available_micro == CREDIT


async def test_a_deposit_that_no_balance_can_hold_stops_no_other(paying: PayingPool) -> None:
    bob = Wallet("bob").address
    await paying.pool.give(paying.pool.alice, 2**62 - 2 * CREDIT)
    for tokens in (1, 3):
        paying.rig.deposit(tokens * CREDIT, ALICE)
    paying.rig.deposit(CREDIT, bob)
    paying.mine()
    await paying.round(2)
    assert await available(paying) == 2**62 - CREDIT
    assert (await paying.pool.balance(paying.pool.bob)).available_micro == CREDIT
    await paying.pool.give(paying.pool.bob, 2**63 - 1 - CREDIT)
    async with paying.pool.services.database.transaction() as connection:
        assert (await read_figures(connection)).balances_micro["available"] > 2**63


async def test_many_blocks_are_read_in_parts(paying: PayingPool) -> None:
    paying.use(paying.rig, blocks_per_request=1)
    for _ in range(3):
        paying.rig.deposit(CREDIT, ALICE)
    paying.mine()
    await paying.round()
    assert await available(paying) == 3 * CREDIT


async def test_an_instance_that_no_longer_leads_credits_nothing(paying: PayingPool) -> None:
    paying.rig.deposit(CREDIT, ALICE)
    paying.mine()
    await paying.pool.sql("UPDATE leader SET expires_at = now()")
    async with paying.pool.services.database.transaction() as connection:
        assert await leader.acquire_or_renew(connection, "another", 3600) is not None
    await paying.round(2)
    assert await available(paying) == 0


async def halted(paying: PayingPool) -> str | None:
    reason: str | None = await paying.pool.sql("SELECT halted_because FROM chain_contracts")
    return reason


async def test_a_deep_reorganisation_stops_crediting_and_takes_nothing_back(
    paying: PayingPool,
) -> None:
    paying.rig.deposit(CREDIT, ALICE)
    paying.mine()
    await paying.round()
    assert await available(paying) == CREDIT
    paying.rig.chain.ask("anvil_reorg", CONFIRMATIONS + 1, [])
    paying.mine(CONFIRMATIONS + 1)
    paying.rig.deposit(5 * CREDIT, ALICE)
    paying.mine()
    await paying.round(3)
    because = await halted(paying)
    assert because is not None and "reorganisation" in because
    assert await available(paying) == CREDIT, "nothing is taken back, and nothing credited"
    assert AlertName.PAYOUTS_STOPPED in await firing(paying)
    # What is in doubt stays uncredited after an admin resumed; later deposits are credited.
    await resume_chain(paying.pool.services, paying.pool.alice)
    paying.rig.deposit(2 * CREDIT, ALICE)
    paying.mine()
    await paying.round()
    assert await halted(paying) is None
    assert await available(paying) == 3 * CREDIT


async def firing(paying: PayingPool) -> set[AlertName]:
    services = paying.pool.services
    observed = await observe_pool(services, LeaderMemory(services), LeaderFindings())
    limits = limits_of(services.settings)
    return {condition.name for condition in find_conditions(observed, limits, services.clock.now())}


async def test_a_shallow_reorganisation_is_not_noticed(paying: PayingPool) -> None:
    paying.rig.deposit(CREDIT, ALICE)
    paying.mine()
    await paying.round()
    paying.rig.deposit(2 * CREDIT, ALICE)
    paying.rig.chain.ask("anvil_reorg", 1, [])  # the second deposit never happened
    paying.mine()
    await paying.round(2)
    assert await halted(paying) is None
    assert await available(paying) == CREDIT


async def test_a_chain_that_was_cut_is_waited_for(paying: PayingPool) -> None:
    """An endpoint that is behind looks the same: nothing is credited, nothing stops."""
    snapshot = paying.rig.chain.ask("evm_snapshot")
    paying.rig.deposit(CREDIT, ALICE)
    paying.mine(5)
    await paying.round()
    paying.rig.chain.ask("evm_revert", snapshot)
    await paying.round()
    assert await halted(paying) is None
    paying.mine(10)
    await paying.round()
    assert await halted(paying) is not None


@pytest.mark.parametrize("fault", ["dead", "another chain", "lies"])
async def test_an_endpoint_that_fails_stops_nothing_for_good(
    paying: PayingPool, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    paying.rig.deposit(CREDIT, ALICE)
    paying.mine()
    good = paying.pool.services.chain
    assert good is not None
    await scan_once_registered(paying)
    if fault == "lies":
        _plant_event_of_another_block(good, monkeypatch)
    else:
        changes = {"dead": {"rpc_url": "http://127.0.0.1:1"}, "another chain": {"chain_id": 5}}
        settings = replace(paying.settings, **changes[fault])  # type: ignore[arg-type]
        bad = ChainGateway(settings, good.treasury, 86_400.0)
        bad.key = good.key
        paying.pool.services = replace(paying.pool.services, chain=bad)
    await paying.round(2)
    assert await available(paying) == 0
    assert await paying.pool.sql("SELECT waits_because IS NOT NULL FROM chain_contracts")
    monkeypatch.undo()
    paying.pool.services = replace(paying.pool.services, chain=good)
    await paying.round()
    assert await available(paying) == CREDIT
    assert await paying.pool.sql("SELECT waits_because IS NULL FROM chain_contracts")


async def scan_once_registered(paying: PayingPool) -> None:
    """The contract is known, and nothing was read."""
    chain = paying.pool.services.chain
    assert chain is not None
    assert await payout._know_contract(paying.pool.services, chain, paying.pool.leads)


def _plant_event_of_another_block(chain: ChainGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    contract = chain._contract
    honest = contract.read_deposits

    def lie(first: int, last: int) -> Any:
        events = honest(first, last)
        places = [replace(event.place, block_number=last + 1) for event in events]
        return [replace(e, place=place) for e, place in zip(events, places, strict=True)]

    monkeypatch.setattr(contract, "read_deposits", lie)
