"""Messages about identity: signing in, keys, invites, and account administration."""

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct

from potluck.model.account import Credential, Quota, Role, Scope
from potluck.model.bounded_types import END, PRINTABLE, Count, LineText
from potluck.model.ids import AccountId, NodeId
from potluck.wire.signing.address import AddressText

# Signatures of contract wallets can be long, but not longer than this.
SignatureText = Annotated[str, Meta(pattern=f"^0x[0-9a-fA-F]*{END}", max_length=8_194)]
MessageText = Annotated[str, Meta(max_length=2_048)]
SecretText = Annotated[str, Meta(min_length=1, max_length=512, pattern=f"^[!-~]*{END}")]
MachineText = Annotated[str, Meta(max_length=100, pattern=PRINTABLE)]
NameText = Annotated[str, Meta(min_length=1, max_length=100, pattern=PRINTABLE)]
SHORTEST_LIFETIME_SECONDS, LONGEST_LIFETIME_SECONDS = 60, 10 * 366 * 86_400
Lifetime = Annotated[int, Meta(ge=SHORTEST_LIFETIME_SECONDS, le=LONGEST_LIFETIME_SECONDS)]


# --- signing in -------------------------------------------------------------------------------


class Challenge(Struct, frozen=True):
    """Values for a sign-in message: a nonce, and this server's origins and chains."""

    nonce: str
    expires_at: datetime
    origins: list[str]
    chain_ids: list[int]
    node_key_seconds: float = 30 * 86_400.0  # the longest validity of a node key


class Login(Struct, frozen=True, forbid_unknown_fields=True):
    """An EIP-4361 message and the wallet's signature."""

    message: MessageText
    signature: SignatureText
    invite: SecretText | None = None
    machine: MachineText = ""  # its name in the list of sessions


class Tokens(Struct, frozen=True):
    """An access token for every call, and a refresh token, usable once, for the next pair."""

    access_token: str
    expires_in: float
    refresh_token: str
    account_id: AccountId
    address: str
    token_type: str = "Bearer"  # noqa: S105


class Refresh(Struct, frozen=True, forbid_unknown_fields=True):
    refresh_token: SecretText


class BrowserTokens(Struct, frozen=True):
    """An access token for a page. The refresh token is in a cookie that scripts cannot read."""

    access_token: str
    expires_in: float
    account_id: AccountId
    address: str
    token_type: str = "Bearer"  # noqa: S105


class NodeLogin(Struct, frozen=True, forbid_unknown_fields=True):
    """An EIP-4361 message, signed by a node key instead of a wallet."""

    message: MessageText
    signature: SignatureText


class NodeToken(Struct, frozen=True):
    """An access token. There is no refresh token: the node key signs again."""

    access_token: str
    expires_in: float
    account_id: AccountId
    token_type: str = "Bearer"  # noqa: S105


# --- the device flow: a terminal starts it, a browser wallet approves (RFC 8628) ----------------


class TerminalAsk(Struct, frozen=True, forbid_unknown_fields=True):
    """A sign-in request of a terminal. `node_key` also requests that key's authorisation."""

    machine: MachineText = ""
    node_key: AddressText | None = None
    invite: SecretText | None = None


