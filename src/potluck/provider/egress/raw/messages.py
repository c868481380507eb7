"""What the packet relay and the provider say to each other: one JSON value a line."""

from msgspec import Struct

LINE_BYTES = 65_536


class WantBytes(Struct, frozen=True, tag="bytes"):
    """Needs so many bytes for a packet that waits, if one does, and takes some more in advance."""

    needed: int
    ahead: int


class WantAddresses(Struct, frozen=True, tag="name"):
    number: int
    name: str


class PacketRefused(Struct, frozen=True, tag="refused"):
    """The first packet to this address and port."""

    endpoint: str


class UnusedBytes(Struct, frozen=True, tag="unused"):
    """Of those that were granted; the last message."""

    unused: int


class GrantedBytes(Struct, frozen=True, tag="granted"):
    granted: int
    is_over: bool = False  # the limit is reached


class FoundAddresses(Struct, frozen=True, tag="found"):
    number: int
    addresses: tuple[str, ...] | None  # None: the name does not exist, or is not public


class OwnAddressList(Struct, frozen=True, tag="own"):
    """The addresses of this machine at this moment."""

    addresses: tuple[str, ...]


FromRelay = WantBytes | WantAddresses | PacketRefused | UnusedBytes
ToRelay = GrantedBytes | FoundAddresses | OwnAddressList
