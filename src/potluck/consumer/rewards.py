"""Rewards: what the caller's machines contributed, epochs, statements and payouts."""

from collections.abc import Iterator
from datetime import date

from potluck.consumer.http.transport import Transport, call_api, iter_pages, send_command
from potluck.model.credit import RewardsTo
from potluck.wire import routes
from potluck.wire.money.contract import ClaimProof, RewardsContractView
from potluck.wire.money.rewards import (
    OwnEpoch,
    OwnEpochPage,
    PayoutPage,
    PayoutView,
    Rewards,
    ServerSigner,
    SetRewardsTo,
    SignedStatement,
)


class OwnRewards:
    """The rewards of one account. Amounts are whole numbers of millionths of a credit."""

    def __init__(self, transport: Transport):
        self._transport = transport

    def get(self, since: date | None = None) -> Rewards:
        """Where the rewards are, and the contribution since a day; of the last 30 by default."""
        query = {"since": since and since.isoformat()}
        return call_api(self._transport, routes.REWARDS, Rewards, query=query)

    def choose(self, rewards_to: RewardsTo) -> None:
        """Whether rewards stay credits, or are set aside for a payout when an epoch is closed."""
        send_command(self._transport, routes.CHOOSE_REWARDS, body=SetRewardsTo(rewards_to))

    def epochs(self) -> Iterator[OwnEpoch]:
        """The closed epochs in which the account earned something, newest first."""
        for page in iter_pages(self._transport, routes.OWN_EPOCHS, OwnEpochPage):
            yield from page.epochs

    def statement(self, epoch: int) -> SignedStatement:
        """The account's part of a closed epoch, signed by the server."""
        names = {"epoch": str(epoch)}
        return call_api(self._transport, routes.OWN_STATEMENT, SignedStatement, names)

    def payouts(self) -> Iterator[PayoutView]:
        """What was paid to the account outside the pool, newest first."""
        for page in iter_pages(self._transport, routes.OWN_PAYOUTS, PayoutPage):
            yield from page.payouts

    def contract(self) -> RewardsContractView:
        """The contract that takes deposits, and what its token is worth."""
        return call_api(self._transport, routes.REWARDS_CONTRACT, RewardsContractView)

    def claim_proof(self) -> ClaimProof:
        """All that a claim of the account's rewards needs."""
        return call_api(self._transport, routes.CLAIM_PROOF, ClaimProof)

    def signer(self) -> str:
        """The address that signs statements, and countersigns receipts."""
        return call_api(self._transport, routes.SIGNER, ServerSigner).address
