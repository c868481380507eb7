"""`potluck login --browser`: the terminal shows a code, somebody's wallet approves it elsewhere."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from potluck.cli.account.browser import is_page_of
from potluck.wire import routes
from potluck.wire.identity import Delegation
from potluck.wire.signing.delegation import digest
from potluck.wire.signing.signature import sign
from tests.cli.command_line import PATIENCE_SECONDS, CommandLine
from tests.cli.pseudo_terminal import Terminal
from tests.processes import Api, ServerProcess
from tests.wallets import Wallet

ANN = Wallet("ann and her browser")


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    eager = {"POTLUCK_TERMINAL_POLL_SECONDS": "0.1", "POTLUCK_TERMINAL_SECONDS": "3"}
    with ServerProcess(tmp_path_factory.mktemp("pool"), 0, **eager) as server:
        yield server


@pytest.fixture
def page(pool: ServerProcess) -> Iterator[Api]:
    """What the browser would send."""
    api = pool.client("")
    yield api
    api.close()


@pytest.fixture
def user(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path / "config")


def asks(process: "subprocess.Popen[bytes]") -> dict[str, Any]:
    """The first line of the terminal: where to go, and which code to compare."""
    assert process.stdout is not None
    approval: dict[str, Any] = json.loads(process.stdout.readline())
    assert approval["event"] == "approve"
    return approval


def approve(page: Api, approval: dict[str, Any]) -> None:
    code = {"user_code": approval["user_code"]}
    request = {"address": ANN.address, "chain_id": 1, "origin": page.url}
    drafted = page.post(routes.DRAFT_TERMINAL.url(**code), request)
    signed = {"message": drafted["message"], "signature": ANN.sign_text(drafted["message"])}
    if drafted["delegation"] is not None:
        word = digest(msgspec.convert(drafted["delegation"], Delegation))
        signed["delegation"] = {**drafted["delegation"], "signature": sign(ANN.key, word)}
    body = json.dumps(signed).encode()
    assert page.call("POST", routes.APPROVE_TERMINAL.url(**code), body).status == 204


def test_a_wallet_elsewhere_lets_the_terminal_in(
    pool: ServerProcess, page: Api, user: CommandLine
) -> None:
    with user.start("login", pool.url, "--browser", "--json") as process:
        approval = asks(process)
        assert approval["verification_uri"].endswith("/device")
        approve(page, approval)
        stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    (signed_in,) = [json.loads(line) for line in stdout.splitlines()]
    assert (signed_in["event"], signed_in["address"]) == ("signed_in", ANN.address)
    assert ANN.address in user.run("whoami").stdout.decode()
    # There is no key on this machine, and what it polls with is not shown to anybody.
    config = Path(user.variables["POTLUCK_CONFIG_DIR"])
    assert not (config / "wallet.json").exists()
    assert "device_code" not in f"{approval}{stderr!r}"
    # Nor is one made for somebody whose wallet is in a browser.
    user.variables["POTLUCK_WALLET_PASSWORD"] = "some words"
    result = user.run("login")
    assert result.status == 78 and ANN.address in result.stderr and "--browser" in result.stderr
    assert not (config / "wallet.json").exists()


@pytest.mark.parametrize("host", [pytest.param("127.0.0.1", marks=pytest.mark.long), "localhost"])
def test_a_machine_is_authorised_by_any_name_of_the_server_and_asks_once(
    pool: ServerProcess, page: Api, user: CommandLine, tmp_path: Path, host: str
) -> None:
    url = pool.url.replace("127.0.0.1", host)
    place = ["--data-dir", str(tmp_path), "--unsafe-no-sandbox"]
    for is_first in (True, False):
        with user.start("provide", url, "--browser", "--json", *place) as process:
            try:
                if is_first:
                    approve(page, asks(process))
                assert process.stdout is not None
                assert json.loads(process.stdout.readline())["event"] == "registered"
            finally:
                process.terminate()


@pytest.mark.parametrize(
    ("page_url", "is_opened"),
    [
        ("https://pool.example/device#CODE", True),
        ("http://pool.example:8470/device", True),
        ("https://elsewhere.example/device", False),
        ("file:///etc/passwd", False),
        ("javascript:alert(1)", False),
        ("--help", False),
        ("http://[", False),
    ],
)
def test_only_pages_of_the_server_are_opened(page_url: str, is_opened: bool) -> None:
    assert is_page_of("https://pool.example", page_url) is is_opened


def test_a_refusal_in_the_browser_ends_it(
    pool: ServerProcess, page: Api, user: CommandLine
) -> None:
    with user.start("login", pool.url, "--browser", "--json") as process:
        code = asks(process)["user_code"]
        assert page.call("POST", routes.DENY_TERMINAL.url(user_code=code), b"").status == 204
        stdout, _ = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 77
    assert json.loads(stdout.splitlines()[-1])["error"]["code"] == "access_denied"


def test_an_unapproved_code_expires(pool: ServerProcess, user: CommandLine) -> None:
    result = user.run("login", pool.url, "--browser", "--json")
    assert result.status == 77
    assert result.lines()[-1]["error"]["code"] == "expired_token"


def test_a_person_sees_the_page_and_the_code(
    pool: ServerProcess, page: Api, user: CommandLine
) -> None:
    with Terminal(user, "login", pool.url, "--browser") as terminal:
        screen = terminal.until("Waiting; the code is valid for")
        assert f"{pool.url}/device#" in screen
        screen_words = screen.split()
        (code,) = {word for word in screen_words if len(word) == 9 and word[4] == "-"}
        approve(page, {"user_code": code})
        assert f"Signed in to {pool.url} as {ANN.address}." in terminal.rest()
