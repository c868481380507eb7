"""Messages about who somebody is: signing in, keys, invites, and what admins do about accounts."""

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

from potluck.model.account import Credential, Quota, Role, Scope
from potluck.model.bounded_types import (
    END,
    PRINTABLE,
    Count,
    LineText,
)
from potluck.model.ids import AccountId, NodeId
from potluck.wire.signing.address import AddressText

# A contract wallet's signature may be long; nobody's is longer than this.
SignatureText = Annotated[str, Meta(pattern=f"^0x[0-9a-fA-F]*{END}", max_length=8_194)]
MessageText = Annotated[str, Meta(max_length=2_048)]
SecretText = Annotated[str, Meta(min_length=1, max_length=512, pattern=f"^[!-~]*{END}")]
MachineText = Annotated[str, Meta(max_length=100, pattern=PRINTABLE)]
NameText = Annotated[str, Meta(min_length=1, max_length=100, pattern=PRINTABLE)]
SHORTEST_LIFETIME_SECONDS, LONGEST_LIFETIME_SECONDS = 60, 10 * 366 * 86_400
Lifetime = Annotated[int, Meta(ge=SHORTEST_LIFETIME_SECONDS, le=LONGEST_LIFETIME_SECONDS)]


# --- signing in -------------------------------------------------------------------------------


class Challenge(Struct, frozen=True):
    """What a sign-in message has to say: a nonce of this server, one of its origins and chains."""

    nonce: str
    expires_at: datetime
    origins: list[str]
    chain_ids: list[int]
    node_key_seconds: float = 30 * 86_400.0  # the longest that a node key is authorised for


class Login(Struct, frozen=True, forbid_unknown_fields=True):
    """An EIP-4361 message and the wallet's signature of it."""

    message: MessageText
    signature: SignatureText
    invite: SecretText | None = None
    machine: MachineText = ""  # what the list of sessions calls it


class Tokens(Struct, frozen=True):
    """The access token for every call, and the refresh token for the next pair. Once each."""

    access_token: str
    expires_in: float
    refresh_token: str
    account_id: AccountId
    address: str
    token_type: str = "Bearer"  # noqa: S105


class Refresh(Struct, frozen=True, forbid_unknown_fields=True):
    refresh_token: SecretText


class NodeLogin(Struct, frozen=True, forbid_unknown_fields=True):
    """An EIP-4361 message signed by a node key instead of a wallet."""

    message: MessageText
    signature: SignatureText


class NodeToken(Struct, frozen=True):
    """There is no refresh token: the node key signs again."""

    access_token: str
    expires_in: float
    account_id: AccountId
    token_type: str = "Bearer"  # noqa: S105


# --- the device flow: a terminal asks, a browser wallet approves (RFC 8628) ---------------------


class TerminalAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """A terminal asks to be let in. With `node_key` it asks for that key to be authorised too."""

    machine: MachineText = ""
    node_key: AddressText | None = None
    invite: SecretText | None = None


class TerminalAsked(Struct, frozen=True):
    """The code for the person, the secret for the terminal that polls."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    expires_in: float
    interval: float


class TerminalView(Struct, frozen=True):
    """What the page shows before somebody signs."""

    user_code: str
    machine: str
    scopes: list[Scope]
    statement: str  # the signed message has to carry exactly this
    expires_at: datetime
    node_key: str | None = None


class TerminalWallet(Struct, frozen=True, forbid_unknown_fields=True):
    """The wallet that will sign, and where its owner looks at the page."""

    address: AddressText
    chain_id: Annotated[int, Meta(ge=0, le=2**53)]  # that the wallet is set to
    origin: Annotated[str, Meta(max_length=300, pattern=f"^[!-~]*{END}")]


class TerminalDraft(Struct, frozen=True):
    """What that wallet has to sign: a message, and a delegation where a node key is asked for."""

    message: str
    chain_id: int  # that the message names
    delegation: "Delegation | None" = None  # without its signature yet
    typed_data: dict[str, Any] | None = None  # the same, as `eth_signTypedData_v4` takes it


class TerminalApproval(Struct, frozen=True, forbid_unknown_fields=True):
    message: MessageText
    signature: SignatureText
    delegation: "Delegation | None" = None


class TerminalPoll(Struct, frozen=True, forbid_unknown_fields=True):
    device_code: Annotated[str, Meta(min_length=1, max_length=2_048, pattern=f"^[!-~]*{END}")]


# --- the account itself --------------------------------------------------------------------------


class Me(Struct, frozen=True):
    """The account behind the credential."""

    id: AccountId
    address: str
    roles: list[Role]
    signed_in_by: Credential
    scopes: list[Scope]
    available_micro: int
    held_micro: int
    quota: Quota = Quota()  # in force: where the account has none of its own, the server's
    used_blob_bytes: int = 0  # of files, those on their way included


class ChooseRoles(Struct, frozen=True, forbid_unknown_fields=True):
    """An account's own choice: consumer, provider, both or none."""

    roles: Annotated[tuple[Role, ...], Meta(max_length=3)]


