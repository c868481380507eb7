"""TLS: a private authority that clients pin, files of one's own, and no way around either."""

import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509

from potluck.consumer.http.connect import find_pinned_ca, pin_ca
from potluck.local import trust
from potluck.model.error import BadSettings, ServerUnreachable
from potluck.provider.server.http import Exchange, ServerRequest
from potluck.server.http import authority
from potluck.server.http.settings import HttpSettings
from potluck.server.http.tls import Tls, open_tls
from potluck.server.settings import ServerSettings, read_settings
from potluck.wire import routes
from potluck.wire.consumer import ServerHealth
from tests.processes import FAST_PROVIDER, ProviderProcess, ServerProcess, await_true
from tests.server.http.raw_socket import Raw, authority_file, context_for
from tests.server.http.test_slow_clients import GET

NAMES = ("pool.example.org", "localhost", "127.0.0.1", "::1")
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def leaf(issued: authority.Issued) -> x509.Certificate:
    return x509.load_pem_x509_certificate(issued.certificate.read_bytes())


def test_a_certificate_is_kept_until_its_end_is_near(tmp_path: Path) -> None:
    first = leaf(authority.ensure_certificate(tmp_path, NAMES, NOW))
    assert leaf(authority.ensure_certificate(tmp_path, NAMES, NOW + timedelta(days=200))) == first
    renewed = authority.ensure_certificate(tmp_path, NAMES, NOW + timedelta(days=300))
    assert leaf(renewed).serial_number != first.serial_number
    assert leaf(renewed).not_valid_after_utc > NOW + timedelta(days=600)


def test_a_new_name_gets_a_new_certificate_of_the_same_authority(tmp_path: Path) -> None:
    before = authority.ensure_certificate(tmp_path, NAMES, NOW)
    first = leaf(before)
    after = authority.ensure_certificate(tmp_path, [*NAMES, "other.example.org"], NOW)
    assert leaf(after) != first
    assert after.authority_pem == before.authority_pem
    names = leaf(after).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "other.example.org" in names.get_values_for_type(x509.DNSName)


def test_a_certificate_without_its_key_is_made_anew(tmp_path: Path) -> None:
    issued = authority.ensure_certificate(tmp_path, NAMES, NOW)
    first = leaf(issued)
    issued.key.unlink()
    assert leaf(authority.ensure_certificate(tmp_path, NAMES, NOW)) != first


def test_an_authority_without_its_key_is_not_replaced_in_silence(tmp_path: Path) -> None:
    authority.ensure_certificate(tmp_path, NAMES, NOW)
    (tmp_path / "ca-key.pem").unlink()
    with pytest.raises(BadSettings, match="private authority") as raised:
        authority.ensure_certificate(tmp_path, NAMES, NOW)
    assert "fingerprint" in raised.value.hint


def test_the_keys_are_for_their_owner_s_eyes_only(secure: ServerProcess) -> None:
    directory = authority_file(secure).parent
    assert directory.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in directory.iterdir()} == {0o600}


def test_a_client_with_the_fingerprint_gets_in(secure: ServerProcess, tmp_path: Path) -> None:
    path = pin_ca(secure.url, secure.first["ca_fingerprint"], tmp_path)
    assert path.read_bytes().strip() == authority_file(secure).read_bytes().strip()
    assert path.stat().st_mode & 0o777 == 0o600
    assert served_with(trust.make_tls_context(path), secure)


def test_a_fingerprint_may_be_written_in_other_ways(secure: ServerProcess, tmp_path: Path) -> None:
    digits = secure.first["ca_fingerprint"].partition(":")[2].upper()
    pairs = ":".join(digits[n : n + 2] for n in range(0, 64, 2))
    assert pin_ca(secure.url, pairs, tmp_path) == pin_ca(secure.url, digits, tmp_path)


