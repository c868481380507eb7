"""Access tokens: short-lived JWTs with one algorithm and all claims required.

A token identifies the caller at the time of sign-in. Whether that is still valid (session ended,
key revoked, account suspended) is read from the database at every call.
"""

import hashlib
import re
import secrets
from datetime import datetime, timedelta
from typing import Annotated

import jwt
import msgspec
from msgspec import Meta, Struct

from potluck.model.account import Credential
from potluck.model.ids import AccountId, is_id

LONGEST_TOKEN = 1024
_ALGORITHM = "HS256"
_AUDIENCE = "potluck"
_TYPE = "at+jwt"
# The algorithm is fixed; nothing in a token's header chooses a key or where to find one.
_HEADER = {"alg": _ALGORITHM, "typ": _TYPE}
# The credential of a `typ`, and the prefix of its id.
_KINDS = {"access": (Credential.SESSION, "session"), "node": (Credential.NODE, "nodekey")}
# Exactly one encoding of a token: no padding or characters that lenient decoders skip.
_SPELLING = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{43}")
_Seconds = Annotated[int, Meta(ge=0, le=2**40)]
_LEEWAY = timedelta(seconds=5)


class Claims(Struct, frozen=True):
    account_id: AccountId
    credential: Credential
    credential_id: str


class _DecodedClaims(Struct, frozen=True, forbid_unknown_fields=True):
    """All claims, with exact types, and no others."""

    iss: str
    aud: str
    sub: str
    sid: str
    typ: str
    iat: _Seconds
    exp: _Seconds
    jti: str


# Verified tokens, since clients send the same one in every call.
_READ: dict[tuple[bytes, str], _DecodedClaims] = {}
_MOST_READ = 4096


def issue(key: bytes, claims: Claims, now: datetime, lifetime: timedelta) -> str:
    kind = {credential: name for name, (credential, _) in _KINDS.items()}[claims.credential]
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


def read(key: bytes, token: str, now: datetime) -> Claims | None:
    """The claims of a valid token; None for anything else.

    The signature of a token that was verified before is not verified again.
    """
    decoded = _READ.get((key, token)) or _verified(key, token)
    if decoded is None:
        return None
    if not _is_current(decoded, now):
        _READ.pop((key, token), None)
        return None
    _remember(key, token, decoded)
    return _claims(decoded)


def _is_current(decoded: _DecodedClaims, now: datetime) -> bool:
    seconds, leeway = now.timestamp(), _LEEWAY.total_seconds()
    return decoded.iat <= seconds + leeway and decoded.exp > seconds - leeway


def _remember(key: bytes, token: str, decoded: _DecodedClaims) -> None:
    """Only valid tokens are cached, so invalid ones evict nothing."""
    if (key, token) in _READ:
        return
    while len(_READ) >= _MOST_READ:
        _READ.pop(next(iter(_READ)))
    _READ[key, token] = decoded


def _verified(key: bytes, token: str) -> _DecodedClaims | None:
    if len(token) > LONGEST_TOKEN or not _SPELLING.fullmatch(token):
        return None
    try:
        if jwt.get_unverified_header(token) != _HEADER:
            return None
        decoded = jwt.decode(
            token,
            key,
            algorithms=[_ALGORITHM],
            audience=_AUDIENCE,
            issuer=issuer(key),
            # By the machine's clock; the caller compares the times with the database's.
            options={"strict_aud": True, "verify_exp": False, "verify_iat": False},
        )
        return msgspec.convert(decoded, _DecodedClaims)
    except (jwt.InvalidTokenError, ValueError, RecursionError):
        return None


def issuer(key: bytes) -> str:
    """Identifies this installation: the same for all of its instances."""
    return f"potluck-{hashlib.sha256(b'issuer' + key).hexdigest()[:16]}"


def _claims(decoded: _DecodedClaims) -> Claims | None:
    credential, word = _KINDS.get(decoded.typ, (None, ""))
    if credential is None or not (is_id(decoded.sub, "account") and is_id(decoded.sid, word)):
        return None
    return Claims(AccountId(decoded.sub), credential, decoded.sid)
