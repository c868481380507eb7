"""The rewards contract against a model in Python, over random histories."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import settings, strategies
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from potluck.model.error import TransactionRefused
from tests.chain.anvil import Anvil
from tests.chain.rewards import DELAY_SECONDS, OWNER, PROPOSER, STRANGER, RewardsRig, wallet
from tests.chain.rewards import EpochTree as Tree

WALLETS = 3
WHO = strategies.integers(0, WALLETS - 1)
AMOUNTS = strategies.integers(0, 40)
GROWTH = strategies.lists(AMOUNTS, min_size=WALLETS, max_size=WALLETS)


class RewardsHistory(RuleBasedStateMachine):
    """Each rule acts on both; the model says whether the contract must refuse."""

    def __init__(self, chain: Anvil) -> None:
        super().__init__()
        self.rig = RewardsRig(chain)
        self.deposited = 0
        self.paid = [0] * WALLETS
        self.epoch = 0
        self.total = 0
        self.current: Tree | None = None
        self.earlier: list[Tree] = []
        self.pending: tuple[Tree, int] | None = None  # with its total
        self.has_delay_passed = False
        self.is_paused = False

    @property
    def balance(self) -> int:
        return self.deposited - sum(self.paid)

    @rule(amount=AMOUNTS)
    def deposit(self, amount: int) -> None:
        with self.refused_if(self.is_paused or amount == 0):
            self.rig.deposit(amount)
            self.deposited += amount

    @rule(growth=GROWTH, understated=strategies.integers(0, 5), skipped=strategies.integers(0, 1))
    def propose(self, growth: list[int], understated: int, skipped: int) -> None:
        """Amounts that grow; sometimes the total is less than their sum, or an epoch is missing."""
        before = (
            [leaf.cumulative for leaf in self.current.leaves] if self.current else [0] * WALLETS
        )
        tree = self.rig.tree(*(old + gain for old, gain in zip(before, growth, strict=True)))
        total = max(0, tree.total - understated)
        is_wrong = (
            self.is_paused
            or self.pending is not None
            or skipped > 0
            or total < self.total
            or total - sum(self.paid) > self.balance
        )
        with self.refused_if(is_wrong):
            self.rig.propose(tree, self.epoch + 1 + skipped, total)
            self.pending, self.has_delay_passed = (tree, total), False

    @rule()
    def pass_the_delay(self) -> None:
        self.rig.pass_time(DELAY_SECONDS)
        self.has_delay_passed = self.pending is not None

    @rule()
    def accept(self) -> None:
        with self.refused_if(self.is_paused or self.pending is None or not self.has_delay_passed):
            self.rig.contract.accept(STRANGER)
            assert self.pending is not None
            if self.current is not None:
                self.earlier.append(self.current)
            self.current, self.total = self.pending
            self.epoch += 1
            self.pending = None

    @precondition(lambda self: self.pending is not None)
    @rule(key=strategies.sampled_from([OWNER, PROPOSER]))
    def revoke(self, key: bytes) -> None:
        assert self.pending is not None
        with self.refused_if(key != OWNER):
            self.rig.ask(key, "revoke_root", self.pending[0].root)
            self.pending = None

    @precondition(lambda self: self.current is not None)
    @rule(who=WHO)
    def claim(self, index: int) -> None:
        assert self.current is not None
        amount = self.current.leaves[index].cumulative - self.paid[index]
        is_too_much = sum(self.paid) + amount > self.total
        with self.refused_if(self.is_paused or amount <= 0 or is_too_much):
            self.rig.claim(self.current, index)
            self.paid[index] += amount

    @precondition(lambda self: self.earlier)
    @rule(who=WHO, data=strategies.data())
    def claim_by_an_earlier_root(self, index: int, data: strategies.DataObject) -> None:
        tree = data.draw(strategies.sampled_from(self.earlier))
        assert self.current is not None
        # Epochs without growth have the same root, which is then current again.
        if tree.root != self.current.root:
            with self.refused_if(True):
                self.rig.claim(tree, index)

    @rule(is_paused=strategies.sampled_from([False, False, True]))
    def pause(self, is_paused: bool) -> None:
        self.rig.ask(OWNER, "set_paused", is_paused)
        self.is_paused = is_paused

    @invariant()
    def contract_and_model_agree(self) -> None:
        state = self.rig.contract.read_state()
        assert state.total_claimed == sum(self.paid) <= self.total
        assert state.balance == self.balance >= 0
        assert (state.current.total if state.current else 0) == self.total
        assert (state.current.epoch if state.current else 0) == self.epoch
        assert (state.pending is None) == (self.pending is None)
        # Whatever the current root still promises is there.
        assert self.total - state.total_claimed <= state.balance

    def teardown(self) -> None:
        """At the end for each wallet: reading them at every step would take most of the time."""
        claimed = [self.rig.contract.read_claimed(wallet(index)) for index in range(WALLETS)]
        received = [self.rig.balance(wallet(index)) for index in range(WALLETS)]
        assert claimed == received == self.paid

    @contextmanager
    def refused_if(self, is_wrong: bool) -> Iterator[None]:
        if not is_wrong:
            yield
            return
        with pytest.raises(TransactionRefused):
            yield


def check(chain: Anvil, examples: int, steps: int) -> None:
    bounds = settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    run_state_machine_as_test(lambda: RewardsHistory(chain), settings=bounds)  # type: ignore[arg-type]


def test_random_histories(chain: Anvil) -> None:
    check(chain, examples=6, steps=20)


@pytest.mark.long
def test_many_random_histories(chain: Anvil) -> None:
    check(chain, examples=60, steps=50)
