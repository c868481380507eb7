"""The rewards contract on a real chain: what it pays, and everything that it refuses."""

import json
from collections.abc import Iterator

import pytest

from potluck.chain.merkle import MerkleTree, RewardLeaf
from potluck.chain.rewards_contract import (
    RewardsContract,
    accept_call,
    claim_call,
    deposit_call,
    propose_call,
)
from potluck.model.error import TransactionRefused
from potluck.wire.signing.address import keccak256
from potluck.wire.signing.signature import address_of
from scripts.contract import COMPILED, compile_contract, render
from tests.chain.anvil import Anvil
from tests.chain.rewards import (
    DELAY_SECONDS,
    OWNER,
    PAYER,
    PROPOSER,
    STRANGER,
    Flaw,
    RewardsRig,
    wallet,
)

NOBODY = "0x" + "00" * 20


@pytest.fixture(scope="module")
def deployed(chain: Anvil) -> RewardsRig:
    return RewardsRig(chain)


@pytest.fixture
def rig(deployed: RewardsRig) -> Iterator[RewardsRig]:
    """As it was deployed: what a test does on the chain is undone after it."""
    snapshot = deployed.chain.ask("evm_snapshot")
    yield deployed
    assert deployed.chain.ask("evm_revert", snapshot)


def refuses(reason: str) -> "pytest.RaisesExc[TransactionRefused]":
    return pytest.raises(TransactionRefused, match=f"refused: {reason}\\.")


def call_failed(rig: RewardsRig) -> bool:
    """Whether the token called, and was refused."""
    counts = rig.read_token("calls_that_failed"), rig.read_token("calls_that_succeeded")
    return counts == (1, 0)


def test_the_compiled_contract_is_current() -> None:
    assert COMPILED.read_text() == render(compile_contract()), "run `make contract`"


class TestDeposit:
    def test_is_recorded_for_its_account(self, rig: RewardsRig) -> None:
        receipt = rig.deposit(70, wallet(3))
        (event,) = rig.contract.read_deposits(receipt.block_number, receipt.block_number)
        assert (event.account, event.payer, event.amount) == (wallet(3), address_of(PAYER), 70)
        assert event.place.transaction_hash == receipt.hash
        assert rig.contract.read_state().balance == 70

    def test_the_zero_address_is_refused(self, rig: RewardsRig) -> None:
        with refuses("no account"):
            rig.deposit(1, NOBODY)

    def test_a_deposit_of_zero_is_refused(self, rig: RewardsRig) -> None:
        with refuses("nothing was deposited"):
            rig.deposit(0)

    def test_without_tokens_is_refused(self, rig: RewardsRig) -> None:
        with refuses("the contract gave no reason"):
            rig.deposit(1, key=STRANGER)

    def test_while_paused_is_refused(self, rig: RewardsRig) -> None:
        rig.ask(OWNER, "set_paused", True)
        with refuses("paused"):
            rig.deposit(1)
        rig.ask(OWNER, "set_paused", False)
        rig.deposit(1)


