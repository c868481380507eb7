"""The operator's work, and whether the server is well."""

from typing import Final

from potluck.model.account import Quota, Role
from potluck.model.audit import AuditKind
from potluck.server.api.examples.example import NOTHING, Area, Example
from potluck.server.api.examples.names import ACCOUNT, INVITE, WALLET, at
from potluck.wire.consumer import ServerHealth
from potluck.wire.identity import (
    AccountPage,
    AccountView,
    AuditEntry,
    AuditPage,
    AuditVerdict,
    GrantCredit,
    InviteList,
    InviteMade,
    InviteView,
    KeyRotation,
    NewInvite,
    RotationProgress,
    SetQuota,
    SetRoles,
    Suspend,
)

_ACCOUNT = AccountView(
    ACCOUNT,
    WALLET,
    [Role.CONSUMER],
    at(9, 30),
    available_micro=4_250_000,
    held_micro=750_000,
    quota=Quota(2.0, 8),
)
_INVITE = InviteView(INVITE, [Role.CONSUMER], 5_000_000, 10, at(9, 0), at(9, 0).replace(day=23))
_HEAD = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

AREA: Final = Area(
    "operate",
    "For admins: who is here and as what, invites, credit, quotas, the record of who did what. "
    "For load balancers: whether the server lives, and whether it is ready.",
    {
        "list_accounts": Example("List the accounts", answer=AccountPage([_ACCOUNT], ACCOUNT)),
        "set_roles": Example(
            "Set the roles of an account", SetRoles((Role.CONSUMER, Role.ADMIN)), also=(409,)
        ),
        "set_quota": Example("Set the quota of an account", SetQuota(2.0, 8), NOTHING),
        "grant_credit": Example("Grant credit", GrantCredit(5_000_000), NOTHING, also=(409,)),
        "suspend_account": Example("Suspend an account", Suspend("asked for by its owner")),
        "resume_account": Example("Let an account in again", answer=NOTHING),
        "list_invites": Example("List the open invites", answer=InviteList([_INVITE])),
        "make_invite": Example(
            "Make an invite",
            NewInvite(credit_micro=5_000_000, uses=10),
            InviteMade("potluck_invite_not-a-real-one", _INVITE),
            also=(409,),
        ),
        "revoke_invite": Example("Revoke an invite", answer=NOTHING),
        "audit": Example(
            "Read the audit log",
            answer=AuditPage(
                [
                    AuditEntry(
                        42,
                        at(9, 30),
                        AuditKind.INVITE_MADE,
                        ACCOUNT,
                        INVITE,
                        {"uses": "10"},
                        _HEAD,
                    )
                ],
                42,
            ),
        ),
        "verify_audit": Example("Verify the audit log", answer=AuditVerdict(True, 42, _HEAD)),
        "rotate_key": Example(
            "Rotate the encryption key", KeyRotation(True), RotationProgress("k2", 0, 128)
        ),
        "healthz": Example("Is the process alive?", answer=ServerHealth("ok", "0.1.0")),
        "readyz": Example(
            "Is the server ready?",
            answer=ServerHealth("ok", "0.1.0", {"database": "ok", "live": "ok", "scheduler": "ok"}),
        ),
    },
)
