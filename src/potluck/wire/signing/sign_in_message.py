"""The EIP-4361 message that a wallet signs to sign in: written by clients, read by the server.

Reading is strict, bounded and takes linear time. `server/auth/sign_in.py` checks the content.
"""

import re
from datetime import UTC, datetime

from msgspec import Struct

from potluck.model.error import InvalidInput
from potluck.wire.signing.address import ADDRESS_PATTERN, checksummed
from potluck.wire.signing.uri import PCHAR, is_authority, is_uri

LONGEST_MESSAGE = 2048  # bytes

_OPENING = " wants you to sign in with your Ethereum account:"
_MOMENT = (
    r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
    r"[Tt](?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\.[0-9]+)?"
    r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_MESSAGE = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*)://)?(?P<domain>[^\s/?#]+)"
    + re.escape(_OPENING)
    + rf"\n(?P<address>{ADDRESS_PATTERN})\n\n"
    # Printable ASCII, except for the characters that RFC 3986 neither reserves nor allows.
    r"(?:(?P<statement>[A-Za-z0-9._~\-:/?#\[\]@!$&'()*+,;= ]*)\n)?\n"
    r"URI: (?P<uri>\S+)\n"
    r"Version: (?P<version>1)\n"
    r"Chain ID: (?P<chain_id>[0-9]{1,78})\n"
    r"Nonce: (?P<nonce>[A-Za-z0-9]{8,})\n"
    rf"Issued At: (?P<issued_at>{_MOMENT})"
    rf"(?:\nExpiration Time: (?P<expiration_time>{_MOMENT}))?"
    rf"(?:\nNot Before: (?P<not_before>{_MOMENT}))?"
    rf"(?:\nRequest ID: (?P<request_id>{PCHAR}*))?"
    r"(?P<resources>\nResources:(?:\n- \S+)*)?"
)


class SignIn(Struct, frozen=True, kw_only=True):
    """The fields of a sign-in message. Times are kept as written."""

    domain: str
    address: str
    uri: str
    version: str
    chain_id: int
    nonce: str
    issued_at: str
    scheme: str | None = None
    statement: str | None = None
    expiration_time: str | None = None
    not_before: str | None = None
    request_id: str | None = None
    resources: tuple[str, ...] | None = None


def write(fields: SignIn) -> str:
    """The text to sign. Raises InvalidInput if it could not be read back."""
    opening = f"{fields.scheme}://{fields.domain}" if fields.scheme else fields.domain
    lines = [f"{opening}{_OPENING}", fields.address, ""]
    lines += [] if fields.statement is None else [fields.statement]
    lines += [
        "",
        f"URI: {fields.uri}",
        f"Version: {fields.version}",
        f"Chain ID: {fields.chain_id}",
        f"Nonce: {fields.nonce}",
        f"Issued At: {fields.issued_at}",
    ]
    optional = (
        ("Expiration Time", fields.expiration_time),
        ("Not Before", fields.not_before),
        ("Request ID", fields.request_id),
    )
    lines += [f"{name}: {value}" for name, value in optional if value is not None]
    if fields.resources is not None:
        lines += ["Resources:", *(f"- {resource}" for resource in fields.resources)]
    text = "\n".join(lines)
    if read(text) != fields:
        raise InvalidInput("A sign-in message cannot contain these values.")
    return text


def read(text: str) -> SignIn:
    """Parses the text. Raises InvalidInput for anything that EIP-4361 does not allow."""
    if len(text.encode("utf-8", "surrogatepass")) > LONGEST_MESSAGE:
        raise InvalidInput(f"The message is longer than {LONGEST_MESSAGE} bytes.")
    match = _MESSAGE.fullmatch(text)
    if match is None:
        raise _unreadable()
    found = match.groupdict()
    resources = _resources(found.pop("resources"))
    fields = SignIn(resources=resources, chain_id=int(found.pop("chain_id")), **found)
    if fields.address != checksummed(fields.address):
        raise InvalidInput("The address in the message does not have the EIP-55 spelling.")
    if not (is_authority(fields.domain) and all(map(is_uri, (fields.uri, *(resources or ()))))):
        raise _unreadable()
    for written in (fields.issued_at, fields.expiration_time, fields.not_before):
        if written is not None:
            moment(written)
    return fields


def moment(written: str) -> datetime:
    """Parses a time of the message. Raises InvalidInput for a day that does not exist."""
    # Python has no leap seconds: take the second before.
    plain = re.sub(r"(?<=:\d\d:)60", "59", written.upper())
    plain = re.sub(r"\.(\d{1,6})\d*", lambda match: f".{match[1]:0<6}", plain)
    try:
        return datetime.fromisoformat(plain).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(
            f"The message contains a time that does not exist: {written}."
        ) from error


def _resources(block: str | None) -> tuple[str, ...] | None:
    if block is None:
        return None
    return tuple(line.removeprefix("- ") for line in block.split("\n")[2:])


def _unreadable() -> InvalidInput:
    return InvalidInput(
        "The message is not a valid EIP-4361 sign-in message.",
        "Sign the message that the client writes, unchanged.",
    )