class TerminalAsked(Struct, frozen=True):
    """A code for the user, and a secret for the polling terminal."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    expires_in: float
    interval: float


class TerminalView(Struct, frozen=True):
    """What the page shows before the user signs."""

    user_code: str
    machine: str
    scopes: list[Scope]
    statement: str  # the signed message must contain exactly this
    expires_at: datetime
    node_key: str | None = None


class TerminalWallet(Struct, frozen=True, forbid_unknown_fields=True):
    """The wallet that will sign, and the origin of the page."""

    address: AddressText
    chain_id: Annotated[int, Meta(ge=0, le=2**53)]  # the wallet's current chain
    origin: Annotated[str, Meta(max_length=300, pattern=f"^[!-~]*{END}")]


class TerminalDraft(Struct, frozen=True):
    """What the wallet must sign: a message, and a delegation if a node key is requested."""

    message: str
    chain_id: int  # the chain in the message
    delegation: "Delegation | None" = None  # still without a signature
    typed_data: dict[str, Any] | None = None  # the delegation, as `eth_signTypedData_v4` takes it


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
    quota: Quota = Quota()  # in effect: the account's own, or else the server's
    used_blob_bytes: int = 0  # of files, including unfinished uploads


class ChooseRoles(Struct, frozen=True, forbid_unknown_fields=True):
    """The account's own choice: consumer, provider, both or none."""

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
    next_cursor: str | None = None


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
    """Only this response contains the secret."""

    secret: str
    key: KeyView
    unusable_scopes: list[Scope] = []  # those for which the account lacks the role


class KeysRevoked(Struct, frozen=True):
    """The ids of the keys that were revoked."""

    revoked: list[str]


class KeyList(Struct, frozen=True):
    keys: list[KeyView]
    next_cursor: str | None = None


# --- node keys -----------------------------------------------------------------------------------


class Delegation(Struct, frozen=True, forbid_unknown_fields=True):
    """A wallet's authorisation (EIP-712 `NodeKey`) of a key, for one server and a limited time."""

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
    next_cursor: str | None = None


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
    quota: Quota = Quota()  # without the server's defaults
    label: str = ""  # what admins call it


class AccountPage(Struct, frozen=True):
    accounts: list[AccountView]
    next_cursor: str | None = None


class SetRoles(Struct, frozen=True, forbid_unknown_fields=True):
    """All roles of an account, including admin."""

    roles: Annotated[tuple[Role, ...], Meta(max_length=3)]


class Suspend(Struct, frozen=True, forbid_unknown_fields=True):
    reason: LineText = ""


class SetQuota(Quota, frozen=True, forbid_unknown_fields=True):
    """The complete quota of an account; omitted fields get the server's default."""


class GrantCredit(Struct, frozen=True, forbid_unknown_fields=True):
    amount_micro: Annotated[int, Meta(ge=1, le=2**53)]


class NewInvite(Struct, frozen=True, forbid_unknown_fields=True):
    roles: Annotated[tuple[Role, ...], Meta(max_length=3)] = (Role.CONSUMER,)
    credit_micro: Annotated[int, Meta(ge=0, le=2**53)] = 0  # for each account that uses it
    uses: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    expires_in: Lifetime = 7 * 86_400  # seconds
    note: LineText = ""  # for admins, such as the invited person


class InviteView(Struct, frozen=True):
    id: str
    roles: list[Role]
    credit_micro: int
    uses_left: int
    created_at: datetime
    expires_at: datetime
    note: str = ""


class InviteMade(Struct, frozen=True):
    """Only this response contains the code."""

    code: str
    invite: InviteView


class InviteList(Struct, frozen=True):
    invites: list[InviteView]
    next_cursor: str | None = None


class AuditEntry(Struct, frozen=True):
    """An audit entry; `hash` covers the entry and the hash of the previous one."""

    number: Count
    at: datetime
    kind: str
    actor: str  # the id of an account, or "server"
    subject: str
    detail: dict[str, str]
    hash: str


class AuditPage(Struct, frozen=True):
    entries: list[AuditEntry]
    next_cursor: int | None = None


class AuditVerdict(Struct, frozen=True):
    """Whether the hash chain is intact. Store its head elsewhere to detect a removed end."""

    holds: bool
    entries: int
    head: str
    broken_at: int | None = None


class KeyRotation(Struct, frozen=True, forbid_unknown_fields=True):
    """Requests a new encryption key (if the server stores it), or the next batch to re-encrypt."""

    new_key: bool = False


class RotationProgress(Struct, frozen=True):
    key_id: str
    rewritten: int
    remaining: int
    unreadable: int = 0  # values that no key decrypts, as far as seen; they stay as they are
