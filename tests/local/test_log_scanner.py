"""A secret in a log of the tests is noticed."""

import base64
import json
import subprocess
import sys
from pathlib import Path

import pytest

from potluck.local.secret_patterns import MASK, mask_secrets
from potluck.provider.metrics import definitions as of_provider
from potluck.server.auth.tokens import INVITE_PREFIX, KEY_PREFIX, REFRESH_PREFIX, new_secret
from potluck.server.metrics import definitions as of_server
from tests.log_scanner import SCANNER, LogScanner
from tests.wallets import Wallet

_JWT = ".".join(
    base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
    for part in ({"alg": "HS256", "typ": "JWT"}, {"sub": "account_1"}, "a signature of some length")
)
_PEM = "-----{} PRIVATE KEY-----"
SECRETS = {
    "an API key": new_secret(KEY_PREFIX),
    "a refresh token": new_secret(REFRESH_PREFIX),
    "an invite": new_secret(INVITE_PREFIX),
    "a webhook's secret": f"whsec_{base64.b64encode(bytes(range(32))).decode()}",
    "an access token": _JWT,
    "a signature": Wallet("alice").sign_text("a message"),
    "a header": "Authorization: Bearer abcdefghijklmnop",
    "a lease": '{"attempt_id": "attempt_1", "token": "' + "x" * 43 + '"}',
    "an address with a password": "postgresql://potluck:a-password@10.0.0.1/potluck",
    "a key in hex": f"the key {bytes(range(32)).hex()} was used",
    "a password with its name": "cannot connect: host=db password=hunter2",
    "a passphrase in a query": "https://pool.example/?passphrase=correct-horse&after=1",
    "a key of Amazon": "AKIA" + "Z" * 16,
    "a private key": _PEM.format("BEGIN") + "\nMIGHAgEAMBMGByq\n" + _PEM.format("END"),
}


@pytest.mark.parametrize("secret_name", SECRETS)
def test_secrets_are_found_in_logs_and_masked_by_the_logger(
    secret_name: str, tmp_path: Path
) -> None:
    scanner, log = LogScanner(), tmp_path / "server.log"
    log.write_text("it starts\n")
    scanner.watch(log)
    assert scanner.scan() == []
    with log.open("a") as file:
        file.write(f"a request failed: {SECRETS[secret_name]}\n")
    assert len(scanner.scan()) >= 1
    assert scanner.scan() == [], "once"
    masked = mask_secrets(SECRETS[secret_name])
    assert MASK in masked and scanner.find(masked) == []


def test_planted_secrets_are_found() -> None:
    scanner = LogScanner()
    scanner.plant("a wallet's key", Wallet("alice").key.hex())
    assert "a wallet's key" in scanner.find(f"key={Wallet('alice').key.hex().upper()}")
    assert len(scanner.find("planted-argument-d3b07384d1")) == 1


def test_ids_hashes_and_addresses_are_not_secrets() -> None:
    harmless = (
        f"task_01m7gm2q85jfaf9jspxrgzrx1c sha256:{'0f' * 32} objects/{'0f' * 32}"
        f" {Wallet('alice').address}"
        " https://pool.example/v1/tasks?after=10:30 a token was refused: token expired"
    )
    assert LogScanner().find(harmless) == [] and mask_secrets(harmless) == harmless


def test_names_of_metrics_are_not_secrets() -> None:
    names = "\n".join(f"{metric.name}_bucket" for metric in (*of_server.TABLE, *of_provider.TABLE))
    assert "potluck_device_" in names
    assert mask_secrets(names) == names


def test_a_masked_line_of_json_is_still_json() -> None:
    for text in ('"password=hunter2"', "password='a\\b'", "secret=a\nnext", 'token="x\\" y'):
        line = mask_secrets(json.dumps({"event": text}))
        assert MASK in json.loads(line)["event"] and "hunter2" not in line


_FAILING = """
from pathlib import Path
from potluck.server.metrics import definitions as of_server
from tests.log_scanner import SCANNER

def test_a_token_is_masked_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    SCANNER.watch(log)
    log.write_text("potluck_key_" + "x" * 43 + "\\n")
"""


def test_a_test_whose_server_logs_a_token_fails(tmp_path: Path) -> None:
    """With the configuration of all tests."""
    root, test = Path(__file__).parent.parent.parent, tmp_path / "test_planted.py"
    test.write_text(_FAILING)
    options = ["-c", "pyproject.toml", "--rootdir=.", "-p", "tests.conftest"]
    command = [sys.executable, "-m", "pytest", *options, str(test), f"--basetemp={tmp_path}/base"]
    process = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120)
    assert process.returncode == 1, process.stdout
    assert "ERROR at teardown of test_a_token_is_masked_in_the_log" in process.stdout, (
        process.stdout
    )
    assert "a token of Potluck" in process.stdout and "x" * 43 not in process.stdout


def test_every_process_of_the_tests_is_watched(request: pytest.FixtureRequest) -> None:
    assert "_logs_without_secrets" in request.fixturenames
    assert SCANNER._secrets, "the wallets of the tests are known"
