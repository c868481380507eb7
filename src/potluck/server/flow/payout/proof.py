"""What a wallet can claim of the contract: its leaf and proof in the root that the contract has."""

import asyncio

from msgspec import Struct

from potluck.chain.merkle import MerkleTree, RewardLeaf, make_leaves
from potluck.model.error import NotFound, Unavailable
from potluck.server.chain.chain_gateway import ChainGateway
from potluck.server.services import Services
from potluck.store.chain import roots, scanned
from potluck.store.chain.roots import RootOfEpoch, StoredRoot
from potluck.store.chain.scanned import KnownContract
from potluck.wire.money.contract import ClaimProof, EpochRoot, RewardsContractView


def no_contract() -> NotFound:
    return NotFound(
        "This pool has no rewards contract.", "Credits stay in the pool; ask its operator."
    )


def no_claim() -> NotFound:
    return NotFound(
        "There is nothing to claim for your wallet yet.",
        "`potluck rewards` shows where your rewards are. They can be claimed when a root with them"
        " is accepted, after the contract's delay, if `potluck rewards payout on` was chosen.",
    )


async def show_contract(services: Services) -> RewardsContractView:
    chain = services.chain
    if chain is None:
        raise no_contract()
    async with services.database.transaction() as connection:
        contract = await scanned.get_contract(connection, chain.key)
    if contract is None:
        raise Unavailable("The rewards contract has not been read yet.", "Try again.", 10.0)
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
        raise no_contract()
    leaf_proof = await find_proof(services, address)
    if leaf_proof is None:
        raise no_claim()
    async with services.database.transaction() as connection:
        claimed = await scanned.sum_claimed(connection, chain.key, address)
    cumulative = leaf_proof.leaf.cumulative
    return ClaimProof(
        chain.key.chain_id,
        chain.key.contract,
        leaf_proof.leaf.token,
        address,
        str(cumulative),
        str(claimed),
        chain.settings.rate.to_micro(max(cumulative - claimed, 0)),
        leaf_proof.number,
        f"0x{leaf_proof.root.hex()}",
        [f"0x{node.hex()}" for node in leaf_proof.proof],
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
        carried.root.is_partial,
        carried.waits_because,
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
    tree = await _find_tree(services, chain, contract, root)
    if tree is None or tree.root != root.root:  # taken over from the contract: not all is known
        return None
    leaf = tree.leaf_of(address)
    if leaf is None:
        return None
    return WalletProof(root.number, root.root, leaf, tree.proof(leaf))


async def _find_tree(
    services: Services, chain: ChainGateway, contract: KnownContract, root: StoredRoot
) -> MerkleTree | None:
    """Kept by the root, which stands for its content: all wallets ask for proofs of one tree."""
    async with chain.tree_lock:
        if root.root not in chain.trees:
            async with services.database.transaction() as connection:
                micro = await roots.list_leaves(connection, chain.key, root.number)
            leaves = make_leaves(contract.token, contract.rate, micro)
            if not leaves:
                return None
            chain.trees.clear()
            chain.trees[root.root] = await asyncio.to_thread(MerkleTree, leaves)
        return chain.trees[root.root]
