"""Which packets leave a sandbox, and which queries for names are answered."""

import struct
from ipaddress import IPv4Address

import pytest

from potluck.provider.egress.raw.name_queries import (
    AAAA,
    NO_ERROR,
    NO_NAME,
    A,
    read_query,
    write_answer,
)
from potluck.provider.egress.raw.packets import PacketCheck, endpoint_of, query_gateway, refusal_of

PUBLIC, OWN = "151.101.0.223", "185.199.108.1"
TCP, UDP, ICMP, SCTP = 6, 17, 1, 132


def a_frame(
    destination: str = PUBLIC,
    protocol: int = TCP,
    kind: bytes = b"\x08\x00",
    version: int = 4,
    options: bytes = b"",
) -> bytes:
    header_words = 5 + len(options) // 4
    header = struct.pack(">BBHIBBH", version << 4 | header_words, 0, 40, 0, 64, protocol, 0)
    addresses = IPv4Address("192.0.0.2").packed + IPv4Address(destination).packed
    ports = struct.pack(">HH", 40_000, 22)
    return bytes(12) + kind + header + addresses + options + ports + bytes(16)


def a_check() -> PacketCheck:
    check = PacketCheck()
    check.set_own([OWN])
    return check


@pytest.mark.parametrize("protocol", [TCP, UDP])
def test_a_public_address_is_reached(protocol: int) -> None:
    frame = a_frame(protocol=protocol)
    assert a_check().may_leave(frame)
    assert endpoint_of(frame) == f"{PUBLIC}:22"
    assert endpoint_of(a_frame(options=bytes(8))) == f"{PUBLIC}:22", "behind options of IP"


@pytest.mark.parametrize(
    "frame",
    [
        *(
            a_frame(destination)
            for destination in (OWN, "10.0.0.1", "127.0.0.1", "169.254.169.254", "224.0.0.1")
        ),
        a_frame("192.0.0.1"),
        a_frame(protocol=ICMP),
        a_frame(protocol=SCTP),
        a_frame(kind=b"\x86\xdd"),  # IPv6
        a_frame(kind=b"\x81\x00"),  # with a tag of a virtual network
        a_frame(version=6),
        a_frame()[:33],
        b"",
    ],
)
def test_other_packets_are_dropped(frame: bytes) -> None:
    assert not a_check().may_leave(frame)


def test_packets_are_dropped_until_the_own_addresses_are_known() -> None:
    check = PacketCheck()
    assert not check.may_leave(a_frame())
    check.set_own([])
    assert check.may_leave(a_frame())
    check.set_own([PUBLIC])
    assert not check.may_leave(a_frame()), "a new address counts at once"


def test_a_refusal_goes_back_to_its_sender_and_quotes_the_packet() -> None:
    frame = a_frame("10.0.0.1")
    refusal = refusal_of(frame)
    assert refusal[30:34] == frame[26:30]
    assert refusal[34:36] == bytes((3, 13))
    assert refusal[42:] == frame[14:42]
    for part in (refusal[14:34], refusal[34:]):
        total = sum(struct.unpack(f">{len(part) // 2}H", part))
        assert (total & 0xFFFF) + (total >> 16) == 0xFFFF, "the checksum is right"


def test_queries_for_the_gateway_stay_on_the_link() -> None:
    assert a_check().may_leave(query_gateway())


def a_query(name: str, kind: int = A, flags: int = 0x0100) -> bytes:
    labels = b"".join(bytes((len(part),)) + part.encode() for part in name.split("."))
    return struct.pack(">HHHHHH", 7, flags, 1, 0, 0, 0) + labels + struct.pack(">BHH", 0, kind, 1)


def test_a_query_is_answered_with_addresses() -> None:
    query = read_query(a_query("Site.Example.org"))
    assert query is not None and query.name == "site.example.org"
    response = write_answer(query, NO_ERROR, [IPv4Address(PUBLIC)])
    assert response[:8] == struct.pack(">HHHH", 7, 0x8180, 1, 1)
    assert response.endswith(IPv4Address(PUBLIC).packed)
    assert write_answer(query, NO_NAME)[3] & 0xF == NO_NAME
    assert len(write_answer(query, NO_ERROR, [IPv4Address(PUBLIC)] * 100)) <= 512


def test_ipv6_queries_get_an_empty_answer() -> None:
    query = read_query(a_query("example.org", AAAA))
    assert query is not None
    assert write_answer(query, NO_ERROR, [IPv4Address(PUBLIC)])[6:8] == b"\0\0"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        a_query("example.org")[:20],
        a_query("example.org", flags=0x8000),
        struct.pack(">HHHHHH", 7, 0, 2, 0, 0, 0) + bytes(5),
        struct.pack(">HHHHHH", 7, 0, 1, 0, 0, 0) + bytes((0, 0, 1, 0, 1)),
        struct.pack(">HHHHHH", 7, 0, 1, 0, 0, 0) + b"\xff" * 40,
    ],
)
def test_invalid_name_queries_are_ignored(data: bytes) -> None:
    assert read_query(data) is None
