"""How long junk takes: senseless bodies, to every route that needs no credential.

    make bench-junk                     starts a server of its own
    python -m bench.junk --url URL      measures one that runs

Prints JSON. On a machine that does other things besides, the worst of several tries says more about
those things; the best says what the junk itself costs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from typing import NamedTuple
from urllib.parse import urlsplit

from potluck.server.api.operations import OPERATIONS
from potluck.wire import routes
from potluck.wire.routes import Route

SIZES = (2 * 1024 + 1, 16 * 1024, 2**20)
MOST_SECONDS = 0.05

ROUTES = {
    name.lower(): route
    for name, route in vars(routes).items()
    if isinstance(route, Route) and not OPERATIONS[name.lower()].scopes
}
_MESSAGE = "127.0.0.1 wants you to sign in with your Ethereum account:\n0x"
JUNK: dict[str, Callable[[int], bytes]] = {
    "letters": lambda size: b"A" * size,
    "digits": lambda size: b"9" * size,
    "zeros": bytes,
    "brackets": lambda size: b"[" * size,
    "objects": lambda size: (b'{"a":' * size)[:size],
    "keys": lambda size: b"{" + b",".join(b'"%d":0' % n for n in range(size // 10)) + b"}",
    "not UTF-8": lambda size: b'{"message":"' + b"\xff" * (size - 14) + b'"}',
    "a message": lambda size: _signed("A" * (size - 40)),
    "almost a sign-in": lambda size: _signed(_MESSAGE + "a" * (size - 100)),
    "lines": lambda size: _signed("\n" * (size // 2 - 40)),
}


class Finding(NamedTuple):
    route: str
    size: int
    kind: str
    status: int
    best_seconds: float
    worst_seconds: float


def measure(url: str, tries: int) -> Iterator[Finding]:
    """One request after the other, so that each time is its own."""
    parts = urlsplit(url)
    assert parts.hostname is not None, url
    with closing(HTTPConnection(parts.hostname, parts.port, timeout=30)) as connection:
        _ask(connection, routes.HEALTHZ, b"")  # the first call of a connection pays for it
        for name, route in ROUTES.items():
            for size in SIZES:
                for kind, make in JUNK.items():
                    asked = [_ask(connection, route, make(size)) for _ in range(tries)]
                    took = [seconds for _, seconds in asked]
                    yield Finding(name, size, kind, asked[0][0], min(took), max(took))


def _ask(connection: HTTPConnection, route: Route, body: bytes) -> tuple[int, float]:
    path = route.path.replace("{user_code}", "BCDF-GHJK")
    began = time.perf_counter()
    connection.request(route.method, path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    return answer.status, time.perf_counter() - began


def _signed(message: str) -> bytes:
    return json.dumps({"message": message, "signature": "0x" + "1b" * 65}).encode()


@contextmanager
def _own_server() -> Iterator[str]:
    """Without the limits on how often: it is the junk that is measured."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "potluck", "server", "--json", "--port", "0"]
        process = subprocess.Popen(
            [*command, "--data-dir", directory],
            env={**os.environ, "POTLUCK_ADDRESS_REQUESTS_PER_SECOND": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.terminate()
            process.communicate()


def report(findings: list[Finding]) -> dict[str, object]:
    slow = [each for each in findings if each.worst_seconds > MOST_SECONDS]
    return {
        "requests": len(findings),
        "routes": sorted(ROUTES),
        "sizes": SIZES,
        "statuses": sorted({each.status for each in findings}),
        "worst_milliseconds": round(1000 * max(each.worst_seconds for each in findings), 2),
        "worst_of_the_best_milliseconds": round(
            1000 * max(each.best_seconds for each in findings), 2
        ),
        "over_50_milliseconds": [each._asdict() for each in slow],
        "slowest": [
            each._asdict() for each in sorted(findings, key=lambda each: -each.worst_seconds)[:5]
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", help="a server that runs; else one is started")
    parser.add_argument("--tries", type=int, default=5)
    chosen = parser.parse_args()
    if chosen.url:
        findings = list(measure(chosen.url, chosen.tries))
    else:
        with _own_server() as url:
            findings = list(measure(url, chosen.tries))
    print(json.dumps(report(findings), indent=2))


if __name__ == "__main__":
    main()
