"""`potluck login` and `provide` with `--browser`: a real terminal, server and browser."""

import json
import subprocess
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from potluck.wire import routes
from tests.processes import FAST_PROVIDER, PotluckProcess, ServerProcess, potluck
from tests.server.pages.browser_wallet import BrowserWallet


def say(config: Path, *arguments: str) -> Any:
    environment = {"POTLUCK_CONFIG_DIR": str(config), "PATH": "/usr/bin:/bin"}
    command = potluck(*arguments, "--json")
    process = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=60)
    return json.loads(process.stdout)


def logging_in(server: ServerProcess, place: Path) -> PotluckProcess:
    """It has said where to go, and waits."""
    environment = {"POTLUCK_CONFIG_DIR": str(place / "config")}
    return PotluckProcess(["login", server.url, "--browser"], environment, place / "login.log")


def test_a_terminal_is_signed_in_by_the_wallet_of_a_browser(
    page: Page, server: ServerProcess, tmp_path: Path
) -> None:
    alice = BrowserWallet("alice, who has a terminal")
    alice.announce(page)
    with logging_in(server, tmp_path) as login:
        page.goto(login.first["verification_uri_complete"])
        expect(page.locator("#ask-code")).to_have_text(login.first["user_code"])
        page.get_by_role("button", name="Sign with Test Wallet").click()
        expect(page.get_by_role("heading")).to_have_text("Signed. Go back to your terminal.")
        assert login.wait() == 0, (tmp_path / "login.log").read_text()
    assert say(tmp_path / "config", "whoami")["address"] == alice.wallet.address
    secret = alice.wallet.key.hex()
    for path in (tmp_path / "config").iterdir():
        assert secret not in path.read_text(), "the key stays in the browser"


def test_a_machine_is_brought_in_by_the_wallet_of_a_browser(
    page: Page, server: ServerProcess, tmp_path: Path
) -> None:
    """The wallet signs twice in the browser; the provider never sees more than its own node key."""
    alice = BrowserWallet("alice, who has a machine")
    alice.announce(page)
    command = ["provide", server.url, "--browser", "--data-dir", str(tmp_path)]
    environment = {**FAST_PROVIDER, "POTLUCK_CONFIG_DIR": str(tmp_path / "config")}
    with PotluckProcess(command, environment, tmp_path / "provide.log") as provide:
        page.goto(provide.first["verification_uri_complete"])
        page.get_by_role("button", name="Sign with Test Wallet").click()
        expect(page.get_by_role("heading")).to_have_text("Signed. Go back to your terminal.")
        assert provide.process.stdout is not None
        node_id = json.loads(provide.process.stdout.readline())["node_id"]
        me = server.client(server.sign_in(alice.wallet))
        (key,) = me.get(routes.LIST_NODE_KEYS.path)["node_keys"]
        assert key["node_id"] == node_id
        me.close()


def test_a_terminal_that_is_refused_says_so(
    page: Page, server: ServerProcess, tmp_path: Path
) -> None:
    with logging_in(server, tmp_path) as login:
        page.goto(login.first["verification_uri_complete"])
        page.get_by_role("button", name="deny").click()
        expect(page.get_by_role("heading")).to_have_text("Denied")
        assert login.process.stdout is not None
        output = login.process.stdout.read()
        login.wait()
        assert login.process.returncode == 77
        assert json.loads(output)["error"]["code"] == "access_denied"
    assert not (tmp_path / "config" / "profile.toml").exists()
