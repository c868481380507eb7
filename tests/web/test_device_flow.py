"""`potluck login --browser` through the dashboard: a real terminal, wallets that really sign."""

import json
import subprocess
from pathlib import Path
from typing import Any

from eth_account import Account
from playwright.sync_api import expect

from tests.processes import FAST_PROVIDER, PotluckProcess, ServerProcess, potluck
from tests.wallets import Wallet
from tests.web.dashboard_page import DashboardPage


def whoami(config: Path) -> Any:
    environment = {"POTLUCK_CONFIG_DIR": str(config), "PATH": "/usr/bin:/bin"}
    command = potluck("whoami", "--json")
    process = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=60)
    return json.loads(process.stdout)


def login(server: ServerProcess, place: Path) -> PotluckProcess:
    environment = {"POTLUCK_CONFIG_DIR": str(place / "config")}
    return PotluckProcess(["login", server.url, "--browser"], environment, place / "login.log")


def test_a_terminal_is_signed_in_by_a_wallet_of_the_browser(
    dashboard: DashboardPage, server: ServerProcess, tmp_path: Path
) -> None:
    page = dashboard.page
    wallet = dashboard.bring_wallet("has a terminal and a browser")
    with login(server, tmp_path) as terminal:
        page.goto(terminal.first["verification_uri_complete"])
        expect(page.get_by_text(terminal.first["user_code"])).to_be_visible()
        expect(page.get_by_text("submit and cancel tasks on your credit")).to_be_visible()
        dashboard.press("Sign with Test Wallet")
        dashboard.expect_title("Signed. Go back to your terminal.")
        assert terminal.wait() == 0, (tmp_path / "login.log").read_text()
    assert whoami(tmp_path / "config")["address"] == wallet.wallet.address


def test_a_machine_joins_by_a_wallet_from_a_keystore_which_signs_twice(
    dashboard: DashboardPage, server: ServerProcess, tmp_path: Path
) -> None:
    """A browser without a wallet is enough."""
    page = dashboard.page
    owner = Wallet("has a keystore and a machine")
    keystore = tmp_path / "wallet.json"
    keystore.write_text(json.dumps(Account.encrypt(owner.key, "correct horse", iterations=2)))
    command = ["provide", server.url, "--browser", "--data-dir", str(tmp_path)]
    environment = {**FAST_PROVIDER, "POTLUCK_CONFIG_DIR": str(tmp_path / "config")}
    with PotluckProcess(command, environment, tmp_path / "provide.log") as provide:
        page.goto(provide.first["verification_uri_complete"])
        page.get_by_label("Keystore", exact=True).set_input_files(keystore)
        page.get_by_label("Its password").fill("correct horse")
        dashboard.press("Open it and sign")
        dashboard.expect_title("Signed. Go back to your terminal.")
        assert provide.process.stdout is not None
        node_id = json.loads(provide.process.stdout.readline())["node_id"]
        (key,) = server.client(server.sign_in(owner)).get("/v1/me/node-keys")["node_keys"]
        assert key["node_id"] == node_id


def test_a_terminal_is_denied_and_a_wrong_code_is_said(
    dashboard: DashboardPage, server: ServerProcess, tmp_path: Path
) -> None:
    page = dashboard.page
    with login(server, tmp_path) as terminal:
        dashboard.open("/device")
        page.get_by_label("Code").fill("abc")
        dashboard.press("Continue")
        expect(page.get_by_role("alert")).to_contain_text("The code has eight letters.")
        page.get_by_label("Code").fill("BBBBBBBB")
        dashboard.press("Continue")
        expect(page.get_by_role("alert")).to_be_visible()
        page.get_by_label("Code").fill(terminal.first["user_code"].lower())
        dashboard.press("Continue")
        dashboard.press("This was not me: deny")
        dashboard.expect_title("Denied")
        assert terminal.wait() != 0
