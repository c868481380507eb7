"""What admins do besides roles: labels, taking credit back, nodes. Each is in the audit log."""

from potluck.decide.charges import grant_entries
from potluck.model.audit import AuditKind
from potluck.model.error import Conflict, InvalidInput
from potluck.model.ids import AccountId, NodeId
from potluck.model.node import NodeState
from potluck.model.units import show_amount
from potluck.server.accounts.roles import check_found
from potluck.server.auth import idempotent_secret
from potluck.server.auth.idempotent_secret import IdempotentRequest
from potluck.server.flow.lease.lease import leave
from potluck.server.flow.notify.notify import wake_leader
from potluck.server.services import Services
from potluck.store.identity import accounts, audit
from potluck.store.identity.accounts import LabelTaken
from potluck.store.ledger import ledger
from potluck.store.nodes import nodes
from potluck.wire.admin import TakeCredit

# How ids and wallets begin, instead of which a label can be used.
_RESERVED = ("0x", "account_")


async def set_label(
    services: Services, actor: AccountId, account_id: AccountId, label: str
) -> None:
    """Labels are unique, so that commands can name an account by its label."""
    label = label.strip()
    if label.lower().startswith(_RESERVED):
        raise InvalidInput(
            "A label cannot begin like a wallet or an id.", "Begin it with something else."
        )
    async with services.database.transaction() as connection:
        try:
            changed = await accounts.set_label(connection, account_id, label)
        except LabelTaken as error:
            raise Conflict(
                f"Another account is labelled {label!r}.", "`potluck admin accounts` shows it."
            ) from error
        check_found(changed, account_id)
        await audit.append(
            connection,
            services.keys.audit,
            AuditKind.ACCOUNT_LABELLED,
            actor,
            account_id,
            {"label": label},
        )


async def take(
    services: Services,
    actor: AccountId,
    account_id: AccountId,
    request: TakeCredit,
    idempotent: IdempotentRequest | None = None,
) -> None:
    """A negative grant, of at most the available credit: what is held belongs to running work."""
    async with services.database.transaction() as connection:
        check_found(await accounts.by_id(connection, account_id), account_id)
        if not await idempotent_secret.is_first(connection, idempotent):
            return
        available_micro = await accounts.lock_available(connection, account_id)
        if request.amount_micro > available_micro:
            raise Conflict(
                f"The account has {show_amount(available_micro)} available, which is less.",
                "Take at most that. What is held for running tasks can be taken when they end.",
            )
        await ledger.append(connection, grant_entries(account_id, -request.amount_micro))
        details = {"amount_micro": str(request.amount_micro), "reason": request.reason}
        await audit.append(
            connection, services.keys.audit, AuditKind.CREDIT_TAKEN, actor, account_id, details
        )


async def cordon(services: Services, actor: AccountId, node_id: NodeId, reason: str) -> None:
    """The node gets no new work, of its owner neither; running work finishes."""
    async with services.database.transaction() as connection:
        await nodes.cordon(connection, node_id, reason)
        details = {"reason": reason} if reason else {}
        await audit.append(
            connection, services.keys.audit, AuditKind.NODE_CORDONED, actor, node_id, details
        )
    await wake_leader(services)


async def uncordon(services: Services, actor: AccountId, node_id: NodeId) -> None:
    async with services.database.transaction() as connection:
        await nodes.uncordon(connection, node_id)
        await audit.append(
            connection, services.keys.audit, AuditKind.NODE_UNCORDONED, actor, node_id
        )
    await wake_leader(services)


async def remove_node(services: Services, actor: AccountId, node_id: NodeId, reason: str) -> None:
    """The silent node leaves, and may register again. One that is online is not removed: it would
    be back at once."""
    async with services.database.transaction() as connection:
        owner, state = await nodes.lock(connection, node_id)
        if state is not NodeState.SILENT:
            raise Conflict(
                f"{node_id} is online.",
                "`potluck admin cordon` stops new work on it, and `potluck admin suspend` removes"
                " all nodes of an account.",
            )
        details = {"reason": reason} if reason else {}
        await audit.append(
            connection, services.keys.audit, AuditKind.NODE_REMOVED, actor, node_id, details
        )
    await leave(services, owner, node_id)
