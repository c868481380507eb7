"""Administration: status, accounts, invites, tasks, cordons, the audit log, the encryption key."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from potluck.consumer.http.transport import (
    Transport,
    call_api,
    idempotency_header,
    iter_pages,
    send_command,
)
from potluck.model.account import Quota, Role
from potluck.model.task import TaskState
from potluck.model.terms import TaskKind
from potluck.wire import routes
from potluck.wire.admin import (
    Cordon,
    PoolEvent,
    PoolEventPage,
    PoolTask,
    PoolTaskPage,
    RemoveNode,
    SetLabel,
    TakeCredit,
)
from potluck.wire.alerts import AlertPage, AlertTest, ErrorGroup, ErrorPage, NewSilence, SilenceView
from potluck.wire.identity import (
    AccountPage,
    AccountView,
    AuditPage,
    AuditVerdict,
    GrantCredit,
    InviteList,
    InviteMade,
    InviteView,
    KeyRotation,
    NewInvite,
    RotationProgress,
    SetRoles,
    Suspend,
)
from potluck.wire.money.rewards import (
    ClaimantPage,
    ClaimantView,
    EpochPage,
    EpochView,
    MarkPaid,
    PaidRow,
    PayoutPage,
    PayoutsMarked,
    PayoutView,
    SignedStatement,
)
from potluck.wire.status import PoolHistory, PoolStatus


class Admin:
    """Calls that only admins may make. Calls that create something are not repeated."""

    def __init__(self, transport: Transport):
        self._transport = transport

    def accounts(self) -> Iterator[AccountView]:
        """All accounts, oldest first."""
        for page in iter_pages(self._transport, routes.LIST_ACCOUNTS, AccountPage):
            yield from page.accounts

    def set_roles(self, account_id: str, roles: Sequence[Role]) -> None:
        """Replaces the roles of an account; admin is one of them."""
        send_command(
            self._transport, routes.SET_ROLES, _account(account_id), SetRoles(tuple(roles))
        )

    def suspend(self, account_id: str, reason: str = "") -> None:
        """Suspends the account until it is resumed, and ends its tasks."""
        send_command(self._transport, routes.SUSPEND_ACCOUNT, _account(account_id), Suspend(reason))

    def resume(self, account_id: str) -> None:
        """Lifts a suspension."""
        send_command(self._transport, routes.RESUME_ACCOUNT, _account(account_id))

    def grant(self, account_id: str, amount_micro: int) -> None:
        """Grants credit. Retried until the server answers, and counted once."""
        body, names = GrantCredit(amount_micro), _account(account_id)
        send_command(
            self._transport, routes.GRANT_CREDIT, names, body, headers=idempotency_header()
        )

    def set_label(self, account_id: str, label: str) -> None:
        """Sets what admins call the account; empty text removes it."""
        send_command(self._transport, routes.SET_LABEL, _account(account_id), SetLabel(label))

    def revoke(self, account_id: str, amount_micro: int, reason: str) -> None:
        """Takes available credit back. Retried until the server answers, and counted once."""
        body, names = TakeCredit(amount_micro, reason), _account(account_id)
        send_command(self._transport, routes.TAKE_CREDIT, names, body, headers=idempotency_header())

    def take(self, account_id: str, amount_micro: int, reason: str) -> None:
        """The earlier name of `revoke`."""
        self.revoke(account_id, amount_micro, reason)

    def epochs(self) -> Iterator[EpochView]:
        """The epochs of the pool, newest first; the first one is open."""
        for page in iter_pages(self._transport, routes.LIST_EPOCHS, EpochPage):
            yield from page.epochs

    def statement(self, epoch: int) -> SignedStatement:
        """The signed statement of all accounts for a closed epoch."""
        names = {"epoch": str(epoch)}
        return call_api(self._transport, routes.POOL_STATEMENT, SignedStatement, names)

    def claimants(self) -> Iterator[ClaimantView]:
        """The accounts that are to be paid."""
        for page in iter_pages(self._transport, routes.LIST_CLAIMANTS, ClaimantPage):
            yield from page.claimants

    def payouts(self) -> Iterator[PayoutView]:
        """What was paid outside the pool, newest first."""
        for page in iter_pages(self._transport, routes.LIST_PAYOUTS, PayoutPage):
            yield from page.payouts

    def resume_payouts(self) -> None:
        """Lets deposits and payouts of the contract go on after they have stopped."""
        send_command(self._transport, routes.RESUME_PAYOUTS)

    def mark_paid(self, payouts: Sequence[PaidRow]) -> PayoutsMarked:
        """Records payouts, each id once; nothing if a row is bad, which `bad` lists."""
        body = MarkPaid(list(payouts))
        return call_api(self._transport, routes.MARK_PAID, PayoutsMarked, body=body)

    def status(self) -> PoolStatus:
        """The whole pool as of now: readiness, queue, nodes, recent ends, sizes, backup, ledger."""
        return call_api(self._transport, routes.POOL_STATUS, PoolStatus)

    def history(self, hours: int = 24) -> PoolHistory:
        """Throughput and latency of the last hours, in about a hundred steps."""
        return call_api(self._transport, routes.POOL_HISTORY, PoolHistory, query={"hours": hours})

    def events(self) -> Iterator[PoolEvent]:
        """Events of all accounts, newest first, without the names of tasks."""
        for page in iter_pages(self._transport, routes.LIST_POOL_EVENTS, PoolEventPage):
            yield from page.events

    def tasks(
        self,
        account_id: str | None = None,
        states: Sequence[TaskState] = (),
        kind: TaskKind | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Iterator[PoolTask]:
        """The tasks of one account or of all, newest first, without their names and content."""
        query = {
            "account": account_id,
            "state": tuple(states) or None,
            "kind": kind,
            "since": None if since is None else since.isoformat(),
            "until": None if until is None else until.isoformat(),
        }
        for page in iter_pages(self._transport, routes.LIST_POOL_TASKS, PoolTaskPage, query):
            yield from page.tasks

    def cordon(self, node_id: str, reason: str = "") -> None:
        """Stops new work on a node; running work finishes."""
        names = {"node_id": node_id}
        send_command(self._transport, routes.CORDON_NODE, names, Cordon(reason))

    def uncordon(self, node_id: str) -> None:
        """Allows new work on a node again."""
        send_command(self._transport, routes.UNCORDON_NODE, {"node_id": node_id})

    def remove_node(self, node_id: str, reason: str = "") -> None:
        """Removes a silent node; if its provider returns, it registers again."""
        names = {"node_id": node_id}
        send_command(self._transport, routes.REMOVE_NODE, names, RemoveNode(reason))

    def set_quota(self, account_id: str, quota: Quota) -> None:
        """Replaces the account's quota."""
        send_command(self._transport, routes.SET_QUOTA, _account(account_id), quota)

    def invite(self, wanted: NewInvite) -> InviteMade:
        """Creates an invite; only this response contains its code."""
        headers = idempotency_header()
        return call_api(
            self._transport, routes.MAKE_INVITE, InviteMade, body=wanted, headers=headers
        )

    def invites(self) -> list[InviteView]:
        """The invites that can still be used."""
        pages = iter_pages(self._transport, routes.LIST_INVITES, InviteList)
        return [invite for page in pages for invite in page.invites]

    def revoke_invite(self, invite_id: str) -> None:
        """Revokes an invite."""
        send_command(self._transport, routes.REVOKE_INVITE, {"invite_id": invite_id})

    def audit(self, before: int | None = None, limit: int | None = None) -> AuditPage:
        """A page of the audit log, newest first; pass `next_cursor` to get older entries."""
        query = {"cursor": before, "limit": limit}
        return call_api(self._transport, routes.AUDIT, AuditPage, query=query)

    def verify_audit(self) -> AuditVerdict:
        """Whether any audit entry was changed or removed."""
        return call_api(self._transport, routes.VERIFY_AUDIT, AuditVerdict)

    def alerts(self, before: int | None = None, limit: int | None = None) -> AlertPage:
        """Alerts, newest first, and the silences in effect."""
        query = {"cursor": before, "limit": limit}
        return call_api(self._transport, routes.LIST_ALERTS, AlertPage, query=query)

    def test_alerts(self) -> AlertTest:
        """Sends a test message to each destination that the operator configured."""
        return call_api(self._transport, routes.TEST_ALERTS, AlertTest)

    def silence_alerts(self, wanted: NewSilence) -> SilenceView:
        """Stops messages about matching alerts for a while."""
        return call_api(self._transport, routes.SILENCE_ALERTS, SilenceView, body=wanted)

    def end_silence(self, silence_id: str) -> None:
        """Lets messages be sent again."""
        send_command(self._transport, routes.END_SILENCE, {"silence_id": silence_id})

    def errors(self, limit: int | None = None) -> list[ErrorGroup]:
        """The server's errors by kind and place, the latest first."""
        query = {"limit": limit}
        return call_api(self._transport, routes.LIST_ERRORS, ErrorPage, query=query).errors

    def rotate_key(self, new_key: bool = False) -> RotationProgress:
        """Re-encrypts a batch of values; call it until none remain."""
        body = KeyRotation(new_key)
        return call_api(self._transport, routes.ROTATE_KEY, RotationProgress, body=body)


def _account(account_id: str) -> dict[str, str]:
    return {"account_id": account_id}
