"""HAProxy, nginx and Caddy with the configurations of `deploy/`, in front of two servers."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from potluck.local.child_process import end_with_parent
from potluck.server.http.authority import Issued, ensure_certificate
from tests.conftest import need
from tests.deploy.shipped_config import adapted
from tests.processes import await_true, free_port

PROXIES = ("haproxy", "nginx", "caddy")


class Place(Struct, frozen=True):
    """Where a proxy listens, for whom, and the certificate that it shows."""

    directory: Path
    port: int
    servers: tuple[str, str]  # `127.0.0.1:8470`
    issued: Issued

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"


def new_place(directory: Path, servers: tuple[str, str]) -> Place:
    issued = ensure_certificate(directory / "tls", ["localhost", "127.0.0.1"])
    return Place(directory, free_port(), servers, issued)


@contextmanager
def running_proxy(name: str, place: Place) -> Iterator[None]:
    """Until the end of the block."""
    with _running(*_COMMANDS[name](place), place):
        yield


def has_noticed(name: str, place: Place) -> bool:
    """Whether the proxy's log says that it sends no requests to the second server.

    HAProxy and Caddy ask for /readyz. nginx does not: it notices by a response.
    """
    server = place.servers[1]
    signs = {
        "haproxy": ("servers/two is stopping",),
        "nginx": ("upstream server temporarily disabled", f"http://{server}/"),
        "caddy": ("health_checker.active", f'"{server}"'),
    }
    lines = (place.directory / f"{name}.log").read_text().splitlines()
    return any(all(sign in line for sign in signs[name]) for line in lines)


def _haproxy(place: Place) -> tuple[Sequence[str], Mapping[str, str]]:
    combined = place.directory / "haproxy.pem"
    combined.write_bytes(place.issued.certificate.read_bytes() + place.issued.key.read_bytes())
    first_server, two = place.servers
    config = place.directory / "haproxy.cfg"
    changes = {
        "maxconn 20000": "maxconn 500",  # as many files as a test may open
        "    bind :80\n": "",
        "bind :443": f"bind 127.0.0.1:{place.port}",
        "/etc/haproxy/potluck.pem": str(combined),
        "10.0.0.1:8470": first_server,
        "10.0.0.2:8470": two,
    }
    config.write_text(adapted("haproxy/haproxy.cfg", changes))
    return [_program("haproxy"), "-db", "-f", str(config)], {}


def _nginx(place: Place) -> tuple[Sequence[str], Mapping[str, str]]:
    first_server, two = place.servers
    config = place.directory / "nginx.conf"
    changes = {
        "listen 80;": f"listen 127.0.0.1:{free_port()};",
        "listen 443 ssl": f"listen 127.0.0.1:{place.port} ssl",
        "/etc/nginx/potluck.crt": str(place.issued.certificate),
        "/etc/nginx/potluck.key": str(place.issued.key),
        "10.0.0.1:8470": first_server,
        "10.0.0.2:8470": two,
    }
    text = adapted("nginx/nginx.conf", changes)
    # What it writes stays with the test, and a single process writes as who started it.
    text = text.replace("worker_processes auto;", f"worker_processes 1;\n{_OWN_FILES}")
    config.write_text(text.replace("DIRECTORY", str(place.directory)))
    (place.directory / "nginx").mkdir(exist_ok=True)
    prefix = str(place.directory / "nginx")
    return [_program("nginx"), "-p", prefix, "-c", str(config), "-g", "daemon off;"], {}


_OWN_FILES = (
    "user root root;\npid DIRECTORY/nginx/pid;"
    if os.geteuid() == 0
    else ("pid DIRECTORY/nginx/pid;")
)


def _caddy(place: Place) -> tuple[Sequence[str], Mapping[str, str]]:
    config = place.directory / "Caddyfile"
    issued = f"\ttls {place.issued.certificate} {place.issued.key}\n"
    changes = {
        "\treverse_proxy ": f"{issued}\treverse_proxy ",
        "\tadmin off": "\tadmin off\n\tauto_https disable_redirects",
    }
    config.write_text(adapted("caddy/Caddyfile", changes))
    variables = {
        "POTLUCK_SITE": place.url,
        "POTLUCK_SERVERS": " ".join(place.servers),
        "XDG_DATA_HOME": str(place.directory / "caddy"),
        "XDG_CONFIG_HOME": str(place.directory / "caddy"),
    }
    program = Path(sys.executable).with_name("caddy")
    return [str(program), "run", "--config", str(config), "--adapter", "caddyfile"], variables


_COMMANDS = {"haproxy": _haproxy, "nginx": _nginx, "caddy": _caddy}


def _program(name: str) -> str:
    program = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        need(name)
    assert program is not None
    return program


@contextmanager
def _running(command: Sequence[str], variables: Mapping[str, str], place: Place) -> Iterator[None]:
    log = place.directory / f"{Path(command[0]).name}.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=end_with_parent(signal.SIGTERM),
        )
    try:
        await_true(lambda: _listens(place.port, process, log), f"{command[0]} listens")
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _listens(port: int, process: subprocess.Popen[bytes], log: Path) -> bool:
    assert process.poll() is None, log.read_text()[-2000:]
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except OSError:
        return False
    return True
