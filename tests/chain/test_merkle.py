"""The tree of rewards: OpenZeppelin's own library makes the same, and no other leaf is in it."""

import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from potluck.chain.merkle import LEAF_TYPES, MerkleTree, RewardLeaf, verify_proof
from tests.conftest import need

HERE = Path(__file__).parent
TOKEN = "0x" + "70" * 20
MOST = 2**256 - 1
ACCOUNTS = st.binary(min_size=20, max_size=20).map(lambda packed: f"0x{packed.hex()}")
LEAVES = st.dictionaries(ACCOUNTS, st.integers(0, MOST), min_size=1, max_size=40).map(
    lambda amounts: [RewardLeaf(account, TOKEN, amounts[account]) for account in amounts]
)


def random_leaves(count: int, seed: int) -> list[RewardLeaf]:
    rng = random.Random(seed)
    return [
        RewardLeaf(f"0x{rng.randbytes(20).hex()}", TOKEN, rng.choice([0, 1, rng.getrandbits(256)]))
        for _ in range(count)
    ]


def ask_openzeppelin(leaves: list[RewardLeaf], indexes: list[int]) -> dict[str, Any]:
    node = shutil.which("node")
    if node is None or not (HERE / "node_modules/@openzeppelin/merkle-tree").exists():
        need("@openzeppelin/merkle-tree (npm, in tests/chain)")
    assert node is not None
    tree = MerkleTree(leaves)
    question = {
        "types": LEAF_TYPES,
        "leaves": [[leaf.account, leaf.token, str(leaf.cumulative)] for leaf in leaves],
        "asked": indexes,
        "root": text(tree.root),
        "proofs": [[text(step) for step in tree.proof(leaves[index])] for index in indexes],
    }
    command = [node, str(HERE / "merkle.mjs")]
    process = subprocess.run(command, input=json.dumps(question).encode(), capture_output=True)
    assert process.returncode == 0, process.stderr.decode()
    response: dict[str, Any] = json.loads(process.stdout)
    return response


def text(packed: bytes) -> str:
    return f"0x{packed.hex()}"


@pytest.mark.parametrize("count", [1, 2, 3, 5, 10_000])
def test_openzeppelin_makes_the_same_tree(count: int) -> None:
    leaves = random_leaves(count, seed=count)
    indexes = sorted(random.Random(count).sample(range(count), min(count, 200)))
    openzeppelin = ask_openzeppelin(leaves, indexes)
    tree = MerkleTree(leaves)
    assert openzeppelin["root"] == text(tree.root)
    assert all(openzeppelin["accepted"]), "it refuses proofs that are made here"
    for index, steps in zip(indexes, openzeppelin["proofs"], strict=True):
        assert steps == [text(step) for step in tree.proof(leaves[index])]
        assert verify_proof(tree.root, leaves[index], [bytes.fromhex(step[2:]) for step in steps])


@given(LEAVES)
def test_every_leaf_has_a_proof(leaves: list[RewardLeaf]) -> None:
    tree = MerkleTree(leaves)
    assert all(verify_proof(tree.root, leaf, tree.proof(leaf)) for leaf in leaves)


@given(LEAVES, st.randoms(use_true_random=False))
def test_the_order_of_leaves_does_not_matter(leaves: list[RewardLeaf], rng: random.Random) -> None:
    shuffled = rng.sample(leaves, len(leaves))
    assert MerkleTree(shuffled).root == MerkleTree(leaves).root


@given(LEAVES, st.data())
def test_no_other_leaf_has_a_proof(leaves: list[RewardLeaf], data: st.DataObject) -> None:
    tree = MerkleTree(leaves)
    leaf = data.draw(st.sampled_from(leaves))
    changed = RewardLeaf(
        data.draw(st.one_of(st.just(leaf.account), ACCOUNTS)),
        data.draw(st.one_of(st.just(leaf.token), ACCOUNTS)),
        data.draw(st.one_of(st.just(leaf.cumulative), st.integers(0, MOST))),
    )
    assert verify_proof(tree.root, changed, tree.proof(leaf)) == (changed == leaf)


@given(LEAVES, st.data())
def test_a_changed_proof_is_wrong(leaves: list[RewardLeaf], data: st.DataObject) -> None:
    tree = MerkleTree(leaves)
    leaf = data.draw(st.sampled_from(leaves))
    proof = tree.proof(leaf)
    assert not verify_proof(tree.root, leaf, [*proof, bytes(32)])
    if proof:
        place = data.draw(st.integers(0, len(proof) - 1))
        assert not verify_proof(tree.root, leaf, proof[:place] + proof[place + 1 :])
        changed = bytes([proof[place][0] ^ 1]) + proof[place][1:]
        assert not verify_proof(tree.root, leaf, [*proof[:place], changed, *proof[place + 1 :]])


@settings(max_examples=20)
@given(st.integers(1, 300))
def test_a_proof_is_as_short_as_the_tree_is_deep(count: int) -> None:
    leaves = random_leaves(count, seed=count)
    tree = MerkleTree(leaves)
    depth = (count - 1).bit_length()
    assert {len(tree.proof(leaf)) for leaf in leaves} <= {depth, max(depth - 1, 0)}


def test_the_spelling_of_an_address_does_not_matter() -> None:
    upper, lower = (RewardLeaf(f"0x{digits * 20}", TOKEN, 1) for digits in ("AB", "ab"))
    assert upper.hash == lower.hash
    assert MerkleTree([upper]).proof(lower) == []


def test_one_account_has_one_leaf() -> None:
    """The contract would pay the higher one, and not both."""
    twice = [RewardLeaf(f"0x{digits * 20}", TOKEN, 1) for digits in ("AB", "ab")]
    with pytest.raises(AssertionError, match="one leaf per account"):
        MerkleTree(twice)


@pytest.mark.parametrize("account", ["0x", "0x" + "00" * 19, "0x" + "00" * 21])
def test_a_leaf_needs_a_valid_address(account: str) -> None:
    with pytest.raises(AssertionError):
        MerkleTree([RewardLeaf(account, TOKEN, 1)])


@pytest.mark.parametrize("amount", [-1, MOST + 1])
def test_a_leaf_needs_a_valid_amount(amount: int) -> None:
    with pytest.raises(AssertionError):
        MerkleTree([RewardLeaf(TOKEN, TOKEN, amount)])
