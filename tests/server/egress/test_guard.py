"""Addresses that the server must not reach for a stranger are refused before anything is opened."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

import pytest

from potluck.local.network.name_lookup import NAMES_AT_ONCE, NAMES_OF_ONE, Busy, SystemNames
from potluck.model.error import BadSettings, DestinationRefused
from potluck.model.network.public_address import why_not_public
from potluck.server.egress.allow_list import read_allowed
from potluck.server.egress.send import GuardedSender
from potluck.server.egress.types import Unreachable
from tests.server.egress.recording_connector import Canary, Names, Recorder, outward

# Each of these means a place that is nobody's business, or could mean one to somebody.
REFUSED = {
    "loopback": "https://127.0.0.1/",
    "loopback, another": "https://127.255.255.254/",
    "loopback, short": "https://127.1/",
    "loopback, shorter": "https://0/",
    "loopback, a number": "https://2130706433/",
    "loopback, hexadecimal": "https://0x7f000001/",
    "loopback, hexadecimal parts": "https://0x7f.0.0.1/",
    "loopback, octal": "https://0177.0.0.1/",
    "loopback, octal whole": "https://017700000001/",
    "loopback, zeros in front": "https://127.000.000.001/",
    "loopback, a dot behind": "https://127.0.0.1./",
    "loopback, IPv6": "https://[::1]/",
    "loopback, IPv6 at length": "https://[0:0:0:0:0:0:0:1]/",
    "loopback, mapped": "https://[::ffff:127.0.0.1]/",
    "loopback, mapped in hex": "https://[::ffff:7f00:1]/",
    "loopback, compatible": "https://[::127.0.0.1]/",
    "loopback, translated": "https://[::ffff:0:127.0.0.1]/",
    "loopback, NAT64": "https://[64:ff9b::7f00:1]/",
    "loopback, local NAT64": "https://[64:ff9b:1::7f00:1]/",
    "loopback, 6to4": "https://[2002:7f00:1::]/",
    "loopback, Teredo": "https://[2001:0:4136:e378:8000:63bf:80ff:fffe]/",
    "loopback, ISATAP": "https://[2606:4700::5efe:7f00:1]/",
    "a name of loopback": "https://localhost/",
    "a name below that": "https://db.localhost/",
    "in capitals": "https://LOCALHOST/",
    "a name with a dot behind": "https://localhost./",
    "circled digits": "https://①②⑦.⓪.⓪.①/",
    "full stops of elsewhere": "https://127。0。0。1/",
    "unspecified": "https://0.0.0.0/",
    "unspecified, IPv6": "https://[::]/",
    "this network": "https://0.1.2.3/",
    "private, ten": "https://10.0.0.1/",
    "private, a dozen": "https://172.16.0.1/",
    "private, the last": "https://172.31.255.255/",
    "private, at home": "https://192.168.1.1/",
    "private, IPv6": "https://[fd00::1]/",
    "private, NAT64": "https://[64:ff9b::a00:1]/",
    "private, 6to4": "https://[2002:a00:1::1]/",
    "site-local": "https://[fec0::1]/",
    "a carrier's": "https://100.64.0.1/",
    "a carrier's last": "https://100.127.255.255/",
    "link-local, the metadata of clouds": "https://169.254.169.254/latest/meta-data/",
    "link-local, mapped": "https://[::ffff:169.254.169.254]/",
    "link-local, NAT64": "https://[64:ff9b::a9fe:a9fe]/",
    "link-local, IPv6": "https://[fe80::1]/",
    "with a zone": "https://[fe80::1%25eth0]/",
    "with a zone, raw": "https://[fe80::1%eth0]/",
    "loopback with a zone": "https://[::1%25lo]/",
    "metadata of a cloud, IPv6": "https://[fd00:ec2::254]/",
    "metadata of a cloud, IPv6, another": "https://[fd20:ce::254]/",
    "metadata of a cloud, among carriers": "https://100.100.100.200/",
    "metadata of a cloud, among protocols": "https://192.0.0.192/",
    "the host of a cloud's machine": "https://168.63.129.16/",
    "the host of a cloud's machine, mapped": "https://[::ffff:168.63.129.16]/",
    "the host of a cloud's machine, NAT64": "https://[64:ff9b::a83f:8110]/",
    "a cloud's services": "https://161.26.0.10/",
    "a cloud's other services": "https://166.9.250.194/",
    "metadata by its name": "https://metadata.google.internal/",
    "multicast": "https://224.0.0.1/",
    "multicast, the last": "https://239.255.255.255/",
    "multicast, IPv6": "https://[ff02::1]/",
    "broadcast": "https://255.255.255.255/",
    "reserved": "https://240.0.0.1/",
    "protocols": "https://192.0.0.8/",
    "a relay": "https://192.88.99.1/",
    "benchmarks": "https://198.18.0.1/",
    "documentation": "https://203.0.113.1/",
    "documentation, IPv6": "https://[2001:db8::1]/",
    "a sink": "https://[100::1]/",
    "given out to nobody": "https://[4000::1]/",
    "segment routing": "https://[5f00::1]/",
    "a name in one word": "https://intranet/",
    "a printer's name": "https://printer.local/",
    "a name of a network": "https://router.lan/",
    "a name for tests": "https://hooks.example/",
    "an onion": "https://abcdefghij.onion/",
    "a user name": "https://user@hooks.public.org/",
    "a user and a password": "https://user:word@hooks.public.org/",
    "a host before the at": "https://hooks.public.org@127.0.0.1/",
    "a host in the user's place": "https://127.0.0.1@hooks.public.org/",
    "a backslash": "https://hooks.public.org\\@127.0.0.1/",
    "a backslash before": "https:\\\\127.0.0.1/",
    "a tab": "https://127.0.0.1\t/",
    "a line break": "https://hooks.public.org/\r\nHost: x",
    "a space": "https://hooks.public.org /",
    "a NUL": "https://hooks.public.org\0/",
    "an escaped dot": "https://127%2e0%2e0%2e1/",
    "a part after #": "https://hooks.public.org#@127.0.0.1/",
    "a question before the host ends": "https://hooks.public.org?@127.0.0.1\\/",
    "in the clear": "http://hooks.public.org/",
    "another scheme": "ftp://hooks.public.org/",
    "a file": "file:///etc/passwd",
    "gopher": "gopher://127.0.0.1:70/_x",
    "a socket": "unix:///run/docker.sock",
    "no scheme": "//127.0.0.1/",
    "nothing": "",
    "port of SSH": "https://hooks.public.org:22/",
    "port of a database": "https://hooks.public.org:5432/",
    "port of the web in the clear": "https://hooks.public.org:80/",
    "port zero": "https://hooks.public.org:0/",
    "port beyond": "https://hooks.public.org:65536/",
    "port that wraps": "https://hooks.public.org:65979/",
    "an empty port": "https://hooks.public.org:/",
    "a port of letters": "https://hooks.public.org:4e2/",
    "two hosts": "https://hooks.public.org,127.0.0.1/",
    "an empty label": "https://hooks..public.org/",
    "a hyphen in front": "https://-hooks.public.org/",
    "an underscore": "https://a_b.public.org/",
    "a label too long": f"https://{'a' * 64}.public.org/",
    "a name too long": f"https://{'a.' * 130}org/",
    "letters that look alike": "https://hоoks.public.org/",
    "an open bracket": "https://[::1/",
    "brackets round a name": "https://[hooks.public.org]/",
    "too many groups": "https://[1:2:3:4:5:6:7:8:9]/",
    "too long": "https://hooks.public.org/" + "x" * 3_000,
}
# A name that leads to any of these, alone or among public ones.
NOT_PUBLIC = [
    *("127.0.0.1", "10.1.2.3", "169.254.169.254", "192.168.0.1", "100.64.0.1", "0.0.0.0"),
    *("224.0.0.1", "255.255.255.255", "192.0.0.8", "::1", "::", "fe80::1", "fe80::1%eth0"),
    *("fd00::1", "ff02::1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"),
    *("2001:0:4136:e378:8000:63bf:80ff:fffe", "::7f00:1", "fec0::1", "2001:db8::1"),
    "168.63.129.16",
]
PUBLIC = [
    "168.63.129.15",
    "168.63.129.17",
    "1.1.1.1",
    "8.8.8.8",
    "198.41.0.4",
    "2606:4700:4700::1111",
    "2a00:1450:4001::1",
]


@pytest.fixture
def canary() -> Iterator[Canary]:
    listener = Canary()
    yield listener
    listener.close()


@pytest.mark.parametrize("url", REFUSED.values(), ids=REFUSED)
async def test_forbidden_destinations_are_refused_before_a_connection(url: str) -> None:
    names = Names(hooks_public_org=[["1.1.1.1"]])
    sender, recorder = outward(names=names)
    with pytest.raises(DestinationRefused) as checked:
        sender.check(url)
    assert checked.value.hint, "what to do about it is said"
    with pytest.raises(DestinationRefused):
        await sender.send(url, {}, b"{}", "somebody")
    assert recorder.opened == [] and names.asked == []


@pytest.mark.parametrize("address", NOT_PUBLIC)
async def test_a_name_that_leads_somewhere_else_is_refused(address: str) -> None:
    """Also if it leads to a public place as well: nobody can say which one is taken."""
    names = Names(
        hooks_public_org=[[address]], mixed_public_org=[["1.1.1.1", address, "2606:4700::1"]]
    )
    sender, recorder = outward(names=names)
    for host in ("hooks.public.org", "mixed.public.org"):
        sender.check(f"https://{host}/")
        with pytest.raises(DestinationRefused) as error_info:
            await sender.send(f"https://{host}/", {}, b"{}", "somebody")
        assert address.split("%")[0] not in error_info.value.detail, "where it leads is not told"
    assert recorder.opened == []


@pytest.mark.parametrize("address", PUBLIC)
async def test_only_public_addresses_are_connected_to(address: str) -> None:
    assert why_not_public(ip_address(address)) is None
    sender, recorder = outward(names=Names(hooks_public_org=[[address]]))
    with pytest.raises(Unreachable):
        await sender.send("https://hooks.public.org:8443/x?y=z", {}, b"{}", "somebody")
    assert recorder.opened == [f"{address}:8443"]


async def test_a_name_with_changing_addresses_is_resolved_once() -> None:
    """It is asked once for each try, and the connection goes to what was seen then."""
    names = Names(rebind_public_org=[["1.1.1.1"], ["127.0.0.1"], ["169.254.169.254"]])
    sender, recorder = outward(names=names)
    with pytest.raises(Unreachable):
        await sender.send("https://rebind.public.org/", {}, b"{}", "somebody")
    assert names.asked == ["rebind.public.org."], "whole, so that no search list is tried"
    assert recorder.opened == ["1.1.1.1:443"]
    for _ in range(2):
        with pytest.raises(DestinationRefused):
            await sender.send("https://rebind.public.org/", {}, b"{}", "somebody")
    assert recorder.opened == ["1.1.1.1:443"]


async def test_no_request_reaches_the_canary(canary: Canary) -> None:
    """With the real connector and the system's own resolver: these are the spellings it would
    understand.
    """
    sender = GuardedSender(read_allowed([]), 2.0)
    port = canary.port
    spellings = [
        *("127.0.0.1", "127.1", "0", "0x7f000001", "2130706433", "017700000001", "localhost"),
        *("[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]", "[64:ff9b::7f00:1]"),
    ]
    try:
        for host in spellings:
            for scheme in ("http", "https"):
                with pytest.raises(DestinationRefused):
                    await sender.send(f"{scheme}://{host}:{port}/", {}, b"{}", "somebody")
        rebound = GuardedSender(read_allowed([]), 2.0, Names(a_public_org=[["127.0.0.1"]]))
        with pytest.raises(DestinationRefused):
            await rebound.send("https://a.public.org/", {}, b"{}", "somebody")
    finally:
        sender.close()
    assert not canary.was_reached()
    socket.create_connection(("127.0.0.1", port)).close()
    assert canary.was_reached(), "it would have noticed"


ALLOWED_REACHES = [
    # what the operator said, what is tried, whether it is let through
    ("127.0.0.1", "http://127.0.0.1:8080/", True),
    ("127.0.0.1", "https://127.0.0.1/", True),
    ("127.0.0.1", "http://127.0.0.2/", False),
    ("127.0.0.1", "http://[::1]/", False),
    ("127.0.0.1", "http://[::ffff:127.0.0.1]/", False),
    ("127.0.0.1", "http://127.1/", False),
    ("127.0.0.1", "http://localhost/", False),
    ("127.0.0.1", "https://10.0.0.1/", False),
    ("127.0.0.1", "http://1.1.1.1/", False),
    ("127.0.0.1", "https://1.1.1.1:8080/", False),
    ("127.0.0.1:9000", "http://127.0.0.1:9000/", True),
    ("127.0.0.1:9000", "http://127.0.0.1:9001/", False),
    ("127.0.0.1:9000", "https://127.0.0.1/", False),
    ("10.2.0.0/16", "http://10.2.255.255/", True),
    ("10.2.0.0/16", "http://10.3.0.0/", False),
    ("[fd00:1::/64]:8443", "https://[fd00:1::5]:8443/", True),
    ("[fd00:1::/64]:8443", "https://[fd00:1::5]/", False),
    ("[fd00:1::/64]:8443", "https://[fd00:2::5]:8443/", False),
    ("hooks.lan", "http://hooks.lan:8080/", True),
    ("hooks.lan:8080", "http://hooks.lan:8081/", False),
    ("hooks.lan", "http://other.hooks.lan/", False),
    ("hooks.lan", "http://hooks.lan.public.org/", False),
]


@pytest.mark.parametrize(("allowed", "url", "is_open"), ALLOWED_REACHES)
async def test_an_allowed_destination_permits_nothing_else(
    allowed: str, url: str, is_open: bool
) -> None:
    names = Names(hooks_lan=[["192.168.7.7"]])
    sender, recorder = outward(allowed, names=names)
    if is_open:
        sender.check(url)
        with pytest.raises(Unreachable):
            await sender.send(url, {}, b"{}", "somebody")
        assert len(recorder.opened) == 1
    else:
        with pytest.raises(DestinationRefused):
            await sender.send(url, {}, b"{}", "somebody")
        assert recorder.opened == []


async def test_a_name_needs_all_its_addresses_public_or_allowed() -> None:
    names = Names(
        in_public_org=[["10.2.0.1", "10.2.0.2"]],
        half_public_org=[["10.2.0.1", "10.3.0.1"]],
        both_public_org=[["10.2.0.1", "1.1.1.1"]],
    )
    sender, recorder = outward("10.2.0.0/16", names=names)
    with pytest.raises(Unreachable):
        await sender.send("http://in.public.org/", {}, b"{}", "somebody")
    assert set(recorder.opened) == {"10.2.0.1:80", "10.2.0.2:80"}
    recorder.opened.clear()
    with pytest.raises(DestinationRefused):
        await sender.send("https://half.public.org/", {}, b"{}", "somebody")
    # Public by https is fine for anybody; in the clear only what is allowed.
    with pytest.raises(DestinationRefused):
        await sender.send("http://both.public.org/", {}, b"{}", "somebody")
    assert recorder.opened == []


@pytest.mark.parametrize(
    "allowed",
    [
        "",
        "*",
        "10.0.0.0/33",
        "10.2.1.0/16",
        "host:0",
        "host:65536",
        "host:x",
        "[::1",
        "a b",
        "::/129",
    ],
)
def test_an_invalid_setting_is_reported_at_the_start(allowed: str) -> None:
    with pytest.raises(BadSettings, match="POTLUCK_WEBHOOK_ALLOW"):
        read_allowed([allowed])


def test_a_port_that_is_none_is_refused_where_everything_else_is_allowed() -> None:
    sender, _ = outward("hooks.lan", "10.2.0.0/16")
    for host in ("hooks.lan", "10.2.0.1"):
        assert sender.check(f"http://{host}:65535/") == host
        for port in (0, 65536, 99999):
            with pytest.raises(DestinationRefused, match="not a port"):
                sender.check(f"http://{host}:{port}/")


async def test_a_slow_name_server_delays_only_its_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lookups outlive whoever asked for them, and are counted for as long as they last."""
    hanging, looked_up = threading.Event(), []

    def look_up(host: str, *_: object, **__: object) -> list[Any]:
        looked_up.append(host)
        hanging.wait()
        return []

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    names = SystemNames()
    sender = GuardedSender(read_allowed([]), 0.05, names, Recorder())

    async def came_of(sender_name: str) -> type[BaseException] | None:
        with pytest.raises((Unreachable, Busy)) as raised:
            await sender.send("https://slow.public.org/", {}, b"{}", sender_name)
        return raised.type

    try:
        first = await asyncio.gather(*(came_of("one") for _ in range(NAMES_OF_ONE + 3)))
        assert first.count(Unreachable) == NAMES_OF_ONE and first.count(Busy) == 3
        assert await came_of("two") is Unreachable, "another has room"
        remaining = NAMES_AT_ONCE - NAMES_OF_ONE - 1
        outcomes = await asyncio.gather(*(came_of(f"account {n}") for n in range(remaining + 1)))
        assert outcomes.count(Unreachable) == remaining and len(looked_up) == NAMES_AT_ONCE
        assert await came_of("three") is Busy, "there is no thread, and that is nobody's fault"
    finally:
        hanging.set()
        sender.close()


async def test_names_without_an_address_and_unknown_names() -> None:
    sender, recorder = outward(names=Names(empty_public_org=[[]]))
    for host in ("empty.public.org", "unknown.public.org"):
        with pytest.raises(Unreachable, match="no address"):
            await sender.send(f"https://{host}/", {}, b"{}", "somebody")
    assert recorder.opened == [] and isinstance(recorder, Recorder)
