"""What a wallet signs to authorise a node key: EIP-712, for this one type.

The server's origin is in the domain's salt and in the message, so a delegation is valid at one
server only, and the wallet shows the user which one.
"""

from typing import Any

from potluck.model.account import Scope
from potluck.wire.identity import Delegation
from potluck.wire.signing.address import keccak256

NODE_SCOPES = (str(Scope.NODE),)
_USUAL_SECONDS = 30 * 86_400

_NAME, _VERSION = "Potluck", "1"
_DOMAIN = (("name", "string"), ("version", "string"), ("salt", "bytes32"))
_NODE_KEY = (
    ("wallet", "address"),
    ("key", "address"),
    ("origin", "string"),
    ("scopes", "string[]"),
    ("issuedAt", "uint256"),
    ("expiresAt", "uint256"),
    ("nonce", "string"),
)


def lasting_seconds(longest: float) -> int:
    """How long a wallet should authorise a key, within the server's limit."""
    return int(min(_USUAL_SECONDS, longest))


def digest(delegation: Delegation) -> bytes:
    """The digest that the wallet signs, without the signature itself."""
    domain = b"".join(
        (
            _type_hash("EIP712Domain", _DOMAIN),
            _text(_NAME),
            _text(_VERSION),
            _text(delegation.origin),
        )
    )
    message = b"".join(
        (
            _type_hash("NodeKey", _NODE_KEY),
            _address(delegation.wallet),
            _address(delegation.key),
            _text(delegation.origin),
            keccak256(b"".join(map(_text, delegation.scopes))),
            delegation.issued_at.to_bytes(32),
            delegation.expires_at.to_bytes(32),
            _text(delegation.nonce),
        )
    )
    return keccak256(b"\x19\x01" + keccak256(domain) + keccak256(message))


def typed_data(delegation: Delegation) -> dict[str, Any]:
    """The delegation as `eth_signTypedData_v4` takes it, for browser wallets."""
    return {
        "types": {"EIP712Domain": _fields(_DOMAIN), "NodeKey": _fields(_NODE_KEY)},
        "primaryType": "NodeKey",
        "domain": {
            "name": _NAME,
            "version": _VERSION,
            "salt": f"0x{_text(delegation.origin).hex()}",
        },
        "message": {
            "wallet": delegation.wallet,
            "key": delegation.key,
            "origin": delegation.origin,
            "scopes": list(delegation.scopes),
            "issuedAt": delegation.issued_at,
            "expiresAt": delegation.expires_at,
            "nonce": delegation.nonce,
        },
    }


def _fields(members: tuple[tuple[str, str], ...]) -> list[dict[str, str]]:
    return [{"name": name, "type": kind} for name, kind in members]


def _type_hash(name: str, members: tuple[tuple[str, str], ...]) -> bytes:
    listed = ",".join(f"{kind} {member}" for member, kind in members)
    return keccak256(f"{name}({listed})".encode())


def _text(text: str) -> bytes:
    return keccak256(text.encode())


def _address(address: str) -> bytes:
    return bytes.fromhex(address[2:]).rjust(32, b"\0")