class TestTokens:
    def test_functions_that_return_none_work(self, chain: Anvil) -> None:
        rig = RewardsRig(chain, Flaw.RETURNS_NOTHING)
        rig.deposit(10)
        tree = rig.tree(10)
        rig.install(tree)
        rig.claim(tree, 0)
        assert rig.balance(wallet(0)) == 10

    def test_a_transfer_that_returns_false_moves_nothing(self, chain: Anvil) -> None:
        rig = RewardsRig(chain, Flaw.RETURNS_FALSE)
        with refuses("the token refused the transfer"):
            rig.deposit(10)
        rig.ask_token("mint", rig.address, 10)
        tree = rig.tree(10)
        rig.install(tree)
        with refuses("the token refused the transfer"):
            rig.claim(tree, 0)
        assert rig.contract.read_claimed(wallet(0)) == 0

    def test_a_token_with_a_fee_deposits_what_arrives(self, chain: Anvil) -> None:
        rig = RewardsRig(chain, Flaw.TAKES_A_FEE)
        receipt = rig.deposit(100)
        (event,) = rig.contract.read_deposits(receipt.block_number, receipt.block_number)
        assert event.amount == 90 == rig.contract.read_state().balance
        with refuses("the balance does not cover the total"):
            rig.propose(rig.tree(91))

    def test_a_reentrant_token_cannot_claim_again(self, chain: Anvil) -> None:
        rig = RewardsRig(chain, Flaw.CALLS_BACK)
        rig.deposit(100)
        tree = rig.tree(10, 20)
        rig.install(tree)
        rig.ask_token("call_back", rig.address, rig.claim_call(tree, 1).data)
        rig.claim(tree, 0)
        assert call_failed(rig)
        assert rig.contract.read_state().total_claimed == 10

    def test_a_reentrant_token_cannot_accept_a_root(self, chain: Anvil) -> None:
        """The claim is counted by then, and its tokens are still there."""
        rig = RewardsRig(chain, Flaw.CALLS_BACK)
        rig.deposit(100)
        first = rig.tree(10)
        rig.install(first)
        rig.propose(rig.tree(30), 2)
        rig.pass_time(DELAY_SECONDS)
        rig.ask_token("call_back", rig.address, accept_call(rig.address).data)
        rig.claim(first, 0)
        assert call_failed(rig)

    def test_a_reentrant_token_cannot_propose(self, chain: Anvil) -> None:
        """Not even as the proposer."""
        rig = RewardsRig(chain, Flaw.CALLS_BACK)
        rig.deposit(100)
        first = rig.tree(10)
        rig.install(first)
        rig.ask(OWNER, "set_proposer", rig.token)
        call = propose_call(rig.address, rig.root(rig.tree(30), 2))
        rig.ask_token("call_back", rig.address, call.data)
        rig.claim(first, 0)
        assert call_failed(rig)

    def test_a_reentrant_token_cannot_deposit_twice(self, chain: Anvil) -> None:
        """The outer deposit would count the tokens of the inner one again."""
        rig = RewardsRig(chain, Flaw.CALLS_BACK)
        inner = deposit_call(rig.address, wallet(1), 40)
        rig.ask_token("call_back", rig.address, inner.data)
        receipt = rig.deposit(100)
        events = rig.contract.read_deposits(receipt.block_number, receipt.block_number)
        assert call_failed(rig)
        assert [event.amount for event in events] == [100]
        assert rig.contract.read_state().balance == 100


class TestRoots:
    def test_one_is_proposed_and_accepted_after_the_delay(self, rig: RewardsRig) -> None:
        rig.deposit(30)
        root = rig.root(rig.tree(10, 20), 1)
        rig.contract.propose(root, PROPOSER)
        state = rig.contract.read_state()
        assert (state.current, state.pending) == (None, root)
        assert state.pending_from == state.block_time + DELAY_SECONDS
        with refuses("too early"):
            rig.contract.accept(STRANGER)
        rig.pass_time(DELAY_SECONDS - 60)
        with refuses("too early"):
            rig.contract.accept(OWNER)
        rig.pass_time(60)
        rig.contract.accept(STRANGER)
        state = rig.contract.read_state()
        assert (state.current, state.pending, state.pending_from) == (root, None, None)
        with refuses("no root is pending"):
            rig.contract.accept(STRANGER)

    def test_only_the_proposer_proposes(self, rig: RewardsRig) -> None:
        for key in (OWNER, STRANGER):
            with refuses("not the proposer"):
                rig.contract.propose(rig.root(rig.tree(0), 1), key)

    def test_a_second_one_waits_for_the_first(self, rig: RewardsRig) -> None:
        rig.propose(rig.tree(0))
        for epoch in (1, 2):
            with refuses("a root is pending"):
                rig.propose(rig.tree(0), epoch)

    @pytest.mark.parametrize("epoch", [0, 2, 2**256 - 1])
    def test_the_first_epoch_is_1(self, rig: RewardsRig, epoch: int) -> None:
        with refuses("not the next epoch"):
            rig.propose(rig.tree(0), epoch)

    def test_epochs_follow_each_other(self, rig: RewardsRig) -> None:
        rig.install(rig.tree(0), 1)
        for epoch in (0, 1, 3):
            with refuses("not the next epoch"):
                rig.propose(rig.tree(0), epoch)
        rig.install(rig.tree(0), 2)

    def test_the_total_never_falls(self, rig: RewardsRig) -> None:
        rig.deposit(100)
        rig.install(rig.tree(50))
        with refuses("the total is lower than before"):
            rig.propose(rig.tree(60), 2, total=49)

    @pytest.mark.parametrize("total", [101, 2**256 - 1])
    def test_the_total_is_covered(self, rig: RewardsRig, total: int) -> None:
        rig.deposit(100)
        with refuses("the balance does not cover the total"):
            rig.propose(rig.tree(1), total=total)
        rig.propose(rig.tree(1), total=100)

    def test_claimed_amounts_need_no_cover(self, rig: RewardsRig) -> None:
        rig.deposit(100)
        first = rig.tree(100)
        rig.install(first)
        rig.claim(first, 0)
        rig.deposit(5)
        with refuses("the balance does not cover the total"):
            rig.propose(rig.tree(106), 2)
        rig.propose(rig.tree(105), 2)

    def test_a_root_that_lost_its_cover_is_not_accepted(self, rig: RewardsRig) -> None:
        """No ordinary token takes balances away."""
        rig.deposit(100)
        rig.propose(rig.tree(100))
        rig.ask_token("burn", rig.address, 1)
        rig.pass_time(DELAY_SECONDS)
        with refuses("the balance does not cover the total"):
            rig.contract.accept(STRANGER)

    def test_without_a_root_or_a_statement(self, rig: RewardsRig) -> None:
        with refuses("no root"):
            rig.ask(PROPOSER, "propose_root", bytes(32), 1, 0, b"s" * 32)
        with refuses("no statement"):
            rig.ask(PROPOSER, "propose_root", b"r" * 32, 1, 0, bytes(32))

    def test_while_paused(self, rig: RewardsRig) -> None:
        rig.ask(OWNER, "set_paused", True)
        with refuses("paused"):
            rig.propose(rig.tree(0))
        rig.ask(OWNER, "set_paused", False)
        rig.propose(rig.tree(0))
        rig.ask(OWNER, "set_paused", True)
        rig.pass_time(DELAY_SECONDS)
        with refuses("paused"):
            rig.contract.accept(STRANGER)
        # The delay went on meanwhile.
        rig.ask(OWNER, "set_paused", False)
        rig.contract.accept(STRANGER)

    def test_no_other_function_changes_the_root(self) -> None:
        """A new function that changes anything is a reason to read the contract again."""
        changing_functions = {
            entry["name"]
            for entry in json.loads(COMPILED.read_text())["abi"]
            if entry["type"] == "function" and entry["stateMutability"] != "view"
        }
        assert changing_functions == {
            *("deposit", "propose_root", "accept_root", "revoke_root", "claim"),
            *("set_paused", "set_proposer", "offer_ownership", "accept_ownership"),
        }


