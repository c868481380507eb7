"""What comes next between the ledger and the contract."""

from typing import Any

import pytest
from msgspec.structs import replace

from potluck.decide.payouts.payout_plan import (
    AcceptRoot,
    ContractView,
    HaltPayouts,
    LedgerRoot,
    LedgerView,
    MoveRoot,
    PayoutStep,
    PlanRoot,
    ProposeRoot,
    RestPayouts,
    RootOnChain,
    next_payout,
)
from potluck.model.payout import RootState

FIRST = LedgerRoot(b"1" * 32, 1, 100, RootState.PLANNED)
SECOND = LedgerRoot(b"2" * 32, 2, 150, RootState.PLANNED)
EMPTY = ContractView(1000, None, None, None, False, 0, 500)


def on_chain(root: LedgerRoot) -> RootOnChain:
    return RootOnChain(root.root, root.number, root.total_units)


def after(latest: LedgerRoot | None, *, has_rewards: bool = False, **contract: Any) -> PayoutStep:
    """The ledger knows its own two roots."""
    view = replace(EMPTY, **contract)
    known_roots = (on_chain(FIRST), on_chain(SECOND))
    ledger = LedgerView(
        latest, view.current in known_roots, view.pending in known_roots, has_rewards
    )
    return next_payout(view, ledger)


def at(root: LedgerRoot, state: RootState) -> LedgerRoot:
    return replace(root, state=state)


def test_the_way_of_two_roots() -> None:
    assert after(None) == RestPayouts()
    assert after(None, has_rewards=True) == PlanRoot(1)
    assert after(FIRST) == ProposeRoot(1)
    pending: dict[str, Any] = {"pending": on_chain(FIRST), "pending_from": 1060}
    assert after(FIRST, **pending) == MoveRoot(1, RootState.PROPOSED)
    proposed = at(FIRST, RootState.PROPOSED)
    assert after(proposed, **pending) == RestPayouts()
    assert after(proposed, **pending, time=1060) == AcceptRoot(1)
    current: dict[str, Any] = {"current": on_chain(FIRST)}
    assert after(proposed, **current) == MoveRoot(1, RootState.ACCEPTED)
    accepted = at(FIRST, RootState.ACCEPTED)
    assert after(accepted, **current) == RestPayouts()
    assert after(accepted, **current, has_rewards=True) == PlanRoot(2)
    assert after(SECOND, **current) == ProposeRoot(2)


def test_no_second_root_is_planned_while_one_is_on_its_way() -> None:
    for state in (RootState.PLANNED, RootState.PROPOSED):
        step = after(at(FIRST, state), has_rewards=True, pending=on_chain(FIRST), pending_from=2000)
        assert not isinstance(step, PlanRoot | ProposeRoot)


@pytest.mark.parametrize(
    "contract",
    [
        {"pending": RootOnChain(b"x" * 32, 2, 1), "pending_from": 1, "current": on_chain(FIRST)},
        {"current": RootOnChain(b"x" * 32, 2, 1)},
        {"current": None},
    ],
)
def test_a_contract_that_the_ledger_does_not_know_stops_payouts(contract: dict[str, Any]) -> None:
    """A stolen key, an older backup, a chain that lost an accepted root."""
    step = after(at(FIRST, RootState.ACCEPTED), has_rewards=True, **contract)
    assert isinstance(step, HaltPayouts)


def test_a_root_that_was_revoked_is_not_proposed_again() -> None:
    proposed = at(FIRST, RootState.PROPOSED)
    assert after(proposed) == MoveRoot(1, RootState.REVOKED)
    rest = after(at(FIRST, RootState.REVOKED), has_rewards=True)
    assert isinstance(rest, RestPayouts) and rest.because


@pytest.mark.parametrize(
    "contract",
    [
        {"is_paused": True},
        {"balance": 99},
        {"current": replace(on_chain(FIRST), total_units=101, number=0)},
    ],
)
def test_a_proposal_that_the_contract_would_refuse_waits_with_a_reason(
    contract: dict[str, Any],
) -> None:
    view = replace(EMPTY, **contract)
    step = next_payout(view, LedgerView(FIRST, True, True, False))
    assert isinstance(step, RestPayouts) and step.because


def test_an_accepted_root_is_not_awaited_while_the_contract_is_paused() -> None:
    step = after(
        at(FIRST, RootState.PROPOSED), pending=on_chain(FIRST), pending_from=1, is_paused=True
    )
    assert step == RestPayouts("the contract is paused")
