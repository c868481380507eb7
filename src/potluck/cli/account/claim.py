"""`potluck claim`: rewards of the contract reach my wallet."""

from typing import TYPE_CHECKING, Any

from potluck.cli.account.chain_wallet import (
    CalldataOption,
    RpcOption,
    load_wallet,
    open_rpc,
    show_calls,
)
from potluck.cli.options import JsonOption, KeyFileOption, ServerOption, connect
from potluck.cli.terminal.screen import Screen, Tone
from potluck.model.error import Conflict, TransactionRefused
from potluck.model.units import show_amount
from potluck.wire.money.contract import ClaimProof

if TYPE_CHECKING:
    from potluck.chain.rewards_contract import RewardsContract
    from potluck.chain.transaction import ContractCall
    from potluck.consumer import Potluck

# A root lasts for an epoch; two that change while one claim is sent do not happen.
_TRIES = 3


def claim(
    dry_run: CalldataOption = False,
    rpc_url: RpcOption = None,
    key_file: KeyFileOption = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Claim my rewards from the pool's contract.

    The contract pays the wallet that earned them, whichever wallet sends the claim."""
    screen = Screen(json)
    with connect(server) as potluck:
        proof = potluck.rewards.claim_proof()
        _check_unclaimed(proof, int(proof.claimed_units))
        if dry_run:
            facts = {"root": proof.root, "cumulative_units": proof.cumulative_units}
            show_calls(screen, proof.chain_id, [("claim", claim_of(proof))], **facts)
            return
        rpc = open_rpc(rpc_url, proof.chain_id)
        key = load_wallet(potluck.url, key_file).reveal_key()
        from potluck.chain.rewards_contract import RewardsContract

        contract = RewardsContract(rpc, proof.contract)
        sent = _send(potluck, contract, proof, key)
    if json:
        screen.emit(sent)
    else:
        amount = show_amount(sent["amount_micro"])
        screen.out.line(
            f"Claimed {amount} for {proof.account}: {sent['transaction_hash']}", Tone.GOOD
        )


def claim_of(proof: ClaimProof) -> "ContractCall":
    from potluck.chain.merkle import RewardLeaf
    from potluck.chain.rewards_contract import claim_call

    leaf = RewardLeaf(proof.account, proof.token, int(proof.cumulative_units))
    return claim_call(proof.contract, leaf, _bytes(proof.root), list(map(_bytes, proof.proof)))


def _send(
    potluck: "Potluck", contract: "RewardsContract", proof: ClaimProof, key: bytes
) -> dict[str, Any]:
    """With the proof for the next root, if that became current in the meantime."""
    for _ in range(_TRIES):
        claimed = contract.read_claimed(proof.account)
        _check_unclaimed(proof, claimed)
        try:
            receipt = contract.rpc.send(claim_of(proof), key)
        except TransactionRefused as refusal:
            newer = potluck.rewards.claim_proof()
            if newer.root == proof.root:
                raise _explain(contract, proof, refusal) from refusal
            proof = newer
            continue
        units, terms = int(proof.cumulative_units) - claimed, potluck.rewards.contract()
        return {
            "transaction_hash": f"0x{receipt.hash.hex()}",
            "units": str(units),
            "amount_micro": units * terms.credit_micro // terms.token_units,
            "account": proof.account,
        }
    raise Conflict("The contract's root changes again and again.", "Try again later.")


def _check_unclaimed(proof: ClaimProof, claimed: int) -> None:
    if claimed >= int(proof.cumulative_units):
        raise Conflict(
            f"Everything up to the contract's epoch {proof.epoch} has been claimed.",
            "`potluck rewards` shows what comes with the next one.",
        )


def _explain(
    contract: "RewardsContract", proof: ClaimProof, refusal: TransactionRefused
) -> TransactionRefused | Conflict:
    current = contract.read_state().current
    if current is not None and current.root != _bytes(proof.root):
        return Conflict(
            "The contract has a new root that the server has not read yet.",
            "Try again in a few minutes, when the server has the proof for it.",
        )
    return refusal


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))
