"""Sends claims for wallets that have no node of their own, such as a keystore opened in a browser.

Only a transaction that the caller's wallet has signed, and that does nothing but claim its rewards
with the current proof, is sent. The wallet pays its fee.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from potluck.chain.rewards_contract import claim_call
from potluck.chain.transaction import ContractCall, read_signed
from potluck.model.error import (
    BadSettings,
    ChainUnreachable,
    Conflict,
    InvalidInput,
    TransactionRefused,
    Unavailable,
)
from potluck.server.chain.chain_gateway import ChainGateway
from potluck.server.flow.payout.proof import find_proof, no_claim, no_contract
from potluck.server.services import Services
from potluck.wire.money.contract import ClaimFees, ClaimSent, SendClaim


async def prepare_claim(services: Services, address: str) -> ClaimFees:
    chain, call = await _claim(services, address)
    async with _calling(chain):
        transaction = await chain.prepare(call, address)
    return ClaimFees(
        transaction.nonce, transaction.gas, str(transaction.max_fee), str(transaction.max_tip)
    )


async def send_claim(services: Services, address: str, request: SendClaim) -> ClaimSent:
    """Sending the same bytes again changes nothing."""
    chain, call = await _claim(services, address)
    content, sender, signed = read_signed(bytes.fromhex(request.transaction[2:]))
    if sender.lower() != address.lower():
        raise InvalidInput("Another wallet has signed this transaction.", "Sign it with yours.")
    if content.chain_id != chain.key.chain_id or content.call.to != call.to:
        raise InvalidInput(
            "This transaction is not for the contract of this pool.", "Sign a claim of it."
        )
    if content.call.data != call.data:
        raise Conflict(
            "This transaction is not your claim with the current proof.",
            "The contract may have a new root: get the proof again, and sign that claim.",
        )
    async with _calling(chain):
        await chain.broadcast(signed)
    return ClaimSent(f"0x{signed.hash.hex()}")


async def _claim(services: Services, address: str) -> tuple[ChainGateway, ContractCall]:
    if services.chain is None:
        raise no_contract()
    proof = await find_proof(services, address)
    if proof is None:
        raise no_claim()
    contract = services.chain.key.contract
    call = claim_call(contract, proof.leaf, proof.root, proof.proof)
    return services.chain, ContractCall(contract.lower(), call.data)


@asynccontextmanager
async def _calling(chain: ChainGateway) -> AsyncIterator[None]:
    """While the RPC does not answer, further requests are refused instead of waiting in line."""
    if chain.requests.locked():
        raise Unavailable("The chain is busy with other requests.", "Try again.", 2.0)
    try:
        async with chain.requests:
            yield
    except TransactionRefused as error:
        raise Conflict(error.detail, error.hint) from error
    except (ChainUnreachable, BadSettings) as error:
        raise Unavailable(error.detail, "Try again when the RPC answers.", 10.0) from error
