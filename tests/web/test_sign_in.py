"""Signing in to the dashboard: wallets of the browser, wallets made in it, and what is kept."""

import json
from pathlib import Path

from eth_account import Account
from playwright.sync_api import expect

from tests.web.dashboard_page import DashboardPage

STORED = "JSON.stringify([document.cookie, {...localStorage}, {...sessionStorage}])"


def test_a_wallet_of_the_browser_signs_in_and_a_reload_stays_signed_in(
    dashboard: DashboardPage,
) -> None:
    page = dashboard.page
    dashboard.sign_in("alice")
    assert dashboard.wallet is not None
    (text,) = dashboard.wallet.texts()
    assert dashboard.wallet.wallet.address in text, "the message has the address with its checksum"
    assert page.evaluate(STORED) == '["",{},{}]', "scripts can read nothing of the session"
    page.reload()
    dashboard.expect_signed_in()
    page.get_by_role("button", name="Sign out").click()
    dashboard.expect_title("Sign in")
    page.reload()
    dashboard.expect_title("Sign in")


def test_a_page_that_needs_an_account_is_shown_after_the_sign_in(dashboard: DashboardPage) -> None:
    dashboard.bring_wallet("bob")
    dashboard.open("/market?kind=cpu")
    dashboard.expect_title("Sign in")
    dashboard.press("Sign in with Test Wallet")
    dashboard.expect_title("Market")
    assert dashboard.page.url == f"{dashboard.url}/market?kind=cpu"


def test_an_address_elsewhere_is_not_followed_after_the_sign_in(dashboard: DashboardPage) -> None:
    dashboard.bring_wallet("bob")
    dashboard.open("/sign-in?to=https://elsewhere.example/")
    dashboard.press("Sign in with Test Wallet")
    dashboard.expect_signed_in()
    assert dashboard.page.url == f"{dashboard.url}/"


def test_a_declined_signature_is_said_and_can_be_repeated(dashboard: DashboardPage) -> None:
    wallet = dashboard.bring_wallet("carol")
    wallet.declines.add("personal_sign")
    dashboard.open("/sign-in")
    dashboard.press("Sign in with Test Wallet")
    expect(dashboard.page.get_by_role("alert")).to_contain_text("You declined in the wallet.")
    wallet.declines.clear()
    dashboard.press("Sign in with Test Wallet")
    dashboard.expect_signed_in()


def test_a_wallet_made_in_the_browser_comes_back_with_its_keystore(
    dashboard: DashboardPage, tmp_path: Path
) -> None:
    """The file is one that other programs open, and the only copy of the key."""
    page = dashboard.page
    dashboard.open("/sign-in")
    page.get_by_label("Password for the new wallet").fill("correct horse")
    dashboard.press("Make a wallet in this browser")
    with page.expect_download() as downloaded:
        dashboard.press("Download the keystore")
    keystore = tmp_path / "wallet.json"
    downloaded.value.save_as(keystore)
    address = page.locator("code").first.inner_text()
    page.get_by_label("I have the file and the password").check()
    dashboard.expect_signed_in()
    key = Account.decrypt(json.loads(keystore.read_text()), "correct horse")
    assert Account.from_key(key).address == address
    page.get_by_role("button", name="Sign out").click()
    dashboard.expect_title("Sign in")
    page.get_by_label("Keystore", exact=True).set_input_files(keystore)
    page.get_by_label("Its password").fill("wrong horse")
    dashboard.press("Open it and sign in")
    expect(page.get_by_role("alert")).to_contain_text("The password does not open this keystore.")
    page.get_by_label("Its password").fill("correct horse")
    dashboard.press("Open it and sign in")
    dashboard.expect_signed_in()
    dashboard.open("/account")
    expect(page.locator("main code").first).to_have_text(address)
