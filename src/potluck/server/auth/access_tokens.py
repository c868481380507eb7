"""Access tokens: JWTs that live for minutes, with one algorithm and every claim required.

They say who somebody was when they signed in. Whether that still holds (session ended, key
revoked, account suspended) is read from the database at every call.
"""

import hashlib
import re
import secrets
import time
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
# Signed by this one fixed algorithm; nothing in a token's header chooses a key or a place for one.
_HEADER = {"alg": _ALGORITHM, "typ": _TYPE}
# What stands for the credential, and what its id begins with.
_KINDS = {"access": (Credential.SESSION, "session"), "node": (Credential.NODE, "nodekey")}
# One spelling for a token: padding and characters that a lenient reader skips would be more.
_SPELLING = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{43}")
_Seconds = Annotated[int, Meta(ge=0, le=2**40)]
_LEEWAY = timedelta(seconds=5)


class Claims(Struct, frozen=True):
    account_id: AccountId
    credential: Credential
    credential_id: str


class _DecodedClaims(Struct, frozen=True, forbid_unknown_fields=True):
    """Every claim, of exactly its type, and none besides."""

    iss: str
    aud: str
    sub: str
    sid: str
    typ: str
    iat: _Seconds
    exp: _Seconds
    jti: str


# Whoever calls again and again shows the same one: it is reckoned once.
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


def read(key: bytes, token: str) -> Claims | None:
    """What a token of ours says; none for anything else, whatever is wrong with it.

    One that was read before is believed without reckoning, for as long as it says.
    """
    said = _READ.get((key, token))
    if said is None:
        said = _verified(key, token)
        if said is None:
            return None
        _remember(key, token, said)
    elif said.exp <= time.time() - _LEEWAY.total_seconds():
        del _READ[key, token]
        return None
    return _claims(said)


def _remember(key: bytes, token: str, said: _DecodedClaims) -> None:
    """Of those that are ours only: junk pushes nobody out."""
    while len(_READ) >= _MOST_READ:
        _READ.pop(next(iter(_READ)))
    _READ[key, token] = said


def _verified(key: bytes, token: str) -> _DecodedClaims | None:
    if len(token) > LONGEST_TOKEN or not _SPELLING.fullmatch(token):
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
            options={"strict_aud": True},
        )
        return msgspec.convert(said, _DecodedClaims)
    except (jwt.InvalidTokenError, ValueError, RecursionError):
        return None


def issuer(key: bytes) -> str:
    """This installation: the same for all instances, another for every other server."""
    return f"potluck-{hashlib.sha256(b'issuer' + key).hexdigest()[:16]}"


def _claims(said: _DecodedClaims) -> Claims | None:
    credential, word = _KINDS.get(said.typ, (None, ""))
    if credential is None or not (is_id(said.sub, "account") and is_id(said.sid, word)):
        return None
    return Claims(AccountId(said.sub), credential, said.sid)
