"""`potluck claim` while the contract gets its next root."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from potluck.cli.account.claim import _send
from potluck.model.error import Conflict
from potluck.wire.money.contract import ClaimProof
from tests.chain.anvil import Anvil
from tests.chain.rewards import STRANGER, EpochTree, RewardsRig, wallet


def proof_of(rig: RewardsRig, tree: EpochTree, number: int, epoch: int) -> ClaimProof:
    leaf = tree.leaves[number]
    return ClaimProof(
        rig.chain.chain_id,
        rig.address,
        rig.token,
        leaf.account,
        str(leaf.cumulative),
        "0",
        leaf.cumulative,
        epoch,
        f"0x{tree.root.hex()}",
        [f"0x{node.hex()}" for node in tree.tree.proof(leaf)],
    )


def server_with(proof: ClaimProof) -> Any:
    """A client whose server has this proof now."""
    terms = SimpleNamespace(credit_micro=1, token_units=1)
    return SimpleNamespace(
        rewards=SimpleNamespace(claim_proof=lambda: proof, contract=lambda: terms)
    )


@pytest.fixture
def rig(chain: Anvil) -> RewardsRig:
    rewards_rig = RewardsRig(chain)
    rewards_rig.deposit(1000)
    return rewards_rig


def test_a_claim_that_lost_the_race_is_sent_with_the_new_proof(rig: RewardsRig) -> None:
    first, second = rig.tree(10, 20), rig.tree(15, 25)
    rig.install(first)
    old = proof_of(rig, first, 0, 1)
    rig.install(second, epoch=2)
    sent = _send(cast(Any, server_with(proof_of(rig, second, 0, 2))), rig.contract, old, STRANGER)
    assert (sent["units"], rig.balance(wallet(0))) == ("15", 15)


def test_a_root_that_the_server_has_not_read_yet_is_reported(rig: RewardsRig) -> None:
    first, second = rig.tree(10, 20), rig.tree(15, 25)
    rig.install(first)
    old = proof_of(rig, first, 0, 1)
    rig.install(second, epoch=2)
    with pytest.raises(Conflict, match="a new root"):
        _send(cast(Any, server_with(old)), rig.contract, old, STRANGER)
    assert rig.balance(wallet(0)) == 0


def test_a_claim_is_not_repeated(rig: RewardsRig) -> None:
    tree = rig.tree(10, 20)
    rig.install(tree)
    proof = proof_of(rig, tree, 0, 1)
    _send(cast(Any, server_with(proof)), rig.contract, proof, STRANGER)
    with pytest.raises(Conflict, match="has been claimed"):
        _send(cast(Any, server_with(proof)), rig.contract, proof, STRANGER)