class TestRevoke:
    def test_the_owner_removes_a_pending_root(self, rig: RewardsRig) -> None:
        tree = rig.tree(0)
        rig.propose(tree)
        rig.ask(OWNER, "set_paused", True)  # works while paused
        rig.ask(OWNER, "revoke_root", tree.root)
        rig.ask(OWNER, "set_paused", False)
        rig.pass_time(DELAY_SECONDS)
        with refuses("no root is pending"):
            rig.contract.accept(STRANGER)
        assert rig.contract.read_state().pending is None

    def test_the_next_one_waits_the_whole_delay_again(self, rig: RewardsRig) -> None:
        tree = rig.tree(0)
        rig.propose(tree)
        rig.pass_time(DELAY_SECONDS)
        rig.ask(OWNER, "revoke_root", tree.root)
        rig.propose(tree)
        with refuses("too early"):
            rig.contract.accept(STRANGER)

    def test_only_the_owner_does(self, rig: RewardsRig) -> None:
        tree = rig.tree(0)
        rig.propose(tree)
        for key in (PROPOSER, STRANGER):
            with refuses("not the owner"):
                rig.ask(key, "revoke_root", tree.root)

    def test_only_the_pending_root_can_be_revoked(self, rig: RewardsRig) -> None:
        tree = rig.tree(0)
        with refuses("no root is pending"):
            rig.ask(OWNER, "revoke_root", bytes(32))
        rig.install(tree)
        with refuses("no root is pending"):
            rig.ask(OWNER, "revoke_root", tree.root)
        rig.propose(rig.tree(0, 0), 2)
        with refuses("another root is pending"):
            rig.ask(OWNER, "revoke_root", tree.root)


