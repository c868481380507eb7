"""Messages about rewards: contribution, epochs, statements and payouts."""

from datetime import date, datetime
from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.bounded_types import END, LineText
from potluck.model.credit import RewardsTo
from potluck.model.ids import AccountId, DeviceId, NodeId
from potluck.wire.money.contract import EpochRoot
from potluck.wire.signing.address import AddressText
from potluck.wire.signing.epoch_statement import EpochStatement

MAX_PAYOUTS = 10_000

# Printable, without spaces at its ends: people write it into files and search for it.
PayoutIdText = Annotated[str, Meta(pattern=f"^[!-~]([ -~]*[!-~])?{END}", max_length=200)]
PositiveMicro = Annotated[int, Meta(ge=1, le=2**62)]


class Contribution(Struct, frozen=True):
    """What a device, or all of them, contributed. A share of a device counts as its part."""

    offered_seconds: float  # it took work; on the whole days of the time that was asked for
    assigned_seconds: float  # it was reserved for attempts
    worked_seconds: float  # attempts ran on it
    attempts: int  # that ended
    earned_micro: int  # before the fee, with what is held back
    fee_micro: int
    held_back_micro: int  # of that, the part that is not paid yet


class DeviceContribution(Struct, frozen=True):
    node_id: NodeId
    node_name: str
    device_id: DeviceId | None  # None for attempts that used several
    model: str
    contribution: Contribution


class EpochSpan(Struct, frozen=True):
    number: int
    starts_at: datetime
    ends_at: datetime


class Rewards(Struct, frozen=True):
    """From work to a payout. The amounts below are of all time; `total` and `devices` begin at
    `since`.
    """

    rewards_to: RewardsTo
    epoch: EpochSpan | None  # the open one; None until the server has begun the first
    earned_micro: int  # before the fee, without what is held back
    fee_micro: int
    held_back_micro: int  # attempts still run
    in_epoch_micro: int  # paid after the fee, since the last epoch was closed
    claimable_micro: int
    paid_micro: int
    since: date
    total: Contribution
    devices: list[DeviceContribution]


class SetRewardsTo(Struct, frozen=True, forbid_unknown_fields=True):
    rewards_to: RewardsTo


class EpochView(Struct, frozen=True):
    """An epoch of the pool. Its figures are zero until it is closed."""

    number: int
    starts_at: datetime
    ends_at: datetime
    closed_at: datetime | None
    accounts: int
    earned_micro: int
    fee_micro: int
    amount_micro: int  # set aside for payouts
    cumulative_micro: int  # in all epochs so far
    statement_sha256: str | None
    roots: list[EpochRoot] = []  # of contracts; rewards of several epochs may be in one


class EpochPage(Struct, frozen=True):
    """The newest first; `next_cursor` leads to older ones."""

    epochs: list[EpochView]
    next_cursor: int | None = None


class OwnEpoch(Struct, frozen=True):
    """The account's part of a closed epoch."""

    number: int
    starts_at: datetime
    ends_at: datetime
    closed_at: datetime
    earned_micro: int
    fee_micro: int
    held_back_micro: int
    rewards_to: RewardsTo
    amount_micro: int
    cumulative_micro: int


class OwnEpochPage(Struct, frozen=True):
    """The newest first; `next_cursor` leads to older ones."""

    epochs: list[OwnEpoch]
    next_cursor: int | None = None


class SignedStatement(Struct, frozen=True, forbid_unknown_fields=True):
    """What the server has set aside, with its signature. It can be verified without the server."""

    statement: EpochStatement
    sha256: str  # of the statement's canonical bytes
    signer: str  # the server's address
    signature: str


class ServerSigner(Struct, frozen=True):
    """The address of the key that signs statements."""

    address: str


class PaidRow(Struct, frozen=True, forbid_unknown_fields=True):
    """A payout outside the pool; the payer chooses its id, which counts once."""

    id: PayoutIdText
    wallet: AddressText
    amount_micro: PositiveMicro
    reference: LineText = ""


class MarkPaid(Struct, frozen=True, forbid_unknown_fields=True):
    payouts: Annotated[list[PaidRow], Meta(min_length=1, max_length=MAX_PAYOUTS)]


class BadRow(Struct, frozen=True):
    row: int  # from 1
    id: str
    sentence: str


class PayoutsMarked(Struct, frozen=True):
    """All rows are recorded, or none if one is bad."""

    recorded: int
    already_recorded: int
    amount_micro: int  # of those that were recorded now
    bad: list[BadRow] = []


class ClaimantView(Struct, frozen=True):
    """An account that is to be paid."""

    account_id: AccountId
    wallet: str
    label: str
    claimable_micro: int
    paid_micro: int
    unpaid_since_epoch: int | None


class ClaimantPage(Struct, frozen=True):
    claimants: list[ClaimantView]
    next_cursor: str | None = None


class PayoutView(Struct, frozen=True):
    id: str
    wallet: str
    amount_micro: int
    reference: str
    recorded_at: datetime
    recorded_by: AccountId | None = None  # None if no person did, and for its recipient


class PayoutPage(Struct, frozen=True):
    """The newest first; `next_cursor` leads to older ones."""

    payouts: list[PayoutView]
    next_cursor: str | None = None
