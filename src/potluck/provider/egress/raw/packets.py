"""Decides which packets leave a sandbox: TCP and UDP over IPv4, to public addresses.

The same table as for the proxy says what is public. Nothing else passes, whatever a program does
with its sockets: routes and devices that it names play no part here.
"""

import struct
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, ip_address

from potluck.model.network.public_address import Address, own_address_check, why_not_public

# Of the interface inside, and of the other end of its link; neither is public.
INSIDE, GATEWAY, PREFIX_BITS = "192.0.0.2", "192.0.0.1", 29
ETHERNET_BYTES = 14
_HEADER_BYTES = 20  # of IPv4, without options
_IPV4, _ARP = b"\x08\x00", b"\x08\x06"
_TCP, _UDP, _ICMP = 6, 17, 1
_MOST_KNOWN = 65_536
_PROHIBITED = (3, 13)  # type and code of ICMP: a filter on the way


class PacketCheck:
    """Remembers what it found out about an address until the owner's addresses change."""

    def __init__(self) -> None:
        self._is_own: Callable[[Address], bool] = lambda _: True  # until it is told
        self._known: dict[bytes, bool] = {}

    def set_own(self, addresses: Iterable[str]) -> None:
        self._is_own = own_address_check(ip_address(address) for address in addresses)
        self._known.clear()

    def may_leave(self, frame: bytes) -> bool:
        kind = frame[12:ETHERNET_BYTES]
        if kind == _ARP:  # passt answers it, and nothing else sees it
            return True
        return endpoint_of(frame) is not None and self._is_allowed(frame[30:34])

    def _is_allowed(self, destination: bytes) -> bool:
        allowed = self._known.get(destination)
        if allowed is None:
            address = IPv4Address(destination)
            allowed = why_not_public(address) is None and not self._is_own(address)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[destination] = allowed
        return allowed


def endpoint_of(frame: bytes) -> str | None:
    """Where a packet of TCP or UDP goes; None for everything else."""
    if len(frame) < ETHERNET_BYTES + _HEADER_BYTES or frame[12:ETHERNET_BYTES] != _IPV4:
        return None
    if frame[14] >> 4 != 4 or frame[23] not in (_TCP, _UDP):
        return None
    start = ETHERNET_BYTES + 4 * (frame[14] & 0xF)
    port = int.from_bytes(frame[start + 2 : start + 4])
    return f"{IPv4Address(frame[30:34])}:{port}"


def query_gateway() -> bytes:
    """The broadcast by which a machine asks who has the gateway's address."""
    own, everyone, unknown = b"\x02" + bytes(5), b"\xff" * 6, bytes(6)
    asking = struct.pack(">H2sBBH", 1, _IPV4, len(own), 4, 1)
    addresses = own + IPv4Address(INSIDE).packed + unknown + IPv4Address(GATEWAY).packed
    return everyone + own + _ARP + asking + addresses


def refusal_of(frame: bytes) -> bytes:
    """The packet that tells the sender at once; without it a connection would wait for minutes."""
    ethernet = frame[6:12] + frame[0:6] + _IPV4
    quoted = frame[ETHERNET_BYTES : ETHERNET_BYTES + 4 * (frame[14] & 0xF) + 8]
    body = struct.pack(">BBHI", *_PROHIBITED, 0, 0) + quoted
    body = body[:2] + _checksum(body) + body[4:]
    length = _HEADER_BYTES + len(body)
    header = struct.pack(">BBHIBBH", 0x45, 0, length, 0, 64, _ICMP, 0)
    header += IPv4Address(GATEWAY).packed + frame[26:30]
    return ethernet + header[:10] + _checksum(header) + header[12:] + body


def _checksum(data: bytes) -> bytes:
    padded = data + b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack(">H", ~total & 0xFFFF)