class TestClaim:
    def test_pays_the_difference_once(self, rig: RewardsRig) -> None:
        rig.deposit(100)
        first, second = rig.tree(10, 20, 0), rig.tree(10, 45, 7)
        rig.install(first)
        receipt = rig.claim(first, 1)
        (event,) = rig.contract.read_claims(receipt.block_number, receipt.block_number)
        assert (event.account, event.amount, event.cumulative) == (wallet(1), 20, 20)
        assert event.root == first.root
        with refuses("nothing to claim"):
            rig.claim(first, 1)
        rig.install(second, 2)
        for number in (0, 1, 2):
            rig.claim(second, number)
        assert [rig.balance(wallet(number)) for number in range(3)] == [10, 45, 7]
        assert rig.contract.read_state().total_claimed == 62
        assert rig.contract.read_claimed(wallet(1)) == 45

    def test_the_account_is_paid_by_a_claim_of_any_sender(self, rig: RewardsRig) -> None:
        rig.deposit(100)
        tree = rig.tree(0, 0, 0, 0, 30)
        before = rig.balance(wallet(4)), rig.balance(address_of(STRANGER))
        rig.install(tree)
        rig.claim(tree, 4, STRANGER)
        assert rig.balance(wallet(4)) == before[0] + 30
        assert rig.balance(address_of(STRANGER)) == before[1]

    def test_a_claim_of_zero_is_refused(self, rig: RewardsRig) -> None:
        rig.install(tree := rig.tree(0, 0))
        with refuses("nothing to claim"):
            rig.claim(tree, 0)

    def test_before_any_root_is_refused(self, rig: RewardsRig) -> None:
        rig.deposit(100)
        tree = rig.tree(10)
        with refuses("no root was accepted yet"):
            rig.claim(tree, 0)
        rig.propose(tree)
        with refuses("no root was accepted yet"):
            rig.claim(tree, 0)
        with refuses("no root was accepted yet"):
            rig.rpc.send(claim_call(rig.address, tree.leaves[0], bytes(32), []), STRANGER)

    def test_wrong_proofs_are_refused(self, rig: RewardsRig) -> None:
        rig.deposit(100)
        tree = rig.tree(10, 20, 30, 40)  # all proofs have two steps, which have an order
        rig.install(tree)
        leaf = tree.leaves[0]
        proof = tree.tree.proof(leaf)
        others = RewardLeaf(leaf.account, leaf.token, 20), RewardLeaf(wallet(9), leaf.token, 10)
        wrong = [
            *((other, proof) for other in others),
            (tree.leaves[1], proof),
            (leaf, []),
            (leaf, proof[:-1]),
            (leaf, [*proof, bytes(32)]),
            (leaf, proof[::-1]),
            (leaf, [bytes(32)] * 32),
        ]
        for claimed, steps in wrong:
            with refuses("wrong proof"):
                rig.rpc.send(claim_call(rig.address, claimed, tree.root, steps), STRANGER)
        rig.claim(tree, 0)

    def test_a_leaf_of_another_token_is_refused(self, rig: RewardsRig) -> None:
        rig.deposit(100)
        leaf = RewardLeaf(wallet(0), wallet(1), 10)
        tree = MerkleTree([leaf])
        rig.ask(PROPOSER, "propose_root", tree.root, 1, 10, b"s" * 32)
        rig.accept()
        with refuses("wrong proof"):
            rig.rpc.send(claim_call(rig.address, leaf, tree.root, []), STRANGER)

    def test_against_an_older_and_a_newer_root_is_refused(self, rig: RewardsRig) -> None:
        rig.deposit(100)
        first, second, third = rig.tree(10), rig.tree(20), rig.tree(30)
        rig.install(first, 1)
        rig.install(second, 2)
        rig.propose(third, 3)
        for other in (first, third):
            with refuses("another root is current"):
                rig.claim(other, 0)
        rig.claim(second, 0)

    def test_a_claim_that_races_a_new_root_fails_and_pays_nothing(self, rig: RewardsRig) -> None:
        rig.deposit(100)
        first, second = rig.tree(10), rig.tree(20)
        rig.install(first, 1)
        nonce = rig.rpc.next_nonce(address_of(PAYER))
        late_claim = rig.rpc.sign(rig.claim_call(first, 0), PAYER, nonce)
        rig.install(second, 2)
        rig.rpc.broadcast(late_claim)
        with refuses("it failed in its block"):
            rig.rpc.await_receipt(late_claim.hash)
        assert rig.contract.read_claimed(wallet(0)) == 0

    def test_with_an_inner_node_as_a_leaf_is_refused(self, rig: RewardsRig) -> None:
        """A second preimage: 64 bytes that are two hashes for the tree, and a leaf for a claim."""
        rig.deposit(100)
        tree = rig.tree(10, 20, 30, 40)
        rig.install(tree)
        left, right = sorted(tree.leaves, key=lambda leaf: leaf.hash)[:2]
        (sibling, outer_sibling) = tree.tree.proof(left)
        assert sibling == right.hash
        inner = RewardLeaf("0x" + left.hash[-20:].hex(), rig.token, int.from_bytes(right.hash))
        for steps in ([], [outer_sibling]):
            with refuses("wrong proof"):
                rig.rpc.send(claim_call(rig.address, inner, tree.root, steps), STRANGER)

    @pytest.mark.parametrize("count", [1, 2])
    def test_with_a_64_byte_leaf_is_refused(self, rig: RewardsRig, count: int) -> None:
        """Account and amount without the token, hashed once or twice."""
        rig.deposit(100)
        leaf = RewardLeaf(wallet(0), rig.token, 10)
        encoded = bytes(12) + bytes.fromhex(leaf.account[2:]) + leaf.cumulative.to_bytes(32)
        root = encoded
        for _ in range(count):
            root = keccak256(root)
        rig.ask(PROPOSER, "propose_root", root, 1, 10, b"s" * 32)
        rig.accept()
        for steps in ([], [encoded[32:]], [encoded[:32]]):
            with refuses("wrong proof"):
                rig.rpc.send(claim_call(rig.address, leaf, root, steps), STRANGER)

    def test_no_more_than_the_total_is_paid(self, rig: RewardsRig) -> None:
        """Also if the proposer gave a total that is lower than the sum of its tree."""
        rig.deposit(100)
        tree = rig.tree(10, 20)
        rig.propose(tree, total=25)
        rig.accept()
        rig.claim(tree, 0)
        with refuses("more than the total"):
            rig.claim(tree, 1)

    def test_a_lower_cumulative_amount_pays_nothing(self, rig: RewardsRig) -> None:
        rig.deposit(100)
        first, second = rig.tree(30), rig.tree(20)
        rig.install(first)
        rig.claim(first, 0)
        rig.propose(second, 2, total=30)
        rig.accept()
        with refuses("nothing to claim"):
            rig.claim(second, 0)

    def test_while_paused_is_refused(self, rig: RewardsRig) -> None:
        rig.deposit(100)
        tree = rig.tree(10)
        rig.install(tree)
        rig.ask(OWNER, "set_paused", True)
        with refuses("paused"):
            rig.claim(tree, 0)
        rig.ask(OWNER, "set_paused", False)
        rig.claim(tree, 0)


