"""What a wallet can claim of the contract: its leaf and proof in the root that the contract has."""

import asyncio
from functools import lru_cache

from msgspec import Struct

from potluck.chain.merkle import MerkleTree, RewardLeaf, make_leaves
from potluck.model.error import NotFound, Unavailable
from potluck.server.services import Services
from potluck.store.chain import roots, scanned
from potluck.store.chain.roots import RootOfEpoch
from potluck.wire.money.contract import ClaimProof, EpochRoot, RewardsContractView


def _no_contract() -> NotFound:
    return NotFound(
        "This pool has no rewards contract.", "Credits stay in the pool; ask its operator."
    )


async def show_contract(services: Services) -> RewardsContractView:
    chain = services.chain
    if chain is None:
        raise _no_contract()
    async with services.database.transaction() as connection:
        contract = await scanned.get_contract(connection, chain.key)
    if contract is None:
        raise Unavailable("The rewards contract was not read yet.", "Try again.", 10.0)
    return RewardsContractView(
        chain.key.chain_id,
        chain.key.contract,
        contract.token,
        chain.settings.decimals,
        contract.rate.units,
        contract.rate.micro,
        chain.settings.confirmations,
        chain.treasury is not None,
        contract.halted_because,
        max(contract.cursor.block, 0),
    )


async def show_claim(services: Services, address: str) -> ClaimProof:
    chain = services.chain
    if chain is None:
        raise _no_contract()
    found = await find_proof(services, address)
    if found is None:
        raise NotFound(
            "There is nothing to claim for your wallet yet.",
            "Rewards are in the contract after the epoch, and the contract's delay."
            " `potluck rewards payout` chooses to have them paid.",
        )
    async with services.database.transaction() as connection:
        claimed = await scanned.sum_claimed(connection, chain.key, address)
    cumulative = found.leaf.cumulative
    return ClaimProof(
        chain.key.chain_id,
        chain.key.contract,
        found.leaf.token,
        address,
        str(cumulative),
        str(claimed),
        chain.settings.rate.to_micro(max(cumulative - claimed, 0)),
        found.number,
        f"0x{found.root.hex()}",
        [f"0x{node.hex()}" for node in found.proof],
    )


def show_root(carried: RootOfEpoch) -> EpochRoot:
    sent = carried.transaction_hash
    return EpochRoot(
        carried.key.chain_id,
        carried.key.contract,
        carried.root.number,
        f"0x{carried.root.root.hex()}",
        str(carried.root.total_units),
        carried.root.state,
        carried.kind,
        carried.transaction_state,
        None if sent is None else f"0x{sent.hex()}",
    )


class WalletProof(Struct, frozen=True):
    number: int  # of the root, as the contract counts epochs
    root: bytes
    leaf: RewardLeaf
    proof: list[bytes]


async def find_proof(services: Services, address: str) -> WalletProof | None:
    """Of the last root that was seen to be accepted; None if the wallet has no part of it.

    A root may have been accepted after that. Then a claim fails, and the next proof is right.
    """
    chain = services.chain
    if chain is None:
        return None
    async with services.database.transaction() as connection:
        contract = await scanned.get_contract(connection, chain.key)
        root = await roots.get_accepted(connection, chain.key)
        if contract is None or root is None:
            return None
        micro = await roots.list_leaves(connection, chain.key, root.number)
    leaves = tuple(make_leaves(contract.token, contract.rate, micro))
    mine = next((leaf for leaf in leaves if leaf.account == address), None)
    if mine is None:
        return None
    tree = await asyncio.to_thread(_tree, leaves)
    if tree.root != root.root:  # taken over from the contract, or not all of it is known
        return None
    return WalletProof(root.number, root.root, mine, tree.proof(mine))


@lru_cache(maxsize=2)
def _tree(leaves: tuple[RewardLeaf, ...]) -> MerkleTree:
    """Kept, because all wallets ask for proofs of the same tree."""
    return MerkleTree(leaves)
