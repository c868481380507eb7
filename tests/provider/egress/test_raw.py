"""A raw network reaches every port of public addresses, and nothing else, whatever a program tries.

In the same small internet as test_ssrf.py, with the same canaries.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path

import psutil
import pytest

from potluck.model.network.patterns import RAW
from potluck.model.task import MIB, EndReason
from potluck.provider.egress.raw.packets import GATEWAY, INSIDE
from potluck.provider.sandbox.driver import PYTHON
from tests.case_counts import counting_cases
from tests.end_to_end.network_namespace import why_not
from tests.processes import await_true
from tests.provider.egress import raw_probe
from tests.provider.egress.destinations import special_addresses
from tests.provider.egress.internet import (
    DATAGRAM_PORT,
    HOME,
    HOME_PUBLIC,
    LINE,
    PORTS,
    PRIVATE,
    SITE,
    Internet,
    small_internet,
)
from tests.provider.egress.test_ssrf import state_directory
from tests.provider.sandbox.conftest import Host, confinement, hosting, skip_unless_possible
from tests.provider.sandbox.host import Answer, Request

pytestmark = [
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
    pytest.mark.skipif(shutil.which("passt") is None, reason="passt is not installed"),
    pytest.mark.skipif(not Path("/dev/net/tun").exists(), reason="there is no /dev/net/tun"),
]
STREAMS = tuple(way for way in raw_probe.WAYS if way.startswith(("connect", "early")))
DATAGRAMS = tuple(way for way in raw_probe.WAYS if way.startswith("datagram"))
NEIGHBOURS = (*PRIVATE, HOME, HOME_PUBLIC, LINE, "127.0.0.1", GATEWAY, INSIDE, "0.0.0.0")
NAMES = {"site.public.org": SITE, "cdn.site.public.org": SITE}
NO_NAMES = ("intranet", "printer.local", "metadata.google.internal", "nothing.public.org")
# Where every user may open the device, as systems have it: only in the test's own mounts.
WITH_TUN = ('mount -t tmpfs none /dev/net && mknod -m 666 /dev/net/tun c 10 200 && exec "$@"', "sh")


@pytest.fixture
def directory() -> Iterator[Path]:
    """One that an ordinary user may enter."""
    path = Path(tempfile.mkdtemp(prefix="potluck-internet-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@contextmanager
def at_home(as_root: bool, internet: Internet) -> Iterator[Host]:
    skip_unless_possible(as_root)
    become = [] if as_root else ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    wrapper = [*internet.entering, "sh", "-c", *WITH_TUN, *become]
    with hosting(True, state_directory=state_directory(internet, as_root), wrapper=wrapper) as host:
        yield host


def run(
    host: Host, source: str, tries: Sequence[tuple[str, str, int]] = (), most_bytes: int = 2**30
) -> Answer:
    return host.ask(
        Request(
            confinement(
                command=(PYTHON, "-I", "-c", source, "tries.json"),
                files={"tries.json": json.dumps(tries).encode()},
                memory_bytes=256 * MIB,
                seconds=300.0,
                processes=64,
            ),
            hosts=(RAW,),
            own_addresses=(LINE,),
            network_bytes=most_bytes,
        )
    )


def forbidden() -> list[tuple[str, str, int]]:
    tries = [(way, host, port) for way in STREAMS for host in NEIGHBOURS for port in (80, 22)]
    tries += [(way, host, DATAGRAM_PORT) for way in DATAGRAMS for host in NEIGHBOURS]
    tries += [("connect on the interface", host, 443) for host in special_addresses()]
    tries += [("datagram with an interface", host, 53) for host in special_addresses()]
    return [*tries, *(("name", name, 0) for name in NO_NAMES)]


def allowed() -> list[tuple[str, str, int]]:
    ways = [way for way in STREAMS if way not in ("early data", "connect from loopback")]
    tries = [(way, SITE, port) for way in ways for port in PORTS]
    tries += [(way, SITE, DATAGRAM_PORT) for way in DATAGRAMS]
    return [*tries, *(("name", name, 0) for name in NAMES)]


@pytest.mark.parametrize("as_root", [True, False], ids=["as root", "as a user"])
def test_packets_reach_public_addresses_only(
    as_root: bool, directory: Path, request: pytest.FixtureRequest
) -> None:
    assert all(ip_address(host) for host in special_addresses())
    source = Path(raw_probe.__file__).read_text()
    with small_internet(directory) as internet, at_home(as_root, internet) as host:
        reached = run(host, source, allowed())
        process = run(host, source, forbidden())
        limited = run(
            host,
            "import urllib.request as r; r.urlopen('http://site.public.org/bytes/5000000').read()",
            most_bytes=1_000_000,
        )
        fetched = run(
            host,
            "import urllib.request as r;"
            "print(len(r.urlopen('http://site.public.org/bytes/5000000').read()))",
        )
        canaries = internet.canaries()
    results = [json.loads(line) for line in reached.stdout.splitlines()]
    assert len(results) == len(allowed()), reached
    for way, name, port, result in results:
        expected = NAMES[name] if way == "name" else "open"
        assert result == expected, (way, name, port, result)
    results = [json.loads(line) for line in process.stdout.splitlines()]
    assert len(results) == len(forbidden()), process
    with counting_cases(request) as tally:
        row = f"forbidden destinations of a raw network {request.node.callspec.id}"
        for way, name, port, result in results:
            with tally(row, f"{way} {name}:{port}"):
                assert result.startswith("blocked"), result
        with tally(f"canaries untouched by a raw network {request.node.callspec.id}", "all"):
            assert canaries == []
    assert process.refused, "the task's log names some of them"
    assert fetched.stdout == b"5000000\n", fetched
    assert 5_000_000 < fetched.network_bytes < 6_000_000
    assert limited.ended is not None and limited.ended.reason is EndReason.NETWORK_LIMIT
    assert limited.network_bytes <= 1_000_000


def test_kill_9_of_the_provider_ends_the_relay_and_passt(directory: Path) -> None:
    with small_internet(directory) as internet, at_home(True, internet) as host:
        request = Request(
            confinement(command=(PYTHON, "-I", "-c", f"print('CUT'); {_WAIT}"), seconds=300.0),
            hosts=(RAW,),
            tell=True,
        )
        host.ask(request)
        relay_pids = _relays_of(host.process.pid)
        assert len(relay_pids) == 2, "the relay, and passt below it"
        host.process.kill()
        host.process.wait()
        await_true(lambda: not any(map(psutil.pid_exists, relay_pids)), "both have ended")


_WAIT = "import sys, time; sys.stdout.flush(); time.sleep(300)"


def _relays_of(pid: int) -> list[int]:
    relays = [
        child for child in psutil.Process(pid).children() if "packet_relay" in str(child.cmdline())
    ]
    return [process.pid for relay in relays for process in (relay, *relay.children())]
