"""`potluck login --browser`: the terminal shows a code, somebody's wallet approves it elsewhere."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from potluck.wire import routes
from tests.cli.command_line import PATIENCE_SECONDS, CommandLine
from tests.cli.terminal import Terminal
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
    asked: dict[str, Any] = json.loads(process.stdout.readline())
    assert asked["event"] == "approve"
    return asked


def approve(page: Api, asked: dict[str, Any]) -> None:
    code = {"user_code": asked["user_code"]}
    who = {"address": ANN.address, "chain_id": 1, "origin": page.url}
    message = page.post(routes.DRAFT_TERMINAL.url(**code), who)["message"]
    signed = json.dumps({"message": message, "signature": ANN.sign_text(message)}).encode()
    assert page.call("POST", routes.APPROVE_TERMINAL.url(**code), signed).status == 204


def test_a_wallet_elsewhere_lets_the_terminal_in(
    pool: ServerProcess, page: Api, user: CommandLine
) -> None:
    with user.start("login", pool.url, "--browser", "--json") as process:
        asked = asks(process)
        assert asked["verification_uri"].endswith("/device")
        approve(page, asked)
        stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
    (signed_in,) = [json.loads(line) for line in stdout.splitlines()]
    assert (signed_in["event"], signed_in["address"]) == ("signed_in", ANN.address)
    assert ANN.address in user.run("whoami").stdout.decode()
    # There is no key on this machine, and what it polls with is not shown to anybody.
    config = Path(user.variables["POTLUCK_CONFIG_DIR"])
    assert not (config / "wallet.json").exists()
    assert "device_code" not in f"{asked}{stderr!r}"


def test_a_refusal_in_the_browser_ends_it(
    pool: ServerProcess, page: Api, user: CommandLine
) -> None:
    with user.start("login", pool.url, "--browser", "--json") as process:
        code = asks(process)["user_code"]
        assert page.call("POST", routes.DENY_TERMINAL.url(user_code=code), b"").status == 204
        stdout, _ = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 77
    assert json.loads(stdout.splitlines()[-1])["error"]["code"] == "access_denied"


def test_a_code_that_nobody_approves_comes_to_its_end(
    pool: ServerProcess, user: CommandLine
) -> None:
    told = user.run("login", pool.url, "--browser", "--json")
    assert told.status == 77
    assert told.lines()[-1]["error"]["code"] == "expired_token"


def test_a_person_sees_the_page_and_the_code(
    pool: ServerProcess, page: Api, user: CommandLine
) -> None:
    with Terminal(user, "login", pool.url, "--browser") as terminal:
        shown = terminal.until("Waiting; the code is good for")
        assert f"{pool.url}/device#" in shown
        words = shown.split()
        (code,) = {word for word in words if len(word) == 9 and word[4] == "-"}
        approve(page, {"user_code": code})
        assert f"Signed in to {pool.url} as {ANN.address}." in terminal.rest()
