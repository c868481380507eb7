"""Messages about the rewards contract. Amounts of tokens are decimal digits in a string, in the
token's smallest unit: many programs round large numbers.
"""

from typing import Annotated

from msgspec import Meta, Struct

from potluck.model.bounded_types import END
from potluck.model.payout import RootState, TransactionKind, TransactionState


class RewardsContractView(Struct, frozen=True):
    """Where deposits go, and what a token is worth: `token_units` are `credit_micro`."""

    chain_id: int
    contract: str
    token: str
    token_decimals: int
    token_units: int
    credit_micro: int
    confirmations: int  # blocks after which a deposit is credited
    has_payouts: bool  # False: it takes deposits only
    stopped_because: str | None = None  # nothing is credited or paid until an admin has looked
    read_block: int = 0  # the last block whose deposits and claims were read


class ClaimProof(Struct, frozen=True):
    """All that a claim needs. Anyone may send it; the contract pays the account."""

    chain_id: int
    contract: str
    token: str
    account: str
    cumulative_units: str  # in all roots of this contract
    claimed_units: str  # of that, as far as claims were read from the chain
    claimable_micro: int  # the rest, in micro-credits
    epoch: int  # of the contract
    root: str
    proof: list[str]


class ClaimFees(Struct, frozen=True):
    """What your wallet signs around the claim at this moment. Fees are decimal digits, in wei for
    each unit of gas."""

    nonce: int
    gas: int
    max_fee_wei: str
    max_tip_wei: str


class SendClaim(Struct, frozen=True, forbid_unknown_fields=True):
    """A transaction of type 2 (EIP-1559) that claims for your wallet, signed by it."""

    transaction: Annotated[str, Meta(max_length=20_000, pattern=f"^0x([0-9a-fA-F]{{2}})+{END}")]


class ClaimSent(Struct, frozen=True):
    transaction_hash: str


class EpochRoot(Struct, frozen=True):
    """The root of a contract that covers an epoch of the pool, and its last transaction."""

    chain_id: int
    contract: str
    contract_epoch: int
    root: str
    total_units: str
    state: RootState
    transaction_kind: TransactionKind | None = None
    transaction_state: TransactionState | None = None
    transaction_hash: str | None = None
    is_partial: bool = False  # it is full: the rewards of other accounts are in the next root
    waits_because: str | None = None  # None if nothing is in the way, or it is accepted
