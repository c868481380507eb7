"""Sessions of browsers: the cookie, its rotation, and tabs that refresh at the same time."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from potluck.wire import routes
from tests.browser_session import BrowserSession
from tests.processes import ServerProcess
from tests.wallets import Wallet

ANN = Wallet("ann, in a browser")


@pytest.fixture
def browser(server: ServerProcess) -> BrowserSession:
    return BrowserSession(server)


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Where a used token is a used token."""
    directory = tmp_path_factory.mktemp("strict")
    with ServerProcess(directory, POTLUCK_REFRESH_GRACE_SECONDS="0") as running:
        yield running


def address(server: ServerProcess, tokens: dict[str, str]) -> str:
    return str(server.client(tokens["access_token"]).get(routes.ME.path).get("address"))


def is_over(server: ServerProcess, tokens: dict[str, str]) -> bool:
    return server.client(tokens["access_token"]).call("GET", routes.ME.path).status == 401


def test_the_refresh_token_is_only_in_the_cookie(
    server: ServerProcess, browser: BrowserSession
) -> None:
    tokens = browser.sign_in(ANN)
    assert set(tokens) == {"access_token", "expires_in", "account_id", "address", "token_type"}
    assert address(server, tokens) == ANN.address
    cookie = browser.set_cookie
    assert cookie["httponly"] and cookie["samesite"].lower() == "strict"
    assert (cookie["path"], cookie["domain"], cookie["max-age"]) == (
        "/v1/auth/browser",
        "",
        str(30 * 86_400),
    )
    assert not cookie["secure"], "plain HTTP on this machine"
    assert cookie.key.startswith("potluck_refresh_")
    assert cookie.value not in str(tokens)


def test_pools_on_one_machine_have_cookies_of_their_own(
    server: ServerProcess, strict: ServerProcess
) -> None:
    """Cookies do not know ports."""
    first_pool, second_pool = BrowserSession(server), BrowserSession(strict)
    first_pool.sign_in(ANN)
    second_pool.sign_in(ANN)
    assert not set(first_pool.cookies) & set(second_pool.cookies)


def test_each_refresh_gives_the_next_cookie(server: ServerProcess, browser: BrowserSession) -> None:
    browser.sign_in(ANN)
    cookies = [dict(browser.cookies)]
    for _ in range(3):
        tokens = browser.refresh()
        assert address(server, tokens) == ANN.address
        cookies.append(dict(browser.cookies))
    assert len({str(cookie) for cookie in cookies}) == 4


def test_two_tabs_that_refresh_at_once_stay_signed_in(
    server: ServerProcess, browser: BrowserSession
) -> None:
    browser.sign_in(ANN)
    tabs = [browser.copy() for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        responses = list(threads.map(lambda tab: tab.refresh(), tabs))
    assert len({str(tab.cookies) for tab in tabs}) == 1, "they share one cookie afterwards"
    assert all(address(server, tokens) == ANN.address for tokens in responses)
    assert address(server, tabs[0].refresh()) == ANN.address


def test_a_response_that_was_lost_can_be_fetched_again(browser: BrowserSession) -> None:
    browser.sign_in(ANN)
    closed = browser.copy()
    closed.refresh()
    browser.refresh()
    assert browser.cookies == closed.cookies
    browser.refresh()


def test_a_token_before_the_last_ends_the_session_at_once(
    server: ServerProcess, browser: BrowserSession
) -> None:
    """A thief's copy is noticed as soon as both have gone on."""
    browser.sign_in(Wallet("a robbed browser"))
    stolen = browser.copy()
    browser.refresh()
    tokens = browser.refresh()
    assert stolen.refresh(expected=401)["code"] == "not_signed_in"
    assert is_over(server, tokens)
    browser.refresh(expected=401)
    entries = server.client().get(routes.AUDIT.path)["entries"]
    kinds = [entry["kind"] for entry in entries if entry["actor"] == tokens["account_id"]]
    assert kinds == ["refresh_reused", "signed_in", "account_created"]


def test_after_its_grace_a_used_token_ends_the_session(strict: ServerProcess) -> None:
    browser = BrowserSession(strict)
    browser.sign_in(ANN)
    other = browser.copy()
    tokens = browser.refresh()
    other.refresh(expected=401)
    assert is_over(strict, tokens)


def test_signing_out_ends_the_session_in_every_tab(
    server: ServerProcess, browser: BrowserSession
) -> None:
    tokens = browser.sign_in(ANN)
    late_tab = browser.copy()
    browser.logout()
    assert not browser.cookies, "the cookie is removed"
    assert is_over(server, tokens)
    late_tab.refresh(expected=401)
    browser.refresh(expected=401)
    browser.logout()
    other_browser = BrowserSession(server)
    assert address(server, other_browser.sign_in(ANN)) == ANN.address


def test_a_missing_or_wrong_cookie_signs_no_one_in(
    server: ServerProcess, browser: BrowserSession
) -> None:
    assert browser.refresh(expected=401)["code"] == "not_signed_in"
    browser.sign_in(ANN)
    ((name, value),) = browser.cookies.items()
    for wrong in ("", "x", value[:-1], value + "x", "potluck_refresh_" + "é" * 20, "x" * 600):
        browser.cookies = {name: wrong}
        response = browser.call(routes.BROWSER_REFRESH)
        assert response.status == 401, wrong
    browser.cookies = {name: f"{value}; {name}={value}"}
    browser.refresh(expected=401)
    browser.cookies = {name: value}
    browser.refresh()


def test_a_token_of_a_cookie_is_no_token_of_a_program_and_the_other_way_round(
    server: ServerProcess, browser: BrowserSession
) -> None:
    browser.sign_in(ANN)
    ((name, value),) = browser.cookies.items()
    anybody = server.client("")
    assert anybody.post(routes.REFRESH.path, {"refresh_token": value})["status"] == 401
    browser.refresh()
    program = ANN.sign_in(server.url)
    browser.cookies = {name: program["refresh_token"]}
    browser.refresh(expected=401)
    tokens = anybody.post(routes.REFRESH.path, {"refresh_token": program["refresh_token"]})
    assert "access_token" in tokens, "neither attempt has ended anything"


def test_the_session_is_listed_and_ended_like_any_other(
    server: ServerProcess, browser: BrowserSession
) -> None:
    wallet = Wallet("with a browser session")
    browser.sign_in(wallet)
    api = server.client(server.sign_in(wallet))
    (other,) = [s["id"] for s in api.get("/v1/me/sessions")["sessions"] if not s["is_current"]]
    assert api.call("DELETE", f"/v1/me/sessions/{other}").status == 204
    browser.refresh(expected=401)


def test_a_suspended_account_gets_a_sentence_and_keeps_its_cookie(
    server: ServerProcess, browser: BrowserSession
) -> None:
    tokens = browser.sign_in(Wallet("suspended in a browser"))
    admin, account = server.client(), tokens["account_id"]
    suspend = routes.SUSPEND_ACCOUNT.url(account_id=account)
    assert admin.call("POST", suspend, b'{"reason": "a test"}').status == 204
    assert browser.refresh(expected=403)["code"] == "account_suspended"
    assert admin.call("POST", routes.RESUME_ACCOUNT.url(account_id=account)).status == 204
    browser.refresh()
