"""Access tokens: JWTs that live for minutes, with one algorithm and every claim required.

They say who somebody was when they signed in. Whether that still holds (session ended, key
revoked, account suspended) is read from the database at every call.
"""

import hashlib
import secrets
from datetime import datetime, timedelta
from typing import Any

import jwt
from msgspec import Struct

from potluck.model.account import Credential
from potluck.model.ids import AccountId, is_id

LONGEST_TOKEN = 1024
_ALGORITHM = "HS256"
_AUDIENCE = "potluck"
_TYPE = "at+jwt"
_CLAIMS = ["iss", "aud", "sub", "exp", "iat", "jti", "typ", "sid"]
# Signed by this one fixed algorithm; nothing in a token's header chooses a key or a place for one.
_HEADER = {"alg": _ALGORITHM, "typ": _TYPE}
_KINDS = {"access": Credential.SESSION, "node": Credential.NODE}
_LEEWAY = timedelta(seconds=5)


class Claims(Struct, frozen=True):
    account_id: AccountId
    credential: Credential
    credential_id: str


def issue(key: bytes, claims: Claims, now: datetime, lifetime: timedelta) -> str:
    kind = {credential: name for name, credential in _KINDS.items()}[claims.credential]
    payload = {
        "iss": issuer(key),
        "aud": _AUDIENCE,
        "sub": claims.account_id,
        "sid": claims.credential_id,
        "typ": kind,
        "iat": now,
        "exp": now + lifetime,
        "jti": secrets.token_hex(16),
    }
    return jwt.encode(payload, key, _ALGORITHM, headers={"typ": _TYPE})


def read(key: bytes, token: str) -> Claims | None:
    """What a token of ours says; none for anything else, whatever is wrong with it."""
    if len(token) > LONGEST_TOKEN:
        return None
    try:
        if jwt.get_unverified_header(token) != _HEADER:
            return None
        said = jwt.decode(
            token,
            key,
            algorithms=[_ALGORITHM],
            audience=_AUDIENCE,
            issuer=issuer(key),
            leeway=_LEEWAY,
            options={"require": _CLAIMS, "strict_aud": True},
        )
    except (jwt.InvalidTokenError, ValueError, RecursionError):
        return None
    return _claims(said)


def issuer(key: bytes) -> str:
    """This installation: the same for all instances, another for every other server."""
    return f"potluck-{hashlib.sha256(b'issuer' + key).hexdigest()[:16]}"


def _claims(said: dict[str, Any]) -> Claims | None:
    account_id, credential_id = said["sub"], said["sid"]
    credential = _KINDS.get(said["typ"]) if isinstance(said["typ"], str) else None
    if credential is None or not isinstance(credential_id, str) or not is_id(account_id, "account"):
        return None
    return Claims(AccountId(account_id), credential, credential_id)
