"""No task gets through the proxy to an address that is not public, or is its owner's.

Each driver runs the same tries in one sandbox, at home in a small internet. Nothing may reach a
canary; the site that the task may reach answers. `-s` prints each try and what came of it.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from potluck.model.task import MIB, EndReason
from potluck.provider.sandbox.driver import PYTHON
from tests.case_counts import counting_cases
from tests.end_to_end.network_namespace import why_not
from tests.provider.egress import probe
from tests.provider.egress.destinations import forbidden, rebinding, spellings
from tests.provider.egress.internet import BODY, LINE, NAMES, Internet, small_internet
from tests.provider.sandbox.conftest import Host, confinement, hosting, skip_unless_possible
from tests.provider.sandbox.docker.engine import starting
from tests.provider.sandbox.host import Answer, Request

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
DRIVERS = (
    "bubblewrap as root",
    "bubblewrap as a user",
    "docker",
    pytest.param("podman", marks=pytest.mark.long),
    pytest.param("docker+runsc", marks=pytest.mark.long),
)
BLOCKED = ("HTTP/1.1 4", "HTTP/1.1 502", "blocked")  # 502: the name does not exist
# What a program does with ordinary libraries: over TLS, in the clear, with a body, by a redirect.
ORDINARY = """
import json, ssl, urllib.request
context = ssl.create_default_context(cafile="certificate.pem")
opener = urllib.request.build_opener(
    urllib.request.ProxyHandler(), urllib.request.HTTPSHandler(context=context))
def fetch(url, body=None):
    try:
        with opener.open(urllib.request.Request(url, body), timeout=20) as response:
            return response.read().decode()
    except OSError:  # to loopback it does not ask the proxy
        return "refused"
print(json.dumps([
    fetch("https://site.public.org/tls"),
    fetch("http://site.public.org/clear"),
    fetch("http://site.public.org/post", b"ab" * 50_000),
    fetch("http://site.public.org/to/http://cdn.site.public.org/moved"),
    fetch("http://site.public.org/to/http://10.66.77.2/redirected"),
    fetch("http://site.public.org/to/http://127.0.0.1/redirected"),
    fetch("http://site.public.org/to/http://metadata.public.org/redirected"),
]))
"""


@pytest.fixture
def directory() -> Iterator[Path]:
    """One that an ordinary user may enter."""
    path = Path(tempfile.mkdtemp(prefix="potluck-internet-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@contextmanager
def at_home(driver: str, internet: Internet) -> Iterator[Host]:
    enter = internet.entering
    if driver.startswith("bubblewrap"):
        as_root = driver.endswith("root")
        skip_unless_possible(as_root)
        # An ordinary user cannot enter a namespace: root does, and becomes the user inside.
        become = [] if as_root else ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        with hosting(
            True, state_directory=state_directory(internet, as_root), wrapper=[*enter, *become]
        ) as host:
            yield host
    else:
        # An engine sees what the host mounts, so both keep the mounts of this machine.
        enter = ["nsenter", f"--net=/run/netns/{internet.home}"]
        with starting(driver, enter) as engine, hosting(True, engine.kind, wrapper=enter) as host:
            yield host


def state_directory(internet: Internet, as_root: bool) -> Path:
    directory = internet.directory / "state"
    directory.mkdir()
    if not as_root:
        os.chown(directory, 65534, 65534)
    return directory


def run(
    host: Host, source: str, files: dict[str, bytes], *arguments: str, most_bytes: int = 2**30
) -> Answer:
    return host.ask(
        Request(
            confinement(
                command=(PYTHON, "-I", "-c", source, *arguments),
                files=files,
                memory_bytes=256 * MIB,
                seconds=120.0,
            ),
            hosts=("*",),
            own_addresses=(LINE,),
            network_bytes=most_bytes,
            # Names are looked up outside of every sandbox; bubblewrap's runs ask a name server.
            names={} if host.report.driver == "bwrap" else NAMES,
        )
    )


@pytest.mark.parametrize("driver", DRIVERS)
def test_only_public_hosts_are_reachable(
    driver: str, directory: Path, request: pytest.FixtureRequest
) -> None:
    assert spellings() >= 100
    with small_internet(directory) as internet, at_home(driver, internet) as host:
        certificate = {"certificate.pem": (directory / "certificate.pem").read_bytes()}
        ordinary = run(host, ORDINARY, certificate)
        tries = [*forbidden(), *rebinding()]
        source = Path(probe.__file__).read_text()
        process = run(host, source, {"tries.json": json.dumps(tries).encode()}, "tries.json")
        limited = run(
            host,
            "import urllib.request as r; r.urlopen('http://site.public.org/bytes/5000000').read()",
            {},
            most_bytes=1_000_000,
        )
        hits = internet.hits()
        canaries = internet.canaries()
    assert ordinary.ended is not None and ordinary.ended.exit_code == 0, ordinary
    page = BODY.decode()
    refusals = ["refused"] * 3
    assert json.loads(ordinary.stdout) == [page, page, "ab" * 50_000, page, *refusals]
    results = dict(map(json.loads, process.stdout.splitlines()))
    assert len(results) == len(dict.fromkeys(name for name, _, _ in tries)), process.stderr
    with counting_cases(request) as tally:
        for name, _, _ in tries:
            print(f"{results[name]:40} {name}")
            if name.endswith("the first time"):
                assert results[name].startswith("HTTP/1.1 200"), "the name is public then"
                continue
            row = f"forbidden destinations of tasks in {driver}"
            with tally(row, name):
                assert results[name].startswith(BLOCKED), results[name]
        with tally(f"canaries untouched by tasks in {driver}", "all"):
            assert canaries == []
    assert any("/first" in line for line in hits) and not any("/second" in line for line in hits)
    assert limited.ended is not None and limited.ended.reason is EndReason.NETWORK_LIMIT
    assert limited.network_bytes == 1_000_000
