"""The Merkle tree of rewards, byte for byte as OpenZeppelin's StandardMerkleTree builds it.

A leaf is `[account, token, cumulative amount]`, ABI-encoded and hashed twice, so that no inner node
can pass for a leaf. Leaves are sorted by their hashes, and pairs before they are hashed.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from potluck.decide.payouts.token_rate import TokenRate
from potluck.wire.signing.address import keccak256

LEAF_TYPES: Final = ("address", "address", "uint256")
_MAX_UINT256 = 2**256 - 1


class RewardLeaf(Struct, frozen=True):
    account: str  # the wallet, in hexadecimal
    token: str
    cumulative: int  # in the token's smallest unit

    @property
    def hash(self) -> bytes:
        assert 0 <= self.cumulative <= _MAX_UINT256, self.cumulative
        words = (_word(self.account), _word(self.token), self.cumulative.to_bytes(32))
        return keccak256(keccak256(b"".join(words)))


def make_leaves(token: str, rate: TokenRate, micro: Mapping[str, int]) -> list[RewardLeaf]:
    """Of wallets with these micro-credits, if they are at least one unit of the token."""
    units = {address: rate.to_units(amount) for address, amount in micro.items()}
    return [RewardLeaf(address, token, amount) for address, amount in units.items() if amount]


class MerkleTree:
    """Nodes are kept in one list: the root first, the leaves last, in reverse order.

    An account has one leaf: the contract would pay it the highest of several, and not their sum.
    """

    def __init__(self, leaves: Sequence[RewardLeaf]) -> None:
        assert leaves, "a tree has a leaf"
        assert len({_word(leaf.account) for leaf in leaves}) == len(leaves), "one leaf per account"
        self._leaves = {leaf.account: leaf for leaf in leaves}
        by_hash = sorted(leaf.hash for leaf in leaves)
        count = len(by_hash)
        self._nodes = [b""] * (count - 1) + by_hash[::-1]
        self._places = {hash_: 2 * count - 2 - place for place, hash_ in enumerate(by_hash)}
        for place in reversed(range(count - 1)):
            self._nodes[place] = _pair(self._nodes[2 * place + 1], self._nodes[2 * place + 2])

    @property
    def root(self) -> bytes:
        return self._nodes[0]

    def leaf_of(self, account: str) -> RewardLeaf | None:
        """By the spelling that the leaf was given."""
        return self._leaves.get(account)

    def proof(self, leaf: RewardLeaf) -> list[bytes]:
        """The hashes that lead from this leaf to the root. Raises KeyError if it is not here."""
        place, proof = self._places[leaf.hash], list[bytes]()
        while place > 0:
            sibling = place + 1 if place % 2 else place - 1
            proof.append(self._nodes[sibling])
            place = (place - 1) // 2
        return proof


def verify_proof(root: bytes, leaf: RewardLeaf, proof: Sequence[bytes]) -> bool:
    node = leaf.hash
    for sibling in proof:
        node = _pair(node, sibling)
    return node == root


def _word(address: str) -> bytes:
    packed = bytes.fromhex(address.removeprefix("0x"))
    assert len(packed) == 20, address
    return packed.rjust(32, b"\0")


def _pair(first: bytes, second: bytes) -> bytes:
    return keccak256(min(first, second) + max(first, second))