class SessionView(Struct, frozen=True):
    id: str
    machine: str
    created_at: datetime
    used_at: datetime
    expires_at: datetime
    is_current: bool


class SessionList(Struct, frozen=True):
    sessions: list[SessionView]


class NewKey(Struct, frozen=True, forbid_unknown_fields=True):
    name: NameText
    scopes: Annotated[tuple[Scope, ...], Meta(min_length=1, max_length=10)]
    expires_in: Lifetime = 90 * 86_400  # seconds


class KeyView(Struct, frozen=True):
    id: str
    name: str
    scopes: list[Scope]
    created_at: datetime
    expires_at: datetime
    used_at: datetime | None = None


class KeyMade(Struct, frozen=True):
    """The secret is in this answer and nowhere else."""

    secret: str
    key: KeyView


class KeyList(Struct, frozen=True):
    keys: list[KeyView]


# --- node keys -----------------------------------------------------------------------------------


class Delegation(Struct, frozen=True, forbid_unknown_fields=True):
    """A wallet's word (EIP-712 `NodeKey`) that this key may work for it, here and until then."""

    wallet: AddressText
    key: AddressText
    origin: Annotated[str, Meta(max_length=300)]
    scopes: Annotated[tuple[str, ...], Meta(min_length=1, max_length=10)]
    issued_at: Annotated[int, Meta(ge=0, le=2**40)]
    expires_at: Annotated[int, Meta(ge=0, le=2**40)]
    nonce: Annotated[str, Meta(min_length=8, max_length=200, pattern=f"^[A-Za-z0-9]*{END}")]
    signature: SignatureText


class NewNodeKey(Struct, frozen=True, forbid_unknown_fields=True):
    delegation: Delegation
    machine: MachineText = ""


class NodeKeyView(Struct, frozen=True):
    id: str
    key: str
    machine: str
    scopes: list[str]
    origin: str
    issued_at: datetime
    expires_at: datetime
    node_id: NodeId | None = None
    used_at: datetime | None = None


class NodeKeyList(Struct, frozen=True):
    node_keys: list[NodeKeyView]


# --- admins --------------------------------------------------------------------------------------


class AccountView(Struct, frozen=True):
    id: AccountId
    address: str
    roles: list[Role]
    created_at: datetime
    available_micro: int
    held_micro: int
    suspended_at: datetime | None = None
    suspended_for: str = ""
    quota: Quota = Quota()  # its own


class AccountPage(Struct, frozen=True):
    accounts: list[AccountView]
    next_cursor: str | None = None


class SetRoles(Struct, frozen=True, forbid_unknown_fields=True):
    """All roles of an account, admin among them."""

    roles: Annotated[tuple[Role, ...], Meta(max_length=3)]


class Suspend(Struct, frozen=True, forbid_unknown_fields=True):
    reason: LineText = ""


class SetQuota(Quota, frozen=True, forbid_unknown_fields=True):
    """The whole quota of an account; what is left out is as for everybody."""


class GrantCredit(Struct, frozen=True, forbid_unknown_fields=True):
    amount_micro: Annotated[int, Meta(ge=1, le=2**53)]


class NewInvite(Struct, frozen=True, forbid_unknown_fields=True):
    roles: Annotated[tuple[Role, ...], Meta(max_length=3)] = (Role.CONSUMER,)
    credit_micro: Annotated[int, Meta(ge=0, le=2**53)] = 0  # for each account that it lets in
    uses: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    expires_in: Lifetime = 7 * 86_400  # seconds


class InviteView(Struct, frozen=True):
    id: str
    roles: list[Role]
    credit_micro: int
    uses_left: int
    created_at: datetime
    expires_at: datetime


class InviteMade(Struct, frozen=True):
    """The code is in this answer and nowhere else."""

    code: str
    invite: InviteView


class InviteList(Struct, frozen=True):
    invites: list[InviteView]


class AuditEntry(Struct, frozen=True):
    """One fact of the record; `hash` covers all of it and the hash before it."""

    number: Count
    at: datetime
    kind: str
    actor: str  # an account's id, or "server"
    subject: str
    detail: dict[str, str]
    hash: str


class AuditPage(Struct, frozen=True):
    entries: list[AuditEntry]
    next_cursor: int | None = None


class AuditVerdict(Struct, frozen=True):
    """Whether the chain holds, how far, and its head: keep that elsewhere to notice a cut end."""

    holds: bool
    entries: int
    head: str
    broken_at: int | None = None


class KeyRotation(Struct, frozen=True, forbid_unknown_fields=True):
    """Asks for a new encryption key (where the server keeps it), or for more of the rewriting."""

    new_key: bool = False


class RotationProgress(Struct, frozen=True):
    key_id: str
    rewritten: int
    remaining: int
    unreadable: int = 0  # what no key opens, as far as was looked; it stays as it is
