"""The client of a chain: the right chain only, the same bytes once, and errors in words."""

import asyncio
import importlib.util

import pytest

from potluck.chain import rpc as chain_rpc
from potluck.chain.rewards_contract import RewardsContract, accept_call, deposit_call
from potluck.chain.rpc import ChainRpc
from potluck.model.error import BadSettings, ChainUnreachable, PartMissing, TransactionRefused
from potluck.wire.signing.signature import address_of
from tests.chain import rpc
from tests.chain.anvil import Anvil
from tests.chain.rewards import PAYER, RewardsRig, wallet
from tests.chain.rpc import LIARS, serving

# Right values in a loose form, which the library reads; and one that sends a byte now and then,
# which is waited for, because the time limit is for each read. The operator chooses the endpoint.
TOLERATED = {
    *("a chain id that is a number", "a result without 0x", "a megabyte"),
    "a byte now and then",
}
QUICK_LIARS = {name: liar for name, liar in LIARS.items() if name not in TOLERATED}
# An unused address behind a path that may be a secret.
SECRET = "http://127.0.0.1:9/key-of-the-operator"


def test_every_operation_refuses_another_chain(chain: Anvil) -> None:
    rig = RewardsRig(chain)
    other = ChainRpc(chain.url, 1)
    contract = RewardsContract(other, rig.address)
    nonce = rig.rpc.next_nonce(address_of(PAYER))
    call = deposit_call(rig.address, wallet(0), 1)
    signed = rig.rpc.sign(call, PAYER, nonce)
    for operation in (
        lambda: other.next_nonce(address_of(PAYER)),
        lambda: other.sign(call, PAYER, nonce),
        lambda: other.broadcast(signed),
        lambda: other.await_receipt(signed.hash),
        lambda: contract.read_state(),
        lambda: contract.read_claimed(wallet(0)),
        lambda: contract.read_deposits(0, 1),
        lambda: contract.read_claims(0, 1),
    ):
        with pytest.raises(BadSettings, match="serves chain 31337, not chain 1"):
            operation()
    assert rig.rpc.next_nonce(address_of(PAYER)) == nonce


def test_the_same_bytes_count_once(chain: Anvil) -> None:
    """What was signed before a crash is sent again after it."""
    rig = RewardsRig(chain)
    nonce = rig.rpc.next_nonce(address_of(PAYER))
    signed = rig.rpc.sign(deposit_call(rig.address, wallet(0), 5), PAYER, nonce)
    for _ in range(3):
        rig.rpc.broadcast(signed)
        rig.rpc.await_receipt(signed.hash)
    assert rig.contract.read_state().balance == 5


def test_another_transaction_with_a_used_nonce_is_refused(chain: Anvil) -> None:
    rig = RewardsRig(chain)
    nonce = rig.rpc.next_nonce(address_of(PAYER))
    first, second = (
        rig.rpc.sign(deposit_call(rig.address, wallet(0), amount), PAYER, nonce)
        for amount in (5, 6)
    )
    rig.rpc.broadcast(first)
    rig.rpc.await_receipt(first.hash)
    with pytest.raises(TransactionRefused, match=r"refused: its nonce is used\."):
        rig.rpc.broadcast(second)
    assert rig.contract.read_state().balance == 5


def test_a_wallet_that_cannot_pay_the_fee_is_told_so(chain: Anvil) -> None:
    rig = RewardsRig(chain)
    signed = rig.rpc.sign(
        deposit_call(rig.address, wallet(0), 5), PAYER, rig.rpc.next_nonce(address_of(PAYER))
    )
    chain.ask("anvil_setBalance", address_of(PAYER), "0x0")
    with pytest.raises(TransactionRefused, match=r"refused: its wallet cannot pay the fee\."):
        rig.rpc.broadcast(signed)


def test_an_address_without_a_contract_is_named(chain: Anvil) -> None:
    contract = RewardsContract(ChainRpc(chain.url, chain.chain_id), wallet(0))
    with pytest.raises(BadSettings, match=f"no contract at {wallet(0)} on chain 31337"):
        contract.read_state()


def test_events_are_in_the_order_of_the_chain(chain: Anvil) -> None:
    rig = RewardsRig(chain)
    receipts = [rig.deposit(amount) for amount in (3, 1, 2)]
    first, last = receipts[0].block_number, receipts[-1].block_number
    assert [event.amount for event in rig.contract.read_deposits(first, last)] == [3, 1, 2]
    assert [event.amount for event in rig.contract.read_deposits(first + 1, last)] == [1, 2]
    assert rig.contract.read_claims(first, last) == []


@pytest.mark.parametrize("rpc_answer", QUICK_LIARS.values(), ids=QUICK_LIARS)
async def test_an_endpoint_that_lies_or_hangs_is_an_error_in_words(
    rpc_answer: rpc.Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chain_rpc, "_SECONDS_TO_ANSWER", 0.2)
    async with serving(rpc_answer) as url:
        contract = RewardsContract(ChainRpc(url, rpc.CHAIN_ID), wallet(0))
        with pytest.raises((ChainUnreachable, BadSettings)):
            await asyncio.to_thread(contract.read_claimed, wallet(0))


def test_errors_do_not_show_the_path_of_an_endpoint() -> None:
    with pytest.raises(ChainUnreachable) as raised:
        ChainRpc(SECRET, 1).next_nonce(wallet(0))
    assert "127.0.0.1" in raised.value.detail
    assert "key-of-the-operator" not in raised.value.detail + raised.value.hint


def test_without_the_extra_the_command_that_installs_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(PartMissing, match="web3 is missing") as raised:
        ChainRpc(SECRET, 1)
    assert "pip install" in raised.value.hint and "[chain]" in raised.value.hint


def test_calldata_needs_no_endpoint() -> None:
    call = deposit_call(wallet(0), wallet(1), 7)
    assert call.to == wallet(0)
    assert call.data.hex() == "47e7ef24" + wallet(1)[2:].lower().rjust(64, "0") + f"{7:064x}"
    assert len(accept_call(wallet(0)).data) == 4
