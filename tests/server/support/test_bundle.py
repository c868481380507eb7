"""A support bundle has what helps, and none of the secrets that were planted wherever it looks."""

import io
import secrets
import stat
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from msgspec.structs import replace

from potluck.cli.admin.local_server import run_locally
from potluck.local.secret_patterns import MASK
from potluck.model.error import OutputLost
from potluck.server.settings import ServerSettings, read_settings
from potluck.server.support.bundle import SupportBundle
from potluck.server.support.last_start import local_address
from potluck.server.support.redaction import Redactor

PASSWORD = "p@ss/word:with#signs"
KEY = secrets.token_hex(32)
API_KEY = f"potluck_key_{secrets.token_urlsafe(24)}"
INVITE = f"potluck_invite_{secrets.token_urlsafe(24)}"
WALLET_KEY = f"0x{secrets.token_hex(32)}"
SIGNATURE = f"0x{secrets.token_hex(65)}"
TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhY2NvdW50In0.c2lnbmF0dXJlLW9mLWEtdG9rZW4"
CLOUD = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
RPC = "v3/0123456789abcdef0123456789abcdef"
RPC_KEY = "an-rpc-key-of-a-client"
WEBHOOK = f"whsec_{secrets.token_hex(16)}"
BASIC = "cG90bHVjazphIHBhc3N3b3Jk"
PLANTED = (
    PASSWORD,
    quote(PASSWORD, safe=""),
    KEY,
    API_KEY,
    INVITE,
    WALLET_KEY,
    SIGNATURE,
    TOKEN,
    CLOUD,
    RPC,
    RPC_KEY,
    WEBHOOK,
    BASIC,
)

LOG = f"""{{"event": "request failed", "token": "{API_KEY}", "authorization": "Bearer {TOKEN}"}}
cannot connect to postgresql://potluck:{quote(PASSWORD, safe="")}@db.example/potluck
cannot connect to postgresql://db.example/potluck?password={PASSWORD}
invite {INVITE} was used by {WALLET_KEY}, signature={SIGNATURE}
uploading with {CLOUD} and key {KEY} through https://rpc.example/{RPC}?apikey={RPC_KEY}
sent with {WEBHOOK}, Authorization: Basic {BASIC}
the pool has 3 nodes
"""


@pytest.fixture
def settings(tmp_path: Path, database_url: str) -> ServerSettings:
    parts = urlsplit(database_url)
    secret = f"{parts.query}&application_name={quote(PASSWORD, safe='')}"
    (tmp_path / "server").mkdir(mode=0o700)
    key_file = tmp_path / "server" / "encryption-key"
    key_file.touch(0o600)
    key_file.write_text(KEY)
    return read_settings(
        {
            "data_directory": str(tmp_path),
            "database_url": parts._replace(query=secret).geturl(),
            "redis_url": f"redis://:{quote(PASSWORD, safe='')}@redis.example:6379/0",
            "chain_rpc_urls": f"1=https://rpc.example/{RPC}?apikey={RPC_KEY}",
            "port": 1,
        },
        {},
    )


async def write(settings: ServerSettings, tmp_path: Path) -> tuple[SupportBundle, dict[str, str]]:
    log = tmp_path / "server.log"
    log.write_text(LOG)
    variables = {"AWS_SECRET_ACCESS_KEY": CLOUD, "POTLUCK_WALLET_KEY": WALLET_KEY, "HOME": "/root"}
    bundle = SupportBundle(settings, [log, tmp_path / "missing.log"], variables)
    path = tmp_path / "potluck-support.tar.gz"
    await bundle.write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    return bundle, unpacked(path)