@pytest.mark.parametrize("fingerprint", ["sha256:" + "0" * 64, "f" * 64])
def test_a_wrong_fingerprint_is_refused_and_nothing_is_kept(
    secure: ServerProcess, tmp_path: Path, fingerprint: str
) -> None:
    with pytest.raises(BadSettings, match="another fingerprint than --ca-fingerprint"):
        pin_ca(secure.url, fingerprint, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("fingerprint", ["", "sha256:", "sha1:" + "0" * 40, "0" * 63, "g" * 64])
def test_an_invalid_fingerprint_is_reported(tmp_path: Path, fingerprint: str) -> None:
    with pytest.raises(BadSettings, match="not a fingerprint"):
        pin_ca("https://127.0.0.1:1", fingerprint, tmp_path)


def test_a_fingerprint_needs_tls(edge: ServerProcess, tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="https"):
        pin_ca(edge.url, "0" * 64, tmp_path)
    (tmp_path / f"ca-{'0' * 64}.pem").write_text("an authority that was pinned before")
    with pytest.raises(BadSettings, match="https"):
        pin_ca(edge.url, "0" * 64, tmp_path)


def test_an_unwritable_pin_is_reported(secure: ServerProcess, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadSettings, match="cannot be saved"):
        pin_ca(secure.url, secure.first["ca_fingerprint"], tmp_path / "file")


def test_an_unreachable_server_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken_socket:
        port = taken_socket.getsockname()[1]
    with pytest.raises(ServerUnreachable):
        pin_ca(f"https://127.0.0.1:{port}", "0" * 64, tmp_path)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_fetched_authority_must_match_the_fingerprint(tmp_path: Path, is_first: bool) -> None:
    own_authority = authority.ensure_certificate(tmp_path / "ours", NAMES)
    other_authority = authority.ensure_certificate(tmp_path / "theirs", NAMES).authority_pem
    both = (
        own_authority.authority_pem + other_authority
        if is_first
        else other_authority + own_authority.authority_pem
    )
    with somebody_who_says(both, own_authority) as url, pytest.raises(BadSettings):
        pin_ca(url, authority.fingerprint(own_authority.authority_pem), tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


@contextmanager
def somebody_who_says(body: bytes, issued: authority.Issued) -> Iterator[str]:
    """A TLS server with one answer, whatever it is asked."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.certificate, issued.key)

    def answer() -> None:
        with context.wrap_socket(listener.accept()[0], server_side=True) as client:
            client.recv(4096)
            client.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + body)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        once = threading.Thread(target=answer)
        once.start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        once.join(10)


def test_without_the_authority_the_server_is_not_believed(secure: ServerProcess) -> None:
    assert not served_with(trust.make_tls_context(None), secure)


def test_another_pool_s_authority_is_not_believed(secure: ServerProcess, tmp_path: Path) -> None:
    other = authority.ensure_certificate(tmp_path, NAMES)
    (tmp_path / "other.pem").write_bytes(other.authority_pem)
    assert not served_with(trust.make_tls_context(tmp_path / "other.pem"), secure)


def test_a_name_that_the_certificate_lacks_is_not_believed(secure: ServerProcess) -> None:
    with (
        socket.create_connection(("127.0.0.1", secure.port), 10) as plain,
        pytest.raises(ssl.SSLCertVerificationError, match="match"),
    ):
        context_for(secure).wrap_socket(plain, server_hostname="elsewhere.example.org")


async def test_a_provider_believes_the_same_and_says_so(secure: ServerProcess) -> None:
    request = ServerRequest(routes.HEALTHZ, routes.HEALTHZ.url(), b"", aiohttp.ClientTimeout(10))
    async with aiohttp.ClientSession(connector=secured_by(context_for(secure))) as session:
        assert (await Exchange(session, secure.url).send(request, ServerHealth)).status == "ok"
    async with aiohttp.ClientSession(connector=secured_by(trust.make_tls_context(None))) as session:
        with pytest.raises(ServerUnreachable, match="is not trusted") as raised:
            await Exchange(session, secure.url).send(request, ServerHealth)
    assert "--ca-fingerprint" in raised.value.hint


def secured_by(context: ssl.SSLContext) -> aiohttp.TCPConnector:
    return aiohttp.TCPConnector(ssl=context)


def test_a_machine_joins_a_pool_that_it_knows_by_fingerprint(tmp_path: Path) -> None:
    config = {"POTLUCK_CONFIG_DIR": str(tmp_path / "config")}
    with ServerProcess(tmp_path / "pool", 0, POTLUCK_TLS="auto") as server:
        pin = pin_ca(server.url, server.first["ca_fingerprint"], tmp_path / "config")
        pinned = {**FAST_PROVIDER, **config, "POTLUCK_CA_FILE": str(pin)}
        with ProviderProcess(tmp_path / "machine", server, **pinned) as provider:
            assert provider.first["event"] == "registered"
            assert provider.node_id.startswith("node_")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_two_versions_of_tls_are_supported(secure: ServerProcess, version: ssl.TLSVersion) -> None:
    context = context_for(secure)
    context.minimum_version = context.maximum_version = version
    assert served_with(context, secure)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_older_versions_are_not_spoken(secure: ServerProcess) -> None:
    context = context_for(secure)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    assert not served_with(context, secure)


def served_with(context: ssl.SSLContext, server: ServerProcess) -> bool:
    with socket.create_connection(("127.0.0.1", server.port), 10) as plain:
        try:
            with context.wrap_socket(plain, server_hostname="127.0.0.1") as secured:
                secured.sendall(GET)
                return secured.recv(100).startswith(b"HTTP/1.1 200")
        except ssl.SSLError:
            return False


def test_files_of_one_s_own_are_served_and_read_again(tmp_path: Path) -> None:
    issued = authority.ensure_certificate(tmp_path / "mine", NAMES)
    (tmp_path / "ca.pem").write_bytes(issued.authority_pem)
    files = {"POTLUCK_TLS_CERT": str(issued.certificate), "POTLUCK_TLS_KEY": str(issued.key)}
    with ServerProcess(tmp_path / "pool", 0, POTLUCK_TLS_RELOAD_SECONDS="0.1", **files) as server:
        assert server.first["ca_fingerprint"] is None
        pinned = trust.make_tls_context(tmp_path / "ca.pem")
        assert served_with(pinned, server)
        authority.ensure_certificate(tmp_path / "mine", [*NAMES, "new.example.org"])
        await_true(lambda: "new.example.org" in names_served(pinned, server), "the new certificate")


def test_files_that_do_not_match_change_nothing(tmp_path: Path) -> None:
    """As in the middle of a renewal: the certificate is new, and its key is not there yet."""
    issued = authority.ensure_certificate(tmp_path, NAMES, datetime.now(UTC) - timedelta(days=200))
    renewed = authority.ensure_certificate(tmp_path / "renewed", NAMES)
    settings = HttpSettings(tls_cert=issued.certificate, tls_key=issued.key)
    tls = open_tls(settings, tmp_path, lambda: NAMES)
    assert tls is not None
    first = leaf(issued)
    for content in (renewed.certificate.read_bytes(), b"garbage", b""):
        issued.certificate.write_bytes(content)
        tls.reload()
        assert (tls.ends_at(), presented(tls)) == (first.not_valid_after_utc, first)
    issued.certificate.write_bytes(renewed.certificate.read_bytes())
    issued.key.write_bytes(renewed.key.read_bytes())
    tls.reload()
    assert (tls.ends_at(), presented(tls)) == (leaf(renewed).not_valid_after_utc, leaf(renewed))


def presented(tls: Tls) -> x509.Certificate:
    """By a handshake in memory, of a client that names no host."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    anyone = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
    client = anyone.wrap_bio(to_client, to_server)
    server = tls.context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    certificate = client.getpeercert(binary_form=True)
    assert certificate is not None
    return x509.load_der_x509_certificate(certificate)


def test_a_renewal_that_fails_is_tried_again(tmp_path: Path) -> None:
    """As on a full disk: a file stands where the directory should be."""
    with ServerProcess(tmp_path, 0, POTLUCK_TLS="auto", POTLUCK_TLS_RELOAD_SECONDS="0.1") as server:
        directory = authority_file(server).parent
        log, moved_directory = tmp_path / "server.log", directory.with_name("away")
        pinned = context_for(server)
        before = names_served(pinned, server)
        directory.rename(moved_directory)
        directory.write_text("")
        await_true(lambda: "cannot renew" in log.read_text(), "it says so")
        directory.unlink()
        (moved_directory / "server.pem").unlink()
        moved_directory.rename(directory)
        await_true(lambda: names_served(pinned, server) != before, "the new certificate")


def names_served(context: ssl.SSLContext, server: ServerProcess) -> str:
    with (
        socket.create_connection(("127.0.0.1", server.port), 10) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as secured,
    ):
        return str(secured.getpeercert())


def test_plain_http_does_not_get_through_to_tls(secure: ServerProcess) -> None:
    with Raw(secure, handshake=False) as stranger:
        stranger.send(GET)
        assert not stranger.socket.recv(100).startswith(b"HTTP/1.1 200")


REFUSED = {
    "in the clear for everybody": (["--host", "0.0.0.0"], "TLS is off", "--tls auto"),
    "a name that is not ours alone": (
        ["--host", "pool.example.org"],
        "TLS is off",
        "--behind-proxy",
    ),
    "a certificate without a key": (["--tls-cert", "a.pem"], "needs its key", "--tls-key"),
    "two certificates": (
        ["--tls", "auto", "--tls-cert", "a.pem", "--tls-key", "b.pem"],
        "exclude",
        "one of them",
    ),
    "another kind of TLS": (["--tls", "maybe"], "--tls", "--tls"),
    "a certificate that is not there": (
        ["--tls-cert", "a.pem", "--tls-key", "b.pem"],
        "cannot be used",
        "PEM",
    ),
    "no network": (["--behind-proxy", "10.0.0.0/99"], "10.0.0.0/99", "10.0.0.0/24"),
    "a proxy without a name": (["--behind-proxy", "10.0.0.0/8"], "proxy", "--public-url"),
}


ALL_OF_THEM = """
import contextlib, io, json, sys
from potluck.cli.main import execute
for options in json.load(sys.stdin):
    told = io.TextIOWrapper(io.BytesIO(), write_through=True)
    with contextlib.redirect_stderr(told):
        status = execute(["server", "--port", "0", "--data-dir", "data", *options])
    print(json.dumps([status, " ".join(told.buffer.getvalue().decode().split())]))
"""


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """What each of them is told, by one process: to start one takes longer than all the rest."""
    configurations = json.dumps([options for options, _, _ in REFUSED.values()])
    command = [sys.executable, "-c", ALL_OF_THEM]
    place = tmp_path_factory.mktemp("refused")
    process = subprocess.run(
        command,
        input=configurations,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=place,
        check=True,
    )
    return dict(zip(REFUSED, map(json.loads, process.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("case", REFUSED)
def test_a_server_that_would_be_open_does_not_start(
    case: str, refused: dict[str, tuple[int, str]]
) -> None:
    _, problem, hint = REFUSED[case]
    status, output = refused[case]
    assert status == 78, output
    assert problem in output and hint in output


@pytest.mark.parametrize(
    "options",
    [
        {"host": "127.0.0.1"},
        {"host": "::1"},
        {"host": "0.0.0.0", "tls": "auto"},
        {"host": "0.0.0.0", "behind_proxy": ["10.0.0.0/8"], "public_url": "https://pool.example"},
    ],
)
def test_loopback_or_protected_addresses_may_start(
    options: dict[str, object], tmp_path: Path
) -> None:
    assert read_settings({"data_directory": str(tmp_path), **options}, {}).host == options["host"]


def test_plain_http_needs_no_certificate(tmp_path: Path) -> None:
    assert open_tls(ServerSettings(data_directory=tmp_path), tmp_path, list) is None
    assert not list(tmp_path.iterdir())


def test_an_authority_that_was_pinned_once_is_remembered(
    secure: ServerProcess, tmp_path: Path
) -> None:
    url, directory = secure.url, tmp_path / "config"
    assert find_pinned_ca(url, directory) is None
    path = pin_ca(url, secure.first["ca_fingerprint"], directory)
    assert find_pinned_ca(url, directory) == path
    assert find_pinned_ca("https://elsewhere.example", directory) is None