class TestRoles:
    @pytest.mark.parametrize(
        ("function", "argument"),
        [("set_paused", True), ("set_proposer", NOBODY), ("offer_ownership", NOBODY)],
    )
    def test_only_the_owner_has_them(
        self, rig: RewardsRig, function: str, argument: object
    ) -> None:
        for key in (PROPOSER, STRANGER):
            with refuses("not the owner"):
                rig.ask(key, function, argument)

    def test_ownership_moves_in_two_steps(self, rig: RewardsRig) -> None:
        rig.ask(OWNER, "offer_ownership", address_of(PAYER))
        state = rig.contract.read_state()
        assert (state.owner, state.next_owner) == (address_of(OWNER), address_of(PAYER))
        for key in (OWNER, STRANGER):
            with refuses("not the next owner"):
                rig.ask(key, "accept_ownership")
        with refuses("not the owner"):
            rig.ask(PAYER, "set_paused", True)
        rig.ask(PAYER, "accept_ownership")
        state = rig.contract.read_state()
        assert (state.owner, state.next_owner) == (address_of(PAYER), None)
        with refuses("not the owner"):
            rig.ask(OWNER, "set_paused", True)
        with refuses("not the next owner"):
            rig.ask(PAYER, "accept_ownership")

    def test_an_offer_can_be_withdrawn(self, rig: RewardsRig) -> None:
        rig.ask(OWNER, "offer_ownership", address_of(PAYER))
        rig.ask(OWNER, "offer_ownership", NOBODY)
        with refuses("not the next owner"):
            rig.ask(PAYER, "accept_ownership")

    def test_the_proposer_is_replaced(self, rig: RewardsRig) -> None:
        rig.ask(OWNER, "set_proposer", address_of(PAYER))
        with refuses("not the proposer"):
            rig.propose(rig.tree(0))
        rig.contract.propose(rig.root(rig.tree(0), 1), PAYER)

    def test_only_a_proposer_proposes(self, rig: RewardsRig) -> None:
        rig.ask(OWNER, "set_proposer", NOBODY)
        assert rig.contract.read_state().proposer is None
        for key in (OWNER, PROPOSER):
            with refuses("not the proposer"):
                rig.contract.propose(rig.root(rig.tree(0), 1), key)

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"token": wallet(0)}, "the token is not a contract"),
            ({"owner": NOBODY}, "no owner"),
            ({"delay_seconds": 59}, "the delay is too short"),
            ({"delay_seconds": 30 * 86400 + 1}, "the delay is too long"),
        ],
    )
    def test_a_contract_that_cannot_work_is_not_deployed(
        self, rig: RewardsRig, change: dict[str, object], reason: str
    ) -> None:
        good: dict[str, object] = {
            "token": rig.token,
            "owner": address_of(OWNER),
            "proposer": address_of(PROPOSER),
            "delay_seconds": DELAY_SECONDS,
        }
        with refuses(reason):
            RewardsContract.deploy(rig.rpc, STRANGER, **{**good, **change})  # type: ignore[arg-type]