def unpacked(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        members = {member.name: archive.extractfile(member) for member in archive.getmembers()}
        return {
            name.partition("/")[2]: file.read().decode() for name, file in members.items() if file
        }


async def test_no_secret_is_in_it(settings: ServerSettings, tmp_path: Path) -> None:
    _, parts = await write(settings, tmp_path)
    whole_text = "\n".join(parts.values())
    assert [secret for secret in PLANTED if secret in whole_text] == []
    assert parts["logs/server.log"].endswith("the pool has 3 nodes\n")


async def test_the_bundle_has_useful_facts(settings: ServerSettings, tmp_path: Path) -> None:
    bundle, parts = await write(settings, tmp_path)
    assert {"about.json", "settings.json", "database.json", "disk.json", "logs/server.log"} < set(
        parts
    )
    assert '"redis_url": "redis://redis.example:6379/' in parts["settings.json"]
    assert '"lease_seconds": 90.0' in parts["settings.json"]
    assert '"0021"' in parts["database.json"] and '"waiting_tasks": 0' in parts["database.json"]
    assert "the pool has 3 nodes" in parts["logs/server.log"]
    assert set(bundle.failures) == {"readiness.json", "metrics.txt"}, "no server runs here"
    assert "readiness.json" in parts["failures.json"]


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "http://127.0.0.1:8470"),
        ("::1", "http://[::1]:8470"),
        ("0.0.0.0", "http://127.0.0.1:8470"),
        ("::", "http://[::1]:8470"),
        ("10.0.0.7", "http://10.0.0.7:8470"),
        ("pool.example", "http://pool.example:8470"),
    ],
)
def test_the_server_is_asked_where_it_listens(host: str, address: str, tmp_path: Path) -> None:
    settings = ServerSettings(data_directory=tmp_path, host=host)
    assert local_address(settings, 8470) == address
    assert local_address(replace(settings, tls="auto"), 8470) == address.replace("http:", "https:")


async def test_a_refusal_is_a_failure_and_no_part(settings: ServerSettings, tmp_path: Path) -> None:
    """`/metrics` may need a key; `/readyz` says with 503 what is not ready."""
    with answering({"/readyz": 503, "/metrics": 401}) as port:
        bundle, parts = await write(replace(settings, port=port), tmp_path)
    assert parts["readiness.json"] == "the answer" and "metrics.txt" not in parts
    assert bundle.failures == {"metrics.txt": "The server answered /metrics with 401."}


@contextmanager
def answering(statuses: dict[str, int]) -> Iterator[int]:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(statuses[self.path])
            self.end_headers()
            self.wfile.write(b"the answer")

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


async def test_a_log_that_cannot_be_read_is_named_and_none_replaces_another(
    settings: ServerSettings, tmp_path: Path
) -> None:
    logs = [tmp_path / name / "server.log" for name in ("a", "b", "c")]
    for log in logs:
        log.parent.mkdir()
    logs[0].write_text("first")
    logs[1].mkdir()  # root could read a file without permissions
    logs[2].write_text("third")
    bundle = SupportBundle(settings, [*logs, logs[0]], {})
    await bundle.write(tmp_path / "bundle.tar.gz")
    parts = unpacked(tmp_path / "bundle.tar.gz")
    texts = {name: text for name, text in parts.items() if name.startswith("logs/")}
    assert texts == {"logs/server.log": "first", "logs/server-3.log": "third"}
    assert bundle.failures["logs/server-2.log"] == "IsADirectoryError"


def test_the_hint_about_a_file_is_of_no_command() -> None:
    async def fail() -> None:
        raise PermissionError(13, "Permission denied", "bundle.tar.gz")

    with pytest.raises(OutputLost) as error_info:
        run_locally(fail())
    assert "bundle.tar.gz" in error_info.value.detail and "backup" not in str(error_info.value.hint)


async def test_an_existing_archive_is_not_replaced(
    settings: ServerSettings, tmp_path: Path
) -> None:
    path = tmp_path / "bundle.tar.gz"
    path.write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        await SupportBundle(settings, [], {}).write(path)
    assert path.read_bytes() == b"mine"


def test_only_likely_secrets_are_removed() -> None:
    clean = Redactor(["hunter22"]).clean
    text = "task_01m7gm2q85jfaf9jspxrgzrx1c failed on node_01m7gkzc4hf6e3q8t2w9y5n7ka after 3.2 s"
    assert clean(text) == text
    assert clean("redis://:hunter22@cache") == f"redis://:{MASK}@cache"
    pem = "-----{} PRIVATE " + "KEY-----\n"
    assert "hidden" not in clean(f"{pem.format('BEGIN')}hidden\n{pem.format('END')}")
    assert io.StringIO(clean(LOG)).readline().count(MASK) == 2
