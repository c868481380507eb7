"""A registration that can not be read may be one of another protocol: then that is what is said."""

from msgspec import Struct

from potluck.model.decode_errors import plain
from potluck.model.error import InvalidInput
from potluck.server.flow.lease.check_offer import check_protocol
from potluck.wire import codec
from potluck.wire.provider import PROTOCOL


class _Machine(Struct, frozen=True):
    potluck_version: str = "of an unknown version"


class _Registration(Struct, frozen=True):
    """As much of it as any protocol will have."""

    protocol: int = PROTOCOL
    description: _Machine = _Machine()


def check(body: bytes) -> None:
    """Raises UpgradeRequired for another protocol than ours."""
    try:
        said = codec.decode_json(body, _Registration)
    except InvalidInput:
        return
    check_protocol(said.protocol, plain(said.description.potluck_version)[:200])
