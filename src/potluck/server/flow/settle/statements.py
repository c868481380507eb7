"""Statements of closed epochs, signed by the server."""

from msgspec.structs import replace

from potluck.model.error import NotFound
from potluck.model.ids import AccountId
from potluck.server.flow.settle.server_signer import server_signer
from potluck.server.services import Services
from potluck.store.database import Connection
from potluck.store.ledger import epochs
from potluck.store.ledger.epochs import WalletReward
from potluck.wire.money.rewards import SignedStatement
from potluck.wire.signing.epoch_statement import (
    EpochStatement,
    StatementLine,
    epoch_statement_digest,
    statement_sha256,
)


async def sign_statement(
    services: Services, number: int, account_id: AccountId | None = None
) -> SignedStatement:
    """Of one account, or of the pool. It is the same each time: what was counted never changes."""
    async with services.database.transaction() as connection:
        epoch = await epochs.get(connection, number)
        if epoch is None or epoch.closed_at is None:
            raise _no_statement(number, account_id)
        whole = EpochStatement(number, epoch.starts_at, epoch.ends_at, account_id is None, [])
        statement = await add_lines(connection, whole, account_id)
    if account_id is not None and not statement.lines:
        raise _no_statement(number, account_id)
    return _signed(services, statement)


async def add_lines(
    connection: Connection, statement: EpochStatement, account_id: AccountId | None = None
) -> EpochStatement:
    rewards = await epochs.rewards_of_epoch(connection, statement.epoch, account_id)
    return replace(statement, lines=[_line(reward) for reward in rewards])


def _signed(services: Services, statement: EpochStatement) -> SignedStatement:
    digest, signer = statement_sha256(statement), server_signer(services)
    signature = signer.sign(epoch_statement_digest(statement.epoch, digest))
    return SignedStatement(statement, digest.hex(), signer.address, signature)


def _line(of_wallet: WalletReward) -> StatementLine:
    reward = of_wallet.reward
    return StatementLine(
        of_wallet.address,
        reward.earned_micro,
        reward.fee_micro,
        reward.held_back_micro,
        reward.rewards_to,
        reward.amount_micro,
        reward.cumulative_micro,
    )


def _no_statement(number: int, account_id: AccountId | None) -> NotFound:
    if account_id is None:
        return NotFound(f"Epoch {number} is not closed.", "`potluck admin epochs` lists them.")
    return NotFound(
        "You have no statement of this epoch.",
        "`potluck rewards epochs` lists the closed epochs in which you earned.",
    )
