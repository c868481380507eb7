"""Where a task could try to get through the proxy, in every spelling that we know of."""

import re

from tests.provider.egress.internet import HOME, HOME_PUBLIC, LINE, PRIVATE, SITE

_LOOPBACK = (
    *("127.0.0.1", "127.0.0.2", "127.255.255.254", "127.1", "127.0.1", "0", "0.0.0.0", "0.0"),
    *("2130706433", "0x7f000001", "0x7f.0.0.1", "0x7f.1", "0177.0.0.1", "017700000001", "0177.1"),
    *("127.000.000.001", "127.0.0.1.", "127.0.0.01", "00000127.0.0.1", "127.0.0.0x1", "127.0x1"),
    *("[::1]", "[0:0:0:0:0:0:0:1]", "[0000::0001]", "[::]", "[::ffff:127.0.0.1]", "[::127.0.0.1]"),
    *("[::ffff:7f00:1]", "[::ffff:0:127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]"),
    *("[2002:7f00:1::]", "[2002:7f00:0001::1]", "[2001:0:4136:e378:8000:63bf:80ff:fffe]"),
    *("[2606:4700::5efe:7f00:1]", "[::1%lo]", "[::1%25lo]", "[fe80::1%eth0]", "::1", "[::1"),
    *("localhost", "LOCALHOST", "localhost.", "localhost.localdomain", "db.localhost"),
    *(
        "ip6-localhost",
        "127.0.0.1.nip.io.localhost",
        "①②⑦.⓪.⓪.①",
        "127。0。0。1",
        "127%2e0%2e0%2e1",
    ),
)
_PRIVATE_SPELLINGS = (
    *("10.0.0.1", "10.66.77.2", "0x0a424d02", "172107010", "012.0102.0115.02", "10.4345090"),
    *("10.66.19714", "[::ffff:10.66.77.2]", "[::ffff:a42:4d02]", "[::10.66.77.2]"),
    *("[64:ff9b::a42:4d02]", "[2002:a42:4d02::1]", "172.16.5.5", "172.31.255.255", "192.168.9.9"),
    *("192.168.0.1", "0xc0a80909", "[::ffff:192.168.9.9]", "[fd00::1]", "[fc00::1]", "[fec0::1]"),
    *("169.254.169.254", "0xa9fea9fe", "2852039166", "[::ffff:169.254.169.254]", "169.254.43518"),
    *("[64:ff9b::a9fe:a9fe]", "[fd00:ec2::254]", "[fd20:ce::254]", "[fe80::1]", "169.254.0.1"),
    *("100.64.0.1", "100.127.255.255", "100.100.100.200", "192.0.0.192", "192.0.0.8"),
    *("168.63.129.16", "[::ffff:168.63.129.16]", "161.26.0.10", "198.18.0.1", "192.0.2.1"),
    *("198.51.100.1", "203.0.113.1", "192.88.99.1", "224.0.0.1", "239.255.255.255"),
    *("255.255.255.255", "240.0.0.1", "[ff02::1]", "[2001:db8::1]", "[100::1]", "[4000::1]"),
)
_NAMES = (
    *("intranet", "printer.local", "router.lan", "metadata.google.internal", "a.home.arpa"),
    *("hooks.test", "abcdefghij.onion", "loopback.public.org", "intranet.public.org"),
    *("metadata.public.org", "carrier.public.org", "mixed.public.org", "zero.public.org"),
    *("six.public.org", "mapped.public.org", "nat64.public.org", "loopback.public.org."),
    *("INTRANET.public.ORG", "line.public.org", "home.public.org"),
)
_OWN = (
    LINE,
    HOME,
    HOME_PUBLIC,
    f"[::ffff:{LINE}]",
    f"[64:ff9b::{0x97654009:x}]",
    "[64:ff9b::9765:4009]",
)
_HOSTS = (*_LOOPBACK, *_PRIVATE_SPELLINGS, *_NAMES, *_OWN)
# Requests that could mean two things.
_SMUGGLED = {
    "a user before the host": f"GET http://{SITE}@10.66.77.2/ HTTP/1.1\r\n\r\n",
    "a host before the user": f"GET http://10.66.77.2@{SITE}/ HTTP/1.1\r\n\r\n",
    "a backslash": f"GET http://{SITE}\\@10.66.77.2/ HTTP/1.1\r\n\r\n",
    "a fragment": f"GET http://{SITE}#@10.66.77.2/ HTTP/1.1\r\n\r\n",
    "a question": f"GET http://{SITE}?@10.66.77.2/ HTTP/1.1\r\n\r\n",
    "a tab": f"GET http://{SITE}\t10.66.77.2/ HTTP/1.1\r\n\r\n",
    "a line in the target": "GET http://site.public.org/\nHost:10.66.77.2 HTTP/1.1\r\n\r\n",
    "a bare line break in a header": "GET http://site.public.org/ HTTP/1.1\r\nA: b\nX: c\r\n\r\n",
    "a bare return": "GET http://site.public.org/ HTTP/1.1\r\nA: b\rX: c\r\n\r\n",
    "a folded header": "GET http://site.public.org/ HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
    "a space before the colon": "GET http://site.public.org/ HTTP/1.1\r\nHost : x\r\n\r\n",
    "a NUL": "GET http://site.public.org/ HTTP/1.1\r\nA: \0\r\n\r\n",
    "two lengths": "POST http://site.public.org/ HTTP/1.1\r\nContent-Length: 1\r\n"
    "Content-Length: 2\r\n\r\nab",
    "two lengths in one": "POST http://site.public.org/ HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\na",
    "a length with a sign": "POST http://site.public.org/ HTTP/1.1\r\nContent-Length: +1\r\n\r\na",
    "chunks": "POST http://site.public.org/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0",
    "chunks and a length": "POST http://site.public.org/ HTTP/1.1\r\nContent-Length: 5\r\n"
    "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "three words": "GET http://site.public.org/ x HTTP/1.1\r\n\r\n",
    "an old version": "GET http://site.public.org/\r\n\r\n",
    "another version": "GET http://site.public.org/ HTTP/2.0\r\n\r\n",
    "a method in small letters": "get http://site.public.org/ HTTP/1.1\r\n\r\n",
    "TRACE": "TRACE http://site.public.org/ HTTP/1.1\r\n\r\n",
    "another scheme": "GET ftp://site.public.org/ HTTP/1.1\r\n\r\n",
    "a file": "GET file:///etc/passwd HTTP/1.1\r\n\r\n",
    "gopher": "GET gopher://10.66.77.2:70/_x HTTP/1.1\r\n\r\n",
    "no host": "GET /x HTTP/1.1\r\nHost: 10.66.77.2\r\n\r\n",
    "an empty host": "GET http:///x HTTP/1.1\r\nHost: 10.66.77.2\r\n\r\n",
}
_ODD_PORTS = (
    *("site.public.org:22", "site.public.org:25", "site.public.org:8080", "site.public.org:0"),
    *("site.public.org:65536", "site.public.org:-1", "site.public.org:443x", "site.public.org:"),
    *("site.public.org", f"{SITE}:22", "site.public.org:0443:22", "site.public.org:4 43"),
)
_REBOUND = "the name that changes, the second time"

