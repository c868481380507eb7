"""What comes next between the ledger and the contract: plan a root, propose it, accept it, or stop.

The contract is read where it has enough confirmations. A root that it has and that this ledger did
not make stops everything: the ledger is an older one, or someone else has the proposer's key.
"""

from typing import TypeAlias

from msgspec import Struct

from potluck.model.payout import RootState


class RootOnChain(Struct, frozen=True):
    root: bytes
    number: int
    total_units: int


class ContractView(Struct, frozen=True):
    """The contract at a block with enough confirmations, and the time of that block."""

    time: int
    current: RootOnChain | None
    pending: RootOnChain | None
    pending_from: int | None
    is_paused: bool
    total_claimed: int
    balance: int

    @property
    def next_number(self) -> int:
        return 1 if self.current is None else self.current.number + 1


class LedgerRoot(Struct, frozen=True):
    """A root that this ledger made, or that an admin accepted as its own."""

    root: bytes
    number: int
    total_units: int
    state: RootState

    def is_same(self, other: RootOnChain | None) -> bool:
        return other is not None and (other.root, other.number) == (self.root, self.number)


class LedgerView(Struct, frozen=True):
    latest: LedgerRoot | None
    knows_current: bool  # whether the contract's current root is in the ledger
    knows_pending: bool
    has_rewards: bool  # rewards of closed epochs that are in no root


class PlanRoot(Struct, frozen=True):
    number: int


class ProposeRoot(Struct, frozen=True):
    number: int


class AcceptRoot(Struct, frozen=True):
    number: int


class MoveRoot(Struct, frozen=True):
    """The contract says that the root has this state."""

    number: int
    state: RootState


class HaltPayouts(Struct, frozen=True):
    because: str


class RestPayouts(Struct, frozen=True):
    because: str = ""  # if something is in the way


PayoutStep: TypeAlias = PlanRoot | ProposeRoot | AcceptRoot | MoveRoot | HaltPayouts | RestPayouts


def next_payout(contract: ContractView, ledger: LedgerView) -> PayoutStep:
    latest = ledger.latest
    unknown_root = _find_unknown_root(contract, ledger)
    if unknown_root is not None:
        return unknown_root
    if latest is None or latest.state is RootState.ACCEPTED:
        return PlanRoot(contract.next_number) if ledger.has_rewards else RestPayouts()
    if latest.state is RootState.REVOKED:
        return RestPayouts("the contract's owner revoked the last root")
    if latest.is_same(contract.current):
        return MoveRoot(latest.number, RootState.ACCEPTED)
    if latest.is_same(contract.pending):
        return _next_of_pending(contract, latest)
    if latest.state is RootState.PROPOSED:
        return MoveRoot(latest.number, RootState.REVOKED)
    obstacle = _obstacle(contract, latest)
    return RestPayouts(obstacle) if obstacle else ProposeRoot(latest.number)


def _find_unknown_root(contract: ContractView, ledger: LedgerView) -> HaltPayouts | None:
    latest = ledger.latest
    if contract.pending is not None and not ledger.knows_pending:
        return HaltPayouts(
            f"The contract has a pending root of epoch {contract.pending.number} that this ledger"
            " did not make. Revoke it with the owner's key, unless this ledger was restored from"
            " an older backup."
        )
    if contract.current is not None and not ledger.knows_current:
        return HaltPayouts(
            f"The contract has accepted a root of epoch {contract.current.number} that this ledger"
            " did not make: the ledger was restored from an older backup, or the proposer's key is"
            " in other hands."
        )
    if (
        latest is not None
        and latest.state is RootState.ACCEPTED
        and (contract.current is None or contract.current.number < latest.number)
    ):
        return HaltPayouts(
            f"The contract no longer has the root of epoch {latest.number}, which it had accepted:"
            " the chain was reorganised, or it is another chain."
        )
    return None


def _next_of_pending(contract: ContractView, latest: LedgerRoot) -> PayoutStep:
    if latest.state is RootState.PLANNED:
        return MoveRoot(latest.number, RootState.PROPOSED)
    if contract.is_paused:
        return RestPayouts("the contract is paused")
    assert contract.pending_from is not None, "a pending root has a time"
    return AcceptRoot(latest.number) if contract.time >= contract.pending_from else RestPayouts()


def _obstacle(contract: ContractView, latest: LedgerRoot) -> str:
    """Why the contract would refuse the proposal; it may take it later."""
    if contract.is_paused:
        return "the contract is paused"
    if contract.current is not None and latest.total_units < contract.current.total_units:
        return "the total of the root is lower than that of the contract's current one"
    if latest.total_units - contract.total_claimed > contract.balance:
        return "the contract holds too few tokens for what is to be paid"
    return ""
