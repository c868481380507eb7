"""The page where a browser wallet approves a terminal, in a real browser."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from potluck.wire import routes
from tests.processes import Api, ServerProcess, await_true
from tests.server.pages.browser_wallet import BrowserWallet
from tests.wallets import Wallet

SIGN = "Sign with Test Wallet"


def ask(anybody: Api, **changes: Any) -> Any:
    approval = anybody.post(routes.ASK_FOR_TERMINAL.path, {"machine": "attic", **changes})
    assert "user_code" in approval, approval
    return approval


def poll(anybody: Api, approval: Any) -> Any:
    return anybody.post(routes.TERMINAL_TOKEN.path, {"device_code": approval["device_code"]})


def heading(page: Page) -> Any:
    return page.get_by_role("heading")


def test_a_wallet_approves_and_the_terminal_is_let_in(
    page: Page, server: ServerProcess, anybody: Api
) -> None:
    alice = BrowserWallet("alice")
    alice.announce(page)
    approval = ask(anybody)
    assert poll(anybody, approval)["code"] == "authorization_pending"

    page.goto(approval["verification_uri"])
    page.get_by_label("eight letters").fill(approval["user_code"].replace("-", "").lower())
    page.keyboard.press("Enter")
    expect(page.locator("#ask-code")).to_have_text(approval["user_code"])
    expect(page.locator("#ask-machine")).to_have_text("attic")
    expect(page.get_by_text("submit and cancel tasks")).to_be_visible()
    expect(page.get_by_text("Node key")).to_be_hidden()
    page.get_by_role("button", name=SIGN).click()
    expect(heading(page)).to_have_text("Signed. Go back to your terminal.")

    (text,) = alice.texts()
    assert approval["user_code"] in text
    tokens = poll(anybody, approval)
    assert tokens["address"] == alice.wallet.address
    me = server.client(tokens["access_token"])
    assert me.get(routes.ME.path)["address"] == alice.wallet.address
    (session,) = me.get(routes.LIST_SESSIONS.path)["sessions"]
    assert session["machine"] == "attic"
    me.close()


def test_a_machine_is_brought_in_with_a_second_signature(
    page: Page, server: ServerProcess, anybody: Api
) -> None:
    alice, node_key = BrowserWallet("alice with a machine"), Wallet("a machine's key").address
    alice.announce(page)
    approval = ask(anybody, node_key=node_key)
    page.goto(approval["verification_uri_complete"])
    expect(page.get_by_text(node_key)).to_be_visible()
    expect(page.get_by_text("joins the pool as your provider")).to_be_visible()
    page.get_by_role("button", name=SIGN).click()
    expect(heading(page)).to_have_text("Signed. Go back to your terminal.")

    methods = [method for method, _ in alice.asked]
    assert methods.count("eth_signTypedData_v4") == 1
    me = server.client(poll(anybody, approval)["access_token"])
    (authorised,) = me.get(routes.LIST_NODE_KEYS.path)["node_keys"]
    assert authorised["key"] == node_key
    me.close()


def test_declining_the_second_signature_approves_nothing(page: Page, anybody: Api) -> None:
    alice = BrowserWallet("alice without a machine")
    alice.announce(page)
    alice.declines.add("eth_signTypedData_v4")
    approval = ask(anybody, node_key=Wallet("another machine's key").address)
    page.goto(approval["verification_uri_complete"])
    page.get_by_role("button", name=SIGN).click()
    expect(page.get_by_role("alert")).to_contain_text("You declined in the wallet.")
    assert poll(anybody, approval)["code"] == "authorization_pending"


def test_the_keyboard_is_enough(page: Page, anybody: Api) -> None:
    BrowserWallet("keyboard").announce(page)
    approval = ask(anybody)
    page.goto(approval["verification_uri_complete"])
    expect(heading(page)).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name=SIGN)).to_be_focused()
    page.keyboard.press("Enter")
    expect(heading(page)).to_have_text("Signed. Go back to your terminal.")
    assert "access_token" in poll(anybody, approval)


def test_the_address_keeps_the_code_from_the_server(page: Page, anybody: Api) -> None:
    approval = ask(anybody)
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url))
    page.goto(approval["verification_uri_complete"])
    expect(page.locator("#ask-code")).to_have_text(approval["user_code"])
    assert sent[0] == approval["verification_uri"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_fits_a_narrow_screen_in_both_themes(page: Page, anybody: Api, theme: Any) -> None:
    BrowserWallet("narrow").announce(page)
    page.emulate_media(color_scheme=theme)
    page.goto(ask(anybody, machine="m" * 100)["verification_uri_complete"])
    expect(page.get_by_role("button", name=SIGN)).to_be_visible()
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 360
    for selector in ("main", "#ask-machine", "dt >> nth=0", f"button:has-text('{SIGN}')"):
        assert contrast(page, selector) >= 4.5, selector


def test_a_wallet_that_does_not_announce_itself_is_found(page: Page, anybody: Api) -> None:
    BrowserWallet("old").stand_alone(page)
    approval = ask(anybody)
    page.goto(approval["verification_uri_complete"])
    page.get_by_role("button", name="Sign with your wallet").click()
    expect(heading(page)).to_have_text("Signed. Go back to your terminal.")


def test_without_a_wallet_the_page_says_what_to_do(page: Page, anybody: Api) -> None:
    page.goto(ask(anybody)["verification_uri_complete"])
    expect(page.get_by_text("This browser has no wallet.")).to_be_visible()


def test_an_unknown_code_is_told(page: Page, anybody: Api) -> None:
    for typed_code in ("BCDF-GHJK", "bcdfghjk", "AAAA-AAAA"):
        visit(page, f"{anybody.url}/device")
        page.get_by_label("eight letters").fill(typed_code)
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_role("alert")).to_contain_text("No terminal has this code.")
        expect(heading(page)).to_have_text("Enter the code from your terminal")


def test_an_invalid_code_is_reported_immediately(page: Page, anybody: Api) -> None:
    for typed_code in ("..", "ABC", "../../healthz", "<b>eight</b>"):
        visit(page, f"{anybody.url}/device#{typed_code}")
        expect(page.get_by_role("alert")).to_contain_text("The code has eight letters.")


def test_a_code_that_expires_while_it_is_shown_says_so(page: Page, hasty: Api) -> None:
    BrowserWallet("slow").announce(page)
    approval = ask(hasty)
    page.goto(approval["verification_uri_complete"])
    button = page.get_by_role("button", name=SIGN)
    expect(button).to_be_visible()
    await_true(lambda: poll(hasty, approval)["code"] == "expired_token", "the code ends")
    button.click()
    expect(page.get_by_role("alert")).to_contain_text("No terminal has this code.")


@pytest.mark.parametrize("method", ["eth_requestAccounts", "personal_sign"])
def test_a_declined_signature_can_be_retried(page: Page, anybody: Api, method: str) -> None:
    alice = BrowserWallet("hesitant")
    alice.announce(page)
    alice.declines.add(method)
    approval = ask(anybody)
    page.goto(approval["verification_uri_complete"])
    page.get_by_role("button", name=SIGN).click()
    expect(page.get_by_role("alert")).to_contain_text("You declined in the wallet.")
    assert poll(anybody, approval)["code"] == "authorization_pending"
    alice.declines.clear()
    page.get_by_role("button", name=SIGN).click()
    expect(heading(page)).to_have_text("Signed. Go back to your terminal.")
    expect(page.get_by_role("alert")).to_be_hidden()


def test_a_wallet_on_another_chain_need_not_switch(page: Page, anybody: Api) -> None:
    alice = BrowserWallet("elsewhere", chain_id=137)
    alice.announce(page)
    approval = ask(anybody)
    page.goto(approval["verification_uri_complete"])
    page.get_by_role("button", name=SIGN).click()
    expect(heading(page)).to_have_text("Signed. Go back to your terminal.")
    assert "Chain ID: 1\n" in alice.texts()[0]


def test_a_refused_signature_names_the_chain_that_was_asked(page: Page, anybody: Api) -> None:
    """As a contract wallet would meet it that lives on another chain."""
    stranger = BrowserWallet("a contract elsewhere", chain_id=137)
    stranger.announce(page)
    stranger.wallet.key = BrowserWallet("one of its owners").wallet.key
    page.goto(ask(anybody)["verification_uri_complete"])
    page.get_by_role("button", name=SIGN).click()
    expect(page.get_by_role("alert")).to_contain_text("switch it to chain 1")


def test_a_person_who_did_not_ask_can_deny(page: Page, anybody: Api) -> None:
    approval = ask(anybody)
    page.goto(approval["verification_uri_complete"])
    page.get_by_role("button", name="deny").click()
    expect(heading(page)).to_have_text("Denied")
    assert poll(anybody, approval)["code"] == "access_denied"
    page.goto("about:blank")
    page.goto(approval["verification_uri_complete"])
    expect(page.get_by_role("alert")).to_contain_text("No terminal has this code.")


PAYLOADS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "javascript:alert(1)",
    "</bdi></dd><iframe srcdoc='<script>parent.alert(1)</script>'>",
    "{{constructor.constructor('alert(1)')()}}",
    "${alert(1)}`-alert(1)-`",
]


def test_the_name_of_a_terminal_is_shown_as_text(page: Page, anybody: Api) -> None:
    BrowserWallet("careful").announce(page)
    for payload in PAYLOADS:
        visit(page, ask(anybody, machine=payload)["verification_uri_complete"])
        expect(page.locator("#ask-machine")).to_have_text(payload)
        assert page.locator("#ask-machine > *").count() == 0
        expect(page.get_by_role("button", name=SIGN)).to_be_visible()


def test_the_name_of_a_wallet_is_shown_as_text(page: Page, anybody: Api) -> None:
    BrowserWallet("rude").announce(page, '"<img src=x onerror=alert(1)>"')
    page.goto(ask(anybody)["verification_uri_complete"])
    button = page.get_by_role("button", name="Sign with <img src=x onerror=alert(1)>")
    expect(button).to_be_visible()


def test_the_policy_would_be_noticed(page: Page, anybody: Api) -> None:
    """An inline script is refused by the browser, and the watch over the tests sees it."""
    page.goto(f"{anybody.url}/device")
    page.evaluate(
        """() => { const script = document.createElement("script");
        script.textContent = "window.ran = true"; document.body.append(script); }"""
    )
    page.wait_for_function("window.violations.length > 0")
    assert page.evaluate("[window.ran, window.violations.pop()]") == [
        None,
        "script-src-elem inline",
    ]


def visit(page: Page, url: str) -> None:
    """Another page in the same window, once nothing on the last one was against the policy."""
    assert page.evaluate("window.violations ?? []") == []
    if page.goto(url) is None:  # only the code after the # is new, so it stayed where it was
        page.reload()


def contrast(page: Page, selector: str) -> float:
    """Of its text against what is behind it, as WCAG counts."""
    colours = page.locator(selector).first.evaluate(
        """(element) => {
          const ground = (each) => {
            const colour = getComputedStyle(each).backgroundColor;
            return colour !== "rgba(0, 0, 0, 0)" ? colour : ground(each.parentElement);
          };
          return [getComputedStyle(element).color, ground(element)]
            .map((colour) => colour.match(/[0-9.]+/g).slice(0, 3).map(Number));
        }"""
    )
    light, dark = sorted((_luminance(colour) for colour in colours), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: list[float]) -> float:
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (value / 255 for value in colour)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