Try = tuple[str, str, object]


def forbidden() -> list[Try]:
    """None of these may reach anything."""
    tries: list[Try] = []
    for host in _HOSTS:
        tries.append((f"CONNECT {host}", "proxy", f"CONNECT {host}:443 HTTP/1.1\r\n\r\n"))
        tries.append((f"GET {host}", "proxy", f"GET http://{host}/x HTTP/1.1\r\n\r\n"))
    tries += [(name, "proxy", text) for name, text in _SMUGGLED.items()]
    tries += [
        (f"CONNECT {odd_port}", "proxy", f"CONNECT {odd_port} HTTP/1.1\r\n\r\n")
        for odd_port in _ODD_PORTS
    ]
    addresses = (*PRIVATE, SITE, LINE, HOME, HOME_PUBLIC, "127.0.0.1", "::1")
    tries += [(f"directly {address}", "direct", (address, 80)) for address in addresses]
    return tries


def rebinding() -> list[Try]:
    """The first is allowed, the second resolves to a private address."""
    request = "GET http://rebind.public.org/{} HTTP/1.1\r\n\r\n"
    return [
        ("the name that changes, the first time", "proxy", request.format("first")),
        (_REBOUND, "proxy", request.format("second")),
    ]


def special_addresses() -> list[str]:
    """Those that are written in the usual way, of IPv4."""
    plain = re.compile(r"[1-9][0-9]*(\.(0|[1-9][0-9]*)){3}")
    return [host for host in (*_LOOPBACK, *_PRIVATE_SPELLINGS) if plain.fullmatch(host)]


def spellings() -> int:
    """How many spellings of hosts are tried."""
    return len(set(_HOSTS))
